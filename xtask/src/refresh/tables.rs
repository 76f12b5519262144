//! The rows of the tables, as text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use chrono::DateTime;
use cupti_audit::knowledge::{FunctionTable, KnowledgeTables, ListedWheel, ReleaseFile, ReleaseTable, version_numbers};

use super::{ARCHES, key};

/// The start of the comment with the date of a table.
const DATE: &str = "# As of ";

/// The releases whose functions are known, the oldest first: the version, and what it exports.
pub type ExportsByRelease = BTreeMap<Vec<u32>, (String, BTreeSet<String>)>;

pub fn known_exports(known: &KnowledgeTables) -> ExportsByRelease {
    let FunctionTable { spans } = &known.functions;
    let versions = ARCHES.iter().flat_map(|arch| known.releases.versions_for(arch));
    let mut exports = ExportsByRelease::new();
    for version in versions {
        let covering = spans.iter().filter(|span| span.covers(version));
        let functions: BTreeSet<String> = covering.flat_map(|span| span.functions.clone()).collect();
        if !functions.is_empty() {
            exports.insert(version_numbers(version), (version.to_owned(), functions));
        }
    }
    exports
}

/// A row for the functions that came with one release and went with another.
pub fn function_rows(exports: &ExportsByRelease) -> Vec<String> {
    let mut spans: BTreeMap<(&Vec<u32>, &Vec<u32>), BTreeSet<&str>> = BTreeMap::new();
    let all: BTreeSet<&String> = exports.values().flat_map(|(_, functions)| functions).collect();
    for function in all {
        let releases: Vec<_> = exports.iter().collect();
        let in_turn =
            releases.chunk_by(|(_, (_, one)), (_, (_, next))| one.contains(function) == next.contains(function));
        for run in in_turn {
            if let [(first, (_, functions)), ..] = run
                && let [.., (last, _)] = run
                && functions.contains(function)
            {
                spans.entry((first, last)).or_default().insert(function);
            }
        }
    }
    let version = |numbers: &Vec<u32>| exports.get(numbers).map_or("", |(version, _)| version);
    let rows = spans.into_iter().map(move |((first, last), functions)| {
        let functions: Vec<&str> = functions.into_iter().collect();
        format!("{},{},{}", version(first), version(last), functions.join(" "))
    });
    rows.collect()
}

pub fn wheel_rows(wheels: BTreeSet<ListedWheel>) -> Vec<String> {
    let mut wheels: Vec<ListedWheel> = wheels.into_iter().collect();
    wheels.sort_by_key(|wheel| (version_numbers(&wheel.version), wheel.arch.clone()));
    let row = |wheel: ListedWheel| format!("{},{}", key(&wheel).join(","), wheel.sha256);
    wheels.into_iter().map(row).collect()
}

pub fn release_rows(releases: &ReleaseTable) -> Vec<String> {
    let mut rows: Vec<(&String, &ReleaseFile)> = releases.by_hash.iter().collect();
    // Files bundled by other tools come last.
    rows.sort_by_cached_key(|(hash, file)| {
        let first = file.versions.first().map(|version| version_numbers(version));
        (
            file.bundle.clone(),
            first,
            file.file.clone(),
            file.arch.clone(),
            (*hash).clone(),
        )
    });
    let row = |(hash, file): (&String, &ReleaseFile)| {
        let (versions, bundle) = (file.versions.join(" "), file.bundle.as_deref().unwrap_or_default());
        format!("{hash},{versions},{bundle},{},{},{}", file.arch, file.file, file.bytes)
    };
    rows.into_iter().map(row).collect()
}

/// The path of a table.
pub fn table(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../profiles/cupti")
        .join(name)
}

/// The fields of the rows of a table.
pub fn read_rows(name: &str) -> io::Result<Vec<Vec<String>>> {
    let text = fs::read_to_string(table(name))?;
    let rows = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    Ok(rows.map(|row| row.split(',').map(str::to_owned).collect()).collect())
}

/// Writes the rows of a table below its comments and column names. If they differ, the table gets the date of today.
pub fn write_rows(name: &str, rows: &[String]) -> io::Result<()> {
    let before = fs::read_to_string(table(name))?;
    let comments = before.lines().take_while(|line| line.starts_with('#')).count();
    let head: Vec<String> = before.lines().take(comments + 1).map(str::to_owned).collect();
    let text = |head: &[String]| [head, rows].concat().join("\n") + "\n";
    if text(&head) == before {
        return Ok(());
    }
    fs::write(
        table(name),
        text(&head.iter().map(|line| dated(line)).collect::<Vec<_>>()),
    )
}

/// A line with the date of today, if it is the one with the date.
fn dated(line: &str) -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let today = DateTime::from_timestamp(i64::try_from(seconds).unwrap_or_default(), 0).unwrap_or_default();
    match line.strip_prefix(DATE).and_then(|rest| rest.split_once('.')) {
        Some((_, rest)) => format!("{DATE}{}.{rest}", today.format("%Y-%m-%d")),
        None => line.to_owned(),
    }
}
