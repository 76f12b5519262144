//! `profiles`: lists the knowledge besides the rules, file by file.

use std::fmt::Write as _;

use crate::cli::config::load::data_files;
use crate::cli::shared_args::ConfigArgs;
use crate::cli::terminal::{CommandError, write_result};
use crate::judge::outcome::RunExit;
use crate::knowledge::mistake::suggestion;
use crate::knowledge::{DataFile, DataKind};
use clap::{Args, Subcommand};
use image_linkage::escape;

/// List the known phases, programs, tools and tables, or print one
#[derive(Debug, Args)]
pub struct ProfilesArgs {
    /// Action [default: list]
    #[command(subcommand)]
    action: Option<ProfilesAction>,
    // The user's profiles are listed together with the built-in ones.
    #[command(flatten)]
    own: ConfigArgs,
}

/// The actions on profiles.
#[derive(Debug, Subcommand)]
pub enum ProfilesAction {
    /// List the known phases, programs, tools and tables
    List,
    /// Print the file of a profile, to copy it
    Show {
        /// Name from the list, such as phase/training or training
        name: String,
    },
}

impl ProfilesArgs {
    /// Lists the profiles or prints one.
    pub fn run(self) -> Result<RunExit, CommandError> {
        let mut files = data_files(&self.own)?;
        files.retain(|file| file.kind != DataKind::Rule);
        let text = match &self.action {
            None | Some(ProfilesAction::List) => list_files(&files),
            Some(ProfilesAction::Show { name }) => find_file(&files, name)?.text.clone(),
        };
        Ok(write_result(&text, RunExit::Clean))
    }
}

/// One line per file: its name, and its summary or name field.
fn list_files(files: &[DataFile]) -> String {
    let names: Vec<String> = files.iter().map(name_of).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    let mut out = String::new();
    for (name, file) in names.iter().zip(files) {
        let own_words = file.text.lines().find_map(|line| {
            line.strip_prefix("summary: ")
                .or_else(|| line.strip_prefix("name: "))
                .or_else(|| line.strip_prefix("# "))
        });
        let summary = escape::escape_bytes(own_words.unwrap_or(&file.file).as_bytes());
        let _ = writeln!(out, "{name:width$}  {summary}");
    }
    out
}

fn name_of(file: &DataFile) -> String {
    format!("{}/{}", file.kind.name(), file.id)
}

/// The file with this name. If the user's file replaces a built-in one, the last counts.
///
/// Errors: No file has this name, or files of several kinds have it.
fn find_file<'f>(files: &'f [DataFile], name: &str) -> Result<&'f DataFile, String> {
    let of_name = files.iter().filter(|file| name_of(file) == name || file.id == name);
    let found: Vec<&DataFile> = of_name.collect();
    let last = found.last().ok_or_else(|| {
        let known: Vec<&str> = files.iter().map(|file| file.id.as_str()).collect();
        format!(
            "there is no profile \"{}\"{}; cupti-audit profiles lists them",
            escape::escape_bytes(name.as_bytes()),
            suggestion(name, &known)
        )
    })?;
    if let Some(other) = found.iter().find(|other| other.kind != last.kind) {
        return Err(format!("there is {} and {}", name_of(other), name_of(last)));
    }
    Ok(last)
}
