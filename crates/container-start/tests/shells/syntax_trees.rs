//! Does the parser accept the same scripts as the real shells?

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::case_file::{Shell, read_cases};
use shuck_parser::parser::{ParseStatus, Parser, ShellDialect};
use testkit::parts::have_all;

/// Scripts on which parser and shell are known to disagree, by case, path and shell.
const KNOWN: [(&str, &str, &str); 12] = [
    // A reserved word behind a redirection or an assignment is a command name; the parser rejects it.
    ("a reserved word behind a redirection", "/entry.sh", "bash"),
    ("a reserved word behind a redirection", "/entry.sh", "dash"),
    ("a brace behind an assignment", "/entry.sh", "bash"),
    ("a brace behind an assignment", "/entry.sh", "dash"),
    ("a loop behind an assignment", "/entry.sh", "bash"),
    ("a loop behind an assignment", "/entry.sh", "dash"),
    // bash's words are syntax for the parser in its POSIX dialect, too.
    ("two exclamation marks", "/entry.sh", "dash"),
    ("time before a group", "/entry.sh", "dash"),
    ("function as a name in other shells", "/entry.sh", "dash"),
    ("coproc as a name in other shells", "/entry.sh", "dash"),
    // The parser accepts arrays in its POSIX dialect, too.
    ("an array in dash is a syntax error", "/entry.sh", "dash"),
    // For dash, `[[` is a command name; the parser rejects the conditional.
    ("double brackets in dash are no command", "/entry.sh", "dash"),
];

#[test]
fn parser_accepts_what_the_shells_accept() {
    if !have_all(&[("bash", "bash"), ("dash", "dash")]) {
        return;
    }
    let mut counts = [0; 2];
    let mut disagreements = Vec::new();
    for case in read_cases("idioms").into_iter().chain(read_cases("scripts")) {
        for shell in case.shells.iter().copied().filter(|shell| *shell != Shell::Busybox) {
            for file in case
                .files_for(shell)
                .iter()
                .filter(|file| file.text.starts_with("#!/bin/"))
            {
                let is_bash = file.text.starts_with("#!/bin/bash");
                let program: &[&str] = match (is_bash, shell) {
                    // `-n` executes no `shopt -s extglob`, and the parser always knows these patterns.
                    (true, _) => &["bash", "-O", "extglob", "-n"],
                    (false, Shell::Posix) => &["bash", "--posix", "-O", "extglob", "-n"],
                    (false, _) => &["dash", "-n"],
                };
                let dialect = match program {
                    ["dash", ..] => ShellDialect::Posix,
                    _ => ShellDialect::Bash,
                };
                let is_accepted = is_accepted(program, &file.text);
                let is_clean = Parser::with_dialect(&file.text, dialect).parse().status == ParseStatus::Clean;
                counts[usize::from(is_accepted)] += 1;
                let key = (&*case.name, &*file.path, shell.name());
                if is_accepted != is_clean && !KNOWN.contains(&key) {
                    disagreements.push(format!(
                        "{key:?}: {program:?} accepts: {is_accepted}, parser: {is_clean}"
                    ));
                }
            }
        }
    }
    let [refused, accepted] = counts;
    println!("syntax: {accepted} scripts accepted by their shell, {refused} refused");
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n"));
}

fn is_accepted(program: &[&str], text: &str) -> bool {
    let mut words = program.iter();
    let mut command = Command::new(words.next().unwrap());
    command
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait().unwrap().success()
}
