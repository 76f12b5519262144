//! Maintenance tasks of this repository, run as `cargo xtask CHORE`.
#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a chore talks to the one who runs it"
)]

mod docs;
mod fixtures;
mod layers;
mod public_names;
mod refresh;
mod rules_page;
mod style;
mod tools_page;

use std::process::ExitCode;

use layers::CircleCheck;

const USAGE: &str = "usage: cargo xtask fixtures|docs|refresh|layers|style [--check]

fixtures          write testdata/images/<name>/ from testdata/images/src/<name>.yaml
docs              write docs/rules.md from rules/*.yaml, docs/tools.md from profiles/
refresh           add to profiles/cupti what the package index has: the wheels of CUPTI and what is in them, toolkits, frameworks
refresh --again   read all of it again
… --check         compare instead; the exit code is 1 where something differs
layers --check    compare the imports of src/ and crates/ with the floors of ARCHITECTURE.md, list circles and count what is public
layers --circles  the same, and circles of more than two files are a failure
style             count closures bound by let, match (), names bound twice and small files
style --list      the same with the places
style --check     the same; the exit code is 1 above a limit of xtask/src/style.rs";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["fixtures"] => fixtures::write(),
        ["fixtures", "--check"] => fixtures::check(),
        ["docs"] => docs::write(),
        ["docs", "--check"] => docs::check(),
        ["refresh"] => refresh::write(false),
        ["refresh", "--again"] => refresh::write(true),
        ["refresh", "--check"] => refresh::check(),
        ["layers", "--check"] => layers::check(CircleCheck::Listed),
        ["layers", "--circles"] => layers::check(CircleCheck::Refused),
        ["style"] => style::count(""),
        ["style", option @ ("--list" | "--check")] => style::count(option),
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
