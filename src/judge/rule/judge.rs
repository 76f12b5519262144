//! Applies rules to subjects.

use super::{Finding, RuleSubject};
use crate::knowledge::Phase;
use crate::knowledge::rule::{FieldCondition, Rule, Severity, SeverityRaise};

/// Judges `subjects` by `rules`. The severity is the highest for any of `phases`, or the rule's own if no phase was
/// requested. The findings are sorted for reports.
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
    // Two subjects may produce the same text at the same location.
    findings.dedup();
    findings
}

/// Sorts findings into report order: unsuppressed first, highest severity first, then by rule and location.
pub fn sort_findings(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        let suppressed = |finding: &Finding| finding.suppressed.is_some();
        suppressed(a)
            .cmp(&suppressed(b))
            .then_with(|| b.severity.cmp(&a.severity))
            // A finding whose fix helps others comes before them. Findings without commands come later.
            .then_with(|| {
                let order = |finding: &Finding| (finding.follows.is_some(), finding.stops, finding.commands.is_empty());
                order(a).cmp(&order(b))
            })
            .then_with(|| a.rule.cmp(&b.rule))
            // Location comes last, so that the file order in a tar does not show.
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
            stops: subject.stops,
            follows: None,
            suppressed: None,
        })
    }

    /// The highest severity for `phases`, without those for which the rule is off; `None` if none is left.
    fn severity_of(&self, subject: &RuleSubject, phases: &[Phase]) -> Option<Severity> {
        let columns = phases.iter().map(|phase| self.severity_phase(phase));
        let on: Vec<&str> = columns.filter(|column| !self.off.phases.contains(*column)).collect();
        // A rule that is off for every requested phase has no severity and finds nothing.
        let base = if phases.is_empty() {
            (!self.off.unasked).then_some(self.severity)
        } else {
            let of = |column: &&str| self.phases.get(*column).copied().unwrap_or(self.severity);
            on.iter().map(of).max()
        }?;
        // Without a requested phase the user may mean any, so every raise applies.
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
        // Includes the base, because a raise to a lower severity changes nothing.
        raised.map(|raise| raise.severity).chain([base]).max()
    }
}

fn meets(conditions: &[FieldCondition], subject: &RuleSubject) -> bool {
    conditions.iter().all(|condition| condition.holds(&subject.fields))
}

#[cfg(test)]
mod tests {
    use super::judge_subjects;
    use crate::judge::rule::RuleSubject;
    use crate::knowledge::rule::{Severity, compile_rule};
    use crate::knowledge::yaml_text::YamlText;
    use crate::knowledge::{Knowledge, Phase};

    const RULE: &str = "summary: s\nsubject: rivals\nwhere: {}\nseverity: note\nmessage: m\nwhy: w\nfix: f\n\
                        phases: {inference: off, training: warning, profiling: error, own: off}\n";

    #[test]
    fn the_highest_severity_of_the_requested_phases_counts() {
        let tables = Knowledge::built_in().tables;
        let phase = |name: &&str| match *name {
            "own" | "other" => Phase::read(name, YamlText::of("summary: s\nlike: profiling\n"), &[], tables).unwrap(),
            name => Knowledge::built_in().phases_named(&[name.to_owned()]).remove(0),
        };
        let rule = compile_rule(
            "x",
            YamlText::of(RULE),
            &["inference", "training", "profiling", "own"],
            &[],
        )
        .unwrap();
        let subjects = [RuleSubject::of_rivals("a and b", "c")];
        for (asked, severity) in [
            (&[][..], Some(Severity::Note)),
            (&["inference"], None),
            (&["inference", "training"], Some(Severity::Warning)),
            (&["training", "profiling"], Some(Severity::Error)),
            // The rule names one phase of the user; the other has the severity of the phase that it is like.
            (&["own"], None),
            (&["other"], Some(Severity::Error)),
        ] {
            let phases: Vec<Phase> = asked.iter().map(phase).collect();
            let found = judge_subjects(std::slice::from_ref(&rule), &subjects, &phases);
            assert_eq!(found.first().map(|finding| finding.severity), severity, "{asked:?}");
        }
    }
}
