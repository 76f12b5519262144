//! JUnit XML for test result viewers: a suite per image, a test case per rule.
//!
//! A rule fails according to `--fail-on`. Lower findings are in the output of a passed case. A rule with only
//! suppressed findings is skipped.

use std::fmt::Write as _;
use std::io;

use super::command::assumption_words;
use super::pages::build_file::{CheckedFiles, file_name};
use super::words::{fix_words, gap_words, layer_words, suppression_words};
use super::writer::ReportWriter;
use crate::facts::ImageFacts;
use crate::judge::file_check::{FileCheck, LineFinding};
use crate::judge::outcome::{AuditedImage, FailOn, RunExit, UnreadImage};
use crate::judge::rule::{Evidence, Finding, Rule};
use image_linkage::escape;

/// One document for all images.
pub(crate) struct JunitReport {
    rules: Vec<String>,
    fail_on: FailOn,
    /// The suites as text, so that no image stays in memory while the next is read.
    suites: Suites,
}

/// The XML of suites, and the number of their cases.
#[derive(Default)]
struct Suites {
    xml: String,
    tests: usize,
    failures: usize,
    errors: usize,
}

struct TestCase {
    name: String,
    /// Why the case did not pass.
    problem: Option<Problem>,
    output: String,
}

/// An element of a test case: `failure`, `error` or `skipped`.
struct Problem {
    element: &'static str,
    message: String,
    severity: Option<&'static str>,
    text: String,
}

impl TestCase {
    fn new(name: &str, problem: Option<Problem>) -> Self {
        let (name, output) = (name.to_owned(), String::new());
        Self { name, problem, output }
    }
}

impl Problem {
    fn new(element: &'static str, message: impl Into<String>, text: String) -> Self {
        let (message, severity) = (message.into(), None);
        Self {
            element,
            message,
            severity,
            text,
        }
    }

    fn failure(first: &Finding, text: String) -> Self {
        let mut problem = Self::new("failure", &*first.message, text);
        problem.severity = Some(first.severity.name());
        problem
    }
}

impl JunitReport {
    /// An empty report of a run with these rules.
    pub(crate) fn new(rules: &[Rule], fail_on: FailOn) -> Self {
        Self {
            rules: rules.iter().map(|rule| rule.id.clone()).collect(),
            fail_on,
            suites: Suites::default(),
        }
    }

    fn case(&self, rule: &str, audit: &AuditedImage) -> TestCase {
        // A rule with one suppressed finding and one that counts has failed.
        let found = audit.findings.iter().filter(|finding| finding.rule == rule);
        let (failing, passing): (Vec<&Finding>, Vec<&Finding>) = found.partition(|finding| self.fail_on.fails(finding));
        let suppressed = passing.iter().find_map(|found| found.suppressed.as_ref());
        let problem = match (failing.first(), suppressed) {
            (Some(first), _) => Some(Problem::failure(first, words(&failing, &audit.facts))),
            (None, Some(mark)) => Some(Problem::new("skipped", suppression_words(mark), String::new())),
            (None, None) => None,
        };
        let mut case = TestCase::new(rule, problem);
        case.output = words(&passing, &audit.facts);
        case
    }

    fn add_file(&self, suites: &mut Suites, check: &FileCheck) {
        let file = file_name(check);
        let mut cases = Vec::new();
        for rule in &self.rules {
            let found = check.findings.iter().filter(|found| found.finding.rule == *rule);
            let failing: Vec<&LineFinding> = found.filter(|found| self.fail_on.fails(&found.finding)).collect();
            let lines: Vec<String> = failing
                .iter()
                .map(|LineFinding { finding, lines, .. }| {
                    format!("{file}:{}: {}\nfix: {}", lines.0, finding.message, finding.fix)
                })
                .collect();
            let problem = failing
                .first()
                .map(|first| Problem::failure(&first.finding, lines.join("\n")));
            cases.push(TestCase::new(rule, problem));
        }
        suites.add(&file, &[], &cases);
    }
}

impl ReportWriter for JunitReport {
    fn audited(&mut self, audit: &AuditedImage) -> String {
        let facts = &audit.facts;
        let mut properties = vec![("verdict".to_owned(), audit.verdict())];
        for assumption in &facts.answers.assumptions {
            properties.push(("assumption".to_owned(), assumption_words(assumption)));
        }
        if let Some(digest) = &facts.image.digest {
            properties.push(("digest".to_owned(), digest.to_string()));
        }
        for plan in &audit.plans {
            properties.push((format!("phase.{}", plan.phase), plan.verdict.name().to_owned()));
        }
        // A rule without findings is a passed case, so that its history has no holes.
        let mut cases: Vec<TestCase> = self.rules.iter().map(|rule| self.case(rule, audit)).collect();
        cases.push(TestCase::new("everything-is-checked", gaps(facts)));
        self.suites.add(&name(facts), &properties, &cases);
        String::new()
    }

    fn unread(&mut self, unread: &UnreadImage) -> String {
        let image = escape::escape_bytes(unread.image.as_bytes());
        let problem = Problem::new("error", &*unread.why, String::new());
        // Result viewers do not show an empty suite, so it gets a case.
        let cases = [TestCase::new("image-can-be-read", Some(problem))];
        self.suites.add(&image, &[], &cases);
        String::new()
    }

    fn end(&mut self, _: RunExit) -> io::Result<String> {
        Ok(self.suites.document())
    }

    /// A suite for each file, with a case per rule.
    fn file_check(&self, checked: &CheckedFiles<'_>) -> io::Result<String> {
        let mut suites = Suites::default();
        for check in checked.files {
            self.add_file(&mut suites, check);
        }
        Ok(suites.document())
    }
}

impl Suites {
    fn add(&mut self, name: &str, properties: &[(String, String)], cases: &[TestCase]) {
        let mut content = String::new();
        if !properties.is_empty() {
            let mut elements = String::new();
            for (name, value) in properties {
                elements += &element(3, "property", &[("name", name), ("value", value)], "");
            }
            content += &element(2, "properties", &[], &elements);
        }
        for case in cases {
            content += &case_element(case, name);
        }
        let (mut failures, mut errors, mut skipped) = (0, 0, 0);
        for problem in cases.iter().filter_map(|case| case.problem.as_ref()) {
            match problem.element {
                "failure" => failures += 1,
                "error" => errors += 1,
                _ => skipped += 1,
            }
        }
        let attributes = [
            ("name", name),
            ("tests", &cases.len().to_string()),
            ("skipped", &skipped.to_string()),
            ("errors", &errors.to_string()),
            ("failures", &failures.to_string()),
        ];
        self.xml += &element(1, "testsuite", &attributes, &content);
        self.tests += cases.len();
        self.failures += failures;
        self.errors += errors;
    }

    fn document(&self) -> String {
        // Jenkins' schema allows `skipped` only in suites.
        let attributes = [
            ("name", env!("CARGO_PKG_NAME")),
            ("tests", &self.tests.to_string()),
            ("failures", &self.failures.to_string()),
            ("errors", &self.errors.to_string()),
        ];
        let suites = element(0, "testsuites", &attributes, &self.xml);
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>{suites}\n")
    }
}

fn case_element(case: &TestCase, class: &str) -> String {
    let mut content = String::new();
    if let Some(problem) = &case.problem {
        let mut attributes = vec![("message", problem.message.as_str())];
        attributes.extend(problem.severity.map(|severity| ("type", severity)));
        content += &element(3, problem.element, &attributes, &escape_xml(&problem.text));
    }
    if !case.output.is_empty() {
        content += &element(3, "system-out", &[], &escape_xml(&case.output));
    }
    // Jenkins and GitLab show the class name with the case; it identifies the image.
    element(2, "testcase", &[("name", &case.name), ("classname", class)], &content)
}

/// An element on a line of its own. Its content is XML: text, or elements, which begin with a line break.
fn element(depth: usize, name: &str, attributes: &[(&str, &str)], content: &str) -> String {
    let indent = format!("\n{}", "    ".repeat(depth));
    let mut out = format!("{indent}<{name}");
    for (attribute, value) in attributes {
        // A parser reads a plain line break in an attribute as a space.
        let value = escape_xml(value).replace('\n', "&#10;").replace('\t', "&#9;");
        let _ = write!(out, " {attribute}=\"{value}\"");
    }
    if content.is_empty() {
        return out + "/>";
    }
    let end = if content.starts_with('\n') { &*indent } else { "" };
    out + &format!(">{content}{end}</{name}>")
}

/// Escapes text for XML 1.0, and drops the characters that it does not allow (section 2.2).
fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\r' => out.push_str("&#13;"),
            '\n' | '\t' => out.push(c),
            '\0'..' ' | '\u{fffe}' | '\u{ffff}' => {}
            c => out.push(c),
        }
    }
    out
}

/// The image with its platform, because all images of an index share a name.
fn name(facts: &ImageFacts) -> String {
    let image = &facts.image;
    escape::escape_bytes(format!("{} {}", image.reference, image.platform).as_bytes())
}

/// Why not everything is checked: gaps keep the run from passing.
fn gaps(facts: &ImageFacts) -> Option<Problem> {
    let words: Vec<String> = gap_words(facts).collect();
    // Not a failure: nothing is known to be wrong, but something was not checked.
    Some(Problem::new("error", words.first()?, words.join("\n")))
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

#[cfg(test)]
mod tests {
    use super::{element, escape_xml};

    #[test]
    fn text_is_never_markup_and_has_only_characters_of_xml() {
        assert_eq!(
            escape_xml("<a b=\"c\">&'\t\n]]>"),
            "&lt;a b=&quot;c&quot;&gt;&amp;&apos;\t\n]]&gt;"
        );
        assert_eq!(
            escape_xml("\0\x1b[31m\u{b}\u{fffe}\u{ffff}é\u{10ffff}\r"),
            "[31mé\u{10ffff}&#13;"
        );
        let line = element(1, "a", &[("b", "c\n\td")], "");
        assert_eq!(line, "\n    <a b=\"c&#10;&#9;d\"/>");
    }
}
