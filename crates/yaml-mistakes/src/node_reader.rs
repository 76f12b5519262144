//! From the tree to a type, with every mistake on the way.
//!
//! A type's reader stops at its first error. So it is started again with something harmless in place of what
//! was wrong, until it has come through: what it gives is thrown away then, and the errors are the answer.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer as _, Visitor};

use crate::mistake::{YamlMistake, unknown_name};
use crate::node_error::{NodeAddress, NodeError, NodeProblem, node_address, of_placeholder};
use crate::placeholder::Placeholder;
use crate::tree::{YamlKey, YamlNode, YamlValue};

/// The mistakes that are looked for in one document; the work for each is that of reading it.
const MOST: usize = 100;

/// What is known so far of what is wrong.
#[derive(Default)]
struct NodeRepairs {
    /// Nodes that something harmless stands in for.
    replaced: BTreeSet<NodeAddress>,
    /// Keys that something harmless is given for.
    added: BTreeMap<NodeAddress, Vec<&'static str>>,
    /// Keys that a type does not have; found on the way and passed over.
    unknown: RefCell<BTreeSet<YamlMistake>>,
}

/// Reads `root` as a `T`. Beside mistakes the value is one to look for more of them in, and no more.
pub(super) fn read_typed<T: DeserializeOwned>(root: &YamlNode) -> (Option<T>, BTreeSet<YamlMistake>) {
    let mut repairs = NodeRepairs::default();
    let mut mistakes = BTreeSet::new();
    let mut value = None;
    while value.is_none() && mistakes.len() < MOST {
        let at = NodeReader {
            node: root,
            repairs: &repairs,
        };
        // Each round costs one reading of the document and finds at least one mistake more, or it is the last.
        match T::deserialize(at) {
            Ok(read) => value = Some(read),
            Err(wrong) => {
                if !repairs.learn(root, wrong, &mut mistakes) {
                    break;
                }
            }
        }
    }
    mistakes.append(&mut repairs.unknown.into_inner());
    (value, mistakes)
}

impl NodeRepairs {
    /// Notes what was wrong and what is to be done about it. Returns whether that is anything new.
    fn learn(&mut self, root: &YamlNode, wrong: NodeError, mistakes: &mut BTreeSet<YamlMistake>) -> bool {
        // Without a node it is what stood in for the whole document that was refused.
        let (address, place) = wrong.at.unwrap_or((node_address(root), root.place));
        match wrong.what {
            NodeProblem::Missing(key) => {
                let what = format!("the key \"{key}\" is missing");
                mistakes.insert(YamlMistake { place, what });
                let added = self.added.entry(address).or_default();
                // A reader by hand may ask for the same key again and again, whatever it is given.
                added.push(key);
                added.len() < MOST
            }
            NodeProblem::Said(what) => {
                mistakes.insert(YamlMistake { place, what });
                self.replaced.insert(address)
            }
            // What stood in was refused by the type around it, as by one that takes no empty text: then that is
            // stood in for, too.
            NodeProblem::OfPlaceholder => self.replaced.insert(address),
        }
    }
}

/// A node that is being read.
#[derive(Clone, Copy)]
struct NodeReader<'a> {
    node: &'a YamlNode,
    repairs: &'a NodeRepairs,
}

impl<'a> NodeReader<'a> {
    fn child(self, node: &'a YamlNode) -> Self {
        Self {
            node,
            repairs: self.repairs,
        }
    }

    fn is_replaced(self) -> bool {
        self.repairs.replaced.contains(&node_address(self.node))
    }

    /// Gives the visitor what the node is.
    fn visit<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match &self.node.value {
            YamlValue::Null => visitor.visit_unit(),
            YamlValue::Bool(flag, _) => visitor.visit_bool(*flag),
            YamlValue::Int(number, _) => visitor.visit_i64(*number),
            YamlValue::Float(number, _) => visitor.visit_f64(*number),
            YamlValue::Text(text) => visitor.visit_str(text),
            YamlValue::List(items) => {
                let items = items.iter().map(|item| self.child(item));
                visitor.visit_seq(ListItems(items))
            }
            YamlValue::Map(entries) => visitor.visit_map(MapEntries::new(self, entries.iter().collect())),
        }
    }

    /// The same where text is wanted: a number is the text that it was.
    fn visit_text<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match &self.node.value {
            YamlValue::Bool(_, text) | YamlValue::Int(_, text) | YamlValue::Float(_, text) => visitor.visit_str(text),
            _ => self.visit(visitor),
        }
    }

    /// The same where a type with `fields` is wanted: other keys are noted and passed over.
    fn visit_fields<'de, V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        let entries = match &self.node.value {
            YamlValue::Map(entries) => entries.as_slice(),
            // A key with nothing behind it is a map of which all keys are left out.
            YamlValue::Null => &[],
            _ => return self.visit(visitor),
        };
        let (known, strange): (Vec<_>, Vec<_>) =
            entries.iter().partition(|(key, _)| fields.contains(&key.text.as_str()));
        let strange = strange.into_iter().map(|(key, _)| YamlMistake {
            place: key.place,
            what: unknown_name("key", &key.text, fields),
        });
        // A set, as every round of reading comes past the same keys again.
        self.repairs.unknown.borrow_mut().extend(strange);
        visitor.visit_map(MapEntries::new(self, known))
    }
}

/// Reads the node by `read`, unless something stands in for it.
macro_rules! deserialize {
    ($($name:ident($($argument:ident: $type:ty),*) => $read:expr;)*) => {
        $(fn $name<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, NodeError> {
            if self.is_replaced() {
                return Placeholder.$name($($argument,)* visitor).map_err(of_placeholder);
            }
            // Written out, so that the short closures below need no types of their own.
            let read: fn(Self, $($type,)* V) -> Result<V::Value, NodeError> = $read;
            read(self, $($argument,)* visitor).map_err(|wrong| wrong.at(self.node))
        })*
    };
}

impl<'de> de::Deserializer<'de> for NodeReader<'_> {
    type Error = NodeError;

    deserialize! {
        deserialize_any() => Self::visit;
        deserialize_bool() => Self::visit;
        deserialize_i8() => Self::visit;
        deserialize_i16() => Self::visit;
        deserialize_i32() => Self::visit;
        deserialize_i64() => Self::visit;
        deserialize_u8() => Self::visit;
        deserialize_u16() => Self::visit;
        deserialize_u32() => Self::visit;
        deserialize_u64() => Self::visit;
        deserialize_f32() => Self::visit;
        deserialize_f64() => Self::visit;
        // A version such as 1.10 or a name such as `true` is text to who writes it, and a number or a flag to YAML.
        deserialize_char() => Self::visit_text;
        deserialize_str() => Self::visit_text;
        deserialize_string() => Self::visit_text;
        deserialize_bytes() => Self::visit_text;
        deserialize_byte_buf() => Self::visit_text;
        deserialize_identifier() => Self::visit_text;
        deserialize_unit() => Self::visit;
        deserialize_seq() => Self::visit;
        deserialize_map() => Self::visit;
        deserialize_ignored_any() => Self::visit;
        deserialize_unit_struct(name: &'static str) => |at, _, visitor| at.visit(visitor);
        deserialize_newtype_struct(name: &'static str) => |at, _, visitor| visitor.visit_newtype_struct(at);
        deserialize_tuple(length: usize) => |at, _, visitor| at.visit(visitor);
        deserialize_tuple_struct(name: &'static str, length: usize) => |at, _, _, visitor| at.visit(visitor);
        // A key with nothing behind it counts as left out.
        deserialize_option() => |at, visitor| match at.node.value {
            YamlValue::Null => visitor.visit_none(),
            _ => visitor.visit_some(at),
        };
        deserialize_struct(name: &'static str, fields: &'static [&'static str]) =>
            |at, _, fields, visitor| at.visit_fields(fields, visitor);
        deserialize_enum(name: &'static str, variants: &'static [&'static str]) =>
            |at, _, _, visitor| match &at.node.value {
                // A word such as `off` is a flag to YAML and a word here.
                YamlValue::Text(text)
                | YamlValue::Bool(_, text)
                | YamlValue::Int(_, text)
                | YamlValue::Float(_, text) => visitor.visit_enum(text.as_str().into_deserializer()),
                YamlValue::Map(entries) => {
                    let entries = MapEntries::new(at, entries.iter().collect());
                    visitor.visit_enum(de::value::MapAccessDeserializer::new(entries))
                }
                _ => at.visit(visitor),
            };
    }
}

/// The items of a list.
struct ListItems<I>(I);

impl<'a, 'de, I: Iterator<Item = NodeReader<'a>>> de::SeqAccess<'de> for ListItems<I> {
    type Error = NodeError;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, NodeError> {
        self.0.next().map(|at| seed.deserialize(at)).transpose()
    }
}

/// The entries of a map, and those that are given in place of missing ones.
struct MapEntries<'a> {
    at: NodeReader<'a>,
    given: std::vec::IntoIter<&'a (YamlKey, YamlNode)>,
    added: std::slice::Iter<'a, &'static str>,
    next: Option<&'a YamlNode>,
}

impl<'a> MapEntries<'a> {
    fn new(at: NodeReader<'a>, entries: Vec<&'a (YamlKey, YamlNode)>) -> Self {
        let added = at.repairs.added.get(&node_address(at.node));
        Self {
            at,
            given: entries.into_iter(),
            added: added.map(Vec::as_slice).unwrap_or_default().iter(),
            next: None,
        }
    }
}

impl<'de> de::MapAccess<'de> for MapEntries<'_> {
    type Error = NodeError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, NodeError> {
        let (key, at) = if let Some((key, node)) = self.given.next() {
            self.next = Some(node);
            // A mistake in the key is placed at its value: that is the node by which it can be replaced.
            (key.text.as_str(), node)
        } else {
            self.next = None;
            match self.added.next() {
                Some(key) => (*key, self.at.node),
                None => return Ok(None),
            }
        };
        let text: StrDeserializer<'_, NodeError> = key.into_deserializer();
        seed.deserialize(text).map(Some).map_err(|wrong| wrong.at(at))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, NodeError> {
        match self.next {
            Some(node) => seed.deserialize(self.at.child(node)),
            // The key is known to be missing: what its stand-in does not satisfy is no second mistake of the user's.
            None => seed.deserialize(Placeholder).map_err(of_placeholder),
        }
    }
}
