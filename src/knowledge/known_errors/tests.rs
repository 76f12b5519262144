use super::{KnownError, KnownErrors};
use crate::knowledge::data_files::built_in_files;
use crate::knowledge::{DataFile, DataKind, Knowledge};

/// Reads the built-in errors and the user's.
fn read(of_user: &str) -> Result<KnownErrors, Vec<String>> {
    let file = DataFile {
        kind: DataKind::Errors,
        id: "mine".to_owned(),
        file: "errors/mine.yaml".to_owned(),
        text: of_user.to_owned(),
        json: None,
    };
    let files: Vec<DataFile> = built_in_files().chain((!of_user.is_empty()).then_some(file)).collect();
    KnownErrors::read(&files, &Knowledge::built_in().rule_ids())
        .map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
}

fn error_of(known: &KnownErrors, line: &str) -> Option<String> {
    known.find(line.as_bytes()).map(|found| found.error.clone())
}

/// A table row with one error.
fn row(error: &str, rest: &str) -> String {
    format!("- {{error: \"{error}\", means: m, matter_of: [host], certainty: seen, source: s{rest}}}\n")
}

#[test]
fn every_example_is_explained_by_its_own_error_and_by_no_other() {
    let known = read("").unwrap();
    for error in &known.errors {
        assert_eq!(error_of(&known, error.example()).as_ref(), Some(&error.error));
    }
}

#[test]
fn every_number_has_one_result_and_every_result_its_name() {
    let known = read("").unwrap();
    let is_result = |error: &&KnownError| error.number.is_some();
    let numbers: Vec<u32> = known.errors.iter().filter_map(|error| error.number).collect();
    let results = &Knowledge::built_in().tables.result_codes;
    // The header ends with a number that is no result.
    let expected: Vec<u32> = results
        .iter()
        .map(|result| result.number)
        .chain([0x7fff_ffff])
        .collect();
    assert_eq!(numbers, expected);
    for result in known.errors.iter().filter(is_result) {
        assert!(result.error.starts_with("CUPTI_"), "{}", result.error);
        assert_eq!(
            error_of(&known, &format!("x failed: {}.", result.error)).as_ref(),
            Some(&result.error)
        );
    }
}

#[test]
fn which_error_does_a_line_have() {
    let known = read("").unwrap();
    let not_found = "libcupti.so*: cannot open shared object file";
    for (line, expected) in [
        (
            "libcupti.so.11.2: cannot open shared object file: No such file or directory",
            Some(not_found),
        ),
        ("/opt/a/libcupti.so: CANNOT OPEN shared object file", Some(not_found)),
        (
            "libcupti.so.12 is here; libz.so.1: cannot open shared object file",
            Some("lib*: cannot open shared object file"),
        ),
        (
            "version 'libcupti.so.12' not found (required by x)",
            Some("version `libcupti.so*' not found"),
        ),
        ("undefined symbol: cuptiSubscribe_v2", Some("undefined symbol: cupti*")),
        ("undefined symbol: cublasCreate", None),
        // The longer name has the shorter one as a prefix.
        (
            "CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE",
            Some("CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE"),
        ),
        (
            "(CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED)",
            Some("CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED"),
        ),
        ("CUPTI_ERROR_UNKNOWN_TO_THIS_TABLE", None),
        (
            "Failed to execute cuptiSubscribe with error 39",
            Some("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"),
        ),
        (
            "Failed to execute cuptiSubscribe with error 390",
            Some("Failed to execute cupti* with error {number}"),
        ),
        ("Failed to execute cuptiSubscribe with error many", None),
        ("Failed to execute cuCtxCreate with error 39", None),
        ("cuptiGetTimestamp: error 999: ", Some("CUPTI_ERROR_UNKNOWN")),
        ("", None),
    ] {
        assert_eq!(error_of(&known, line).as_deref(), expected, "{line}");
    }
}

#[test]
fn a_line_of_beginnings_has_no_error() {
    let known = read("").unwrap();
    for part in ["libcupti.so", "cupti", "failed to execute cupti", "x", "lib"] {
        assert_eq!(error_of(&known, &part.repeat((64 << 10) / part.len())), None);
    }
}

#[test]
fn the_users_errors_are_added_and_win_where_the_letters_are_equal() {
    let user = row("libcuptj.so is gone", ", fix: ours") + &row("CUPTI_ERROR_NOT_FOUND", ", fix: f, number: 48");
    let known = read(&user).unwrap();
    assert_eq!(
        error_of(&known, "x: libcuptj.so is gone").as_deref(),
        Some("libcuptj.so is gone")
    );
    assert_eq!(
        error_of(&known, "cuptiGetTimestamp: error 48").as_deref(),
        Some("CUPTI_ERROR_NOT_FOUND")
    );
    let same = row(
        "lib*: cannot open shared object *ile",
        ", fix: f, seen: 'liba.so: cannot open shared object file'",
    );
    let same = read(&same).unwrap();
    let found = same.find(b"libb.so: cannot open shared object file");
    assert_eq!(
        found.map(|found| found.means.as_str()),
        Some("The loader does not find a library. The library does not belong to CUPTI.")
    );
}

#[test]
fn the_first_mistake_of_a_users_table_is_told_with_its_place() {
    for (table, expected) in [
        (
            row("abc", ", fix: f"),
            "1:11: a text of fewer than 8 letters fits lines of any kind",
        ),
        (
            row("* is not there", ", fix: f"),
            "1:11: a text has letters before each *, and between two of them",
        ),
        (
            row("it is not there", ""),
            "1:11: without a fix, an error has rules, and a command in shown_by",
        ),
        (
            row("it is not there", ", fix: f, seen: it is there"),
            "1:101: this example does not hold the text of the error",
        ),
        (
            row("it is not there", ", fix: f, number: 35"),
            "1:11: there is a row of this error or number already: \"CUPTI_ERROR_INSUFFICIENT_PRIVILEGES\"",
        ),
    ] {
        assert_eq!(
            read(&table).unwrap_err(),
            [format!("errors/mine.yaml:{expected}")],
            "{table}"
        );
    }
    let rule = read(&row("it is not there", ", fix: f, rules: [cupti-absnt]")).unwrap_err();
    assert!(
        rule[0].contains("there is no rule \"cupti-absnt\"; did you mean \"cupti-absent\"?"),
        "{rule:?}"
    );
}
