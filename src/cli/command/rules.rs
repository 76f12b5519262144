//! `rules`: what the program looks for.

use crate::cli::config::load::load_project;
use crate::cli::shared_args::ConfigArgs;
use crate::cli::terminal::{CommandError, write_result};
use crate::judge::outcome::RunExit;
use crate::report;
use clap::Args;

/// List the rules
///
/// `cupti-audit explain ID` explains a rule.
#[derive(Debug, Args)]
pub struct RulesArgs {
    // The rules of the user are listed beside the program's.
    #[command(flatten)]
    own: ConfigArgs,
}

impl RulesArgs {
    /// Lists the rules.
    pub fn run(self) -> Result<RunExit, CommandError> {
        let (_, knowledge) = load_project(&self.own)?;
        Ok(write_result(
            &report::rules::list_rules(&knowledge.rules),
            RunExit::Clean,
        ))
    }
}
