//! The arguments of `rules`: an action, and the rules of the user.

use clap::{Args, Subcommand};

use super::shared_args::ConfigArgs;

#[derive(Debug, Args)]
pub struct RulesArgs {
    /// What to do with the rules; list them when left out
    #[command(subcommand)]
    pub action: Option<RulesAction>,
    // The rules of the user are listed and explained beside the program's.
    #[command(flatten)]
    pub own: ConfigArgs,
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
