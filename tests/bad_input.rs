//! Is bad input one clear sentence, exit 2, and nothing left behind?

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "the tests run the real program on files that they damage"
)]

#[path = "support/hostile_images.rs"]
mod hostile_images;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hostile_images::{Entries, library, measure, write_image};
use tempfile::TempDir;
use testkit::spec::{ElfSpec, EntrySpec};

/// What the program says of an image: the exit code and standard error. Nothing may go to standard output,
/// and nothing may be written into the folder it runs in.
fn said(image: &str, more: &[&str]) -> (i32, String) {
    let folder = TempDir::new().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
        .arg(image)
        .args(more)
        .current_dir(folder.path())
        .env_clear()
        .env("HOME", folder.path())
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{image}");
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        0,
        "{image} left something behind"
    );
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn check(image: &str, more: &[&str], expected: &str) {
    let (code, error) = said(image, more);
    assert_eq!(code, 2, "{image}: {error}");
    assert_eq!(error.lines().count(), 1, "{image}: {error}");
    assert!(
        error.starts_with("error: ") && error.contains(expected),
        "{image}: {error}"
    );
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/images").join(name)
}

/// A copy of a fixture image whose largest blob is changed by `damage`.
fn damaged(damage: impl Fn(&mut Vec<u8>)) -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let layout = folder.path().join("layout");
    copy(&fixture("devel"), &layout);
    let blobs = fs::read_dir(layout.join("blobs/sha256"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let largest = blobs.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    damage(&mut bytes);
    fs::write(&largest, bytes).unwrap();
    let image = format!("oci:{}", layout.display());
    (folder, image)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_reference_that_means_nothing() {
    check("", &[], "it is empty");
    check("Ubuntu:22.04", &[], "in lower case");
    check("./nowhere", &[], "no such file or folder");
    check("oci:/nowhere", &[], "/nowhere");
    check("docker-archive:/nowhere.tar", &[], "/nowhere.tar");
}

#[test]
fn a_registry_that_cannot_be_reached() {
    // Port 1 of the loopback interface: nothing listens there.
    check("127.0.0.1:1/app:1", &[], "127.0.0.1:1");
    check("registry.invalid/app:1", &[], "registry.invalid");
}

#[test]
fn an_engine_that_does_not_run() {
    check("docker-daemon:app", &[], "Docker Engine");
    check("podman:app", &[], "Podman");
}

#[test]
fn a_tag_or_a_platform_that_is_not_there() {
    let image = format!("oci:{}", fixture("multi-platform").display());
    check(&format!("{image}:nothing"), &[], "nothing");
    check(
        &image,
        &["--platform", "linux/s390x"],
        "it offers linux/amd64, linux/arm64; choose one with --platform",
    );
    let image = format!("oci:{}", fixture("arm64").display());
    check(&image, &["--platform", "linux/amd64"], "it offers linux/arm64");
}

#[test]
fn a_layer_of_another_digest_or_cut_short() {
    let (_folder, image) = damaged(|bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    });
    check(&image, &[], "expected digest sha256:");
    let (_folder, image) = damaged(|bytes| bytes.truncate(bytes.len() - 100));
    check(&image, &[], "bytes");
}

#[test]
fn something_that_is_no_image() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("notes.txt");
    fs::write(&file, "shopping: milk").unwrap();
    check(
        &file.display().to_string(),
        &[],
        "neither the output of docker save nor an OCI archive",
    );
    check(&format!("docker-archive:{}", file.display()), &[], "notes.txt");
    let tar = folder.path().join("plain.tar");
    fs::write(&tar, testkit::layer::Layer::new().file("etc/passwd", "root").tar()).unwrap();
    check(&format!("docker-archive:{}", tar.display()), &[], "manifest.json");
}

#[test]
fn a_foreign_layer_is_a_gap_that_leaves_the_verdict_open() {
    let folder = TempDir::new().unwrap();
    let layout = folder.path().join("layout");
    copy(&fixture("devel"), &layout);
    let read = |path: &Path| -> serde_json::Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let blob = |digest: &str| layout.join("blobs").join(digest.replace(':', "/"));
    let mut index = read(&layout.join("index.json"));
    let mut manifest = read(&blob(index["manifests"][0]["digest"].as_str().unwrap()));
    // The layer of the licence text: nothing that the verdict looks at.
    let layer = &mut manifest["layers"][4];
    layer["mediaType"] = "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip".into();
    fs::remove_file(blob(layer["digest"].as_str().unwrap())).unwrap();
    let bytes = serde_json::to_vec(&manifest).unwrap();
    let digest = testkit::layer::sha256(&bytes);
    fs::write(blob(&digest), &bytes).unwrap();
    index["manifests"][0]["digest"] = digest.into();
    index["manifests"][0]["size"] = bytes.len().into();
    fs::write(layout.join("index.json"), index.to_string()).unwrap();

    let output = Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
        .args(["--format", "json", &format!("oci:{}", layout.display())])
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["cupti"]["status"], "loadable");
    assert_eq!(report["gaps"].as_array().unwrap().len(), 1);
    assert!(report["gaps"][0]["why"].as_str().unwrap().contains("foreign layer"));
    assert_eq!(output.status.code(), Some(2));
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number:04}")).collect()
}

/// What each row of the table of work bombs puts into an image: its environment and its files.
fn work_bomb(row: &str) -> (Vec<(&'static str, String)>, Entries) {
    let cupti = || "libcupti.so.12".to_owned();
    let consumers = |count: usize, change: &dyn Fn(usize, &mut ElfSpec)| -> Entries {
        let file = |number: usize| {
            let made = library(&[cupti(), "libc.so.6".to_owned()], |spec| change(number, spec));
            (format!("/opt/app/lib{number}.so"), made)
        };
        (0..count).map(file).collect()
    };
    let long_path = |count: usize| vec![("LD_LIBRARY_PATH", names("/d", count).join(":"))];
    let all_need = |count: usize, path: &dyn Fn(usize) -> Option<String>| -> Entries {
        let all: Vec<String> = (0..count).map(|number| format!("libx{number}.so")).collect();
        let needed = |number: usize| match path(number) {
            // A chain: each needs the next one.
            Some(_) => all.iter().skip(number + 1).take(1).cloned().chain([cupti()]).collect(),
            None => [vec![cupti()], all.clone()].concat(),
        };
        let file = |number: usize| {
            let made = library(&needed(number), |spec: &mut ElfSpec| {
                spec.soname = Some(format!("libx{number}.so"));
                spec.rpath = path(number);
            });
            (format!("/usr/lib/x86_64-linux-gnu/libx{number}.so"), made)
        };
        (0..count).map(file).collect()
    };
    match row {
        "LD_LIBRARY_PATH of 2,000, 20 consumers" => (long_path(2_000), consumers(20, &|_, _| {})),
        "LD_LIBRARY_PATH of 10,000, 20 consumers" => (long_path(10_000), consumers(20, &|_, _| {})),
        "201 objects with 60 RPATH directories" => {
            let path = |number: usize| Some(names(&format!("/r{number}/"), 60).join(":"));
            (Vec::new(), all_need(201, &path))
        }
        "200 objects that need each other" => (Vec::new(), all_need(200, &|_| None)),
        "5,000 consumers" => (Vec::new(), consumers(5_000, &|_, _| {})),
        "5,000 decoys" => {
            let decoy = |number: usize| {
                let made = library(&["libc.so.6".to_owned()], |spec| spec.soname = Some(cupti()));
                (format!("/opt/d{number}/libcupti.so.12"), made)
            };
            (Vec::new(), (0..5_000).map(decoy).collect())
        }
        "5,000 decoys that need each other" => {
            let decoy = |number: usize| {
                let made = library(&[cupti()], |spec| spec.soname = Some(cupti()));
                (format!("/opt/d{number}/libcupti.so.12"), made)
            };
            (Vec::new(), (0..5_000).map(decoy).collect())
        }
        "1,000 RUNPATH of 1,000 directories with files" => {
            let folders = names("/f", 1_000);
            let path = folders.join(":");
            let mut files = consumers(1_000, &|_, spec| spec.runpath = Some(path.clone()));
            let held = |folder: &String| (format!("{folder}/x"), EntrySpec::Text(String::new()));
            files.extend(folders.iter().map(held));
            (Vec::new(), files)
        }
        _ => panic!("no such row: {row}"),
    }
}

const WORK_BOMBS: [&str; 8] = [
    "LD_LIBRARY_PATH of 2,000, 20 consumers",
    "LD_LIBRARY_PATH of 10,000, 20 consumers",
    "201 objects with 60 RPATH directories",
    "200 objects that need each other",
    "5,000 consumers",
    "5,000 decoys",
    "5,000 decoys that need each other",
    "1,000 RUNPATH of 1,000 directories with files",
];

#[test]
fn x_03_to_x_06_work_bombs_are_judged_in_bounds_or_end_in_a_gap() {
    for row in WORK_BOMBS {
        let folder = TempDir::new().unwrap();
        let (env, entries) = work_bomb(row);
        let image = write_image(folder.path(), &env, entries);
        let program = std::env::var("HOSTILE_PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_cupti-audit").to_owned());
        let run = measure(&program, &["--format", "json", &image]);
        println!(
            "{row}: exit {:?}, {:.1} s, {} MiB {}",
            run.code,
            run.took.as_secs_f64(),
            run.peak_mib,
            run.stderr.lines().last().unwrap_or_default()
        );
        if let Ok(keep) = std::env::var("HOSTILE_KEEP") {
            copy(folder.path(), &Path::new(&keep).join(row.replace([' ', ','], "-")));
        }
    }
}
