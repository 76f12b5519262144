//! `completions`, `man`, `config` and `schema`: what is written of the program itself.

use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::cli::config::{FILE_NAME, TEMPLATE};
use crate::cli::setup::{CompletionsArgs, ConfigAction, ConfigFileArgs, ManArgs, SchemaArgs};
use crate::judge::outcome::RunExit;
use crate::make::whole_file::ExistingOutput;
use image_linkage::escape;

use super::command_error::CommandError;
use super::output_file::write_file;
use super::terminal::{write_result, write_verbatim};

/// Prints the script by which a shell completes the command line that `command` describes.
pub fn run_completions(args: &CompletionsArgs, mut command: Command) -> RunExit {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    write_verbatim(&String::from_utf8_lossy(&script), RunExit::Clean)
}

/// Prints a page of the manual.
pub fn run_man(args: &ManArgs, mut command: Command) -> Result<RunExit, CommandError> {
    // With it the names of the commands are those that are typed.
    command.build();
    let page = match &args.page {
        None => command,
        Some(name) => {
            let found = command.find_subcommand(name).cloned();
            found.ok_or_else(|| format!("there is no command {name:?}; cupti-audit --help lists them"))?
        }
    };
    // As they are written: the renderer would run the lines of a list together.
    let notes = page.get_after_long_help().or(page.get_after_help());
    let notes = notes.map(ToString::to_string).unwrap_or_default();
    let page = page.after_help(None::<&str>).after_long_help(None::<&str>);
    let mut text = Vec::new();
    Man::new(page).render(&mut text)?;
    let mut section = Roff::new();
    section.control("SH", ["NOTES"]).control("nf", []);
    for line in notes.lines() {
        section.text([roman(line)]);
    }
    section.control("fi", []).to_writer(&mut text)?;
    Ok(write_verbatim(&String::from_utf8_lossy(&text), RunExit::Clean))
}

/// Writes a config that says what each key is for.
pub fn run_config(args: &ConfigFileArgs) -> Result<RunExit, CommandError> {
    let ConfigAction::Init { file, force } = &args.action;
    if file == Path::new("-") {
        return Ok(write_verbatim(TEMPLATE, RunExit::Clean));
    }
    write_file(file, TEMPLATE, ExistingOutput::with_force(*force))?;
    let is_found = file.file_name().is_some_and(|name| name == FILE_NAME);
    let hint = if is_found { "" } else { "; name it with --config" };
    let said = format!("written: {}{hint}\n", escape::escape_path(file));
    Ok(write_result(&said, RunExit::Clean))
}

/// Prints the JSON Schema of a document.
pub fn run_schema(args: &SchemaArgs) -> RunExit {
    write_verbatim(args.schema, RunExit::Clean)
}
