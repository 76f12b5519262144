//! The result for every fixture image matches its source, and the documentation shows what the program says.

use std::path::Path;
use std::process::Output;

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
