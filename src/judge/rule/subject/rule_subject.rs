//! One thing that rules speak of, and how its fields are written.

use std::collections::BTreeMap;

use super::Evidence;
use crate::judge::rule::{FindingLocation, PackageRepair};
use crate::knowledge::rule::{FieldValue, SubjectKind};
use image_linkage::escape;
use image_linkage::path::RootPath;

/// Something a rule can speak of.
#[derive(Debug, Clone)]
pub struct RuleSubject {
    /// What a rule names by `subject`.
    pub kind: SubjectKind,
    /// One value for each name of [`SubjectKind::fields`].
    pub fields: BTreeMap<&'static str, FieldValue>,
    /// Where it lies; none for the image as a whole.
    pub locations: Vec<FindingLocation>,
    /// What shows it, for the reports; no rule asks for it.
    pub evidence: Vec<Evidence>,
    /// What cures it as commands of a shell, to be run as root in the image; none where no command does it.
    pub commands: Vec<String>,
    /// The packages that cure it once they are installed; no rule asks for it.
    pub repair: Option<PackageRepair>,
}

pub(super) fn text(value: impl Into<String>) -> FieldValue {
    FieldValue::Text(value.into())
}

/// Text from a file or the environment of the image.
pub(super) fn escaped(value: &str) -> FieldValue {
    FieldValue::Text(escape::escape_bytes(value.as_bytes()))
}

pub(super) fn count(value: usize) -> FieldValue {
    FieldValue::Number(value as u64)
}

pub(super) fn flag(value: bool) -> FieldValue {
    FieldValue::Flag(value)
}

impl SubjectKind {
    /// A subject of this kind that lies nowhere yet, with a value for each of its fields.
    pub(super) fn subject<const N: usize>(self, fields: [(&'static str, FieldValue); N]) -> RuleSubject {
        RuleSubject {
            kind: self,
            fields: BTreeMap::from(fields),
            locations: Vec::new(),
            evidence: Vec::new(),
            commands: Vec::new(),
            repair: None,
        }
    }
}

impl RuleSubject {
    /// The subject at these paths, each with its layer, where that is known.
    pub(super) fn at<'p>(mut self, places: impl IntoIterator<Item = (&'p RootPath, Option<usize>)>) -> Self {
        let places = places.into_iter().map(|(path, layer)| FindingLocation {
            path: path.clone(),
            layer,
        });
        self.locations.extend(places);
        self
    }

    /// The subject with what shows it.
    pub(super) fn shown_by(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// The subject with the commands that cure it.
    pub(super) fn cured_by(mut self, commands: Vec<String>) -> Self {
        self.commands = commands;
        self
    }
}
