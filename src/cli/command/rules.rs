//! `rules`: what the program looks for.

use crate::cli::config::load::load_project;
use crate::cli::shared_args::ConfigArgs;
use crate::cli::terminal::{CommandError, terminal_width, write_result};
use crate::judge::outcome::RunExit;
use crate::knowledge::Knowledge;
use crate::knowledge::mistake::suggestion;
use crate::report;
use clap::{Args, Subcommand};

/// List the rules, or explain one
#[derive(Debug, Args)]
pub struct RulesArgs {
    /// What to do with the rules; list them when left out
    #[command(subcommand)]
    action: Option<RulesAction>,
    // The rules of the user are listed and explained beside the program's.
    #[command(flatten)]
    own: ConfigArgs,
}

/// The actions on rules.
#[derive(Debug, Subcommand)]
pub enum RulesAction {
    /// Say what a rule finds, why it matters and what to do
    #[command(alias = "show")]
    Explain {
        /// The rule's id
        id: String,
    },
}

impl RulesArgs {
    /// Lists the rules or explains one.
    pub fn run(self) -> Result<RunExit, CommandError> {
        let (_, Knowledge { rules, phases, .. }) = load_project(&self.own)?;
        let text = match &self.action {
            None => report::rules::list_rules(&rules),
            Some(RulesAction::Explain { id }) => {
                let Some(rule) = rules.iter().find(|rule| rule.id == *id) else {
                    let known: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
                    let meant = suggestion(id, &known);
                    return Err(format!("there is no rule {id:?}{meant}; cupti-audit rules lists them").into());
                };
                report::rules::explain_rule(rule, &phases, terminal_width())
            }
        };
        Ok(write_result(&text, RunExit::Clean))
    }
}
