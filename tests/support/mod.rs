//! Shared by the tests with real parts: the paths of the parts, and messages about missing ones.

use std::process::{Command, Output, Stdio};

pub use testkit::parts::*;

/// A command for the program in the repository's root, with no environment and no input.
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
