//! YAML that people write: rules, profiles, the config.
//!
//! A document is read into a tree whose nodes know their place, and from there into types: all mistakes are
//! found in one go, each with its line and column, and not only the first. What a type cannot say, such as the
//! names of other files, its reader checks afterwards and asks [`YamlDocument::mistake`] for the place.

mod mistake;
mod node_error;
mod node_reader;
mod parse_error;
mod placeholder;
mod tree;

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;

pub use mistake::{TextPosition, YamlMistake, suggestion, unknown_name};
use tree::YamlNode;

/// A document that is YAML, and not yet anything more.
#[derive(Debug, Clone)]
pub struct YamlDocument {
    root: YamlNode,
}

impl YamlDocument {
    /// Reads the text of one document.
    ///
    /// Errors: Where the text stops being YAML, or is nested or repeated beyond serde-saphyr's limits.
    pub fn parse(text: &str) -> Result<Self, YamlMistake> {
        tree::parse_tree(text).map(|root| Self { root })
    }

    /// Reads the document as a `T`.
    ///
    /// Errors: All mistakes, in the order of their places: keys that `T` has not, keys that are missing,
    /// values of another kind.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Vec<YamlMistake>> {
        self.read_and(|value| (value, Vec::new()))
    }

    /// Reads the document as a `T` and makes a `U` of it by `check`, which also gives the mistakes that a type
    /// cannot see. It is called where there are other mistakes, too, with something harmless in their place.
    ///
    /// Errors: As [`YamlDocument::read`], and what `check` found elsewhere.
    pub fn read_and<T: DeserializeOwned, U>(
        &self,
        check: impl FnOnce(T) -> (U, Vec<YamlMistake>),
    ) -> Result<U, Vec<YamlMistake>> {
        let (value, mut mistakes) = node_reader::read_typed(&self.root);
        let checked = value.map(check);
        // Where something harmless stood in for a mistake, `check` may find fault with what the user never wrote.
        let wrong: BTreeSet<TextPosition> = mistakes.iter().map(|mistake| mistake.place).collect();
        match checked {
            Some((value, found)) if mistakes.is_empty() && found.is_empty() => return Ok(value),
            Some((_, found)) => {
                mistakes.extend(found.into_iter().filter(|found| !wrong.contains(&found.place)));
            }
            None => {}
        }
        Err(mistakes.into_iter().collect())
    }

    /// Takes the entry `key` of the document out of it: for keys that all kinds of file share.
    pub fn take(&mut self, key: &str) -> Option<Self> {
        self.root.take(key).map(|root| Self { root })
    }

    /// A mistake at the value that `path` leads to: keys of maps, numbers of list items. Where the path ends
    /// early, at the last node on it.
    pub fn mistake(&self, path: &[&str], what: String) -> YamlMistake {
        YamlMistake {
            place: self.root.follow(path).place,
            what,
        }
    }

    /// The mistakes of the list at `path`, or the lone name there: names of a `kind` of which there is none. Where nothing
    /// is known, every name may be one.
    pub fn unknown_names(&self, path: &[&str], names: &[String], (kind, known): (&str, &[&str])) -> Vec<YamlMistake> {
        let strange = names.iter().enumerate();
        let strange = strange.filter(|(_, name)| !known.is_empty() && !known.contains(&name.as_str()));
        let told = strange.map(|(number, name)| {
            let number = number.to_string();
            self.mistake(&[path, &[&number]].concat(), unknown_name(kind, name, known))
        });
        told.collect()
    }

    /// A mistake at the key with which `path` ends.
    pub fn mistake_in_key(&self, path: &[&str], what: String) -> YamlMistake {
        let place = match path.split_last() {
            Some((key, above)) => self.root.follow(above).place_of_key(key),
            None => self.root.place,
        };
        YamlMistake { place, what }
    }
}

#[cfg(test)]
mod tests;
