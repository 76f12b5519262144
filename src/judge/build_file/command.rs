//! Reads what a command of a RUN instruction installs, removes and deletes, by the table of build steps.

use super::paths::is_known;
use super::shell_steps::ShellCommand;
use super::stages::SHELLS;
use crate::knowledge::build_steps::{BuildStepTable, ManagerProgram};
use crate::knowledge::packages::PackageManager;
use crate::knowledge::patterns::matches_name_pattern;
use python_path::normal_name;

/// A package that a command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedPackage {
    /// Its name, without version, processor and extras.
    pub name: String,
    pub extras: Vec<String>,
    /// The word as written.
    pub word: String,
}

/// The effect of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CommandEffect {
    Nothing,
    Installs(Installation),
    /// Removes packages of a manager.
    Uninstalls(PackageManager, Vec<String>),
    /// Deletes these paths, as written.
    Deletes(Vec<String>),
    /// Deletes the files and folders with one of these names below the roots.
    DeletesFound {
        roots: Vec<String>,
        names: Vec<String>,
    },
    /// Runs the text of a script in a shell.
    Runs(String),
    /// Does something that the Dockerfile does not show. `may_install` if it may install packages.
    Unseen {
        why: String,
        may_install: bool,
    },
}

/// Packages to install.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Installation {
    pub manager: PackageManager,
    pub packages: Vec<NamedPackage>,
    /// The option or word that stands for packages which the Dockerfile does not show.
    pub hidden: Option<String>,
    /// The addresses of the indexes, each behind a blank.
    pub indexes: String,
    /// Whether the packages of the index are those of the table.
    pub is_known_index: bool,
    pub has_dependencies: bool,
}

/// Reads a simple command.
pub(super) fn read_command(command: &ShellCommand, table: &BuildStepTable) -> CommandEffect {
    let words = without_prefixes(&command.words, table);
    let Some((program, arguments)) = words.split_first() else {
        return unseen("runs a script that check cannot read");
    };
    for manager in &table.managers {
        let lengths = manager.calls.iter().filter_map(|call| matches_call(words, call));
        let rest = lengths.max().and_then(|length| words.get(length..));
        if let Some(effect) = rest.and_then(|rest| manager_effect(manager, rest, words)) {
            return effect;
        }
    }
    let has = |list: &[String]| list.iter().any(|call| matches_call(words, call).is_some());
    let name = program.rsplit('/').next().unwrap_or_default();
    if SHELLS.contains(&name) {
        shell_effect(arguments, command.input.as_deref())
    } else if has(&table.deleters) {
        let paths = arguments.iter().filter(|word| !word.starts_with('-'));
        CommandEffect::Deletes(paths.cloned().collect())
    } else if has(&table.searchers) {
        search_effect(arguments, table)
    } else if name == "xargs" && arguments.iter().any(|word| table.deleters.contains(word)) {
        found_names(command.reads_from.get(1..).unwrap_or_default())
    } else if has(&table.harmless) {
        CommandEffect::Nothing
    } else {
        unseen(&format!("runs {}", shown(words)))
    }
}

fn unseen(why: &str) -> CommandEffect {
    CommandEffect::Unseen {
        why: why.to_owned(),
        may_install: false,
    }
}

/// The first words of a command, for a message.
fn shown(words: &[String]) -> String {
    let first = words.first().map_or("", String::as_str);
    match words.get(1) {
        Some(second) if is_known(second) && second.len() <= 40 => format!("{first} {second}"),
        _ => first.to_owned(),
    }
}

/// The command behind programs such as `sudo`, which run it.
fn without_prefixes<'w>(words: &'w [String], table: &BuildStepTable) -> &'w [String] {
    let mut rest = words;
    while let Some((length, prefix)) = table
        .prefixes
        .iter()
        .find_map(|prefix| Some((matches_call(rest, &prefix.call)?, prefix)))
    {
        let mut operands_left = prefix.operands;
        let mut behind = rest.get(length..).unwrap_or_default();
        while let Some((word, more)) = behind.split_first() {
            if prefix.values.contains(word) {
                behind = more.get(1..).unwrap_or_default();
            } else if word.starts_with('-') || word.contains('=') {
                behind = more;
            } else if operands_left > 0 {
                operands_left -= 1;
                behind = more;
            } else {
                break;
            }
        }
        // Alone it only prints.
        if behind.is_empty() {
            break;
        }
        rest = behind;
    }
    rest
}

/// The number of words that a call takes, such as `python* -m pip`.
fn matches_call(words: &[String], call: &str) -> Option<usize> {
    let mut length = 0;
    for (number, pattern) in call.split(' ').enumerate() {
        let mut word = words.get(number)?.as_str();
        // The name of the program counts, not its folder.
        if number == 0 && !pattern.contains('/') {
            word = word.rsplit('/').next().unwrap_or_default();
        }
        if !matches_name_pattern(word.as_bytes(), pattern) {
            return None;
        }
        length = number + 1;
    }
    Some(length)
}

/// The value of an option in its own word, behind `=` or behind its letter, and the number of words behind it.
fn option_value<'w>(options: &[String], word: &'w str, behind: &'w [String]) -> Option<(&'w str, usize)> {
    for option in options {
        let rest = word.strip_prefix(option.as_str());
        match rest {
            Some("") => return Some((behind.first().map_or("", String::as_str), 1)),
            Some(rest) if rest.starts_with('=') => return Some((rest.trim_start_matches('='), 0)),
            Some(rest) if option.len() == 2 => return Some((rest, 0)),
            _ => {}
        }
    }
    None
}

/// The effect of a package manager on the words behind its call; `None` if no word says what it does.
fn manager_effect(manager: &ManagerProgram, arguments: &[String], words: &[String]) -> Option<CommandEffect> {
    let mut installation = Installation {
        manager: manager.manager,
        packages: Vec::new(),
        hidden: None,
        indexes: String::new(),
        is_known_index: true,
        has_dependencies: true,
    };
    let mut verb = None;
    let mut operands = Vec::new();
    let mut rest = arguments;
    while let Some((word, behind)) = rest.split_first() {
        let mut taken = 0;
        // dpkg and rpm have verbs with a hyphen.
        let may_be_verb = !word.starts_with('-') || manager.removes.contains(word) || manager.harmless.contains(word);
        if manager.dry_runs.contains(word) {
            return Some(CommandEffect::Nothing);
        } else if let Some((value, skipped)) = option_value(&manager.lists, word, behind) {
            installation
                .hidden
                .get_or_insert_with(|| format!("{word} {value}").trim_end().to_owned());
            taken = skipped;
        } else if let Some((value, skipped)) = option_value(&manager.indexes, word, behind) {
            let mut known = manager.known_indexes.iter();
            installation.is_known_index &= known.any(|own| matches_name_pattern(value.as_bytes(), own));
            installation.indexes.push(' ');
            installation.indexes.push_str(value);
            taken = skipped;
        } else if let Some((_, skipped)) = option_value(&manager.values, word, behind) {
            taken = skipped;
        } else if verb.is_none() && may_be_verb {
            verb = Some(word);
        } else if !word.starts_with('-') {
            operands.push(word.clone());
        }
        installation.is_known_index &= !manager
            .unknown_sources
            .iter()
            .any(|option| word.starts_with(option.as_str()));
        installation.has_dependencies &= !manager.alone.contains(word);
        rest = behind.get(taken..).unwrap_or_default();
    }
    let verb = verb?;
    if manager.harmless.contains(verb) {
        return Some(CommandEffect::Nothing);
    }
    if manager.removes.contains(verb) {
        return Some(CommandEffect::Uninstalls(manager.manager, operands));
    }
    if !manager.installs.contains(verb) {
        return Some(CommandEffect::Unseen {
            why: format!("runs {}", shown(words)),
            may_install: true,
        });
    }
    for word in operands {
        // A marker is a condition.
        if is_file_or_address(&word) || word.contains(';') {
            installation.hidden.get_or_insert(word);
        } else {
            installation.packages.push(named_package(installation.manager, word));
        }
    }
    Some(CommandEffect::Installs(installation))
}

/// Whether a word of an installation is a file, a folder, an address or a variable instead of a name.
fn is_file_or_address(word: &str) -> bool {
    let ends = [".whl", ".deb", ".rpm", ".tar.gz", ".zip"];
    !is_known(word)
        || word.starts_with('.')
        || word.contains("://")
        || (word.contains('/') && !word.contains("::"))
        || ends.iter().any(|end| word.ends_with(end))
}

/// The name in `cuda-cupti-12-4=12.4.127-1`, `libcupti12:amd64`, `jax[cuda12]>=0.4`, `conda-forge::cuda-cupti`.
fn named_package(manager: PackageManager, word: String) -> NamedPackage {
    let text = word.rsplit("::").next().unwrap_or_default();
    let name_end = text
        .find(['=', '<', '>', '~', '!', '[', ' ', ':', '@', ','])
        .unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(name_end).unwrap_or((text, ""));
    let bracketed = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let extras = bracketed.into_iter().flat_map(|(extras, _)| extras.split(','));
    NamedPackage {
        name: if manager == PackageManager::Pip {
            normal_name(name)
        } else {
            name.to_owned()
        },
        extras: extras.map(|extra| extra.trim().to_owned()).collect(),
        word,
    }
}

/// `find ROOT… -name PATTERN -delete`, or with `-exec rm`.
fn search_effect(arguments: &[String], table: &BuildStepTable) -> CommandEffect {
    let runs = arguments
        .iter()
        .position(|word| matches!(word.as_str(), "-exec" | "-execdir" | "-ok"));
    let program = runs.and_then(|at| arguments.get(at + 1));
    let is_listed = |list: &[String]| program.is_some_and(|program| list.contains(program));
    if arguments.iter().any(|word| word == "-delete") || is_listed(&table.deleters) {
        found_names(arguments)
    } else if program.is_none() || is_listed(&table.harmless) {
        CommandEffect::Nothing
    } else {
        unseen(&format!(
            "runs {} on what find finds",
            program.map_or("", String::as_str)
        ))
    }
}

/// The names that a walk of find deletes. Only those of `-name` and the like count.
fn found_names(arguments: &[String]) -> CommandEffect {
    let tests_start = arguments.iter().position(|word| word.starts_with(['-', '(', '!']));
    let roots = arguments
        .get(..tests_start.unwrap_or(arguments.len()))
        .unwrap_or_default();
    let mut names = Vec::new();
    let mut before = "";
    for pair in arguments.windows(2) {
        if let [test, value] = pair {
            let is_name = matches!(test.as_str(), "-name" | "-iname" | "-path" | "-ipath" | "-wholename");
            let is_regex = matches!(test.as_str(), "-regex" | "-iregex");
            if (is_name || is_regex) && !matches!(before, "!" | "-not") {
                let value = value.to_lowercase();
                names.push(if is_regex {
                    value.replace("\\.", ".").replace(".*", "*")
                } else {
                    value
                });
            }
            before = test;
        }
    }
    CommandEffect::DeletesFound {
        roots: if roots.is_empty() {
            vec![".".to_owned()]
        } else {
            roots.to_vec()
        },
        names,
    }
}

/// `sh -c TEXT`, `sh FILE`, or a script from the standard input.
fn shell_effect(arguments: &[String], input: Option<&str>) -> CommandEffect {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            return unseen(&format!("runs the script {word}"));
        }
        let is_cluster = !word.starts_with("--");
        // The last letter of a cluster decides: -c, -lc, -exc.
        if is_cluster && word.ends_with('c') {
            return words
                .next()
                .map_or(CommandEffect::Nothing, |text| CommandEffect::Runs(text.clone()));
        }
        if is_cluster && word.ends_with('o') {
            words.next();
        }
    }
    input.map_or_else(
        || unseen("runs a script from a pipe"),
        |text| CommandEffect::Runs(text.to_owned()),
    )
}
