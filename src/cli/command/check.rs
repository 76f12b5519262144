//! `check`: finds known traps in Dockerfiles and locks.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::cli::config::load::{current_date, fill_phases, load_project};
use crate::cli::option_values::{OutputFile, one_of};
use crate::cli::report_outputs::ReportOutputs;
use crate::cli::shared_args::{ColorArgs, ConfigArgs, DetailArgs, ReportArgs, key_value, trimmed};
use crate::cli::terminal::{CommandError, report_error};
use crate::judge::build_file::check_build_file;
use crate::judge::file_check::FileCheck;
use crate::judge::lock_file::{LOCK_BYTES, LockKind, check_lock};
use crate::judge::outcome::RunExit;
use crate::judge::rule::RuleQuestion;
use crate::judge::rule::suppression::SuppressionGate;
use crate::knowledge::Knowledge;
use crate::knowledge::user_folders::read_long_text_file;
use crate::report::pages::build_file::CheckedFiles;
use crate::report::text::TextDetail;
use crate::report::{BUILD_FILE_FORMATS, ReportFormat, report_writer};
use clap::Args;

const HELP: &str = "\
Finds known traps before a build: in a Dockerfile, such as a step that removes libcupti or a package without it; in a lock \
(uv.lock, poetry.lock, pdm.lock, pylock.toml, or requirements of pip-compile), a PyTorch without the packages that it links. \
In a directory, it checks the Dockerfiles and locks. It says nothing about steps that it does not understand; -v lists them.

Exit codes:
  0  no finding at or above --fail-on
  1  a finding at or above --fail-on
  2  an error, such as a file that is no Dockerfile

Examples:
  cupti-audit check Dockerfile uv.lock
  cupti-audit check --target runtime --phase training docker/Dockerfile
  cupti-audit check -o sarif=check.sarif .";

/// Find known traps for CUPTI in Dockerfiles and locks, before the build
#[derive(Debug, Args)]
#[command(after_help = HELP)]
#[command(mut_arg("format", |format| format.value_parser(one_of(BUILD_FILE_FORMATS))))]
#[command(mut_arg("outputs", |outputs| outputs.value_parser(|text: &str| OutputFile::parse(text, BUILD_FILE_FORMATS))))]
#[command(mut_arg("verbose", |verbose| verbose.help("Also list the steps that were not understood")))]
pub struct CheckArgs {
    /// Dockerfiles, locks, or directories with them; - is a Dockerfile on standard input
    #[arg(value_name = "PATH", default_value = "Dockerfile")]
    paths: Vec<String>,
    /// Stage that becomes the image [default: the last]
    #[arg(long, value_name = "STAGE")]
    target: Option<String>,
    /// Value of an ARG, as for docker build (repeatable)
    #[arg(long = "build-arg", value_name = "KEY=VALUE", value_parser = key_value)]
    build_args: Vec<(String, String)>,
    /// Purpose of the image: inference, training, profiling; decides how severe each finding is (repeatable)
    #[arg(long, short, value_name = "PHASE", env = "CUPTI_AUDIT_PHASE", value_delimiter = ',', value_parser = trimmed)]
    phase: Vec<String>,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    own: ConfigArgs,
    #[command(flatten)]
    color: ColorArgs,
    #[command(flatten)]
    output: DetailArgs,
}

/// The maximum size of a Dockerfile in bytes, a thousand times that of a long one.
const FILE_BYTES: usize = 1 << 20;

impl CheckArgs {
    /// Reports the known traps in the files.
    pub fn run(mut self) -> Result<RunExit, CommandError> {
        let (mut config, mut knowledge) = load_project(&self.own)?;
        knowledge.rules.retain(|rule| rule.answers(RuleQuestion::BuildFile));
        fill_phases(&mut self.phase, &config, &knowledge)?;
        let files = list_files(&self.paths)?;
        let mut checks = Vec::new();
        let mut is_whole = true;
        for file in &files {
            match self.check(file, &knowledge).map_err(|error| format!("{file}: {error}")) {
                Ok(check) => checks.push(check),
                Err(error) if files.len() == 1 => return Err(error.into()),
                // The answers on the others are of use.
                Err(error) => {
                    report_error(&error);
                    is_whole = false;
                }
            }
        }
        let today = current_date()?;
        config
            .suppress
            .retain(|suppression| knowledge.rule(&suppression.rule).is_some());
        let mut gate = SuppressionGate::new(&config.suppress, today);
        for check in &mut checks {
            for found in &mut check.findings {
                gate.mark_findings(&check.file, std::slice::from_mut(&mut found.finding));
            }
        }
        let fail_on = self.report.fail_on.or(config.fail_on).unwrap_or_default();
        let mut findings = checks.iter().flat_map(|check| &check.findings);
        let fails = findings.any(|found| fail_on.fails(&found.finding));
        let checked = CheckedFiles {
            files: &checks,
            fail_on,
            exit: match (is_whole, fails) {
                (false, _) => RunExit::Open,
                (true, true) => RunExit::Findings,
                (true, false) => RunExit::Clean,
            },
        };
        let inputs: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        let mut outputs = ReportOutputs::open(&self.report, &inputs, |format, place| {
            let layout = place.detailed_layout(&self.output);
            // -qq silences every format.
            let is_silent = layout.detail == TextDetail::Nothing;
            let format = if is_silent { ReportFormat::Text } else { format };
            report_writer(format, layout, fail_on, &knowledge)
        })?;
        outputs.write(|report| report.file_check(&checked));
        Ok(checked.exit.max(outputs.close()))
    }

    fn check(&self, file: &str, knowledge: &Knowledge) -> Result<FileCheck, String> {
        let text = read_file(file)?;
        if let Some(kind) = LockKind::of_file(file, &text) {
            return check_lock(kind, file, &text, knowledge, &self.phase);
        }
        if [".lock", ".toml", ".txt"].iter().any(|end| file.ends_with(end)) {
            return Err("it is not a lock of uv, Poetry, PDM, PEP 751 or pip-compile".to_owned());
        }
        if text.len() > FILE_BYTES {
            return Err(format!("it is larger than the limit of {FILE_BYTES} bytes"));
        }
        check_build_file(
            file,
            &text,
            self.target.as_deref(),
            &self.build_args,
            knowledge,
            &self.phase,
        )
    }
}

/// The files of the arguments; for a directory, its Dockerfiles and locks.
///
/// Errors: A directory that cannot be read or has none, in words.
#[expect(clippy::disallowed_methods, reason = "the user names the directory")]
fn list_files(paths: &[String]) -> Result<Vec<String>, String> {
    let mut files = Vec::new();
    for path in paths {
        if path == "-" || !Path::new(path).is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = fs::read_dir(path).map_err(|error| format!("{path}: {error}"))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_checked = |name: &String| is_build_file(name) || is_lock(&Path::new(path).join(name));
        let mut own: Vec<String> = names.filter(is_checked).collect();
        if own.is_empty() {
            return Err(format!(
                "{path}: the directory has no Dockerfile and no lock; name a file"
            ));
        }
        own.sort();
        let folder = path.trim_end_matches('/');
        files.extend(own.into_iter().map(|name| {
            if folder == "." {
                name
            } else {
                format!("{folder}/{name}")
            }
        }));
    }
    Ok(files)
}

/// Whether a file is a lock, by its name, or a list of requirements that a tool has made.
fn is_lock(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_list = name.starts_with("requirements") && path.extension().is_some_and(|end| end == "txt");
    let text = if is_list {
        read_long_text_file(path, LOCK_BYTES).unwrap_or_default()
    } else {
        String::new()
    };
    LockKind::of_file(name, &text).is_some()
}

/// Whether a file name is that of a Dockerfile, and not of a template or a text about it.
fn is_build_file(name: &str) -> bool {
    let others = [".dockerignore", ".j2", ".jinja", ".tmpl", ".template", ".in", ".md"];
    let is_named = |word: &str| {
        let rest = name.strip_prefix(word);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '_']))
    };
    let is_it = ["Dockerfile", "dockerfile", "Containerfile"].into_iter().any(is_named);
    (is_it || name.ends_with(".Dockerfile") || name.ends_with(".dockerfile"))
        && !others.iter().any(|end| name.ends_with(end))
}

/// The text of the file.
///
/// Errors: The file cannot be read, is too large, or is not text, in words.
fn read_file(file: &str) -> Result<String, String> {
    if file != "-" {
        let path = Path::new(file);
        let hint = if path.is_file() {
            ""
        } else {
            "; name the Dockerfile or the lock: cupti-audit check PATH"
        };
        return read_long_text_file(path, LOCK_BYTES).map_err(|mistake| format!("{}{hint}", mistake.what));
    }
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(LOCK_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > LOCK_BYTES) {
        return Err(format!("larger than {LOCK_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| format!("no text: {error}"))
}
