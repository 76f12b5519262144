//! `fleet run`: audits one worker's share of a worklist.
#![expect(
    clippy::disallowed_methods,
    reason = "the engine says in the environment which share this is"
)]

use std::fmt::Write as _;

use super::super::audit::{AuditQuestion, ImageAuditor, RunPosition, prepare};
use super::named_files::read_work_entries;
use crate::cli::command::audit::AuditArgs;
use crate::cli::config::load::{current_date, data_files};
use crate::cli::image_reader::ImageReader;
use crate::cli::option_values::{FAIL_ON, one_of};
use crate::cli::progress::BarVisibility;
use crate::cli::shared_args::{DISPLAY, PurposeArgs, ReadArgs, ReportArgs};
use crate::cli::terminal::{CommandError, report_error, write_result};
use crate::fleet::{
    FleetFailure, FleetSettings, RESULTS, WorkEntry, WorkShare, document_name, failure_document, result_document,
};
use crate::judge::outcome::{FailOn, RunExit};
use crate::judge::rule::RuleQuestion;
use crate::judge::rule::suppression::{Suppression, SuppressionGate};
use crate::report::ReportWriter as _;
use crate::report::json::JsonReport;
use clap::Args;
use image_source::registry::RetryPolicy;
use image_source::{Digest, Platform};
use image_store::DocumentStore;

/// The outcomes of the images in a share.
#[derive(Default)]
struct ShareCounts {
    audited: usize,
    known: usize,
    failed: usize,
}

const HELP: &str = "\
All workers get the same worklist. A worker takes its share by the number that the batch system gives it: \
JOB_COMPLETION_INDEX (Kubernetes, with --shards), CLOUD_RUN_TASK_INDEX, SLURM_ARRAY_TASK_ID or \
AWS_BATCH_JOB_ARRAY_INDEX. Or name the share with --shard. Without any of these, all images are audited.

Images that have a result are skipped, so a killed run can be started again. Failures are recorded, and the next run tries them again. \
Workers that share a --cache-dir do not read a layer again that is in the cache.

Exit codes:
  0  each image of the share has a result, whatever its verdict; `fleet report` shows the verdicts
  2  an image has no result; run the command again

Examples:
  cupti-audit fleet list 'registry:reg.example/team/**' -o work.jsonl
  cupti-audit fleet run work.jsonl --out results --phase training
  cupti-audit fleet run work.jsonl --out /mnt/audits/nightly --shard 3/10
  sbatch --array=0-9 --wrap 'cupti-audit fleet run work.jsonl --out results --cache-dir cache'";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct FleetRunArgs {
    /// Worklist, which `fleet list` writes; - is standard input
    #[arg(value_name = "WORKLIST")]
    worklist: String,
    /// Directory for the results
    #[arg(long, value_name = "DIR", env = "CUPTI_AUDIT_FLEET_OUT")]
    out: String,
    /// Share of this worker, such as 3/10; the first is 1
    #[arg(long, value_name = "K/N", value_parser = WorkShare::parse)]
    shard: Option<WorkShare>,
    /// Number of workers [default: from the variables of the batch system]
    #[arg(long, value_name = "N", env = "CUPTI_AUDIT_SHARDS", value_parser = at_least_one)]
    shards: Option<usize>,
    #[command(flatten)]
    purpose: PurposeArgs,
    /// Lowest severity that fails an image [default: error]
    #[arg(long, value_name = "SEVERITY", value_parser = one_of(&FAIL_ON), env = "CUPTI_AUDIT_FAIL_ON")]
    fail_on: Option<FailOn>,
    #[command(flatten)]
    read: ReadArgs,
    /// Show no progress and no summary
    #[arg(long, short, overrides_with = "quiet", help_heading = DISPLAY)]
    quiet: bool,
}

impl FleetRunArgs {
    /// Audits each image of the share without a result.
    pub(super) fn run(self) -> Result<RunExit, CommandError> {
        let share = match self.shard {
            Some(share) => share,
            None => WorkShare::of_environment(&|name| std::env::var(name).ok(), self.shards)?,
        };
        let mut own = Vec::new();
        let all = read_work_entries(&self.worklist, |number, entry| {
            if share.takes(number) {
                own.push(entry);
            }
        })?;
        let store = DocumentStore::open(&self.out)?;
        let report = ReportArgs {
            fail_on: self.fail_on,
            ..ReportArgs::default()
        };
        let mut args = AuditArgs {
            purpose: self.purpose,
            ..AuditArgs::of_images(Vec::new(), report, self.read)
        };
        let (knowledge, suppressions) = prepare(&mut args, RuleQuestion::Image)?;
        agree_on_settings(&store, &settings(&args, &suppressions)?)?;
        let auditor = ImageAuditor {
            args: &args,
            knowledge: &knowledge,
            reader: ImageReader::new(&args.read, &knowledge, BarVisibility::with_quiet(self.quiet)),
            question: &AuditQuestion::Library,
            fail_on: args.report.fail_on.unwrap_or_default(),
            gate: SuppressionGate::new(&suppressions, current_date()?),
        };
        let mut worker = ShareWorker {
            auditor,
            store: &store,
            counts: ShareCounts::default(),
        };
        for entry in &own {
            worker.take(entry)?;
        }
        let ShareCounts { audited, known, failed } = worker.counts;
        let said = format!(
            "share {}: {audited} audited, {known} had a result, {failed} failed, of {} images\n",
            share.words(),
            all
        );
        let exit = if failed > 0 { RunExit::Open } else { RunExit::Clean };
        Ok(if self.quiet { exit } else { write_result(&said, exit) })
    }
}

/// All settings that affect a result besides its image.
fn settings(args: &AuditArgs, suppressions: &[Suppression]) -> Result<FleetSettings, CommandError> {
    let (start, limits) = (&args.read.start, &args.read.limits.limits);
    let mut own = String::new();
    // Include the built-in files, because builds between two releases have the same version.
    for file in data_files(&args.read.own)? {
        let _ = writeln!(own, "{:?} {} {}", file.kind, file.id, file.text);
    }
    for one in suppressions {
        let [image, path] = [&one.image, &one.path].map(|pattern| pattern.as_ref().map(ToString::to_string));
        let _ = writeln!(own, "{} {image:?} {path:?} {:?} {}", one.rule, one.until, one.reason);
    }
    let environment = start.environment.iter().map(|(name, value)| format!("{name}={value}"));
    let cpu = start.cpu.map(|cpu| format!("{cpu:?}"));
    // Retry settings do not affect a result.
    let limits = limits
        .iter()
        .filter(|limit| RetryPolicy::names().all(|name| name != limit.name))
        .map(|limit| format!("{}={}", limit.name, limit.value));
    let mut settings = FleetSettings::new();
    settings.phases.clone_from(&args.purpose.phase);
    settings.tools.clone_from(&args.purpose.tools);
    args.report
        .fail_on
        .unwrap_or_default()
        .name()
        .clone_into(&mut settings.fail_on);
    let overrides = start.overrides();
    let words = |option: &str, words: &Option<Vec<String>>| words.as_ref().map(|words| format!("{option} {words:?}"));
    let options = [
        words("--command", &overrides.command),
        words("--args", &overrides.arguments),
        overrides.user.map(|user| format!("--user {user}")),
        overrides.working_dir.map(|folder| format!("--workdir {folder}")),
        args.assumptions.strict.then(|| "--strict".to_owned()),
    ];
    let conditions = environment.chain(cpu).chain(limits);
    settings.conditions = conditions.chain(options.into_iter().flatten()).collect();
    settings.own_files = Digest::of(own.as_bytes()).to_string();
    Ok(settings)
}

/// Stores the settings if there are none, and compares them with the stored ones.
///
/// Errors: The place has results of an audit with other settings.
fn agree_on_settings(store: &DocumentStore, settings: &FleetSettings) -> Result<(), String> {
    let name = FleetSettings::NAME;
    let read = || store.read(name).map_err(|error| error.to_string());
    // Read first: a mount without atomic creation would let a worker overwrite them.
    let mut kept = read()?;
    if kept.is_none() {
        let made = store.create(name, &settings.document());
        made.map_err(|error| error.to_string())?;
        kept = read()?;
    }
    settings.compare(&kept.unwrap_or_default()).map_err(|what| {
        format!("the results there are of an audit that asked something else, and two kinds do not go together ({what}); name another --out")
    })
}

/// Audits images in sequence and stores the results.
struct ShareWorker<'a> {
    auditor: ImageAuditor<'a>,
    store: &'a DocumentStore,
    counts: ShareCounts,
}

impl ShareWorker<'_> {
    /// Ensures that an image has a result or a recorded failure.
    ///
    /// Errors: Nothing can be stored.
    fn take(&mut self, entry: &WorkEntry) -> Result<(), CommandError> {
        let name = document_name(RESULTS, &entry.digest, &entry.platform);
        if self.store.exists(&name)? {
            self.counts.known += 1;
            return Ok(());
        }
        let failure = document_name(FleetFailure::FOLDER, &entry.digest, &entry.platform);
        match self.audit(entry) {
            Ok(document) => {
                // If two workers audit the same image, the first result counts; both have the same bytes.
                self.store.create(&name, &document)?;
                self.store.remove(&failure)?;
                self.counts.audited += 1;
            }
            Err(error) => {
                report_error(&format!("{}: {error}", entry.image));
                self.store.replace(&failure, &failure_document(entry, &error))?;
                self.counts.failed += 1;
            }
        }
        Ok(())
    }

    fn audit(&mut self, entry: &WorkEntry) -> Result<Vec<u8>, String> {
        let platform = Platform::parse(&entry.platform)?;
        let names: Vec<&str> = entry.names.iter().map(String::as_str).collect();
        let audit = self
            .auditor
            .audit(&entry.image, &names, Some(&platform), RunPosition::Before)?;
        let found = audit.facts.image.digest.as_ref().map(ToString::to_string);
        // A layout's tag may have moved, unlike a registry's digest. The result would be stored under another image's
        // name.
        if found.as_deref() != Some(entry.digest.as_str()) {
            let found = found.unwrap_or_else(|| "none".to_owned());
            return Err(format!(
                "its digest is {found} now, and {} in the worklist",
                entry.digest
            ));
        }
        let report = JsonReport.audited(&audit);
        result_document(entry, report.trim_end())
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a number from 1 on".to_owned())
}
