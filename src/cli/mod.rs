//! The command line: it parses the arguments and starts the commands.

mod command;
mod config;
#[doc(hidden)]
pub mod fuzz_entries;
mod harmless_text;
mod image_reader;
mod interruption;
mod option_values;
mod output_file;
mod progress;
mod report_outputs;
mod shared_args;
mod terminal;
mod word_order;

use command::Cli;
use terminal::{CommandError, refuse_arguments, report_error, write_result};

use crate::judge::outcome::RunExit;
use crate::knowledge::{built_in_releases, knowledge_date};
use anstream::ColorChoice;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, CommandFactory as _, FromArgMatches as _};
use image_linkage::escape;
use std::collections::BTreeSet;
use std::ffi::OsString;

/// The commands that -h omits; --help lists them.
const RARE_COMMANDS: [&str; 9] = [
    "cache",
    "completions",
    "config",
    "fleet",
    "man",
    "profiles",
    "rules",
    "schema",
    "verify",
];

/// Runs the command; its result is the exit code.
pub fn run() -> RunExit {
    let cli = parse_command_line();
    interruption::watch_threads();
    interruption::watch_signals();
    cli.run().unwrap_or_else(CommandError::report)
}

/// Parses the command line and the environment. Does not return if they are invalid or ask for help.
#[expect(clippy::disallowed_methods, reason = "the environment belongs to the command line")]
fn parse_command_line() -> Cli {
    // CI systems pass a missing variable as an empty one.
    let without_empty = |arg: Arg| {
        let value = arg.get_env().and_then(std::env::var_os);
        match value {
            Some(value) if value.is_empty() => arg.env(None::<&str>),
            _ => arg,
        }
    };
    let given: Vec<_> = std::env::args_os().collect();
    if let Some(error) = mistyped_variable(&Cli::command(), std::env::vars_os().map(|(name, _)| name)) {
        report_error(&error);
        std::process::exit(RunExit::Open as i32);
    }
    // Variable names would double the length of -h; --help has them.
    let brief = given.iter().any(|argument| argument == "-h") || given.len() == 1;
    let is_long_version = given
        .iter()
        .any(|argument| argument == "--version" || argument == "-v" || argument == "-Vv");
    let adjust = |arg: Arg| without_empty(arg).hide_env(brief);
    // The end of -h describes images.
    let adjust_own = |arg: Arg| {
        let is_hidden = arg.is_hide_set() || (brief && arg.is_positional());
        adjust(arg).hide(is_hidden)
    };
    // Built by hand, because the derive cannot ignore a variable depending on its value.
    let mut command = Cli::command()
        .mut_args(adjust_own)
        .mut_subcommands(|command| command.mut_args(adjust).mut_subcommands(|inner| inner.mut_args(adjust)))
        // Rare commands would push the options off the screen.
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
        .inspect(choose_colors)
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .unwrap_or_else(|error| {
            if error.kind() == ErrorKind::DisplayVersion && is_long_version {
                let exit = write_result(&version_text(), RunExit::Clean);
                std::process::exit(exit as i32);
            }
            refuse_arguments(error)
        })
}

/// An error for a variable whose name differs from a known one by one or two letters: it would be ignored.
fn mistyped_variable(command: &Command, mut given: impl Iterator<Item = OsString>) -> Option<String> {
    let mut known = BTreeSet::new();
    collect_variables(command, &mut known);
    given.find_map(|name| {
        let name = name.to_str().filter(|name| name.starts_with("CUPTI_AUDIT_"))?;
        // Kubernetes sets it for a Service named cupti-audit.
        let is_free = known.contains(name) || name == "CUPTI_AUDIT_PORT";
        let is_near = |known: &&String| strsim::damerau_levenshtein(known, name) <= 2;
        let meant = known.iter().find(is_near).filter(|_| !is_free);
        let shown = escape::escape_bytes(name.as_bytes());
        match (meant, setting_without_variable(command, name)) {
            _ if is_free => None,
            (Some(meant), _) => Some(format!("there is no variable {shown}; did you mean {meant}?")),
            (None, setting) => Some(format!("there is no variable {shown}; {}", setting?)),
        }
    })
}

/// Where to set what the name of a variable promises: an option, or a key of the config.
fn setting_without_variable(command: &Command, variable: &str) -> Option<String> {
    let name = variable
        .strip_prefix("CUPTI_AUDIT_")?
        .to_ascii_lowercase()
        .replace('_', "-");
    let mut options = command.get_arguments().filter_map(Arg::get_long);
    match name.as_str() {
        "suppress" => Some("suppress is a key of cupti-audit.yaml".to_owned()),
        name => options
            .find(|long| *long == name)
            .map(|long| format!("--{long} is an option")),
    }
}

fn collect_variables(command: &Command, known: &mut BTreeSet<String>) {
    let variables = command.get_arguments().filter_map(Arg::get_env);
    known.extend(variables.map(|name| name.to_string_lossy().into_owned()));
    for part in command.get_subcommands() {
        collect_variables(part, known);
    }
}

/// Applies the `--color` of the chosen command before any output.
fn choose_colors(matches: &ArgMatches) {
    if let Ok(Some(true)) = matches.try_get_one::<bool>("no_color") {
        ColorChoice::Never.write_global();
    } else if let Ok(Some(when)) = matches.try_get_one::<ColorChoice>("color") {
        // anstream itself checks the terminal and NO_COLOR.
        when.write_global();
    }
    if let Some((_, of_command)) = matches.subcommand() {
        choose_colors(of_command);
    }
}

/// The version, the commit, the build target, and how new the knowledge is.
fn version_text() -> String {
    let commit = option_env!("CUPTI_AUDIT_COMMIT").unwrap_or("not known");
    let releases = built_in_releases();
    // The versions are sorted, oldest first.
    let newest = releases.versions_for("x86_64").pop().unwrap_or_default();
    format!(
        "{} {}\ncommit: {commit}\ntarget: {}\nknowledge: {}, up to CUPTI {newest}\n",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_VERSION"),
        env!("CUPTI_AUDIT_TARGET"),
        knowledge_date(),
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn is_a_variable_that_is_nearly_one_refused() {
        let said = |name: &str| super::mistyped_variable(&super::Cli::command(), [name.into()].into_iter());
        for (name, meant) in [
            ("PHASES", "PHASE"),
            ("FAILON", "FAIL_ON"),
            ("RULE", "RULES"),
            ("OUTPUTS", "OUTPUT"),
        ] {
            let expected = format!("there is no variable CUPTI_AUDIT_{name}; did you mean CUPTI_AUDIT_{meant}?");
            assert_eq!(said(&format!("CUPTI_AUDIT_{name}")), Some(expected));
        }
        for (name, setting) in [
            ("SUPPRESS", "suppress is a key of cupti-audit.yaml"),
            ("USER", "--user is an option"),
        ] {
            let expected = format!("there is no variable CUPTI_AUDIT_{name}; {setting}");
            assert_eq!(said(&format!("CUPTI_AUDIT_{name}")), Some(expected));
        }
        for name in [
            "PHASE",
            "SERVICE_HOST",
            "SERVICE_PORT",
            "PORT",
            "PORT_80_TCP",
            "PORT_80_TCP_ADDR",
        ] {
            assert_eq!(said(&format!("CUPTI_AUDIT_{name}")), None);
        }
    }

    /// The commands with an option, each with its parents.
    fn commands_with(option: &str, command: &clap::Command, name: &str) -> Vec<String> {
        let is_there = command.get_arguments().any(|arg| arg.get_long() == Some(option));
        let own = is_there.then(|| name.to_owned());
        let parts = command.get_subcommands().flat_map(|part| {
            let name = format!("{name} {}", part.get_name());
            commands_with(option, part, name.trim_start())
        });
        own.into_iter().chain(parts).collect()
    }

    #[test]
    fn has_each_command_only_options_that_change_something() {
        let audits = "audit links diff tree profilers dockerfile slim";
        for (option, expected) in [
            ("verbose", " audit links tree verify".to_owned()),
            (
                "quiet",
                " audit links check diff tree profilers dockerfile slim verify fleet list fleet run".to_owned(),
            ),
            ("platform", format!(" {audits} fleet list")),
            ("insecure-registry", format!(" {audits} fleet list fleet run")),
            ("limit", format!(" {audits} verify fleet list fleet run")),
            ("no-cache", format!(" {audits} fleet run")),
            ("user", format!(" {audits} verify fleet run")),
        ] {
            assert_eq!(
                commands_with(option, &super::Cli::command(), "").join(" "),
                expected,
                "{option}"
            );
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
