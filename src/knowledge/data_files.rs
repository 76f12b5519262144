//! The built-in rules and profiles: the stem of each file, its content, and YAML also as JSON. Also reads the CSV
//! tables: releases, wheels, toolkits and drivers, which have many rows of few columns.

use super::catalog::{DataFile, DataKind};

// build.rs sorts the files by name, so that builds are reproducible.
include!(concat!(env!("OUT_DIR"), "/data_files.rs"));

type DataTexts = &'static [(&'static str, &'static str, Option<&'static str>)];

/// The built-in files, each named as the user would write it.
pub(crate) fn built_in_files() -> impl Iterator<Item = DataFile> {
    let of = |kind: DataKind, folder: &'static str, ending: &'static str, files: DataTexts| {
        files.iter().map(move |(id, text, json)| DataFile {
            kind,
            id: (*id).to_owned(),
            // Only for messages: the text is embedded, and no such path is opened.
            file: format!("{folder}/{id}.{ending}"),
            text: (*text).to_owned(),
            json: *json,
        })
    };
    of(DataKind::Rule, "rules", "yaml", RULES)
        .chain(of(DataKind::Phase, "profiles/phases", "yaml", PHASES))
        .chain(of(DataKind::Consumer, "profiles/consumers", "yaml", CONSUMERS))
        .chain(of(DataKind::Profiler, "profiles/profilers", "yaml", PROFILERS))
        .chain(of(DataKind::Table, "profiles/libraries", "yaml", LIBRARIES))
        .chain(of(DataKind::Errors, "profiles/errors", "yaml", ERRORS))
        .chain(of(DataKind::Table, "profiles/cupti", "yaml", TABLES))
        .chain(of(DataKind::Table, "profiles/cupti", "csv", CSV_TABLES))
        .chain(of(DataKind::Table, "profiles", "yaml", ADVICE))
}

/// The rows of a table below its header, which has to be `columns`: another order would silently swap values. Lines that
/// begin with `#` are comments. No value contains a comma, so there is no quoting.
///
/// Panics: Never for a built-in table, because a test reads all of them.
pub(super) fn csv_rows<'t, const N: usize>(text: &'t str, columns: [&str; N]) -> impl Iterator<Item = [&'t str; N]> {
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert_eq!(
        lines.next(),
        Some(&*columns.join(",")),
        "a test reads the tables of the program"
    );
    lines.map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        fields.try_into().expect("a test reads the tables of the program")
    })
}

/// The words of a field, separated by spaces.
pub(super) fn csv_words(field: &str) -> Vec<String> {
    field.split_whitespace().map(str::to_owned).collect()
}

/// The date of the newest built-in table, such as `2026-11-29`.
pub fn knowledge_date() -> &'static str {
    let tables = [TABLES, CSV_TABLES, ADVICE].into_iter().flatten();
    let dates = tables.filter_map(|(_, text, _)| table_date(text));
    dates.max().unwrap_or_default()
}

/// The date in the comments of a table.
fn table_date(text: &str) -> Option<&str> {
    text.split_once("As of ")?.1.split_once('.').map(|(date, _)| date)
}

#[cfg(test)]
mod tests {
    use super::{ADVICE, CSV_TABLES, TABLES, knowledge_date, table_date};

    #[test]
    fn every_table_has_its_date() {
        let tables = [TABLES, CSV_TABLES, ADVICE].into_iter().flatten();
        let is_date = |date: &str| date.len() == 10 && date.starts_with("20") && *date <= *knowledge_date();
        let without: Vec<&str> = tables
            .filter(|(_, text, _)| !table_date(text).is_some_and(is_date))
            .map(|(id, ..)| *id)
            .collect();
        assert_eq!(without, [""; 0]);
    }
}
