//! Tests the rows of `testdata/hostile-rows.tsv` that need the real program, and that every row has its tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::elf::Elf;
use testkit::layer::{Compression, Layer, compress};
use testkit::oci::{Image, Layout};

use super::hostile_images::{MeasuredRun, measure};
use super::{check, fixture, json_report, rewritten};

/// Writes an image with these layers as a layout in `folder`.
fn write_layers(folder: &Path, layers: &[(Layer, Compression)]) -> String {
    let image = Image::new("linux/amd64").config("Cmd", json!(["/bin/true"]));
    let image = layers.iter().fold(image, |image, (layer, compression)| {
        image.layer("COPY . /", layer, *compression)
    });
    let mut layout = Layout::new();
    layout.add("latest", &[image]);
    layout.write_to(folder).unwrap();
    format!("oci:{}", folder.display())
}

fn run(arguments: &[&str]) -> MeasuredRun {
    measure(env!("CARGO_BIN_EXE_cupti-audit"), arguments)
}

/// The files in a folder, as relative paths.
fn files_below(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(at) = pending.pop() {
        for entry in fs::read_dir(&at).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                pending.push(entry.path());
            } else {
                found.insert(entry.path().strip_prefix(folder).unwrap().to_owned());
            }
        }
    }
    found
}

#[test]
fn t_15_t_18_s_15_e_26_nothing_of_an_image_is_written_or_run() {
    let folder = TempDir::new().unwrap();
    let [layout, work] = ["layout", "a/b/here"].map(|name| folder.path().join(name));
    fs::create_dir_all(&work).unwrap();
    let outside = folder.path().join("a/evil");
    // Each entry would be outside of the working directory if unpacked there; the loader script would leave a trace if
    // executed.
    let script = format!("#!/bin/sh\necho > {}\n", outside.display());
    let layer = Layer::new()
        .file("../../evil", "x")
        .file(outside.to_str().unwrap(), "x")
        .symlink("link", outside.to_str().unwrap())
        .file("link", "x")
        .symlink("up", "../..")
        .file("up/evil", "x")
        .hardlink("hard", "../../evil")
        .symlink("lib", "usr/lib")
        .executable("usr/lib64/ld-linux-x86-64.so.2", &script)
        .executable("usr/bin/ldd", &script)
        .executable("sbin/ldconfig", &script)
        .executable("bin/true", Elf::executable().needed("libcupti.so.12").build())
        .file("usr/lib/libcupti.so.12", Elf::library("libcupti.so.12").build());
    write_layers(&layout, &[(layer, Compression::Gzip)]);
    let index = layout.join("index.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&index).unwrap()).unwrap();
    document["manifests"][0]["annotations"]["org.opencontainers.image.title"] = "../../evil".into();
    fs::write(&index, document.to_string()).unwrap();
    let before = files_below(folder.path());
    for how in [&["tree"][..], &[]] {
        let ended = Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
            .args(how)
            .arg(format!("oci:{}", layout.display()))
            .current_dir(&work)
            .env_clear()
            .env("HOME", &work)
            .env("TMPDIR", &work)
            .output()
            .unwrap();
        assert!(ended.status.code().is_some_and(|code| code <= 2), "{ended:?}");
    }
    let new = files_below(folder.path());
    let new: Vec<_> = new.difference(&before).collect();
    let is_digest = |path: &&PathBuf| {
        let path = path
            .to_str()
            .unwrap()
            .strip_prefix("a/b/here/.cache/cupti-audit/layers/");
        let words = path.unwrap_or("?").split(['/', '-']);
        let is_hex = |word: &str| word.bytes().all(|byte| byte.is_ascii_hexdigit());
        words
            .into_iter()
            .all(|word| ["blob", "tar", "sha256"].contains(&word) || is_hex(word))
    };
    assert!(!new.is_empty() && new.iter().all(is_digest), "{new:?}");
}

#[test]
fn s_09_s_13_layers_of_one_diff_id_and_dockers_zstd_are_read() {
    let folder = TempDir::new().unwrap();
    let layer = Layer::new().file("usr/lib/libcupti.so.12", Elf::library("libcupti.so.12").build());
    let one = write_layers(&folder.path().join("one"), &[(layer.clone(), Compression::Gzip)]);
    let both = [
        (layer.clone(), Compression::Gzip),
        (layer.dir("opt"), Compression::Zstd),
        (Layer::new().file("a", "b"), Compression::Zstd),
        (Layer::new().file("a", "b"), Compression::Gzip),
    ];
    let both = write_layers(&folder.path().join("both"), &both);
    let (one, both) = (json_report(&one), json_report(&both));
    assert_eq!(one.1["cupti"]["copies"][0]["path"], "/usr/lib/libcupti.so.12");
    assert_eq!(both.1["image"]["layers"].as_array().unwrap().len(), 4);
    let [ours, theirs] = [&one.1, &both.1].map(|report| &report["cupti"]["status"]);
    assert_eq!((one.0, ours), (both.0, theirs));
    let (_folder, docker) = rewritten("devel", |_, manifest| {
        manifest["mediaType"] = "application/vnd.docker.distribution.manifest.v2+json".into();
        manifest["config"]["mediaType"] = "application/vnd.docker.container.image.v1+json".into();
        for layer in manifest["layers"].as_array_mut().unwrap() {
            layer["mediaType"] = "application/vnd.docker.image.rootfs.diff.tar.zstd".into();
        }
    });
    // The layer's bytes determine its compression, not its media type.
    let devel = format!("oci:{}", fixture("devel").display());
    assert_eq!(json_report(&docker).1["cupti"], json_report(&devel).1["cupti"]);
}

#[test]
fn s_11_b_10_media_types_that_are_no_layers_and_layers_without_number_are_refused() {
    let (_folder, image) = rewritten("devel", |_, manifest| {
        manifest["layers"][0]["mediaType"] = "application/x-tar\u{1b}[31m".into();
    });
    check(&image, &[], "its layer 0 is of media type \"application/x-tar\\");
    let folder = TempDir::new().unwrap();
    let layout = folder.path().join("layout");
    let layers = vec![(Layer::new().file("a", "b"), Compression::None); 1_001];
    let image = write_layers(&layout, &layers);
    check(&image, &[], "it has 1001 layers, more than the limit of 1000 (layers)");
    let run = run(&["--limit", "layers=1001", &image]);
    assert!(run.code.is_some_and(|code| code <= 1), "{}", run.stderr);
}

#[test]
fn s_17_b_11_tables_of_contents_and_nested_archives_are_files_like_others() {
    let cupti = Layer::new().file("usr/lib/libcupti.so.12", Elf::library("libcupti.so.12").build());
    let contents = json!({"version": 1, "entries": [{"name": "usr/lib/libcupti.so.12", "type": "reg", "size": 1}]});
    let layer = Layer::new()
        .file("opt/app.tar", cupti.tar())
        .file("opt/app.tar.gz", compress(cupti.tar(), Compression::Gzip))
        .file("stargz.index.json", contents.to_string());
    let folder = TempDir::new().unwrap();
    let image = write_layers(folder.path(), &[(layer, Compression::Gzip)]);
    let (_, report) = json_report(&image);
    assert_eq!(report["cupti"]["status"], "absent", "{report}");
    assert_eq!(report["cupti"]["copies"], json!([]));
}

#[test]
fn x_07_directories_deeper_than_anybody_makes_them_are_bounded() {
    let deep = |count: usize| {
        let folder = TempDir::new().unwrap();
        let below = "a/".repeat(1_900);
        let add = |layer: Layer, number: usize| layer.file(format!("{number:04}/{below}x"), "");
        let layer = (0..count).fold(Layer::new(), add);
        let image = write_layers(folder.path(), &[(layer, Compression::Gzip)]);
        (run(&[&image]), folder)
    };
    let (few, _folder) = deep(60);
    assert!(few.code.is_some_and(|code| code <= 1), "{}", few.stderr);
    let (many, _folder) = deep(3_000);
    assert_eq!(many.code, Some(2));
    assert!(many.stderr.contains("(layer-names)"), "{}", many.stderr);
    let seconds = many.took.as_secs();
    println!(
        "budget: 3,000 entries of depth 1,900: exit 2, {seconds} s, {} MiB",
        many.peak_mib
    );
    assert!(few.peak_mib.max(many.peak_mib) <= 300);
}

/// A root with a loader, a program and libcupti, on which tests add layers.
fn whole_root() -> Layer {
    let version = "GNU C Library (GNU libc) stable release version 2.36.";
    let folders = "/lib/x86_64-linux-gnu/\0/usr/lib/x86_64-linux-gnu/\0/lib/\0/usr/lib/";
    let loader = Elf::library("ld-linux-x86-64.so.2").string(format!("{version}\0{folders}"));
    Layer::new()
        .symlink("lib64", "usr/lib64")
        .symlink("lib", "usr/lib")
        .executable("usr/lib64/ld-linux-x86-64.so.2", loader.build())
        .file("usr/lib/libcupti.so.12", Elf::library("libcupti.so.12").build())
        .executable("bin/true", Elf::executable().needed("libcupti.so.12").build())
}

#[test]
fn y_02_a_command_of_a_name_that_no_file_can_have_does_not_start() {
    let folder = TempDir::new().unwrap();
    let command = format!("/{}", "a".repeat(256));
    let image = Image::new("linux/amd64").config("Cmd", json!([command]));
    let mut layout = Layout::new();
    layout.add("latest", &[image.layer("COPY . /", &whole_root(), Compression::Gzip)]);
    layout.write_to(folder.path()).unwrap();
    let (code, report) = json_report(&format!("oci:{}", folder.path().display()));
    let rules = report["findings"].as_array().unwrap().iter();
    let rules: Vec<&str> = rules.map(|finding| finding["rule"].as_str().unwrap()).collect();
    assert_eq!((code, rules), (Some(1), vec!["command-cannot-start"]), "{report}");
}

/// The names of all test functions in the repository.
fn tests_there_are() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["src", "crates", "tests"].map(|folder| root.join(folder));
    let files = folders.iter().flat_map(|folder| {
        let files = files_below(folder).into_iter().map(|file| folder.join(file));
        files.collect::<Vec<_>>()
    });
    let sources = files.filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
    let mut names = BTreeSet::new();
    for source in sources {
        let text = fs::read_to_string(source).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        names.extend(words.filter(|word| word.len() > 12).map(str::to_owned));
    }
    names
}

#[test]
fn every_row_of_hostile_inputs_has_tests_that_there_are() {
    let there = tests_there_are();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/image-linkage/testdata/layers");
    let files = files_below(&folder).into_iter();
    let layers: String = files
        .map(|file| fs::read_to_string(folder.join(file)).unwrap())
        .collect();
    let rows = include_str!("../../testdata/hostile-rows.tsv");
    let rows = rows.lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<Vec<&str>> = rows.map(|line| line.split('\t').collect()).collect();
    for row in &rows {
        let [id, what, tests] = row[..] else { panic!("{row:?}") };
        let missing: Vec<&str> = tests.split(' ').filter(|test| !there.contains(*test)).collect();
        assert!(!what.is_empty() && missing.is_empty(), "{id}: {missing:?}");
        let in_layers = tests.contains("each_layer_is_read_as_expected_and_as_by_an_engine");
        assert!(
            !in_layers || layers.contains(&format!("\n\"{id}: ")),
            "no layer for {id}"
        );
    }
    // The number of inputs in each part of the catalogue.
    let parts = [
        ("T", 21),
        ("L", 20),
        ("S", 20),
        ("R", 14),
        ("E", 27),
        ("B", 13),
        ("tool", 3),
        ("X", 16),
        ("Y", 9),
    ];
    for (part, count) in parts {
        let ids = rows.iter().filter(|row| row[0].split('-').next() == Some(part));
        assert_eq!(ids.map(|row| row[0]).collect::<BTreeSet<_>>().len(), count, "{part}");
    }
}
