//! JUnit XML, for what shows test results: a suite per image, a test case per rule.
//!
//! A rule fails as the run does, by `--fail-on`; findings below it are in the output of a case that passed. A rule
//! whose findings are suppressed is skipped.

use std::fmt::Write as _;
use std::io;

use quick_junit::{NonSuccessKind, Property, TestCase, TestCaseStatus, TestSuite};

use super::ReportWriter;
use super::command::assumption_words;
use super::words::{gap_words, layer_words, suppression_words};
use crate::facts::ImageFacts;
use crate::judge::outcome::{AuditedImage, FailOn, RunExit, UnreadImage};
use crate::judge::rule::{Evidence, Finding, Rule};
use image_linkage::escape;

/// One document over all images.
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
        // A rule of which one finding is suppressed and another one counts has failed.
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
            (Some(first), _) => {
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                status
                    .set_message(&*first.message)
                    .set_type(first.severity.name())
                    .set_description(words(&failing, &audit.facts));
                status
            }
        };
        let mut case = TestCase::new(rule, status);
        // Jenkins and GitLab show the class name beside the case: it tells the images apart.
        case.set_classname(name(&audit.facts));
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
        // A rule that found nothing is a case that passed, so that a history of the rule has no holes.
        suite.add_test_cases(self.rules.iter().map(|rule| self.case(rule, audit)));
        suite.add_test_case(gaps(facts));
        self.suites.push(suite);
        String::new()
    }

    fn unread(&mut self, unread: &UnreadImage) -> String {
        let image = escape::escape_bytes(unread.image.as_bytes());
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(&*unread.why);
        // A suite of its own: what shows test results would not show an image without a case.
        let mut case = TestCase::new("image-can-be-read", status);
        case.set_classname(&*image);
        let mut suite = TestSuite::new(image);
        suite.add_test_case(case);
        self.suites.push(suite);
        String::new()
    }

    fn end(&mut self, _: RunExit) -> io::Result<String> {
        let mut report = quick_junit::Report::new(env!("CARGO_PKG_NAME"));
        report.add_test_suites(std::mem::take(&mut self.suites));
        let text = report.to_string().map_err(io::Error::other)?;
        Ok(without_skipped_at_root(&text))
    }
}

/// The document without an attribute that the schema that Jenkins goes by has in suites alone.
pub(super) fn without_skipped_at_root(text: &str) -> String {
    // quick-junit has no switch for it, so the attribute is cut out of what it wrote. The values are the name of the
    // program and numbers: the first `>` ends the tag.
    let root = text
        .split_once("<testsuites ")
        .and_then(|(head, rest)| Some((head, rest.split_once('>')?)));
    let Some((head, (attributes, rest))) = root else {
        return text.to_owned();
    };
    let kept = attributes
        .split(' ')
        .filter(|attribute| !attribute.starts_with("skipped="));
    let kept = kept.collect::<Vec<_>>().join(" ");
    format!("{head}<testsuites {kept}>{rest}")
}

/// The image with its platform: an index has several of the same name.
fn name(facts: &ImageFacts) -> String {
    let image = &facts.image;
    escape::escape_bytes(format!("{} {}", image.reference, image.platform).as_bytes())
}

/// Whether everything could be checked: what could not keeps the run from passing.
fn gaps(facts: &ImageFacts) -> TestCase {
    let words: Vec<String> = gap_words(facts).collect();
    let status = match words.first() {
        None => TestCaseStatus::success(),
        // An error, not a failure: nothing is known to be wrong, but nobody could look.
        Some(first) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
            status.set_message(&**first).set_description(words.join("\n"));
            status
        }
    };
    let mut case = TestCase::new("everything-is-checked", status);
    case.set_classname(name(facts));
    case
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
        let _ = writeln!(out, "  fix {}", finding.fix);
    }
    out
}
