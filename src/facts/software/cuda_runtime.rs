//! Reads CUDA versions: the runtime library beside a copy of CUPTI, and the required driver.

use crate::facts::software::copies::CuptiCopy;
use crate::knowledge::packages::RuntimeNames;
use image_linkage::layer::FileFacts;
use image_linkage::path::RootPath;
use image_source::ImageConfig;
use python_path::PythonDistribution;

/// The major and minor version of CUDA.
pub type CudaVersion = (u32, u32);

/// A larger first number is that of a driver, such as 550.54.
const DRIVER: u32 = 100;

/// The first two numbers of a version of CUDA, such as those of `12.4.127` or `12.4`.
pub fn parse_cuda_version(text: &str) -> Option<CudaVersion> {
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    let (major, minor) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    (major < DRIVER).then_some((major, minor))
}

/// A CUDA runtime library whose version is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaRuntime {
    /// The source of the version: the library's name, a distribution's metadata, or a toolkit's `version.json`.
    pub path: RootPath,
    /// The version, such as `12.4.127`.
    pub version: String,
}

/// The runtime of a file `libcudart.so.X.Y.Z`, or of a toolkit's `version.json`.
pub(crate) fn runtime_of_file(names: &RuntimeNames, path: &RootPath, facts: &FileFacts) -> Option<CudaRuntime> {
    let version = match path.name() {
        // Other programs also have a `version.json`; only a toolkit's contains the component.
        b"version.json" => of_version_json(names, facts.kept.as_deref()?),
        name => of_file_name(names, name),
    };
    Some(CudaRuntime {
        path: path.clone(),
        version: version?,
    })
}

/// The runtime in NVIDIA's Python distribution.
pub(crate) fn runtime_of_distribution(names: &RuntimeNames, distribution: &PythonDistribution) -> Option<CudaRuntime> {
    // NVIDIA dropped the suffix `-cu11` or `-cu12` in CUDA 13.
    let is_runtime = distribution.name.starts_with(&names.wheel);
    is_runtime.then(|| CudaRuntime {
        path: distribution.metadata.clone(),
        version: distribution.version.clone(),
    })
}

/// The version in `libcudart.so.12.4.127`. A name with fewer numbers is a soname, without the full version.
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

/// The runtime that a copy of CUPTI is used with: the one in the same Python environment, directory or toolkit, else
/// the only one in the image.
pub fn runtime_beside<'r>(copy: &CuptiCopy, runtimes: &'r [CudaRuntime]) -> Option<&'r CudaRuntime> {
    // Wheels find each other by paths relative to site-packages, so the same environment is the strongest sign.
    let site = site_packages_of(&copy.real_path);
    let folder = copy.real_path.parent();
    let toolkit = toolkit(&copy.real_path);
    let same_site = runtimes
        .iter()
        .find(|runtime| site.is_some() && site_packages_of(&runtime.path) == site);
    let nearest = same_site
        .or_else(|| runtimes.iter().find(|runtime| runtime.path.parent() == folder))
        .or_else(|| {
            let mut all = runtimes.iter();
            all.find(|runtime| toolkit.is_some() && self::toolkit(&runtime.path) == toolkit)
        });
    if nearest.is_some() {
        return nearest;
    }
    // Several runtimes of one release are equivalent. With several releases, the right one is unknown.
    let first = runtimes.first()?;
    let version = parse_cuda_version(&first.version);
    let mut all = runtimes.iter();
    if all.any(|runtime| parse_cuda_version(&runtime.version) != version) {
        return None;
    }
    Some(first)
}

/// The Python package directory that contains a path.
pub fn site_packages_of(path: &RootPath) -> Option<RootPath> {
    folder_around(path, |name| matches!(name, b"site-packages" | b"dist-packages"))
}

/// The toolkit that contains a path: a directory named `cuda`, or `cuda-` and a version.
fn toolkit(path: &RootPath) -> Option<RootPath> {
    // In NVIDIA's packages `cuda` is a link to `cuda-12.4`. In a toolkit copied by hand it is a directory.
    folder_around(path, |name| name == b"cuda" || name.starts_with(b"cuda-"))
}

/// The nearest directory above a path whose name fits.
fn folder_around(path: &RootPath, fits: impl Fn(&[u8]) -> bool) -> Option<RootPath> {
    let mut folder = path.parent();
    while folder != RootPath::default() {
        if fits(folder.name()) {
            return Some(folder);
        }
        folder = folder.parent();
    }
    None
}

/// The lowest driver CUDA version that `NVIDIA_REQUIRE_CUDA` accepts through `cuda>=…`. Words are alternatives, and
/// commas join conditions. `None` if the image has no such condition or disables the check.
pub fn required_cuda_version(config: &ImageConfig) -> Option<CudaVersion> {
    if config
        .env("NVIDIA_DISABLE_REQUIRE")
        .is_some_and(|value| !value.is_empty())
    {
        return None;
    }
    let mut lowest = Vec::new();
    for alternative in config.env("NVIDIA_REQUIRE_CUDA")?.split_whitespace() {
        let conditions = alternative.split(',');
        let bounds = conditions.filter_map(|condition| parse_cuda_version(condition.strip_prefix("cuda>=")?));
        // All conditions in a word must hold, so its highest bound applies. Across words, the lowest applies.
        lowest.extend(bounds.max());
    }
    lowest.into_iter().min()
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
