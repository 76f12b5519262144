//! The arguments of `profiles`: which of the files of what is known are shown.

use clap::{Args, Subcommand};

use super::shared_args::ConfigArgs;

#[derive(Debug, Args)]
pub struct ProfilesArgs {
    /// What to do with the profiles; list them when left out
    #[command(subcommand)]
    pub action: Option<ProfilesAction>,
    // Those of the user are listed and shown beside the program's.
    #[command(flatten)]
    pub own: ConfigArgs,
}

/// The actions on profiles.
#[derive(Debug, Subcommand)]
pub enum ProfilesAction {
    /// List the phases, programs, tools, libraries and tables that are known
    List,
    /// Print the file of one, as a pattern for one of your own
    Show {
        /// Its name as the list has it, such as phase/training, or without the kind where that is clear
        name: String,
    },
}
