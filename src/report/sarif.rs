//! SARIF 2.1.0, for code scanning: one run over all images.
//!
//! An alert needs a place. A finding on files has theirs, relative to the root of the image; one on the image as a
//! whole has the image's name. GitHub shows no result without a line, so each place is line 1.
//! (OASIS, "Static Analysis Results Interchange Format Version 2.1.0"; GitHub, "SARIF support for code scanning".)

mod object_model;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use sha2::{Digest as _, Sha256};

use self::object_model::{
    ArtifactLocation, DescriptorReference, ImageProperties, LogicalLocation, MultiformatMessage, PhysicalLocation,
    ReportingConfiguration, ReportingDescriptor, ResultProperties, RuleProperties, RunProperties, SarifInvocation,
    SarifLocation, SarifLog, SarifMessage, SarifNotification, SarifRegion, SarifResult, SarifRun, SarifSuppression,
    SarifTool, ToolComponent, UriBase,
};
use super::ReportWriter;
use super::markdown_escape::escape_markdown;
use super::words::{gap_words, image_name, layer_words, suppression_words};
use crate::judge::facts::ImageFacts;
use crate::judge::outcome::{AuditedImage, RunExit, UnreadImage};
use crate::judge::rule::{self, Evidence, Finding, Rule, SuppressionMark};
use image_linkage::digest::to_hex;
use image_linkage::escape;
use image_source::SourceKind;

/// One document over all images.
pub(crate) struct SarifReport {
    rules: Vec<ReportingDescriptor>,
    bases: BTreeMap<String, UriBase>,
    images: Vec<ImageProperties>,
    results: Vec<SarifResult>,
    notifications: Vec<SarifNotification>,
    /// How many results have had a fingerprint.
    seen: BTreeMap<String, usize>,
    unread: bool,
}

impl SarifReport {
    /// An empty report of a run with these rules.
    pub(crate) fn new(rules: &[Rule]) -> Self {
        Self {
            rules: rules.iter().map(descriptor).collect(),
            bases: BTreeMap::new(),
            images: Vec::new(),
            results: Vec::new(),
            notifications: Vec::new(),
            seen: BTreeMap::new(),
            unread: false,
        }
    }

    fn result(&mut self, finding: &Finding, facts: &ImageFacts, base: &str) -> SarifResult {
        let fingerprint = fingerprint(finding, facts);
        // Two results of one fingerprint would be one alert, so they are numbered, in the form of CodeQL's own:
        // 16 digits, a colon, a number.
        let number = self.seen.entry(fingerprint.clone()).or_default();
        *number += 1;
        let rule = self.rules.iter().position(|rule| rule.id == finding.rule);
        SarifResult {
            rule_id: finding.rule.clone(),
            rule_index: rule,
            level: finding.severity.name(),
            message: SarifMessage::plain(&format!("{}. To fix it: {}.", finding.message, finding.fix)),
            locations: locations(finding, facts, base),
            partial_fingerprints: BTreeMap::from([("primaryLocationLineHash", format!("{fingerprint}:{number}"))]),
            suppressions: finding.suppressed.iter().map(suppression).collect(),
            properties: ResultProperties {
                image: facts.image.reference.clone(),
                platform: facts.image.platform.to_string(),
                evidence: finding.evidence.iter().map(Evidence::text).collect(),
                fix: finding.fix.clone(),
            },
        }
    }
}

fn suppression(suppressed: &SuppressionMark) -> SarifSuppression {
    SarifSuppression {
        // Not in the code that the result is in, but beside it.
        kind: "external",
        status: "accepted",
        justification: suppression_words(suppressed),
    }
}

impl ReportWriter for SarifReport {
    fn audited(&mut self, audit: &AuditedImage) -> io::Result<String> {
        let facts = &audit.facts;
        // Images have files of the same names. A base for each keeps an alert on one apart from that on another; it has
        // no URI, for nobody who reads the report has the image at a known place.
        let base = format!("IMAGE{}", self.images.len() + 1);
        let reference = image_name(facts);
        let root = format!("the root of {reference}, {}", facts.image.platform);
        self.bases.insert(
            base.clone(),
            UriBase {
                description: SarifMessage::plain(&root),
            },
        );
        for finding in &audit.findings {
            let result = self.result(finding, facts, &base);
            self.results.push(result);
        }
        let gaps = gap_words(facts).map(|gap| notification("gap", "warning", &format!("{reference}: {gap}")));
        self.notifications.extend(gaps);
        self.images.push(image(audit));
        Ok(String::new())
    }

    fn unread(&mut self, unread: &UnreadImage) -> io::Result<String> {
        let image = escape::escape_bytes(unread.image.as_bytes());
        let words = format!("{image}: not audited: {}", unread.why);
        self.notifications.push(notification("not-audited", "error", &words));
        self.unread = true;
        Ok(String::new())
    }

    fn end(&mut self, exit: RunExit) -> io::Result<String> {
        // What was gathered moves into the document; a report of many images is large.
        let take = std::mem::replace(self, Self::new(&[]));
        let log = SarifLog {
            schema: "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
            version: "2.1.0",
            runs: [SarifRun {
                tool: SarifTool {
                    driver: ToolComponent {
                        name: env!("CARGO_PKG_NAME"),
                        semantic_version: env!("CARGO_PKG_VERSION"),
                        rules: take.rules,
                        notifications: [
                            notified("gap", "something could not be checked"),
                            notified("not-audited", "an image could not be audited"),
                        ],
                    },
                },
                invocations: [SarifInvocation {
                    execution_successful: !take.unread,
                    exit_code: exit as u8,
                    exit_code_description: exit.words(),
                    tool_execution_notifications: take.notifications,
                }],
                original_uri_base_ids: take.bases,
                results: take.results,
                column_kind: "unicodeCodePoints",
                properties: RunProperties { images: take.images },
            }],
        };
        Ok(serde_json::to_string_pretty(&log)? + "\n")
    }
}

fn notified(id: &'static str, summary: &str) -> ReportingDescriptor {
    ReportingDescriptor {
        id: id.to_owned(),
        short_description: SarifMessage::plain(summary),
        ..ReportingDescriptor::default()
    }
}

fn descriptor(rule: &Rule) -> ReportingDescriptor {
    let fix = rule.fix.with_field_names();
    let why = escape_markdown(rule.why.trim());
    let mut markdown = format!("{why}\n\n**To fix it:** {}\n", escape_markdown(&fix));
    for reference in &rule.references {
        let _ = write!(markdown, "\n- <{reference}>");
    }
    // The level of a run without a phase; each result has its own.
    let level = rule.severity.name();
    ReportingDescriptor {
        id: rule.id.clone(),
        short_description: SarifMessage::plain(&rule.summary),
        full_description: Some(SarifMessage::plain(&rule.why)),
        help: Some(MultiformatMessage {
            text: format!("{}\nTo fix it: {fix}", rule.why.trim()),
            markdown,
        }),
        help_uri: rule.references.first().cloned(),
        default_configuration: Some(ReportingConfiguration { level }),
        properties: Some(RuleProperties {
            tags: ["cupti", "container"],
            // GitHub's words for the three levels.
            problem_severity: match rule.severity {
                rule::Severity::Error => "error",
                rule::Severity::Warning => "warning",
                rule::Severity::Note => "recommendation",
            },
        }),
    }
}

fn notification(id: &'static str, level: &'static str, words: &str) -> SarifNotification {
    SarifNotification {
        descriptor: DescriptorReference { id },
        level,
        message: SarifMessage::plain(words),
    }
}

fn image(audit: &AuditedImage) -> ImageProperties {
    let facts = &audit.facts;
    let phases = audit.plans.iter();
    ImageProperties {
        reference: facts.image.reference.clone(),
        digest: facts.image.digest.as_ref().map(ToString::to_string),
        platform: facts.image.platform.to_string(),
        verdict: audit.verdict(),
        phases: phases.map(|plan| (plan.phase.clone(), plan.verdict.name())).collect(),
    }
}

fn locations(finding: &Finding, facts: &ImageFacts, base: &str) -> Vec<SarifLocation> {
    let of_file = |place: &rule::FindingLocation| SarifLocation {
        physical_location: at(ArtifactLocation {
            uri: percent(place.path.as_bytes()),
            uri_base_id: Some(base.to_owned()),
        }),
        logical_locations: place.layer.iter().map(|number| layer(facts, *number)).collect(),
        message: place.layer.map(|layer| SarifMessage::plain(&layer_words(facts, layer))),
    };
    // GitHub drops a result without a place: the image's own name stands for it.
    if finding.locations.is_empty() {
        return vec![SarifLocation {
            physical_location: at(ArtifactLocation {
                uri: percent(facts.image.reference.as_bytes()),
                uri_base_id: None,
            }),
            logical_locations: Vec::new(),
            message: Some(SarifMessage::plain("the image as a whole")),
        }];
    }
    finding.locations.iter().map(of_file).collect()
}

fn at(artifact_location: ArtifactLocation) -> PhysicalLocation {
    PhysicalLocation {
        artifact_location,
        region: SarifRegion { start_line: 1 },
    }
}

fn layer(facts: &ImageFacts, number: usize) -> LogicalLocation {
    let layer = facts.image.layers.get(number);
    let digest = layer.and_then(|layer| layer.digest.as_ref().or(layer.diff_id.as_ref()));
    LogicalLocation {
        name: format!("layer {} of {}", number + 1, facts.image.layers.len()),
        fully_qualified_name: digest.map(ToString::to_string),
        kind: "layer",
    }
}

/// A relative reference (RFC 3986, section 4.2): every byte that is not unreserved is encoded, `:` too, so that no
/// name is taken for a scheme.
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

/// What makes a finding the same one in the next build of the image: the rule, the image's name without its tag,
/// the platform and the places.
fn fingerprint(finding: &Finding, facts: &ImageFacts) -> String {
    let mut hash = Sha256::new();
    for part in [
        finding.rule.as_bytes(),
        name(&facts.image.reference, facts.image.source).as_bytes(),
        facts.image.platform.to_string().as_bytes(),
    ] {
        hash.update(part);
        // No part can hold a NUL, so that other parts never make the same bytes.
        hash.update([0]);
    }
    for location in &finding.locations {
        hash.update(location.path.as_bytes());
        hash.update([0]);
    }
    // The 16 digits of CodeQL's form; eight bytes tell the findings of one repository apart.
    let hash = hash.finalize();
    to_hex(hash.get(..8).unwrap_or(&hash))
}

/// The name of an image without its digest and tag; a file or folder is its own name.
fn name(reference: &str, source: SourceKind) -> &str {
    // In the name of an archive or a folder a colon or an `@` can be part of the file's own name.
    if !source.is_named_everywhere() {
        return reference;
    }
    // The digest goes first: its own colon would be taken for that of a tag.
    let name = reference.split('@').next().unwrap_or(reference);
    // Neither what follows an engine's scheme nor what follows a host's colon, up to a slash, is a tag.
    match source.bare_name(name).rsplit_once(':') {
        Some((_, tag)) if !tag.contains('/') => {
            let before = name.strip_suffix(tag).unwrap_or(name);
            before.strip_suffix(':').unwrap_or(before)
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::{name, percent};
    use image_source::SourceKind;

    #[test]
    fn every_byte_that_means_something_in_a_uri_is_encoded() {
        assert_eq!(percent(b"usr/lib/libcupti.so.12"), "usr/lib/libcupti.so.12");
        assert_eq!(percent(b"a b/%2F#?x:y\xff\n"), "a%20b/%252F%23%3Fx%3Ay%FF%0A");
    }

    #[test]
    fn an_image_keeps_its_name_from_tag_to_tag() {
        let docker = |reference| name(reference, SourceKind::Docker);
        assert_eq!(docker("localhost:5000/trainer:1"), "localhost:5000/trainer");
        assert_eq!(docker("localhost:5000/trainer"), "localhost:5000/trainer");
        assert_eq!(docker("trainer:1@sha256:00"), "trainer");
        let daemon = |reference| name(reference, SourceKind::DockerDaemon);
        assert_eq!(daemon("docker-daemon:trainer:1"), "docker-daemon:trainer");
        assert_eq!(daemon("docker-daemon:trainer"), "docker-daemon:trainer");
        assert_eq!(name("oci:a/b:tag", SourceKind::Oci), "oci:a/b:tag");
    }
}
