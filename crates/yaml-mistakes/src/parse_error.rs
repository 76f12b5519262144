//! Why a text cannot be read as YAML, in YAML's words: the parser's own are for those who call it.

use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, UserMessageFormatter};

use crate::mistake::escape_text;

/// The levels that a document may have, at most. The deepest of ours has six. Each level takes 32 kB of stack in a
/// program that is not optimised, and a thread has 2 MB.
pub(super) const NESTING: usize = 24;

/// What is wrong, without the place.
pub(super) fn parse_error_words(error: &Error) -> String {
    let words = match error {
        Error::AliasError { error, .. } | Error::WithSnippet { error, .. } => return parse_error_words(error),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("the key \"{key}\" stands here a second time"),
        Error::DuplicateMappingKey { .. } => "a key stands here a second time".to_owned(),
        Error::MultipleDocuments { .. } => "a second document begins here, and a file is one".to_owned(),
        Error::UnknownAnchor { .. } => "no anchor of this name stands before it".to_owned(),
        Error::RecursiveReferencesRequireWeakTypes { .. } => "the alias stands within its own anchor".to_owned(),
        // The tree takes any value; what is read as text alone is the key of a map.
        Error::Unexpected { .. } | Error::NullIntoString { .. } => "a key has to be text".to_owned(),
        Error::InvalidScalar { .. } | Error::TaggedScalarCannotDeserializeIntoString { .. } => {
            "the value is not what its tag says".to_owned()
        }
        Error::NonFiniteFloat { value, .. } => {
            format!("\"{value}\" is no finite number; put it in quotes to have it as text")
        }
        Error::Budget {
            breach: BudgetBreach::Depth { .. },
            ..
        } => format!("its depth is more than {NESTING} levels"),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            "the document is too large, or repeats too much by aliases".to_owned()
        }
        _ => without_place(error),
    };
    escape_text(&words)
}

/// The words of the parser for users, which end in the place in some cases and not in others.
fn without_place(error: &Error) -> String {
    let words = error.render_with_formatter(&UserMessageFormatter);
    let without = error.location().and_then(|place| {
        let suffix = format!(" at line {}, column {}", place.line(), place.column());
        words.strip_suffix(&suffix).map(str::to_owned)
    });
    without.unwrap_or(words)
}
