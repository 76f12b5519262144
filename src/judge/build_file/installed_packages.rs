//! Recognizes the packages that a command installs.

use super::shell_commands::ShellWord;
use crate::knowledge::Knowledge;
use crate::knowledge::packages::PackageManager;

/// A package that a command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedPackage<'w> {
    pub manager: PackageManager,
    /// Its name, without version, processor and extras.
    pub name: String,
    pub word: &'w ShellWord,
}

/// The effect of a command on packages.
pub(super) enum CommandEffect<'w> {
    Installs {
        packages: Vec<NamedPackage<'w>>,
        /// Whether it also installs packages that the file does not name.
        more: bool,
    },
    /// The file does not show its effect: it runs a script or unpacks an archive.
    Unknown,
    Nothing,
}

/// Reads a simple command.
pub(super) fn read_command<'w>(words: &'w [ShellWord], known: &Knowledge) -> CommandEffect<'w> {
    // Prefixes that still start the following program.
    let is_before = |word: &&ShellWord| {
        matches!(
            &*word.text,
            "sudo" | "env" | "exec" | "time" | "then" | "do" | "if" | "!"
        ) || word.text.contains('=')
    };
    let words: Vec<&ShellWord> = words.iter().skip_while(is_before).collect();
    let Some((program, arguments)) = words.split_first() else {
        return CommandEffect::Nothing;
    };
    let name = program.text.rsplit('/').next().unwrap_or_default();
    let arguments = match (name, arguments) {
        // `python -m pip install` and `uv pip install` have pip's own syntax.
        (name, [flag, pip, rest @ ..]) if name.starts_with("python") && flag.text == "-m" && pip.text == "pip" => {
            return installs(PackageManager::Pip, rest);
        }
        ("uv", [pip, rest @ ..]) if pip.text == "pip" => return installs(PackageManager::Pip, rest),
        (_, arguments) => arguments,
    };
    match name {
        "apt-get" | "apt" | "aptitude" | "dnf" | "microdnf" | "yum" | "tdnf" | "zypper" => {
            installs(PackageManager::System, arguments)
        }
        "conda" | "mamba" | "micromamba" => installs(PackageManager::Conda, arguments),
        _ if is_pip(name) => installs(PackageManager::Pip, arguments),
        "bash" | "sh" | "source" | "." | "make" | "poetry" | "uv" | "pipenv" | "dpkg" | "rpm" | "tar" | "unzip"
        | "bsdtar" => CommandEffect::Unknown,
        _ if is_hidden(program, arguments, known) => CommandEffect::Unknown,
        _ => CommandEffect::Nothing,
    }
}

/// Whether a command has hidden effects: it runs an own script, or installs something downloaded.
fn is_hidden(program: &ShellWord, arguments: &[&ShellWord], known: &Knowledge) -> bool {
    let is_own = program.text.contains('/') && !program.text.starts_with("/usr/");
    is_own || (program.text != "echo" && arguments.iter().any(|word| speaks_of_library(&word.text, known)))
}

/// Whether a word may mention the library, or the toolkit that contains it.
pub(super) fn speaks_of_library(word: &str, known: &Knowledge) -> bool {
    let word = word.to_lowercase();
    word.contains(&known.library.package_word) || word.contains(&known.tables.packages.toolkit.installer)
}

/// Whether a command is `pip`, `pip3` or `pip3.11`.
fn is_pip(name: &str) -> bool {
    let rest = name.strip_prefix("pip");
    rest.is_some_and(|rest| rest.chars().all(|letter| letter.is_ascii_digit() || letter == '.'))
}

fn installs<'w>(manager: PackageManager, arguments: &[&'w ShellWord]) -> CommandEffect<'w> {
    let mut words = arguments
        .iter()
        .skip_while(|word| !matches!(&*word.text, "install" | "create"));
    if words.next().is_none() {
        return CommandEffect::Nothing;
    }
    let mut packages = Vec::new();
    let mut more = false;
    for word in words {
        let is_list = matches!(
            &*word.text,
            "-r" | "--requirement" | "-e" | "--editable" | "-f" | "--file" | "."
        );
        more |= is_list || word.text.starts_with("./") || word.text.contains('$');
        if !word.text.starts_with('-') {
            let name = package_name(manager, &word.text);
            packages.push(NamedPackage { manager, name, word });
        }
    }
    CommandEffect::Installs { packages, more }
}

/// The name in `cuda-cupti-12-4=12.4.127-1`, `libcupti12:amd64`, `jax[cuda12]>=0.4`, `conda-forge::cuda-cupti`.
fn package_name(manager: PackageManager, word: &str) -> String {
    let word = match manager {
        PackageManager::Conda => word.rsplit("::").next().unwrap_or(word),
        _ => word,
    };
    let name = word
        .split(['=', '<', '>', '~', '!', '[', ';', ' ', ':', '@'])
        .next()
        .unwrap_or_default();
    match manager {
        // "Names and normalization" of Python's packaging specifications.
        PackageManager::Pip => name.to_lowercase().replace(['_', '.'], "-"),
        _ => name.to_owned(),
    }
}
