//! Suppressions: findings that a project knows and accepts, for a reason and perhaps for a limited time.

mod gate;

use std::fmt;
use std::str::FromStr;

pub use gate::SuppressionGate;

use chrono::NaiveDate;
use globset::GlobSet;

use crate::judge::rule::{Finding, SuppressionMark};
use crate::knowledge::patterns::compile_glob;

/// The rules about suppressions themselves, whose findings cannot be suppressed.
pub const SUPPRESSION_RULES: [&str; 4] = [
    "expired-accept",
    "expired-suppression",
    "unused-accept",
    "unused-suppression",
];

/// The kind of thing that a suppression covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuppressionTarget {
    /// Findings of a rule.
    Finding,
    /// An assumption: `accept` in the config, or `--accept`.
    Assumption,
}

/// A known finding that must not fail a run, or an accepted assumption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suppression {
    /// The kind of thing it covers.
    pub target: SuppressionTarget,
    /// The rule of its findings, or the id of an assumption.
    pub rule: String,
    /// The images it covers, by their names on the command line; `None` for all.
    pub image: Option<GlobPattern>,
    /// The paths it covers. A finding matches only if all its locations do.
    pub path: Option<GlobPattern>,
    /// Why the project accepts it, for every report. Empty if it is from the command line.
    pub reason: String,
    /// The last day on which it applies.
    pub until: Option<NaiveDate>,
    /// The line in the config that names its rule; 0 if it is from the command line.
    pub line: u32,
}

/// A glob with `*`, `**`, `?`, `[…]` and `{…}`. Only `**` matches a slash.
#[derive(Debug, Clone)]
pub struct GlobPattern {
    text: String,
    matcher: GlobSet,
}

impl FromStr for GlobPattern {
    type Err = String;

    /// Parses a pattern. A suppression for one folder must not hide later findings in its subfolders.
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self {
            text: text.to_owned(),
            matcher: compile_glob(text)?,
        })
    }
}

impl GlobPattern {
    /// Whether it matches `name`.
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
    /// An assumption accepted on the command line.
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

    /// Whether it covers an image of this name.
    pub fn is_for(&self, image: &str) -> bool {
        self.image.as_ref().is_none_or(|pattern| pattern.fits(image))
    }

    /// Whether it covers only what follows the scheme or the last folder of this name.
    fn is_for_end_of(&self, image: &str) -> bool {
        let mut ends = image
            .match_indices([':', '/'])
            .filter_map(|(at, _)| image.get(at + 1..))
            .filter(|end| !end.is_empty());
        let is_named = |pattern: &GlobPattern| !pattern.fits(image) && ends.any(|end| pattern.fits(end));
        self.image.as_ref().is_some_and(is_named)
    }

    /// Whether it has expired on the day `today`.
    pub fn is_over(&self, today: NaiveDate) -> bool {
        // It still applies on the last day.
        self.until.is_some_and(|until| until < today)
    }

    /// Whether it matches a finding. The image must already match.
    pub fn fits(&self, finding: &Finding) -> bool {
        let everywhere = |pattern: &GlobPattern| {
            // A finding about the image as a whole has no location, so no path matches it.
            let mut places = finding.locations.iter();
            !finding.locations.is_empty() && places.all(|place| pattern.fits(&place.path.to_string()))
        };
        self.target == SuppressionTarget::Finding
            && self.rule == finding.rule
            && self.path.as_ref().is_none_or(everywhere)
    }

    /// The mark that it leaves on a finding.
    pub fn mark(&self) -> SuppressionMark {
        SuppressionMark {
            reason: self.reason.clone(),
            until: self.until,
        }
    }
}
