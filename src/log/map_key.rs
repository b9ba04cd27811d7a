//! The keys of a map on their way into JSON text: strings, and each once.

use std::collections::HashSet;
use std::ops::Range;

use serde::ser::{self, Serialize};

use super::lossless::{Failure, Writer};

/// The keys that one object has so far: a list while it is short, then a set.
#[derive(Default)]
pub(super) struct Keys {
    few: Vec<Range<usize>>,
    many: HashSet<Box<str>>,
}

impl Keys {
    const FEW: usize = 16;

    pub(super) fn add(&mut self, out: &str, key: Range<usize>) -> bool {
        if self.many.is_empty() {
            if self.few.iter().any(|k| out[k.clone()] == out[key.clone()]) {
                return false;
            }
            self.few.push(key);
            if self.few.len() > Self::FEW {
                self.many = self.few.drain(..).map(|k| out[k].into()).collect();
            }
            return true;
        }
        self.many.insert(out[key].into())
    }
}

/// Writes a map key, which must serialize as a string.
pub(super) struct MapKey<'w>(pub(super) &'w mut Writer);

macro_rules! refused_keys {
    ($($method:ident($($arg:ty),*) -> $ok:ty;)*) => {$(
        fn $method(self, $(_: $arg),*) -> Result<$ok, Failure> {
            Err(Failure::new("a map key is not a string"))
        }
    )*};
}

impl<'w> ser::Serializer for MapKey<'w> {
    type Ok = ();
    type Error = Failure;
    type SerializeSeq = ser::Impossible<(), Failure>;
    type SerializeTuple = ser::Impossible<(), Failure>;
    type SerializeTupleStruct = ser::Impossible<(), Failure>;
    type SerializeTupleVariant = ser::Impossible<(), Failure>;
    type SerializeMap = ser::Impossible<(), Failure>;
    type SerializeStruct = ser::Impossible<(), Failure>;
    type SerializeStructVariant = ser::Impossible<(), Failure>;

    fn serialize_str(self, v: &str) -> Result<(), Failure> {
        self.0.serialize_str(v)
    }
    fn serialize_char(self, v: char) -> Result<(), Failure> {
        self.0.serialize_char(v)
    }
    fn serialize_unit_variant(self, name: &'static str, i: u32, variant: &'static str) -> Result<(), Failure> {
        self.0.serialize_unit_variant(name, i, variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Failure> {
        value.serialize(self)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<(), Failure> {
        Err(Failure::new("a map key is not a string"))
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Failure> {
        Err(Failure::new("a map key is not a string"))
    }
    refused_keys! {
        serialize_bool(bool) -> ();
        serialize_i8(i8) -> ();
        serialize_i16(i16) -> ();
        serialize_i32(i32) -> ();
        serialize_i64(i64) -> ();
        serialize_i128(i128) -> ();
        serialize_u8(u8) -> ();
        serialize_u16(u16) -> ();
        serialize_u32(u32) -> ();
        serialize_u64(u64) -> ();
        serialize_u128(u128) -> ();
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_none() -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_seq(Option<usize>) -> ser::Impossible<(), Failure>;
        serialize_tuple(usize) -> ser::Impossible<(), Failure>;
        serialize_tuple_struct(&'static str, usize) -> ser::Impossible<(), Failure>;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> ser::Impossible<(), Failure>;
        serialize_map(Option<usize>) -> ser::Impossible<(), Failure>;
        serialize_struct(&'static str, usize) -> ser::Impossible<(), Failure>;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> ser::Impossible<(), Failure>;
    }
}
