//! Runs the real hadolint, with additional rules. Every step has a comment with its reason, `LD_LIBRARY_PATH` has no
//! empty element, and the last stage does not remove files of lower layers.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// The problems of a Dockerfile, one per line.
pub fn lint(text: &str) -> Vec<String> {
    let mut wrong = own_rules(text);
    let program = testkit::parts::parts().join("hadolint/hadolint");
    if !program.exists() {
        testkit::parts::missing("hadolint (tests/parts.sh)");
        return wrong;
    }
    let mut linter = Command::new(program)
        .args(["--no-color", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    linter.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let said = String::from_utf8(linter.wait_with_output().unwrap().stdout).unwrap();
    wrong.extend(said.lines().map(|line| format!("hadolint: {line}")));
    wrong
}

fn own_rules(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let last_stage = text.lines().filter(|line| line.starts_with("FROM ")).count();
    // A reason applies to all steps below it up to the next empty line.
    let (mut has_reason, mut goes_on, mut stage) = (false, false, 0);
    for line in text.lines() {
        let word = line.split(' ').next().unwrap_or_default();
        match word {
            _ if goes_on => {}
            "" => has_reason = false,
            "#" => has_reason = true,
            "FROM" => stage += 1,
            "RUN" | "COPY" | "ADD" if !has_reason => wrong.push(format!("no reason: {line}")),
            "RUN" if stage == last_stage && line.starts_with("RUN rm ") => {
                wrong.push(format!("removed in a later layer: {line}"));
            }
            _ => {}
        }
        let path = line
            .strip_prefix("ENV LD_LIBRARY_PATH=")
            .map(|value| value.trim_matches('"'));
        if path.is_some_and(|path| path.split([':', ';']).any(str::is_empty)) {
            wrong.push(format!("empty element: {line}"));
        }
        goes_on = line.ends_with('\\');
    }
    wrong
}
