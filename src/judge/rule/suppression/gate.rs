//! What counts: the suppressions of a project over all images of a run.

use chrono::NaiveDate;
use container_start::Assumption;

use super::{Suppression, SuppressionTarget};
use crate::judge::rule::{Finding, RuleSubject};

/// The suppressions, and what became of each so far.
pub struct SuppressionGate<'a> {
    suppressions: Vec<SuppressionState<'a>>,
    today: NaiveDate,
}

struct SuppressionState<'a> {
    suppression: &'a Suppression,
    /// An image that it is for was audited.
    asked: bool,
    /// It was for a finding.
    used: bool,
}

impl<'a> SuppressionGate<'a> {
    /// A run on the day `today`.
    pub fn new(suppressions: &'a [Suppression], today: NaiveDate) -> Self {
        let state = |suppression| SuppressionState {
            suppression,
            asked: false,
            used: false,
        };
        Self {
            suppressions: suppressions.iter().map(state).collect(),
            today,
        }
    }

    /// Marks the findings of the image `image` that a suppression is for, unless it is over.
    pub fn mark_findings(&mut self, image: &str, findings: &mut [Finding]) {
        let today = self.today;
        let states = self.suppressions.iter_mut();
        for state in states.filter(|state| state.suppression.is_for(image)) {
            // It had its chance: only now can it be called unused.
            state.asked = true;
            let suppression = state.suppression;
            for finding in findings.iter_mut().filter(|found| suppression.fits(found)) {
                state.used = true;
                if !suppression.is_over(today) {
                    // Of several for one finding, the first of the config gives the reason.
                    finding.suppressed.get_or_insert_with(|| suppression.mark());
                }
            }
        }
    }

    /// Takes away the assumptions of the image `image` that the project accepts by their ids, unless that is over.
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

    /// The suppressions that are over or were for nothing, as subjects of rules. One that is for none of the
    /// images of the run says nothing: a project has one config and many runs.
    pub fn unused_suppressions(&self) -> Vec<RuleSubject> {
        let asked = self.suppressions.iter().filter(|state| state.asked);
        let idle = |state: &SuppressionState<'_>| match () {
            // Ended comes first: that it was for nothing, too, asks for no other answer.
            () if state.suppression.is_over(self.today) => Some("expired"),
            () if !state.used => Some("unused"),
            () => None,
        };
        asked
            .filter_map(|state| Some(RuleSubject::of_suppression(state.suppression, idle(state)?)))
            .collect()
    }
}
