//! SARIF 2.1.0 for code scanning: one run for all images.
//!
//! An alert needs a location. A finding on files has their paths relative to the image's root; one on the whole image
//! has the image's name. GitHub shows no result without a line, so each location is line 1. See OASIS, "Static Analysis
//! Results Interchange Format Version 2.1.0", and GitHub, "SARIF support for code scanning".

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use serde_json::{Value, json};

use super::command;
use super::json_parts::without_nulls;
use super::markdown::escape_markdown;
use super::pages::build_file::CheckedFiles;
use super::words::{fix_words, gap_words, image_name, layer_words, suppression_words};
use super::writer::ReportWriter;
use crate::facts::ImageFacts;
use crate::judge::file_check::LineFinding;
use crate::judge::outcome::{AuditedImage, RunExit, UnreadImage};
use crate::judge::rule::{Evidence, Finding, FindingLocation, Rule, Severity};
use image_linkage::digest::DigestHasher;
use image_linkage::escape;
use image_source::SourceKind;

/// One document for all images.
#[derive(Default)]
pub(crate) struct SarifReport {
    rules: Vec<Value>,
    bases: BTreeMap<String, Value>,
    images: Vec<Value>,
    results: Vec<Value>,
    notifications: Vec<Value>,
    /// How many results had each fingerprint so far.
    seen: BTreeMap<String, usize>,
    unread: bool,
}

impl SarifReport {
    /// An empty report of a run with these rules; `library_name` is the library's display name.
    pub(crate) fn new(rules: &[Rule], library_name: &str) -> Self {
        Self {
            rules: rules.iter().map(|rule| descriptor(rule, library_name)).collect(),
            ..Self::default()
        }
    }

    fn result(&mut self, finding: &Finding, facts: &ImageFacts, base: &str) -> Value {
        let fingerprint = fingerprint(finding, facts);
        // Equal fingerprints would merge into one alert, so they are numbered in CodeQL's form: 16 digits, a colon, a
        // number.
        let number = self.seen.entry(fingerprint.clone()).or_default();
        *number += 1;
        let own = ResultParts {
            locations: locations(finding, facts, base).into(),
            fingerprints: json!({"primaryLocationLineHash": format!("{fingerprint}:{number}")}),
            properties: json!({
                "image": facts.image.reference,
                "platform": facts.image.platform.to_string(),
                "evidence": finding.evidence.iter().map(Evidence::text).collect::<Value>(),
                "fix": fix_words(finding),
            }),
            ..ResultParts::default()
        };
        result_json(finding, self.rule_index(finding), &own)
    }

    fn rule_index(&self, finding: &Finding) -> Option<usize> {
        self.rules.iter().position(|rule| rule["id"] == finding.rule)
    }
}

impl ReportWriter for SarifReport {
    fn audited(&mut self, audit: &AuditedImage) -> String {
        let facts = &audit.facts;
        // Images contain files of the same names. A base per image keeps their alerts apart. It has no URI, because
        // readers do not have the image at a known location.
        let base = format!("IMAGE{}", self.images.len() + 1);
        let reference = image_name(facts);
        let root = format!("the root of {reference}, {}", facts.image.platform);
        self.bases.insert(base.clone(), json!({"description": message(&root)}));
        for finding in &audit.findings {
            let result = self.result(finding, facts, &base);
            self.results.push(result);
        }
        let gaps = gap_words(facts).map(|gap| notification("gap", "warning", &format!("{reference}: {gap}")));
        self.notifications.extend(gaps);
        let assumed = facts.answers.assumptions.iter().map(command::assumption_line);
        let assumed =
            assumed.map(|words| notification("assumption", "note", &format!("{reference}: assumed: {words}")));
        self.notifications.extend(assumed);
        self.images.push(image(audit));
        String::new()
    }

    fn unread(&mut self, unread: &UnreadImage) -> String {
        let image = escape::escape_bytes(unread.image.as_bytes());
        let words = format!("{image}: not audited: {}", unread.why);
        self.notifications.push(notification("not-audited", "error", &words));
        self.unread = true;
        String::new()
    }

    fn file_check(&self, checked: &CheckedFiles<'_>) -> io::Result<String> {
        let results = checked.files.iter().flat_map(|check| {
            let findings = check.findings.iter();
            findings.map(|found| step_result(found, self.rule_index(&found.finding), &check.file))
        });
        Ok(one_run(&json!({
            "tool": tool(&self.rules, &Value::Null),
            // Separates this run from an image's (GitHub, "Uploading more than one SARIF file for a commit").
            "automationDetails": {"id": "check/"},
            "invocations": [{"executionSuccessful": true, "exitCode": checked.exit as u8}],
            "results": results.collect::<Value>(),
            "columnKind": "unicodeCodePoints",
        })))
    }

    fn end(&mut self, exit: RunExit) -> io::Result<String> {
        // Moves the data into the document; a report of many images is large.
        let take = std::mem::take(self);
        // One run for all images: GitHub rejects a file with two runs of the same tool and category.
        Ok(one_run(&json!({
            "tool": tool(&take.rules, &json!([
                {"id": "gap", "shortDescription": message("something could not be checked")},
                {"id": "assumption", "shortDescription": message("the verdict holds if this does")},
                {"id": "not-audited", "shortDescription": message("an image could not be audited")},
            ])),
            "invocations": [{
                "executionSuccessful": !take.unread,
                "exitCode": exit as u8,
                "exitCodeDescription": exit.words(),
                "toolExecutionNotifications": take.notifications,
            }],
            "originalUriBaseIds": take.bases,
            "results": take.results,
            "columnKind": "unicodeCodePoints",
            // A property bag (section 3.8), because SARIF has no field for an image and its verdict.
            "properties": {"images": take.images},
        })))
    }
}

/// The program, its rules, and its possible notifications.
fn tool(rules: &[Value], notifications: &Value) -> Value {
    json!({"driver": without_nulls(json!({
        "name": env!("CARGO_PKG_NAME"),
        "semanticVersion": env!("CARGO_PKG_VERSION"),
        "rules": rules,
        "notifications": notifications,
    }))})
}

/// A result without null fields.
fn result_json(finding: &Finding, rule_index: Option<usize>, own: &ResultParts) -> Value {
    // Suppressions are in a config and not in the source.
    let suppressions = finding.suppressed.iter().map(
        |suppressed| json!({"kind": "external", "status": "accepted", "justification": suppression_words(suppressed)}),
    );
    without_nulls(json!({
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": finding.severity.name(),
        "message": message(&format!("{}. To fix it: {}.", finding.message, finding.fix)),
        "locations": own.locations,
        "partialFingerprints": own.fingerprints,
        "fixes": own.fixes,
        // Section 3.27.23: if one result has the list, all must have it; it is empty for a result that counts.
        "suppressions": suppressions.collect::<Value>(),
        "properties": own.properties,
    }))
}

/// The parts of a result that differ between images and Dockerfiles.
#[derive(Default)]
struct ResultParts {
    locations: Value,
    fingerprints: Value,
    fixes: Value,
    properties: Value,
}

/// A result at the lines of its instruction, with the replacement.
fn step_result(found: &LineFinding, rule_index: Option<usize>, file: &str) -> Value {
    let place = json!({"uri": percent(file.as_bytes())});
    let region = json!({"startLine": found.lines.0, "endLine": found.lines.1});
    // The whole lines of the instruction, up to the start of the next.
    let deleted = json!({"startLine": found.lines.0, "startColumn": 1, "endLine": found.lines.1 + 1, "endColumn": 1});
    let fixes = found.replacement.as_ref().map(|new| {
        json!([{
            "description": message(&found.finding.fix),
            "artifactChanges": [{
                "artifactLocation": place.clone(),
                "replacements": [{"deletedRegion": deleted, "insertedContent": {"text": format!("{new}\n")}}],
            }],
        }])
    });
    let own = ResultParts {
        locations: json!([{"physicalLocation": {"artifactLocation": place, "region": region}}]),
        fixes: fixes.unwrap_or_default(),
        ..ResultParts::default()
    };
    result_json(&found.finding, rule_index, &own)
}

/// The text of a log with one run (SARIF 2.1.0, section 3.13).
fn one_run(run: &Value) -> String {
    let log = json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    });
    format!("{log:#}\n")
}

fn descriptor(rule: &Rule, library_name: &str) -> Value {
    let fix = rule.fix.with_field_names();
    let why = rule.why.trim();
    let mut markdown = format!("{}\n\n**To fix it:** {}\n", escape_markdown(why), escape_markdown(&fix));
    for reference in &rule.references {
        let _ = write!(markdown, "\n- <{reference}>");
    }
    without_nulls(json!({
        "id": rule.id,
        "shortDescription": message(&rule.summary),
        "fullDescription": message(why),
        "help": {"text": format!("{why}\nTo fix it: {fix}"), "markdown": markdown},
        "helpUri": rule.references.first(),
        // The level without a phase; each result has its own.
        "defaultConfiguration": {"level": rule.usual_severity().name()},
        "properties": {
            // GitHub can filter alerts by tags.
            "tags": [library_name.to_lowercase(), "container"],
            // GitHub's names of the three levels.
            "problem.severity": match rule.usual_severity() {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Note => "recommendation",
            },
        },
    }))
}

fn notification(id: &str, level: &str, words: &str) -> Value {
    json!({"descriptor": {"id": id}, "level": level, "message": message(words)})
}

fn image(audit: &AuditedImage) -> Value {
    let facts = &audit.facts;
    let phases = audit.plans.iter();
    json!({
        "reference": facts.image.reference,
        "digest": facts.image.digest.as_ref().map(ToString::to_string),
        "platform": facts.image.platform.to_string(),
        "verdict": audit.verdict(),
        "verdictLevel": audit.level().name(),
        "phases": phases.map(|plan| (plan.phase.clone(), plan.verdict.name())).collect::<Value>(),
    })
}

fn locations(finding: &Finding, facts: &ImageFacts, base: &str) -> Vec<Value> {
    let of_file = |place: &FindingLocation| {
        without_nulls(json!({
            "physicalLocation": physical(&json!({"uri": percent(place.path.as_bytes()), "uriBaseId": base})),
            "logicalLocations": place.layer.map(|number| [layer(facts, number)]),
            "message": place.layer.map(|layer| message(&layer_words(facts, layer))),
        }))
    };
    // GitHub drops a result without a location, so the image's name is used.
    if finding.locations.is_empty() {
        let uri = percent(facts.image.reference.as_bytes());
        return vec![json!({
            "physicalLocation": physical(&json!({"uri": uri})),
            "message": message("the image as a whole"),
        })];
    }
    finding.locations.iter().map(of_file).collect()
}

fn physical(artifact_location: &Value) -> Value {
    json!({"artifactLocation": artifact_location, "region": {"startLine": 1}})
}

fn layer(facts: &ImageFacts, number: usize) -> Value {
    let layer = facts.image.layers.get(number);
    let digest = layer.and_then(|layer| layer.digest.as_ref().or(layer.diff_id.as_ref()));
    without_nulls(json!({
        "name": format!("layer {} of {}", number + 1, facts.image.layers.len()),
        "fullyQualifiedName": digest.map(ToString::to_string),
        "kind": "layer",
    }))
}

/// A plain text message (section 3.11) that shows `text` unchanged: no links (section 3.11.6) and no placeholders
/// (3.11.5).
fn message(text: &str) -> Value {
    // Only the bracket that ends a link's text is escaped; a path may contain others, which stay unchanged.
    let text = text.trim().replace("](", "\\](");
    let mut out = String::with_capacity(text.len());
    for (at, piece) in text.split('{').enumerate() {
        // `{0}` is a placeholder; `{directory}` in a message is not.
        if at > 0 {
            let placeholder = piece.starts_with(|c: char| c.is_ascii_digit());
            out.push_str(if placeholder { "{{" } else { "{" });
        }
        out.push_str(piece);
    }
    json!({"text": out})
}

/// A relative reference (RFC 3986, section 4.2). All bytes except unreserved ones are encoded, including `:`, so that
/// no name looks like a scheme.
fn percent(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len());
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Identifies a finding across builds of the image: the rule, the image's name without tag, the platform and the
/// locations.
fn fingerprint(finding: &Finding, facts: &ImageFacts) -> String {
    let mut hash = DigestHasher::default();
    for part in [
        finding.rule.as_bytes(),
        name(&facts.image.reference, facts.image.source).as_bytes(),
        facts.image.platform.to_string().as_bytes(),
    ] {
        hash.update(part);
        // No part contains a NUL, so the separator makes the encoding unambiguous.
        hash.update(b"\0");
    }
    for location in &finding.locations {
        hash.update(location.path.as_bytes());
        hash.update(b"\0");
    }
    // The 16 digits of CodeQL's form; eight bytes are enough for the findings of a repository.
    hash.finish().digest().chars().take(16).collect()
}

/// The name of an image without digest and tag; a file or folder is its own name.
fn name(reference: &str, source: SourceKind) -> &str {
    // The digest is removed first, because its colon would look like a tag's.
    let name = reference.split('@').next().unwrap_or(reference);
    // In an archive's or a folder's name, a colon or an `@` may be part of the file name.
    let Some(shared) = source.shared_name(name) else {
        return reference;
    };
    // A port or an engine's scheme is not a tag: a tag contains no slash.
    match shared.rsplit_once(':') {
        Some((_, tag)) if !tag.contains('/') => {
            let before = name.strip_suffix(tag).unwrap_or(name);
            before.strip_suffix(':').unwrap_or(before)
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::{message, name, percent};
    use image_source::SourceKind;

    #[test]
    fn every_byte_with_a_meaning_in_a_uri_is_encoded() {
        assert_eq!(percent(b"usr/lib/libcupti.so.12"), "usr/lib/libcupti.so.12");
        assert_eq!(percent(b"a b/%2F#?x:y\xff\n"), "a%20b/%252F%23%3Fx%3Ay%FF%0A");
    }

    #[test]
    fn the_fingerprint_name_of_an_image_has_no_tag() {
        let docker = |reference| name(reference, SourceKind::Docker);
        assert_eq!(docker("localhost:5000/trainer:1"), "localhost:5000/trainer");
        assert_eq!(docker("localhost:5000/trainer"), "localhost:5000/trainer");
        assert_eq!(docker("trainer:1@sha256:00"), "trainer");
        let daemon = |reference| name(reference, SourceKind::DockerDaemon);
        assert_eq!(daemon("docker-daemon:trainer:1"), "docker-daemon:trainer");
        assert_eq!(daemon("docker-daemon:trainer"), "docker-daemon:trainer");
        assert_eq!(name("oci:a/b:tag", SourceKind::Oci), "oci:a/b:tag");
    }

    #[test]
    fn a_name_is_never_a_link_or_a_placeholder() {
        let said = |text| message(text)["text"].clone();
        assert_eq!(said("[a](https://b)"), "[a\\](https://b)");
        assert_eq!(said("{0} of {directory}"), "{{0} of {directory}");
    }
}
