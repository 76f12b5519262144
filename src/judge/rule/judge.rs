//! Applies rules to subjects.

use super::{Finding, RuleSubject};
use crate::knowledge::Phase;
use crate::knowledge::rule::{FieldCondition, Rule, Severity, SeverityRaise};

/// The findings of `rules` on `subjects`, the gravest first, then by rule and by place. The severity is that for
/// the gravest of `phases`; where none was asked for, the rule's own.
pub fn judge_subjects(rules: &[Rule], subjects: &[RuleSubject], phases: &[Phase]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = rules
        .iter()
        .flat_map(|rule| {
            subjects
                .iter()
                .filter(|subject| rule.fits(subject))
                .filter_map(|subject| rule.find(subject, phases))
        })
        .collect();
    sort_findings(&mut findings);
    // Two subjects may come to the same words at the same place.
    findings.dedup();
    findings
}

/// Puts findings into the order of reports: what counts before what is suppressed, the gravest first, then by
/// rule and by place.
pub fn sort_findings(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        let suppressed = |finding: &Finding| finding.suppressed.is_some();
        suppressed(a)
            .cmp(&suppressed(b))
            .then_with(|| b.severity.cmp(&a.severity))
            // What has the fix for others stands before them, and before what has none.
            .then_with(|| {
                (a.follows.is_some(), a.commands.is_empty()).cmp(&(b.follows.is_some(), b.commands.is_empty()))
            })
            .then_with(|| a.rule.cmp(&b.rule))
            // By place at last, so that the order of files in a tar does not show.
            .then_with(|| a.locations.cmp(&b.locations))
    });
}

impl Rule {
    fn fits(&self, subject: &RuleSubject) -> bool {
        self.kind == subject.kind && meets(&self.conditions, subject)
    }

    fn find(&self, subject: &RuleSubject, phases: &[Phase]) -> Option<Finding> {
        Some(Finding {
            rule: self.id.clone(),
            severity: self.severity_of(subject, phases)?,
            message: self.message.fill(&subject.fields),
            verdict: self.verdict.as_ref().map(|verdict| verdict.fill(&subject.fields)),
            locations: subject.locations.clone(),
            evidence: subject.evidence.clone(),
            fix: self.fix.fill(&subject.fields),
            commands: subject.commands.clone(),
            instructions: Vec::new(),
            repair: subject.repair.clone(),
            follows: None,
            suppressed: None,
        })
    }

    /// The gravest severity for `phases`, those left out for which the rule is off; `None` when none is left.
    fn severity_of(&self, subject: &RuleSubject, phases: &[Phase]) -> Option<Severity> {
        let columns = phases.iter().map(|phase| self.severity_phase(phase));
        let on: Vec<&str> = columns.filter(|column| !self.off.phases.contains(*column)).collect();
        // A rule that is off for every phase that was asked for has no gravest severity, and finds nothing.
        let base = if phases.is_empty() {
            (!self.off.unasked).then_some(self.severity)
        } else {
            let of = |column: &&str| self.phases.get(*column).copied().unwrap_or(self.severity);
            on.iter().map(of).max()
        }?;
        // Where no phase was asked for, any may be meant: every raise holds.
        let holds = |raise: &&SeverityRaise| {
            raise.phases.is_empty()
                || phases.is_empty()
                || on.iter().any(|on| raise.phases.iter().any(|phase| phase == on))
        };
        let raised = self
            .raise
            .iter()
            .filter(holds)
            .filter(|raise| meets(&raise.conditions, subject));
        // With the base: a raise to a lower severity changes nothing.
        raised.map(|raise| raise.severity).chain([base]).max()
    }
}

fn meets(conditions: &[FieldCondition], subject: &RuleSubject) -> bool {
    conditions.iter().all(|condition| condition.holds(&subject.fields))
}
