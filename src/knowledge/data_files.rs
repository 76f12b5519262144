//! The built-in rules and profiles, as text: the file's stem, its content, and the YAML parsed.

use super::catalog::{DataFile, DataKind};
use super::yaml_node::YamlNode::{self, List, Map, Text};

// build.rs sorts the files by name, so that builds are reproducible.
include!(concat!(env!("OUT_DIR"), "/data_files.rs"));

type DataTexts = &'static [(&'static str, &'static str, Option<YamlNode>)];

/// The built-in files, each named as the user would write it.
pub(crate) fn built_in_files() -> impl Iterator<Item = DataFile> {
    let of = |kind: DataKind, folder: &'static str, ending: &'static str, files: DataTexts| {
        files.iter().map(move |(id, text, parsed)| DataFile {
            kind,
            id: (*id).to_owned(),
            // Only for messages: the text is embedded, and no such path is opened.
            file: format!("{folder}/{id}.{ending}"),
            text: (*text).to_owned(),
            parsed: *parsed,
        })
    };
    of(DataKind::Rule, "rules", "yaml", RULES)
        .chain(of(DataKind::Phase, "profiles/phases", "yaml", PHASES))
        .chain(of(DataKind::Consumer, "profiles/consumers", "yaml", CONSUMERS))
        .chain(of(DataKind::Profiler, "profiles/profilers", "yaml", PROFILERS))
        .chain(of(DataKind::Library, "profiles/libraries", "yaml", LIBRARIES))
        .chain(of(DataKind::Errors, "profiles/errors", "yaml", ERRORS))
        .chain(of(DataKind::Table, "profiles/cupti", "yaml", TABLES))
        .chain(of(DataKind::Table, "profiles/cupti", "csv", CSV_TABLES))
        .chain(of(DataKind::Table, "profiles", "yaml", ADVICE))
}
