//! The program: runs the command line and returns its exit code.

use std::process::ExitCode;

// Only linked.
#[cfg(all(target_env = "musl", target_arch = "x86_64"))]
use memory_functions as _;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(cupti_audit::cli::run() as u8)
}
