//! Runs an incident: reproduces the failure, audits the image, and applies the printed fix.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::case::Case;
use crate::check;
use crate::dockerfile::{self, instructions};
use crate::host;
use crate::image::{Image, Start};
use crate::kit::Kit;
use crate::support;

/// The default PATH, unless the image sets one.
const PATH: &str = "/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The result of an incident.
pub struct Outcome {
    /// The probe failed with the expected symptom.
    pub reproduced: bool,
    /// The rule of the first error.
    pub named: String,
    /// The commands and instructions that the program printed with it.
    pub commands: Vec<String>,
    /// The prose of the fix.
    pub fix_text: String,
    /// The result of these commands, or of the prose.
    pub fix: Cure,
    /// The result of the Dockerfile that `dockerfile` writes.
    pub dockerfile: Cure,
    /// The result in the image that `slim` makes.
    pub slim: Cure,
    /// All output of the run.
    pub log: String,
}

/// Whether a fix worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cure {
    /// The probe succeeds, and the audit passes.
    Cures,
    /// The fix failed, with the reason.
    Not(String),
}

/// Runs an incident in its own directory.
pub fn run(kit: &Kit, case: &Case, folder: &Path) -> Outcome {
    let mut log = String::new();
    let mut start = Start {
        env: case.env.clone(),
        user: case.user,
        host: None,
    };
    start.env.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
    let mut image = Image::new(kit, folder.to_path_buf(), &case.from, start, &case.command);
    for step in &case.image {
        let output = image.add(&as_root(BTreeMap::new()), &shell(&format!(". /mnt/steps.sh\n{step}")));
        assert!(output.status.success(), "{step}: {}", said(&output));
    }
    if let Some(file) = &case.build_file {
        return check::run(kit, case, &image, file);
    }
    if let Some(host) = &case.host {
        return host::run(case, &image, host);
    }
    let probe = image.ask(&probe_words(case));
    let words = format!("{}{}", said(&probe), probe.status);
    let _ = write!(log, "probe: {words}");
    let reproduced = !probe.status.success() && words.contains(&case.symptom);
    let report = audit(kit, case, &image);
    let first = first_error(&report);
    let _ = write!(
        log,
        "\naudit: {}\n{:#}\n",
        report["exit_code"],
        first.cloned().unwrap_or_default()
    );
    // An incident without an error may still have a note.
    let told = report["findings"].as_array().into_iter().flatten();
    let told = || told.clone().find(|finding| finding["rule"] == case.rule);
    let named = first
        .or_else(told)
        .map_or("none", |finding| finding["rule"].as_str().unwrap())
        .to_owned();
    let first = first.or_else(told).unwrap_or(&Value::Null);
    let commands = [texts(first, "commands"), texts(first, "instructions")].concat();
    let fix_text = first["fix"].as_str().unwrap_or_default().to_owned();
    let words = program_commands(&fix_text, &image.layout(), &case.phase);
    let commands = if commands.is_empty() { words } else { commands };
    let dockerfile = build(kit, case, &image, &mut log);
    let fix = fix(kit, case, &image, first, &dockerfile, &mut log);
    let slim = slim(kit, case, &image, &mut log);
    Outcome {
        reproduced,
        named,
        commands,
        fix_text,
        fix,
        dockerfile,
        slim,
        log,
    }
}

/// The result of a finding's commands and instructions, or of `by_hand` if the fix is prose.
fn fix(kit: &Kit, case: &Case, image: &Image, finding: &Value, dockerfile: &Cure, log: &mut String) -> Cure {
    let instructions = match printed_instructions(finding) {
        printed if printed.is_empty() => case.by_hand.clone(),
        printed => printed,
    };
    if instructions.is_empty() {
        let words = finding["fix"].as_str().unwrap_or_default();
        return with_program(kit, case, image, words, dockerfile, log);
    }
    carry_out(kit, case, &image.branch("fixed"), &instructions, log)
}

fn printed_instructions(finding: &Value) -> Vec<String> {
    let commands = texts(finding, "commands").into_iter();
    let commands = commands.map(|command| format!("RUN {command}"));
    commands.chain(texts(finding, "instructions")).collect()
}

/// The commands in the prose of a fix, as printed, with IMAGE as the image's name.
fn program_commands(fix: &str, image: &str, phase: &str) -> Vec<String> {
    let download = fix
        .split_once("pip download ")
        .and_then(|(_, rest)| rest.split_once(" gets it"));
    let slim = fix
        .split_once("cupti-audit slim ")
        .and_then(|(_, rest)| rest.split_once(" writes the image"));
    let download = download.map(|(words, _)| format!("pip download {words}"));
    let slim = slim.map(|(words, _)| format!("cupti-audit slim {}", words.replace(image, "IMAGE")));
    let dockerfile = fix
        .ends_with("; cupti-audit dockerfile writes how")
        .then(|| format!("cupti-audit dockerfile IMAGE --phase {phase}"));
    download.into_iter().chain(slim).chain(dockerfile).collect()
}

/// The result of this program's commands with the arguments in the fix.
fn with_program(kit: &Kit, case: &Case, image: &Image, fix: &str, dockerfile: &Cure, log: &mut String) -> Cure {
    let layout = image.layout();
    let commands = program_commands(fix, &layout, &case.phase);
    match commands.as_slice() {
        [] => Cure::Not("nothing printed".to_owned()),
        [command] if command.starts_with("cupti-audit dockerfile") => dockerfile.clone(),
        [.., slim] => {
            let wheel = commands
                .first()
                .and_then(|words| words.strip_prefix("pip download --no-deps "));
            let wheel = wheel.map_or_else(String::new, |wheel| kit.wheel(wheel));
            let words = slim.replace("IMAGE", &layout).replace("WHEEL", &wheel);
            let words = shlex::split(&words).unwrap();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            made_by_slim(kit, case, image, "printed", &words[1..words.len() - 2], log)
        }
    }
}

/// The result of the written Dockerfile.
fn build(kit: &Kit, case: &Case, image: &Image, log: &mut String) -> Cure {
    let layout = image.layout();
    let arguments = [
        "dockerfile",
        &layout,
        "--phase",
        &case.phase,
        "--base",
        "image:case",
        "--no-config",
    ];
    let output = program(kit, &arguments).output().unwrap();
    let text = said(&output);
    let _ = write!(log, "\ndockerfile: {}\n{text}", output.status);
    if !output.status.success() {
        return Cure::Not("refused".to_owned());
    }
    carry_out(kit, case, &image.branch("built"), &instructions(&text), log)
}

/// Applies Dockerfile instructions to an image and judges the result.
fn carry_out(kit: &Kit, case: &Case, image: &Image, instructions: &[String], log: &mut String) -> Cure {
    match dockerfile::build(image, instructions, log) {
        Ok(built) => judge(kit, case, &built, log),
        Err(why) => Cure::Not(why),
    }
}

/// The result of `slim` with the incident's toolkit.
fn slim(kit: &Kit, case: &Case, image: &Image, log: &mut String) -> Cure {
    let layout = image.layout();
    let source = image
        .branch("source")
        .of_layers(&["debian", &format!("toolkit-{}", case.cupti_from)])
        .layout();
    let arguments = ["slim", &layout, "--phase", &case.phase, "--cupti-from", &source];
    made_by_slim(kit, case, image, "slim", &arguments, log)
}

fn made_by_slim(kit: &Kit, case: &Case, image: &Image, name: &str, arguments: &[&str], log: &mut String) -> Cure {
    let made = image.branch(name).folder().join("made");
    let output_name = format!("oci:{}", made.display());
    let arguments = [arguments, &["-o", &output_name, "--no-config"]].concat();
    let output = program(kit, &arguments).output().unwrap();
    let _ = write!(log, "\nslim: {}\n{}", output.status, said(&output));
    if !output.status.success() {
        return Cure::Not("refused".to_owned());
    }
    judge(kit, case, &image.made(&made), log)
}

/// Whether the probe succeeds in an image and its audit passes.
fn judge(kit: &Kit, case: &Case, image: &Image, log: &mut String) -> Cure {
    let probe = image.ask(&probe_words(case));
    let _ = write!(log, "probe: {}\n{}", probe.status, said(&probe));
    if !probe.status.success() {
        return Cure::Not("the probe fails".to_owned());
    }
    let report = audit(kit, case, image);
    let first = first_error(&report);
    let _ = write!(
        log,
        "audit: {}\n{:#}\n",
        report["exit_code"],
        first.cloned().unwrap_or_default()
    );
    let mut told = report["findings"].as_array().into_iter().flatten();
    // A note does not fail the audit, so check that the applied fix also removed it.
    if !case.by_hand.is_empty() && told.any(|finding| finding["rule"] == case.rule) {
        return Cure::Not("the finding is still there".to_owned());
    }
    if report["exit_code"] == 0 {
        Cure::Cures
    } else {
        let rule = first.map_or("an open verdict", |finding| finding["rule"].as_str().unwrap());
        Cure::Not(format!("the audit: {rule}"))
    }
}

fn audit(kit: &Kit, case: &Case, image: &Image) -> Value {
    let layout = image.layout();
    let mut arguments = vec![
        "audit",
        &layout,
        "--phase",
        &case.phase,
        "--format",
        "json",
        "--no-config",
    ];
    if let Some(tool) = &case.tool {
        arguments.extend(["--tool", tool]);
    }
    let output = program(kit, &arguments).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)))
}

pub fn program(kit: &Kit, arguments: &[&str]) -> Command {
    let mut command = support::program(arguments);
    command.env("CUPTI_AUDIT_CACHE_DIR", kit.path("cache"));
    command
}

pub fn first_error(report: &Value) -> Option<&Value> {
    let findings = report["findings"].as_array();
    let mut findings = findings.unwrap_or_else(|| panic!("no report: {report}")).iter();
    findings.find(|finding| finding["severity"] == "error")
}

fn texts(finding: &Value, key: &str) -> Vec<String> {
    let texts = finding[key].as_array().into_iter().flatten();
    texts.map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// How root starts a program in an image.
pub fn as_root(mut env: BTreeMap<String, String>) -> Start {
    env.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
    env.insert("HOME".to_owned(), "/root".to_owned());
    Start {
        env,
        user: 0,
        host: None,
    }
}

fn shell(text: &str) -> Vec<String> {
    ["/bin/sh", "-ec", text].map(str::to_owned).to_vec()
}

pub fn probe_words(case: &Case) -> Vec<String> {
    shlex::split(&case.probe).unwrap()
}

/// The output of a program, stdout first.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
