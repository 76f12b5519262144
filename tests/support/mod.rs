//! What the tests with real parts share: where the parts lie, and what to say when one is missing.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test target uses its own part of this module"
)]
#![allow(clippy::disallowed_methods, reason = "tests drive the program itself")]

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
