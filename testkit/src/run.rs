//! Runs programs that a test has just written.

use std::process::{Command, Output};

/// Runs a command. Repeats it while the kernel refuses a program of it as open for writing (ETXTBSY): a process that
/// another thread starts keeps the file that this thread wrote open until its own exec.
///
/// # Panics
///
/// If the command itself cannot be started.
pub fn run_unless_busy(command: &mut Command) -> Output {
    loop {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        if !String::from_utf8_lossy(&output.stderr).contains("Text file busy") {
            return output;
        }
    }
}
