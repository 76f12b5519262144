//! Does `tree` say of every dynamic executable of a Debian what the real `ld.so` says?

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "the judge is the real loader, run in a chroot"
)]

mod support;

use std::fs::File;
use std::path::Path;
use std::process::Command;

use cupti_audit::layer::{self, Expected};
use cupti_audit::limits::Limits;
use cupti_audit::loader::cache::CacheEntry;
use cupti_audit::loader::{
    Arch, CpuLevel, Environment, How, Linker, Process, Resolution, Setup, Start, ldconfig,
};
use cupti_audit::rootfs::{self, NodeKind, Rootfs};

fn rootfs_of_tar(tar: &Path) -> Rootfs {
    let blob = File::open(tar).unwrap();
    let index = layer::index("debian", blob, &Expected::default(), &Limits::default()).unwrap();
    let (rootfs, problems) = rootfs::merge([&index]);
    assert_eq!(problems, [], "a Debian applies without a problem");
    rootfs
}

/// What `ld.so` prints in trace mode: a name and a path, in its order; the vDSO is the kernel's.
fn real_trace(root: &Path, program: &str) -> Vec<String> {
    let output = Command::new("chroot")
        .arg(root)
        .args(["/usr/bin/env", "-i", "LD_TRACE_LOADED_OBJECTS=1", program])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("linux-vdso"))
        .map(|line| {
            line.rsplit_once(" (0x")
                .map_or(line, |(head, _)| head)
                .to_owned()
        })
        .collect()
}

fn our_trace(resolution: &Resolution) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut lines: Vec<String> = resolution
        .objects
        .iter()
        .skip(1)
        .map(|object| match object.how {
            // The loader knows itself by its path alone.
            How::Interpreter => text(&object.path),
            _ => format!("{} => {}", text(&object.name), text(&object.path)),
        })
        .collect();
    lines.extend(
        resolution
            .unresolved
            .iter()
            .map(|missing| format!("{} => not found", text(&missing.name))),
    );
    lines
}

#[test]
fn tree_agrees_with_the_real_loader_on_every_executable() {
    let (Some(root), Some(tar)) = (support::part("bookworm"), support::part("bookworm.tar")) else {
        return;
    };
    if !support::is_root() {
        return;
    }
    let rootfs = rootfs_of_tar(&tar);
    let arch = Arch::of_platform("amd64").unwrap();
    let linker = Linker::find(&rootfs, arch, CpuLevel::V4).unwrap();
    assert_eq!(linker.problems, [] as [String; 0]);
    let environment = Environment::default();
    let setup = Setup {
        rootfs: &rootfs,
        linker: &linker,
        environment: &environment,
        cpu: CpuLevel::V4,
        from_driver: &|_| false,
    };
    let mut programs = Vec::new();
    rootfs.visit(|path, _, node| {
        if let NodeKind::File(facts) = &node.kind
            && facts.mode & 0o111 != 0
            && facts
                .elf
                .as_ref()
                .is_some_and(|elf| elf.interp.is_some() && elf.dynamic && facts.mode & 0o6000 == 0)
        {
            programs.push(path.clone());
        }
    });
    let mut agreed = 0;
    for program in &programs {
        let path = program.to_string();
        let ours = our_trace(&Process::new(&setup).start(path.as_bytes(), Start::Executed));
        assert_eq!(ours, real_trace(&root, &path), "{path}");
        agreed += 1;
    }
    println!(
        "tree and the real ld.so agree on {agreed} of {} dynamic executables",
        programs.len()
    );
    assert!(
        agreed > 100,
        "a Debian has more than {agreed} dynamic executables"
    );
}

#[test]
fn the_regenerated_cache_is_that_of_the_real_ldconfig() {
    let (Some(root), Some(tar)) = (support::part("bookworm"), support::part("bookworm.tar")) else {
        return;
    };
    if !support::is_root() {
        return;
    }
    let rootfs = rootfs_of_tar(&tar);
    let linker = Linker::find(&rootfs, Arch::of_platform("amd64").unwrap(), CpuLevel::V4).unwrap();
    let regenerated = ldconfig::regenerate(&rootfs, &linker);
    let print = |cache: &cupti_audit::loader::cache::Cache| {
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
    assert_eq!(
        print(linker.cache.as_ref().unwrap()),
        real,
        "the cache as we read it"
    );
    assert_eq!(print(&regenerated.cache), real, "the cache as we make it");
    assert_eq!(regenerated.links, []);
    println!(
        "the cache that we read and the one that we make have the {} entries of ldconfig -p",
        real.len()
    );
}
