//! Programs that start other programs, as data: `profiles/launchers.yaml`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// All that is known of programs that start other programs, and of those that do not.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LauncherTable {
    /// Programs whose words name the program that they start.
    pub launchers: Vec<Launcher>,
    /// Programs that start what their own files or other processes name.
    pub starters: Vec<String>,
    /// Programs that start nothing.
    pub utilities: Vec<String>,
    /// Those among them that change the files which their words name.
    pub writers: Vec<String>,
    /// Programs whose output or hooks set variables in the shell that asks them.
    pub activators: Vec<String>,
    /// Programs that the driver brings.
    pub driver_tools: Vec<String>,
    /// Shell patterns of paths that the driver brings.
    pub driver_files: Vec<String>,
}

/// A program whose words name the program that it starts, with its options as getopt(3) reads them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Launcher {
    /// What it is called.
    pub names: Vec<String>,
    /// The first word that makes it a launcher: `run` of `conda run`.
    pub command: Option<String>,
    /// The options that take no word.
    pub flags: Vec<String>,
    /// The options that take a word.
    pub valued: Vec<String>,
    /// The options that take two words.
    pub paired: Vec<String>,
    /// What options do, beside those that do nothing to the program.
    pub effects: BTreeMap<String, OptionEffect>,
    /// What its own words are that stand in front of the program.
    pub operands: Operands,
    /// Whether long options may begin with one dash.
    pub has_short_dashes: bool,
    /// What it does to the environment beside its options.
    pub environment: LaunchEnvironment,
}

/// What an option does to the program that is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptionEffect {
    /// Empties the environment.
    Clear,
    /// Removes the variable that it names.
    Unset,
    /// Sets the variable `NAME=VALUE`.
    Set,
    /// Sets the variable of its first word to its second.
    SetPair,
    /// Passes the variables of a list, with or without values; `ALL` for all others.
    Export,
    /// Changes the working directory.
    Directory,
    /// Changes the user.
    User,
    /// Changes the group of the user.
    Group,
    /// Makes the user's own environment.
    Reset,
    /// Splits its word into further words.
    Split,
    /// Preloads libstdbuf.
    PreloadStdbuf,
    /// Puts unknown words in the place of its word.
    Replace,
    /// Hands its word to a shell.
    Code,
    /// Starts the user's login shell.
    Login,
    /// Starts the user's shell.
    Shell,
    /// Keeps the environment where it would be made anew.
    Keep,
    /// Keeps the variables of a list where the environment is made anew.
    KeepList,
    /// Makes an environment that nobody knows.
    Unknown,
    /// The loader's own `LD_LIBRARY_PATH`.
    LibraryPath,
    /// The loader's own `LD_PRELOAD`.
    Preload,
}

/// The words of a launcher in front of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operands {
    /// None.
    #[default]
    None,
    /// One that says nothing of the program.
    One,
    /// A user.
    User,
    /// A user, whose HOME is set.
    UserWithHome,
    /// Variables, `NAME=VALUE`.
    Variables,
    /// A folder with a file for each variable.
    VariableFolder,
    /// A new root directory.
    Root,
    /// A file, behind which `-c` hands a word to a shell.
    FileOrCode,
    /// None, and unknown words follow those of the program.
    More,
}

/// What a launcher does to the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchEnvironment {
    /// Nothing.
    #[default]
    Kept,
    /// Nothing, as far as is known.
    Assumed,
    /// What sudo(8) keeps of it.
    Sudo,
    /// What su(1) and runuser(1) keep of it.
    Account,
    /// Nothing: the dynamic loader, told what to run (ld.so(8)).
    Loader,
    /// Programs of the project's `.venv` come first.
    Project,
    /// Hooks of a named environment set variables.
    Activated,
}

impl LauncherTable {
    /// Adds the rows of another table; of launchers with one name the last counts.
    pub fn add(&mut self, more: Self) {
        self.launchers.splice(0..0, more.launchers);
        self.starters.extend(more.starters);
        self.utilities.extend(more.utilities);
        self.writers.extend(more.writers);
        self.activators.extend(more.activators);
        self.driver_tools.extend(more.driver_tools);
        self.driver_files.extend(more.driver_files);
    }

    /// The launcher that these words call.
    pub(crate) fn find(&self, name: &str, next: Option<&str>) -> Option<&Launcher> {
        self.launchers.iter().find(|launcher| {
            let is_called = launcher.names.iter().any(|known| match known.strip_suffix('*') {
                Some(begin) => name.starts_with(begin),
                None => known == name,
            });
            is_called && (launcher.command.is_none() || launcher.command.as_deref() == next)
        })
    }

    pub(crate) fn is_starter(&self, name: &str) -> bool {
        is_listed(&self.starters, name)
    }

    /// Whether a program, which a version may follow, starts no other.
    pub fn is_utility(&self, name: &str) -> bool {
        is_listed(&self.utilities, name)
    }

    /// Whether a program may change the files that its words name.
    pub(crate) fn may_write(&self, name: &str) -> bool {
        !self.is_utility(name) || is_listed(&self.writers, name)
    }

    pub(crate) fn is_activator(&self, name: &str) -> bool {
        is_listed(&self.activators, name)
    }

    pub(crate) fn is_driver_tool(&self, name: &str) -> bool {
        self.driver_tools.iter().any(|known| known == name)
    }
}

/// Whether a list has a name, which a version may follow.
fn is_listed(list: &[String], name: &str) -> bool {
    let bare = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    list.iter().any(|known| known == name || known == bare)
}

/// The options of a launcher as they stand in its words.
#[derive(Debug, Default)]
pub(crate) struct GivenOptions {
    /// What each option with an effect does, and its word or words, joined by NUL.
    pub effects: Vec<(OptionEffect, String)>,
    /// The words behind the options.
    pub rest: Vec<String>,
    /// The first option that is not known.
    pub unknown: Option<String>,
    /// Whether `--` ended the options.
    pub is_ended: bool,
}

impl Launcher {
    /// Reads the options behind the first word, up to the first word that is none, or to one that splits.
    pub(crate) fn read_options(&self, words: &[String]) -> GivenOptions {
        let mut given = GivenOptions::default();
        let mut words = words.iter().skip(1).peekable();
        while let Some(word) = words.next_if(|word| word.starts_with('-') && word.len() > 1) {
            if word == "--" {
                given.is_ended = true;
                break;
            }
            let (name, value) = word
                .split_once('=')
                .map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
            let is_long =
                word.starts_with("--") || self.has_short_dashes && (self.takes(name).is_some() || name.len() > 2);
            if is_long {
                let full = self.long_name(name);
                let takes = full.as_deref().and_then(|full| self.takes(full));
                let wanted = if value.is_some() { 0 } else { takes.unwrap_or(0) };
                let values: Vec<&str> = value
                    .into_iter()
                    .chain(words.by_ref().take(wanted).map(String::as_str))
                    .collect();
                let option = full.as_deref().filter(|_| takes.is_some());
                given.note(self, option, word, &values.join("\0"));
            } else {
                self.read_letters(word, &mut words, &mut given);
            }
            if given
                .effects
                .last()
                .is_some_and(|(effect, _)| *effect == OptionEffect::Split)
            {
                break;
            }
        }
        given.rest = words.cloned().collect();
        given
    }

    /// Short options in one word: `-xvf FILE`, `-ofile`.
    fn read_letters<'w>(&self, word: &str, words: &mut impl Iterator<Item = &'w String>, given: &mut GivenOptions) {
        let is_number = word.bytes().skip(1).all(|byte| byte.is_ascii_digit());
        for (at, letter) in word.char_indices().skip(1) {
            let option = format!("-{letter}");
            let takes = self.takes(&option);
            if takes.unwrap_or(0) > 0 {
                let joined = word.get(at + letter.len_utf8()..).filter(|joined| !joined.is_empty());
                let value = joined.or_else(|| words.next().map(String::as_str));
                return given.note(self, Some(&option), word, value.unwrap_or_default());
            }
            given.note(
                self,
                Some(&option)
                    .filter(|_| takes.is_some() || is_number)
                    .map(String::as_str),
                word,
                "",
            );
        }
    }

    /// How many words an option takes; `None` if it is not known.
    fn takes(&self, option: &str) -> Option<usize> {
        let lists = [&self.flags, &self.valued, &self.paired];
        lists.iter().position(|list| list.iter().any(|known| known == option))
    }

    /// The whole name of a long option, which may be shortened to what no other begins with.
    fn long_name(&self, name: &str) -> Option<String> {
        // Python's programs know a long option by `_` and by `-`.
        let name = name.replace('_', "-");
        let name = name.trim_start_matches('-');
        let own = || [&self.flags, &self.valued, &self.paired].into_iter().flatten();
        let mut begun = own().filter(|option| option.len() > 2 && option.trim_start_matches('-').starts_with(name));
        let only = begun.next().filter(|_| begun.next().is_none());
        own()
            .find(|option| option.trim_start_matches('-') == name)
            .or(only)
            .cloned()
    }
}

impl GivenOptions {
    /// Notes an option with its value; one that is not known is noted as it stands.
    fn note(&mut self, launcher: &Launcher, option: Option<&str>, word: &str, value: &str) {
        match option {
            None => drop(self.unknown.get_or_insert_with(|| word.to_owned())),
            Some(option) => self
                .effects
                .extend(launcher.effects.get(option).map(|effect| (*effect, value.to_owned()))),
        }
    }

    /// The word of the last option with an effect.
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
