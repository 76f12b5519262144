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

use command::Cli;
use shared_args::RARE_COMMANDS;
use terminal::{CommandError, refuse_arguments, report_error, write_result};

use crate::judge::outcome::RunExit;
use crate::knowledge::{built_in_releases, knowledge_date};
use anstream::ColorChoice;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, CommandFactory as _, FromArgMatches as _};

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
    let parsed = command.try_get_matches_from_mut(given);
    parsed
        .inspect(choose_colors)
        .inspect(|matches| refuse_late_command(&command, matches))
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .unwrap_or_else(|error| {
            if error.kind() == ErrorKind::DisplayVersion && is_long_version {
                let exit = write_result(&version_text(), RunExit::Clean);
                std::process::exit(exit as i32);
            }
            refuse_arguments(&error)
        })
}

/// Exits with an error if an image is called like a command. A command is recognised only in front of options and
/// images: `-q slim app` would audit an image named slim.
fn refuse_late_command(command: &Command, matches: &ArgMatches) {
    let mut images = matches.get_many::<String>("images").into_iter().flatten();
    if let Some(name) = images.find(|image| command.find_subcommand(image).is_some()) {
        let words = format!("the command comes first: cupti-audit {name} …; an image of that name is docker://{name}");
        std::process::exit(report_error(&words) as i32);
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
            ("verbose", " audit links check tree verify".to_owned()),
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
