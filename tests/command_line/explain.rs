//! `explain` describes a rule, an error, a number or a log, and says plainly if it does not know one.

use std::io::Write as _;
use std::process::{Output, Stdio};

use crate::support::{program, run};
use serde_json::Value;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The page of `explain`; standard error must be empty.
fn page(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(
        (text(&output.stderr).as_str(), output.status.code()),
        ("", Some(0)),
        "{arguments:?}"
    );
    text(&output.stdout)
}

/// The exit code and standard error.
fn refusal(output: &Output) -> (Option<i32>, String) {
    assert!(output.stdout.is_empty(), "{output:?}");
    (output.status.code(), text(&output.stderr))
}

fn with_log(arguments: &[&str], log: &[u8]) -> Output {
    let mut command = program(arguments);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(log).unwrap());
        child.wait_with_output().unwrap()
    })
}

#[test]
fn a_rule_an_error_and_a_number_are_explained() {
    insta::assert_snapshot!("rule", page(&["explain", "headers-only-cupti"]));
    let error = "ImportError: libcupti.so.12: cannot open shared object file: No such file or directory";
    insta::assert_snapshot!("error", page(&["explain", error]));
    insta::assert_snapshot!("number", page(&["explain", "35"]));
    // An unquoted message arrives as several words.
    let words: Vec<&str> = ["explain"].into_iter().chain(error.split(' ')).collect();
    assert_eq!(page(&words), page(&["explain", error]));
    assert_eq!(
        page(&["explain", "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"]),
        page(&["explain", "35"])
    );
}

#[test]
fn a_log_has_each_error_once_in_the_order_of_its_first_line() {
    let log = b"epoch 1\n 10%\r 20%\rOSError: \x1b[31mlibcupti.so.12\x1b[0m: cannot open shared object file\n\
        Failed to execute cuptiSubscribe with error 39\n\xff\xfe ##[error]libcupti.so.11.2: cannot open shared object file";
    let output = with_log(&["explain"], log);
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!("log", text(&output.stdout));
    assert_eq!(with_log(&["explain", "-"], log).stdout, output.stdout);
    let json: Value = serde_json::from_slice(&with_log(&["explain", "--format", "json"], log).stdout).unwrap();
    let found = json["errors"].as_array().unwrap().iter();
    let found: Vec<_> = found
        .map(|error| (&error["error"], &error["lines"]["count"], &error["lines"]["first"]))
        .collect();
    assert_eq!(
        serde_json::json!(found),
        serde_json::json!([
            ["libcupti.so*: cannot open shared object file", 2, 2],
            ["CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", 1, 3],
        ])
    );
}

#[test]
fn a_log_of_one_endless_line_is_read_in_pieces() {
    let mut log = vec![b'x'; 8 << 20];
    log.extend_from_slice(b" CUPTI_ERROR_HARDWARE_BUSY");
    let output = with_log(&["explain"], &log);
    assert!(
        text(&output.stdout).starts_with("CUPTI_ERROR_HARDWARE_BUSY (26)\nline 1: CUPTI_ERROR_HARDWARE_BUSY\n"),
        "{output:?}"
    );
}

#[test]
fn what_is_not_known_is_said_with_what_to_do() {
    let next = "to find the cause, run cupti-audit IMAGE, or cupti-audit verify in the running container";
    for (asked, said) in [
        (
            "cupti-absnt",
            "nothing is known of \"cupti-absnt\"; did you mean \"cupti-absent\"?",
        ),
        (
            "CUPTI_ERROR_HARDWARE_BUZY",
            "nothing is known of \"CUPTI_ERROR_HARDWARE_BUZY\"; did you mean \"CUPTI_ERROR_HARDWARE_BUSY\"?",
        ),
        ("1234", "nothing is known of \"1234\""),
        (
            "Segmentation fault \x1b[31m",
            "nothing is known of \"Segmentation fault \\x1b[31m\"",
        ),
    ] {
        assert_eq!(
            refusal(&run(&["explain", asked])),
            (Some(2), format!("error: {said}; {next}\n"))
        );
    }
    let nothing = (Some(2), format!("error: the log contains no known error; {next}\n"));
    assert_eq!(refusal(&with_log(&["explain"], b"all is well\n")), nothing);
    assert_eq!(refusal(&with_log(&["explain"], b"")), nothing);
}

/// Users run the commands that show an error, so the commands must work.
#[test]
fn every_command_that_shows_an_error_can_be_run() {
    let table = std::fs::read_to_string("profiles/cupti/errors.yaml").unwrap();
    let commands = table
        .lines()
        .filter_map(|line| line.strip_prefix("  shown_by: cupti-audit "));
    let mut commands: Vec<&str> = commands.filter_map(|command| command.split(',').next()).collect();
    commands.sort_unstable();
    commands.dedup();
    assert!(commands.len() > 5, "{commands:?}");
    for command in commands.iter().filter(|command| command.contains("IMAGE")) {
        let words = command.replace("IMAGE", "oci:testdata/images/pip-torch");
        let output = run(&words.split(' ').collect::<Vec<_>>());
        assert_eq!(text(&output.stderr), "", "{command}");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{command}: {output:?}");
    }
}

#[test]
fn the_users_table_is_explained_beside_the_programs() {
    let folder = tempfile::tempdir().unwrap();
    let tables = folder.path().join("cupti");
    std::fs::create_dir(&tables).unwrap();
    let table = "- {error: our tracer is off, means: it is off, matter_of: [program], fix: turn it on, certainty: seen, source: us}\n";
    std::fs::write(tables.join("errors.yaml"), table).unwrap();
    let folder = folder.path().to_str().unwrap();
    let said = page(&["explain", "--profiles", folder, "warning: our tracer is off"]);
    assert!(said.contains("fix       turn it on\n"), "{said}");
    std::fs::write(tables.join("errors.yaml"), table.replace("means", "meens")).unwrap();
    let (code, error) = refusal(&run(&["explain", "--profiles", folder, "35"]));
    assert_eq!(code, Some(2));
    assert!(
        error.contains("there is no key \"meens\"; did you mean \"means\"?"),
        "{error}"
    );
}
