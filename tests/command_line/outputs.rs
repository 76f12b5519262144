//! Several reports in one run: each goes to its own output, complete or not at all.

use crate::support::run;
use serde_json::{Value, json};
use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

const IMAGE: &str = "oci:testdata/images/no-cupti";

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn files_hold_what_standard_output_would() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let to = |format: &str, name: &str| format!("{format}={}", path(name).display());
    fs::write(path("old.json"), "of the last run").unwrap();
    let output = run(&[
        "-o",
        &to("json", "old.json"),
        "--output",
        &to("text", "report.txt"),
        "--color",
        "always",
        IMAGE,
        IMAGE,
    ]);
    let coloured = run(&["--color", "always", IMAGE, IMAGE]);
    assert_eq!(said(&output), said(&coloured));
    let plain = said(&run(&[IMAGE, IMAGE])).1;
    assert_eq!(fs::read_to_string(path("report.txt")).unwrap(), plain);
    let json = said(&run(&["--format", "json", IMAGE, IMAGE])).1;
    assert_eq!(fs::read_to_string(path("old.json")).unwrap(), json);
    assert_eq!(names(folder.path()), ["old.json", "report.txt"]);
}

/// The formats that a command offers.
fn offered_formats(command: &[&str]) -> String {
    let (_, _, refused) = said(&run(&[command, &["--format", "none", IMAGE]].concat()));
    let offered = refused
        .split_once("[possible values: ")
        .and_then(|(_, rest)| rest.split_once(']'));
    offered.expect(&refused).0.to_owned()
}

#[test]
fn the_schema_of_the_config_lists_every_format() {
    let schema: Value = serde_json::from_slice(&run(&["schema", "config"]).stdout).unwrap();
    let offered = offered_formats(&[]);
    let names: Vec<&str> = offered.split(", ").collect();
    assert_eq!(schema["properties"]["format"]["enum"], json!(names));
    let pattern = format!("^({})=.+$", names.join("|"));
    assert_eq!(schema["properties"]["outputs"]["items"]["pattern"], pattern);
}

#[test]
fn check_offers_the_formats_of_a_dockerfile() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("Dockerfile");
    fs::write(&file, "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\n").unwrap();
    let check = |option: &str, value: &str| said(&run(&["check", option, value, file.to_str().unwrap()]));
    let offered = offered_formats(&["check"]);
    assert_eq!(format!("{offered}, attestation"), offered_formats(&[]));
    for format in offered.split(", ") {
        assert_eq!(check("--format", format).0, Some(0), "{format}");
    }
    let (code, _, refused) = check("-o", "attestation=x.json");
    let expected = format!("no format is called \"attestation\"; there are {offered}\n");
    assert!(code == Some(2) && refused.contains(&expected), "{refused}");
}

#[test]
fn a_dash_is_standard_output() {
    assert_eq!(
        said(&run(&["-o", "json=-", IMAGE])),
        said(&run(&["--format", "json", IMAGE]))
    );
}

#[test]
fn a_place_that_cannot_be_written_is_a_sentence_and_no_report_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good.json");
    let nowhere = folder.path().join("not/there.json");
    let output = run(&[
        "-o",
        &format!("json={}", nowhere.display()),
        "-o",
        &format!("json={}", good.display()),
        "-o",
        &format!("json={}", folder.path().display()),
        IMAGE,
    ]);
    let (_, text, _) = said(&run(&[IMAGE]));
    let errors = format!(
        "error: cannot write {}: its folder is not there; other reports are made\n\
        error: cannot write {}: it is a folder; name a file in it; other reports are made\n",
        nowhere.display(),
        folder.path().canonicalize().unwrap().display()
    );
    assert_eq!(said(&output), (Some(2), text, errors));
    assert_eq!(names(folder.path()), ["good.json"]);
}

#[test]
fn two_reports_for_one_place_are_a_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report");
    let roundabout = folder.path().join("link/report");
    std::os::unix::fs::symlink(".", folder.path().join("link")).unwrap();
    let error = |arguments: &[&str]| {
        let (code, text, error) = said(&run(arguments));
        assert_eq!((code, text.as_str()), (Some(2), ""), "{arguments:?}");
        error
    };
    assert_eq!(
        error(&[
            "-o",
            &format!("json={}", file.display()),
            "-o",
            &format!("text={}", roundabout.display()),
            IMAGE,
        ]),
        format!("error: two reports are to go to {}\n", roundabout.display())
    );
    assert_eq!(names(folder.path()), ["link"]);
    let both = "error: two reports are to go to standard output\n";
    assert_eq!(error(&["-o", "json=-", "-o", "text=-", IMAGE]), both);
    assert_eq!(error(&["-o", "json=-", "--format", "text", IMAGE]), both);
}

#[test]
fn links_are_followed_and_devices_are_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target.json");
    let link = folder.path().join("link.json");
    fs::write(&target, "").unwrap();
    std::os::unix::fs::symlink("target.json", &link).unwrap();
    let output = run(&["-o", &format!("json={}", link.display()), "-o", "json=/dev/null", IMAGE]);
    assert_eq!(said(&output).2, "");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&target).unwrap().starts_with('{'));
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn a_wrong_form_is_answered_with_the_right_ones() {
    let names = offered_formats(&[]);
    for (given, words) in [
        ("json", "expected FORMAT=FILE, such as json=audit.json"),
        ("pdf=a.pdf", &*format!("no format is called \"pdf\"; there are {names}")),
        ("json=", "there is no file after json="),
    ] {
        let (code, _, error) = said(&run(&["-o", given, IMAGE]));
        assert_eq!(code, Some(2));
        assert!(error.contains(words), "{error}");
    }
}

/// Runs the program with `OUT` on a disk of a few kilobytes. Returns its exit code and output, and the files left
/// there.
fn on_a_small_disk(words: &[&str]) -> (Option<i32>, String, String) {
    let script = "mount -t tmpfs -o size=8k none \"$1\" || exit 125; folder=$1; shift
        cd \"$OLD\"; \"$@\"; code=$?; find \"$folder\" -printf '%f\\n'; exit $code";
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display().to_string();
    let words = words.iter().map(|word| word.replace("OUT", &at));
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", script, "sh", &at])
        .arg(env!("CARGO_BIN_EXE_cupti-audit"))
        .args(words)
        .env("OLD", env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let (code, listed, error) = said(&output);
    (code, listed, error.replace(&at, "OUT"))
}

/// An error reports that the output does not fit, and no partial file is left.
#[test]
fn a_full_disk_is_a_sentence_and_leaves_nothing() {
    if !crate::support::is_root() {
        crate::support::missing("the right to mount a small file system");
        return;
    }
    let slim = ["slim", "oci:testdata/images/devel", "--phase", "inference", "-o"];
    for words in [
        [&slim[..], &["oci:OUT/out"]].concat(),
        [&slim[..], &["docker-archive:OUT/out"]].concat(),
        [
            &["slim", "--drop", "oci:testdata/images/torch-with-triton"],
            &slim[2..],
            &["oci:OUT/out"],
        ]
        .concat(),
        [&["-o", "html=OUT/out"][..], &[IMAGE; 4]].concat(),
    ] {
        let (code, listed, error) = on_a_small_disk(&words);
        assert_eq!(code, Some(2), "{words:?}: {error}");
        let names_place = error.contains("OUT/") || error.contains("OUT:");
        assert!(
            names_place && error.contains("No space left on device"),
            "{words:?}: {error}"
        );
        assert!(
            !listed.contains("image-unfinished") && !listed.lines().any(|line| line == "out"),
            "{words:?}: {listed}"
        );
    }
}

#[test]
fn a_full_disk_under_the_cache_is_told_once_and_the_audit_goes_on() {
    if !crate::support::is_root() {
        crate::support::missing("the right to mount a small file system");
        return;
    }
    let image = "oci:testdata/images/devel";
    let plain = said(&run(&["--quiet", image]));
    let (code, listed, error) = on_a_small_disk(&["--no-config", "--cache-dir", "OUT", image]);
    assert_eq!(code, plain.0, "{error}");
    assert!(listed.starts_with("✓ CUPTI loads\n"), "{listed}");
    let told = "cannot be written, so that nothing more is kept: No space left on device";
    assert!(error.contains(told) && error.lines().count() == 1, "{error}");
    assert!(!listed.contains("image-unfinished"), "{listed}");
}

/// The content of a file that `sh` and the program both write to. `PROGRAM` and `IMAGE` are replaced.
fn by_shell(script: &str, folder: &Path) -> (Option<i32>, String) {
    let image = format!("oci:{}/testdata/images/no-cupti", env!("CARGO_MANIFEST_DIR"));
    let script = script
        .replace("PROGRAM", env!("CARGO_BIN_EXE_cupti-audit"))
        .replace("IMAGE", &image);
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder)
        .output()
        .unwrap();
    let (code, stdout, stderr) = said(&output);
    (code, stdout + &stderr)
}

#[test]
fn a_report_for_standard_output_goes_on_where_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let json = said(&run(&["--format", "json", IMAGE])).1;
    let json = json.replace(
        IMAGE,
        &format!("oci:{}/testdata/images/no-cupti", env!("CARGO_MANIFEST_DIR")),
    );
    for place in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let script = format!("{{ echo before; PROGRAM -qq -o json={place} IMAGE; echo after; }} > out");
        let (_, said) = by_shell(&script, folder.path());
        let out = fs::read_to_string(folder.path().join("out")).unwrap();
        assert_eq!(
            (said, out),
            (String::new(), format!("before\n{json}after\n")),
            "{place}"
        );
    }
    // The program must not move the offset of an inherited descriptor: existing content stays.
    let script = "exec 3> out; echo before >&3; PROGRAM -qq -o json=/dev/fd/3 IMAGE";
    by_shell(script, folder.path());
    assert_eq!(
        fs::read_to_string(folder.path().join("out")).unwrap(),
        format!("before\n{json}")
    );
    assert_eq!(names(folder.path()), ["out"]);
}

#[test]
fn a_link_to_no_file_yet_stays_and_a_slash_is_for_folders() {
    let folder = tempfile::tempdir().unwrap();
    let (_, said) = by_shell("ln -s there link; PROGRAM -qq -o json=link IMAGE", folder.path());
    assert_eq!(
        (said.as_str(), names(folder.path())),
        ("", vec!["link".to_owned(), "there".to_owned()])
    );
    assert_eq!(fs::read_link(folder.path().join("link")).unwrap(), Path::new("there"));
    let (code, said) = by_shell("PROGRAM -qq -o json=new/ IMAGE", folder.path());
    assert_eq!(
        (code, said.as_str()),
        (
            Some(2),
            "error: cannot write new/: it is a folder; name a file in it; other reports are made\n"
        )
    );
    let (code, said) = by_shell(
        "rm there link; ln -s b a; ln -s a b; PROGRAM -qq -o json=a IMAGE",
        folder.path(),
    );
    assert!(
        code == Some(2) && said.contains("Too many levels of symbolic links"),
        "{said}"
    );
    assert_eq!(names(folder.path()), ["a", "b"]);
}

#[test]
fn what_cannot_be_written_to_standard_output_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    for words in [
        "IMAGE",
        "--format json IMAGE",
        "links IMAGE",
        "--help",
        "--version",
        "rules",
    ] {
        let (code, said) = by_shell(&format!("PROGRAM {words} > /dev/full"), folder.path());
        let full = "error: cannot write the result: No space left on device (os error 28)\n";
        assert_eq!((code, said.as_str()), (Some(2), full), "{words}");
    }
}

#[test]
fn paths_of_the_user_reach_no_terminal_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let name = "a\u{1b}[31m\n::error::b\u{202e}";
    let run_in = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cupti-audit"));
        let command = command
            .args(words)
            .current_dir(folder.path())
            .env("HOME", folder.path().join(name));
        let output = command.env_remove("XDG_CACHE_HOME").output().unwrap();
        said(&output)
    };
    let copy = format!(
        "cp -r {}/testdata/images/no-cupti \"$(cat name)\"",
        env!("CARGO_MANIFEST_DIR")
    );
    fs::write(folder.path().join("name"), name).unwrap();
    by_shell(&copy, folder.path());
    let (image, out, init) = (format!("oci:{name}"), format!("oci:{name}2"), format!("{name}.yaml"));
    for words in [
        vec![
            "--color",
            "always",
            "slim",
            &image,
            "--phase",
            "inference",
            "--drop",
            "-o",
            &out,
        ],
        vec!["cache", "info"],
        vec!["config", "init", &init],
        vec!["--color", "always", &image],
    ] {
        let (_, stdout, stderr) = run_in(&words);
        assert!(stdout.contains("::error::b"), "{words:?} {stdout} {stderr}");
        for raw in ["[31m\n", "\n::error", "\u{202e}"] {
            assert!(!(stdout.clone() + &stderr).contains(raw), "{words:?} {stdout}");
        }
    }
}

#[test]
fn nothing_in_an_image_or_a_dockerfile_is_a_command_of_a_ci_system() {
    let folder = tempfile::tempdir().unwrap();
    let root = env!("CARGO_MANIFEST_DIR");
    let wide = "x".repeat(50);
    let change = format!(
        "import json,hashlib,os,sys
blobs='image/blobs/sha256/'
def put(value):
    text=json.dumps(value).encode(); name=hashlib.sha256(text).hexdigest()
    open(blobs+name,'wb').write(text); return 'sha256:'+name, len(text)
index=json.load(open('image/index.json'))
manifest=json.load(open(blobs+index['manifests'][0]['digest'][7:]))
config=json.load(open(blobs+manifest['config']['digest'][7:]))
for step in config['history']: step['created_by']='RUN ##[error]boo ##vso[x] {wide} ::error::boo'
manifest['config']['digest'],manifest['config']['size']=put(config)
index['manifests'][0]['digest'],index['manifests'][0]['size']=put(manifest)
json.dump(index,open('image/index.json','w'))"
    );
    fs::write(folder.path().join("change.py"), change).unwrap();
    let dockerfile = "FROM ubuntu:22.04\nRUN apt-get install -y \\\n::error::boo \\\n##[error]boo libcupti-dev-12-4\n";
    fs::write(folder.path().join("Dockerfile"), dockerfile).unwrap();
    by_shell(
        &format!("cp -r {root}/testdata/images/dangling-link image; python3 change.py"),
        folder.path(),
    );
    for words in [
        "-v oci:image",
        "--format json oci:image",
        "--format html oci:image",
        "--format junit oci:image",
        "--format markdown oci:image",
        "--format sarif oci:image",
        "check Dockerfile",
        "check --format markdown Dockerfile",
        "check --format html Dockerfile",
        "'##[error]boo'",
        "--format '##[error]boo' oci:image",
    ] {
        let (code, said) = by_shell(&format!("PROGRAM {words} 2>&1"), folder.path());
        assert!(
            code.is_some_and(|code| code <= 2) && !said.contains("error reading"),
            "{words}: {said}"
        );
        let commands = said.lines().filter(|line| line.trim_start().starts_with("::"));
        assert_eq!(commands.count(), 0, "{words}: {said}");
        assert!(!said.contains("##[") && !said.contains("##vso["), "{words}: {said}");
    }
    let (_, said) = by_shell("PROGRAM -v oci:image; PROGRAM --format json oci:image", folder.path());
    for shown in ["#\\x23[error]boo", "#\\u0023[error]boo"] {
        assert!(said.contains(shown), "{shown}: {said}");
    }
}

#[test]
fn where_nobody_can_be_told_and_no_thread_starts_nothing_panics() {
    let folder = tempfile::tempdir().unwrap();
    let (code, said) = by_shell("PROGRAM oci:nowhere 2> /dev/full", folder.path());
    assert_eq!((code, said.as_str()), (Some(2), ""));
    // The limit does not apply to root. Another user needs a readable copy of the program and the image.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let fewer = "cp PROGRAM program; cp -r $(echo IMAGE | cut -c5-) image
        [ $(id -u) = 0 ] && become='setpriv --reuid=65534 --regid=65534 --clear-groups'
        $become bash -c 'ulimit -u 1; HOME=/nowhere exec ./program --no-cache oci:image'";
    let (code, said) = by_shell(fewer, folder.path());
    let no_thread =
        "error: the system starts no further thread for it: see ulimit -u, and the limit of processes of a container\n";
    assert_eq!((code, said.as_str()), (Some(2), no_thread));
}
