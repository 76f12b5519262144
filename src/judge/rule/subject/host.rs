//! Resources that the host of a running container does not grant.

use super::cuda_driver;
use super::rule_subject::{RuleSubject, escaped, flag, text};
use crate::facts::{HostFacts, ImageFacts, InjectionMode};
use crate::knowledge::rule::SubjectKind;
use crate::knowledge::version_numbers;
use image_linkage::path::RootPath;

/// One subject, for a running container.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    facts.host.iter().map(|host| subject(facts, host)).collect()
}

fn subject(facts: &ImageFacts, host: &HostFacts) -> RuleSubject {
    let (cuda, _) = cuda_driver::driven(facts).unwrap_or_default();
    let row = facts.tables.drivers_for(&cuda).next();
    let known = row.and_then(|row| row.known_driver());
    // All releases of one CUDA major version run on the driver branch of the first.
    let branch = facts.tables.driver_branch_of(&cuda);
    let driver = host.driver.as_deref().unwrap_or_default();
    let is_older_than =
        |driver: &str, least: Option<&str>| least.is_some_and(|least| version_numbers(driver) < version_numbers(least));
    let runs = |driver: &str| driver.is_empty() || !is_older_than(driver, branch.or(known));
    let compat = compat_driver(facts).filter(|(version, _)| runs(version));
    let mut variables = facts
        .tables
        .frameworks
        .iter()
        .filter_map(|known| known.daemon.as_deref());
    let is_set = |name| {
        facts
            .image
            .config
            .env(name)
            .is_some_and(|value| !value.is_empty() && value != "0")
    };
    let counters = match host.counters {
        Some(true) => "granted",
        Some(false) => "refused",
        None => "unknown",
    };
    let mode = match host.mode {
        Some(InjectionMode::Cdi) => "cdi",
        Some(InjectionMode::Legacy) => "legacy",
        None => "unknown",
    };
    let level = host.perf_level.map(|level| level.to_string());
    // NVIDIA's limit for CPU samples and context switches (Nsight Systems Installation Guide, Requirements).
    let refuses_perf = host.perf_level.is_some_and(|level| level > 2);
    SubjectKind::Host.subject([
        ("cuda", escaped(&cuda)),
        ("driver", escaped(driver)),
        ("least_driver", text(known.or(branch).unwrap_or_default())),
        ("needed_driver", text(branch.or(known).unwrap_or_default())),
        ("has_driver", flag(host.driver.is_some() || host.has_other_driver)),
        ("runs_cuda", flag(runs(driver))),
        (
            "older_than_cuda",
            flag(!driver.is_empty() && is_older_than(driver, known)),
        ),
        ("has_compat", flag(compat.is_some())),
        (
            "compat",
            text(compat.map(|(_, path)| path.to_string()).unwrap_or_default()),
        ),
        ("has_gpu", flag(host.has_gpu)),
        ("mode", text(mode)),
        ("counters", text(counters)),
        ("perf_level", text(level.unwrap_or_default())),
        ("refuses_perf", flag(refuses_perf)),
        ("asks_daemon", flag(variables.any(is_set))),
        ("has_daemon", flag(host.has_daemon)),
    ])
}

/// The newest driver library for forward compatibility in the image, with its version: a file such as
/// `/usr/local/cuda-12.8/compat/libcuda.so.570.124.06` of NVIDIA's package cuda-compat.
fn compat_driver(facts: &ImageFacts) -> Option<(String, RootPath)> {
    let mut newest: Option<(String, RootPath)> = None;
    facts.contexts.as_is.rootfs.visit(|path, _, _| {
        let version = path
            .name()
            .strip_prefix(b"libcuda.so.")
            .and_then(|rest| std::str::from_utf8(rest).ok());
        let Some(version) = version.filter(|version| version.contains('.')) else {
            return;
        };
        let is_newer = |(other, _): &(String, RootPath)| version_numbers(version) > version_numbers(other);
        if path.parent().split_components().any(|part| part == b"compat") && newest.as_ref().is_none_or(is_newer) {
            newest = Some((version.to_owned(), path.clone()));
        }
    });
    newest
}
