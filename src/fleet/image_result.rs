//! The parts of an image's report that a fleet report uses.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::result_document::{RESULT_SCHEMA, check_schema};
use image_source::RegistryReference;

/// The result of an image, reduced to what a fleet report needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageResult {
    pub digest: String,
    pub platform: String,
    /// The references to it in the worklist, sorted. A tag may have moved since the audit.
    pub names: Vec<String>,
    /// Its users in the worklist, such as `Deployment team/trainer`.
    pub used_by: Vec<String>,
    /// The verdict in one line.
    pub verdict: String,
    /// The exit code of its audit.
    pub exit_code: u8,
    /// The verdicts of the requested phases, or of all.
    pub phases: BTreeMap<String, String>,
    /// The states of the requested tools.
    pub tools: BTreeMap<String, String>,
    /// The findings that are not suppressed.
    pub findings: Vec<ImageFinding>,
    /// For each layer, a hash of it and all lower layers.
    pub chain: Vec<u64>,
    /// Files that no phase needs: a hash of layer and path, and the size.
    pub dead_weight: Vec<(u64, u64)>,
}

/// A finding and its layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageFinding {
    pub rule: String,
    /// `error`, `warning` or `note`.
    pub severity: String,
    /// The highest layer that it refers to, from 0.
    pub layer: Option<usize>,
    /// The start of that layer's diff id.
    pub layer_name: String,
}

#[derive(Deserialize)]
struct ResultSource {
    schema: String,
    digest: String,
    platform: String,
    report: ReportSource,
}

#[derive(Deserialize)]
struct ReportSource {
    verdict: String,
    exit_code: u8,
    asked_phases: Vec<String>,
    asked_tools: Vec<ToolSource>,
    image: LayerList,
    phases: BTreeMap<String, PhaseSource>,
    findings: Vec<FindingSource>,
}

#[derive(Deserialize)]
struct ToolSource {
    id: String,
    state: String,
}

#[derive(Deserialize)]
struct LayerList {
    layers: Vec<LayerSource>,
}

#[derive(Deserialize)]
struct LayerSource {
    diff_id: Option<String>,
}

#[derive(Deserialize)]
struct PhaseSource {
    verdict: String,
    items: Vec<ItemSource>,
}

#[derive(Deserialize)]
struct ItemSource {
    path: String,
    decision: String,
    bytes: u64,
    layer: usize,
}

#[derive(Deserialize)]
struct FindingSource {
    rule: String,
    severity: String,
    locations: Vec<LocationSource>,
    suppressed: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct LocationSource {
    layer: Option<usize>,
}

impl ImageResult {
    /// Parses a result document.
    ///
    /// Errors: The problem with it.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let source: ResultSource = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        check_schema(&source.schema, RESULT_SCHEMA)?;
        let report = source.report;
        let layers: Vec<String> = report
            .image
            .layers
            .into_iter()
            .map(|layer| layer.diff_id.unwrap_or_default())
            .collect();
        let is_asked =
            |phase: &str| report.asked_phases.is_empty() || report.asked_phases.iter().any(|one| one == phase);
        let phases: BTreeMap<String, PhaseSource> =
            report.phases.into_iter().filter(|(phase, _)| is_asked(phase)).collect();
        let counting = report
            .findings
            .into_iter()
            .filter(|finding| finding.suppressed.is_none());
        Ok(Self {
            digest: source.digest,
            platform: source.platform,
            names: Vec::new(),
            used_by: Vec::new(),
            verdict: report.verdict,
            exit_code: report.exit_code,
            tools: report
                .asked_tools
                .into_iter()
                .map(|tool| (tool.id, tool.state))
                .collect(),
            findings: counting.map(|finding| placed(finding, &layers)).collect(),
            chain: chain_of(&layers),
            dead_weight: dead_weight(&phases, &layers),
            phases: phases.into_iter().map(|(phase, plan)| (phase, plan.verdict)).collect(),
        })
    }

    /// The repositories of its names, without duplicates.
    pub(crate) fn repositories(&self) -> BTreeSet<String> {
        self.names.iter().map(|name| repository_of(name)).collect()
    }

    /// The bytes that no phase needs.
    pub(crate) fn dead_bytes(&self) -> u64 {
        self.dead_weight.iter().map(|(_, bytes)| bytes).sum()
    }

    /// The number of findings of a severity.
    pub(crate) fn count(&self, severity: &str) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    }
}

/// The registry and repository of a reference; any other name is returned unchanged.
pub(crate) fn repository_of(name: &str) -> String {
    let read = name.parse::<RegistryReference>();
    read.map_or_else(
        |_| name.to_owned(),
        |read| format!("{}/{}", read.registry(), read.repository()),
    )
}

fn placed(finding: FindingSource, layers: &[String]) -> ImageFinding {
    let layer = finding.locations.iter().filter_map(|location| location.layer).max();
    let diff_id = layer.and_then(|layer| layers.get(layer));
    ImageFinding {
        rule: finding.rule,
        severity: finding.severity,
        layer,
        layer_name: diff_id.map(|id| id.chars().take(19).collect()).unwrap_or_default(),
    }
}

/// A hash per layer that includes the lower layers: images with a common base share the values of its layers.
fn chain_of(layers: &[String]) -> Vec<u64> {
    let mut hasher = DefaultHasher::new();
    let chain = layers.iter().map(|layer| {
        layer.hash(&mut hasher);
        hasher.finish()
    });
    chain.collect()
}

/// The files that every phase drops.
fn dead_weight(phases: &BTreeMap<String, PhaseSource>, layers: &[String]) -> Vec<(u64, u64)> {
    let dropped = |plan: &PhaseSource| -> BTreeMap<u64, u64> {
        let items = plan.items.iter().filter(|item| item.decision == "drop");
        let places = items.map(|item| {
            let mut hasher = DefaultHasher::new();
            (layers.get(item.layer), &item.path).hash(&mut hasher);
            (hasher.finish(), item.bytes)
        });
        places.collect()
    };
    let mut all = phases.values().map(dropped);
    let Some(first) = all.next() else { return Vec::new() };
    let common = all.fold(first, |mut common, plan| {
        common.retain(|place, _| plan.contains_key(place));
        common
    });
    common.into_iter().collect()
}
