//! Applies rules to what the checks found.

use super::{Finding, Hit, Value};
use crate::knowledge::Phase;
use crate::knowledge::rule::{OPERATORS, Rule, Severity, SeverityRaise};

/// Judges `hits` by `rules`. The severity is the highest for any of `phases`, or the rule's own if no phase was
/// requested. The findings are sorted for reports.
pub fn judge_hits(rules: &[Rule], hits: &[Hit], phases: &[Phase]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in rules {
        let of_rule = hits.iter().filter(|hit| rule.fits(hit));
        findings.extend(of_rule.filter_map(|hit| rule.find(hit, phases)));
    }
    sort_findings(&mut findings);
    // Two hits may produce the same text at the same location.
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
    fn fits(&self, hit: &Hit) -> bool {
        let mut conditions = self.conditions.iter();
        hit.rule == self.check()
            && conditions.all(|(name, written)| hit.get(name).is_some_and(|value| meets(value, written)))
    }

    fn find(&self, hit: &Hit, phases: &[Phase]) -> Option<Finding> {
        let value = |name: &str| {
            let value = hit.get(name);
            debug_assert!(value.is_some(), "{} has no value {name}", hit.rule);
            value.map(Value::to_string).unwrap_or_default()
        };
        Some(Finding {
            rule: self.id.clone(),
            severity: self.severity_of(hit, phases)?,
            message: self.message.fill(value),
            verdict: self.verdict.as_ref().map(|verdict| verdict.fill(value)),
            locations: hit.locations.clone(),
            evidence: hit.evidence.clone(),
            fix: self.fix.fill(value),
            commands: hit.commands.clone(),
            instructions: Vec::new(),
            repair: hit.repair.clone(),
            stops: hit.stops,
            follows: None,
            explains: self.explains,
            cured_by: self.cured_by,
            first_cause: self.first_cause,
            suppressed: None,
        })
    }

    /// The highest severity for `phases`, without those for which the rule is off; `None` if none is left.
    fn severity_of(&self, hit: &Hit, phases: &[Phase]) -> Option<Severity> {
        let mut columns: Vec<&str> = phases.iter().map(|phase| self.severity_phase(phase)).collect();
        columns.retain(|column| self.severity_for(column).is_some());
        // A rule that is off for every requested phase has no severity and finds nothing.
        let base = if phases.is_empty() {
            self.severity
        } else {
            columns.iter().filter_map(|column| self.severity_for(column)).max()
        }?;
        // Without a requested phase the user may mean any, so every raise applies.
        let is_for = |raise: &SeverityRaise| {
            raise.phases.is_empty()
                || phases.is_empty()
                || columns
                    .iter()
                    .any(|column| raise.phases.iter().any(|phase| phase == column))
        };
        // Includes the base, because a raise to a lower severity changes nothing.
        let mut highest = base;
        for raise in &self.raise {
            debug_assert!(
                hit.get(&raise.when).is_some(),
                "{} has no condition {}",
                hit.rule,
                raise.when
            );
            if is_for(raise) && hit.is_raised(&raise.when) {
                highest = highest.max(raise.severity);
            }
        }
        Some(highest)
    }
}

/// Whether a value meets the condition of a user's rule: an operator and a number, or the value itself.
fn meets(value: &Value, written: &str) -> bool {
    let number = match value {
        Value::Count(number) | Value::Bytes(number) => *number,
        Value::Text(_) | Value::Raise(_) => return value.to_string() == written,
    };
    for operator in OPERATORS {
        let Some(limit) = written
            .strip_prefix(operator)
            .and_then(|rest| rest.trim().parse::<u64>().ok())
        else {
            continue;
        };
        return match operator {
            ">=" => number >= limit,
            "<=" => number <= limit,
            ">" => number > limit,
            _ => number < limit,
        };
    }
    written.parse() == Ok(number)
}

#[cfg(test)]
mod tests {
    use super::{judge_hits, meets};
    use crate::judge::rule::{Hit, Shown, Value};
    use crate::knowledge::rule::{Rule, Severity};
    use crate::knowledge::yaml_text::YamlText;
    use crate::knowledge::{Knowledge, Phase};

    const RULE: &str = "summary: s\nlike: tools-exclude-each-other\nseverity: note\nmessage: m\nwhy: w\nfix: f\n\
                        phases: {inference: off, training: warning, profiling: error, own: off}\n";

    #[test]
    fn the_highest_severity_of_the_requested_phases_counts() {
        let tables = Knowledge::built_in().tables;
        let phase = |name: &&str| match *name {
            "own" | "other" => Phase::read(name, YamlText::of("summary: s\nlike: profiling\n"), &[], tables).unwrap(),
            name => Knowledge::built_in().phases_named(&[name.to_owned()]).remove(0),
        };
        let rule = Rule::read("x", YamlText::of(RULE), &["inference", "training", "profiling", "own"]).unwrap();
        let hits = [Hit::new("tools-exclude-each-other")];
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
            let found = judge_hits(std::slice::from_ref(&rule), &hits, &phases);
            assert_eq!(found.first().map(|finding| finding.severity), severity, "{asked:?}");
        }
    }

    #[test]
    fn a_condition_compares_numbers_and_words() {
        for (value, written, is_met) in [
            (Value::Bytes(2_000_000_000), ">= 1000000000", true),
            (Value::Count(3), "> 3", false),
            (Value::Count(3), "<= 3", true),
            (Value::Count(3), "< 3", false),
            (Value::Count(3), "3", true),
            (Value::Raise(false), "false", true),
            (Shown::known("12.4").into(), "12.4", true),
            (Shown::known("12.4").into(), "12", false),
        ] {
            assert_eq!(meets(&value, written), is_met, "{value} {written}");
        }
    }
}
