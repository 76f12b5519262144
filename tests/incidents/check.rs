//! A Dockerfile incident: the findings of `check` before the build, and the built images with and without the fix.

use serde_json::Value;

use crate::case::{BuildFile, Case};
use crate::dockerfile::{build, instructions};
use crate::image::Image;
use crate::kit::Kit;
use crate::run::{Cure, Outcome, probe_words, program, said};

/// Checks and builds the Dockerfile before and after the fix.
pub fn run(kit: &Kit, case: &Case, image: &Image, file: &BuildFile) -> Outcome {
    let mut log = String::new();
    let failure = probe(case, &image.branch("built"), &file.text, &mut log);
    let report = check(kit, case, image, &file.text);
    let fixed = check(kit, case, image, &file.fixed);
    let findings = report["files"][0]["findings"].as_array().into_iter().flatten();
    let first = findings.clone().find(|finding| finding["rule"] == case.rule);
    let is_told_again = fixed["files"][0]["findings"]
        .as_array()
        .unwrap()
        .iter()
        .any(|finding| finding["rule"] == case.rule);
    let words = first.and_then(|finding| finding["fix"].as_str()).unwrap_or_default();
    // If the fix names a package, the fixed Dockerfile must install that package.
    let package = words
        .strip_prefix("install ")
        .and_then(|words| words.split([' ', ',']).next());
    let fix = if is_told_again {
        Cure::Not("the finding is still there".to_owned())
    } else if package.is_some_and(|package| !file.fixed.contains(package)) {
        Cure::Not(format!("the fix is another one: {words}"))
    } else {
        probe(case, &image.branch("fixed"), &file.fixed, &mut log).map_or(Cure::Cures, Cure::Not)
    };
    Outcome {
        reproduced: failure.is_some_and(|words| words.contains(&case.symptom)),
        named: first
            .map_or("none", |finding| finding["rule"].as_str().unwrap())
            .to_owned(),
        commands: Vec::new(),
        fix_text: words.to_owned(),
        fix,
        dockerfile: Cure::Not("there is no image yet".to_owned()),
        slim: Cure::Not("there is no image yet".to_owned()),
        log: format!("{log}\n{report:#}\n{fixed:#}"),
    }
}

/// The error of the build or of the probe; `None` if both succeed.
fn probe(case: &Case, image: &Image, text: &str, log: &mut String) -> Option<String> {
    match build(image, &instructions(text), log) {
        Err(why) => Some(format!("{why}\n{log}")),
        Ok(built) => {
            let output = built.ask(&probe_words(case));
            (!output.status.success()).then(|| said(&output))
        }
    }
}

fn check(kit: &Kit, case: &Case, image: &Image, text: &str) -> Value {
    let path = image.folder().join("Dockerfile");
    std::fs::write(&path, text).unwrap();
    let arguments = [
        "check",
        path.to_str().unwrap(),
        "--phase",
        &case.phase,
        "--format",
        "json",
        "--no-config",
    ];
    let output = program(kit, &arguments).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)))
}
