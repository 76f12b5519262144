//! Programs that start other programs, as data: `profiles/launchers.yaml`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Known programs, by whether they start other programs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LauncherTable {
    /// Programs whose words name the program to start.
    pub launchers: Vec<Launcher>,
    /// Programs that start what their own files or other processes name.
    pub starters: Vec<String>,
    /// Programs that start no other program.
    pub utilities: Vec<String>,
    /// The utilities that change the files named by their words.
    pub writers: Vec<String>,
    /// Programs whose output or hooks set variables in the calling shell.
    pub activators: Vec<String>,
    /// Programs that the driver provides.
    pub driver_tools: Vec<String>,
    /// Shell patterns of the paths that the driver provides.
    pub driver_files: Vec<String>,
}

/// A program whose words name the program to start. Its options follow getopt(3).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Launcher {
    /// The program's names.
    pub names: Vec<String>,
    /// The first words, of which one is required, such as `run` in `conda run`; none if any program may follow.
    pub commands: Vec<String>,
    /// The options without an argument.
    pub flags: Vec<String>,
    /// The options with one argument.
    pub valued: Vec<String>,
    /// The options with two arguments.
    pub paired: Vec<String>,
    /// The effects of options on the started program. Options without one are omitted.
    pub effects: BTreeMap<String, OptionEffect>,
    /// The operands in front of the program.
    pub operands: Operands,
    /// Whether long options may begin with one dash.
    pub has_short_dashes: bool,
    /// Whether options may follow operands.
    pub mixes_operands: bool,
    /// The effect on the environment, apart from options.
    pub environment: LaunchEnvironment,
}

/// The effect of an option on the started program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptionEffect {
    /// Empties the environment.
    Clear,
    /// Removes the named variable.
    Unset,
    /// Sets a variable from `NAME=VALUE`.
    Set,
    /// Sets variables from `NAME=VALUE,NAME=VALUE`.
    SetList,
    /// Changes the working directory.
    Directory,
    /// Changes the user.
    User,
    /// Changes the group.
    Group,
    /// Changes only the effective user: the one that opens files. ld.so then ignores its variables (ld.so(8),
    /// "Secure-execution mode"), unless the real user is the same.
    EffectiveUser,
    /// The same for the group.
    EffectiveGroup,
    /// Replaces the environment by the user's default one.
    Reset,
    /// Splits its argument into further words.
    Split,
    /// Preloads libstdbuf.
    PreloadStdbuf,
    /// Replaces occurrences of its argument with unknown words.
    Replace,
    /// Passes its argument to a shell.
    Code,
    /// Starts the user's login shell.
    Login,
    /// Starts the user's shell.
    Shell,
    /// Makes the environment unknown.
    Unknown,
    /// The loader's `--library-path`.
    LibraryPath,
    /// The loader's `--preload`.
    Preload,
}

/// The operands of a launcher in front of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operands {
    /// None.
    #[default]
    None,
    /// One, without an effect on the program.
    One,
    /// A user.
    User,
    /// A user, for whom HOME is set.
    UserWithHome,
    /// Variables as `NAME=VALUE`.
    Variables,
    /// One, which makes the environment unknown.
    Unknown,
    /// A file, optionally followed by `-c CODE`.
    FileOrCode,
    /// None; unknown words follow those of the program.
    More,
}

/// The effect of a launcher on the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchEnvironment {
    /// Unchanged.
    #[default]
    Kept,
    /// Assumed unchanged.
    Assumed,
    /// Unchanged, except for the launcher's own libraries in `LD_PRELOAD`.
    Preloading,
    /// Reset as sudo(8) does.
    Sudo,
    /// Reset as su(1) and runuser(1) do.
    Account,
    /// Unchanged. The launcher is the dynamic loader (ld.so(8)).
    Loader,
    /// The project's `.venv` comes first in PATH.
    Project,
    /// Hooks of a named environment set variables.
    Activated,
}

impl LauncherTable {
    /// The launcher that matches these words.
    pub(crate) fn find(&self, name: &str, next: Option<&str>) -> Option<&Launcher> {
        self.launchers.iter().find(|launcher| {
            let is_called = launcher.names.iter().any(|known| match known.strip_suffix('*') {
                Some(begin) => name.starts_with(begin),
                None => known == name,
            });
            let mut commands = launcher.commands.iter();
            is_called && (launcher.commands.is_empty() || commands.any(|command| Some(command.as_str()) == next))
        })
    }

    /// Whether a program, with an optional version suffix, starts no other program.
    pub fn is_utility(&self, name: &str) -> bool {
        is_listed(&self.utilities, name)
    }

    /// Whether a program may change the files that its words name.
    pub(crate) fn may_write(&self, name: &str) -> bool {
        !self.is_utility(name) || is_listed(&self.writers, name)
    }
}

/// Whether a list contains a name, with an optional version suffix.
pub(crate) fn is_listed(list: &[String], name: &str) -> bool {
    let bare = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    list.iter().any(|known| known == name || known == bare)
}

/// The options in a launcher's words.
#[derive(Debug, Default)]
pub(crate) struct GivenOptions {
    /// Each option with an effect, and its arguments joined by spaces.
    pub effects: Vec<(OptionEffect, String)>,
    /// The words behind the options.
    pub rest: Vec<String>,
    /// The first unknown option.
    pub unknown: Option<String>,
}

impl Launcher {
    /// Whether it may find a program that the image's `PATH` lacks, without an option for that.
    pub(crate) fn finds_more(&self) -> bool {
        use LaunchEnvironment::{Activated, Assumed, Project};
        matches!(self.environment, Assumed | Project | Activated) || self.operands == Operands::Unknown
    }

    /// Reads the options behind the program name. Stops at the first operand, or behind an option that splits.
    pub(crate) fn read_options(&self, words: &[String]) -> GivenOptions {
        let mut given = GivenOptions::default();
        let is_option = |word: &str| word.starts_with('-') && word.len() > 1;
        let mut words = words.iter().skip(1).peekable();
        while !given.has(OptionEffect::Split)
            && let Some(word) = words.next_if(|word| is_option(word) || self.mixes_operands)
        {
            match word.as_str() {
                "--" => break,
                word if !is_option(word) => given.rest.push(word.to_owned()),
                word => self.read_option(word, &mut words, &mut given),
            }
        }
        given.rest.extend(words.cloned());
        given
    }

    /// Reads a long option, or short ones in one word: `-xvf FILE`, `-ofile`.
    fn read_option<'w>(&self, word: &'w str, words: &mut impl Iterator<Item = &'w String>, given: &mut GivenOptions) {
        let (name, value) = word
            .split_once('=')
            .map_or((word, None), |(name, value)| (name, Some(value)));
        let is_long = word.starts_with("--") || self.has_short_dashes && (self.takes(name).is_some() || name.len() > 2);
        // Python programs treat `_` and `-` in long options alike.
        let long = is_long.then(|| (name.replace('_', "-"), value));
        let letters = word
            .char_indices()
            .skip(1)
            .filter(|_| !is_long)
            .map(|(at, letter)| (format!("-{letter}"), word.get(at + letter.len_utf8()..)));
        for (option, joined) in long.into_iter().chain(letters) {
            let Some(count) = self.takes(&option) else {
                let is_number = word.bytes().skip(1).all(|byte| byte.is_ascii_digit());
                given.unknown = given.unknown.take().or_else(|| (!is_number).then(|| word.to_owned()));
                continue;
            };
            let joined = joined.filter(|joined| is_long || count > 0 && !joined.is_empty());
            let missing = if joined.is_some() { 0 } else { count };
            let further = words.by_ref().take(missing).map(String::as_str);
            let values: Vec<&str> = joined.into_iter().chain(further).collect();
            let effect = self.effects.get(&option);
            given.effects.extend(effect.map(|effect| (*effect, values.join(" "))));
            if count > 0 {
                break;
            }
        }
    }

    /// The number of arguments an option takes; `None` if it is unknown.
    fn takes(&self, option: &str) -> Option<usize> {
        let lists = [&self.flags, &self.valued, &self.paired];
        lists.iter().position(|list| list.iter().any(|known| known == option))
    }
}

impl GivenOptions {
    /// The argument of the last option with this effect.
    pub(crate) fn value_of(&self, effect: OptionEffect) -> Option<&str> {
        let mut effects = self.effects.iter().rev();
        effects
            .find(|(other, _)| *other == effect)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn has(&self, effect: OptionEffect) -> bool {
        self.value_of(effect).is_some()
    }
}
