//! Which programs a container's command starts, and with which environments, read from the image's files.
//!
//! Nothing is executed. [`read_start`] starts from the command in the image config and follows shells, scripts and
//! launchers to the programs they start. An undecidable condition forks the state, so a program has a *set* of
//! environments. Unknown text becomes a hole in a value, and a construct that is not followed becomes an
//! [`Assumption`]. Scripts are assumed to reach their programs.
//!
//! The crate knows no library and performs no I/O. Files come through [`ImageFiles`], launchers through
//! [`LauncherTable`].

#![expect(clippy::needless_for_each, reason = "one line for what is done to each state")]

mod arithmetic;
mod builtins;
mod commands;
mod conditions;
mod control_flow;
mod declarations;
mod fields;
mod image_files;
mod launch;
mod launcher_table;
mod launchers;
mod outputs;
mod parameters;
mod pattern;
mod reader;
mod script;
mod shells;
mod sources;
mod start;
mod state;
mod statements;
mod users;
mod value;
mod words;

use std::collections::BTreeMap;

pub use image_files::{FileKind, FileStat, ImageFiles};
pub use launcher_table::{LaunchEnvironment, Launcher, LauncherTable, Operands, OptionEffect};
pub use script::parse_script;
pub use start::read_start;
pub use state::Branch;
pub use value::{Hole, Value, ValuePiece};

/// The variables that the dynamic loader reads.
pub const LOADER_VARIABLES: [&str; 4] = ["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES"];

/// The command and process settings that an engine passes to a container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerCommand {
    /// Entrypoint and Cmd, as the engine hands them to execve(2).
    pub words: Vec<String>,
    /// `Env` of the image config, overridden by the engine's own variables.
    pub environment: BTreeMap<String, String>,
    /// `User` of the image config: a name or number, optionally followed by `:group`; empty for root.
    pub user: String,
    /// The absolute working directory.
    pub directory: String,
    /// The output of `uname -m`, such as `x86_64` or `aarch64`; empty if unknown.
    pub machine: String,
}

/// The programs that a container starts, and the side effects of its scripts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerStart {
    /// The programs, highest rank first; within a rank in start order.
    pub programs: Vec<StartedProgram>,
    /// The programs if the engine provides variables and mounts that the scripts test for but the image lacks.
    pub when_given: Vec<StartedProgram>,
    /// The files of the image that scripts change before or beside the programs.
    pub changed_files: Vec<ChangedFile>,
    /// The place that runs ldconfig before or beside the programs.
    pub ldconfig: Option<String>,
    /// Whether the budget ran out before the scripts ended. If so, programs may be missing.
    pub is_cut_short: bool,
}

/// A program together with the inputs of its dynamic loader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedProgram {
    /// The absolute path used to call it; `None` if it is missing from the image or its name is unknown.
    pub path: Option<String>,
    /// The argument vector, including the name.
    pub words: Vec<Value>,
    /// The possible environments, one to eight.
    pub environments: Vec<Environment>,
    /// The user, in the form of [`ContainerCommand::user`].
    pub user: Value,
    /// The working directory.
    pub directory: Value,
    /// How closely it belongs to the container's main process.
    pub rank: Rank,
    /// Whether it is an argument of the dynamic loader itself (`ld.so PROGRAM`).
    pub is_loader_argument: bool,
    /// Whether a launcher may find it elsewhere than on `PATH`.
    pub may_be_elsewhere: bool,
    /// The place that starts it: `/entry.sh:12`, or `config`.
    pub place: String,
    /// The assumptions on the path to it.
    pub assumptions: Vec<Assumption>,
}

/// One possible environment of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// The exported variables.
    pub variables: BTreeMap<String, Value>,
    /// The last undecided conditions on the path to it.
    pub branches: Vec<Branch>,
}

/// How closely a program is tied to the container's main process. The highest rank represents the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// A distribution program, or the shell at the end of a script that starts nothing.
    Distribution,
    /// Started inside a condition or a command substitution.
    Inside,
    /// Started while the main process waits for it, or as its last command.
    Started,
    /// The main process itself, after exec.
    Main,
}

/// Something assumed on the path to a program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Assumption {
    /// Kind and place, stable for the same text: `source@/entry.sh:12`.
    pub id: String,
    /// The script, or `config`.
    pub path: String,
    /// The line, counted from one; 0 for the whole file.
    pub line: usize,
    /// The assumption as a predicate that follows the place: "`source $CONF` keeps LD_LIBRARY_PATH".
    pub text: String,
    /// The affected loader variables.
    pub variables: Vec<String>,
    /// The unset variables that decide it. Setting them resolves the assumption.
    pub unset: Vec<String>,
}

impl Assumption {
    /// An assumption at a place such as `/entry.sh:12` that affects no particular variable.
    pub fn at(id: String, place: &str, text: String) -> Self {
        let (path, line) = split_place(place);
        Self {
            id,
            path: path.to_owned(),
            line,
            text,
            variables: Vec::new(),
            unset: Vec::new(),
        }
    }
}

/// A file of the image that a script changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangedFile {
    /// The absolute path. A directory stands for everything below it.
    pub path: String,
    /// The place of the change: `/entry.sh:12`.
    pub place: String,
}

/// Splits a place into path and line.
pub(crate) fn split_place(place: &str) -> (&str, usize) {
    match place.rsplit_once(':') {
        Some((path, line)) if let Ok(line) = line.parse() => (path, line),
        _ => (place, 0),
    }
}
