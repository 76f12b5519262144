//! What is looked for in layers so that CUPTI can be judged: the value that ties an index to this program's questions.

use image_linkage::layer::{FileInterest, IndexOptions, WantedFiles};
use image_linkage::limits::Limits;

/// The files that say which system the image is, what its packages are and which CUDA they belong to.
const KEPT: [&str; 24] = [
    "etc/os-release",
    "usr/lib/os-release",
    "etc/debian_version",
    "etc/redhat-release",
    "etc/alpine-release",
    // Where apt has packages from: a remedy sets up no repository that is there.
    "etc/apt/sources.list",
    "etc/apt/sources.list.d/*.list",
    "etc/apt/sources.list.d/*.sources",
    "var/lib/dpkg/status",
    // Distroless images have a file for each package in place of one for all.
    "var/lib/dpkg/status.d/*",
    // Of these two kinds an image has hundreds: only those of packages that may bring CUPTI are kept.
    "var/lib/dpkg/info/*cupti*.list",
    "var/lib/dpkg/info/*cuda*.list",
    "var/lib/dpkg/info/*nvidia*.list",
    "var/lib/dpkg/info/*nsight*.list",
    "*/**/conda-meta/*cupti*.json",
    "*/**/conda-meta/*cuda*.json",
    "*/**/conda-meta/*nvidia*.json",
    "*/**/conda-meta/*nsight*.json",
    "*/**/conda-meta/*torch*.json",
    "lib/apk/db/installed",
    "usr/lib/apk/db/installed",
    "**/*.dist-info/METADATA",
    "cupti_version.h",
    "usr/local/cuda*/**/version.json",
];

/// The libraries of a CUPTI release, whose digests name their version.
const HASHED: [&str; 5] = [
    "libcupti.*",
    "libnvperf_*",
    "libpcsamplingutil.*",
    "libcheckpoint.*",
    "libcuinj64.*",
];

/// The names that are opened at run time.
const NAMES: [&str; 7] = [
    "libcupti.so",
    "libnvperf_",
    "libpcsamplingutil",
    "libcheckpoint",
    "libcuinj64",
    "libaccinj64",
    "libnvvm.so",
];

/// The beginnings of the names of functions of CUPTI and of its companion libnvperf.
const SYMBOL_PREFIXES: [&str; 2] = ["cupti", "NVPW"];

/// How layers are read for an audit: within the default limits, looking for all that is known of CUPTI.
pub fn cupti_options() -> IndexOptions {
    let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    IndexOptions {
        limits: Limits::default(),
        interest: FileInterest::new(WantedFiles {
            kept: list(&KEPT),
            hashed: list(&HASHED),
            names: list(&NAMES),
            symbol_prefixes: list(&SYMBOL_PREFIXES),
        }),
    }
}

#[cfg(test)]
mod tests {
    use image_linkage::layer::{ExpectedBlob, LayerEntry, index_layer};
    use testkit::layer::Layer;

    use super::cupti_options;

    /// Whether a file at `path` is kept, and whether it is hashed.
    fn read(path: &str) -> (bool, bool) {
        let tar = Layer::new().file(path, b"x").tar();
        let index = index_layer(
            "x",
            tar.as_slice(),
            &ExpectedBlob::default(),
            &cupti_options(),
        )
        .unwrap();
        match index.entries.get(path.as_bytes()) {
            Some(LayerEntry::File(facts)) => (facts.kept.is_some(), facts.sha256.is_some()),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn files_that_later_stages_read_are_kept_and_others_are_not() {
        for path in [
            "etc/os-release",
            "var/lib/dpkg/info/cuda-cupti-12-4.list",
            "opt/venv/lib/python3.11/site-packages/torch-2.5.1.dist-info/METADATA",
            "opt/conda/conda-meta/cuda-cupti-12.4.127-0.json",
            "etc/apt/sources.list.d/debian.sources",
            "usr/local/cuda-12.4/version.json",
            "a/include/cupti_version.h",
        ] {
            assert!(read(path).0, "{path}");
        }
        for path in [
            "etc/passwd",
            "etc/apt/trusted.gpg",
            "var/lib/dpkg/info/bash.list",
            "x/RECORD",
            "conda-meta/cuda-12.json",
        ] {
            assert!(!read(path).0, "{path}");
        }
    }

    #[test]
    fn only_libraries_of_a_cupti_release_are_hashed() {
        assert!(read("a/libcupti.so.2024.1.1").1);
        assert!(read("a/libnvperf_host.so").1);
        assert!(!read("a/libcuptihelper.so").1);
    }
}
