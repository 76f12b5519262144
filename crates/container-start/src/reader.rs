//! One reading of a container's start: what all its shells share, and how states are joined.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use shuck_ast::Span;

use crate::image_files::ImageFiles;
use crate::launcher_table::LauncherTable;
use crate::pattern::PatternCache;
use crate::script::{SCRIPT_BYTES, Script};
use crate::state::{Branch, Flow, Function, ShellValue, State, User, Variable, is_below};
use crate::value::{HoleKind, HoleTable, is_open};
use crate::{Assumption, LOADER_VARIABLES, Rank};

/// The states that are followed side by side.
pub(crate) const WIDTH: usize = 8;
/// The rounds of a loop that are followed one by one.
pub(crate) const ROUNDS: usize = 64;
/// The statements that one reading follows.
const STEPS: usize = 20_000;
/// The bytes of values that one reading makes.
const VALUE_BYTES: usize = 64 << 20;
/// The bytes of one value; the kernel takes 128 KiB (`MAX_ARG_STRLEN`).
pub(crate) const VALUE_LENGTH: usize = 128 << 10;
/// The scripts, functions and substitutions within each other.
pub(crate) const DEPTH: usize = 30;
/// The folders whose files belong to a host or a run, not to the image.
const VOLATILE: [&str; 7] = ["/proc", "/sys", "/dev", "/tmp", "/run", "/var/run", "/mnt"];

/// A program that was seen to start, with its values as the reading has them.
#[derive(Debug, Clone)]
pub(crate) struct SeenProgram {
    pub path: Option<String>,
    pub words: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub branches: Vec<Branch>,
    pub directory: String,
    pub user: User,
    pub rank: Rank,
    pub is_loader_argument: bool,
    pub place: String,
}

/// A reading in progress.
pub(crate) struct Reader<'f> {
    pub files: &'f dyn ImageFiles,
    pub launchers: &'f LauncherTable,
    /// Whether variables and files that the image has not may be there: the second reading.
    pub is_given: bool,
    /// What `uname -m` prints.
    pub machine: String,
    pub holes: HoleTable,
    pub patterns: PatternCache,
    pub programs: Vec<SeenProgram>,
    pub assumptions: BTreeMap<String, Assumption>,
    /// The files that commands change, with the places.
    pub changed: BTreeSet<(String, String)>,
    /// Where ldconfig runs.
    pub ldconfig: Option<String>,
    /// How deep scripts and functions lie in each other.
    pub depth: usize,
    /// How many conditions are being evaluated.
    pub conditions: usize,
    /// The scripts that are running, to end those that start themselves again.
    pub running: Vec<RunningScript>,
    /// What processes of their own have written.
    pub written: BTreeMap<String, Option<String>>,
    /// The functions that `export -f` hands to shells, by the names of their variables.
    pub exported_functions: BTreeMap<String, Rc<Function>>,
    /// The statement that is being read, for the words of assumptions.
    pub snippet: String,
    /// The unset variables that its words name.
    pub unset: Vec<String>,
    steps: usize,
    bytes: usize,
}

/// What tells a script that starts itself again: its path, text, user, arguments and environment.
pub(crate) type RunningScript = (String, String, User, Vec<String>, BTreeMap<String, String>);

impl<'f> Reader<'f> {
    pub(crate) fn new(files: &'f dyn ImageFiles, launchers: &'f LauncherTable, is_given: bool) -> Self {
        Self {
            files,
            launchers,
            is_given,
            machine: String::new(),
            holes: HoleTable::default(),
            patterns: PatternCache::default(),
            programs: Vec::new(),
            assumptions: BTreeMap::new(),
            changed: BTreeSet::new(),
            ldconfig: None,
            depth: 0,
            conditions: 0,
            running: Vec::new(),
            written: BTreeMap::new(),
            exported_functions: BTreeMap::new(),
            snippet: String::new(),
            unset: Vec::new(),
            steps: 0,
            bytes: 0,
        }
    }

    /// Whether the budget has ended.
    pub(crate) fn is_spent(&self) -> bool {
        self.steps > STEPS || self.bytes > VALUE_BYTES
    }

    /// Takes a step; whether the budget has room for it.
    pub(crate) fn step(&mut self) -> bool {
        self.steps += 1;
        !self.is_spent()
    }

    /// Begins a statement, whose text assumptions quote.
    pub(crate) fn begin_statement(&mut self, script: &Script, span: Span) {
        self.snippet = script.snippet(span);
        self.unset.clear();
    }

    /// Counts the bytes of a new value; one that is too long becomes a hole.
    pub(crate) fn bounded(&mut self, state: &State, text: String) -> String {
        self.bytes += text.len();
        if text.len() > VALUE_LENGTH {
            self.hole(&state.script.path, "a value that is too long")
        } else {
            text
        }
    }

    /// Takes bytes of values; whether the budget has room for them.
    pub(crate) fn spend(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        !self.is_spent()
    }

    pub(crate) fn hole(&mut self, place: &str, reason: &str) -> String {
        self.holes.add(HoleKind::Other, place, reason)
    }

    pub(crate) fn given_hole(&mut self, place: &str, reason: &str) -> String {
        self.holes.add(HoleKind::Given, place, reason)
    }

    /// The output of a program, which only a run can tell.
    pub(crate) fn output_hole(&mut self, place: &str, program: &str) -> String {
        let reason = format!("the output of `{program}`");
        self.holes.add(HoleKind::Output(program.to_owned()), place, &reason)
    }

    /// Notes what is taken for granted at a node of a state's script; `text` follows the place.
    pub(crate) fn assume(&mut self, kind: &str, script: &Script, span: Span, text: String) {
        self.assume_at(kind, &script.path, script.line_of(span), text);
    }

    /// The same, said of the statement that is being read.
    pub(crate) fn assume_keeps(&mut self, kind: &str, place: &str) {
        let (path, line) = split_place(place);
        let text = format!("`{}` keeps the loader variables", self.snippet);
        self.assume_at(kind, path, line, text);
    }

    pub(crate) fn assume_at(&mut self, kind: &str, path: &str, line: usize, text: String) {
        let id = if line == 0 {
            format!("{kind}@{path}")
        } else {
            format!("{kind}@{path}:{line}")
        };
        self.assumptions.entry(id.clone()).or_insert_with(|| Assumption {
            id,
            path: path.to_owned(),
            line,
            text,
            variables: LOADER_VARIABLES.map(str::to_owned).to_vec(),
            unset: self.unset.clone(),
        });
    }

    /// Whether the kinds of a text's holes include one that a run gives.
    pub(crate) fn is_given_text(&self, text: &str) -> bool {
        self.holes.kinds(text).contains(&&HoleKind::Given)
    }

    /// The programs whose output is a part of the text.
    pub(crate) fn output_programs(&self, text: &str) -> Vec<String> {
        let kinds = self.holes.kinds(text).into_iter();
        let programs = kinds.filter_map(|kind| match kind {
            HoleKind::Output(program) => Some(program.clone()),
            _ => None,
        });
        programs.collect()
    }

    /// Whether the file is a part of the driver, or of the folders where it is mounted.
    pub(crate) fn is_of_driver(&mut self, path: &str) -> bool {
        let patterns = &self.launchers.driver_files;
        patterns
            .iter()
            .any(|pattern| self.patterns.matches(pattern, path) == Some(true))
    }

    /// The text of a file; nothing of a file that a command may have changed.
    pub(crate) fn file_text(&self, state: &State, path: &str) -> Option<String> {
        if let Some(written) = state.touched.get(path) {
            return written.clone().filter(|text| !is_open(text));
        }
        let content = (!is_open(path)).then(|| self.files.read(path)).flatten()?;
        if content.len() > SCRIPT_BYTES {
            return None;
        }
        Some(crate::value::clean_text(content))
    }

    /// The states that go on, joined where they cannot be told apart, at most [`WIDTH`] of them.
    pub(crate) fn join(&mut self, states: Vec<State>) -> Vec<State> {
        let is_over = |state: &State| matches!(state.flow, Flow::Exit | Flow::Replaced);
        let all_over = states.iter().all(is_over);
        let mut joined: Vec<State> = Vec::new();
        for state in states {
            // A path with a trap still has something to run.
            if is_over(&state) && !all_over && state.exit_trap.is_none() {
                continue;
            }
            match joined.iter_mut().find(|other| other.is_like(&state)) {
                Some(other) => other.merge_touched(&[state]),
                None => joined.push(state),
            }
        }
        if joined.len() <= WIDTH {
            return joined;
        }
        let mut groups: Vec<State> = Vec::new();
        for state in joined {
            match groups.iter_mut().find(|other| other.loader_key() == state.loader_key()) {
                Some(group) => self.forget_difference(group, &state),
                None => groups.push(state),
            }
        }
        if groups.len() > WIDTH {
            vec![self.forget_all(&groups)]
        } else {
            groups
        }
    }

    /// Makes holes of the variables in which a state differs from another one.
    fn forget_difference(&mut self, state: &mut State, other: &State) {
        let names: BTreeSet<&String> = state.variables.keys().chain(other.variables.keys()).collect();
        let differ = |name: &&String| state.variables.get(*name) != other.variables.get(*name);
        let names: Vec<String> = names.into_iter().filter(differ).cloned().collect();
        for name in names {
            let hole = self.hole(
                &state.script.path,
                &format!("{name}, of which there are too many values"),
            );
            let exported = other.variables.get(&name).is_some_and(|variable| variable.is_exported);
            let variable = state.variable_mut(&name);
            variable.value = Some(ShellValue::Text(hole));
            variable.is_exported |= exported;
        }
        if state.directory != other.directory {
            state.directory = self.hole(&state.script.path, "the working directory");
        }
        if state.arguments != other.arguments {
            let hole = self.hole(&state.script.path, "the arguments");
            state.arguments.truncate(1);
            state.arguments.push(hole);
        }
        for (name, function) in other.functions.iter() {
            Rc::make_mut(&mut state.functions)
                .entry(name.clone())
                .or_insert_with(|| Rc::clone(function));
        }
        state.merge_touched(std::slice::from_ref(other));
    }

    /// One state for too many: what the loader sees is not known.
    fn forget_all(&mut self, states: &[State]) -> State {
        let Some((first, others)) = states.split_first() else {
            unreachable!("only more states than the width are forgotten")
        };
        let mut state = first.clone();
        for other in others {
            self.forget_difference(&mut state, other);
        }
        state.status = None;
        if states.iter().any(|state| state.flow == Flow::Next) {
            state.flow = Flow::Next;
        }
        state
    }

    /// After the budget: the loader variables are not known.
    pub(crate) fn lose_variables(&mut self, state: &mut State, place: &str, reason: &str) {
        let hole = self.hole(place, reason);
        for name in LOADER_VARIABLES {
            *state.variable_mut(name) = Variable {
                value: Some(ShellValue::Text(hole.clone())),
                is_exported: true,
                is_readonly: false,
            };
        }
    }

    /// Makes a hole of the search path.
    pub(crate) fn lose_search_path(&mut self, state: &mut State, hole: String) {
        let variable = state.variable_mut("LD_LIBRARY_PATH");
        variable.value = Some(ShellValue::Text(hole));
        variable.is_exported = true;
    }

    /// Writes to descriptor 1.
    pub(crate) fn print(&mut self, mut state: State, text: &str, status: Option<bool>) -> Vec<State> {
        if let Some(mut output) = state.output.take() {
            output.push_str(text);
            state.output = Some(self.bounded(&state, output));
        }
        state.finish(status)
    }
}

/// Whether a file under this path is the host's or a run's to bring.
pub(crate) fn is_volatile(path: &str) -> bool {
    VOLATILE.iter().any(|folder| is_below(path, folder))
}

/// The path and the line of a place.
pub(crate) fn split_place(place: &str) -> (&str, usize) {
    match place.rsplit_once(':') {
        Some((path, line)) if let Ok(line) = line.parse() => (path, line),
        _ => (place, 0),
    }
}
