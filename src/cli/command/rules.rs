//! `rules`: lists the rules.

use crate::cli::config::load::load_project;
use crate::cli::shared_args::ConfigArgs;
use crate::cli::terminal::{CommandError, write_result};
use crate::judge::outcome::RunExit;
use crate::report;
use clap::Args;

/// List the rules
///
/// The second column is the severity of a run without --phase. *off* means that the rule only reports something with
/// --phase. `cupti-audit explain ID` explains a rule.
#[derive(Debug, Args)]
pub struct RulesArgs {
    // The user's rules are listed together with the built-in ones.
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
