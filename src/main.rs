//! The program: what the command line says, done; its outcome is the exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(cupti_audit::cli::run() as u8)
}
