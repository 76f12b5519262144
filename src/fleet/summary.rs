//! Summarizes the results of a fleet.

use std::collections::{BTreeMap, BTreeSet};

use super::bases::KnownBases;
use super::image_result::ImageResult;
use super::result_document::FleetFailure;

/// The number of images per outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OutcomeCounts {
    /// Findings at or above the threshold.
    pub findings: usize,
    /// Something could not be checked.
    pub open: usize,
    /// The image could not be audited.
    pub failed: usize,
    /// The image is in the worklist, without a result.
    pub missing: usize,
}

/// A rule and the images with its findings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RuleSummary {
    /// The highest severity among its findings.
    pub severity: String,
    pub images: usize,
    pub repositories: BTreeSet<String>,
}

/// The images of one repository.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RepositorySummary {
    pub images: usize,
    /// The images with findings at or above the threshold.
    pub failing: usize,
    /// The bytes that no phase needs; each file of a shared layer counts once.
    pub dead_bytes: u64,
}

/// The number of images per verdict or state.
type StateCounts = BTreeMap<String, usize>;

/// The numbers of a fleet.
pub(crate) struct FleetSummary {
    /// The results, sorted by digest and platform.
    pub results: Vec<ImageResult>,
    /// The failures of images without a result.
    pub failures: Vec<FleetFailure>,
    pub outcomes: OutcomeCounts,
    /// By phase, then by verdict.
    pub phases: BTreeMap<String, StateCounts>,
    /// By tool, then by state.
    pub tools: BTreeMap<String, StateCounts>,
    /// The findings of all images, by rule.
    pub rules: BTreeMap<String, RuleSummary>,
    /// The images by repository, as `registry/name`.
    pub repositories: BTreeMap<String, RepositorySummary>,
    /// By base and rule: the number of images that inherit the finding.
    pub bases: BTreeMap<(String, String), usize>,
    /// The bytes that no phase needs, each file of a shared layer counted once.
    pub dead_bytes: u64,
}

impl FleetSummary {
    /// Counts results and failures; `expected` is how many images the worklist has.
    pub(crate) fn of(mut results: Vec<ImageResult>, mut failures: Vec<FleetFailure>, expected: usize) -> Self {
        results.sort_by(|a, b| (&a.digest, &a.platform).cmp(&(&b.digest, &b.platform)));
        // A retried image has both if its worker was killed before it removed the failure.
        failures.retain(|failure| {
            let key = (&failure.digest, &failure.platform);
            results
                .binary_search_by(|one| (&one.digest, &one.platform).cmp(&key))
                .is_err()
        });
        failures.sort_by(|a, b| (&a.names, &a.digest).cmp(&(&b.names, &b.digest)));
        let mut summary = Self {
            outcomes: count_outcomes(&results, failures.len(), expected),
            phases: BTreeMap::new(),
            tools: BTreeMap::new(),
            rules: BTreeMap::new(),
            repositories: BTreeMap::new(),
            bases: BTreeMap::new(),
            dead_bytes: 0,
            results: Vec::new(),
            failures,
        };
        let bases = KnownBases::of(&results);
        let (mut counted, mut files) = (BTreeMap::new(), BTreeSet::new());
        for result in &results {
            summary.count_states(result);
            summary.count_findings(result, &bases);
            summary.count_repositories(result, &mut counted);
            summary.dead_bytes += unseen_dead_bytes(result, &mut files);
        }
        summary.results = results;
        summary
    }

    fn count_states(&mut self, result: &ImageResult) {
        for (all, one) in [(&mut self.phases, &result.phases), (&mut self.tools, &result.tools)] {
            for (name, state) in one {
                *all.entry(name.clone()).or_default().entry(state.clone()).or_default() += 1;
            }
        }
    }

    fn count_findings(&mut self, result: &ImageResult, bases: &KnownBases<'_>) {
        // A rule with several findings in an image counts once.
        let mut seen = BTreeSet::new();
        for finding in &result.findings {
            if seen.insert((finding.rule.as_str(), None)) {
                let rule = self.rules.entry(finding.rule.clone()).or_default();
                rule.images += 1;
                rule.repositories.extend(result.repositories());
            }
            let rule = self.rules.entry(finding.rule.clone()).or_default();
            if rank(&finding.severity) > rank(&rule.severity) {
                rule.severity.clone_from(&finding.severity);
            }
            let Some(base) = bases.responsible(result, finding) else {
                continue;
            };
            if seen.insert((finding.rule.as_str(), Some(base.clone()))) {
                *self.bases.entry((base, finding.rule.clone())).or_default() += 1;
            }
        }
    }

    fn count_repositories(&mut self, result: &ImageResult, counted: &mut BTreeMap<String, BTreeSet<u64>>) {
        for repository in result.repositories() {
            let bytes = unseen_dead_bytes(result, counted.entry(repository.clone()).or_default());
            let all = self.repositories.entry(repository).or_default();
            all.images += 1;
            all.failing += usize::from(result.exit_code == 1);
            all.dead_bytes += bytes;
        }
    }
}

/// The bytes that no phase needs in files that were not seen before; they are seen now.
fn unseen_dead_bytes(result: &ImageResult, seen: &mut BTreeSet<u64>) -> u64 {
    let new = result.dead_weight.iter().filter(|(file, _)| seen.insert(*file));
    new.map(|(_, bytes)| bytes).sum()
}

fn count_outcomes(results: &[ImageResult], failed: usize, expected: usize) -> OutcomeCounts {
    let [passed, findings] = [0, 1].map(|code| results.iter().filter(|result| result.exit_code == code).count());
    OutcomeCounts {
        findings,
        open: results.len() - passed - findings,
        failed,
        missing: expected.saturating_sub(results.len() + failed),
    }
}

fn rank(severity: &str) -> u8 {
    match severity {
        "error" => 3,
        "warning" => 2,
        "note" => 1,
        _ => 0,
    }
}
