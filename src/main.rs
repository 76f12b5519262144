//! The program: reads the command line, runs the command and gives the exit code.
#![expect(
    clippy::print_stderr,
    reason = "results go to standard output, everything else to standard error"
)]

mod command;

use std::process::ExitCode;

use cupti_audit::cli::{self, Command};

fn main() -> ExitCode {
    let cli = cli::parse();
    let exit = match cli.command {
        None => command::audit(cli.audit),
        Some(Command::Audit(args)) => command::audit(args),
        Some(Command::Tree(args)) => command::tree(args),
        Some(Command::Profilers(args)) => command::profilers(args),
        Some(Command::Advise(args)) => command::advise(&args),
        Some(Command::Dockerfile(args)) => command::dockerfile(*args),
        Some(Command::Slim(args)) => command::slim(*args),
        Some(Command::Rules(args)) => command::rules(&args),
        Some(Command::Schema) => command::schema(),
    };
    ExitCode::from(exit as u8)
}
