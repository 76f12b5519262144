//! Where the real parts lie that tests compare with, and what to say when one is missing.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::missing_panics_doc,
    reason = "tests drive real programs on the host and say which are missing"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Says that the test cannot run without `what`, or fails where every part is required (in CI).
pub fn missing(what: &str) {
    assert!(
        !is_set("CUPTI_AUDIT_REQUIRE_PARTS"),
        "a required part is missing: {what}; `make parts` gets it"
    );
    println!("skipped: {what} is missing; `make parts` gets it");
}

/// The path of a part, or `None` with a word about it.
pub fn part(name: &str) -> Option<PathBuf> {
    let path = parts().join(name);
    if path.exists() {
        return Some(path);
    }
    missing(&path.display().to_string());
    None
}

/// Whether `program`, from the Debian package `package`, can be run.
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

/// Whether all programs, given with their Debian packages, can be run.
pub fn have_all(programs: &[(&str, &str)]) -> bool {
    programs.iter().all(|(program, package)| have(program, package))
}

/// Whether the test runs as root, which chroot needs.
pub fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    let root = id.is_ok_and(|output| output.stdout.starts_with(b"0\n"));
    if !root {
        missing("root, for chroot");
    }
    root
}

/// An environment that `tests/environments.sh` made; without `make test-all`, `None` with a word about it.
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
