//! What a phase may expect of an image: a verdict with its reasons, and the files that stay or may go.

pub mod host;
pub mod profilers;

use std::collections::BTreeSet;

use crate::facts::ImageFacts;
use crate::path::RootPath;
use crate::profile::Phase;
use crate::rule::{self, Rule, Severity, Subject};

/// Whether an image serves a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It does.
    Pass,
    /// It does, and something will be missing.
    Warn,
    /// Something could not be checked that may keep it from serving the phase.
    Unknown,
    /// It does not.
    Fail,
}

impl Verdict {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Unknown => "unknown",
            Self::Fail => "fail",
        }
    }
}

/// A file that stays or may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The file.
    pub path: RootPath,
    /// Its size in bytes.
    pub bytes: u64,
    /// Why.
    pub because: String,
}

/// What a phase may expect of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The phase.
    pub phase: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The rules whose findings made the verdict what it is.
    pub because: Vec<String>,
    /// The files of CUPTI that stay.
    pub keep: Vec<Item>,
    /// The files that may go: nothing in the image needs them in this phase.
    pub drop: Vec<Item>,
}

impl Plan {
    /// The bytes of CUPTI that stay.
    pub fn keep_bytes(&self) -> u64 {
        self.keep.iter().map(|item| item.bytes).sum()
    }

    /// The bytes that may go.
    pub fn drop_bytes(&self) -> u64 {
        self.drop.iter().map(|item| item.bytes).sum()
    }
}

/// Judges what an image may expect of it in `phase`.
pub fn plan(facts: &ImageFacts, rules: &[Rule], subjects: &[Subject], phase: &Phase) -> Plan {
    let findings = rule::judge(rules, subjects, std::slice::from_ref(&phase.name));
    let worst = findings.first().map(|finding| finding.severity);
    let verdict = match worst {
        Some(Severity::Error) => Verdict::Fail,
        _ if !facts.gaps.is_empty() => Verdict::Unknown,
        Some(Severity::Warning) => Verdict::Warn,
        Some(Severity::Note) | None => Verdict::Pass,
    };
    let made_it = findings
        .iter()
        .filter(|finding| finding.severity >= Severity::Warning);
    let because: BTreeSet<String> = made_it.map(|finding| finding.rule.clone()).collect();
    Plan {
        phase: phase.name.clone(),
        verdict,
        because: because.into_iter().collect(),
        keep: Vec::new(),
        drop: Vec::new(),
    }
}
