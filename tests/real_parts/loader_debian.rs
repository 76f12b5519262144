//! Compares `tree` with the real `ld.so` on every ELF file of a Debian and of the CUPTI wheels.

use cupti_audit::knowledge::file_interest::cupti_options;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::chroot::Root;
use crate::cupti_parts::pip;
use image_linkage::layer::{self, ExpectedBlob};
use image_linkage::loader::CacheEntry;
use image_linkage::loader::{Arch, CpuLevel, DynamicLoader, run_ldconfig};
use image_linkage::rootfs::{self, Rootfs};
use testkit::elf::{Class, Elf, Machine};
use testkit::layer::Layer;

fn rootfs_of_tar(tar: &Path) -> Rootfs {
    let blob = File::open(tar).unwrap();
    let index = layer::index_layer("debian", blob, &ExpectedBlob::default(), &cupti_options()).unwrap();
    let (rootfs, problems) = rootfs::merge_layers([&index]);
    assert_eq!(problems, [], "a Debian applies without a problem");
    rootfs
}

/// Compares every ELF file below `below`, and returns their paths.
fn compare(root: &Path, below: &str, what: &str) -> Vec<String> {
    let facts = crate::real_objects::read(&format!("rootfs:{}", root.display()), crate::real_objects::cpu(root));
    let context = &facts.contexts.as_is;
    let paths = crate::real_objects::elf_files(root, below);
    let real = crate::real_objects::real(root, context, &paths);
    let (agreed, different) = crate::real_objects::compare(&crate::real_objects::ours(context, &paths), &real);
    println!(
        "tree and the real ld.so agree on {agreed} of {} ELF files of {what}",
        paths.len()
    );
    assert!(different.is_empty(), "{different}");
    paths
}

#[test]
fn tree_agrees_with_the_real_loader_on_every_elf_file() {
    let Some(root) = crate::support::part("bookworm") else {
        return;
    };
    if !crate::session::is_allowed() {
        return;
    }
    let paths = compare(&root, "/", "a Debian with python3");
    for kind in [
        "/bin/",
        "/lib-dynload/",
        "/gconv/",
        "/security/pam_",
        "/perl-base/auto/",
    ] {
        assert!(paths.iter().any(|path| path.contains(kind)), "{kind}");
    }
}

#[test]
fn tree_agrees_with_the_real_loader_on_every_elf_file_of_the_wheels() {
    if !crate::cupti_parts::are_there() || !crate::session::is_allowed() {
        return;
    }
    let mut root = Root::new(b"");
    for wheel in [
        "nvidia-cuda-cupti-cu12-12.4.127",
        "nvidia-cuda-cupti-cu11-11.8.87",
        "nvidia-cuda-runtime-cu12-12.4.127",
    ] {
        root.add(&pip(Layer::new(), wheel, &format!("opt/{wheel}")));
    }
    compare(&root.path(""), "/opt", "the CUPTI wheels");
}

#[test]
fn the_regenerated_cache_is_that_of_the_real_ldconfig() {
    let (Some(root), Some(tar)) = (crate::support::part("bookworm"), crate::support::part("bookworm.tar")) else {
        return;
    };
    if !crate::support::is_root() {
        return;
    }
    let rootfs = rootfs_of_tar(&tar);
    let linker = DynamicLoader::find_default(&rootfs, Arch::of_platform("amd64").unwrap(), CpuLevel::V4).unwrap();
    let regenerated = run_ldconfig(&rootfs, &linker, Vec::new());
    let print = |cache: &image_linkage::loader::LdCache| {
        let line = |(name, entry): (&[u8], &CacheEntry)| {
            format!(
                "{} => {}",
                String::from_utf8_lossy(name),
                String::from_utf8_lossy(&entry.path)
            )
        };
        let mut lines: Vec<String> = cache.iter().map(line).collect();
        lines.sort();
        lines
    };
    let output = Command::new("chroot")
        .arg(&root)
        .args(["/sbin/ldconfig", "-p"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut real: Vec<String> = text
        .lines()
        .filter_map(|line| line.trim().split_once(" => "))
        .map(|(name, path)| format!("{} => {path}", name.split(" (").next().unwrap_or_default()))
        .collect();
    real.sort();
    assert_eq!(print(linker.cache.as_deref().unwrap()), real, "the cache as we read it");
    assert_eq!(print(&regenerated.cache), real, "the cache as we make it");
    assert_eq!(regenerated.links, []);
    println!(
        "the cache that we read and the one that we make have the {} entries of ldconfig -p",
        real.len()
    );
}

/// The judge is the loader's trace of each object, as printed by ldd.
#[test]
fn links_tells_the_objects_that_the_real_loader_refuses() {
    let parts = (crate::support::part("bookworm"), crate::support::part("bookworm.tar"));
    let (Some(debian), true) = (parts.0, parts.1.is_some() && crate::session::is_allowed()) else {
        return;
    };
    let folder = "usr/lib/x86_64-linux-gnu";
    let whole = |name: &str| std::fs::canonicalize(debian.join(folder).join(name)).unwrap();
    let real_name = |name: &str| whole(name).file_name().unwrap().to_str().unwrap().to_owned();
    let mut root = Root::new(b"");
    let gone = ["libz.so.1", "libreadline.so.8"];
    let layer = gone.iter().fold(Layer::new(), |layer, name| {
        let layer = layer.whiteout(format!("{folder}/{name}"));
        layer.whiteout(format!("{folder}/{}", real_name(name)))
    });
    let moved = std::fs::read(whole("libreadline.so.8")).unwrap();
    let layer = layer.file("opt/x/libreadline.so.8", moved);
    root.add(&layer.file(format!("{folder}/{}", real_name("libbz2.so.1.0")), "no library"));
    let asked = ["/usr/bin", "/usr/lib/python3.11"];
    let reference = format!("rootfs:{}", root.path("").display());
    let facts = crate::real_objects::read(&reference, crate::real_objects::cpu(&root.path("")));
    let objects: Vec<String> = asked
        .iter()
        .flat_map(|below| crate::real_objects::elf_files(&root.path(""), below))
        .collect();
    let is_refused = |said: &crate::real_objects::Said| {
        let words = [
            "=> not found",
            "error while loading shared libraries",
            "cannot open shared object file",
        ];
        said.lines
            .iter()
            .any(|line| words.iter().any(|word| line.contains(word)))
    };
    let real = crate::real_objects::real(&root.path(""), &facts.contexts.as_is, &objects);
    let mut refused: Vec<&str> = real
        .iter()
        .filter(|said| is_refused(said))
        .map(|said| &*said.path)
        .collect();
    refused.sort_unstable();
    let output = crate::support::run(&["links", "--format", "json", &reference, asked[0], asked[1]]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["failing_objects"], serde_json::json!(refused));
    let lacks = report["lacks"].as_array().unwrap();
    let lacks: Vec<&str> = lacks.iter().map(|lack| lack["name"].as_str().unwrap()).collect();
    assert_eq!(lacks, ["libbz2.so.1.0", "libreadline.so.8", "libz.so.1"]);
    assert_eq!(
        report["lacks"][1]["elsewhere"],
        serde_json::json!(["/opt/x/libreadline.so.8"])
    );
    assert_eq!(
        (output.status.code(), refused.len() > 5),
        (Some(1), true),
        "{refused:?}"
    );
}

/// The path of a loader for 32-bit objects, where a Debian can be made beside it.
fn loader_of_32_bits() -> Option<PathBuf> {
    let loader = crate::support::part("loaders/libc6-i386-amd64-cross/usr/x86_64-linux-gnu/lib32/ld-linux.so.2")?;
    crate::support::part("bookworm")?;
    crate::session::is_allowed().then_some(loader)
}

#[test]
fn a_32_bit_object_is_asked_of_its_own_loader() {
    let Some(loader) = loader_of_32_bits() else { return };
    let mut root = Root::new(b"");
    let needs = |elf: Elf| elf.needed("libb.so.1").needed("libz.so.1").runpath("/opt/$LIB:/opt/b");
    let of_32 = |elf: Elf| elf.class(Class::Elf32).machine(Machine::I386);
    let name = |object: &str, elf: Elf| (format!("opt/{object}"), elf.build());
    let objects = [
        name("liba32.so", of_32(needs(Elf::library("liba.so.1")))),
        name("liba64.so", needs(Elf::library("liba.so.1"))),
        name("prog32", of_32(needs(Elf::executable()).interp("/lib/ld-linux.so.2"))),
        name("lib32/libb.so.1", of_32(Elf::library("libb.so.1"))),
        name("b/libb.so.1", Elf::library("libb.so.1")),
        name("x/libz.so.1", of_32(Elf::library("libz.so.1"))),
    ];
    let layer = Layer::new().executable("usr/lib/ld-linux.so.2", std::fs::read(loader).unwrap());
    let layer = objects
        .into_iter()
        .fold(layer, |layer, (path, bytes)| layer.executable(path, bytes));
    root.add(&layer);
    compare(&root.path(""), "/opt", "both classes");
    let reference = format!("rootfs:{}", root.path("").display());
    let output = crate::support::run(&["links", "--format", "json", &reference, "/opt"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        report["failing_objects"],
        serde_json::json!(["/opt/liba32.so", "/opt/prog32"])
    );
    assert_eq!(report["lacks"][0]["elsewhere"], serde_json::json!(["/opt/x/libz.so.1"]));
}

/// Prints the kernel's error for each program, or nothing.
const EXECUTE: &str = "
import os, subprocess, sys
for path in sys.argv[1:]:
    try:
        subprocess.run([path], stderr=subprocess.DEVNULL)
        print()
    except OSError as error:
        print(os.strerror(error.errno))
";

#[test]
fn tree_and_links_give_the_kernels_error_for_an_odd_interpreter() {
    let Some(loader) = loader_of_32_bits() else { return };
    let script = |bytes: usize| format!("#!/bin/sh\nexit 0\n{}", "#".repeat(bytes)).into_bytes();
    let files = [
        ("of-32-bits", std::fs::read(loader).unwrap()),
        ("short-script", script(1)),
        ("long-script", script(100)),
        ("empty", Vec::new()),
        ("arm64", Elf::executable().machine(Machine::Aarch64).build()),
    ];
    let folder = Layer::new().dir("opt/i/folder").symlink("opt/i/ring", "ring");
    let folder = folder.file("opt/i/closed", script(1));
    let layer = files.iter().fold(folder, |layer, (name, bytes)| {
        layer.executable(format!("opt/i/{name}"), bytes)
    });
    let names = files
        .iter()
        .map(|(name, _)| *name)
        .chain(["folder", "ring", "none", "closed"]);
    let mut programs: Vec<(String, String)> = names
        .map(|name| (format!("/opt/{name}"), format!("/opt/i/{name}")))
        .collect();
    programs.push(("/opt/nameless".to_owned(), String::new()));
    programs.push(("/opt/good".to_owned(), "/lib64/ld-linux-x86-64.so.2".to_owned()));
    let layer = programs.iter().fold(layer, |layer, (path, interpreter)| {
        layer.executable(&path[1..], Elf::executable().interp(interpreter).build())
    });
    let mut root = Root::new(b"");
    root.add(&layer);
    let paths = programs.iter().map(|(path, _)| path.as_str());
    let line: Vec<&str> = ["/usr/bin/python3", "-c", EXECUTE].into_iter().chain(paths).collect();
    let output = crate::session::Session::of(&root.path(""))
        .command(&line)
        .output()
        .unwrap();
    let real = String::from_utf8(output.stdout).unwrap();
    let facts = crate::real_objects::read(&format!("rootfs:{}", root.path("").display()), CpuLevel::V1);
    let mut failing = Vec::new();
    for ((path, _), real) in programs.iter().zip(real.lines()) {
        let started = facts.contexts.as_is.start_program(path.as_bytes()).unwrap();
        let message = started.unresolved.first().map(|missing| missing.message.as_str());
        let ours = message.map_or("", |message| message.split(": ").nth(1).unwrap());
        assert!(ours.eq_ignore_ascii_case(real), "{path}: {real}: {started:?}");
        failing.extend((!real.is_empty()).then_some(path));
    }
    failing.sort_unstable();
    println!("{} odd interpreters are refused with the kernel's error", failing.len());
    // `links` counts the objects that the user may not load apart.
    failing.retain(|path| *path != "/opt/closed");
    let reference = format!("rootfs:{}", root.path("").display());
    let output = crate::support::run(&["links", "--format", "json", &reference, "/opt"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (report["failing_objects"].clone(), failing.len()),
        (serde_json::json!(failing), 9)
    );
}
