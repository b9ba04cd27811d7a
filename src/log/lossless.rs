//! The one serialization pass from a Rust value to JSON text that every reader takes back unchanged.

use std::fmt::Display;
use std::ops::Range;

use serde::ser::{self, Serialize};
use serde_json::value::RawValue;

use super::json::{NotLossless, push_string};
use super::map_key::{Keys, MapKey};
use super::number::{decimal, is_exact_signed, is_exact_unsigned};
use super::path::{self, Step};

/// Deeper values would risk the stack of the thread, which the value's own `Serialize` uses as well.
const MAX_DEPTH: usize = 500;

/// serde_json marks these two by name: text that is JSON already, and (with its feature `arbitrary_precision`, which any
/// crate of a build can switch on) each of its numbers.
const RAW_TOKEN: &str = "$serde_json::private::RawValue";
const NUMBER_TOKEN: &str = "$serde_json::private::Number";

const UNPAIRED: &str = "a map gives keys and values that do not pair; its Serialize is at fault";

const INEXACT: &str = "an IEEE double cannot hold this integer exactly, other readers would round it; send it as text";

pub(super) fn write<T: Serialize + ?Sized>(value: &T) -> Result<String, NotLossless> {
    let mut writer = Writer { out: String::with_capacity(128), depth: 0 };
    value.serialize(&mut writer).map_err(Failure::into_not_lossless)?;
    Ok(writer.out)
}

pub(super) struct Writer {
    out: String,
    depth: usize,
}

/// A refusal on its way out; each container that it passes adds its step to the path.
#[derive(Debug)]
pub(super) struct Failure(Box<(Vec<Step>, String)>);

impl Failure {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self(Box::new((Vec::new(), reason.into())))
    }

    fn through(mut self, step: Step) -> Self {
        self.0.0.push(step);
        self
    }

    fn into_not_lossless(self) -> NotLossless {
        let (steps, reason) = *self.0;
        NotLossless::new(path::of(&steps), reason)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.1)
    }
}

impl std::error::Error for Failure {}

impl ser::Error for Failure {
    fn custom<T: Display>(reason: T) -> Self {
        Self::new(reason.to_string())
    }
}

impl Writer {
    fn enter(&mut self, open: char) -> Result<(), Failure> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Failure::new(format!(
                "nested deeper than {MAX_DEPTH} levels; give such a value as text with Json::parse"
            )));
        }
        self.out.push(open);
        Ok(())
    }

    fn enter_variant(&mut self, variant: &str, open: char) -> Result<(), Failure> {
        self.enter('{')?;
        push_string(&mut self.out, variant);
        self.out.push(':');
        self.enter(open)
    }

    fn signed(&mut self, v: i128) -> Result<(), Failure> {
        if !is_exact_signed(v) {
            return Err(Failure::new(INEXACT));
        }
        self.out.push_str(itoa::Buffer::new().format(v));
        Ok(())
    }

    fn unsigned(&mut self, v: u128) -> Result<(), Failure> {
        if !is_exact_unsigned(v) {
            return Err(Failure::new(INEXACT));
        }
        self.out.push_str(itoa::Buffer::new().format(v));
        Ok(())
    }

    fn float(&mut self, v: f64, text: impl FnOnce(&mut ryu_js::Buffer) -> &str) -> Result<(), Failure> {
        if !v.is_finite() {
            return Err(Failure::new(format!("JSON has no number for {v}")));
        }
        if v == 0.0 && v.is_sign_negative() {
            return Err(Failure::new("-0.0 comes back as 0 from other readers; send 0"));
        }
        let mut buffer = ryu_js::Buffer::new();
        self.out.push_str(text(&mut buffer));
        Ok(())
    }

    /// The text of a number in a build where serde_json keeps numbers as text: written as the same number is in a build
    /// where it does not.
    fn number_text(&mut self, text: &str) -> Result<(), Failure> {
        if !text.contains(['.', 'e', 'E']) && text != "-0" {
            if let Ok(v) = text.parse::<u128>() {
                return self.unsigned(v);
            }
            if let Ok(v) = text.parse::<i128>() {
                return self.signed(v);
            }
        }
        let double: f64 = text.parse().map_err(|_| Failure::new(format!("`{text}` is not a number")))?;
        if double.is_finite() {
            let shortest = ryu_js::Buffer::new().format_finite(double).to_owned();
            if decimal(&shortest) != decimal(text) {
                return Err(Failure::new(format!(
                    "an IEEE double cannot hold {text}, other readers would round it; send it as text"
                )));
            }
        }
        self.float(double, |b| b.format_finite(double))
    }

    fn raw_text(&mut self, text: &str) -> Result<(), Failure> {
        let raw: &RawValue = serde_json::from_str(text).map_err(|e| Failure::new(e.to_string()))?;
        if raw.get().contains('\n') {
            return Err(Failure::new("line feed between tokens; an event stands on one line"));
        }
        self.out.push_str(raw.get());
        Ok(())
    }
}

/// An array or object being written.
pub(super) struct Compound<'w> {
    writer: &'w mut Writer,
    close: &'static str,
    count: usize,
    keys: Keys,
    key: Range<usize>,
    /// Whether a key was written and its value not yet.
    is_open: bool,
    /// The variant of an enum that stands around it: a step of the path and a level of its own.
    variant: Option<&'static str>,
}

impl<'w> Compound<'w> {
    fn new(writer: &'w mut Writer, close: &'static str) -> Self {
        Self { writer, close, count: 0, keys: Keys::default(), key: 0..0, is_open: false, variant: None }
    }

    /// A failure below this place, seen from outside the variant around it.
    fn through_variant(&self, failure: Failure) -> Failure {
        match self.variant {
            Some(variant) => failure.through(Step::Key(variant.to_owned())),
            None => failure,
        }
    }

    fn comma(&mut self) {
        if self.count > 0 {
            self.writer.out.push(',');
        }
        self.count += 1;
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        self.comma();
        value.serialize(&mut *self.writer).map_err(|e| self.through_variant(e.through(Step::Index(self.count - 1))))
    }

    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Failure> {
        if std::mem::replace(&mut self.is_open, true) {
            return Err(Failure::new(UNPAIRED));
        }
        self.comma();
        let start = self.writer.out.len();
        key.serialize(MapKey(&mut *self.writer))?;
        self.key = start..self.writer.out.len();
        if !self.keys.add(&self.writer.out, self.key.clone()) {
            let twice = Failure::new("the same key twice; readers elsewhere keep only one");
            return Err(self.through_variant(twice.through(self.step())));
        }
        self.writer.out.push(':');
        Ok(())
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        if !std::mem::replace(&mut self.is_open, false) {
            return Err(Failure::new(UNPAIRED));
        }
        value.serialize(&mut *self.writer).map_err(|e| self.through_variant(e.through(self.step())))
    }

    fn step(&self) -> Step {
        let text = &self.writer.out[self.key.clone()];
        Step::Key(serde_json::from_str(text).unwrap_or_else(|_| text.to_owned()))
    }

    fn finish(self) -> Result<(), Failure> {
        if self.is_open {
            return Err(Failure::new(UNPAIRED));
        }
        self.writer.depth -= 1 + usize::from(self.variant.is_some());
        self.writer.out.push_str(self.close);
        Ok(())
    }
}

macro_rules! elements {
    ($($trait:ident $method:ident),*) => {$(
        impl ser::$trait for Compound<'_> {
            type Ok = ();
            type Error = Failure;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
                self.element(value)
            }
            fn end(self) -> Result<(), Failure> {
                self.finish()
            }
        }
    )*};
}
elements!(SerializeSeq serialize_element, SerializeTuple serialize_element,
          SerializeTupleStruct serialize_field, SerializeTupleVariant serialize_field);

impl ser::SerializeMap for Compound<'_> {
    type Ok = ();
    type Error = Failure;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Failure> {
        self.key(key)
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        self.value(value)
    }
    fn end(self) -> Result<(), Failure> {
        self.finish()
    }
}

impl ser::SerializeStructVariant for Compound<'_> {
    type Ok = ();
    type Error = Failure;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Failure> {
        self.key(key)?;
        self.value(value)
    }
    fn end(self) -> Result<(), Failure> {
        self.finish()
    }
}

/// A struct, or one of the two names under which serde_json passes text through a serializer.
pub(super) enum Struct<'w> {
    Fields(Compound<'w>),
    /// Whether its text has come.
    Raw(&'w mut Writer, bool),
    Number(&'w mut Writer, bool),
}

impl ser::SerializeStruct for Struct<'_> {
    type Ok = ();
    type Error = Failure;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Failure> {
        match self {
            Self::Fields(compound) => {
                compound.key(key)?;
                compound.value(value)
            }
            Self::Raw(_, true) | Self::Number(_, true) => {
                Err(Failure::new("a value that claims to be JSON text has two"))
            }
            Self::Raw(writer, has_text) => {
                *has_text = true;
                writer.raw_text(&plain_text(value)?)
            }
            Self::Number(writer, has_text) => {
                *has_text = true;
                writer.number_text(&plain_text(value)?)
            }
        }
    }
    fn end(self) -> Result<(), Failure> {
        match self {
            Self::Fields(compound) => compound.finish(),
            Self::Raw(_, true) | Self::Number(_, true) => Ok(()),
            Self::Raw(..) | Self::Number(..) => Err(Failure::new("a value that claims to be JSON text has none")),
        }
    }
}

/// The text inside one of serde_json's marked structs.
fn plain_text<T: Serialize + ?Sized>(value: &T) -> Result<String, Failure> {
    let mut text = Writer { out: String::new(), depth: 0 };
    value.serialize(&mut text)?;
    serde_json::from_str(&text.out).map_err(|e| Failure::new(e.to_string()))
}

macro_rules! numbers {
    ($($method:ident $t:ty => $to:ident as $wide:ty),*) => {$(
        fn $method(self, v: $t) -> Result<(), Failure> {
            self.$to(<$wide>::from(v))
        }
    )*};
}

impl<'w> ser::Serializer for &'w mut Writer {
    type Ok = ();
    type Error = Failure;
    type SerializeSeq = Compound<'w>;
    type SerializeTuple = Compound<'w>;
    type SerializeTupleStruct = Compound<'w>;
    type SerializeTupleVariant = Compound<'w>;
    type SerializeMap = Compound<'w>;
    type SerializeStruct = Struct<'w>;
    type SerializeStructVariant = Compound<'w>;

    numbers!(serialize_i8 i8 => signed as i128, serialize_i16 i16 => signed as i128, serialize_i32 i32 => signed as i128,
        serialize_i64 i64 => signed as i128, serialize_i128 i128 => signed as i128, serialize_u8 u8 => unsigned as u128,
        serialize_u16 u16 => unsigned as u128, serialize_u32 u32 => unsigned as u128, serialize_u64 u64 => unsigned as u128,
        serialize_u128 u128 => unsigned as u128);

    fn serialize_bool(self, v: bool) -> Result<(), Failure> {
        self.out.push_str(if v { "true" } else { "false" });
        Ok(())
    }
    fn serialize_f32(self, v: f32) -> Result<(), Failure> {
        self.float(v.into(), |b| b.format_finite(v))
    }
    fn serialize_f64(self, v: f64) -> Result<(), Failure> {
        self.float(v, |b| b.format_finite(v))
    }
    fn serialize_char(self, v: char) -> Result<(), Failure> {
        self.serialize_str(v.encode_utf8(&mut [0; 4]))
    }
    fn serialize_str(self, v: &str) -> Result<(), Failure> {
        push_string(&mut self.out, v);
        Ok(())
    }
    fn serialize_bytes(self, _: &[u8]) -> Result<(), Failure> {
        Err(Failure::new("JSON has no bytes; send them as text"))
    }
    fn serialize_none(self) -> Result<(), Failure> {
        self.serialize_unit()
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Failure> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<(), Failure> {
        self.out.push_str("null");
        Ok(())
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Failure> {
        self.serialize_unit()
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Failure> {
        self.serialize_str(variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Failure> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Failure> {
        let mut object = self.serialize_map(Some(1))?;
        object.key(variant)?;
        object.value(value)?;
        object.finish()
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Compound<'w>, Failure> {
        self.enter('[')?;
        Ok(Compound::new(self, "]"))
    }
    fn serialize_tuple(self, len: usize) -> Result<Compound<'w>, Failure> {
        self.serialize_seq(Some(len))
    }
    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<Compound<'w>, Failure> {
        self.serialize_seq(Some(len))
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'w>, Failure> {
        self.enter_variant(variant, '[')?;
        Ok(Compound { variant: Some(variant), ..Compound::new(self, "]}") })
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Compound<'w>, Failure> {
        self.enter('{')?;
        Ok(Compound::new(self, "}"))
    }
    fn serialize_struct(self, name: &'static str, len: usize) -> Result<Struct<'w>, Failure> {
        Ok(match name {
            RAW_TOKEN => Struct::Raw(self, false),
            NUMBER_TOKEN => Struct::Number(self, false),
            _ => Struct::Fields(self.serialize_map(Some(len))?),
        })
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'w>, Failure> {
        self.enter_variant(variant, '{')?;
        Ok(Compound { variant: Some(variant), ..Compound::new(self, "}}") })
    }
}
