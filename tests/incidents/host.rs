//! A host incident: files of the kernel in a container replace the symptom, before and after the fix.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::case::{Case, Host};
use crate::image::{Image, Start};
use crate::run::{Cure, Outcome, first_error, said};

/// Runs `verify` in the container, on the host before and after the fix.
pub fn run(case: &Case, image: &Image, host: &Host) -> Outcome {
    let report = verify(case, image, &write(image.folder(), "host", host));
    let of_case = finding(&report, &case.rule);
    let first = first_error(&report).or(of_case).unwrap_or(&Value::Null);
    let fixed = case.fixed_host.as_ref();
    let fixed = fixed.map(|fixed| verify(case, image, &write(image.folder(), "fixed-host", fixed)));
    let fix = match fixed {
        None => Cure::Not("no host has it".to_owned()),
        Some(report) if finding(&report, &case.rule).is_some() => Cure::Not("the finding is still there".to_owned()),
        Some(report) if report["exit_code"] != 0 => Cure::Not(format!("verify: {report:#}")),
        Some(_) => Cure::Cures,
    };
    Outcome {
        reproduced: first["message"].as_str().unwrap_or_default().contains(&case.symptom),
        named: first["rule"].as_str().unwrap_or("none").to_owned(),
        commands: Vec::new(),
        fix,
        dockerfile: Cure::Not("the host decides".to_owned()),
        slim: Cure::Not("the host decides".to_owned()),
        log: format!("{report:#}"),
    }
}

fn verify(case: &Case, image: &Image, host: &Path) -> Value {
    let mut container = image.branch("container");
    container.start = Start {
        host: Some(host.to_path_buf()),
        ..image.start.clone()
    };
    let words = [
        "/mnt/bin/cupti-audit",
        "verify",
        "-q",
        "--phase",
        &case.phase,
        "--format",
        "json",
    ];
    let output = container.ask(&words.map(str::to_owned));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)))
}

fn finding<'r>(report: &'r Value, rule: &str) -> Option<&'r Value> {
    let mut findings = report["findings"].as_array().into_iter().flatten();
    findings.find(|finding| finding["rule"] == rule)
}

/// Writes the kernel's files into a directory.
fn write(folder: &Path, name: &str, host: &Host) -> PathBuf {
    let folder = folder.join(name);
    for made in ["dev", "proc/driver"] {
        std::fs::create_dir_all(folder.join(made)).unwrap();
    }
    for (place, text) in &host.proc {
        let path = folder.join("proc").join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    host.dev
        .iter()
        .for_each(|name| std::fs::write(folder.join("dev").join(name), "").unwrap());
    folder
}
