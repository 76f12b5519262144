//! Why a node could not be read as a type, in the words of YAML.

use std::fmt;

use serde::de;

use crate::mistake::{TextPosition, escape_text, unknown_name};
use crate::tree::YamlNode;

/// A node by its address in the tree, which does not change while it is read.
pub(super) type NodeAddress = usize;

pub(super) fn node_address(node: &YamlNode) -> NodeAddress {
    // By address and not by value or place: equal nodes may stand in several places, and an alias repeats one.
    std::ptr::from_ref(node).addr()
}

/// Why a type could not be read.
#[derive(Debug)]
pub(super) struct NodeError {
    pub at: Option<(NodeAddress, TextPosition)>,
    pub what: NodeProblem,
}

#[derive(Debug)]
pub(super) enum NodeProblem {
    /// A key that the type asks for.
    Missing(&'static str),
    Said(String),
    /// Nothing new: what stood in for a mistake did not do.
    OfPlaceholder,
}

impl NodeError {
    /// Places the mistake, unless a node further inside has done so.
    pub(crate) fn at(mut self, node: &YamlNode) -> Self {
        // The innermost node is nearest to what has to be changed; those around it pass the error on.
        self.at.get_or_insert((node_address(node), node.place));
        self
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.what)
    }
}

impl std::error::Error for NodeError {}

impl de::Error for NodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        // serde's message may repeat what the user wrote, with whatever would steer a terminal.
        let what = NodeProblem::Said(escape_text(&message.to_string()));
        Self { at: None, what }
    }

    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let expected = expected.to_string();
        // serde speaks of Rust's types; who writes YAML has maps, lists and words.
        let expected = match expected.as_str() {
            it if it.starts_with("struct ") => "a map of keys",
            it if it.starts_with("enum ") => "a word",
            it if it.starts_with("a tuple ") => "a list of another length",
            "a sequence" => "a list",
            "a boolean" => "true or false",
            "u8" => "a whole number from 0 to 255",
            "u16" => "a whole number from 0 to 65535",
            "u32" | "u64" | "usize" => "a whole number from 0 on",
            "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
            "f32" | "f64" => "a number",
            it => it,
        };
        Self::custom(format_args!("expected {expected}, found {}", FoundValue(found)))
    }

    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        // A number out of range is to the user the same as one of another kind: what is expected helps,
        // the difference does not.
        Self::invalid_type(found, expected)
    }

    fn invalid_length(_: usize, expected: &dyn de::Expected) -> Self {
        Self::invalid_type(de::Unexpected::Seq, expected)
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> Self {
        Self {
            at: None,
            what: NodeProblem::Said(unknown_name("value", found, known)),
        }
    }

    fn missing_field(key: &'static str) -> Self {
        Self {
            at: None,
            what: NodeProblem::Missing(key),
        }
    }
}

/// The signs of a text that are shown.
const SHOWN: usize = 60;

/// What was found, in YAML's words.
struct FoundValue<'a>(de::Unexpected<'a>);

impl fmt::Display for FoundValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            de::Unexpected::Unit | de::Unexpected::Option => f.write_str("nothing"),
            de::Unexpected::Seq => f.write_str("a list"),
            de::Unexpected::Map => f.write_str("a map"),
            de::Unexpected::Bool(flag) => write!(f, "{flag}"),
            de::Unexpected::Unsigned(number) => write!(f, "{number}"),
            de::Unexpected::Signed(number) => write!(f, "{number}"),
            de::Unexpected::Float(number) => write!(f, "{number}"),
            de::Unexpected::Str(text) if text.chars().nth(SHOWN).is_some() => {
                write!(f, "{:?}…", text.chars().take(SHOWN).collect::<String>())
            }
            de::Unexpected::Str(text) => write!(f, "{text:?}"),
            other => write!(f, "{other}"),
        }
    }
}

/// What stands in for a mistake did not do either; the mistake itself is known.
pub(super) fn of_placeholder(_: NodeError) -> NodeError {
    NodeError {
        at: None,
        what: NodeProblem::OfPlaceholder,
    }
}
