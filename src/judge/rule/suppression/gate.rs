//! Applies the suppressions of a project to all images of a run.

use chrono::NaiveDate;
use container_start::Assumption;

use super::{Suppression, SuppressionTarget};
use crate::judge::rule::{Finding, Hit, Shown, Value};

/// The suppressions, and their use so far.
pub struct SuppressionGate<'a> {
    suppressions: Vec<SuppressionState<'a>>,
    today: NaiveDate,
}

struct SuppressionState<'a> {
    suppression: &'a Suppression,
    /// Whether an image that it covers was audited.
    asked: bool,
    /// Whether it matched a finding.
    used: bool,
    /// An image that it would cover, were its pattern not for the end of the name only.
    meant: Option<String>,
}

impl<'a> SuppressionGate<'a> {
    /// Starts a run on the day `today`.
    pub fn new(suppressions: &'a [Suppression], today: NaiveDate) -> Self {
        let state = |suppression| SuppressionState {
            suppression,
            asked: false,
            used: false,
            meant: None,
        };
        Self {
            suppressions: suppressions.iter().map(state).collect(),
            today,
        }
    }

    /// Marks the findings of an image that an unexpired suppression matches.
    pub fn mark_findings(&mut self, image: &str, findings: &mut [Finding]) {
        let today = self.today;
        for state in &mut self.suppressions {
            if state.suppression.is_for_end_of(image) {
                state.meant.get_or_insert_with(|| image.to_owned());
            }
        }
        let states = self.suppressions.iter_mut();
        for state in states.filter(|state| state.suppression.is_for(image)) {
            // An image that it covers was audited, so it can now count as unused.
            state.asked = true;
            let suppression = state.suppression;
            for finding in findings.iter_mut().filter(|found| suppression.fits(found)) {
                state.used = true;
                if !suppression.is_over(today) {
                    // If several match a finding, the first in the config provides the reason.
                    finding.suppressed.get_or_insert_with(|| suppression.mark());
                }
            }
        }
    }

    /// Removes the assumptions of an image that the project accepts by id, unless the acceptance has expired.
    pub fn accept_assumptions(&mut self, image: &str, assumptions: &mut Vec<Assumption>) {
        let today = self.today;
        let states = self.suppressions.iter_mut().filter(|state| {
            state.suppression.target == SuppressionTarget::Assumption && state.suppression.is_for(image)
        });
        for state in states {
            let accepted = |assumption: &Assumption| assumption.id == state.suppression.rule;
            state.used |= assumptions.iter().any(accepted);
            if !state.suppression.is_over(today) {
                assumptions.retain(|assumption| !accepted(assumption));
            }
        }
    }

    /// The suppressions that cover no image of the run, but would with the scheme or folders of an image's name.
    pub fn near_misses(&self) -> Vec<String> {
        let missed = self.suppressions.iter().filter(|state| !state.asked);
        let words = |state: &SuppressionState<'_>| {
            let (pattern, image) = (state.suppression.image.as_ref()?.to_string(), state.meant.as_ref()?);
            let line = state.suppression.line;
            Some(format!(
                "the entry on line {line} of the config is not for {image}: its image {pattern:?} has to match the whole name"
            ))
        };
        missed.filter_map(words).collect()
    }

    /// The expired or unused suppressions. One that covers no image of the run is not reported, because a project has
    /// one config but many runs.
    pub fn unused_suppressions(&self) -> Vec<Hit> {
        let mut hits = Vec::new();
        for state in self.suppressions.iter().filter(|state| state.asked) {
            let suppression = state.suppression;
            // Expired takes precedence: the answer is the same if it was also unused.
            let is_over = suppression.is_over(self.today);
            if is_over || !state.used {
                hits.push(of_no_use(suppression, is_over));
            }
        }
        hits
    }
}

fn of_no_use(suppression: &Suppression, is_over: bool) -> Hit {
    let rule = match (suppression.target, is_over) {
        (SuppressionTarget::Finding, true) => "expired-suppression",
        (SuppressionTarget::Finding, false) => "unused-suppression",
        (SuppressionTarget::Assumption, true) => "expired-accept",
        (SuppressionTarget::Assumption, false) => "unused-accept",
    };
    let place = match suppression.line {
        0 => "on the command line".to_owned(),
        line => format!("on line {line} of the config"),
    };
    let until = suppression.until.map(|until| until.to_string());
    Hit::new(rule)
        .value("rule", Shown::known(suppression.rule.clone()))
        .value("reason", Shown::known(suppression.reason.clone()))
        .value("until", Shown::known(until.unwrap_or_default()))
        .value("place", Shown::known(place))
        .value("line", Value::Count(u64::from(suppression.line)))
}
