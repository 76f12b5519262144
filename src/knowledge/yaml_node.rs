//! YAML that was parsed when the program was compiled, read into types without another look at its text.

use serde::de::value::{Error, MapAccessDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, IntoDeserializer, Visitor};

/// A YAML value without nulls. Scalars are text, and the type that is read decides what they mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YamlNode {
    /// A scalar, as written.
    Text(&'static str),
    /// A sequence.
    List(&'static [Self]),
    /// A mapping.
    Map(&'static [(Self, Self)]),
}

impl YamlNode {
    fn parse<T: std::str::FromStr>(self) -> Option<T> {
        match self {
            Self::Text(text) => text.parse().ok(),
            _ => None,
        }
    }
}

impl IntoDeserializer<'_> for YamlNode {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! parsed {
    ($($method:ident: $visit:ident,)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.parse() {
                Some(value) => visitor.$visit(value),
                None => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for YamlNode {
    type Error = Error;

    parsed! {
        deserialize_bool: visit_bool,
        deserialize_i8: visit_i8,
        deserialize_i16: visit_i16,
        deserialize_i32: visit_i32,
        deserialize_i64: visit_i64,
        deserialize_u8: visit_u8,
        deserialize_u16: visit_u16,
        deserialize_u32: visit_u32,
        deserialize_u64: visit_u64,
        deserialize_f32: visit_f32,
        deserialize_f64: visit_f64,
    }

    serde::forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Text(text) => visitor.visit_borrowed_str(text),
            Self::List(items) => visitor.visit_seq(SeqDeserializer::new(items.iter().copied())),
            Self::Map(entries) => visitor.visit_map(MapDeserializer::new(entries.iter().copied())),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Self::Text(text) => visitor.visit_enum(text.into_deserializer()),
            Self::Map(entries) => visitor.visit_enum(MapAccessDeserializer::new(MapDeserializer::new(
                entries.iter().copied(),
            ))),
            Self::List(_) => self.deserialize_any(visitor),
        }
    }
}
