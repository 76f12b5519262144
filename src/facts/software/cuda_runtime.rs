//! CUDA versions: of the runtime library beside a copy of CUPTI, and what the image asks of the driver.

use crate::facts::software::copies::CuptiCopy;
use crate::knowledge::packages::RuntimeNames;
use image_linkage::layer::FileFacts;
use image_linkage::path::RootPath;
use image_source::ImageConfig;
use python_path::PythonDistribution;

/// The major and minor version of CUDA.
pub type CudaVersion = (u32, u32);

/// The first two numbers of a version, such as those of `12.4.127` or `12.4`.
pub fn parse_cuda_version(text: &str) -> Option<CudaVersion> {
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// A CUDA runtime library whose version is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaRuntime {
    /// What says the version: the library's name, a distribution's metadata, or a toolkit's `version.json`.
    pub path: RootPath,
    /// The version, such as `12.4.127`.
    pub version: String,
}

/// The runtime that a file is, `libcudart.so.X.Y.Z`, or that the `version.json` of a toolkit names.
pub(crate) fn runtime_of_file(names: &RuntimeNames, path: &RootPath, facts: &FileFacts) -> Option<CudaRuntime> {
    let version = match path.name() {
        // Other programs have a file of this name too: only a toolkit's speaks of the component.
        b"version.json" => of_version_json(names, facts.kept.as_deref()?),
        name => of_file_name(names, name),
    };
    Some(CudaRuntime {
        path: path.clone(),
        version: version?,
    })
}

/// The runtime that NVIDIA's distribution for Python brings.
pub(crate) fn runtime_of_distribution(names: &RuntimeNames, distribution: &PythonDistribution) -> Option<CudaRuntime> {
    // The suffix `-cu11` or `-cu12` is gone from NVIDIA's names since CUDA 13.
    let is_runtime = distribution.name.starts_with(&names.wheel);
    is_runtime.then(|| CudaRuntime {
        path: distribution.metadata.clone(),
        version: distribution.version.clone(),
    })
}

/// The version of `libcudart.so.12.4.127`; a name with fewer numbers is a soname and says too little.
fn of_file_name(names: &RuntimeNames, name: &[u8]) -> Option<String> {
    let number = std::str::from_utf8(name.strip_prefix(names.file.as_bytes())?).ok()?;
    (number.split('.').count() == 3).then(|| number.to_owned())
}

/// The version of the runtime in a toolkit's `version.json`.
fn of_version_json(names: &RuntimeNames, bytes: &[u8]) -> Option<String> {
    let document: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    let version = document.get(&names.component)?.get("version")?.as_str()?;
    Some(version.to_owned())
}

/// The runtime that a copy of CUPTI is used with: that of the same Python environment, the same folder or the
/// same toolkit, else the only one of the image.
pub fn runtime_beside<'r>(copy: &CuptiCopy, runtimes: &'r [CudaRuntime]) -> Option<&'r CudaRuntime> {
    // Wheels find each other by paths relative to site-packages, so one environment is the surest sign.
    let site = site_packages_of(&copy.real_path);
    let folder = copy.real_path.parent();
    let toolkit = toolkit(&copy.real_path);
    let near = |near: &dyn Fn(&CudaRuntime) -> bool| runtimes.iter().find(|runtime| near(runtime));
    let same_site = |runtime: &CudaRuntime| site.is_some() && site_packages_of(&runtime.path) == site;
    let same_folder = |runtime: &CudaRuntime| runtime.path.parent() == folder;
    let same_toolkit = |runtime: &CudaRuntime| toolkit.is_some() && self::toolkit(&runtime.path) == toolkit;
    // Several runtimes of one release are as good as one; of several releases none is known to be meant.
    let only = || {
        let first = runtimes.first()?;
        let same = |runtime: &CudaRuntime| parse_cuda_version(&runtime.version) == parse_cuda_version(&first.version);
        runtimes.iter().all(same).then_some(first)
    };
    near(&same_site)
        .or_else(|| near(&same_folder))
        .or_else(|| near(&same_toolkit))
        .or_else(only)
}

/// The folder of Python packages that a path lies in.
pub fn site_packages_of(path: &RootPath) -> Option<RootPath> {
    folder_around(path, |name| matches!(name, b"site-packages" | b"dist-packages"))
}

/// The toolkit that a path lies in: a folder named `cuda`, or `cuda-` and a version.
fn toolkit(path: &RootPath) -> Option<RootPath> {
    // NVIDIA's packages make `cuda` a link to `cuda-12.4`; it is a folder where a toolkit was copied by hand.
    folder_around(path, |name| name == b"cuda" || name.starts_with(b"cuda-"))
}

/// The nearest folder above a path whose name fits.
fn folder_around(path: &RootPath, fits: impl Fn(&[u8]) -> bool) -> Option<RootPath> {
    let above = |folder: &RootPath| Some(folder.parent());
    std::iter::successors(above(path), above)
        .take_while(|folder| *folder != RootPath::default())
        .find(|folder| fits(folder.name()))
}

/// The lowest CUDA version of a driver that `NVIDIA_REQUIRE_CUDA` lets through by `cuda>=…`. Words are
/// alternatives, commas join conditions. `None` where the image asks for nothing, or turns the check off.
pub fn required_cuda_version(config: &ImageConfig) -> Option<CudaVersion> {
    if config
        .env("NVIDIA_DISABLE_REQUIRE")
        .is_some_and(|value| !value.is_empty())
    {
        return None;
    }
    let alternatives = config.env("NVIDIA_REQUIRE_CUDA")?.split_whitespace();
    let lowest = |alternative: &str| {
        let conditions = alternative.split(',');
        let least = conditions.filter_map(|condition| parse_cuda_version(condition.strip_prefix("cuda>=")?));
        // All conditions of a word have to hold, so that its highest bound decides; of the words, the lowest.
        least.max()
    };
    alternatives.filter_map(lowest).min()
}

#[cfg(test)]
mod tests {
    use super::{of_file_name, of_version_json, parse_cuda_version, required_cuda_version};
    use crate::knowledge::Knowledge;
    use image_source::ImageConfig;

    #[test]
    fn versions_are_read_from_names_and_from_the_toolkits_own_list() {
        assert_eq!(parse_cuda_version("12.4.127"), Some((12, 4)));
        assert_eq!(parse_cuda_version("11.8"), Some((11, 8)));
        assert_eq!(parse_cuda_version("12"), None);
        let names = &Knowledge::built_in().tables.packages.toolkit.runtime;
        assert_eq!(
            of_file_name(names, b"libcudart.so.12.4.127").as_deref(),
            Some("12.4.127")
        );
        assert_eq!(of_file_name(names, b"libcudart.so.11.0"), None);
        let json = br#"{"cuda": {"version": "12.4.1"}, "cuda_cudart": {"version": "12.4.127"}}"#;
        assert_eq!(of_version_json(names, json).as_deref(), Some("12.4.127"));
        assert_eq!(of_version_json(names, b"{}"), None);
    }

    #[test]
    fn the_lowest_alternative_of_the_requirement_counts() {
        let required = |value: &str| {
            required_cuda_version(&ImageConfig {
                env: vec![("NVIDIA_REQUIRE_CUDA".to_owned(), value.to_owned())],
                ..ImageConfig::default()
            })
        };
        assert_eq!(required("cuda>=12.4 brand=tesla,driver>=470,driver<471"), Some((12, 4)));
        assert_eq!(required("cuda>=12.4 cuda>=11.8,cuda<12"), Some((11, 8)));
        assert_eq!(required("driver>=470"), None);
        assert_eq!(required(""), None);
    }
}
