//! Parses YAML written by users: rules, profiles, the config. The result is a value or the first mistake.
//!
//! Types cannot check references to other files. Readers check them afterwards and ask [`YamlText::mistake`] for the
//! position.

use std::fmt;

use image_linkage::escape::escape_bytes;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Error, Location, MessageFormatter as _, Options, Spanned, UserMessageFormatter};

use super::mistake::{TextMistake, TextPosition, unknown_name};

/// The maximum nesting of a document. The deepest built-in one has six levels. In debug builds each level takes 32 kB
/// of stack, and a thread has 2 MB.
const NESTING: usize = 24;

/// The maximum letters of a wrong value in a message.
const SHOWN: usize = 60;

/// The text of one document.
#[derive(Debug, Clone, Copy)]
pub struct YamlText<'t> {
    text: &'t str,
    json: Option<&'static str>,
}

impl<'t> YamlText<'t> {
    /// A document of the user.
    pub const fn of(text: &'t str) -> Self {
        Self { text, json: None }
    }

    /// The document of the program that is this JSON.
    pub(super) const fn with_json(self, json: Option<&'static str>) -> Self {
        Self { json, ..self }
    }

    /// Whether it is a file of the program.
    pub(super) fn is_built_in(self) -> bool {
        self.json.is_some()
    }

    /// Parses the document as a `T`.
    ///
    /// Errors: The first mistake: invalid YAML, too much nesting or repetition, or a key or value that `T` does not
    /// accept.
    pub fn read<T: DeserializeOwned>(self) -> Result<T, TextMistake> {
        if let Some(json) = self.json {
            return Ok(built_in(json));
        }
        serde_saphyr::from_str_with_options(self.text, options()).map_err(|error| TextMistake {
            place: error.location().map_or(TextPosition::START, position),
            what: self.words(&error),
        })
    }

    /// A mistake at the value that `path` leads to: map keys and list indexes. If the path ends early, the position is
    /// that of the last value on it.
    pub fn mistake(self, path: &[&str], what: String) -> TextMistake {
        let place = self.place(path);
        TextMistake { place, what }
    }

    /// The position of [`YamlText::mistake`].
    pub(super) fn place(self, path: &[&str]) -> TextPosition {
        let place = (0..=path.len()).rev().find_map(|length| self.find(path.get(..length)?));
        place.unwrap_or(TextPosition::START)
    }

    /// Checks the list, or the single name, at `path`. If `known` is empty, every name is valid.
    ///
    /// Errors: The first unknown name of a `kind`.
    pub fn check_names(self, path: &[&str], names: &[String], kind: &str, known: &[&str]) -> Result<(), TextMistake> {
        let mut numbered = names.iter().enumerate();
        let strange = numbered.find(|(_, name)| !known.is_empty() && !known.contains(&name.as_str()));
        strange.map_or(Ok(()), |(number, name)| {
            let number = number.to_string();
            let path = [path, &[&number]].concat();
            Err(self.mistake(&path, unknown_name(kind, name, known)))
        })
    }

    fn find(self, path: &[&str]) -> Option<TextPosition> {
        let find = |yaml: serde_saphyr::Deserializer<'_, '_>| PlaceSeed { path }.deserialize(yaml);
        let found = serde_saphyr::with_deserializer_from_str_with_options(self.text, options(), find);
        found.ok().flatten().map(position)
    }

    /// The message without the position: in YAML terms where the parser's own is for developers.
    fn words(self, error: &Error) -> String {
        let words = match error {
            Error::AliasError { error, .. } => return self.words(error),
            Error::SerdeInvalidType { expected, .. } => format!("expected {expected}{}", self.found(error)),
            Error::SerdeUnknownField { field, expected, .. } => return unknown_name("key", field, expected),
            Error::SerdeUnknownVariant { variant, expected, .. } => return unknown_name("value", variant, expected),
            Error::Unexpected { expected, .. } => match *expected {
                "mapping start" => "expected a map of keys, each as KEY: VALUE".to_owned(),
                "sequence start" => "expected a list, each entry as - ENTRY".to_owned(),
                "string scalar" => "expected one value, found a list or a map".to_owned(),
                other => format!("expected {other}"),
            },
            Error::InvalidScalar { ty, .. } => {
                let form = match *ty {
                    "boolean" => "true or false",
                    "floating point" => "a number",
                    ty if ty.starts_with('u') => "a whole number from 0 on",
                    _ => "a whole number",
                };
                format!("expected {form}{}", self.found(error))
            }
            Error::UnknownAnchor { .. } => "a value that begins with * needs quotes".to_owned(),
            Error::Budget { .. } | Error::AliasReplayLimitExceeded { .. } => {
                format!("the document is too large, repeats too much by aliases, or has a depth of more than {NESTING}")
            }
            _ => UserMessageFormatter.format_message(error).into_owned(),
        };
        escape_bytes(words.as_bytes())
    }

    /// The value at an error's position, as the end of a sentence.
    fn found(self, error: &Error) -> String {
        let text = error.location().and_then(|place| {
            let (from, bytes) = (place.span().byte_offset()?, place.span().byte_len()?);
            let end = usize::try_from(from.checked_add(bytes)?).ok()?;
            self.text.get(usize::try_from(from).ok()?..end)
        });
        match text.and_then(|text| text.lines().next()) {
            // A list or a map has no word.
            Some(word) if !word.starts_with(['[', '{', '&', '*', '|', '>']) => {
                format!(", found {}", word.chars().take(SHOWN).collect::<String>())
            }
            _ => String::new(),
        }
    }
}

/// A value of the program, from YAML that became JSON when the program was compiled.
pub(super) fn built_in<T: DeserializeOwned>(json: &str) -> T {
    serde_json::from_str(json).expect("a test reads the files of the program")
}

fn options() -> Options {
    let budget = serde_saphyr::budget! { max_depth: NESTING };
    // The caller reports the position. A snippet would leak lines of a file that a hostile link leads to.
    serde_saphyr::options! { with_snippet: false, budget: budget }
}

/// A position from serde-saphyr.
pub fn position(location: Location) -> TextPosition {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    TextPosition {
        line: number(location.line()),
        column: number(location.column()),
    }
}

/// Follows a path of keys and indexes through a document, to the position of the value.
#[derive(Clone, Copy)]
struct PlaceSeed<'p> {
    path: &'p [&'p str],
}

impl<'de> DeserializeSeed<'de> for PlaceSeed<'_> {
    type Value = Option<Location>;

    fn deserialize<D: Deserializer<'de>>(self, yaml: D) -> Result<Self::Value, D::Error> {
        if self.path.is_empty() {
            let node: Spanned<IgnoredAny> = serde::Deserialize::deserialize(yaml)?;
            // The position of an alias, not of its anchor, because the user must edit the former.
            return Ok(Some(node.referenced));
        }
        yaml.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PlaceSeed<'_> {
    type Value = Option<Location>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or a map")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let Some((first, path)) = self.path.split_first() else {
            return Ok(None);
        };
        for _ in 0..first.parse().unwrap_or(usize::MAX) {
            if items.next_element::<IgnoredAny>()?.is_none() {
                return Ok(None);
            }
        }
        let found = items.next_element_seed(PlaceSeed { path })?;
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found.flatten())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let Some((first, path)) = self.path.split_first() else {
            return Ok(None);
        };
        let mut found = None;
        while let Some(key) = entries.next_key::<String>()? {
            if key == *first {
                found = entries.next_value_seed(PlaceSeed { path })?;
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::YamlText;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Colour {
        Red,
        Green,
        Off,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wheel {
        size: u32,
        colour: Colour,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Car {
        name: String,
        wheels: Vec<Wheel>,
        notes: BTreeMap<String, String>,
        electric: bool,
        doors: u32,
    }

    fn mistake(text: &str) -> String {
        let read: Result<Car, _> = YamlText::of(text).read();
        read.map_or_else(|mistake| mistake.to_string(), |_car| String::new())
    }

    #[test]
    fn a_right_document_is_read_and_numbers_may_be_text() {
        let text = "name: 1.10\nwheels:\n  - {size: 17, colour: red}\n  - {size: 17, colour: off}\n\
                    notes: {a: yes, b: true}\nelectric: false\ndoors: 5\n";
        let wheel = |colour| Wheel { size: 17, colour };
        let notes = [("a", "yes"), ("b", "true")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let expected = Car {
            name: "1.10".to_owned(),
            wheels: vec![wheel(Colour::Red), wheel(Colour::Off)],
            notes: notes.into(),
            electric: false,
            doors: 5,
        };
        assert_eq!(YamlText::of(text).read(), Ok(expected));
        for empty in ["", "# nothing\n", "wheels:\n"] {
            assert_eq!(YamlText::of(empty).read(), Ok(Car::default()), "{empty}");
        }
    }

    #[test]
    fn a_mistake_is_told_in_the_words_of_yaml_and_not_in_those_of_the_parser_or_of_rust() {
        let keys = "there is name, wheels, notes, electric, doors";
        for (text, said) in [
            (
                "nmae: x\n",
                &*format!("1:1: there is no key \"nmae\"; did you mean \"name\"?; {keys}"),
            ),
            (
                "wheels:\n  - {size: 3, colour: blue}\n",
                "2:23: there is no value \"blue\"; there is red, green, off",
            ),
            ("wheels:\n  - size: 3\n", "2:5: missing field `colour`"),
            ("wheels:\n  - 7\n", "2:5: expected a map of keys, each as KEY: VALUE"),
            ("wheels: {}\n", "1:9: expected a list, each entry as - ENTRY"),
            ("notes: []\n", "1:8: expected a map of keys, each as KEY: VALUE"),
            ("name: [x]\n", "1:7: expected one value, found a list or a map"),
            ("name:\n", "1:5: null is not allowed here"),
            ("electric: \"maybe\"\n", "1:11: expected true or false, found \"maybe\""),
            ("doors: -1\n", "1:8: expected a whole number from 0 on, found -1"),
            ("doors: 1.5\n", "1:8: expected a whole number from 0 on, found 1.5"),
            (
                "name: a\nname: b\n",
                "2:1: duplicate mapping key: name not allowed here",
            ),
            ("name: *x\n", "1:7: a value that begins with * needs quotes"),
            (
                "name: a\n---\nname: b\n",
                "3:1: only single YAML document expected but multiple found",
            ),
            ("notes: {a: b\n", "1:8: unclosed bracket '{'"),
            ("name: b: c\n", "1:8: mapping values are not allowed in this context"),
            ("name: @x\n", "1:7: unexpected character: `@'"),
            ("\u{1}\0", "1:1: unexpected character: `\\\\u{1}'"),
            ("- a\n", "1:1: expected a map of keys, each as KEY: VALUE"),
            (
                "\"\\e[31m\": 1\n",
                &format!("1:1: there is no key \"\\x1b[31m\"; {keys}"),
            ),
        ] {
            assert_eq!(mistake(text), said, "{text}");
        }
    }

    #[test]
    fn a_mistake_that_no_type_sees_has_the_place_of_its_value() {
        let text = YamlText::of("a: &x [{b: 1}, {b: 2}]\n\"1\": *x\nc:\n");
        let place = |path: &[&str]| text.mistake(path, String::new()).place.to_string();
        assert_eq!(place(&["a", "1", "b"]), "1:20");
        assert_eq!(place(&["1"]), "2:6", "where an alias stands");
        assert_eq!(place(&["a", "1", "z", "0"]), "1:16", "the last value on the path");
        assert_eq!(place(&["z"]), "1:1");
    }

    #[test]
    fn a_document_that_is_nested_too_deep_is_a_mistake_and_no_end_of_the_stack() {
        for (open, close) in [("[", "]"), ("{a: ", "}")] {
            let read = |depth: usize| {
                let text = format!("{}1{}", open.repeat(depth), close.repeat(depth));
                YamlText::of(&text).read::<serde::de::IgnoredAny>()
            };
            assert!(read(20).is_ok());
            assert!(read(60).unwrap_err().what.contains("depth"));
            assert!(read(100_000).is_err());
        }
    }
}
