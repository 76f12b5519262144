//! What the tests with real parts share: where the parts lie, and what to say when one is missing.

use std::process::{Command, Output};

pub use testkit::parts::*;

/// The program's output, run in the root of the repository with no environment.
pub fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .output()
        .expect("the program starts")
}
