//! The entry point: runs one reading and collects its result.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::image_files::ImageFiles;
use crate::launch::Process;
use crate::launcher_table::LauncherTable;
use crate::pattern::PatternCache;
use crate::reader::{Reader, WIDTH};
use crate::state::{State, exported_variables, normalize};
use crate::value::{Hole, HoleTable, Value, ValuePiece, clean_text};
use crate::{Assumption, ContainerCommand, ContainerStart, Environment, LOADER_VARIABLES, Rank, StartedProgram};

/// Reads which programs a container's command starts.
///
/// Never fails. Unknown parts become holes or assumptions of the programs. An exhausted budget sets
/// [`ContainerStart::is_cut_short`].
pub fn read_start(command: &ContainerCommand, files: &dyn ImageFiles, launchers: &LauncherTable) -> ContainerStart {
    let mut start = read_once(command, files, launchers, false);
    let given = read_once(command, files, launchers, true);
    start.when_given = given.programs;
    start.is_cut_short |= given.is_cut_short;
    start
}

fn read_once(
    command: &ContainerCommand,
    files: &dyn ImageFiles,
    launchers: &LauncherTable,
    provides_missing: bool,
) -> ContainerStart {
    let mut reader = Reader {
        files,
        launchers,
        provides_missing,
        machine: &command.machine,
        holes: HoleTable::default(),
        patterns: PatternCache::default(),
        programs: Vec::new(),
        assumptions: BTreeMap::new(),
        changed: BTreeSet::new(),
        ldconfig: None,
        depth: 0,
        conditions: 0,
        running: Vec::new(),
        touched: BTreeSet::new(),
        place: "config".to_owned(),
        snippet: command.words.join(" ").chars().take(60).collect(),
        unset: Vec::new(),
        steps: 0,
        bytes: 0,
    };
    let mut environment: BTreeMap<String, String> = command
        .environment
        .iter()
        .map(|(name, text)| (name.clone(), clean_text(text.as_bytes())))
        .collect();
    if let Some([_, home, _]) = reader.account(if command.user.is_empty() { "root" } else { &command.user }) {
        // Engines set HOME only if nothing else did.
        environment.entry("HOME".to_owned()).or_insert(home);
    }
    let state = State {
        variables: exported_variables(&environment),
        arguments: vec!["config".to_owned()],
        directory: normalize(&command.directory),
        user: reader.user(&command.user),
        status: Some(true),
        ..State::default()
    };
    let words = command.words.iter().map(|word| clean_text(word.as_bytes()));
    reader.launch(Process::new(words.collect(), environment), &state);
    ContainerStart {
        is_cut_short: reader.is_spent(),
        programs: collect_programs(reader.programs, &reader.assumptions),
        when_given: Vec::new(),
        changed_files: reader.changed.into_iter().collect(),
        ldconfig: reader.ldconfig,
    }
}

/// Merges equal programs and collects their environments.
fn collect_programs(seen: Vec<StartedProgram>, assumptions: &BTreeMap<String, Assumption>) -> Vec<StartedProgram> {
    let mut programs: Vec<StartedProgram> = Vec::new();
    for mut one in seen {
        // If the engine starts a program directly, that program is the main process.
        if one.place == "config" && one.rank == Rank::Started {
            one.rank = Rank::Main;
        }
        let known = programs.iter_mut().find(|other| {
            let same_place = other.path == one.path && other.directory == one.directory && other.user == one.user;
            let same_kind = other.rank == one.rank && other.is_loader_argument == one.is_loader_argument;
            same_place && same_kind && other.words == one.words
        });
        if let Some(program) = known {
            one.environments
                .drain(..)
                .for_each(|environment| add_environment(&mut program.environments, environment));
        } else {
            one.assumptions = assumptions.values().cloned().collect();
            programs.push(one);
        }
    }
    programs.sort_by_key(|program| Reverse(program.rank));
    programs
}

/// Adds an environment, up to the limit. Beyond it, the loader variables of the last one become unknown.
fn add_environment(set: &mut Vec<Environment>, environment: Environment) {
    let loader = LOADER_VARIABLES.map(|name| environment.variables.get(name));
    if set.iter().any(|known| known.variables == environment.variables) {
        return;
    }
    if set.len() < WIDTH {
        set.push(environment);
    } else if !set
        .iter()
        .any(|known| LOADER_VARIABLES.map(|name| known.variables.get(name)) == loader)
        && let Some(last) = set.last_mut()
    {
        let hole = Hole {
            place: "config".to_owned(),
            reason: "one of more than eight environments".to_owned(),
        };
        let lost = Value {
            pieces: vec![ValuePiece::Hole(hole)],
        };
        last.variables
            .extend(LOADER_VARIABLES.map(|name| (name.to_owned(), lost.clone())));
    }
}
