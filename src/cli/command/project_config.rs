//! What comes before every command: the project's config, and the user's rules and profiles.
#![expect(
    clippy::disallowed_methods,
    reason = "the command line reads the clock and the environment"
)]

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cli::config::{ConfigFile, locate};
use crate::cli::shared_args::ConfigArgs;
use crate::judge::outcome::RunExit;
use crate::knowledge::data_files::built_in_files;
use crate::knowledge::user_folders::UserFolders;
use crate::knowledge::{DataFile, FileMistake, Knowledge};
use chrono::{DateTime, NaiveDate};

use super::terminal::report_error;

/// Reads the config, if there is one.
///
/// Errors: Its first mistake was said.
pub fn read_config(args: &ConfigArgs) -> Result<Option<ConfigFile>, RunExit> {
    let found = || locate::find_config(&std::env::current_dir().ok()?);
    let read = match &args.config {
        // First of all: `--no-config` also wins over `CUPTI_AUDIT_CONFIG`.
        _ if args.no_config => None,
        Some(path) => Some(locate::read_config(path, None)),
        None => found().map(|found| locate::read_config(&from_here(&found.file), Some(&found.within))),
    };
    read.transpose().map_err(|mistake| report_mistakes(vec![mistake]))
}

/// The path as a user in the working directory would write it, where it lies below.
fn from_here(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).to_owned()
}

/// Reads the rules and profiles of the program and those of the user, and checks the config's names by them.
///
/// Errors: All mistakes in them were said.
pub fn load_knowledge(args: &ConfigArgs, config: Option<&ConfigFile>) -> Result<Knowledge, RunExit> {
    let UserFolders { files, mut mistakes } = user_folders(args, config);
    // Mistakes of folders and of files are told together, so that one run shows them all.
    match Knowledge::with_user_files(files) {
        Ok(knowledge) if mistakes.is_empty() => {
            let checked = config.map_or(Ok(()), |file| file.check_names(&knowledge));
            checked.map_err(|mistake| report_mistakes(vec![mistake]))?;
            Ok(knowledge)
        }
        Ok(_) => Err(report_mistakes(mistakes)),
        Err(more) => {
            mistakes.extend(more);
            Err(report_mistakes(mistakes))
        }
    }
}

/// The files of the folders that the command line or the config names.
fn user_folders(args: &ConfigArgs, config: Option<&ConfigFile>) -> UserFolders {
    // A flag stands in place of the config's folders, as it does for every other key.
    let given = |flag: &[PathBuf], file: fn(&ConfigFile) -> &[PathBuf]| match flag {
        [] => config.map(file).unwrap_or_default().to_vec(),
        _ => flag.to_vec(),
    };
    let mut folders = UserFolders::default();
    for folder in given(&args.rules, |file| &file.config.rules) {
        folders.add_rules(&folder);
    }
    for folder in given(&args.profiles, |file| &file.config.profiles) {
        folders.add_profiles(&folder);
    }
    folders
}

/// Reads the config, and by it what the program and the user know.
///
/// Errors: All mistakes were said.
pub fn load_config_and_knowledge(args: &ConfigArgs) -> Result<Knowledge, RunExit> {
    let config = read_config(args)?;
    load_knowledge(args, config.as_ref())
}

/// The files of all that is known, the program's before the user's, once all of them are in order.
///
/// Errors: All mistakes were said.
pub fn data_files(args: &ConfigArgs) -> Result<Vec<DataFile>, RunExit> {
    let config = read_config(args)?;
    load_knowledge(args, config.as_ref())?;
    let mut files: Vec<DataFile> = built_in_files().collect();
    files.extend(user_folders(args, config.as_ref()).files);
    Ok(files)
}

/// The mistakes that are said of one run.
const MISTAKES: usize = 20;

/// Says each mistake on a line of its own, and of many the first.
fn report_mistakes(mut mistakes: Vec<FileMistake>) -> RunExit {
    mistakes.sort();
    for mistake in mistakes.iter().take(MISTAKES) {
        report_error(mistake);
    }
    if let Some(more) = mistakes.len().checked_sub(MISTAKES).filter(|more| *more > 0) {
        report_error(&format!("and {more} more mistakes"));
    }
    RunExit::Open
}

/// The day by which suppressions end: that of `SOURCE_DATE_EPOCH` (reproducible-builds.org) where it is set, else
/// of the clock, both in UTC. No report holds it.
///
/// Errors: The variable is not a number of seconds, in words.
pub fn current_date() -> Result<NaiveDate, String> {
    let written = std::env::var("SOURCE_DATE_EPOCH").unwrap_or_default();
    // Empty counts as not set, as for every variable of the command line.
    let seconds: i64 = if written.is_empty() {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since
            .ok()
            .and_then(|since| i64::try_from(since.as_secs()).ok())
            .ok_or("the clock of this machine is before 1970")?
    } else {
        written.parse().map_err(|_malformed: std::num::ParseIntError| {
            format!("SOURCE_DATE_EPOCH is {written:?}: expected the seconds since 1970")
        })?
    };
    let time = DateTime::from_timestamp(seconds, 0);
    time.map(|time| time.date_naive())
        .ok_or_else(|| format!("SOURCE_DATE_EPOCH is {written:?}: no calendar reaches that far"))
}
