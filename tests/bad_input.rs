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

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use hostile_images::{Entries, measure, write_image};
use serde_json::Value;
use tempfile::TempDir;
use testkit::spec::EntrySpec;

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

#[test]
fn a_long_argument_is_cut_and_the_reason_is_not() {
    let long = "x".repeat(100_000);
    let image = format!("oci:{}", fixture("devel").display());
    for (image, more, reason) in [
        (&long, vec![], "must not be more than 255 characters"),
        (&image, vec!["--phase", &long], "training"),
        (&image, vec!["--env", &long], "try '--help'"),
        (&image, vec!["-o", &long], "such as json=audit.json"),
    ] {
        let (code, error) = said(image, &more);
        assert_eq!(code, 2, "{error}");
        assert!(
            error.len() < 10_000 && error.contains(" bytes …x") && error.contains(reason),
            "{error}"
        );
    }
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
    // Nothing listens on port 1 of the loopback interface.
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

/// A folder that the user may not read hides files, so nothing in it counts as missing.
#[test]
fn is_what_a_closed_folder_hides_called_missing() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("usr")).unwrap();
    fs::create_dir_all(root.join("etc")).unwrap();
    let open_to_all = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    open_to_all(folder.path(), 0o755);
    open_to_all(&root.join("usr"), 0);
    let mut audit = Command::new(env!("CARGO_BIN_EXE_cupti-audit"));
    audit.arg("-q").arg(format!("rootfs:{}", root.display())).env_clear();
    // Root reads every folder.
    if fs::read_dir(root.join("usr")).is_ok() {
        audit.uid(65534).gid(65534);
    }
    let output = audit.output().unwrap();
    open_to_all(&root.join("usr"), 0o755);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.starts_with("? cannot tell whether CUPTI loads: /usr was not read\n"),
        "{said}"
    );
    assert!(
        said.contains("Permission denied (os error 13); run as root, or as"),
        "{said}"
    );
    assert!(said.ends_with("no findings\n"), "{said}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn does_the_printed_command_repeat_what_describes_the_image() {
    let image = format!("oci:{}", fixture("multi-platform").display());
    let options = [
        "--platform=linux/arm64",
        "--env=A=b c",
        "--user=1000",
        "--args=train 'x y'",
    ];
    let output = Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
        .args(["-q", "--no-cache", &image])
        .args(options)
        .env_clear()
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let line = said
        .lines()
        .find(|line| line.starts_with("to fix it: "))
        .unwrap_or_default();
    let words = r"--platform linux/arm64 --env 'A=b c' --args 'train '\''x y'\''' --user 1000";
    let expected =
        format!("to fix it: cupti-audit dockerfile {image} {words} --phase training --base NAME -o Dockerfile");
    assert_eq!(line, expected, "{said}");
}

#[test]
fn is_an_input_replaced_by_an_output() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("export.tar");
    let tar = testkit::layer::Layer::new().file("etc/passwd", "root").tar();
    fs::write(&file, &tar).unwrap();
    let output = format!("json={}", file.display());
    check(
        &format!("rootfs-archive:{}", file.display()),
        &["-o", &output],
        "the report would replace it",
    );
    assert_eq!(fs::read(&file).unwrap(), tar);
    let list = folder.path().join("names.txt");
    fs::write(&list, "oci:x\n").unwrap();
    let list = list.display().to_string();
    check("fleet", &["list", &list, "-o", &list], "the worklist would replace it");
    assert_eq!(fs::read(&list).unwrap(), b"oci:x\n");
    // Standard input is no file that standard output replaces.
    check("fleet", &["list", "-"], "standard input: it names no image");
}

#[test]
fn does_an_empty_worklist_pass() {
    let folder = TempDir::new().unwrap();
    let (list, results) = (folder.path().join("work.jsonl"), folder.path().join("results"));
    fs::write(&list, "").unwrap();
    let (list, results) = (list.display().to_string(), results.display().to_string());
    check("fleet", &["run", &list, "--out", &results], "it lists no image");
}

#[test]
fn something_that_is_no_image() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("notes.txt");
    fs::write(&file, "shopping: milk").unwrap();
    check(
        &file.display().to_string(),
        &[],
        "neither an archive of docker save, OCI or a root file system, nor a SIF",
    );
    check(&format!("docker-archive:{}", file.display()), &[], "notes.txt");
    let tar = folder.path().join("plain.tar");
    fs::write(&tar, testkit::layer::Layer::new().file("etc/passwd", "root").tar()).unwrap();
    check(&format!("docker-archive:{}", tar.display()), &[], "manifest.json");
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
fn x_14_a_link_out_of_a_folder_of_rules_is_not_followed() {
    let folder = TempDir::new().unwrap();
    let [rules, inside] = ["rules", "inside"].map(|name| folder.path().join(name));
    for folder in [&rules, &inside] {
        fs::create_dir(folder).unwrap();
    }
    let secret = folder.path().join("secret");
    fs::write(&secret, "root:hash: secret\n").unwrap();
    std::os::unix::fs::symlink(&secret, rules.join("x.yaml")).unwrap();
    let image = format!("oci:{}", fixture("devel").display());
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let run = |words: &[&str]| measure(env!("CARGO_BIN_EXE_cupti-audit"), words);
    let ended = run(&[&image, "--rules", &text(&rules)]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("a link that leads out of the folder"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains("secret: "), "{}", ended.stderr);
    // Kubernetes mounts a ConfigMap as links within the directory.
    fs::write(inside.join(".data.yaml"), "summary: [").unwrap();
    std::os::unix::fs::symlink(inside.join(".data.yaml"), inside.join("x.yaml")).unwrap();
    let read = run(&[&image, "--rules", &text(&inside)]);
    assert!(read.stderr.contains("x.yaml:1:"), "{}", read.stderr);
}

#[test]
fn x_17_a_file_without_end_and_a_wheel_of_too_many_members_are_refused_before_they_are_read() {
    check(
        "127.0.0.1:1/app:1",
        &["--ca-cert", "/dev/zero"],
        "larger than the limit",
    );
    let folder = TempDir::new().unwrap();
    let wheel = folder.path().join("x-1-py3-none-any.whl");
    // Only the end record claims this number of entries.
    let end = [&b"PK\x05\x06\0\0\0\0"[..], &[0xff; 4], &[0; 10]].concat();
    fs::write(&wheel, end).unwrap();
    let image = format!("oci:{}", fixture("no-cupti").display());
    let out = format!("oci:{}", folder.path().join("out").display());
    let words = [
        "slim",
        &image,
        "--phase",
        "training",
        "--cupti-from",
        wheel.to_str().unwrap(),
        "-o",
        &out,
    ];
    let ended = measure(env!("CARGO_BIN_EXE_cupti-audit"), &words);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("holds more than the limit of 30000 files"),
        "{}",
        ended.stderr
    );
}

#[test]
fn x_15_a_layer_of_zeros_in_gzip_is_past_the_ratio() {
    let zeros = testkit::layer::compress(vec![0; 16 << 20], testkit::layer::Compression::Gzip);
    let limits = image_linkage::limits::Limits::default();
    let ratio = (16 << 20) / zeros.len() as u64;
    assert!(ratio > limits.layer_ratio && limits.ratio_from <= 4 << 30, "{ratio}");
}

#[test]
fn x_01_and_x_02_a_hostile_pattern_of_ld_so_conf_ends_soon() {
    for pattern in ["*".repeat(1_000_000) + "x", "etc/*a*a*a*a*a*a*a*ab".to_owned()] {
        let folder = TempDir::new().unwrap();
        let entries = Entries::from_iter([
            (
                "/etc/ld.so.conf".to_owned(),
                EntrySpec::Text(format!("include /{pattern}\n")),
            ),
            (format!("/etc/{}", "a".repeat(60)), EntrySpec::Text(String::new())),
        ]);
        let image = write_image(folder.path(), &[], entries);
        let run = measure(env!("CARGO_BIN_EXE_cupti-audit"), &[&image]);
        assert!(
            run.code.is_some_and(|code| code <= 2) && run.peak_mib < 300,
            "{:?} {}",
            run.code,
            run.stderr
        );
    }
}
