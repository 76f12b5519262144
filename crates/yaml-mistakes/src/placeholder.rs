//! What stands in for a value that is wrong or missing: the least that each type takes. It is never kept.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use crate::node_error::NodeError;

/// Numbers take zero, of any width.
macro_rules! zero {
    ($($name:ident)*) => {
        $(fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
            // serde's readers of numbers, wide ones and floating ones as well, take the narrowest.
            visitor.visit_u8(0)
        })*
    };
}

/// Gives every type the least that it takes.
#[derive(Clone, Copy)]
pub(super) struct Placeholder;

impl IntoDeserializer<'_, NodeError> for Placeholder {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> de::Deserializer<'de> for Placeholder {
    type Error = NodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        // What takes anything takes text, and so do the kinds of text that are forwarded to here below.
        visitor.visit_str("")
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        visitor.visit_bool(false)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        visitor.visit_char(' ')
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        visitor.visit_none()
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, NodeError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        self.deserialize_tuple(0, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, NodeError> {
        visitor.visit_seq(SeqDeserializer::new(std::iter::repeat_n(self, length)))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        self.deserialize_tuple(length, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        // A map needs no keys; a type with fields, read below, gets all of its own, so that none is missing.
        self.deserialize_struct("", &[], visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        let fields = fields.iter().map(|field| (*field, self));
        visitor.visit_map(MapDeserializer::new(fields))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        // The first variant is as good as any, and every enum that can be read has one.
        visitor.visit_enum(FirstVariant(variants.first().copied().unwrap_or_default()))
    }

    forward_to_deserialize_any! { str string bytes byte_buf identifier ignored_any }

    zero! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16
        deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64
    }
}

/// The first variant of an enum, with the least that it takes.
struct FirstVariant(&'static str);

impl<'de> de::EnumAccess<'de> for FirstVariant {
    type Error = NodeError;
    type Variant = Placeholder;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Placeholder), NodeError> {
        let name: de::value::StrDeserializer<'_, NodeError> = self.0.into_deserializer();
        Ok((seed.deserialize(name)?, Placeholder))
    }
}

impl<'de> de::VariantAccess<'de> for Placeholder {
    type Error = NodeError;

    fn unit_variant(self) -> Result<(), NodeError> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, NodeError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, NodeError> {
        de::Deserializer::deserialize_tuple(self, length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        de::Deserializer::deserialize_struct(self, "", fields, visitor)
    }
}
