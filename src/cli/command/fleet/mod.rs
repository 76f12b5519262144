//! `fleet`: many images, listed, audited in shares and reported together.

mod list;
mod named_files;
mod read_results;
mod report;
mod run;

use crate::cli::fleet::{FleetAction, FleetArgs};
use crate::judge::outcome::RunExit;

use super::command_error::CommandError;

/// Does one step of auditing a fleet.
pub fn run_fleet(args: FleetArgs) -> Result<RunExit, CommandError> {
    match args.action {
        FleetAction::List(args) => list::list_fleet(*args),
        FleetAction::Run(args) => run::run_share(*args),
        FleetAction::Report(args) => report::report_fleet(&args),
    }
}
