//! Audits images with the built program: writes them as one OCI layout, and audits it in one run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::oci;

use super::base::TRAIN;

/// Whether the program gets the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// It does.
    Pass,
    /// It does not.
    Fail,
    /// The report leaves it open.
    Open,
    /// The exit code contradicts the object's outcome.
    Contradiction,
}

/// The certainty of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It follows from the image alone.
    Proved,
    /// It depends on assumptions that the report lists.
    Assumed,
    /// The report has no level.
    Unnamed,
}

/// The answer in a report.
#[derive(Debug, Clone)]
pub struct Read {
    /// The answer.
    pub answer: Answer,
    /// How sure it is.
    pub level: Level,
    /// The program's values of `LD_LIBRARY_PATH` in the report: `-` if not set, `None` if undetermined. Empty if the
    /// report names no program.
    pub paths: Vec<Option<String>>,
    /// The reasons, for messages.
    pub why: String,
}

/// Audits images, and returns the reports' answers for the objects that request the library, in the same order.
pub fn read(images: &[(oci::Image, &str)], cache: &Path) -> Vec<Read> {
    let folder = tempfile::tempdir().unwrap();
    let mut layout = oci::Layout::new();
    for (number, (image, _)) in images.iter().enumerate() {
        layout.add(&format!("n{number}"), std::slice::from_ref(image));
    }
    layout.write_to(folder.path()).unwrap();
    let reference = |number| format!("oci:{}:n{number}", folder.path().display());
    let references: Vec<String> = (0..images.len()).map(reference).collect();
    let reports = audit(&references, cache);
    let askers = references.iter().zip(images);
    askers
        .map(|(reference, (_, asker))| read_report(&reports[reference], asker))
        .collect()
}

/// The program built with the tests, or the build named in `CUPTI_AUDIT_PROGRAM`.
fn program() -> PathBuf {
    let other = std::env::var_os("CUPTI_AUDIT_PROGRAM");
    other.map_or_else(|| env!("CARGO_BIN_EXE_cupti-audit").into(), PathBuf::from)
}

fn audit(references: &[String], cache: &Path) -> BTreeMap<String, Value> {
    let output = Command::new(program())
        .args(["--format", "json", "--quiet", "--no-config", "--cache-dir"])
        .arg(cache)
        .args(references)
        .current_dir(cache)
        .env_clear()
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let reports = text.lines().map(|line| {
        let report: Value = serde_json::from_str(line).unwrap();
        (report["image"]["reference"].as_str().unwrap().to_owned(), report)
    });
    let reports: BTreeMap<String, Value> = reports.collect();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(reports.len(), references.len(), "{said}");
    reports
}

fn read_report(report: &Value, asker: &str) -> Read {
    let object = format!("/{asker}");
    let of_asker = |list: &str| {
        let mut entries = report[list].as_array().into_iter().flatten();
        entries.find(|entry| entry["object"] == object.as_str()).cloned()
    };
    let consumer = of_asker("consumers").unwrap_or_else(|| panic!("no word about {object}: {report}"));
    let level = report["verdict_level"].as_str();
    let named = match level {
        Some("proved") => Level::Proved,
        Some("assumed") => Level::Assumed,
        _ => Level::Unnamed,
    };
    let is_open = match level {
        // Reports of older builds have no level, but list undetermined programs.
        None => report["exit_code"] == 2 || of_asker("undecided").is_some(),
        Some(level) => report["exit_code"] == 2 || level == "open",
    };
    let answer = match (consumer["outcome"]["as-is"].as_str(), report["exit_code"].as_u64()) {
        _ if is_open => Answer::Open,
        (Some("loaded"), Some(0)) => Answer::Pass,
        (Some("loaded"), _) | (_, Some(0)) => Answer::Contradiction,
        _ => Answer::Fail,
    };
    Read {
        answer,
        level: named,
        paths: paths(report),
        why: why(report, &consumer),
    }
}

/// The search paths of the images' program, or of the interpreter that runs it.
fn paths(report: &Value) -> Vec<Option<String>> {
    let programs = report["programs"].as_array().into_iter().flatten();
    let programs = programs.filter(|program| {
        let path = program["path"].as_str().unwrap_or_default();
        path.ends_with(TRAIN) || path.starts_with("/usr/bin/python3")
    });
    let environments = programs.flat_map(|program| program["environments"].as_array().into_iter().flatten());
    let path = |environment: &Value| match &environment.get("LD_LIBRARY_PATH") {
        None | Some(Value::Null) => Some("-".to_owned()),
        Some(value) => value.as_str().map(str::to_owned),
    };
    environments.filter(|one| one.is_object()).map(path).collect()
}

fn why(report: &Value, consumer: &Value) -> String {
    let list = |key: &str, field: &str| {
        let entries = report[key].as_array().into_iter().flatten();
        let texts: Vec<String> = entries.map(|entry| format!("{}", entry[field])).collect();
        texts.join(" ")
    };
    format!(
        "{} exit {} outcome {} assumptions [{}] findings [{}] undecided [{}] gaps [{}]",
        report["verdict"],
        report["exit_code"],
        consumer["outcome"],
        list("assumptions", "text"),
        list("findings", "rule"),
        list("undecided", "why"),
        report["gaps"]
    )
}
