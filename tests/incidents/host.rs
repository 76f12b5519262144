//! A host incident: files of the kernel in a container replace the symptom, before and after the fix.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::case::{Case, Host};
use crate::image::{Image, Start};
use crate::run::{Cure, Outcome, first_error, said};

/// Runs `verify` in the container, on the host before and after each fix.
pub fn run(case: &Case, image: &Image, host: &Host) -> Outcome {
    let report = verify(case, image, &write(image.folder(), "host", host));
    let of_case = finding(&report, &case.rule);
    let first = first_error(&report).or(of_case).unwrap_or(&Value::Null);
    let mut fix = Cure::Not("no host has it".to_owned());
    for (number, fixed) in case.fixed_hosts.iter().enumerate() {
        let name = format!("fixed-host-{number}");
        fix = result(&verify(case, image, &write(image.folder(), &name, fixed)), case);
        if fix != Cure::Cures {
            break;
        }
    }
    Outcome {
        reproduced: first["message"].as_str().unwrap_or_default().contains(&case.symptom),
        named: first["rule"].as_str().unwrap_or("none").to_owned(),
        commands: Vec::new(),
        fix_text: first["fix"].as_str().unwrap_or_default().to_owned(),
        fix,
        dockerfile: Cure::Not("the host decides".to_owned()),
        slim: Cure::Not("the host decides".to_owned()),
        log: format!("{report:#}"),
    }
}

/// The result on a fixed host.
fn result(report: &Value, case: &Case) -> Cure {
    match finding(report, &case.rule) {
        Some(_) => Cure::Not("the finding is still there".to_owned()),
        None if report["exit_code"] != 0 => Cure::Not(format!("verify: {report:#}")),
        None => Cure::Cures,
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
