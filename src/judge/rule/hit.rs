//! What a check found, before a rule gives it words and a severity.

use std::collections::BTreeMap;
use std::fmt;

use super::{Evidence, FindingLocation, PackageRepair};
use crate::facts::FailureImpact;
use crate::size::format_size;
use image_linkage::elf::ByteString;
use image_linkage::escape::escape_bytes;
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

/// Something that a check found.
#[must_use]
#[derive(Debug, Clone)]
pub struct Hit {
    /// The id of the built-in rule.
    pub rule: &'static str,
    values: BTreeMap<&'static str, Value>,
    /// The locations; empty for the image as a whole.
    pub locations: Vec<FindingLocation>,
    /// The evidence for reports.
    pub evidence: Vec<Evidence>,
    /// The fix as shell commands to run as root in the image; empty if commands cannot fix it.
    pub commands: Vec<String>,
    /// The packages whose installation fixes it.
    pub repair: Option<PackageRepair>,
    /// The work that it stops, for the order of findings.
    pub stops: StoppedWork,
}

/// A value for the texts and conditions of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(Shown),
    /// A count.
    Count(u64),
    /// A number of bytes, shown as a size.
    Bytes(u64),
    /// Whether a higher severity applies.
    Raise(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(Shown(text)) => text.fmt(f),
            Self::Count(count) => count.fmt(f),
            Self::Bytes(bytes) => f.write_str(&format_size(*bytes)),
            Self::Raise(holds) => holds.fmt(f),
        }
    }
}

/// Text that is safe to show. It has no `From<String>`: a name from an image has to pass [`Shown::untrusted`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown(String);

impl Shown {
    /// Text from a file or the environment of the image.
    pub fn untrusted(text: &str) -> Self {
        Self(escape_bytes(text.as_bytes()))
    }

    /// Bytes from the image, such as a name.
    pub fn untrusted_bytes(text: &[u8]) -> Self {
        Self(escape_bytes(text))
    }

    /// Text from this program or its data, or text that is escaped already.
    pub fn known(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl From<Shown> for Value {
    fn from(text: Shown) -> Self {
        Self::Text(text)
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(Shown::known(text))
    }
}

impl From<&RootPath> for Value {
    fn from(path: &RootPath) -> Self {
        Self::Text(Shown::known(path.to_string()))
    }
}

impl From<&ByteString> for Value {
    fn from(bytes: &ByteString) -> Self {
        Self::Text(Shown::untrusted_bytes(bytes))
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl Hit {
    /// A hit of a rule, without values or a location.
    pub fn new(rule: &'static str) -> Self {
        Self {
            rule,
            values: BTreeMap::new(),
            locations: Vec::new(),
            evidence: Vec::new(),
            commands: Vec::new(),
            repair: None,
            stops: StoppedWork::Profiling,
        }
    }

    /// Adds the value of a placeholder.
    pub fn value(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.values.insert(name, value.into());
        self
    }

    /// Says whether a condition of the rule for a higher severity holds.
    pub fn raise_if(self, name: &'static str, holds: bool) -> Self {
        self.value(name, Value::Raise(holds))
    }

    /// The value of a name.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Whether a condition for a higher severity holds.
    pub(super) fn is_raised(&self, name: &str) -> bool {
        self.get(name) == Some(&Value::Raise(true))
    }

    /// Adds locations: paths, each with its layer if known.
    pub fn at<'p>(mut self, places: impl IntoIterator<Item = (&'p RootPath, Option<usize>)>) -> Self {
        let places = places.into_iter().map(|(path, layer)| FindingLocation {
            path: path.clone(),
            layer,
        });
        self.locations.extend(places);
        self
    }

    /// Adds evidence.
    pub fn shown_by(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
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
