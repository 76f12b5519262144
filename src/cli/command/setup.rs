//! `completions`, `man`, `config` and `schema`: files about the program itself.

use std::path::Path;
use std::path::PathBuf;

use super::Cli;
use crate::cli::config::{FILE_NAME, TEMPLATE};
use crate::cli::output_file::write_file;
use crate::cli::terminal::{CommandError, write_result, write_verbatim};
use crate::judge::outcome::RunExit;
use crate::make::whole_file::ExistingOutput;
use crate::report::SCHEMAS;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory as _, Subcommand};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use image_linkage::escape;

/// Print the completion script of a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cupti-audit completions bash > /etc/bash_completion.d/cupti-audit
  cupti-audit completions fish > ~/.config/fish/completions/cupti-audit.fish")]
pub struct CompletionsArgs {
    /// Shell
    shell: Shell,
}

/// The columns of the notes in a manual page.
const MANUAL_WIDTH: usize = 78;

/// Print a manual page
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Command to describe [default: the program]
    #[arg(value_name = "COMMAND")]
    page: Option<String>,
}

/// Write a config file for a project
#[derive(Debug, Args)]
pub struct ConfigFileArgs {
    #[command(subcommand)]
    action: ConfigAction,
}

/// The actions on a config.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Write a config file that explains each key
    Init {
        /// File; - is standard output
        #[arg(value_name = "FILE", default_value = crate::cli::config::FILE_NAME)]
        file: PathBuf,
        /// Overwrite an existing file
        #[arg(long)]
        force: bool,
    },
}

/// Print the JSON Schema of a report
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Document that the schema describes
    #[arg(value_name = "DOCUMENT", default_value = "report", value_parser = schema_names())]
    schema: &'static str,
}

/// Parses the name of a document to its schema.
fn schema_names() -> impl TypedValueParser<Value = &'static str> {
    let names = PossibleValuesParser::new(SCHEMAS.map(|(document, _)| document));
    names.try_map(|name| {
        let found = SCHEMAS.iter().find(|(document, _)| *document == name);
        found.map(|(_, schema)| *schema).ok_or("no schema has this name")
    })
}

impl CompletionsArgs {
    /// Prints a shell completion script.
    #[expect(clippy::unnecessary_wraps, reason = "every command may fail")]
    pub fn run(self) -> Result<RunExit, CommandError> {
        let mut command = Cli::command();
        let mut script = Vec::new();
        let name = command.get_name().to_owned();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        Ok(write_verbatim(&String::from_utf8_lossy(&script), RunExit::Clean))
    }
}

impl ManArgs {
    /// Prints a manual page.
    pub fn run(self) -> Result<RunExit, CommandError> {
        let mut command = Cli::command();
        // After `build`, the subcommands have the full names that users type.
        command.build();
        let described = match &self.page {
            None => command,
            Some(name) => {
                let found = command.find_subcommand(name).cloned();
                found.ok_or_else(|| format!("there is no command {name:?}; cupti-audit --help lists them"))?
            }
        };
        // Printed as they are, because the renderer would join the lines of a list.
        let notes = described
            .get_after_long_help()
            .or(described.get_after_help())
            .map(ToString::to_string)
            .unwrap_or_default();
        let page = described.after_help(None::<&str>).after_long_help(None::<&str>);
        let mut text = Vec::new();
        Man::new(page).render(&mut text)?;
        let mut section = Roff::new();
        section.control("SH", ["NOTES"]).control("nf", []);
        for line in notes.lines() {
            // Indented lines are lists and commands, which keep their lines.
            let width = if line.starts_with(' ') {
                usize::MAX
            } else {
                MANUAL_WIDTH
            };
            for part in textwrap::wrap(line, width) {
                section.text([roman(&*part)]);
            }
        }
        section.control("fi", []).to_writer(&mut text)?;
        Ok(write_verbatim(&String::from_utf8_lossy(&text), RunExit::Clean))
    }
}

impl ConfigFileArgs {
    /// Writes a config that explains each key.
    pub fn run(self) -> Result<RunExit, CommandError> {
        let ConfigAction::Init { file, force } = &self.action;
        if file == Path::new("-") {
            return Ok(write_verbatim(TEMPLATE, RunExit::Clean));
        }
        write_file(file, TEMPLATE, ExistingOutput::with_force(*force))?;
        let is_found = file.file_name().is_some_and(|name| name == FILE_NAME);
        let hint = if is_found { "" } else { "; name it with --config" };
        let said = format!("written: {}{hint}\n", escape::escape_path(file));
        Ok(write_result(&said, RunExit::Clean))
    }
}

impl SchemaArgs {
    /// Prints the JSON Schema of a document.
    #[expect(clippy::unnecessary_wraps, reason = "every command may fail")]
    pub fn run(self) -> Result<RunExit, CommandError> {
        Ok(write_verbatim(self.schema, RunExit::Clean))
    }
}
