//! The driver that the image needs, and what the image does to it.

use super::{Hit, Shown};
use crate::facts::objects::plain_open::find_injections;
use crate::facts::software::cuda_runtime::{self, CudaVersion};
use crate::facts::software::search_path::{self, StubSource};
use crate::facts::{CuptiCopy, ImageFacts, InjectionMode};

/// The folder where GKE mounts the driver's libraries.
const NVIDIA: &[u8] = b"/usr/local/nvidia/lib64";

/// Checks the driver that the image needs, and its settings and libraries that concern the driver.
pub(super) fn check(facts: &ImageFacts) -> Vec<Hit> {
    let mut hits = Vec::new();
    // An image that never mentions CUDA needs no driver.
    if facts.concerns_cupti() || facts.image.config.env("CUDA_VERSION").is_some() {
        hits.extend(needed_driver(facts));
        hits.extend(newer_than_required(facts));
        hits.extend(counters(facts));
        hits.extend(gke_path(facts));
    }
    hits.extend(left_out_parts(facts));
    hits.extend(injections(facts));
    hits.extend(stubs(facts));
    hits
}

/// Whether this is a running container, whose host is known.
fn is_running(facts: &ImageFacts) -> bool {
    facts.image.config.running.is_some()
}

fn needed_driver(facts: &ImageFacts) -> Option<Hit> {
    if is_running(facts) {
        return None;
    }
    let (version, from) = driven_cuda(facts).unwrap_or_default();
    // The first row of a release is its toolkit without updates, which accepts the oldest driver.
    let row = facts.tables.drivers_for(&version).next()?;
    let branch = row.minor_compatibility.as_deref().unwrap_or_default();
    let known = row.known_driver();
    let toolkit_driver = known.map_or_else(|| "no known driver".to_owned(), |driver| format!("driver {driver}"));
    let hit = Hit::new("minimum-driver")
        .value("version", Shown::untrusted(&version))
        .value("from", Shown::known(from))
        .value("driver", Shown::known(known.unwrap_or(branch)))
        .value("toolkit_driver", Shown::known(toolkit_driver))
        .value("branch", Shown::known(branch));
    Some(hit)
}

/// A CUPTI that is newer than the CUDA of `NVIDIA_REQUIRE_CUDA`.
fn newer_than_required(facts: &ImageFacts) -> Option<Hit> {
    let required = cuda_runtime::required_cuda_version(&facts.image.config)?;
    let releases =
        of_cupti(facts).filter_map(|(version, path)| Some((cuda_runtime::parse_cuda_version(&version)?, path)));
    let (cupti, path) = releases.max()?;
    if cupti <= required {
        return None;
    }
    let hit = Hit::new("cupti-newer-than-driver-required")
        .value("required", shown_version(required))
        .value("cupti", shown_version(cupti))
        .value("cupti_path", Shown::known(path));
    Some(hit)
}

/// What hardware counters need besides CUPTI.
fn counters(facts: &ImageFacts) -> Vec<Hit> {
    let mut hits = Vec::new();
    if facts.own_copies().all(|copy| copy.soname.is_none()) {
        return hits;
    }
    if !is_running(facts) {
        hits.push(Hit::new("counters-need-privilege"));
    }
    if names_mig_instance(facts.image.config.env("NVIDIA_VISIBLE_DEVICES")) {
        hits.push(Hit::new("mig-counters"));
    }
    hits
}

fn gke_path(facts: &ImageFacts) -> Option<Hit> {
    let is_named = || search_path::search_path_names_directory(&facts.contexts.as_is, NVIDIA);
    (!is_running(facts) && !is_named()).then(|| Hit::new("gke-path-missing"))
}

/// Parts of the driver that the image tells the container runtime to leave out.
fn left_out_parts(facts: &ImageFacts) -> Vec<Hit> {
    // CDI ignores both variables, and sets the first to `void` itself (nvidia-container-toolkit, pkg/nvcdi/wrapper.go).
    let mode = facts.host.as_ref().and_then(|host| host.mode);
    if mode == Some(InjectionMode::Cdi) {
        return Vec::new();
    }
    let mut hits = Vec::new();
    let visible = facts.image.config.env("NVIDIA_VISIBLE_DEVICES");
    if let Some(value) = visible.filter(|value| hides_devices(value)) {
        let words = "no GPU is visible unless the start of the container sets the variable";
        hits.push(left_out("NVIDIA_VISIBLE_DEVICES", value, words));
    }
    let capabilities = facts.contexts.as_is.capabilities.as_deref();
    // CUPTI needs nothing from `video`, `graphics` or `display`.
    for (capability, files) in [
        ("compute", "libcuda.so.1"),
        ("utility", "libnvidia-ml.so.1 and nvidia-smi"),
    ] {
        if let Some(value) = capabilities.filter(|value| lacks(value, capability)) {
            let words = format!(
                "a container runtime in legacy mode does not add {files} from the host; one in CDI mode, the default \
                 since 1.18, does"
            );
            hits.push(left_out("NVIDIA_DRIVER_CAPABILITIES", value, &words));
        }
    }
    hits
}

fn left_out(variable: &'static str, value: &str, words: &str) -> Hit {
    Hit::new("driver-capabilities-missing")
        .value("variable", variable)
        .value("value", Shown::untrusted(value))
        .value("words", Shown::known(words))
}

/// `void`, `none` and an empty value provide no device (container-toolkit, "Environment variables").
fn hides_devices(value: &str) -> bool {
    matches!(value, "" | "void" | "none")
}

/// Whether a list of capabilities lacks one; an empty list means the default, `utility,compute`.
fn lacks(value: &str, capability: &str) -> bool {
    let mut words = value.split(',').map(str::trim);
    !value.is_empty() && !words.any(|word| word == "all" || word == capability)
}

/// The libraries that variables make the driver or NVTX load, but that cannot be loaded.
fn injections(facts: &ImageFacts) -> Vec<Hit> {
    let mut hits = Vec::new();
    for injection in find_injections(&facts.contexts.as_is) {
        let hit = Hit::new("injection-library-missing")
            .value("variable", Shown::known(injection.variable))
            .value("library", Shown::untrusted(&injection.library))
            .value("words", Shown::known(injection.failure.message));
        hits.push(hit);
    }
    hits
}

/// The stubs of the driver's library that the loader finds.
fn stubs(facts: &ImageFacts) -> Vec<Hit> {
    let mut hits = Vec::new();
    for stub in search_path::find_driver_stubs(&facts.contexts) {
        let by = match stub.by {
            StubSource::LdLibraryPath => "LD_LIBRARY_PATH",
            StubSource::Cache => "ld.so.cache",
        };
        let is_by_environment = stub.by == StubSource::LdLibraryPath;
        // A toolkit names its stub libcuda.so, for linkers. Programs request the soname and skip it.
        let is_soname = stub.path.name() == b"libcuda.so.1";
        let hit = Hit::new("stub-libcuda-on-search-path")
            .value("path", &stub.path)
            .value("name", Shown::untrusted_bytes(stub.path.name()))
            .value("by", by)
            .raise_if("by-environment", is_by_environment)
            .raise_if("soname-by-environment", is_by_environment && is_soname)
            .at([(&stub.path, None)]);
        hits.push(hit);
    }
    hits
}

/// Whether a visible device is a MIG instance; the container runtime accepts `MIG-<UUID>`.
fn names_mig_instance(devices: Option<&str>) -> bool {
    devices.is_some_and(|devices| devices.split(',').any(|device| device.trim().starts_with("MIG-")))
}

fn shown_version((major, minor): CudaVersion) -> Shown {
    Shown::known(format!("{major}.{minor}"))
}

/// The newest CUDA version in the image, and its source.
fn newest(facts: &ImageFacts) -> Option<(String, String)> {
    let runtimes = facts
        .related
        .runtimes
        .iter()
        .map(|runtime| (runtime.version.clone(), runtime.path.to_string()));
    let environment = facts
        .image
        .config
        .env("CUDA_VERSION")
        .map(|version| (version.to_owned(), "CUDA_VERSION of the environment".to_owned()));
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
pub(super) fn driven_cuda(facts: &ImageFacts) -> Option<(String, String)> {
    let versions = facts
        .own_copies()
        .filter(|copy| is_loaded(facts, copy))
        .filter_map(version_of);
    newest_version(versions).or_else(|| newest(facts))
}

/// The copies that programs load, else all copies that are not private to a tool.
pub(super) fn used_copies(facts: &ImageFacts) -> Vec<&CuptiCopy> {
    let loaded: Vec<&CuptiCopy> = facts.own_copies().filter(|copy| is_loaded(facts, copy)).collect();
    if loaded.is_empty() {
        facts.own_copies().collect()
    } else {
        loaded
    }
}

fn is_loaded(facts: &ImageFacts, copy: &CuptiCopy) -> bool {
    let mut consumers = facts.answers.consumers.iter();
    consumers.any(|consumer| consumer.outcome.as_is.answer.real_path() == Some(&copy.real_path))
}

/// The versions of the copies that are not private to a tool.
fn of_cupti(facts: &ImageFacts) -> impl Iterator<Item = (String, String)> {
    facts.own_copies().filter_map(version_of)
}

fn version_of(copy: &CuptiCopy) -> Option<(String, String)> {
    let (version, _) = copy.version.as_ref()?;
    Some((version.clone(), copy.real_path.to_string()))
}

#[cfg(test)]
mod tests {
    use super::{hides_devices, lacks};

    #[test]
    fn which_values_leave_something_out() {
        assert!(hides_devices("void") && hides_devices("") && hides_devices("none"));
        assert!(!hides_devices("all") && !hides_devices("0,1"));
        assert!(lacks("utility", "compute") && lacks("graphics,video", "utility"));
        assert!(!lacks("compute, utility", "utility"));
        assert!(!lacks("all", "compute") && !lacks("", "compute"));
    }
}
