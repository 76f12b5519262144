//! A document as a tree whose nodes know where they stand.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde_saphyr::{Location, Spanned};

use crate::mistake::{TextPosition, YamlMistake};
use crate::parse_error::{NESTING, parse_error_words};

/// A value and its place.
#[derive(Debug, Clone)]
pub(super) struct YamlNode {
    pub place: TextPosition,
    pub value: YamlValue,
}

/// A key and its place.
#[derive(Debug, Clone)]
pub(super) struct YamlKey {
    pub place: TextPosition,
    pub text: String,
}

/// What YAML's core schema makes of a node.
#[derive(Debug, Clone)]
pub(super) enum YamlValue {
    Null,
    /// A plain scalar that is more than text, as it is written: a version such as 1.10 is text to most readers.
    Bool(bool, String),
    Int(i64, String),
    Float(f64, String),
    Text(String),
    List(Vec<YamlNode>),
    Map(Vec<(YamlKey, YamlNode)>),
}

impl YamlNode {
    /// The node that `path` leads to, or the last one on the way.
    pub(crate) fn follow(&self, path: &[&str]) -> &Self {
        let Some((first, rest)) = path.split_first() else {
            return self;
        };
        let next = match &self.value {
            YamlValue::Map(entries) => entries.iter().find(|(key, _)| key.text == *first).map(|(_, node)| node),
            YamlValue::List(items) => first.parse().ok().and_then(|number: usize| items.get(number)),
            _ => None,
        };
        next.map_or(self, |next| next.follow(rest))
    }

    /// Where the key of an entry stands; where there is none, where the node does.
    pub(crate) fn place_of_key(&self, wanted: &str) -> TextPosition {
        match &self.value {
            YamlValue::Map(entries) => entries
                .iter()
                .find(|(key, _)| key.text == wanted)
                .map_or(self.place, |(key, _)| key.place),
            _ => self.place,
        }
    }

    /// Takes an entry out of a map.
    pub(crate) fn take(&mut self, wanted: &str) -> Option<Self> {
        let YamlValue::Map(entries) = &mut self.value else {
            return None;
        };
        let at = entries.iter().position(|(key, _)| key.text == wanted)?;
        Some(entries.remove(at).1)
    }
}

/// Reads text into a tree.
pub(super) fn parse_tree(text: &str) -> Result<YamlNode, YamlMistake> {
    // The caller says where; a snippet would print lines of a file to which a hostile link may have led.
    let budget = serde_saphyr::budget! { max_depth: NESTING };
    let options = serde_saphyr::options! { with_snippet: false, budget: budget };
    let read: Result<Spanned<RawYaml>, _> = serde_saphyr::from_str_with_options(text, options);
    read.map(|raw| node(raw, text)).map_err(|error| YamlMistake {
        place: error.location().map_or(TextPosition { line: 1, column: 1 }, place),
        what: parse_error_words(&error),
    })
}

fn place(location: Location) -> TextPosition {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    TextPosition {
        line: number(location.line()),
        column: number(location.column()),
    }
}

/// A value as the parser gives it: numbers without the text they were.
enum RawYaml {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Spanned<RawYaml>>),
    Map(Vec<(Spanned<String>, Spanned<RawYaml>)>),
}

fn node(raw: Spanned<RawYaml>, text: &str) -> YamlNode {
    let span = raw.defined.span();
    // The words as they stand in the file: `1.10` would come back from a number as `1.1`.
    let written = || {
        let from = span.byte_offset().and_then(|at| usize::try_from(at).ok());
        let bytes = span.byte_len().and_then(|bytes| usize::try_from(bytes).ok());
        let end = from.zip(bytes).and_then(|(from, bytes)| from.checked_add(bytes));
        let slice = from.zip(end).and_then(|(from, end)| text.get(from..end));
        slice.unwrap_or_default().trim().to_owned()
    };
    let value = match raw.value {
        RawYaml::Null => YamlValue::Null,
        RawYaml::Bool(flag) => YamlValue::Bool(flag, written()),
        RawYaml::Int(number) => YamlValue::Int(number, written()),
        RawYaml::Float(number) => YamlValue::Float(number, written()),
        RawYaml::Text(text) => YamlValue::Text(text),
        RawYaml::List(items) => YamlValue::List(items.into_iter().map(|item| node(item, text)).collect()),
        RawYaml::Map(entries) => YamlValue::Map(
            entries
                .into_iter()
                .map(|(key, value)| (self::key(key), node(value, text)))
                .collect(),
        ),
    };
    YamlNode {
        // Where an alias stands, not the anchor that it repeats: there the reader has to change something.
        place: place(raw.referenced),
        value,
    }
}

fn key(key: Spanned<String>) -> YamlKey {
    YamlKey {
        place: place(key.referenced),
        text: key.value,
    }
}

impl<'de> Deserialize<'de> for RawYaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawYaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<RawYaml, E> {
        Ok(RawYaml::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<RawYaml, E> {
        Ok(RawYaml::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<RawYaml, E> {
        Ok(RawYaml::Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<RawYaml, E> {
        // A number that no field takes is text, of which the reader says what it expected.
        Ok(i64::try_from(number).map_or_else(|_| RawYaml::Text(number.to_string()), RawYaml::Int))
    }

    fn visit_f64<E>(self, number: f64) -> Result<RawYaml, E> {
        Ok(RawYaml::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<RawYaml, E> {
        Ok(RawYaml::Text(text.to_owned()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<RawYaml, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(RawYaml::List(list))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut entries: A) -> Result<RawYaml, A::Error> {
        // In the order of the file, in which mistakes are told; serde-saphyr has refused keys that stand twice.
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(RawYaml::Map(map))
    }
}
