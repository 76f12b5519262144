//! The arguments of what prepares the use of the program: completions, manual pages, the config, schemas.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::Shell;

use crate::report::schemas::SCHEMAS;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cupti-audit completions bash > /etc/bash_completion.d/cupti-audit
  cupti-audit completions fish > ~/.config/fish/completions/cupti-audit.fish")]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// The command that the page is of; the program itself when left out
    #[arg(value_name = "COMMAND")]
    pub page: Option<String>,
}

#[derive(Debug, Args)]
pub struct ConfigFileArgs {
    #[command(subcommand)]
    pub action: ConfigAction,
}

/// The actions on a config.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Write a config that says what each key is for
    Init {
        /// The file; - is standard output
        #[arg(value_name = "FILE", default_value = crate::cli::config::FILE_NAME)]
        file: PathBuf,
        /// Write over a file that is there
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// The document
    #[arg(value_name = "DOCUMENT", default_value = "report", value_parser = find_schema)]
    pub schema: &'static str,
}

fn find_schema(name: &str) -> Result<&'static str, String> {
    let found = SCHEMAS.iter().find(|(document, _)| *document == name);
    found.map(|(_, schema)| *schema).ok_or_else(|| {
        let names = SCHEMAS.map(|(document, _)| document);
        format!("there is {}", names.join(", "))
    })
}
