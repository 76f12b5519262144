//! Suppressions: findings that a project knows of and lives with, for a reason and perhaps for a time.

mod gate;

use std::fmt;
use std::str::FromStr;

pub use gate::SuppressionGate;

use chrono::NaiveDate;
use globset::GlobSet;

use crate::judge::rule::{Finding, SuppressionMark};
use crate::knowledge::patterns::compile_glob;

/// The rules that are about suppressions themselves: no suppression is for their findings.
pub const SUPPRESSION_RULES: [&str; 4] = [
    "expired-accept",
    "expired-suppression",
    "unused-accept",
    "unused-suppression",
];

/// What a suppression is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuppressionTarget {
    /// Findings of a rule.
    Finding,
    /// An assumption: `accept` of the config, or `--accept`.
    Assumption,
}

impl SuppressionTarget {
    /// The name used in rules.
    pub fn name(self) -> &'static str {
        match self {
            Self::Finding => "finding",
            Self::Assumption => "assumption",
        }
    }
}

/// A finding that is known and shall not fail a run, or an assumption that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suppression {
    /// What it is for.
    pub target: SuppressionTarget,
    /// The rule whose findings it is for, or the id of an assumption.
    pub rule: String,
    /// The images it is for, as they are named on the command line; all of them without it.
    pub image: Option<GlobPattern>,
    /// The paths it is for; with it, a finding matches when all its places do.
    pub path: Option<GlobPattern>,
    /// Why the project lives with it; every report shows it. Empty for one of the command line.
    pub reason: String,
    /// The last day on which it holds.
    pub until: Option<NaiveDate>,
    /// The line of the config on which it names its rule; 0 for one of the command line.
    pub line: u32,
}

/// What `*`, `**`, `?`, `[…]` and `{…}` make of a name; only `**` goes across a slash.
#[derive(Debug, Clone)]
pub struct GlobPattern {
    text: String,
    matcher: GlobSet,
}

impl FromStr for GlobPattern {
    type Err = String;

    /// Reads a pattern. A suppression for one folder must not hide what comes to lie in a folder below it.
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self {
            text: text.to_owned(),
            matcher: compile_glob(text)?,
        })
    }
}

impl GlobPattern {
    /// Whether it stands for `name`.
    pub fn fits(&self, name: &str) -> bool {
        self.matcher.is_match(name)
    }
}

impl PartialEq for GlobPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for GlobPattern {}

impl fmt::Display for GlobPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Suppression {
    /// The assumption with an id, accepted on the command line.
    pub fn of_accept_option(id: &str) -> Self {
        Self {
            target: SuppressionTarget::Assumption,
            rule: id.to_owned(),
            image: None,
            path: None,
            reason: String::new(),
            until: None,
            line: 0,
        }
    }

    /// Whether it is for an image of this name.
    pub fn is_for(&self, image: &str) -> bool {
        self.image.as_ref().is_none_or(|pattern| pattern.fits(image))
    }

    /// Whether its last day is over on the day `today`.
    pub fn is_over(&self, today: NaiveDate) -> bool {
        // The last day itself still counts.
        self.until.is_some_and(|until| until < today)
    }

    /// Whether it is for a finding in an image that it is for.
    pub fn fits(&self, finding: &Finding) -> bool {
        let everywhere = |pattern: &GlobPattern| {
            // What is said of the image as a whole lies nowhere, so that no path is for it.
            let mut places = finding.locations.iter();
            !finding.locations.is_empty() && places.all(|place| pattern.fits(&place.path.to_string()))
        };
        self.target == SuppressionTarget::Finding
            && self.rule == finding.rule
            && self.path.as_ref().is_none_or(everywhere)
    }

    /// What it makes of a finding.
    pub fn mark(&self) -> SuppressionMark {
        SuppressionMark {
            reason: self.reason.clone(),
            until: self.until,
        }
    }
}
