//! The findings of a Dockerfile for what shows results in a pipeline: SARIF, JUnit, annotations of GitHub Actions.

use std::io;

use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};
use serde_json::{Value, json};

use super::CheckedBuildFile;
use crate::judge::build_file::StepFinding;
use crate::judge::outcome::FailOn;
use crate::judge::rule::{Rule, Severity};
use crate::report::github::annotation;
use crate::report::json_parts::without_nulls;
use crate::report::junit::without_skipped_at_root;
use crate::report::sarif::{descriptor, message, one_run, percent};
use crate::report::words::suppression_words;

/// The SARIF log of a file.
pub(crate) fn sarif_log(checked: &CheckedBuildFile<'_>, rules: &[Rule]) -> String {
    let results = checked
        .report
        .findings
        .iter()
        .map(|found| sarif_result(checked, found, rules));
    let descriptor = |rule| descriptor(rule, &checked.report.library_name);
    one_run(&json!({
        "tool": {"driver": {
            "name": env!("CARGO_PKG_NAME"),
            "semanticVersion": env!("CARGO_PKG_VERSION"),
            "rules": rules.iter().map(descriptor).collect::<Value>(),
        }},
        // A run of its own beside that of an image (GitHub, "Uploading more than one SARIF file for a commit").
        "automationDetails": {"id": "check/"},
        "invocations": [{"executionSuccessful": true, "exitCode": checked.exit as u8}],
        "results": results.collect::<Value>(),
        "columnKind": "unicodeCodePoints",
    }))
}

fn sarif_result(checked: &CheckedBuildFile<'_>, found: &StepFinding, rules: &[Rule]) -> Value {
    let finding = &found.finding;
    let place = json!({"uri": percent(checked.file.as_bytes())});
    let region = json!({"startLine": found.lines.0, "endLine": found.lines.1});
    // The whole lines of the instruction, up to the start of the next one.
    let deleted = json!({"startLine": found.lines.0, "startColumn": 1, "endLine": found.lines.1 + 1, "endColumn": 1});
    let fixes = found.replacement.as_ref().map(|new| {
        json!([{
            "description": message(&finding.fix),
            "artifactChanges": [{
                "artifactLocation": place.clone(),
                "replacements": [{"deletedRegion": deleted, "insertedContent": {"text": format!("{new}\n")}}],
            }],
        }])
    });
    let suppressions = finding.suppressed.iter().map(
        |suppressed| json!({"kind": "external", "status": "accepted", "justification": suppression_words(suppressed)}),
    );
    without_nulls(json!({
        "ruleId": finding.rule,
        "ruleIndex": rules.iter().position(|rule| rule.id == finding.rule),
        "level": finding.severity.name(),
        "message": message(&format!("{}. To fix it: {}.", finding.message, finding.fix)),
        "locations": [{"physicalLocation": {"artifactLocation": place, "region": region}}],
        "fixes": fixes,
        "suppressions": suppressions.collect::<Value>(),
    }))
}

/// Annotations, each at its line.
pub(crate) fn annotations(checked: &CheckedBuildFile<'_>) -> String {
    let lines = checked.counting().map(|found| {
        let finding = &found.finding;
        let command = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "notice",
        };
        let place = [
            ("file", checked.name()),
            ("line", found.lines.0.to_string()),
            ("endLine", found.lines.1.to_string()),
            ("title", finding.rule.clone()),
        ];
        annotation(command, &place, &format!("{}\nfix: {}", finding.message, finding.fix))
    });
    lines.collect()
}

/// JUnit XML: a suite for the file, a case for each rule.
///
/// Errors: Those of the writer.
pub(crate) fn junit_report(checked: &CheckedBuildFile<'_>, rules: &[Rule], fail_on: FailOn) -> io::Result<String> {
    let mut suite = TestSuite::new(checked.name());
    for rule in rules {
        let found = checked
            .report
            .findings
            .iter()
            .filter(|found| found.finding.rule == rule.id);
        let failing: Vec<&StepFinding> = found.filter(|found| fail_on.fails(&found.finding)).collect();
        let status = match failing.first() {
            None => TestCaseStatus::success(),
            Some(first) => {
                let words = failing
                    .iter()
                    .map(|found| format!("{}:{}: {}", checked.name(), found.lines.0, found.finding.message));
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                status
                    .set_message(&*first.finding.message)
                    .set_type(first.finding.severity.name())
                    .set_description(words.collect::<Vec<_>>().join("\n"));
                status
            }
        };
        let mut case = TestCase::new(rule.id.clone(), status);
        case.set_classname(checked.name());
        suite.add_test_case(case);
    }
    let mut report = quick_junit::Report::new(env!("CARGO_PKG_NAME"));
    report.add_test_suite(suite);
    let text = report.to_string().map_err(io::Error::other)?;
    Ok(without_skipped_at_root(&text))
}
