//! Finds the Python distributions of an image by pip's metadata (Core metadata specifications).

use crate::requirements::applies_somewhere;
use image_linkage::layer::FileFacts;
use image_linkage::path::RootPath;

/// An installed Python distribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonDistribution {
    /// The normalized name: lower case, with `-` between words.
    pub name: String,
    /// The version as in its metadata.
    pub version: String,
    /// The install folder, such as `…/site-packages`.
    pub site: RootPath,
    /// The path of its `METADATA`.
    pub metadata: RootPath,
    /// The layer of its metadata.
    pub layer: usize,
    /// Its exact requirements for this machine, `name==version`, including those of extras.
    pub pins: Vec<ExactRequirement>,
}

/// A requirement of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExactRequirement {
    /// The normalized name of the required distribution.
    pub name: String,
    /// The version as in the requirement.
    pub version: String,
    /// Whether only an extra requires it, so that it may be absent.
    pub is_optional: bool,
}

/// The distribution of a `METADATA` file. `machine` is as in `uname -m`.
pub fn read_distribution(
    path: &RootPath,
    facts: &FileFacts,
    layer: usize,
    machine: &str,
) -> Option<PythonDistribution> {
    let folder = path.parent();
    // An upgrade by pip leaves `~orch-2.8.0.dist-info` when it cannot delete the folder; pip and importlib ignore it.
    let is_info = folder.name().ends_with(b".dist-info") && !folder.name().starts_with(b"~");
    let is_metadata = path.name() == b"METADATA" && is_info;
    let text = facts.kept.as_ref().filter(|_| is_metadata)?;
    read(&String::from_utf8_lossy(text), path, layer, machine)
}

/// The normalized name and the version of a distribution from its metadata's file name, as importlib.metadata reads it:
/// `torch-2.8.0.dist-info`, `PyYAML-6.0-py3.11.egg-info`, `six.egg-info`, `mine.egg-link`.
pub fn named_distribution(name: &[u8]) -> Option<(String, Option<String>)> {
    let name = std::str::from_utf8(name).ok().filter(|name| !name.starts_with('~'))?;
    let kinds = [".dist-info", ".egg-info", ".egg-link", ".egg"];
    let mut stem = kinds.iter().find_map(|kind| name.strip_suffix(kind))?;
    // In egg names the Python version follows the version.
    if !name.ends_with(".dist-info") {
        (stem, _) = stem.split_once("-py").unwrap_or((stem, ""));
    }
    Some(match stem.rsplit_once('-') {
        Some((name, version)) => (normal_name(name), Some(version.to_owned())),
        None => (normal_name(stem), None),
    })
}

fn read(text: &str, path: &RootPath, layer: usize, machine: &str) -> Option<PythonDistribution> {
    let extras: Vec<&str> = metadata_values(text, "Provides-Extra").collect();
    let mut pins = Vec::new();
    for line in metadata_values(text, "Requires-Dist") {
        let Some((name, version)) = pin(line) else { continue };
        let is_optional = !applies_somewhere(line, machine, &[]);
        if !is_optional || applies_somewhere(line, machine, &extras) {
            pins.push(ExactRequirement {
                name,
                version,
                is_optional,
            });
        }
    }
    Some(PythonDistribution {
        name: normal_name(metadata_values(text, "Name").next()?),
        version: metadata_values(text, "Version").next()?.to_owned(),
        site: path.parent().parent(),
        metadata: path.clone(),
        layer,
        pins,
    })
}

/// The values of a field of `METADATA`. As in e-mails, case is ignored in its name (RFC 822, 3.4.7).
pub(crate) fn metadata_values<'t>(text: &'t str, field: &'static str) -> impl Iterator<Item = &'t str> {
    // The description starts after the first empty line, and may contain lines that look like fields.
    let head = text.split("\n\n").next().unwrap_or_default();
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let named = fields.filter(move |(name, _)| name.eq_ignore_ascii_case(field));
    named.map(|(_, value)| value.trim())
}

/// Normalizes the name of a distribution ("Names and normalization" of the packaging specifications).
pub fn normal_name(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

/// Parses a requirement of one exact version: `name (==1.2) ; marker` or `name==1.2; marker`. Ignores the marker.
fn pin(requirement: &str) -> Option<(String, String)> {
    let (what, _) = requirement.split_once(';').unwrap_or((requirement, ""));
    let (name, version) = what.split_once("==")?;
    let name = name.trim_end_matches(['(', ' ']);
    let version = version.trim_end_matches([')', ' ']);
    Some((normal_name(name.trim()), version.trim().to_owned()))
}

/// The packages and their folders in setuptools' import hook of an editable package (`pip install -e`), which has a table
/// (`_FINDER_TEMPLATE` of `editable_wheel.py`): `MAPPING: dict[str, str] = {'name': '/folder/name'}`.
pub(crate) fn read_mapping(hook: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(hook);
    let line = text.lines().find(|line| line.starts_with("MAPPING"));
    let table = line
        .and_then(|line| line.split_once('{'))
        .map_or("", |(_, table)| table);
    // Reads quoted strings only. Names and folders with a quote do not occur in images.
    let mut texts = table.split('\'').skip(1).step_by(2);
    let mut pairs = Vec::new();
    while let (Some(name), Some(folder)) = (texts.next(), texts.next()) {
        pairs.push((name.to_owned(), folder.to_owned()));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::{named_distribution, normal_name, pin, read, read_mapping};
    use image_linkage::path::RootPath;

    #[test]
    fn exact_requirements_are_read_in_both_spellings() {
        let pair = |name: &str, version: &str| Some((name.to_owned(), version.to_owned()));
        assert_eq!(
            pin(" nvidia-cuda-cupti-cu12 (==12.4.127) ; platform_system == \"Linux\""),
            pair("nvidia-cuda-cupti-cu12", "12.4.127")
        );
        assert_eq!(
            pin("nvidia_cuda_cupti_cu12==12.8.90; x == 'y'"),
            pair("nvidia-cuda-cupti-cu12", "12.8.90")
        );
        assert_eq!(pin("numpy>=1.21 ; x == 'y'"), None);
        assert_eq!(normal_name("Torch_TB.Profiler"), "torch-tb-profiler");
    }

    #[test]
    fn the_name_of_the_metadata_gives_name_and_version() {
        let named = |name: &str| {
            let found = named_distribution(name.as_bytes());
            found.map(|(name, version)| format!("{name} {}", version.as_deref().unwrap_or("?")))
        };
        let known = |text: &str| Some(text.to_owned());
        assert_eq!(
            named("nvidia_nccl_cu12-2.27.3.dist-info"),
            known("nvidia-nccl-cu12 2.27.3")
        );
        assert_eq!(
            named("nvidia-nccl-cu12-2.27.3.dist-info"),
            known("nvidia-nccl-cu12 2.27.3")
        );
        assert_eq!(named("PyYAML-6.0-py3.11.egg-info"), known("pyyaml 6.0"));
        assert_eq!(named("x-1.0-py2-py3.egg"), known("x 1.0"));
        assert_eq!(named("py-spy-0.4.0.dist-info"), known("py-spy 0.4.0"));
        assert_eq!(named("six.egg-info"), known("six ?"));
        assert_eq!(named("mine.egg-link"), known("mine ?"));
        assert_eq!((named("~orch-2.8.0.dist-info"), named("torch")), (None, None));
    }

    #[test]
    fn only_the_head_of_the_metadata_counts() {
        let path = RootPath::from("opt/site-packages/torch-2.dist-info/METADATA");
        let text = "name: torch\nVERSION: 2.5.1\n\nName: other\nVersion: 9\n";
        let found = read(text, &path, 3, "x86_64").unwrap();
        assert_eq!(
            (found.name.as_str(), found.version.as_str(), found.layer),
            ("torch", "2.5.1", 3)
        );
        assert_eq!(found.site.to_string(), "/opt/site-packages");
        assert_eq!(read("Version: 1\n", &path, 0, "x86_64"), None);
    }

    #[test]
    fn pins_are_those_of_the_machine_and_of_all_extras() {
        let path = RootPath::from("opt/site-packages/torch-2.dist-info/METADATA");
        let text = "Name: torch\nVersion: 2.8.0\nProvides-Extra: all\n\
            Requires-Dist: nvidia-cuda-cupti-cu12==12.8.90; platform_system == \"Linux\" and platform_machine == \"x86_64\"\n\
            Requires-Dist: triton==3.4.0; platform_system == \"Linux\" and python_version < \"3.10\"\n\
            Requires-Dist: tensorflow-intel==2.17.1; platform_system == \"Windows\"\n\
            Requires-Dist: nvidia-nccl-cu12==2.21.5; extra == \"all\"\n\
            Requires-Dist: numpy>=1.21\n";
        let pins = |machine: &str| {
            let found = read(text, &path, 0, machine).unwrap();
            let names = found
                .pins
                .into_iter()
                .map(|pin| format!("{} {}{}", pin.name, pin.version, if pin.is_optional { "?" } else { "" }));
            names.collect::<Vec<_>>()
        };
        let everywhere = ["triton 3.4.0", "nvidia-nccl-cu12 2.21.5?"];
        assert_eq!(pins("aarch64"), everywhere);
        assert_eq!(
            pins("x86_64"),
            [&["nvidia-cuda-cupti-cu12 12.8.90"], &everywhere[..]].concat()
        );
    }

    #[test]
    fn the_table_of_a_hook_is_read() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let found = read_mapping(text.as_bytes());
            let found: Vec<(&str, &str)> = found
                .iter()
                .map(|(name, folder)| (name.as_str(), folder.as_str()))
                .collect();
            assert_eq!(found, expected, "{text}");
        };
        let pairs = [("foo", "/src/foo"), ("foo_more", "/src/lib/foo_more")];
        check(
            "import sys\nMAPPING: dict[str, str] = {'foo': '/src/foo', 'foo_more': '/src/lib/foo_more'}\n",
            &pairs,
        );
        check(
            "MAPPING = {'foo': '/src/foo'}\nNAMESPACES = {'x': ['/y']}\n",
            &pairs[..1],
        );
        check("MAPPING: dict[str, str] = {}\n", &[]);
        check("nothing", &[]);
    }
}
