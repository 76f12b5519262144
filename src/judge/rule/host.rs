//! Resources that the host of a running container does not grant.

use super::driver::driven_cuda;
use super::{Hit, Shown};
use crate::facts::{HostFacts, ImageFacts, InjectionMode};
use crate::knowledge::version_numbers;
use image_linkage::path::RootPath;

/// The highest `perf_event_paranoid` with which nsys takes CPU samples and context switches (Nsight Systems Installation
/// Guide, Requirements).
const PERF_LEVEL: i32 = 2;

/// Checks the host of a running container.
pub(super) fn check(facts: &ImageFacts) -> Vec<Hit> {
    let Some(host) = &facts.host else {
        return Vec::new();
    };
    let mut hits = Vec::new();
    if host.driver.is_some() || host.has_other_driver {
        hits.extend(driver_release(facts, host));
        if !host.has_gpu {
            let driver = host.driver.as_deref().unwrap_or_default();
            hits.push(Hit::new("gpu-missing").value("driver", Shown::untrusted(driver)));
        }
    } else {
        hits.push(Hit::new("driver-missing"));
    }
    if host.counters == Some(false) {
        hits.push(Hit::new("counters-refused"));
    }
    if host.mode == Some(InjectionMode::Legacy) {
        hits.push(Hit::new("legacy-runtime-mode"));
    }
    if let Some(level) = host.perf_level.filter(|level| *level > PERF_LEVEL) {
        hits.push(Hit::new("perf-events-refused").value("perf_level", Shown::known(level.to_string())));
    }
    if needs_daemon(facts) && !host.has_daemon {
        hits.push(Hit::new("daemon-not-listening"));
    }
    hits
}

/// A driver that is older than the container's newest CUDA.
fn driver_release(facts: &ImageFacts, host: &HostFacts) -> Option<Hit> {
    let (cuda, _) = driven_cuda(facts).unwrap_or_default();
    let row = facts.tables.drivers_for(&cuda).next();
    let known = row.and_then(|row| row.known_driver());
    // All releases of one CUDA major version run on the driver branch of the first.
    let branch = facts.tables.driver_branch_of(&cuda);
    let least = branch.or(known);
    let driver = host.driver.as_deref().filter(|driver| !driver.is_empty())?;
    let problem = if is_older(driver, least) {
        match compat_driver(facts).filter(|(version, _)| !is_older(version, least)) {
            Some((_, path)) => Hit::new("driver-needs-compat").value("compat", &path),
            None => Hit::new("driver-too-old").value("needed_driver", Shown::known(least.unwrap_or_default())),
        }
    } else if is_older(driver, known) {
        Hit::new("driver-older-than-cuda")
    } else {
        return None;
    };
    Some(
        problem
            .value("cuda", Shown::untrusted(&cuda))
            .value("driver", Shown::untrusted(driver))
            .value("least_driver", Shown::known(known.or(branch).unwrap_or_default())),
    )
}

fn is_older(driver: &str, least: Option<&str>) -> bool {
    least.is_some_and(|least| version_numbers(driver) < version_numbers(least))
}

/// Whether the environment makes a framework register with a daemon.
fn needs_daemon(facts: &ImageFacts) -> bool {
    let mut variables = facts
        .tables
        .frameworks
        .iter()
        .filter_map(|known| known.daemon.as_deref());
    let value = |name| facts.image.config.env(name);
    variables.any(|name| value(name).is_some_and(|value| !value.is_empty() && value != "0"))
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
