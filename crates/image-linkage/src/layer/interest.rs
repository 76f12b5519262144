//! Which files of a layer are more than a name: whose bytes are kept, whose identity is hashed, and which
//! strings and symbols are looked for.
//!
//! This is all that the layer stage knows of the questions asked later. A cached index is good for every
//! question as long as this list is the same.

use std::sync::LazyLock;

use crate::elf::mentions::NameMatcher;
use crate::path::RootPath;

/// The names that are opened at run time, and the prefixes of the symbols that come with them.
pub static ELF: LazyLock<NameMatcher> = LazyLock::new(|| {
    NameMatcher::new(
        &[
            "libcupti.so",
            "libnvperf_",
            "libpcsamplingutil",
            "libcheckpoint",
            "libcuinj64",
            "libaccinj64",
            "libnvvm.so",
        ],
        &["cupti", "NVPW"],
    )
});

/// Whether the whole content of the file is kept.
pub fn keeps_content(path: &RootPath) -> bool {
    let name = path.name();
    let parent = path.parent();
    let parent = parent.as_bytes();
    is_loader(name)
        || (parent == b"etc" && is_etc_file(name))
        // musl's directories; a loader elsewhere has its own `etc` beside its folder.
        || (parent.rsplit(|&byte| byte == b'/').next() == Some(b"etc") && is_musl_path(name))
        // `ld.so.conf` may include files of any folder; in practice they lie here.
        || (name.ends_with(b".conf") && (parent.starts_with(b"etc/") || parent.ends_with(b"ld.so.conf.d")))
        || (parent == b"usr/lib" && name == b"os-release")
        || is_apt_source(parent, name)
        || is_package_database(parent, name)
        || is_python_metadata(parent, name)
        || name == b"cupti_version.h"
        || (name == b"version.json" && parent.starts_with(b"usr/local/cuda"))
}

/// Whether the file is hashed: the libraries of a CUPTI release, whose digests name their version.
pub fn needs_digest(path: &RootPath) -> bool {
    let name = path.name();
    [
        &b"libcupti."[..],
        b"libnvperf_",
        b"libpcsamplingutil.",
        b"libcheckpoint.",
        b"libcuinj64.",
    ]
    .iter()
    .any(|stem| name.starts_with(stem))
}

/// Whether a file of this name is a dynamic loader: its bytes hold the default directories.
pub fn is_loader(name: &[u8]) -> bool {
    let stem = [
        &b"ld-linux"[..],
        b"ld-2.",
        b"ld-musl-",
        b"ld64.so.",
        b"ld.so.",
    ];
    stem.iter().any(|stem| name.starts_with(stem)) && contains(name, b".so")
}

fn is_etc_file(name: &[u8]) -> bool {
    let exact = [
        &b"ld.so.cache"[..],
        b"ld.so.conf",
        b"ld.so.preload",
        b"os-release",
        b"debian_version",
        b"redhat-release",
        b"alpine-release",
    ];
    exact.contains(&name)
}

fn is_musl_path(name: &[u8]) -> bool {
    name.starts_with(b"ld-musl-") && name.ends_with(b".path")
}

fn is_package_database(parent: &[u8], name: &[u8]) -> bool {
    let of_cuda = || {
        [&b"cupti"[..], b"cuda", b"nvidia", b"nsight"]
            .iter()
            .any(|word| contains(name, word))
    };
    match parent {
        b"var/lib/dpkg" => name == b"status",
        b"var/lib/dpkg/status.d" => true,
        b"var/lib/dpkg/info" => name.ends_with(b".list") && of_cuda(),
        b"lib/apk/db" | b"usr/lib/apk/db" => name == b"installed",
        _ => {
            parent.ends_with(b"/conda-meta")
                && name.ends_with(b".json")
                && (of_cuda() || contains(name, b"torch"))
        }
    }
}

/// Where apt has packages from: a remedy sets up no repository that is there.
fn is_apt_source(parent: &[u8], name: &[u8]) -> bool {
    match parent {
        b"etc/apt" => name == b"sources.list",
        b"etc/apt/sources.list.d" => name.ends_with(b".list") || name.ends_with(b".sources"),
        _ => false,
    }
}

fn is_python_metadata(parent: &[u8], name: &[u8]) -> bool {
    parent.ends_with(b".dist-info") && name == b"METADATA"
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::{keeps_content, needs_digest};
    use crate::path::RootPath;

    #[test]
    fn files_that_later_stages_read_are_kept_and_others_are_not() {
        for path in [
            "etc/ld.so.cache",
            "etc/ld.so.conf.d/000_cuda.conf",
            "etc/cuda/more.conf",
            "etc/ld-musl-x86_64.path",
            "opt/musl/etc/ld-musl-x86_64.path",
            "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
            "lib/x86_64-linux-gnu/ld-2.31.so",
            "var/lib/dpkg/info/cuda-cupti-12-4.list",
            "opt/venv/lib/python3.11/site-packages/torch-2.5.1.dist-info/METADATA",
            "opt/conda/conda-meta/cuda-cupti-12.4.127-0.json",
            "etc/apt/sources.list.d/debian.sources",
        ] {
            assert!(keeps_content(&RootPath::from(path)), "{path}");
        }
        for path in [
            "etc/passwd",
            "etc/apt/trusted.gpg",
            "usr/lib/libc.so.6",
            "var/lib/dpkg/info/bash.list",
            "x/RECORD",
            "opt/ld-linux.txt",
        ] {
            assert!(!keeps_content(&RootPath::from(path)), "{path}");
        }
    }

    #[test]
    fn only_libraries_of_a_cupti_release_are_hashed() {
        assert!(needs_digest(&RootPath::from("a/libcupti.so.2024.1.1")));
        assert!(needs_digest(&RootPath::from("a/libnvperf_host.so")));
        assert!(!needs_digest(&RootPath::from("a/libcuptihelper.so")));
    }
}
