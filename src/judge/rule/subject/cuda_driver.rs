//! The CUDA version that determines the driver requirement of the image.

use super::rule_subject::{RuleSubject, escaped, flag, text};
use crate::facts::software::cuda_runtime::{self, CudaVersion};
use crate::facts::software::search_path;
use crate::facts::{CuptiCopy, ImageFacts};
use crate::knowledge::rule::SubjectKind;

/// The folder where GKE mounts the driver's libraries.
const NVIDIA: &[u8] = b"/usr/local/nvidia/lib64";

/// One subject, if the image is for CUDA.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let config = &facts.image.config;
    // An image that never mentions CUDA needs no driver.
    if !facts.concerns_cupti() && config.env("CUDA_VERSION").is_none() {
        return Vec::new();
    }
    let (version, from) = driven(facts).unwrap_or_default();
    // The first row of a release is its toolkit without updates, which accepts the oldest driver.
    let row = facts.tables.drivers_for(&version).next();
    let branch = row
        .and_then(|row| row.minor_compatibility.as_deref())
        .unwrap_or_default();
    let known = row.and_then(|row| row.known_driver());
    let toolkit_driver = known.map_or_else(|| "no known driver".to_owned(), |driver| format!("driver {driver}"));
    let required = cuda_runtime::required_cuda_version(config);
    let cupti = of_cupti(facts)
        .filter_map(|(version, path)| Some((cuda_runtime::parse_cuda_version(&version)?, path)))
        .max();
    let newer = required
        .zip(cupti.as_ref())
        .is_some_and(|(required, (cupti, _))| *cupti > required);
    let (release, path) = cupti.map_or_else(Default::default, |(version, path)| (words(version), path));
    vec![SubjectKind::Cuda.subject([
        ("version", escaped(&version)),
        ("from", text(from)),
        ("driver", text(known.unwrap_or(branch))),
        ("toolkit_driver", text(toolkit_driver)),
        ("branch", text(branch)),
        ("has_driver", flag(row.is_some())),
        ("has_cupti", flag(facts.own_copies().any(|copy| copy.soname.is_some()))),
        ("cupti", text(release)),
        ("cupti_path", text(path)),
        ("required", text(required.map(words).unwrap_or_default())),
        ("newer_than_required", flag(newer)),
        ("mig", flag(names_mig_instance(config.env("NVIDIA_VISIBLE_DEVICES")))),
        ("running", flag(config.running.is_some())),
        (
            "names_nvidia_directory",
            flag(search_path::search_path_names_directory(&facts.contexts.as_is, NVIDIA)),
        ),
    ])]
}

/// Whether a visible device is a MIG instance; the container runtime accepts `MIG-<UUID>`.
fn names_mig_instance(devices: Option<&str>) -> bool {
    devices.is_some_and(|devices| devices.split(',').any(|device| device.trim().starts_with("MIG-")))
}

fn words((major, minor): CudaVersion) -> String {
    format!("{major}.{minor}")
}

/// The newest CUDA version in the image, and its source.
pub(super) fn newest(facts: &ImageFacts) -> Option<(String, String)> {
    let runtimes = facts
        .related
        .runtimes
        .iter()
        .map(|runtime| (runtime.version.clone(), runtime.path.to_string()));
    let environment = facts.image.config.env("CUDA_VERSION");
    let environment = environment.map(|version| (version.to_owned(), "CUDA_VERSION of the environment".to_owned()));
    // Files precede the variable, because a file is a source that the user can inspect.
    let known = of_cupti(facts).chain(runtimes).chain(environment);
    newest_version(known)
}

fn newest_version(known: impl Iterator<Item = (String, String)>) -> Option<(String, String)> {
    let known = known.filter_map(|(version, from)| Some((cuda_runtime::parse_cuda_version(&version)?, version, from)));
    // The first of equal versions wins.
    let newest = known.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    Some((newest.1, newest.2))
}

/// The newest CUDA version that reaches the driver, and its source: from the copies that programs load, else from the
/// image. A newer toolkit whose CUPTI no program loads needs no driver.
pub(super) fn driven(facts: &ImageFacts) -> Option<(String, String)> {
    let got = facts
        .own_copies()
        .filter(|copy| is_got(facts, copy))
        .filter_map(version_of);
    newest_version(got).or_else(|| newest(facts))
}

/// The copies that programs load, else all copies that are not private to a tool.
pub(super) fn used_copies(facts: &ImageFacts) -> Vec<&CuptiCopy> {
    let got: Vec<&CuptiCopy> = facts.own_copies().filter(|copy| is_got(facts, copy)).collect();
    if got.is_empty() {
        facts.own_copies().collect()
    } else {
        got
    }
}

fn is_got(facts: &ImageFacts, copy: &CuptiCopy) -> bool {
    let mut gets = facts.consumers.iter().map(|consumer| &consumer.outcome.as_is);
    facts.library.is_cuda && gets.any(|gets| gets.real_path.as_ref() == Some(&copy.real_path))
}

/// The versions of the copies that are not private to a tool, if they are CUDA versions.
fn of_cupti(facts: &ImageFacts) -> impl Iterator<Item = (String, String)> {
    facts
        .own_copies()
        .filter(|_| facts.library.is_cuda)
        .filter_map(version_of)
}

fn version_of(copy: &CuptiCopy) -> Option<(String, String)> {
    let (version, _) = copy.version.as_ref()?;
    Some((version.clone(), copy.real_path.to_string()))
}
