//! What a rule found in an image, and where.

use super::subject::Evidence;
use crate::facts::OwnerKind;
use crate::knowledge::rule::Severity;
use image_linkage::path::RootPath;

/// What a rule found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The id of the rule, the stem of its file.
    pub rule: String,
    /// How much it matters, for the phases that were asked for.
    pub severity: Severity,
    /// What is the matter.
    pub message: String,
    /// Who fails and why, for the first line of a report; none where the message says all.
    pub verdict: Option<String>,
    /// Where it lies; none for the image as a whole.
    // Several where copies are one finding together; of those GitHub's code scanning shows the first.
    pub locations: Vec<FindingLocation>,
    /// What shows it: the loader's words and its search.
    pub evidence: Vec<Evidence>,
    /// What the user can do against it, in a sentence.
    pub fix: String,
    /// The same as commands of a shell, to be run as root in the image; none where no command does it.
    pub commands: Vec<String>,
    /// The same as instructions of a Dockerfile, for what no command does, such as `ENV`.
    pub instructions: Vec<String>,
    /// The packages that cure it once they are installed.
    pub repair: Option<PackageRepair>,
    /// The rule of the finding whose fix cures this one, too.
    pub follows: Option<String>,
    /// Why it does not count, where the project's config says so.
    pub suppressed: Option<SuppressionMark>,
}

/// Packages to be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageRepair {
    /// Whose packages they are.
    pub manager: OwnerKind,
    /// The folder of packages of Python, or of the conda environment.
    pub environment: RootPath,
    /// The packages with their versions, as the manager takes them.
    pub packages: Vec<String>,
    /// Whether the manager takes them for installed.
    pub is_listed: bool,
}

/// What the project's config says of a finding that it knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuppressionMark {
    /// Why it does not count.
    pub reason: String,
    /// The last day on which it does not.
    pub until: Option<chrono::NaiveDate>,
}

/// A place in the image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FindingLocation {
    /// The path in the image; of a link, its own.
    pub path: RootPath,
    /// The layer, counted from 0 at the bottom.
    pub layer: Option<usize>,
}
