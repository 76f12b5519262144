//! The contents of an attestation: the verdict of each phase and the findings, without evidence.

use std::io;

use serde_json::{Value, json};

use super::json_parts::program_version;
use super::pages::build_file::CheckedFiles;
use super::writer::ReportWriter;
use crate::judge::outcome::{AuditedImage, FailOn};

/// Attestation predicates, one line per image; `cupti-audit schema attestation` prints the contract.
pub(crate) struct AttestationReport;

impl ReportWriter for AttestationReport {
    fn audited(&mut self, audit: &AuditedImage) -> String {
        format!("{}\n", attestation_predicate(audit))
    }

    fn file_check(&self, _checked: &CheckedFiles<'_>) -> io::Result<String> {
        let why = "an attestation is about an image, and this is a Dockerfile";
        Err(io::Error::other(why))
    }
}

/// The predicate of an audited image. It contains no time, so that the same image gives the same predicate.
fn attestation_predicate(audit: &AuditedImage) -> Value {
    let phases = audit
        .plans
        .iter()
        .map(|plan| (plan.phase.clone(), json!(plan.verdict.name())));
    let findings = audit
        .counting()
        .map(|finding| json!({"rule": finding.rule, "severity": finding.severity.name()}));
    json!({
        "tool": program_version(),
        "platform": audit.facts.image.platform.to_string(),
        "verdict": audit.verdict(),
        "exit_code": audit.exit_at(FailOn::default()) as u8,
        "asked_phases": audit.phases,
        "phases": phases.collect::<Value>(),
        "findings": findings.collect::<Value>(),
        "gaps": audit.facts.gaps.len(),
    })
}
