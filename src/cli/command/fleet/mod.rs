//! `fleet`: lists many images, audits them in shares, and reports on all of them.

mod list;
mod named_files;
mod read_results;
mod report;
mod run;

use crate::cli::terminal::CommandError;
use crate::judge::outcome::RunExit;
use clap::{Args, Subcommand};

/// Audit many images with several workers, and report on all
#[derive(Debug, Args)]
pub struct FleetArgs {
    #[command(subcommand)]
    action: FleetAction,
}

/// The steps of auditing a fleet.
#[derive(Debug, Subcommand)]
pub enum FleetAction {
    /// List images of registries, clusters or files, by digest
    List(Box<list::FleetListArgs>),
    /// Audit a worklist, or one worker's share
    Run(Box<run::FleetRunArgs>),
    /// Report on all images
    Report(report::FleetReportArgs),
}

impl FleetArgs {
    /// Runs one step of a fleet audit.
    pub fn run(self) -> Result<RunExit, CommandError> {
        match self.action {
            FleetAction::List(args) => args.run(),
            FleetAction::Run(args) => args.run(),
            FleetAction::Report(args) => args.run(),
        }
    }
}
