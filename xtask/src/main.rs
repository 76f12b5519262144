//! Chores of this repository, run as `cargo xtask CHORE`.
#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a chore talks to the one who runs it"
)]

mod docs;
mod fixtures;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask fixtures|docs [--check]

fixtures          write testdata/images/<name>/ from testdata/images/src/<name>.yaml
docs              write docs/rules.md from rules/*.yaml
… --check         compare instead; the exit code is 1 where something differs";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["fixtures"] => fixtures::write(),
        ["fixtures", "--check"] => fixtures::check(),
        ["docs"] => docs::write(),
        ["docs", "--check"] => docs::check(),
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(lines) => {
            print!("{lines}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
