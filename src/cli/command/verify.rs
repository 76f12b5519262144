//! `verify`: audits the container of this process, then starts its command.
#![expect(
    clippy::disallowed_methods,
    reason = "what is asked about is this process and its host"
)]

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use super::audit::{AuditArgs, AuditQuestion, judge, prepare};
use crate::cli::shared_args::{
    AssumptionArgs, CacheArgs, ColorArgs, ConfigArgs, DetailArgs, GpuArgs, LimitArgs, PurposeArgs, ReadArgs,
    ReportArgs, StartArgs,
};
use crate::cli::terminal::{CommandError, report_warning};
use crate::facts::read_host_facts;
use crate::judge::image_reading::RunningContainer;
use crate::judge::outcome::RunExit;
use crate::knowledge::rule::RuleQuestion;
use crate::knowledge::shared_folders::SharedFolders;
use clap::Args;
use image_linkage::loader::CpuLevel;
use image_linkage::path::RootPath;
use image_linkage::rootfs::FileCredentials;
use image_source::ImageConfig;

const HELP: &str = "\
Audits the container that it runs in: its files and mounts, the environment, user and capabilities of this process, \
and what /proc and /dev show of the host. Of the mounts, it reads those in system directories such as /usr, and those that \
a variable, the working directory or the command leads to.

With a command, the audit is about that command. If the exit code would be 0, the command then replaces this process. \
Otherwise it is not started, except with --anyway.

Exit codes:
  0  no finding at or above --fail-on
  1  findings; the command was not started
  2  an error, or an open verdict; the command was not started
  After a start, the exit code is that of the command.

Examples:
  cupti-audit verify --phase training
  cupti-audit verify --phase profiling --tool ncu --format json
  cupti-audit verify --phase training -- python train.py";

/// Audit the running container and its host, then start a command
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct VerifyArgs {
    #[command(flatten)]
    purpose: PurposeArgs,
    #[command(flatten)]
    target: GpuArgs,
    /// Command to check; it is started if the check passes
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Start the command in any case
    #[arg(long)]
    anyway: bool,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    assumptions: AssumptionArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    start: StartArgs,
    #[command(flatten)]
    own: ConfigArgs,
    #[command(flatten)]
    color: ColorArgs,
    #[command(flatten)]
    output: DetailArgs,
}

/// `CAP_DAC_OVERRIDE` and `CAP_DAC_READ_SEARCH` (linux/capability.h): each permits reading every file.
const READS_ALL: u64 = 1 << 1 | 1 << 2;

impl VerifyArgs {
    /// Audits the container, and starts the command if nothing fails.
    pub fn run(self) -> Result<RunExit, CommandError> {
        let (command, anyway) = (self.command.clone(), self.anyway);
        if let (Some(program), Ok(path)) = (command.first(), env::var("PATH")) {
            check_program(program, &path)?;
        }
        let audited = audit_container(self);
        let Some((program, words)) = command.split_first() else {
            return audited;
        };
        match audited {
            Ok(exit) if exit != RunExit::Clean && !anyway => return Ok(exit),
            Err(error) if anyway => drop(error.report()),
            audited => drop(audited?),
        }
        // `exec` only returns on failure.
        let error = Command::new(program).args(words).exec();
        Err(format!("{program} cannot be started: {error}").into())
    }
}

/// Checks that a folder of `path` has the program, before an audit of minutes.
///
/// Errors: None has it, in words.
fn check_program(program: &str, path: &str) -> Result<(), String> {
    let is_there = program.contains('/') || env::split_paths(path).any(|folder| folder.join(program).exists());
    is_there
        .then_some(())
        .ok_or_else(|| format!("the command {program} is in no folder of PATH ({path}); check its spelling"))
}

fn audit_container(args: VerifyArgs) -> Result<RunExit, CommandError> {
    let command = args.command;
    let read = ReadArgs {
        limits: args.limits,
        start: args.start,
        own: args.own,
        color: args.color,
        cache: CacheArgs::disabled(),
        ..ReadArgs::default()
    };
    let mut args = AuditArgs {
        output: args.output,
        assumptions: args.assumptions,
        purpose: args.purpose,
        target: args.target,
        ..AuditArgs::of_images(vec!["rootfs:/".to_owned()], args.report, read)
    };
    let (knowledge, suppressions) = prepare(&mut args, RuleQuestion::Image)?;
    // Use this machine's level, because its loader does.
    args.read.start.cpu = args.read.start.cpu.or(Some(processor_level()));
    if is_host(&fs::read_to_string("/proc/1/comm").unwrap_or_default()) {
        report_warning(
            "this looks like a host and not like a container, and all of it is read; run it in the container: \
            kubectl exec POD -- cupti-audit verify, or docker exec",
        );
    }
    let container = running_container(&command, &knowledge.tables.shared_folders)?;
    let named: Vec<String> = container
        .passed_over
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    if !named.is_empty() && args.output.less.quiet == 0 {
        let named = named.join(", ");
        report_warning(&format!(
            "mounted folders that nothing here leads to are not read: {named}"
        ));
    }
    let question = AuditQuestion::Running(Box::new(container));
    judge(&args, &knowledge, &suppressions, &question)
}

/// Whether the first process is that of a booted system, and no engine left its mark.
fn is_host(first: &str) -> bool {
    let marks = ["/.dockerenv", "/run/.containerenv"];
    matches!(first.trim_end(), "systemd" | "init") && !marks.iter().any(|mark| Path::new(mark).exists())
}

fn running_container(command: &[String], shared: &SharedFolders) -> Result<RunningContainer, String> {
    let status = fs::read_to_string("/proc/self/status")
        .map_err(|error| format!("/proc/self/status cannot be read, and who this is is not known: {error}"))?;
    let variables = env::vars_os();
    let environment = variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let working_dir = env::current_dir().map(|folder| folder.display().to_string());
    let config = ImageConfig {
        env: environment.collect(),
        working_dir: working_dir.ok(),
        command: command.to_vec(),
        running: Some(own_credentials(&status)),
        ..ImageConfig::default()
    };
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let list = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    };
    Ok(RunningContainer {
        passed_over: passed_over(&mounts, &config, shared),
        host: read_host_facts(|path| fs::read_to_string(path).ok(), list),
        config,
    })
}

/// The credentials of this process according to the kernel (`proc_pid_status(5)`).
fn own_credentials(status: &str) -> FileCredentials {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().split_whitespace()
    };
    // Real, effective, saved and file system ids; the last follows the effective one.
    let numbers = |name: &str| -> Vec<u32> { field(name).filter_map(|word| word.parse().ok()).collect() };
    let pair = |name: &str| match numbers(name).as_slice() {
        [real, effective, ..] => (*real, *effective),
        _ => (0, 0),
    };
    let (real_user, uid) = pair("Uid:");
    let (real_group, gid) = pair("Gid:");
    let capabilities = field("CapEff:")
        .next()
        .and_then(|set| u64::from_str_radix(set, 16).ok());
    FileCredentials {
        uid,
        gid,
        groups: numbers("Groups:"),
        reads_all: capabilities.unwrap_or_default() & READS_ALL != 0,
        name: None,
        real: Some((real_user, real_group)).filter(|real| *real != (uid, gid)),
        no_new_privileges: field("NoNewPrivs:").next() == Some("1"),
    }
}

/// The mounted folders to skip, such as data sets and home directories. Mounts that the system, a variable or the
/// command uses are part of the container and are read.
fn passed_over(mounts: &str, config: &ImageConfig, shared: &SharedFolders) -> BTreeSet<PathBuf> {
    let leading = config
        .env
        .iter()
        .filter(|(name, _)| shared.leads(name))
        .flat_map(|(_, value)| value.split([':', ' ']));
    let words = config.command.iter().map(String::as_str);
    let used: Vec<&str> = leading.chain(words).chain(config.working_dir.as_deref()).collect();
    let is_used = |folder: &Path| {
        let is_own = shared.is_own(&RootPath::new(folder.as_os_str().as_bytes()));
        is_own || used.iter().any(|path| Path::new(path).starts_with(folder))
    };
    // The fifth field is the mount point (proc_pid_mountinfo(5)), with spaces in octal.
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(unescaped);
    let folders = places.map(PathBuf::from).filter(|place| place.is_dir());
    folders
        .filter(|folder| folder != Path::new("/") && !is_used(folder))
        .filter(|folder| {
            !["/proc", "/sys", "/dev"]
                .iter()
                .any(|kernels| folder.starts_with(kernels))
        })
        .collect()
}

fn unescaped(place: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(place.to_owned(), |place, (code, character)| {
            place.replace(code, character)
        })
}

/// The level that glibc detects on this processor (sysdeps/x86/isa-level.c); other architectures have no levels.
fn processor_level() -> CpuLevel {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            return CpuLevel::V4;
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return CpuLevel::V3;
        }
        if is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("popcnt") {
            return CpuLevel::V2;
        }
        CpuLevel::V1
    }
    #[cfg(not(target_arch = "x86_64"))]
    CpuLevel::V3
}

#[cfg(test)]
mod tests {
    use super::{check_program, own_credentials, passed_over};
    use crate::knowledge::Knowledge;
    use image_linkage::rootfs::FileCredentials;
    use image_source::ImageConfig;

    #[test]
    fn is_a_mistyped_command_found_before_the_audit() {
        let said = "the command shh is in no folder of PATH (/bin); check its spelling";
        assert_eq!(check_program("shh", "/bin"), Err(said.to_owned()));
        for program in ["sh", "./shh"] {
            assert_eq!(check_program(program, "/none:/bin"), Ok(()));
        }
    }

    #[test]
    fn the_kernel_says_who_this_process_is() {
        let status = "Name:\tx\nUid:\t1000\t1001\t1001\t1001\nGid:\t1000\t1000\t1000\t1000\nGroups:\t44 2000 \n\
                      NoNewPrivs:\t1\nCapEff:\t0000000000000004\n";
        let expected = FileCredentials {
            uid: 1001,
            gid: 1000,
            groups: vec![44, 2000],
            reads_all: true,
            name: None,
            real: Some((1000, 1000)),
            no_new_privileges: true,
        };
        assert_eq!(own_credentials(status), expected);
        assert!(!own_credentials("Uid:\t5\t5\t5\t5\nCapEff:\t0000000000200000\n").reads_all);
    }

    #[test]
    fn a_mounted_folder_is_read_where_something_leads_into_it() {
        // Not below /dev, which is never passed over.
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let at = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let [data, venv, code, spaced] = ["data", "venv", "code", "a b"].map(at);
        let mounts: Vec<String> = [&data, &venv, &code, &spaced.replace(' ', "\\040"), "/usr", "/proc", "/"]
            .iter()
            .map(|place| format!("36 35 98:0 / {place} rw - ext4 /dev/root rw"))
            .collect();
        let config = ImageConfig {
            env: vec![
                ("LD_LIBRARY_PATH".to_owned(), format!("/x:{venv}/lib")),
                ("DATA".to_owned(), data.clone()),
            ],
            command: vec!["python3".to_owned(), format!("{code}/train.py")],
            ..ImageConfig::default()
        };
        let over = passed_over(
            &mounts.join("\n"),
            &config,
            &Knowledge::built_in().tables.shared_folders,
        );
        let over: Vec<&str> = over.iter().filter_map(|path| path.to_str()).collect();
        let mut expected = [data.as_str(), spaced.as_str()];
        expected.sort_unstable();
        assert_eq!(over, expected);
    }
}
