//! Reads what a command of a RUN instruction does to the packages and files of a stage, by the table of build steps.

use super::shell_steps::ShellWord;
use super::stages::SHELLS;
use crate::knowledge::build_steps::{BuildStepTable, ManagerProgram};
use crate::knowledge::packages::PackageManager;
use crate::knowledge::patterns::matches_name_pattern;

/// A package that a command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedPackage {
    /// Its name, without version, processor and extras.
    pub name: String,
    pub extras: Vec<String>,
    pub word: ShellWord,
}

/// The effect of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CommandEffect {
    Nothing,
    Installs(Installation),
    Uninstalls(Removal),
    /// Deletes these paths, as written.
    Deletes {
        paths: Vec<ShellWord>,
        is_recursive: bool,
    },
    /// Deletes what a walk through these folders finds: only files and folders of these names if there are any.
    DeletesFound {
        roots: Vec<ShellWord>,
        names: Vec<String>,
    },
    /// Moves the paths in front of the last one.
    Moves(Vec<ShellWord>),
    ChangesDirectory(Option<ShellWord>),
    /// Runs the text of a script in a shell.
    Runs(String),
    /// Changes the settings of a package manager.
    Configures(PackageManager),
    /// Writes files, which may be the library if these words name it. `is_adder` if it may add others, for a reason.
    Writes {
        words: Vec<ShellWord>,
        why: String,
        is_adder: bool,
    },
    /// Copies files within the image.
    Copies(Vec<ShellWord>),
    /// May add and remove anything, for a reason.
    MayChange(String),
}

/// Packages to install.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Installation {
    pub manager: PackageManager,
    pub packages: Vec<NamedPackage>,
    /// The option or word that stands for packages which the Dockerfile does not show.
    pub hidden: Option<String>,
    /// An option that leaves open what is installed.
    pub open: Option<String>,
    /// The folder to install into.
    pub target: Option<String>,
    /// The address of the only index.
    pub index: Option<String>,
    pub has_dependencies: bool,
}

/// Packages to remove.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Removal {
    pub manager: PackageManager,
    pub names: Vec<ShellWord>,
    /// Whether it also removes packages that no other needs.
    pub with_orphans: bool,
}

/// Reads a simple command; `input` is its standard input if the script shows it.
pub(super) fn read_command(words: &[ShellWord], input: Option<&str>, table: &BuildStepTable) -> CommandEffect {
    let words = without_prefixes(words, table);
    let Some((program, arguments)) = words.split_first() else {
        return CommandEffect::Nothing;
    };
    let name = program.text.rsplit('/').next().unwrap_or_default();
    let has = |list: &[String]| list.iter().any(|call| matches_call(words, call).is_some());
    // An own script may have the name of a known program.
    let is_system = !program.text.contains('/')
        || ["/bin/", "/usr/", "/sbin/", "/opt/"]
            .iter()
            .any(|folder| program.text.starts_with(folder));
    if !program.is_known() {
        return CommandEffect::MayChange(format!("runs {}", program.text));
    }
    if let Some((manager, rest)) = table.managers.iter().find_map(|manager| {
        let lengths = manager.calls.iter().filter_map(|call| matches_call(words, call));
        Some((manager, words.get(lengths.max()?..)?))
    }) && let Some(effect) = manager_effect(manager, rest)
    {
        return effect;
    }
    match name {
        "cd" => CommandEffect::ChangesDirectory(arguments.first().cloned()),
        "source" | "." => sourced(arguments, table),
        "eval" => CommandEffect::MayChange("evaluates a text".to_owned()),
        _ if SHELLS.contains(&name) => shell_effect(arguments, input),
        _ if is_system && has(&table.deleters) => delete_effect(arguments),
        _ if is_system && has(&table.movers) => CommandEffect::Moves(operands(arguments)),
        _ if is_system && has(&table.searchers) => search_effect(arguments, table),
        _ if is_system && has(&table.copiers) => CommandEffect::Copies(arguments.to_vec()),
        _ if is_system && has(&table.harmless) => CommandEffect::Nothing,
        _ if has(&table.adders) || has(&table.writers) => CommandEffect::Writes {
            words: arguments.to_vec(),
            why: format!("runs {}", shown(words)),
            is_adder: has(&table.adders),
        },
        _ => CommandEffect::MayChange(format!("runs {}", shown(words))),
    }
}

/// The first words of a command, for a message.
fn shown(words: &[ShellWord]) -> String {
    let first = words.first().map_or("", |word| &word.text);
    let second = words.get(1).filter(|word| word.is_known() && word.text.len() <= 40);
    second.map_or_else(|| first.to_owned(), |second| format!("{first} {}", second.text))
}

/// The command behind programs such as `sudo`, which run it.
fn without_prefixes<'w>(words: &'w [ShellWord], table: &BuildStepTable) -> &'w [ShellWord] {
    let mut rest = words;
    while let Some((length, prefix)) = table
        .prefixes
        .iter()
        .find_map(|prefix| Some((matches_call(rest, &prefix.call)?, prefix)))
    {
        let mut operands_left = prefix.operands;
        let mut behind = rest.get(length..).unwrap_or_default();
        while let Some((word, more)) = behind.split_first() {
            if prefix.values.contains(&word.text) {
                behind = more.get(1..).unwrap_or_default();
            } else if word.text.starts_with('-') || word.text.contains('=') {
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
fn matches_call(words: &[ShellWord], call: &str) -> Option<usize> {
    let mut length = 0;
    for (number, pattern) in call.split(' ').enumerate() {
        let word = &words.get(number)?.text;
        // The name of the program counts, not its folder.
        let word = if number == 0 && !pattern.contains('/') {
            word.rsplit('/').next().unwrap_or_default()
        } else {
            word
        };
        matches_name_pattern(word.as_bytes(), pattern).then_some(())?;
        length = number + 1;
    }
    Some(length)
}

/// The value of an option in its own word or behind `=`, and the words behind it.
fn option_value<'w>(options: &[String], word: &'w ShellWord, behind: &'w [ShellWord]) -> Option<(&'w str, usize)> {
    if options.contains(&word.text) {
        return Some((behind.first().map_or("", |value| &value.text), 1));
    }
    let (name, value) = word.text.split_once('=')?;
    options.iter().any(|option| option == name).then_some((value, 0))
}

/// The number of words behind an option that is known to leave nothing open; `None` for any other.
fn harmless_option(manager: &ManagerProgram, word: &ShellWord, behind: &[ShellWord]) -> Option<usize> {
    let text = &*word.text;
    let is_flag = |flag: &str| manager.flags.iter().any(|own| own == flag);
    // -qy is -q -y.
    let cluster = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    if is_flag(text) || cluster.is_some_and(|letters| letters.chars().all(|one| is_flag(&format!("-{one}")))) {
        return Some(0);
    }
    manager.values.iter().find_map(|entry| {
        let (option, start) = entry.split_once(' ').unwrap_or((entry, ""));
        if text == option {
            return behind.first().filter(|value| value.text.starts_with(start)).map(|_| 1);
        }
        let value = text.strip_prefix(option)?;
        let value = value
            .strip_prefix('=')
            .or((!option.starts_with("--")).then_some(value))?;
        value.starts_with(start).then_some(0)
    })
}

/// The effect of a package manager; `None` if its first word is unknown.
fn manager_effect(manager: &ManagerProgram, arguments: &[ShellWord]) -> Option<CommandEffect> {
    let mut verb = None;
    let mut hidden = None;
    let mut installation = Installation {
        manager: manager.manager,
        packages: Vec::new(),
        hidden: None,
        open: None,
        target: None,
        index: None,
        has_dependencies: true,
    };
    let mut operands = Vec::new();
    let mut with_orphans = false;
    let mut other_option = None;
    let mut rest = arguments;
    while let Some((word, behind)) = rest.split_first() {
        let mut skipped = 0;
        let is_option = word.text.starts_with('-');
        let is_orphans = manager.orphans.contains(&word.text);
        with_orphans |= is_orphans;
        if is_option && !is_orphans && harmless_option(manager, word, behind) != Some(0) {
            other_option.get_or_insert(&word.text);
        }
        if let Some((value, taken)) = option_value(&manager.lists, word, behind) {
            hidden.get_or_insert_with(|| format!("{} {value}", word.text.split('=').next().unwrap_or_default()));
            skipped = taken;
        } else if let Some((value, taken)) = option_value(&manager.targets, word, behind) {
            installation.target = Some(value.to_owned());
            skipped = taken;
        } else if let Some((value, taken)) = option_value(&manager.indexes, word, behind) {
            let is_it = |own: &String| matches_name_pattern(value.as_bytes(), own);
            if !manager.known_indexes.iter().any(is_it) {
                installation.open.get_or_insert_with(|| word.text.clone());
            }
            installation.index = Some(value.to_owned());
            skipped = taken;
        } else if manager.alone.contains(&word.text) {
            installation.has_dependencies = false;
        } else if verb.is_none() && (!is_option || manager.harmless.contains(&word.text)) {
            verb = Some(word);
        } else if !is_option {
            operands.push(word.clone());
        } else if let Some(taken) = harmless_option(manager, word, behind) {
            skipped = taken;
        } else if !is_orphans {
            installation.open.get_or_insert_with(|| word.text.clone());
        }
        rest = behind.get(skipped..).unwrap_or_default();
    }
    let Some(verb) = verb else {
        return Some(CommandEffect::Nothing);
    };
    let is = |list: &[String]| list.contains(&verb.text);
    if is(&manager.configures) {
        return Some(CommandEffect::Configures(manager.manager));
    }
    if is(&manager.harmless) {
        return Some(CommandEffect::Nothing);
    }
    if is(&manager.removes) || is(&manager.orphans) {
        return Some(removal_effect(manager.manager, operands, with_orphans, other_option));
    }
    if !is(&manager.installs) {
        return None;
    }
    installation.hidden = hidden;
    Some(installation_effect(installation, operands))
}

/// The effect of an installation with these words.
fn installation_effect(mut installation: Installation, operands: Vec<ShellWord>) -> CommandEffect {
    // apt removes a package with a minus behind its name.
    if let Some(word) = operands.iter().find(|word| word.text.ends_with('-')) {
        return CommandEffect::MayChange(format!("installs {}", word.text));
    }
    for word in operands {
        // A marker is a condition.
        if is_file_or_address(&word) || word.text.contains(';') {
            installation.hidden.get_or_insert_with(|| word.text.clone());
        } else {
            installation.packages.push(named_package(installation.manager, word));
        }
    }
    CommandEffect::Installs(installation)
}

/// The effect of removing packages, maybe with an option that leaves open which.
fn removal_effect(
    manager: PackageManager,
    names: Vec<ShellWord>,
    with_orphans: bool,
    other_option: Option<&String>,
) -> CommandEffect {
    // apt installs a package with a plus behind its name. g++ is a name.
    let installs = |word: &&ShellWord| word.text.ends_with('+') && !word.text.ends_with("++");
    match other_option.or(names.iter().find(installs).map(|word| &word.text)) {
        Some(other) => CommandEffect::MayChange(format!("removes packages with {other}")),
        None => CommandEffect::Uninstalls(Removal {
            manager,
            names,
            with_orphans,
        }),
    }
}

/// Whether a word of an installation is a file, a folder, an address or a variable instead of a name.
fn is_file_or_address(word: &ShellWord) -> bool {
    let text = &*word.text;
    !word.is_known()
        || text.starts_with('.')
        || text.contains("://")
        || (text.contains('/') && !text.contains("::"))
        || [".whl", ".deb", ".rpm", ".tar.gz", ".zip"]
            .iter()
            .any(|end| text.ends_with(end))
}

/// The name in `cuda-cupti-12-4=12.4.127-1`, `libcupti12:amd64`, `jax[cuda12]>=0.4`, `conda-forge::cuda-cupti`.
fn named_package(manager: PackageManager, word: ShellWord) -> NamedPackage {
    let text = match manager {
        PackageManager::Conda => word.text.rsplit("::").next().unwrap_or_default(),
        _ => &word.text,
    };
    let name_end = text
        .find(['=', '<', '>', '~', '!', '[', ';', ' ', ':', '@', ','])
        .unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(name_end).unwrap_or((text, ""));
    let extras = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let extras = extras
        .map_or("", |(extras, _)| extras)
        .split(',')
        .map(|extra| extra.trim().to_owned());
    let name = match manager {
        PackageManager::Pip => normal_name(name),
        _ => name.to_owned(),
    };
    NamedPackage {
        name,
        extras: extras.filter(|extra| !extra.is_empty()).collect(),
        word,
    }
}

/// A name as Python's packaging specifications normalize it ("Names and normalization").
pub(super) fn normal_name(name: &str) -> String {
    name.to_lowercase().replace(['_', '.'], "-")
}

fn operands(arguments: &[ShellWord]) -> Vec<ShellWord> {
    arguments
        .iter()
        .filter(|word| !word.text.starts_with('-'))
        .cloned()
        .collect()
}

fn delete_effect(arguments: &[ShellWord]) -> CommandEffect {
    let is_flag = |word: &ShellWord| match word.text.strip_prefix("--") {
        Some(long) => long == "recursive",
        None => word.text.starts_with('-') && word.text.contains(['r', 'R']),
    };
    CommandEffect::Deletes {
        paths: operands(arguments),
        is_recursive: arguments.iter().any(is_flag),
    }
}

/// `find ROOT… -name PATTERN -delete`, or with `-exec rm`.
fn search_effect(arguments: &[ShellWord], table: &BuildStepTable) -> CommandEffect {
    let is_test = |word: &&ShellWord| word.text.starts_with(['-', '(', '!']);
    let tests_start = arguments
        .iter()
        .position(|word| is_test(&word))
        .unwrap_or(arguments.len());
    let (roots, tests) = arguments.split_at_checked(tests_start).unwrap_or((arguments, &[]));
    let runs = tests
        .iter()
        .position(|word| matches!(&*word.text, "-exec" | "-execdir" | "-ok"));
    let program = runs.and_then(|at| tests.get(at + 1)).map(|word| &*word.text);
    let deletion = tests.iter().position(|word| word.text == "-delete");
    let has = |list: &[String]| program.is_some_and(|program| list.iter().any(|own| own == program));
    let action = match (deletion, runs) {
        (Some(at), _) => at,
        (None, Some(at)) if has(&table.deleters) => at,
        (None, Some(_)) if !has(&table.harmless) && !has(&table.writers) => {
            return CommandEffect::MayChange(format!("runs {} on what find finds", program.unwrap_or_default()));
        }
        _ => return CommandEffect::Nothing,
    };
    let own = tests.get(..action.min(runs.unwrap_or(action))).unwrap_or_default();
    let names = own.windows(2).filter_map(|pair| match pair {
        [test, value] if matches!(&*test.text, "-name" | "-iname") => Some(value.text.to_lowercase()),
        _ => None,
    });
    let names: Vec<String> = names.collect();
    // Each of the alternatives has a name.
    let count = |words: [&str; 2]| own.iter().filter(|word| words.contains(&&*word.text)).count();
    let is_named = count(["!", "-not"]) == 0 && count(["-o", "-or"]) + 1 == names.len();
    CommandEffect::DeletesFound {
        roots: if roots.is_empty() {
            vec![ShellWord::plain(".")]
        } else {
            roots.to_vec()
        },
        names: if is_named { names } else { Vec::new() },
    }
}

fn sourced(arguments: &[ShellWord], table: &BuildStepTable) -> CommandEffect {
    let file = arguments.first().map_or("", |word| &word.text);
    let is_it = |own: &String| match own.strip_prefix('*') {
        Some(end) => file.ends_with(end),
        None => file == own,
    };
    if table.activators.iter().any(is_it) {
        CommandEffect::Nothing
    } else {
        CommandEffect::MayChange(format!("runs the script {file}"))
    }
}

/// `sh -c TEXT`, `sh FILE`, or a script from the standard input.
fn shell_effect(arguments: &[ShellWord], input: Option<&str>) -> CommandEffect {
    let mut rest = arguments;
    while let Some((word, behind)) = rest.split_first()
        && word.text.starts_with('-')
    {
        // The last letter of a cluster decides: -c, -lc, -exc.
        if !word.text.starts_with("--") && word.text.ends_with('c') {
            return match behind.first() {
                Some(text) => CommandEffect::Runs(text.text.clone()),
                None => CommandEffect::Nothing,
            };
        }
        let takes_value = word.text == "-o" || word.text.ends_with('o') && !word.text.starts_with("--");
        rest = behind.get(usize::from(takes_value)..).unwrap_or_default();
    }
    match (rest.first(), input) {
        (Some(file), _) => CommandEffect::MayChange(format!("runs the script {}", file.text)),
        (None, Some(text)) => CommandEffect::Runs(text.to_owned()),
        (None, None) => CommandEffect::MayChange("runs a script from a pipe".to_owned()),
    }
}
