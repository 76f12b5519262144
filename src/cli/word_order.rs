//! Finds the command in a command line, wherever it is among the options.

use std::ffi::OsString;
use std::path::Path;

use clap::{Arg, Command};

/// The parser's own command.
const HELP: &str = "help";
/// The command whose words are pasted text.
const EXPLAIN: &str = "explain";
/// Commands of other tools, with the equivalent here. None is the name of an official Docker Hub image.
const FOREIGN_COMMANDS: [(&str, &str); 9] = [
    ("analyze", "\"audit\" is one"),
    ("fix", "\"dockerfile\" and \"slim\" write a fixed image"),
    ("image", "\"audit\" is one"),
    ("inspect", "\"audit\" is one"),
    ("pull", "\"audit\" is one"),
    ("scan", "\"audit\" is one"),
    ("test", "\"audit\" is one"),
    ("update", "install a newer release"),
    ("version", "--version prints the version"),
];

/// Moves the command to the front, so that `-q slim IMAGE` works like `slim -q IMAGE`. Without a command the arguments
/// are for `audit`.
///
/// Errors: The first word is similar to a command, a later image is called like one, or an option lacks a dash; the
/// message suggests a correction.
pub fn command_first(command: &Command, mut arguments: Vec<OsString>) -> Result<Vec<OsString>, String> {
    if let Some(option) = arguments
        .iter()
        .find_map(|argument| one_dash(command, argument.to_str()?))
    {
        return Err(option);
    }
    let words = words(command, &arguments);
    let Some(place) = words.first().copied() else {
        return Ok(arguments);
    };
    let is_named = |place: &&usize| {
        let word = arguments.get(**place).and_then(|word| word.to_str());
        word.is_some_and(|word| is_command(command, word) && !Path::new(word).exists())
    };
    if let Some(late) = words.iter().find(is_named).filter(|late| **late != place)
        && !words.first().iter().any(is_named)
        && let Some(name) = arguments.get(*late).and_then(|word| word.to_str())
    {
        return Err(format!(
            "{name} is a command and comes before the image: cupti-audit {name} IMAGE (for an image of that name: docker://{name})"
        ));
    }
    let word = arguments.remove(place);
    if let Some(text) = word.to_str()
        && !is_command(command, text)
        && let Some(meant) = meant_command(command, text)
    {
        return Err(format!(
            "{text} is no command; {meant} (for an image of that name: docker://{text})"
        ));
    }
    if word == HELP {
        // `help -h` asks for the same as `help`.
        arguments.retain(|argument| argument != "-h" && argument != "--help");
    }
    if word == EXPLAIN {
        arguments = text_last(arguments);
    }
    let is_front = word.to_str().is_some_and(|text| is_command(command, text));
    arguments.insert(if is_front { 1 } else { place }, word);
    Ok(arguments)
}

/// Moves text that begins with a hyphen behind `--`, where nothing is an option. No option has a blank in its name.
fn text_last(arguments: Vec<OsString>) -> Vec<OsString> {
    let is_text = |argument: &OsString| {
        let name = argument.to_str().and_then(|text| text.split('=').next());
        name.is_some_and(|name| name.starts_with('-') && name.contains(' '))
    };
    let (texts, mut others): (Vec<_>, Vec<_>) = arguments.into_iter().partition(is_text);
    if !texts.is_empty() && !others.iter().any(|argument| argument == "--") {
        others.push("--".into());
    }
    others.extend(texts);
    others
}

/// Whether a word is a command, including the parser's unlisted one.
fn is_command(command: &Command, word: &str) -> bool {
    word == HELP || command.find_subcommand(word).is_some()
}

/// The positions of the arguments that are neither options nor values of one.
fn words(command: &Command, arguments: &[OsString]) -> Vec<usize> {
    let (mut words, mut is_value) = (Vec::new(), false);
    for (place, argument) in arguments.iter().enumerate().skip(1) {
        if std::mem::take(&mut is_value) {
            continue;
        }
        match argument.to_str() {
            // After `--`, every argument is an image.
            Some("--") => break,
            Some(option) if option.len() > 1 && option.starts_with('-') => is_value = waits_for_value(command, option),
            _ => words.push(place),
        }
    }
    words
}

/// The error for a long option with one dash, such as `-phase`, which would be read as `-p hase`.
fn one_dash(command: &Command, argument: &str) -> Option<String> {
    let name = argument.strip_prefix('-')?.split('=').next()?;
    let is_option = command.get_arguments().any(|arg| arg.get_long() == Some(name));
    (is_option && name.len() > 1).then(|| format!("a long option has two dashes; is --{name} meant?"))
}

/// Whether the next argument is the value of this option, which may belong to any command.
fn waits_for_value(command: &Command, option: &str) -> bool {
    let takes = |wanted: &dyn Fn(&Arg) -> bool| {
        let commands = std::iter::once(command).chain(command.get_subcommands());
        let mut options = commands.flat_map(Command::get_arguments);
        options.any(|arg| wanted(arg) && arg.get_action().takes_values() && !arg.is_require_equals_set())
    };
    match option.strip_prefix("--") {
        Some(long) => takes(&|arg| arg.get_long() == Some(long)),
        // In a cluster such as `-qo FILE`, the first letter with a value takes the rest.
        None => option.char_indices().skip(1).any(|(at, letter)| {
            at + letter.len_utf8() == option.len() && takes(&|arg| arg.get_short() == Some(letter))
        }),
    }
}

/// The suggestion for a word that is similar to a command, a part of one, or a command of another tool.
fn meant_command(command: &Command, word: &str) -> Option<String> {
    // A name with a registry, tag or folder, or of an existing file, is an image.
    if word.contains(['/', ':', '@', '.']) || Path::new(word).exists() {
        return None;
    }
    let slip = |name: &str| {
        let allowed = if name.len() > 5 { 2 } else { 1 };
        strsim::damerau_levenshtein(name, word) <= allowed
    };
    let parts = command.get_subcommands().flat_map(|parent| {
        let parts = parent.get_subcommands().filter(|part| part.get_name() == word);
        parts.map(|part| format!("{} {}", parent.get_name(), part.get_name()))
    });
    let near = command
        .get_subcommands()
        .map(Command::get_name)
        .chain([HELP])
        .filter(|name| slip(name));
    let meant = near.map(str::to_owned).chain(parts).next();
    let foreign = FOREIGN_COMMANDS.iter().find(|(foreign, _)| *foreign == word);
    let meant = meant.map(|meant| format!("{meant:?} is one"));
    meant.or_else(|| foreign.map(|(_, meant)| (*meant).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::command_first;
    use clap::CommandFactory as _;

    fn ordered(line: &str) -> String {
        let arguments = std::iter::once("cupti-audit").chain(line.split(' '));
        match command_first(
            &crate::cli::command::Cli::command(),
            arguments.map(Into::into).collect(),
        ) {
            Ok(arguments) => arguments[1..]
                .join(" ".as_ref())
                .into_string()
                .expect("it came from a string"),
            Err(error) => error,
        }
    }

    #[test]
    fn where_may_a_command_stand() {
        let same = [
            "app",
            "--phase training app",
            "-o json=x app",
            "-- dockerfile",
            "-",
            "tree app libcupti.so.12",
            "help slim",
            "slim app tree",
        ];
        for line in same {
            assert_eq!(ordered(line), line);
        }
        let moved = [
            ("-q dockerfile x --phase training", "dockerfile -q x --phase training"),
            ("--phase training slim x", "slim --phase training x"),
            ("-vo out slim x", "slim -vo out x"),
            ("--with-builder dockerfile x", "dockerfile --with-builder x"),
            ("--cloudbuild dockerfile x", "dockerfile --cloudbuild x"),
            ("-q help slim", "help -q slim"),
        ];
        for (line, expected) in moved {
            assert_eq!(ordered(line), expected);
        }
    }

    #[test]
    fn may_pasted_text_begin_with_a_hyphen() {
        let words = ["cupti-audit", "explain", "- CUPTI: missing", "--format", "json"];
        let ordered = command_first(&crate::cli::command::Cli::command(), words.map(Into::into).to_vec());
        let expected = ["cupti-audit", "explain", "--format", "json", "--", "- CUPTI: missing"];
        assert_eq!(ordered, Ok(expected.map(Into::into).to_vec()));
    }

    #[test]
    fn does_help_take_the_flag_for_help() {
        assert_eq!(ordered("help -h"), "help");
        assert_eq!(ordered("help slim --help"), "help slim");
        assert_eq!(ordered("slim --help"), "slim --help");
    }

    #[test]
    fn is_a_mistyped_command_taken_for_an_image() {
        let refused = [
            (
                "dockerfil x",
                "dockerfil is no command; \"dockerfile\" is one (for an image of that name: docker://dockerfil)",
            ),
            (
                "scan x",
                "scan is no command; \"audit\" is one (for an image of that name: docker://scan)",
            ),
            (
                "-q app tree libcupti.so.12",
                "tree is a command and comes before the image: cupti-audit tree IMAGE (for an image of that name: docker://tree)",
            ),
            ("-phase training x", "a long option has two dashes; is --phase meant?"),
            (
                "-q prune x",
                "prune is no command; \"cache prune\" is one (for an image of that name: docker://prune)",
            ),
        ];
        for (line, expected) in refused {
            assert_eq!(ordered(line), expected);
        }
        for line in ["ubuntu", "tree:1", "rule/x", "src"] {
            assert_eq!(ordered(line), line);
        }
    }
}
