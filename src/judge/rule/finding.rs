//! A rule's finding in an image, and its location.

use super::{Evidence, StoppedWork};
use crate::facts::OwnerKind;
use crate::knowledge::rule::{Explains, RuleCure, Severity};
use image_linkage::path::RootPath;

/// A rule's finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The id of the rule, the stem of its file.
    pub rule: String,
    /// Its severity for the requested phases.
    pub severity: Severity,
    /// The problem, as a sentence.
    pub message: String,
    /// The failing program and the reason, for the first line of a report; `None` if the message suffices.
    pub verdict: Option<String>,
    /// The locations; empty for the image as a whole.
    // Copies that form one finding have several. GitHub's code scanning shows only the first.
    pub locations: Vec<FindingLocation>,
    /// The evidence: the loader's messages and its search.
    pub evidence: Vec<Evidence>,
    /// The advice to the user, as a sentence.
    pub fix: String,
    /// The fix as shell commands to run as root in the image; empty if commands cannot fix it.
    pub commands: Vec<String>,
    /// The fix as Dockerfile instructions, for changes such as `ENV` that no command can make.
    pub instructions: Vec<String>,
    /// The packages whose installation fixes it.
    pub repair: Option<PackageRepair>,
    /// The work that the problem stops.
    pub stops: StoppedWork,
    /// The rule of another finding whose fix also fixes this one.
    pub follows: Option<String>,
    /// What it explains, from its rule.
    pub explains: Option<Explains>,
    /// The Dockerfile step that fixes it, from its rule.
    pub cured_by: Option<RuleCure>,
    /// Whether it describes a defect of one file that causes other findings, from its rule.
    pub first_cause: bool,
    /// Why it does not count, if the project's config suppresses it.
    pub suppressed: Option<SuppressionMark>,
}

/// Packages to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageRepair {
    /// Their package manager.
    pub manager: OwnerKind,
    /// The site-packages folder, or the conda environment.
    pub environment: RootPath,
    /// The packages with versions, in the manager's syntax.
    pub packages: Vec<String>,
    /// Whether the manager lists them as installed.
    pub is_listed: bool,
    /// Whether to install their requirements, too.
    pub takes_requirements: bool,
}

/// The suppression of a finding by the project's config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuppressionMark {
    /// The reason for it.
    pub reason: String,
    /// The last day on which it applies.
    pub until: Option<chrono::NaiveDate>,
}

/// A place in the image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FindingLocation {
    /// The path in the image; for a link, the link's own path.
    pub path: RootPath,
    /// The layer, counted from 0 at the bottom.
    pub layer: Option<usize>,
}
