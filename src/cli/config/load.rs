//! The project's config and the user's rules and profiles, which every command loads first.
#![expect(
    clippy::disallowed_methods,
    reason = "the command line reads the clock and the environment"
)]

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cli::config::{ConfigFile, ProjectConfig, locate};
use crate::cli::shared_args::{ConfigArgs, ReadArgs, fill_list};
use crate::cli::terminal::report_error;
use crate::judge::outcome::RunExit;
use crate::knowledge::data_files::built_in_files;
use crate::knowledge::known_errors::KnownErrors;
use crate::knowledge::user_folders::UserFolders;
use crate::knowledge::{DataFile, FileMistake, Knowledge};
use chrono::{DateTime, NaiveDate};

/// Reads the config; empty if there is none.
fn read_config(args: &ConfigArgs) -> Result<ConfigFile, FileMistake> {
    let found = || locate::find_config(&std::env::current_dir().ok()?);
    let read = match &args.config {
        // First, because `--no-config` also overrides `CUPTI_AUDIT_CONFIG`.
        _ if args.no_config => None,
        Some(path) => Some(locate::read_config(path, None)),
        None => found().map(|found| locate::read_config(&from_here(&found.file), Some(&found.within))),
    };
    read.unwrap_or_else(|| Ok(ConfigFile::default()))
}

/// The path relative to the working directory if it is below it.
fn from_here(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).to_owned()
}

/// Reads the config and all rules and profiles, and checks the config's names against them.
///
/// Errors: All mistakes were reported.
pub fn load_project(args: &ConfigArgs) -> Result<(ProjectConfig, Knowledge), RunExit> {
    let file = read_config(args).map_err(|mistake| report_mistakes(vec![mistake]))?;
    let UserFolders { files, mut mistakes } = user_folders(args, &file.config);
    // Report the mistakes of folders and files together, so that one run shows all.
    let knowledge = Knowledge::with_user_files(files).map_err(|more| mistakes.extend(more));
    match knowledge {
        Ok(knowledge) if mistakes.is_empty() => match file.check_names(&knowledge) {
            Ok(()) => Ok((file.config, knowledge)),
            Err(mistake) => Err(report_mistakes(vec![mistake])),
        },
        _ => Err(report_mistakes(mistakes)),
    }
}

/// Does the same for a command that reads images, and fills its open image options.
///
/// Errors: All mistakes were reported.
pub fn load_for_images(args: &mut ReadArgs) -> Result<(ProjectConfig, Knowledge), RunExit> {
    let (config, knowledge) = load_project(&args.own)?;
    args.fill(&config);
    Ok((config, knowledge))
}

/// Fills the phases of the image.
///
/// Errors: Unknown phases, which were all reported.
pub fn fill_phases(given: &mut Vec<String>, config: &ProjectConfig, knowledge: &Knowledge) -> Result<(), RunExit> {
    fill_list(given, &config.phases);
    let strange = given.iter().filter_map(|name| knowledge.phase(name).err());
    let mut checked = Ok(());
    for error in strange {
        checked = Err(report_error(&error));
    }
    checked
}

/// The files in the folders of the command line or the config.
fn user_folders(args: &ConfigArgs, config: &ProjectConfig) -> UserFolders {
    let (mut rules, mut profiles) = (args.rules.clone(), args.profiles.clone());
    fill_list(&mut rules, &config.rules);
    fill_list(&mut profiles, &config.profiles);
    let mut folders = UserFolders::default();
    for folder in &rules {
        folders.add_rules(folder);
    }
    for folder in &profiles {
        folders.add_profiles(folder);
    }
    folders
}

/// All data files, the built-in ones before the user's, after checking them.
///
/// Errors: All mistakes were reported.
pub fn data_files(args: &ConfigArgs) -> Result<Vec<DataFile>, RunExit> {
    let (config, _) = load_project(args)?;
    Ok(all_files(args, &config))
}

fn all_files(args: &ConfigArgs, config: &ProjectConfig) -> Vec<DataFile> {
    built_in_files().chain(user_folders(args, config).files).collect()
}

/// The knowledge, and the known errors, which no audit needs.
///
/// Errors: All mistakes were reported.
pub fn load_with_errors(args: &ConfigArgs) -> Result<(Knowledge, KnownErrors), RunExit> {
    let (config, knowledge) = load_project(args)?;
    let errors = KnownErrors::read(&all_files(args, &config), &knowledge.rule_ids()).map_err(report_mistakes)?;
    Ok((knowledge, errors))
}

/// The maximum number of mistakes reported in one run.
const MISTAKES: usize = 20;

/// Reports the first mistakes, one per line.
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

/// The date for expiring suppressions: `SOURCE_DATE_EPOCH` (reproducible-builds.org) if set, otherwise the current
/// date, both in UTC. No report contains it.
///
/// Errors: The variable is not a number of seconds, in words.
pub fn current_date() -> Result<NaiveDate, String> {
    let written = std::env::var("SOURCE_DATE_EPOCH").unwrap_or_default();
    // Empty means unset, as for every variable of the command line.
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
