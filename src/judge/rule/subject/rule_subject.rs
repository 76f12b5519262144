//! A subject of rules, and the conversion of its fields.

use std::collections::BTreeMap;

use super::Evidence;
use crate::facts::FailureImpact;
use crate::judge::rule::{FindingLocation, PackageRepair};
use crate::knowledge::rule::{FieldValue, SubjectKind};
use image_linkage::escape;
use image_linkage::path::RootPath;

/// The work that a problem stops, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoppedWork {
    /// The container command.
    Command,
    /// A program, or its use of a GPU.
    Program,
    /// Profiling.
    Profiling,
}

impl StoppedWork {
    /// The work that a failure of this impact stops.
    pub(super) fn by(impact: FailureImpact) -> Self {
        if impact.breaks_program() {
            Self::Program
        } else {
            Self::Profiling
        }
    }
}

/// Something a rule can speak of.
#[derive(Debug, Clone)]
pub struct RuleSubject {
    /// The value of `subject` in a rule.
    pub kind: SubjectKind,
    /// A value for each name in [`SubjectKind::fields`].
    pub fields: BTreeMap<&'static str, FieldValue>,
    /// The locations; empty for the image as a whole.
    pub locations: Vec<FindingLocation>,
    /// The evidence for reports; rules do not use it.
    pub evidence: Vec<Evidence>,
    /// The fix as shell commands to run as root in the image; empty if commands cannot fix it.
    pub commands: Vec<String>,
    /// The packages whose installation fixes it; rules do not use it.
    pub repair: Option<PackageRepair>,
    /// The work that it stops, for the order of findings; rules do not use it.
    pub stops: StoppedWork,
}

pub(super) fn text(value: impl Into<String>) -> FieldValue {
    FieldValue::Text(value.into())
}

/// Untrusted text from a file or the environment of the image.
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
    /// A subject of this kind without a location, with a value for each field.
    pub(super) fn subject<const N: usize>(self, fields: [(&'static str, FieldValue); N]) -> RuleSubject {
        RuleSubject {
            kind: self,
            fields: BTreeMap::from(fields),
            locations: Vec::new(),
            evidence: Vec::new(),
            commands: Vec::new(),
            repair: None,
            stops: StoppedWork::Profiling,
        }
    }
}

impl RuleSubject {
    /// Adds locations: paths, each with its layer if known.
    pub(super) fn at<'p>(mut self, places: impl IntoIterator<Item = (&'p RootPath, Option<usize>)>) -> Self {
        let places = places.into_iter().map(|(path, layer)| FindingLocation {
            path: path.clone(),
            layer,
        });
        self.locations.extend(places);
        self
    }

    /// Adds evidence.
    pub(super) fn shown_by(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// Sets the work that it stops.
    pub(super) fn stopping(mut self, work: StoppedWork) -> Self {
        self.stops = work;
        self
    }

    /// Sets the commands that fix it.
    pub(super) fn cured_by(mut self, commands: Vec<String>) -> Self {
        self.commands = commands;
        self
    }
}
