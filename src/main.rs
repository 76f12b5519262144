//! The program: runs the command line and returns its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(cupti_audit::cli::run() as u8)
}
