//! What the tests with real parts share: where the parts lie, and what to say when one is missing.

use std::process::{Command, Output, Stdio};

pub use testkit::parts::*;

/// The program, to be run in the root of the repository with no environment and no input.
pub fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cupti-audit"));
    command
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .stdin(Stdio::null());
    command
}

/// The program's output.
pub fn run(arguments: &[&str]) -> Output {
    program(arguments).output().expect("the program starts")
}
