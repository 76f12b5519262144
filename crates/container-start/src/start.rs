//! The whole reading, and what the caller gets of it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::image_files::ImageFiles;
use crate::launcher_table::LauncherTable;
use crate::reader::{Reader, SeenProgram, WIDTH};
use crate::script::{Script, Shell};
use crate::state::{Flow, ShellValue, State, Variable};
use crate::value::Value;
use crate::{Assumption, ChangedFile, ContainerCommand, ContainerStart, Environment, LOADER_VARIABLES, StartedProgram};

/// Reads which programs a container's command starts.
///
/// Never fails: what cannot be followed is a hole or an assumption of the programs, and the end of the budget is
/// [`ContainerStart::is_cut_short`].
pub fn read_start(command: &ContainerCommand, files: &dyn ImageFiles, launchers: &LauncherTable) -> ContainerStart {
    let plain = read_once(command, files, launchers, false);
    let given = read_once(command, files, launchers, true);
    ContainerStart {
        programs: plain.programs,
        when_given: given.programs,
        changed_files: plain.changed,
        ldconfig: plain.ldconfig,
        is_cut_short: plain.is_spent || given.is_spent,
    }
}

struct Reading {
    programs: Vec<StartedProgram>,
    changed: Vec<ChangedFile>,
    ldconfig: Option<String>,
    is_spent: bool,
}

fn read_once(command: &ContainerCommand, files: &dyn ImageFiles, launchers: &LauncherTable, is_given: bool) -> Reading {
    let mut reader = Reader::new(files, launchers, is_given);
    reader.machine.clone_from(&command.machine);
    let mut environment = command.environment.clone();
    if let Some(account) = reader.account(if command.user.is_empty() { "root" } else { &command.user }) {
        // An engine sets HOME where nothing else does.
        environment.entry("HOME".to_owned()).or_insert(account.home);
    }
    environment
        .values_mut()
        .for_each(|value| *value = crate::value::clean_text(value.as_bytes()));
    let variable = |(name, text): (&String, &String)| {
        let value = Some(ShellValue::Text(text.clone()));
        (
            name.clone(),
            Variable {
                value,
                is_exported: true,
                is_readonly: false,
            },
        )
    };
    let state = State {
        variables: Rc::new(environment.iter().map(variable).collect()),
        functions: Rc::default(),
        arguments: vec!["config".to_owned()],
        directory: crate::state::normalize(&command.directory),
        user: reader.user(&command.user),
        shell: Shell::Dash,
        script: Script::config(),
        frames: Vec::new(),
        flow: Flow::Next,
        status: Some(true),
        output: None,
        input: None,
        sourced: 0,
        options: BTreeSet::new(),
        touched: Rc::default(),
        branches: Vec::new(),
        exit_trap: None,
        is_substitution: false,
        is_copy: false,
    };
    let words = command
        .words
        .iter()
        .map(|word| crate::value::clean_text(word.as_bytes()))
        .collect();
    reader.snippet = command.words.join(" ").chars().take(60).collect();
    reader.launch(words, environment, &state, "config");
    let mut seen = std::mem::take(&mut reader.programs);
    // What the engine starts and nothing follows is the main process itself.
    seen.iter_mut()
        .filter(|program| program.place == "config" && program.rank == crate::Rank::Started)
        .for_each(|program| program.rank = crate::Rank::Main);
    let assumptions: Vec<Assumption> = reader.assumptions.values().cloned().collect();
    Reading {
        programs: collect_programs(&seen, &reader, &assumptions),
        changed: reader
            .changed
            .iter()
            .cloned()
            .map(|(path, place)| ChangedFile { path, place })
            .collect(),
        ldconfig: reader.ldconfig.clone(),
        is_spent: reader.is_spent(),
    }
}

/// The programs with the sets of their environments.
fn collect_programs(seen: &[SeenProgram], reader: &Reader<'_>, assumptions: &[Assumption]) -> Vec<StartedProgram> {
    let mut programs: Vec<StartedProgram> = Vec::new();
    for one in seen {
        let value = |text: &str| reader.holes.value(text);
        let words: Vec<Value> = one.words.iter().map(|word| value(word)).collect();
        let environment = Environment {
            variables: one
                .environment
                .iter()
                .map(|(name, text)| (name.clone(), value(text)))
                .collect(),
            branches: one.branches.clone(),
        };
        let (user, directory) = (value(&one.user.name), value(&one.directory));
        let known = programs.iter_mut().find(|other| {
            let same_place = other.path == one.path && other.directory == directory && other.user == user;
            same_place
                && other.words == words
                && other.rank == one.rank
                && other.is_loader_argument == one.is_loader_argument
        });
        match known {
            Some(program) => add_environment(&mut program.environments, environment),
            None => programs.push(StartedProgram {
                path: one.path.clone(),
                words,
                environments: vec![environment],
                user,
                directory,
                rank: one.rank,
                is_loader_argument: one.is_loader_argument,
                place: one.place.clone(),
                assumptions: assumptions.to_vec(),
            }),
        }
    }
    programs.sort_by_key(|program| std::cmp::Reverse(program.rank));
    programs
}

/// Adds an environment to a set of at most eight; where they would be more, variables that the loader does not read are
/// forgotten first.
fn add_environment(set: &mut Vec<Environment>, environment: Environment) {
    if set.iter().any(|known| known.variables == environment.variables) {
        return;
    }
    let loader = |environment: &Environment| LOADER_VARIABLES.map(|name| environment.variables.get(name).cloned());
    if set.len() < WIDTH {
        set.push(environment);
    } else if !set.iter().any(|known| loader(known) == loader(&environment))
        && let Some(last) = set.last_mut()
    {
        let hole = crate::value::Hole {
            place: "config".to_owned(),
            reason: "one of more than eight environments".to_owned(),
        };
        let value = Value {
            pieces: vec![crate::value::ValuePiece::Hole(hole)],
        };
        let lost: BTreeMap<String, Value> = LOADER_VARIABLES
            .iter()
            .map(|name| ((*name).to_owned(), value.clone()))
            .collect();
        last.variables.extend(lost);
    }
}
