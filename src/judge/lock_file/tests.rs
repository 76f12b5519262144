//! Locks of `testdata/locks`: what is known of their PyTorch.

use super::{LockKind, check_lock};
use crate::judge::rule::RuleQuestion;
use crate::knowledge::Knowledge;
use image_linkage::escape::escape_bytes;

const CASES: &str = include_str!("../../../testdata/locks/locks.cases");

fn knowledge() -> Knowledge {
    let mut knowledge = Knowledge::built_in();
    knowledge.rules.retain(|rule| rule.answers(RuleQuestion::BuildFile));
    knowledge
}

/// The findings, or the summary without one, and the notes, a line each.
fn answer(name: &str, text: &str, knowledge: &Knowledge) -> Vec<String> {
    let Some(kind) = LockKind::of_file(name, text) else {
        return vec!["no lock".to_owned()];
    };
    let report = match check_lock(kind, name, text, knowledge, &["inference".to_owned()]) {
        Ok(report) => report,
        Err(error) => return vec![format!("error: {error}")],
    };
    let mut lines = Vec::new();
    if report.findings.is_empty() {
        lines.push(escape_bytes(report.answer.as_bytes()));
    }
    for found in report.findings {
        let finding = found.finding;
        let (severity, rule) = (finding.severity.name(), &finding.rule);
        lines.push(format!("{severity} {rule} {}: {}", found.lines.0, finding.message));
        lines.push(format!("fix: {}", finding.fix));
    }
    lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    lines
}

#[test]
fn what_is_known_of_each_lock() {
    let knowledge = knowledge();
    let mut wrong = Vec::new();
    let mut count = 0;
    for case in CASES.split("\n=== ").skip(1) {
        let (title, case) = case.split_once('\n').unwrap();
        let (_, name) = title.rsplit_once(": ").unwrap();
        let (text, expected) = case.split_once("---\n").unwrap();
        let is_comment = |line: &&str| line.is_empty() || line.starts_with('#');
        let expected: Vec<&str> = expected.lines().filter(|line| !is_comment(line)).collect();
        let found = answer(name, text, &knowledge);
        if found != expected {
            wrong.push(format!("{title}:\n{}", found.join("\n")));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert_eq!(count, 34);
}
