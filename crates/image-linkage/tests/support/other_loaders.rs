//! Do the default directories read from a loader's bytes match those it prints?

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use image_linkage::loader::{Arch, CpuLevel, DynamicLoader};
use testkit::layer::Layer;

use crate::{loader_tree, support};

/// The Go architecture name, and the package whose loader runs on it.
const LOADERS: [(&str, &str); 8] = [
    ("amd64", "bookworm"),
    ("amd64", "loaders/libc6-amd64-i386-cross"),
    ("386", "loaders/libc6-i386-cross"),
    ("386", "loaders/libc6-i386-amd64-cross"),
    ("arm64", "bookworm-arm64"),
    ("arm64", "loaders/libc6-arm64-cross"),
    ("ppc64le", "loaders/libc6-ppc64el-cross"),
    ("riscv64", "loaders/libc6-riscv64-cross"),
];

#[test]
fn do_the_default_directories_match_the_loaders_own_list() {
    if !support::have("qemu-aarch64-static", "qemu-user-static") {
        return;
    }
    let mut agreed = 0;
    for (platform, part) in LOADERS {
        let Some(part) = support::part(part) else {
            return;
        };
        let file = loader_in(&part);
        let real = directories_said(platform, &file);
        assert!(real.len() >= 2, "{}: {real:?}", file.display());
        assert_eq!(directories_read(platform, &file), real, "{}", file.display());
        agreed += 1;
    }
    println!("{agreed} of {} loaders' default directories agree", LOADERS.len());
}

/// The loader's file below a directory.
fn loader_in(folder: &Path) -> PathBuf {
    let places = [
        "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
        "lib/aarch64-linux-gnu/ld-linux-aarch64.so.1",
    ];
    let whole = places.iter().map(|place| folder.join(place));
    if let Some(file) = whole.into_iter().find(|file| file.is_file()) {
        return file;
    }
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let facts = fs::symlink_metadata(&path).unwrap();
            if facts.is_dir() {
                pending.push(path);
            } else if facts.is_file() {
                return path;
            }
        }
    }
    panic!("no loader in {}", folder.display())
}

/// `path.system_dirs` of `ld.so --list-diagnostics`.
fn directories_said(platform: &str, file: &Path) -> Vec<String> {
    let mut command = match platform {
        "arm64" => Command::new("qemu-aarch64-static"),
        "ppc64le" => Command::new("qemu-ppc64le-static"),
        "riscv64" => Command::new("qemu-riscv64-static"),
        _ => Command::new(file),
    };
    if !matches!(platform, "amd64" | "386") {
        command.arg(file);
    }
    let output = command.arg("--list-diagnostics").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("path.system_dirs["));
    lines
        .filter_map(|line| Some(line.split_once("=\"")?.1.trim_end_matches('"').to_owned()))
        .collect()
}

fn directories_read(platform: &str, file: &Path) -> Vec<String> {
    let arch = Arch::of_platform(platform).unwrap();
    let path = arch.interpreter;
    let layer = Layer::new().executable(&path[1..], fs::read(file).unwrap());
    let rootfs = loader_tree::merge([&loader_tree::index(&Layer::new()), &loader_tree::index(&layer)]);
    let linker = DynamicLoader::read_at(&rootfs, path.as_bytes(), arch, CpuLevel::V1).unwrap();
    let directories = linker.default_dirs.iter();
    directories
        .map(|directory| String::from_utf8_lossy(directory).into_owned())
        .collect()
}
