//! The command line: what may be asked, and nothing of how it is answered.

mod command;
mod config;
#[doc(hidden)]
pub mod fuzz_entries;
mod interruption;
mod progress;

mod audit;
mod cache;
mod check;
mod diff;
mod dockerfile;
mod fleet;
mod links;
mod option_values;
mod profiles;
mod rules;
mod setup;
mod shared_args;
mod slim;
mod tools;
mod tree;
mod verify;
mod word_order;

use audit::AuditArgs;
use cache::CacheArgs;
use check::CheckArgs;
use diff::DiffArgs;
use dockerfile::DockerfileArgs;
use fleet::FleetArgs;
use links::LinksArgs;
use profiles::ProfilesArgs;
use rules::RulesArgs;
use setup::{CompletionsArgs, ConfigFileArgs, ManArgs, SchemaArgs};
use slim::SlimArgs;
use tools::{AdviseArgs, ProfilersArgs};
use tree::TreeArgs;
use verify::VerifyArgs;

use crate::judge::outcome::RunExit;
use clap::error::ErrorKind;
use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use image_source::REFERENCE_HELP;

const AFTER_HELP: &str = "\
Exit codes:
  0  no finding at or above --fail-on
  1  findings
  2  it could not be done, or something could not be checked and the verdict is open
  Of several images or platforms, each is audited, and the gravest code counts: 2 over 1 over 0.

A flag wins over its environment variable, and that over cupti-audit.yaml. An empty variable counts
as none. The config has suppressions besides: findings that are known, each with a reason.

Examples:
  cupti-audit nvidia/cuda:12.4.0-runtime-ubuntu22.04
  cupti-audit --phase profiling docker-daemon:trainer:latest
  cupti-audit -o sarif=out.sarif -o html=report.html docker-daemon:trainer:latest
  docker save trainer | cupti-audit --format json -
  cupti-audit tree pytorch/pytorch libtorch_cpu.so";

/// The commands that -h leaves to --help.
const RARE_COMMANDS: [&str; 8] = [
    "cache",
    "completions",
    "config",
    "fleet",
    "man",
    "profiles",
    "schema",
    "verify",
];

/// What -h has below the options, so that all of it stays on a screen.
const AFTER_SHORT_HELP: &str = "\
Images: NAME[:TAG] in a registry, docker-daemon:NAME, podman:NAME,
        docker-archive:FILE, oci:DIR, oci-archive:FILE, rootfs:DIR, or a path
Exit codes: 0 pass, 1 findings, 2 not done, or the verdict is open
Example: cupti-audit --phase training nvidia/cuda:12.4.0-runtime-ubuntu22.04
More commands: cache, completions, config, fleet, man, profiles, schema, verify";

/// The ways to name an image are said by the crate that reads them.
fn after_help() -> String {
    format!("{REFERENCE_HELP}\n\n{AFTER_HELP}")
}

/// Will CUPTI load in this container image, for whom, and if not, why?
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    long_about = "Will CUPTI, NVIDIA's profiling interface, load in this container image, for whom, and if not, why?\n\n\
                  The answer is worked out from the image's bytes, as the dynamic loader would: nothing is run, nothing is unpacked.",
    after_help = AFTER_SHORT_HELP,
    after_long_help = after_help(),
    arg_required_else_help = true,
    // Without a command the arguments are those of `audit`: `cupti-audit IMAGE` is what most people type.
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<CliCommand>,
    #[command(flatten)]
    audit: AuditArgs,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Audit images: the verdict, its reasons, who gets CUPTI
    #[command(after_help = AFTER_SHORT_HELP, after_long_help = after_help())]
    Audit(AuditArgs),
    /// Say what every program and library of an image lacks
    ///
    /// By the library that is missing, with who needs it.
    Links(LinksArgs),
    /// Say what a Dockerfile will not bring of CUPTI, before it is built
    Check(CheckArgs),
    /// Compare two images: bytes, CUPTI, who gets it, phases, findings
    Diff(DiffArgs),
    /// Show how the loader resolves an object of an image, step by step
    Tree(TreeArgs),
    /// Say which profiling tools would work in an image, and why not
    ///
    /// What each lacks, and what to take instead.
    Profilers(ProfilersArgs),
    /// Say without an image whether CUPTI is needed
    ///
    /// Which files, at what cost and where from.
    Advise(AdviseArgs),
    /// Write the Dockerfile by which an image serves a phase
    ///
    /// The smallest one, proven while it is built.
    // Boxed, as these have several times as many arguments as the others.
    Dockerfile(Box<DockerfileArgs>),
    /// Make an image that serves a phase, or without dead weight
    ///
    /// No container engine is needed for it.
    Slim(Box<SlimArgs>),
    /// Audit the container that this process runs in, with its host, and start a command
    Verify(Box<VerifyArgs>),
    /// Audit many images: list them, share them among workers, report on all
    Fleet(FleetArgs),
    /// Say what the cache of layers that were read holds, or empty it
    Cache(CacheArgs),
    /// List the rules, or explain one
    Rules(RulesArgs),
    /// List the phases, programs, tools and tables that are known, or print one
    Profiles(ProfilesArgs),
    /// Write a config for a project
    Config(ConfigFileArgs),
    /// Print the JSON Schema of a document in JSON
    Schema(SchemaArgs),
    /// Print the script by which a shell completes commands and options
    Completions(CompletionsArgs),
    /// Print a page of the manual
    Man(ManArgs),
}

/// Runs the command that the command line names; its outcome is the exit code.
pub fn run() -> RunExit {
    let cli = parse_command_line();
    interruption::watch_threads();
    interruption::watch_signals();
    let outcome = match cli.command {
        None => command::run_audit(cli.audit),
        Some(CliCommand::Audit(args)) => command::run_audit(args),
        Some(CliCommand::Links(args)) => command::run_links(args),
        Some(CliCommand::Check(args)) => command::run_check(args),
        Some(CliCommand::Diff(args)) => command::run_diff(args),
        Some(CliCommand::Tree(args)) => command::run_tree(args),
        Some(CliCommand::Profilers(args)) => command::run_profilers(args),
        Some(CliCommand::Advise(args)) => command::run_advise(&args),
        Some(CliCommand::Dockerfile(args)) => command::run_dockerfile(*args),
        Some(CliCommand::Slim(args)) => command::run_slim(*args),
        Some(CliCommand::Verify(args)) => command::run_verify(*args),
        Some(CliCommand::Fleet(args)) => command::run_fleet(args),
        Some(CliCommand::Cache(args)) => command::run_cache(args),
        Some(CliCommand::Rules(args)) => command::run_rules(&args),
        Some(CliCommand::Profiles(args)) => command::run_profiles(&args),
        Some(CliCommand::Config(args)) => command::run_config(&args),
        Some(CliCommand::Schema(args)) => Ok(command::run_schema(&args)),
        Some(CliCommand::Completions(args)) => Ok(command::run_completions(&args, Cli::command())),
        Some(CliCommand::Man(args)) => command::run_man(&args, Cli::command()),
    };
    outcome.unwrap_or_else(command::CommandError::report)
}

/// Reads the command line and the environment; does not return where they ask for help or are wrong.
#[expect(clippy::disallowed_methods, reason = "the environment belongs to the command line")]
fn parse_command_line() -> Cli {
    // What a CI system passes on without having it is empty.
    let without_empty = |arg: Arg| {
        let value = arg.get_env().and_then(std::env::var_os);
        match value {
            Some(value) if value.is_empty() => arg.env(None::<&str>),
            _ => arg,
        }
    };
    let given: Vec<_> = std::env::args_os().collect();
    // The names of the variables would make -h twice as long; --help has them.
    let brief = given.iter().any(|argument| argument == "-h") || given.len() == 1;
    let is_long_version = given.iter().any(|argument| argument == "--version");
    let adjust = |arg: Arg| without_empty(arg).hide_env(brief);
    // The end of -h says what an image is.
    let adjust_own = |arg: Arg| {
        let is_hidden = arg.is_hide_set() || (brief && arg.is_positional());
        adjust(arg).hide(is_hidden)
    };
    // By hand, as the derive cannot leave a variable out for its value.
    let mut command = Cli::command()
        .mut_args(adjust_own)
        .mut_subcommands(|command| command.mut_args(adjust))
        // What one needs once in a while would push the options off the screen.
        .mut_subcommands(|command| {
            let is_rare = RARE_COMMANDS.contains(&command.get_name());
            command.hide(brief && is_rare)
        });
    let arguments = match word_order::command_first(&command, given) {
        Ok(arguments) => arguments,
        Err(error) => command.error(ErrorKind::InvalidSubcommand, error).exit(),
    };
    let parsed = command.try_get_matches_from(arguments);
    parsed
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .unwrap_or_else(|error| {
            if error.kind() == ErrorKind::DisplayVersion && is_long_version {
                command::show_version();
            }
            command::refuse_arguments(error)
        })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
