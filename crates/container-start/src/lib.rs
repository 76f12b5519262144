//! Which programs a container's command starts, and with which environments, read from the image's files.
//!
//! Nothing is executed. [`read_start`] follows shells, scripts and launchers from the words of the image's config to the
//! programs that they start. It forks where a condition is not known, so that a program has a *set* of environments; what
//! it cannot follow becomes a hole in a value or an [`Assumption`], never nothing. It does not ask whether a script comes
//! to its end.
//!
//! The crate knows no library and touches no host: files come through [`ImageFiles`], launchers through
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
pub use start::read_start;
pub use state::Branch;
pub use value::{Hole, Value, ValuePiece};

/// The variables that the dynamic loader reads.
pub const LOADER_VARIABLES: [&str; 4] = ["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES"];

/// What an engine is told to start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerCommand {
    /// Entrypoint and Cmd, as the engine hands them to execve(2).
    pub words: Vec<String>,
    /// `Env` of the image config with what the engine sets over it.
    pub environment: BTreeMap<String, String>,
    /// `User` of the image config: a name or number, with a group behind a colon if any; empty for root.
    pub user: String,
    /// The absolute working directory.
    pub directory: String,
    /// What `uname -m` prints: `x86_64`, `aarch64`; empty where it is not known.
    pub machine: String,
}

/// What a container starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerStart {
    /// The programs, the highest rank first and in the order of their start within a rank.
    pub programs: Vec<StartedProgram>,
    /// The same where the engine passes variables and mounts files that the scripts test and the image has not.
    pub when_given: Vec<StartedProgram>,
    /// The files of the image that scripts change before or beside the programs.
    pub changed_files: Vec<ChangedFile>,
    /// Where ldconfig runs before or beside the programs.
    pub ldconfig: Option<String>,
    /// Whether the budget ended before the scripts did: programs may be missing.
    pub is_cut_short: bool,
}

/// A program with everything that its loader sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedProgram {
    /// The absolute path as it is called; `None` where the program is not in the image or its name is not known.
    pub path: Option<String>,
    /// The words that it is started with, the name first.
    pub words: Vec<Value>,
    /// The environments that it may have, one to eight.
    pub environments: Vec<Environment>,
    /// The user, as [`ContainerCommand::user`] has it.
    pub user: Value,
    /// The working directory.
    pub directory: Value,
    /// How closely it belongs to the container's main process.
    pub rank: Rank,
    /// Whether it is an argument of the dynamic loader itself (`ld.so PROGRAM`).
    pub is_loader_argument: bool,
    /// Where it is started, `/entry.sh:12`, or `config`.
    pub place: String,
    /// What was assumed on the way.
    pub assumptions: Vec<Assumption>,
}

/// The environment that a program may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// The exported variables.
    pub variables: BTreeMap<String, Value>,
    /// The last undecided conditions that lead to it.
    pub branches: Vec<Branch>,
}

/// How closely a program belongs to the container's main process; the highest rank of a container answers for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Part of the distribution, or the end of a script that starts nothing.
    Distribution,
    /// Started inside a condition or a substitution.
    Inside,
    /// Started before the main process goes on, or at its end.
    Started,
    /// What the main process becomes by exec.
    Main,
}

/// Something that was taken for granted on the way to a program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Assumption {
    /// What kind it is and where, stable for one text: `source@/entry.sh:12`.
    pub id: String,
    /// The script, or `config`.
    pub path: String,
    /// The line, counted from one; 0 where the whole file is meant.
    pub line: usize,
    /// What is assumed, the end of a sentence that begins with the place: "`source $CONF` keeps LD_LIBRARY_PATH".
    pub text: String,
    /// The loader variables that it is about.
    pub variables: Vec<String>,
    /// The variables that are not set and decide it: whoever passes them settles it.
    pub unset: Vec<String>,
}

impl Assumption {
    /// What is taken for granted at a place such as `/entry.sh:12`, of no variable in particular.
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
    /// The absolute path; a directory stands for all that lies below it.
    pub path: String,
    /// Where it is changed: `/entry.sh:12`.
    pub place: String,
}

/// The path and the line of a place.
pub(crate) fn split_place(place: &str) -> (&str, usize) {
    match place.rsplit_once(':') {
        Some((path, line)) if let Ok(line) = line.parse() => (path, line),
        _ => (place, 0),
    }
}
