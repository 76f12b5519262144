//! JUnit XML for test result viewers: a suite per image, a test case per rule.
//!
//! A rule fails according to `--fail-on`. Lower findings are in the output of a passed case. A rule with only
//! suppressed findings is skipped.

use std::fmt::Write as _;
use std::io;

use quick_junit::{NonSuccessKind, Property, TestCase, TestCaseStatus, TestSuite};

use super::build_file::CheckedBuildFile;
use super::command::assumption_words;
use super::text_layout::joined;
use super::words::{fix_words, gap_words, layer_words, suppression_words};
use super::writer::ReportWriter;
use crate::facts::ImageFacts;
use crate::judge::build_file::StepFinding;
use crate::judge::outcome::{AuditedImage, FailOn, RunExit, UnreadImage};
use crate::judge::rule::{Evidence, Finding, Rule};
use image_linkage::escape;

/// One document for all images.
pub(crate) struct JunitReport {
    rules: Vec<String>,
    fail_on: FailOn,
    suites: Vec<TestSuite>,
}

impl JunitReport {
    /// An empty report of a run with these rules.
    pub(crate) fn new(rules: &[Rule], fail_on: FailOn) -> Self {
        Self {
            rules: rules.iter().map(|rule| rule.id.clone()).collect(),
            fail_on,
            suites: Vec::new(),
        }
    }

    fn case(&self, rule: &str, audit: &AuditedImage) -> TestCase {
        // A rule with one suppressed finding and one that counts has failed.
        let found = audit.findings.iter().filter(|finding| finding.rule == rule);
        let (failing, passing): (Vec<&Finding>, Vec<&Finding>) = found.partition(|finding| self.fail_on.fails(finding));
        let suppressed = passing.iter().find_map(|found| found.suppressed.as_ref());
        let status = match (failing.first(), suppressed) {
            (None, None) => TestCaseStatus::success(),
            (None, Some(suppressed)) => {
                let mut status = TestCaseStatus::skipped();
                status.set_message(suppression_words(suppressed));
                status
            }
            (Some(first), _) => failure(first, words(&failing, &audit.facts)),
        };
        let mut case = test_case(rule, &name(&audit.facts), status);
        if !passing.is_empty() {
            case.set_system_out(words(&passing, &audit.facts));
        }
        case
    }
}

impl ReportWriter for JunitReport {
    fn audited(&mut self, audit: &AuditedImage) -> String {
        let facts = &audit.facts;
        let mut suite = TestSuite::new(name(facts));
        let digest = facts.image.digest.as_ref().map(ToString::to_string);
        suite.add_property(Property::new("verdict", audit.verdict()));
        let assumptions = facts.assumptions.iter().map(assumption_words);
        suite.add_properties(assumptions.map(|words| Property::new("assumption", words)));
        suite.add_properties(digest.map(|digest| Property::new("digest", digest)));
        suite.add_properties(audit.plans.iter().map(|plan| {
            let name = format!("phase.{}", plan.phase);
            Property::new(name, plan.verdict.name())
        }));
        // A rule without findings is a passed case, so that its history has no holes.
        suite.add_test_cases(self.rules.iter().map(|rule| self.case(rule, audit)));
        suite.add_test_case(gaps(facts));
        self.suites.push(suite);
        String::new()
    }

    fn unread(&mut self, unread: &UnreadImage) -> String {
        let image = escape::escape_bytes(unread.image.as_bytes());
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(&*unread.why);
        // Result viewers do not show an empty suite, so it gets a case.
        let mut suite = TestSuite::new(&*image);
        suite.add_test_case(test_case("image-can-be-read", &image, status));
        self.suites.push(suite);
        String::new()
    }

    fn end(&mut self, _: RunExit) -> io::Result<String> {
        document(std::mem::take(&mut self.suites))
    }

    /// A suite for the file, with a case per rule.
    fn build_file(&self, checked: &CheckedBuildFile<'_>) -> io::Result<String> {
        let file = checked.name();
        let mut suite = TestSuite::new(&*file);
        for rule in &self.rules {
            let found = checked
                .report
                .findings
                .iter()
                .filter(|found| found.finding.rule == *rule);
            let failing: Vec<&StepFinding> = found.filter(|found| self.fail_on.fails(&found.finding)).collect();
            let lines = failing.iter();
            let lines = lines.map(|found| format!("{file}:{}: {}", found.lines.0, found.finding.message));
            let status = failing.first().map_or_else(TestCaseStatus::success, |first| {
                failure(&first.finding, joined(lines, "\n"))
            });
            suite.add_test_case(test_case(rule, &file, status));
        }
        document(vec![suite])
    }
}

fn document(suites: Vec<TestSuite>) -> io::Result<String> {
    let mut report = quick_junit::Report::new(env!("CARGO_PKG_NAME"));
    report.add_test_suites(suites);
    let text = report.to_string().map_err(io::Error::other)?;
    Ok(without_skipped_at_root(&text))
}

fn failure(first: &Finding, description: String) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status
        .set_message(&*first.message)
        .set_type(first.severity.name())
        .set_description(description);
    status
}

fn test_case(rule: &str, class: &str, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(rule, status);
    // Jenkins and GitLab show the class name with the case; it identifies the image.
    case.set_classname(class);
    case
}

/// Removes an attribute that Jenkins' schema only allows in suites.
fn without_skipped_at_root(text: &str) -> String {
    // quick-junit has no option for this, so the attribute is cut from its output. The attribute values are the program
    // name and numbers, so the first `>` ends the tag.
    let root = text
        .split_once("<testsuites ")
        .and_then(|(head, rest)| Some((head, rest.split_once('>')?)));
    let Some((head, (attributes, rest))) = root else {
        return text.to_owned();
    };
    let kept = attributes
        .split(' ')
        .filter(|attribute| !attribute.starts_with("skipped="));
    format!("{head}<testsuites {}>{rest}", joined(kept, " "))
}

/// The image with its platform, because all images of an index share a name.
fn name(facts: &ImageFacts) -> String {
    let image = &facts.image;
    escape::escape_bytes(format!("{} {}", image.reference, image.platform).as_bytes())
}

/// The case for completeness: gaps keep the run from passing.
fn gaps(facts: &ImageFacts) -> TestCase {
    let words: Vec<String> = gap_words(facts).collect();
    let status = match words.first() {
        None => TestCaseStatus::success(),
        // An error and not a failure: nothing is known to be wrong, but something was not checked.
        Some(first) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
            status.set_message(&**first).set_description(words.join("\n"));
            status
        }
    };
    test_case("everything-is-checked", &name(facts), status)
}

fn words(findings: &[&Finding], facts: &ImageFacts) -> String {
    let mut out = String::new();
    for finding in findings {
        let (severity, message) = (finding.severity.name(), &finding.message);
        let _ = match &finding.suppressed {
            None => writeln!(out, "{severity}: {message}"),
            Some(suppressed) => {
                let because = suppression_words(suppressed);
                writeln!(out, "suppressed {severity}: {message}\n  because {because}")
            }
        };
        for location in &finding.locations {
            let _ = writeln!(out, "  at {}", location.path);
            if let Some(layer) = location.layer {
                let _ = writeln!(out, "     {}", layer_words(facts, layer));
            }
        }
        for evidence in &finding.evidence {
            let _ = match evidence {
                Evidence::Words(words) => writeln!(out, "  says {words}"),
                Evidence::Searched(line) => writeln!(out, "  searched {}", line.text()),
            };
        }
        let _ = writeln!(out, "  fix {}", fix_words(finding).replace('\n', "\n  "));
    }
    out
}
