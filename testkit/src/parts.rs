//! Finds the real files that tests compare with, and reports missing ones.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "tests drive real programs on the host and say which are missing"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The folder that `tests/parts.sh` fills.
pub fn parts() -> PathBuf {
    std::env::var_os("CUPTI_AUDIT_PARTS")
        .filter(|folder| !folder.is_empty())
        .map_or_else(
            || {
                let testkit = Path::new(env!("CARGO_MANIFEST_DIR"));
                testkit.with_file_name("target").join("parts")
            },
            PathBuf::from,
        )
}

/// The folder of the root file systems that tests make: the one of `tests/in_memory.sh`, otherwise that of the parts.
fn roots() -> PathBuf {
    std::env::var_os("CUPTI_AUDIT_ROOTS").map_or_else(parts, PathBuf::from)
}

/// A new folder for a root file system, on the file system of [`debian`].
pub fn root_folder() -> TempDir {
    let mut folder = tempfile::Builder::new();
    folder.prefix("root-").tempdir_in(roots()).unwrap()
}

/// The files of a Debian 12, for hard links from a [`root_folder`].
pub fn debian() -> PathBuf {
    roots().join("bookworm")
}

/// Reports that a test is skipped because `what` is missing; panics if all parts are required, as in CI.
pub fn missing(what: &str) {
    assert!(
        !is_set("CUPTI_AUDIT_REQUIRE_PARTS"),
        "a required part is missing: {what}; `make parts` gets it"
    );
    println!("skipped: {what} is missing; `make parts` gets it");
}

/// The path of a part; if it is missing, reports that and returns `None`.
pub fn part(name: &str) -> Option<PathBuf> {
    let path = parts().join(name);
    if path.exists() {
        return Some(path);
    }
    missing(&path.display().to_string());
    None
}

/// Whether `program` of the Debian package `package` is installed.
pub fn have(program: &str, package: &str) -> bool {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path)
            .chain(["/usr/sbin".into(), "/sbin".into()])
            .any(|dir| dir.join(program).is_file())
    });
    if !found {
        missing(&format!("{program} (Debian package {package})"));
    }
    found
}

/// Whether all programs, each with its Debian package, are installed.
pub fn have_all(programs: &[(&str, &str)]) -> bool {
    programs.iter().all(|(program, package)| have(program, package))
}

/// Whether the test runs as root, as needed for chroot.
pub fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    let root = id.is_ok_and(|output| output.stdout.starts_with(b"0\n"));
    if !root {
        missing("root, for chroot");
    }
    root
}

/// An environment built by `tests/environments.sh`; outside of `make test-all`, reports that and returns `None`.
pub fn environment(name: &str) -> Option<PathBuf> {
    if !is_set("CUPTI_AUDIT_ALL") {
        println!("not run: it needs the real {name}; `make test-all` gets it");
        return None;
    }
    let own = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty());
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    let path = own.map_or_else(home, PathBuf::from);
    let path = path.join("cupti-audit").join(name);
    assert!(path.exists(), "tests/environments.sh makes {}", path.display());
    Some(path)
}

pub(crate) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty() && value != "0")
}
