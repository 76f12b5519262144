//! Lists the processes that the container's command may start: the programs of the highest rank, one per environment.

use std::collections::BTreeMap;

use container_start::{
    Assumption, Branch, ContainerCommand, ContainerStart, Environment, Hole, LOADER_VARIABLES, StartedProgram, Value,
    read_start,
};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{FileCredentials, Rootfs};
use image_source::ImageConfig;

use crate::facts::objects::container_files::ContainerFiles;
use crate::knowledge::KnowledgeTables;

/// One process that the command may start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandEntry {
    /// The words of the program, up to the first unknown one.
    pub program: Vec<String>,
    /// Its variables, without their unknown parts.
    pub variables: BTreeMap<String, String>,
    /// The loader's variables with partly unknown values.
    pub unknown: BTreeMap<&'static str, Value>,
    /// The undecided conditions before it.
    pub branches: Vec<Branch>,
    /// The user, if different from the image's.
    pub user: Option<String>,
    /// The working directory; `None` if it cannot be determined statically.
    pub working_dir: Option<String>,
    /// The path of the executed file, as called.
    pub called: Option<RootPath>,
    /// The path with links resolved.
    pub executable: Option<RootPath>,
    /// Whether the program is an argument of the dynamic loader.
    pub by_loader: bool,
}

/// The conditions under which the command of an image starts.
pub(crate) struct CommandStart<'c> {
    pub config: &'c ImageConfig,
    /// The image's variables, overridden by the user's.
    pub environment: &'c BTreeMap<String, String>,
    /// The variables that the user passes.
    pub given: &'c [(String, String)],
    /// The processor, as in `uname -m`.
    pub machine: &'c str,
    pub credentials: &'c FileCredentials,
}

/// Reads the command of an image, both without and with the inputs that a run may provide.
pub(crate) fn read_command(rootfs: &Rootfs, tables: &KnowledgeTables, start: &CommandStart<'_>) -> CommandReading {
    let CommandStart {
        config, environment, ..
    } = *start;
    let directory = config.working_dir.clone().filter(|folder| !folder.is_empty());
    let command = ContainerCommand {
        words: config.command.clone(),
        environment: environment.clone(),
        user: config.user.clone().unwrap_or_default(),
        directory: directory.unwrap_or_else(|| "/".to_owned()),
        machine: start.machine.to_owned(),
    };
    let files = ContainerFiles {
        rootfs,
        created_by: &config.created_by,
        credentials: start.credentials,
    };
    let mut read = read_start(&command, &files, &tables.launchers);
    fill_given(&mut read, start.given);
    let mut entries = list_entries(&read.programs, &command.user, rootfs);
    if entries.is_empty() {
        entries.push(CommandEntry {
            program: command.words.clone(),
            variables: environment.clone(),
            working_dir: Some(command.directory.clone()),
            ..CommandEntry::default()
        });
    }
    let mut more = list_entries(&read.when_given, &command.user, rootfs);
    more.retain(|entry| !entries.iter().any(|known| known.loads_like(entry)));
    CommandReading {
        start: read,
        environment: environment.clone(),
        entries,
        when_given: more,
    }
}

/// Replaces unknown values with the variables that the user passes, which are the final ones.
fn fill_given(start: &mut ContainerStart, given: &[(String, String)]) {
    for program in start.programs.iter_mut().chain(&mut start.when_given) {
        let mut filled: Vec<Environment> = Vec::new();
        for mut environment in std::mem::take(&mut program.environments) {
            for (name, text) in given.iter().rev() {
                let value = environment.variables.get_mut(name);
                if let Some(value) = value.filter(|value| value.hole().is_some()) {
                    *value = Value::from(text.as_str());
                }
            }
            if !filled.iter().any(|known| known.variables == environment.variables) {
                filled.push(environment);
            }
        }
        program.environments = filled;
    }
}

/// The processes of the highest rank. `own_user` is the user in the image config.
fn list_entries(programs: &[StartedProgram], own_user: &str, rootfs: &Rootfs) -> Vec<CommandEntry> {
    let rank = programs.first().map(|program| program.rank);
    let top = programs.iter().filter(|program| Some(program.rank) == rank);
    let mut entries: Vec<CommandEntry> = Vec::new();
    for program in top {
        for environment in &program.environments {
            let entry = read_entry(program, environment, own_user, rootfs);
            if !entries.iter().any(|known| known.loads_like(&entry)) {
                entries.push(entry);
            }
        }
    }
    entries
}

fn read_entry(program: &StartedProgram, environment: &Environment, own_user: &str, rootfs: &Rootfs) -> CommandEntry {
    let variables = &environment.variables;
    let unknown = LOADER_VARIABLES.into_iter().filter_map(|name| {
        let value = variables.get(name).filter(|value| value.hole().is_some())?;
        Some((name, value.clone()))
    });
    let user = program.user.text().filter(|user| !is_same_user(user, own_user));
    let called = program.path.as_ref().map(|path| RootPath::new(path.as_bytes()));
    let executable = called.as_ref().and_then(|path| rootfs.lookup(&path.absolute()).ok());
    CommandEntry {
        program: program.words.iter().map_while(Value::text).map(str::to_owned).collect(),
        variables: variables
            .iter()
            .map(|(name, value)| (name.clone(), value.filled("")))
            .collect(),
        unknown: unknown.collect(),
        branches: environment.branches.clone(),
        user: user.map(str::to_owned),
        working_dir: program.directory.text().map(str::to_owned),
        executable: executable.map(|found| found.path),
        called,
        by_loader: program.is_loader_argument,
    }
}

impl CommandEntry {
    /// Whether both give the loader the same inputs.
    fn loads_like(&self, other: &Self) -> bool {
        self.unknown == other.unknown
            && self.working_dir == other.working_dir
            && self.user == other.user
            && self.executable == other.executable
            && LOADER_VARIABLES
                .iter()
                .all(|name| self.variables.get(*name) == other.variables.get(*name))
    }

    /// The first unknown input of the loader, with its variable.
    pub(crate) fn first_hole(&self) -> Option<(&str, &Hole)> {
        self.unknown
            .iter()
            .find_map(|(name, value)| Some((*name, value.hole()?)))
    }
}

/// Whether two names in image configs mean the same user; root has several.
fn is_same_user(one: &str, other: &str) -> bool {
    one == other || is_root(one) && is_root(other)
}

fn is_root(user: &str) -> bool {
    matches!(user, "" | "0" | "root" | "0:0" | "root:root")
}

/// The reading of the container's command.
#[derive(Debug, Clone, Default)]
pub struct CommandReading {
    /// The complete reading.
    pub start: ContainerStart,
    /// The initial environment of the command: the image's, overridden by the user's variables.
    pub environment: BTreeMap<String, String>,
    /// The processes that it may start, at least one.
    pub entries: Vec<CommandEntry>,
    /// Further processes, if an engine passes or mounts what the image lacks.
    pub when_given: Vec<CommandEntry>,
}

impl CommandReading {
    /// The assumptions on the path to its programs.
    pub fn assumptions(&self) -> &[Assumption] {
        let first = self.start.programs.first();
        first.map_or(&[], |program| &program.assumptions)
    }

    /// Whether a script changes the configuration of ldconfig.
    pub(crate) fn changes_configuration(&self) -> bool {
        let mut changes = self.start.changed_files.iter();
        changes.any(|change| change.path.starts_with("/etc/ld.so.conf"))
    }
}
