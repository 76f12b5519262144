//! Objects from `testkit::elf` before the loader of this machine.
//!
//! Runs on x86-64 Linux with glibc; elsewhere each test says that it was skipped.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "these tests run the loader of the machine on files they have written"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;
use testkit::elf::{Elf, Hash, IsaLevel, Kind};

const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// Writes the objects into a folder, `exe` executable, or says why there is nothing to test with.
fn folder(objects: &[(&str, Elf)]) -> Option<TempDir> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) || !Path::new(LOADER).exists() {
        eprintln!("skipped: this machine has no {LOADER}");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, elf) in objects {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, elf.build()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    Some(dir)
}

/// Held while a program is written and run: a child that another thread starts meanwhile would inherit the
/// open file, and the kernel refuses to run a file that is open for writing.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs `exe` with the folder on `LD_LIBRARY_PATH`; its exit code and everything it wrote, the folder's name
/// left out.
fn run(objects: &[(&str, Elf)]) -> Option<(Option<i32>, String)> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = folder(objects)?;
    let output = Command::new(dir.path().join("exe"))
        .env_clear()
        .env("LD_LIBRARY_PATH", dir.path())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    let prefix = format!("{}/", dir.path().display());
    Some((output.status.code(), text.replace(&prefix, "")))
}

/// Asserts the exit code and that the loader's text is `expected`, up to its last line break.
#[track_caller]
fn check(objects: &[(&str, Elf)], code: i32, expected: &str) {
    if let Some((status, text)) = run(objects) {
        assert_eq!((status, text.trim_end()), (Some(code), expected));
    }
}

#[test]
fn an_executable_alone_runs_in_every_layout() {
    let exe = Elf::executable;
    for (what, elf) in [
        ("plain", exe()),
        ("fixed address", exe().kind(Kind::Exec)),
        ("static", exe().statically_linked().kind(Kind::Exec)),
        ("patched", exe().patched()),
        ("headers late", exe().late_headers()),
        ("everything far", exe().padding(300_000).patched().late_headers()),
        ("GNU hash", exe().hash(Hash::Gnu)),
        ("baseline", exe().isa_needed(IsaLevel::V1)),
        ("dlopen note", exe().dlopen_note(r#"[{"soname":["libz.so.1"]}]"#)),
    ] {
        if let Some(result) = run(&[("exe", elf)]) {
            assert_eq!(result, (Some(0), String::new()), "{what}");
        }
    }
}

#[test]
fn a_needed_library_is_found_or_named() {
    let exe = Elf::executable().needed("libone.so.1");
    let one = Elf::library("libone.so.1").needed("libtwo.so.2");
    let two = Elf::library("libtwo.so.2");
    let both = [("exe", exe.clone()), ("libone.so.1", one.clone())];
    check(
        &both,
        127,
        "exe: error while loading shared libraries: libtwo.so.2: cannot open shared object file: No such file or directory",
    );
    let all = [both.as_slice(), &[("libtwo.so.2", two)]].concat();
    check(&all, 0, "");
    let far = |(name, elf): (_, Elf)| (name, elf.padding(200_000).patched().late_headers());
    check(&all.into_iter().map(far).collect::<Vec<_>>(), 0, "");
}

#[test]
fn a_version_that_is_missing_is_named() {
    for hash in [Hash::Sysv, Hash::Gnu] {
        let exe = |version: &str| {
            Elf::executable()
                .hash(hash)
                .needed("libone.so.1")
                .import_at("one", "libone.so.1", version)
        };
        let one = Elf::library("libone.so.1").hash(hash).export_at("one", "ONE_1");
        check(&[("exe", exe("ONE_1")), ("libone.so.1", one.clone())], 0, "");
        check(
            &[("exe", exe("ONE_2")), ("libone.so.1", one.clone())],
            1,
            "exe: libone.so.1: version `ONE_2' not found (required by exe)",
        );
        let weak = exe("ONE_1").verneed_weak("libone.so.1", "ONE_3");
        check(
            &[("exe", weak), ("libone.so.1", one)],
            0,
            "exe: libone.so.1: weak version `ONE_3' not found (required by exe)",
        );
    }
}

#[test]
fn a_symbol_that_is_missing_is_named_unless_it_is_weak() {
    for hash in [Hash::Sysv, Hash::Gnu] {
        let exe = Elf::executable().hash(hash).needed("libone.so.1");
        let one = Elf::library("libone.so.1").hash(hash).export("one").export("uno");
        let with = |exe: Elf| [("exe", exe), ("libone.so.1", one.clone())];
        check(&with(exe.clone().import("one").import("uno")), 0, "");
        check(&with(exe.clone().import_weak("two")), 0, "");
        check(
            &with(exe.import("two")),
            127,
            "exe: symbol lookup error: exe: undefined symbol: two",
        );
    }
}

#[test]
fn the_versions_of_the_real_libc_are_accepted() {
    let exe = Elf::executable()
        .needed("libc.so.6")
        .import_at("memcpy", "libc.so.6", "GLIBC_2.14")
        .verneed("libc.so.6", "GLIBC_2.2.5");
    check(&[("exe", exe)], 0, "");
}

#[test]
fn runpath_and_rpath_with_origin_lead_to_the_library() {
    let one = Elf::library("libone.so.1");
    for exe in [
        Elf::executable().needed("libone.so.1").rpath("$ORIGIN/sub"),
        Elf::executable().needed("libone.so.1").runpath("$ORIGIN/sub"),
    ] {
        check(&[("exe", exe), ("sub/libone.so.1", one.clone())], 0, "");
    }
}

#[test]
fn list_prints_the_objects_in_load_order() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let objects = [
        ("exe", Elf::executable().needed("libone.so.1")),
        ("libone.so.1", Elf::library("libone.so.1").export_at("one", "ONE_1")),
    ];
    let Some(dir) = folder(&objects) else { return };
    let path = dir.path().to_str().unwrap();
    let output = Command::new(LOADER)
        .args(["--list", &format!("{path}/exe")])
        .env_clear()
        .env("LD_LIBRARY_PATH", path)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["linux-vdso.so.1", "libone.so.1"]);
}
