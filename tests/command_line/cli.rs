//! The result for every fixture image matches its source, and the pages read well.

use std::path::Path;
use std::process::Output;

use crate::hostile_images::{library, write_image};
use crate::support::run;
use serde_json::Value;
use testkit::spec::Sources;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The status in both worlds, the ids of the rules with findings, and the exit code.
fn said(image: &str, platform: &str) -> (String, String, Vec<String>, i32) {
    let output = run(&["--format", "json", "--platform", platform, image]);
    let report = json(&output);
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let mut rules: Vec<String> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| word(&finding["rule"]))
        .collect();
    rules.sort();
    rules.dedup();
    let cupti = &report["cupti"];
    (
        word(&cupti["status"]),
        word(&cupti["status_nvidia"]),
        rules,
        output.status.code().unwrap(),
    )
}

#[test]
fn every_fixture_is_judged_as_its_source_expects() {
    let sources = Sources::of_repository().unwrap();
    for (name, fixture) in sources.fixtures() {
        let image = format!("oci:testdata/images/{name}");
        let others = fixture
            .also
            .iter()
            .map(|other| (other.platform.as_str(), &other.expect));
        for (platform, expect) in [(fixture.platform.as_str(), &fixture.expect)].into_iter().chain(others) {
            let expected = (
                expect.status.as_str().to_owned(),
                expect.status_nvidia.as_str().to_owned(),
                expect.findings.clone(),
                expect.exit,
            );
            assert_eq!(said(&image, platform), expected, "{name} on {platform}");
        }
    }
}

/// The text report of an image.
fn page(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(text(&output.stderr), "", "{arguments:?}");
    text(&output.stdout)
}

#[test]
fn the_report_begins_with_the_verdict_and_shows_the_search() {
    insta::assert_snapshot!(page(&["oci:testdata/images/headers-only"]));
}

#[test]
fn a_good_image_shows_its_copies_and_who_gets_them() {
    insta::assert_snapshot!(page(&["oci:testdata/images/devel", "oci:testdata/images/pip-torch"]));
}

#[test]
fn names_from_an_image_cannot_reach_the_terminal() {
    let page = page(&["oci:testdata/images/hostile-names", "-v"]);
    assert!(page.chars().all(|c| c == '\n' || !c.is_control()), "{page:?}");
    insta::assert_snapshot!(page);
}

#[test]
fn the_tree_gives_the_reason_for_each_step() {
    let torch = "/opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so";
    insta::assert_snapshot!("tree_loads", page(&["tree", "oci:testdata/images/pip-torch", torch]));
    insta::assert_snapshot!(
        "tree_fails",
        page(&["tree", "oci:testdata/images/pip-torch-broken", torch])
    );
    insta::assert_snapshot!(
        "tree_soname_in_the_other_world",
        page(&[
            "tree",
            "-v",
            "--world",
            "nvidia",
            "oci:testdata/images/conf-without-ldconfig",
            "libcupti.so.12"
        ])
    );
}

#[test]
fn the_json_reports_are_the_contract() {
    for image in [
        "devel",
        "headers-only",
        "pip-jax",
        "pip-tensorflow",
        "pip-torch",
        "tool-for-newer-cupti",
        "torch-with-triton",
    ] {
        let report = json(&run(&["--format", "json", &format!("oci:testdata/images/{image}")]));
        insta::assert_json_snapshot!(format!("report_v1_{image}"), report);
    }
    let torch = "/opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so";
    let tree = json(&run(&[
        "tree",
        "--format",
        "json",
        "oci:testdata/images/pip-torch-broken",
        torch,
    ]));
    insta::assert_json_snapshot!("tree_v1", tree);
}

#[test]
fn a_note_of_what_is_opened_keeps_the_files_that_it_names_and_no_other() {
    let note = r#"[{"soname":["x","liba.so"],"description":"libab.so besides"}]"#;
    let files = [
        ("/opt/nvidia/nsight-x/liba.so", None),
        ("/opt/nvidia/nsight-x/libab.so", None),
        ("/opt/app/p.so", Some(note)),
    ];
    let entries = files.map(|(name, note)| {
        let made = library(&["libc.so.6".to_owned()], |spec| spec.dlopen = note.map(str::to_owned));
        (name.to_owned(), made)
    });
    let folder = tempfile::tempdir().unwrap();
    let image = write_image(folder.path(), &[], entries.into_iter().collect());
    let report = json(&run(&["--format", "json", &image]));
    let items = report["phases"]["inference"]["items"].as_array().unwrap().iter();
    let told: Vec<_> = items
        .filter(|item| item["kind"] == "nsight")
        .map(|item| ["path", "decision", "because"].map(|key| item[key].as_str().unwrap()))
        .collect();
    let expected = [
        [
            files[0].0,
            "keep",
            "/opt/app/p.so holds the name liba.so and may open it",
        ],
        [files[1].0, "drop", "nothing in the image is known to need it"],
    ];
    assert_eq!(told, expected);
}

#[test]
fn the_same_image_gives_the_same_bytes() {
    for format in ["text", "json"] {
        let arguments = ["--format", format, "-v", "oci:testdata/images/hostile-names"];
        assert_eq!(run(&arguments).stdout, run(&arguments).stdout, "{format}");
    }
}

#[test]
fn severity_phase_and_threshold_decide_the_exit_code() {
    let code = |arguments: &[&str]| run(arguments).status.code().unwrap();
    let image = "oci:testdata/images/no-cupti";
    assert_eq!(code(&[image]), 1);
    assert_eq!(code(&["--phase", "inference", image]), 0);
    assert_eq!(code(&["--phase", "inference", "--fail-on", "note", image]), 1);
    // The audit must catch a training image whose profiler would see no GPU.
    assert_eq!(code(&["--phase", "training", image]), 1);
    assert_eq!(code(&["--phase", "training", "oci:testdata/images/pip-tensorflow"]), 1);
    assert_eq!(code(&["--phase", "training", "oci:testdata/images/pip-torch"]), 0);
    assert_eq!(code(&["--phase", "inference", "--phase", "profiling", image]), 1);
    assert_eq!(code(&["--fail-on", "never", image]), 0);
    // PyTorch links libcupti, so its absence is an error in every phase.
    assert_eq!(
        code(&["--phase", "inference", "oci:testdata/images/pip-torch-broken"]),
        1
    );
    assert_eq!(code(&["oci:testdata/images/devel", image]), 1);
    assert_eq!(code(&["oci:testdata/images/devel", "oci:testdata/images/missing"]), 2);
}

#[test]
fn the_environment_given_counts_over_that_of_the_image() {
    let lib64 = "LD_LIBRARY_PATH=/usr/local/cuda-12.4/extras/CUPTI/lib64";
    let output = run(&["--format", "json", "--env", lib64, "oci:testdata/images/extras-only"]);
    assert_eq!(json(&output)["cupti"]["status"], "loadable");
    assert_eq!(json(&output)["cupti"]["copies"][0]["how"], "ld-library-path");
}

#[test]
fn colour_is_for_terminals_and_for_those_who_ask() {
    let image = "oci:testdata/images/devel";
    assert!(!page(&[image]).contains('\x1b'));
    assert!(page(&["--color", "always", image]).contains('\x1b'));
    assert!(!page(&["--color", "never", image]).contains('\x1b'));
}

#[test]
fn rules_are_listed() {
    insta::assert_snapshot!("rules", page(&["rules"]));
}

#[test]
fn several_images_are_one_object_a_line_each() {
    let output = run(&[
        "--format",
        "json",
        "oci:testdata/images/devel",
        "oci:testdata/images/empty",
    ]);
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["cupti"]["status"], "absent");
    assert!(Path::new(env!("CARGO_BIN_EXE_cupti-audit")).exists());
}

#[test]
fn every_command_that_a_page_shows_says_just_that() {
    for page in crate::documentation::pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        crate::documentation::compare(&page, &crate::documentation::remade(&text));
    }
}

#[test]
fn the_picture_in_the_readme_is_what_a_terminal_shows() {
    let image = "oci:testdata/images/headers-only";
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
        .arg(image)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .env("CLICOLOR_FORCE", "1")
        .output()
        .unwrap();
    let picture = crate::terminal_picture::draw(&format!("cupti-audit {image}"), &text(&output.stdout));
    crate::documentation::compare(Path::new("docs/terminal.svg"), &picture);
}

#[test]
fn no_link_of_a_page_leads_nowhere_and_no_page_is_left_out_of_the_contents() {
    let broken: Vec<String> = crate::documentation::pages()
        .iter()
        .flat_map(|page| crate::documentation::broken_links(page))
        .collect();
    assert_eq!(broken, [""; 0]);
    assert_eq!(crate::documentation::unlisted_pages(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn the_program_knows_every_option_that_a_page_names() {
    let unknown: Vec<String> = crate::documentation::pages()
        .iter()
        .flat_map(|page| crate::documentation::unknown_options(page))
        .collect();
    assert_eq!(unknown, [""; 0]);
}

#[test]
fn links_groups_what_objects_lack_by_the_library() {
    let output = run(&["links", "oci:testdata/images/cannot-start"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    insta::assert_snapshot!("links_text", text(&output.stdout));
    let markdown = run(&["links", "--format", "markdown", "oci:testdata/images/cannot-start"]);
    insta::assert_snapshot!("links_markdown", text(&markdown.stdout));
    let whole = run(&["links", "oci:testdata/images/devel"]);
    assert_eq!(whole.status.code(), Some(0), "{whole:?}");
}

#[test]
fn links_asks_the_objects_that_are_named_alone() {
    let links = |objects: &[&str]| run(&[&["links", "-q", "oci:testdata/images/cannot-start"], objects].concat());
    assert_eq!(links(&["/usr/lib"]).status.code(), Some(0));
    assert_eq!(links(&["/usr/lib", "/app/train"]).status.code(), Some(1));
    for (object, why) in [
        ("/opt/none", "No such file or directory"),
        ("/etc", "there is no object for linux/amd64 at /etc"),
    ] {
        let refused = links(&[object]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(why), "{refused:?}");
    }
}

#[test]
fn the_program_describes_itself() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = page(&["completions", shell]);
        assert!(script.contains("cupti-audit") && script.contains("links"), "{shell}");
    }
    let manual = page(&["man"]);
    assert!(manual.starts_with(".ie"), "it is roff");
    let list = "\n.nf\nImages:\n  NAME[:TAG][@DIGEST]";
    assert!(manual.contains(list), "lists keep their lines: {manual}");
    assert_eq!(page(&["help", "slim"]), page(&["slim", "--help"]));
    let brief = page(&["-h"]);
    assert!(
        brief.lines().count() <= 42,
        "more than a screen; RARE_COMMANDS hides commands: {brief}"
    );
    assert!(page(&["man", "links"]).contains("cupti\\-audit\\-links"));
    assert_eq!(run(&["man", "nothing"]).status.code(), Some(2));
    let version = page(&["--version"]);
    let lines: Vec<&str> = version.lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(lines[1..], ["commit", "target", "newest CUPTI known"], "{version}");
    assert_eq!(page(&["-V"]), format!("{}\n", version.lines().next().unwrap()));
}

#[test]
fn profiles_are_listed_and_shown_as_they_are() {
    let list = page(&["profiles"]);
    assert!(
        list.contains("phase/training") && list.contains("profiler/torch-profiler"),
        "{list}"
    );
    assert!(!list.contains("rule/"));
    let file = std::fs::read_to_string("profiles/phases/training.yaml").unwrap();
    assert_eq!(page(&["profiles", "show", "phase/training"]), file);
    assert_eq!(page(&["profiles", "show", "training"]), file);
    assert_eq!(run(&["profiles", "show", "pytorch-x"]).status.code(), Some(2));
}
