//! What `Json::of` writes and what it refuses, with the path.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use session_persistence::Json;

fn text(value: &(impl Serialize + ?Sized)) -> String {
    Json::of(value).expect("lossless").as_str().to_owned()
}

fn path(value: &(impl Serialize + ?Sized)) -> String {
    Json::of(value).expect_err("not lossless").path().to_owned()
}

#[derive(Serialize)]
struct Item {
    x: f64,
}

#[derive(Serialize)]
struct Data {
    items: Vec<Item>,
}

#[test]
fn numbers_are_written_as_ecmascript_writes_them() {
    assert_eq!(
        text(&[1.0, 0.1, 1e21, 1e-7, 3_575.580_405_706_788_5, 5e-324]),
        "[1,0.1,1e+21,1e-7,3575.5804057067885,5e-324]"
    );
    assert_eq!(text(&0.1f32), "0.1");
    assert_eq!(
        text(&(i64::from(i32::MIN), 1u64 << 53, 1u64 << 60)),
        "[-2147483648,9007199254740992,1152921504606846976]"
    );
}

#[test]
fn numbers_that_readers_elsewhere_cannot_hold_are_refused_with_their_path() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0] {
        let data = Data { items: vec![Item { x: 1.0 }, Item { x: 2.0 }, Item { x: 3.0 }, Item { x: bad }] };
        assert_eq!(path(&data), "items[3].x");
        assert!(Json::of(&data).unwrap_err().to_string().starts_with("items[3].x cannot be kept"));
    }
    for bad in [9_007_199_254_740_993u64, u64::MAX] {
        assert_eq!(path(&BTreeMap::from([("a b", [bad])])), "[\"a b\"][0]");
    }
    for bad in [i64::MAX, -9_007_199_254_740_993] {
        assert_eq!(path(&bad), "");
    }
    assert_eq!(path(&[u128::MAX]), "[0]");
    assert_eq!(path(&[i128::MAX]), "[0]");
    assert_eq!(text(&i64::MIN), "-9223372036854775808", "a power of two is exact");
}

#[test]
fn a_double_that_is_written_and_read_is_the_same_double() {
    let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..20_000 {
        bits = bits.rotate_left(7).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (bits >> 3);
        for double in [f64::from_bits(bits), (bits >> 11) as f64 / (1u64 << 53) as f64] {
            if double.is_finite() && double != 0.0 {
                let read: f64 = Json::of(&double).expect("lossless").to().expect("a number");
                assert_eq!(read.to_bits(), double.to_bits(), "{double:e}");
            }
        }
    }
}

#[test]
fn keys_must_be_strings_and_stand_once() {
    assert_eq!(path(&BTreeMap::from([(1, "x")])), "");
    assert_eq!(path(&BTreeMap::from([(true, "x")])), "");
    assert_eq!(text(&BTreeMap::from([('c', 1)])), r#"{"c":1}"#);

    struct Twice(usize);
    impl Serialize for Twice {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            s.collect_map((0..self.0).map(|i| (format!("k{i}"), i)).chain([("k0".to_owned(), 7)]))
        }
    }
    for size in [1, 15, 16, 17, 300] {
        assert_eq!(path(&Twice(size)), "k0", "after {size} other keys");
    }
}

#[test]
fn bytes_and_too_deep_values_are_refused() {
    struct Bytes;
    impl Serialize for Bytes {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            s.serialize_bytes(b"x")
        }
    }
    assert_eq!(path(&[Bytes]), "[0]");
    let mut deep = serde_json::Value::Null;
    for _ in 0..500 {
        deep = serde_json::Value::Array(vec![deep]);
    }
    Json::of(&deep).expect("500 levels");
    Json::of(&[deep]).expect_err("501 levels");
}

#[test]
fn every_shape_of_a_rust_value_has_its_json() {
    #[derive(Serialize)]
    enum Shape {
        Unit,
        New(u8),
        Pair(u8, u8),
        Fields { a: Option<u8>, b: () },
    }
    assert_eq!(
        text(&[Shape::Unit, Shape::New(1), Shape::Pair(1, 2), Shape::Fields { a: None, b: () }]),
        r#"["Unit",{"New":1},{"Pair":[1,2]},{"Fields":{"a":null,"b":null}}]"#
    );
    assert_eq!(text(&('c', "s", true, [0u8; 0])), r#"["c","s",true,[]]"#);
}

#[test]
fn the_path_of_what_is_refused_names_the_variant_around_it() {
    #[derive(Serialize)]
    enum Around {
        New(f64),
        Pair(u8, f64),
        Fields { x: f64 },
    }
    assert_eq!(path(&[Around::New(f64::NAN)]), "[0].New");
    assert_eq!(path(&[Around::Pair(1, f64::NAN)]), "[0].Pair[1]");
    assert_eq!(path(&[Around::Fields { x: f64::NAN }]), "[0].Fields.x");
}

#[test]
fn json_inside_a_value_is_written_verbatim() {
    let raw = serde_json::value::RawValue::from_string(r#"{"n":1.0,"k":1,"k":2}"#.to_owned()).unwrap();
    assert_eq!(text(&BTreeMap::from([("raw", raw)])), r#"{"raw":{"n":1.0,"k":1,"k":2}}"#);
}

#[test]
fn numbers_of_a_serde_json_value_are_the_same_text_whatever_features_the_build_has() {
    let value: serde_json::Value = serde_json::from_str("[1.0,1E2,12,0.1,-3,1e-7,1152921504606846976]").unwrap();
    assert_eq!(text(&value), "[1,100,12,0.1,-3,1e-7,1152921504606846976]");
    for rounded in ["9007199254740993", "18446744073709551615", "-9007199254740993"] {
        let value: serde_json::Value = serde_json::from_str(rounded).unwrap();
        assert_eq!(path(&[value]), "[0]");
    }
}

#[test]
fn a_value_that_answers_differently_each_time_is_asked_once() {
    struct Fickle(Cell<u32>);
    impl Serialize for Fickle {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            self.0.set(self.0.get() + 1);
            s.serialize_u32(self.0.get())
        }
    }
    let fickle = Fickle(Cell::new(0));
    assert_eq!(text(&fickle), "1");
    assert_eq!(fickle.0.get(), 1);
}

#[test]
fn a_map_whose_keys_and_values_do_not_pair_is_refused() {
    struct Odd(&'static str);
    impl Serialize for Odd {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            use serde::ser::{SerializeMap, SerializeStruct};
            if self.0 == "raw" {
                return s.serialize_struct("$serde_json::private::RawValue", 0)?.end();
            }
            let mut map = s.serialize_map(None)?;
            for step in self.0.bytes() {
                if step == b'k' { map.serialize_key("k")? } else { map.serialize_value(&1)? }
            }
            map.end()
        }
    }
    for odd in ["k", "v", "kk", "kvv", "raw"] {
        Json::of(&[Odd(odd)]).expect_err(odd);
    }
    assert_eq!(text(&Odd("kv")), r#"{"k":1}"#);
}

#[test]
fn a_value_that_fails_half_way_leaves_its_reason_and_its_place() {
    let cell = RefCell::new(1);
    let held = cell.borrow_mut();
    let failure = Json::of(&[("a", &cell)]).unwrap_err();
    assert_eq!(failure.path(), "[0][1]");
    assert!(failure.reason().contains("borrowed"), "{failure}");
    drop(held);
    assert_eq!(text(&cell), "1");
}
