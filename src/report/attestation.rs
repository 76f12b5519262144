//! What an attestation says of an image: the verdict of each phase and what was found, without the evidence.

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::json_parts::program_version;
use crate::judge::outcome::{AuditedImage, FailOn};
use crate::judge::plan::Verdict;

/// What kind of predicate it is; `cupti-audit schema attestation` has its contract.
pub(crate) const PREDICATE_TYPE: &str = "urn:cupti-audit:attestation:v1";

/// The predicate about an audited image. It holds no time, so that the same image has the same one.
pub(crate) fn attestation_predicate(audit: &AuditedImage, fail_on: FailOn) -> Value {
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
        "exit_code": audit.exit(fail_on) as u8,
        "asked_phases": audit.phases,
        "phases": phases.collect::<Value>(),
        "findings": findings.collect::<Value>(),
        "gaps": audit.facts.gaps.len(),
    })
}

/// What is read of a predicate to gate on it.
#[derive(Debug, Deserialize)]
pub(crate) struct AttestedVerdict {
    /// The verdict in one line.
    pub verdict: String,
    exit_code: u8,
    phases: BTreeMap<String, String>,
}

impl AttestedVerdict {
    /// What of it does not pass: the phases that were asked for, or without any the audit as a whole.
    pub(crate) fn failures(&self, asked: &[String]) -> Vec<String> {
        if asked.is_empty() {
            let failed = (self.exit_code != 0).then(|| format!("its exit code is {}", self.exit_code));
            return failed.into_iter().collect();
        }
        let passes = [Verdict::Pass, Verdict::Warn].map(Verdict::name);
        let failure = |phase: &String| match self.phases.get(phase) {
            Some(verdict) if passes.contains(&verdict.as_str()) => None,
            Some(verdict) => Some(format!("phase {phase}: {verdict}")),
            None => Some(format!("phase {phase} is not in it")),
        };
        asked.iter().filter_map(failure).collect()
    }
}
