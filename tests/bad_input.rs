//! Bad input gives one clear sentence and exit code 2, and leaves no files behind.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    dead_code,
    reason = "tests drive real programs on the host, may panic, and share more than each of them uses"
)]

#[path = "support/fuzz_runs.rs"]
mod fuzz_runs;
#[path = "support/fuzz_targets.rs"]
mod fuzz_targets;
#[path = "support/hostile_cases.rs"]
mod hostile_cases;
#[path = "support/hostile_images.rs"]
mod hostile_images;
#[path = "support/plain_image.rs"]
mod plain_image;
#[path = "support/work_bombs.rs"]
mod work_bombs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hostile_images::measure;
use serde_json::Value;
use tempfile::TempDir;

/// The exit code and standard error for an image. The program must not write to standard output or into its working
/// directory.
fn said(image: &str, more: &[&str]) -> (i32, String) {
    let folder = TempDir::new().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
        .arg(image)
        .args(more)
        .current_dir(folder.path())
        .env_clear()
        .env("HOME", folder.path())
        .env("CUPTI_AUDIT_NO_CACHE", "1")
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

/// User mistakes: the command line in the root of the repository, the exit code, and standard error with its lines
/// joined. `INSTA_UPDATE=always` rewrites the table.
#[test]
fn what_is_said_of_each_mistake() {
    let root = env!("CARGO_MANIFEST_DIR");
    let table = fs::read_to_string(Path::new(root).join("testdata/mistakes.tsv")).unwrap();
    let home = TempDir::new().unwrap();
    let say = |line: &str| {
        let typed = line.split('\t').next().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
            .args(typed.split(' '))
            .current_dir(root)
            .env_clear()
            .env("HOME", home.path())
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        let error: Vec<&str> = error.lines().filter(|line| !line.is_empty()).map(str::trim).collect();
        format!("{typed}\t{}\t{}\n", output.status.code().unwrap(), error.join(" | "))
    };
    let lines: Vec<&str> = table.lines().collect();
    let said: String = std::thread::scope(|scope| {
        let say = &say;
        let parts = lines.chunks(lines.len().div_ceil(4));
        let parts: Vec<_> = parts
            .map(|part| scope.spawn(move || part.iter().map(|line| say(line)).collect::<String>()))
            .collect();
        parts.into_iter().map(|part| part.join().unwrap()).collect()
    });
    if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
        fs::write(Path::new(root).join("testdata/mistakes.tsv"), &said).unwrap();
    } else {
        assert_eq!(said, table);
    }
}

/// A copy of a fixture image with a modified index and manifest.
fn rewritten(name: &str, change: impl Fn(&mut Value, &mut Value)) -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let layout = folder.path().join("layout");
    copy(&fixture(name), &layout);
    let read = |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let blob = |digest: &str| layout.join("blobs").join(digest.replace(':', "/"));
    let mut index = read(&layout.join("index.json"));
    let mut manifest = read(&blob(index["manifests"][0]["digest"].as_str().unwrap()));
    change(&mut index, &mut manifest);
    let bytes = serde_json::to_vec(&manifest).unwrap();
    let digest = testkit::layer::sha256(&bytes);
    fs::write(blob(&digest), &bytes).unwrap();
    index["manifests"][0]["digest"] = digest.into();
    index["manifests"][0]["size"] = bytes.len().into();
    fs::write(layout.join("index.json"), index.to_string()).unwrap();
    let image = format!("oci:{}", layout.display());
    (folder, image)
}

fn json_report(image: &str) -> (Option<i32>, Value) {
    let run = measure(env!("CARGO_BIN_EXE_cupti-audit"), &["--format", "json", image]);
    (run.code, serde_json::from_str(&run.stdout).unwrap())
}

#[test]
fn x_10_a_foreign_layer_leaves_the_verdict_open_whatever_the_others_say() {
    let foreign = |layer: &mut Value| {
        layer["mediaType"] = "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip".into();
    };
    // Either the layer with the licence text is foreign, or all layers are. Either may hold relevant files.
    let one = rewritten("devel", |_, manifest| foreign(&mut manifest["layers"][4]));
    let all = rewritten("no-cupti", |_, manifest| {
        manifest["layers"].as_array_mut().unwrap().iter_mut().for_each(foreign);
    });
    for (_folder, image) in [one, all] {
        let (code, report) = json_report(&image);
        let gaps: Vec<&str> = report["gaps"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|gap| gap["why"].as_str())
            .collect();
        // Without the layers, the program cannot check the command either.
        let is_told = |why: &&str| why.contains("foreign layer") || why.contains("/opt/nvidia/nvidia_entrypoint.sh");
        assert!(
            gaps.iter().all(is_told) && gaps[0].contains("foreign layer"),
            "{gaps:?}"
        );
        assert_eq!(code, Some(2), "{report}");
        let page = measure(env!("CARGO_BIN_EXE_cupti-audit"), &[&image]);
        let verdict = page
            .stdout
            .lines()
            .find(|line| line.starts_with("? cannot tell whether CUPTI loads"));
        assert!(verdict.is_some() && page.code == Some(2), "{}", page.stdout);
        assert!(!page.stdout.contains("is not in the image"), "{}", page.stdout);
    }
}

#[test]
fn an_encrypted_layer_and_an_image_of_windows_are_no_images_to_judge() {
    let (_folder, image) = rewritten("devel", |_, manifest| {
        manifest["layers"][1]["mediaType"] = "application/vnd.oci.image.layer.v1.tar+gzip+encrypted".into();
    });
    check(&image, &[], "its layer 1 is encrypted");
    let folder = TempDir::new().unwrap();
    let mut layout = testkit::oci::Layout::new();
    layout.add("latest", &[testkit::oci::Image::new("windows/amd64")]);
    layout.write_to(folder.path()).unwrap();
    let image = format!("oci:{}", folder.path().display());
    check(&image, &[], "no image for platform linux in");
}

#[test]
fn x_09_control_text_of_an_index_does_not_reach_the_terminal() {
    let offer = |index: &mut Value, count: usize| {
        let first = index["manifests"][0].clone();
        let one = |number: usize| {
            let mut entry = first.clone();
            let architecture = format!("x{number}\n::error title=pwned::gone\u{1b}[31m");
            entry["platform"] = serde_json::json!({"os": "linux", "architecture": architecture});
            entry
        };
        index["manifests"].as_array_mut().unwrap().extend((0..count).map(one));
    };
    let (_folder, image) = rewritten("devel", |index, _| offer(index, 4_000));
    let (code, error) = said(&image, &["--platform", "linux/s390x"]);
    assert_eq!((code, error.lines().count()), (2, 1), "{error}");
    assert!(!error.contains('\u{1b}') && error.contains("and 3985 more"), "{error}");
    assert!(error.len() < 2_000, "{}", error.len());
    check("oci:/no\nwhere\u{1b}[31m", &[], "\\x1b[31m");
    let (_folder, image) = rewritten("devel", |_, manifest| {
        manifest["layers"][0]["digest"] = "sha256:\u{1b}]0;x\n::error".into();
    });
    check(&image, &[], "\\x1b]0;x");
}

#[test]
fn x_15_a_layer_of_zeros_in_gzip_is_past_the_ratio() {
    let zeros = testkit::layer::compress(vec![0; 16 << 20], testkit::layer::Compression::Gzip);
    let limits = image_linkage::limits::Limits::default();
    let ratio = (16 << 20) / zeros.len() as u64;
    assert!(ratio > limits.layer_ratio && limits.ratio_from <= 4 << 30, "{ratio}");
}
