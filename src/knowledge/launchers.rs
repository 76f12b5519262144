//! Programs that start another one, as `profiles/cupti/launchers.yaml` has them.

use serde::Deserialize;

/// A program that starts another one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramLauncher {
    /// What it is called.
    pub names: Vec<String>,
    /// The first word that makes it one.
    #[serde(default)]
    pub command: Option<String>,
    /// The modules of Python that are it.
    #[serde(default)]
    pub modules: Vec<String>,
    /// What it starts.
    #[serde(default)]
    pub starts: LaunchedProgram,
    /// The words in front of the other program that are its own, beside options.
    #[serde(default)]
    pub words: usize,
    #[serde(default)]
    valued: Vec<String>,
    #[serde(default)]
    alone: Vec<String>,
    /// The option, or `word`, that names a folder with a file for each variable.
    #[serde(default)]
    pub folder: Option<String>,
    /// The variables that it sets anew.
    #[serde(default)]
    pub sets: Vec<String>,
    /// Whose programs come first in `PATH`.
    #[serde(default)]
    pub environment: Option<LaunchEnvironment>,
}

/// What a launcher starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchedProgram {
    /// What follows its own words.
    #[default]
    Command,
    /// A Python, which is given what follows.
    Python,
    /// What its own files name.
    OwnFiles,
    /// What follows, in an environment that nobody knows.
    Unknown,
}

/// An environment of Python that a launcher starts programs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchEnvironment {
    /// `.venv` of the project that the working directory is of.
    Project,
    /// The one that an option names.
    Named,
}

impl ProgramLauncher {
    /// Whether an option takes the next word. Python's programs know a long one by `_` and by `-`.
    pub fn takes_value(&self, option: &str) -> bool {
        let option = if option.starts_with("--") {
            option.replace('_', "-")
        } else {
            option.to_owned()
        };
        let is_any = option.starts_with("--") && self.valued.iter().any(|known| known == "--*");
        !option.contains('=') && !self.alone.contains(&option) && (is_any || self.valued.contains(&option))
    }
}
