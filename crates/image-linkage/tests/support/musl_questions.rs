//! Questions about musl's loader, each as a handmade case.

use testkit::elf::Elf;

use super::{Judge, check};
use crate::musl_case::{Case, LOADER, PATH_FILE};
use crate::musl_ours;

/// Asks the real loader and ours for loaded and missing libraries.
fn ask(case: &Case, loaded: &[&str], errors: &[&str]) {
    let Some(judge) = Judge::new() else { return };
    let ours = check(&judge, case).unwrap_or_else(|difference| panic!("{difference}"));
    assert_eq!(musl_ours::list(&ours, case), loaded);
    assert_eq!(musl_ours::errors(&ours), errors);
}

fn program() -> Elf {
    Elf::executable().interp(LOADER)
}

fn x() -> Vec<u8> {
    Elf::library("libx.so").build()
}

#[test]
fn is_a_soname_a_name() {
    let other = Elf::library("libx.so").build();
    let case = Case::by_hand(&program().needed("/opt/a/liby.so").needed("libx.so"));
    let case = case.file("/opt/a/liby.so", other);
    ask(
        &case,
        &["/opt/a/liby.so => /opt/a/liby.so"],
        &["Error loading shared library libx.so: No such file or directory (needed by /app/bin/prog)"],
    );
}

#[test]
fn is_a_search_path_inherited() {
    let y = Elf::library("liby.so").needed("libx.so").build();
    let case = Case::by_hand(&program().runpath("/opt/a").needed("liby.so"));
    let case = case.file("/opt/a/liby.so", y).file("/opt/a/libx.so", x());
    ask(&case, &["liby.so => /opt/a/liby.so", "libx.so => /opt/a/libx.so"], &[]);
}

#[test]
fn does_the_programs_path_apply_to_preloads() {
    let y = Elf::library("liby.so").needed("libx.so").build();
    let mut case = Case::by_hand(&program().rpath("/opt/a"));
    case.preload = Some("/opt/a/liby.so".to_owned());
    let case = case.file("/opt/a/liby.so", y).file("/opt/a/libx.so", x());
    ask(
        &case,
        &["/opt/a/liby.so => /opt/a/liby.so"],
        &["Error loading shared library libx.so: No such file or directory (needed by /opt/a/liby.so)"],
    );
}

#[test]
fn does_an_empty_path_file_leave_directories() {
    let case = Case::by_hand(&program().needed("libx.so"));
    let case = case.file("/lib/libx.so", x());
    ask(&case, &["libx.so => /lib/libx.so"], &[]);
    ask(
        &case.file(PATH_FILE, ""),
        &[],
        &["Error loading shared library libx.so: No error information (needed by /app/bin/prog)"],
    );
}

#[test]
fn where_is_the_path_file_of_a_moved_loader() {
    let loader = "/opt/musl/lib/ld-musl-x86_64.so.1";
    let case = Case::by_hand(&Elf::executable().interp(loader).needed("libx.so"));
    let case = case
        .link(loader, LOADER)
        .file("/opt/musl/etc/ld-musl-x86_64.path", "/opt/b")
        .file(PATH_FILE, "/opt/a")
        .file("/opt/a/libx.so", x())
        .file("/opt/b/libx.so", x());
    let Some(judge) = Judge::new() else { return };
    let root = judge.root(&case);
    let rootfs = judge.read(root.path());
    let arch = super::Arch::of_platform("amd64").unwrap();
    let linker = super::DynamicLoader::read_at(&rootfs, loader.as_bytes(), arch, super::CpuLevel::V1).unwrap();
    let ours: Vec<String> = linker.default_dirs.iter().map(|dir| musl_ours::text(dir)).collect();
    assert_eq!(ours, ["/opt/b"]);
    let ran = judge.list(&case, root.path());
    assert!(ran.out.contains("libx.so => /opt/b/libx.so"), "{ran:?}");
}

#[test]
fn is_a_directory_with_a_link_loop_skipped() {
    let case = Case::by_hand(&program().rpath("/opt/loop:/opt/a").needed("libx.so"));
    let case = case.link("/opt/loop", "loop").file("/opt/a/libx.so", x());
    ask(
        &case,
        &[],
        &["Error loading shared library libx.so: Symbolic link loop (needed by /app/bin/prog)"],
    );
}

#[test]
fn is_a_name_longer_than_any_file_searched_for() {
    let name = "x".repeat(256);
    let case = Case::by_hand(&program().needed(&name));
    let error = format!("Error loading shared library {name}: No error information (needed by /app/bin/prog)");
    ask(&case, &[], &[&error]);
}

#[test]
fn is_a_path_that_is_too_long_skipped() {
    let long = format!("/opt/{}", "./".repeat(250));
    let case = Case::by_hand(&program().rpath(format!("{long}:/opt/a")).needed("libx.so"));
    let case = case.file("/opt/libx.so", x()).file("/opt/a/libx.so", x());
    ask(&case, &["libx.so => /opt/a/libx.so"], &[]);
}

#[test]
fn does_the_wrong_class_end_the_search() {
    let other = Elf::library("libx.so").class(testkit::elf::Class::Elf32);
    let case = Case::by_hand(&program().rpath("/opt/a:/opt/b").needed("libx.so"));
    let case = case.file("/opt/a/libx.so", other.build()).file("/opt/b/libx.so", x());
    ask(
        &case,
        &[],
        &["Error loading shared library libx.so: Exec format error (needed by /app/bin/prog)"],
    );
}

#[test]
fn is_an_object_for_another_processor_loaded() {
    let other = Elf::library("libx.so").machine(testkit::elf::Machine::Aarch64);
    let case = Case::by_hand(&program().rpath("/opt/a:/opt/b").needed("libx.so"));
    let case = case
        .file("/opt/a/libx.so", other.import("away").build())
        .file("/opt/b/libx.so", x());
    ask(
        &case,
        &["libx.so => /opt/a/libx.so"],
        &["Error relocating /opt/a/libx.so"],
    );
}

#[test]
fn is_another_c_library_loaded_by_its_path() {
    let libc = Elf::library("libc.so.6").export("__libc_start_main").export("stdin");
    let case = Case::by_hand(&program().needed("/opt/a/libc.so.6").needed("libx.so"));
    let case = case.file("/opt/a/libc.so.6", libc.build()).file("/lib/libx.so", x());
    ask(
        &case,
        &["libc.so => /lib/ld-musl-x86_64.so.1", "libx.so => /lib/libx.so"],
        &[],
    );
}

#[test]
fn is_a_missing_version_an_error() {
    let case = Case::by_hand(&program().needed("libx.so").verneed("libx.so", "V_9"));
    let library = Elf::library("libx.so").verdef("V_1").build();
    ask(&case.file("/lib/libx.so", library), &["libx.so => /lib/libx.so"], &[]);
}

#[test]
fn what_does_musl_lack_for_the_real_cupti() {
    let (Some(judge), Some(part)) = (
        Judge::new(),
        crate::support::part("wheels/nvidia-cuda-cupti-cu12-12.4.127"),
    ) else {
        return;
    };
    let cupti = std::fs::read(part.join("nvidia/cuda_cupti/lib/libcupti.so.12")).unwrap();
    let case = Case::by_hand(&program().needed("libcupti.so.12"));
    let case = case.file("/usr/lib/libcupti.so.12", cupti);
    let root = judge.root(&case);
    let rootfs = judge.read(root.path());
    let ours = super::process(&rootfs, &case, |process| {
        process.start(case.program.0.as_bytes(), super::StartMode::Listed)
    });
    let ran = judge.list(&case, root.path());
    let listed: Vec<String> = ran.out.lines().filter_map(super::listed).collect();
    assert_eq!(musl_ours::list(&ours, &case), listed);
    // Errors about symbols that glibc has and musl lacks follow.
    let errors: Vec<&str> = ran
        .err
        .lines()
        .filter(|line| !line.starts_with("Error relocating "))
        .collect();
    assert_eq!(musl_ours::errors(&ours), errors);
    assert_eq!(errors.len(), 2, "{errors:?}");
}
