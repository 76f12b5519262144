//! The release of a CUPTI in use: its known faults, whether it is known at all, and the GPUs that it supports.

use super::driver::used_copies;
use super::{Hit, Shown};
use crate::facts::ImageFacts;
use crate::knowledge::gpu::GpuCapability;
use crate::knowledge::{knowledge_date, version_numbers};

/// Checks the releases of the copies in use and of the frameworks.
pub(super) fn check(facts: &ImageFacts) -> Vec<Hit> {
    let mut hits = faults(facts);
    hits.extend(newer_copies(facts));
    hits.extend(newer_frameworks(facts));
    hits
}

/// The known faults of the copies in use.
fn faults(facts: &ImageFacts) -> Vec<Hit> {
    let mut hits = Vec::new();
    for copy in used_copies(facts) {
        let version = copy.version.as_ref().map_or("", |(version, _)| version);
        for fault in facts
            .tables
            .release_faults
            .iter()
            .filter(|fault| fault.concerns(version))
        {
            let hit = Hit::new("release-fault")
                .value("path", &copy.real_path)
                .value("version", Shown::untrusted(version))
                .value("what", Shown::known(fault.what.clone()))
                .value("fix", Shown::known(fault.fix.clone()))
                .value("source", Shown::known(fault.source.clone()))
                .at([(&copy.real_path, Some(copy.layer))]);
            hits.push(hit);
        }
    }
    hits
}

fn newer_copies(facts: &ImageFacts) -> Vec<Hit> {
    let known: Vec<&str> = facts.tables.builds.iter().map(|build| &*build.version).collect();
    let mut hits = Vec::new();
    for copy in used_copies(facts) {
        if let Some((version, _)) = &copy.version
            && let Some(hit) = newer_than_known(&facts.library.name, version, &known)
        {
            hits.push(hit.at([(&copy.real_path, Some(copy.layer))]));
        }
    }
    hits
}

fn newer_frameworks(facts: &ImageFacts) -> Vec<Hit> {
    let mut hits = Vec::new();
    for dist in &facts.related.distributions {
        let releases = facts.tables.framework_releases.iter();
        let known: Vec<&str> = releases
            .filter(|known| known.package == dist.name)
            .map(|known| &*known.version)
            .collect();
        if let Some(hit) = newer_than_known(&dist.name, &dist.version, &known) {
            hits.push(hit.at([(&dist.metadata, Some(dist.layer))]));
        }
    }
    hits
}

/// A release that is newer than the newest in the tables.
fn newer_than_known(name: &str, version: &str, known: &[&str]) -> Option<Hit> {
    let newest = known.iter().max_by_key(|version| version_numbers(version))?;
    // A local part, as in 2.15.0+cu130, is not of the release.
    let numbers = version_numbers(version.split('+').next()?);
    if numbers <= version_numbers(newest) {
        return None;
    }
    let hit = Hit::new("newer-than-known")
        .value("name", Shown::untrusted(name))
        .value("version", Shown::untrusted(version))
        .value("newest", Shown::known(*newest))
        .value("date", Shown::known(knowledge_date()));
    Some(hit)
}

/// The copies in use whose CUDA does not support a GPU, under the user's name for it. Copies of unknown release are
/// skipped.
pub fn find_gpu(facts: &ImageFacts, name: &str, gpu: &GpuCapability) -> Vec<Hit> {
    let mut hits = Vec::new();
    for copy in used_copies(facts) {
        let Some((major, minor)) = copy.cuda() else { continue };
        if gpu.is_supported_by((major, minor)) {
            continue;
        }
        let hit = Hit::new("gpu-not-supported")
            .value("path", &copy.real_path)
            .value("version", Shown::known(format!("{major}.{minor}")))
            .value("gpu", Shown::untrusted(name))
            .value("capability", Shown::known(gpu.capability.clone()))
            .value("architecture", Shown::known(gpu.architecture.clone()))
            .value("releases", Shown::known(gpu.releases()))
            .at([(&copy.real_path, Some(copy.layer))]);
        hits.push(hit);
    }
    hits
}
