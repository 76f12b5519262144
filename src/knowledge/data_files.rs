//! The rules and profiles that are part of the program, as text: the file's stem and its content.

use super::catalog::{DataFile, DataKind};

// build.rs lists the files by name, so that the same sources give the same program.
include!(concat!(env!("OUT_DIR"), "/data_files.rs"));

type DataTexts = &'static [(&'static str, &'static str)];

/// The files of the program, each as the user would name it.
pub(crate) fn built_in_files() -> impl Iterator<Item = DataFile> {
    let of = |kind: DataKind, folder: &'static str, ending: &'static str, files: DataTexts| {
        files.iter().map(move |(id, text)| DataFile {
            kind,
            id: (*id).to_owned(),
            // For messages alone: the program holds the text and opens no such path.
            file: format!("{folder}/{id}.{ending}"),
            text: (*text).to_owned(),
        })
    };
    of(DataKind::Rule, "rules", "yaml", RULES)
        .chain(of(DataKind::Phase, "profiles/phases", "yaml", PHASES))
        .chain(of(DataKind::Consumer, "profiles/consumers", "yaml", CONSUMERS))
        .chain(of(DataKind::Profiler, "profiles/profilers", "yaml", PROFILERS))
        .chain(of(DataKind::Library, "profiles/libraries", "yaml", LIBRARIES))
        .chain(of(DataKind::Table, "profiles/cupti", "yaml", TABLES))
        .chain(of(DataKind::Table, "profiles/cupti", "csv", CSV_TABLES))
        .chain(of(DataKind::Table, "profiles", "yaml", ADVICE))
}
