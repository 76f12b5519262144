//! The state shared by all shells of one reading, and how shell states are joined.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use shuck_ast::Span;

use crate::image_files::ImageFiles;
use crate::launcher_table::LauncherTable;
use crate::pattern::PatternCache;
use crate::script::SCRIPT_BYTES;
use crate::state::{Flow, Function, State, User, Variable, is_below};
use crate::value::{HoleKind, HoleTable, clean_text, is_open};
use crate::{Assumption, LOADER_VARIABLES, StartedProgram};

/// The maximum number of states followed in parallel.
pub(crate) const WIDTH: usize = 8;
/// The maximum number of loop iterations that are executed exactly.
pub(crate) const ROUNDS: usize = 64;
/// The maximum number of statements in one reading.
const STEPS: usize = 20_000;
/// The maximum number of value bytes that one reading creates.
const VALUE_BYTES: usize = 64 << 20;
/// The maximum bytes of one value. The kernel allows 128 KiB (`MAX_ARG_STRLEN`).
pub(crate) const VALUE_LENGTH: usize = 128 << 10;
/// The maximum nesting of scripts, functions and substitutions.
pub(crate) const DEPTH: usize = 30;
/// Directories whose content comes from the host or from run time.
const VOLATILE: [&str; 7] = ["/proc", "/sys", "/dev", "/tmp", "/run", "/var/run", "/mnt"];

/// A reading in progress.
pub(crate) struct Reader<'f> {
    pub files: &'f dyn ImageFiles,
    pub launchers: &'f LauncherTable,
    /// Whether the engine may provide variables and files that the image lacks. True in the second reading.
    pub provides_missing: bool,
    /// The output of `uname -m`.
    pub machine: &'f str,
    pub holes: HoleTable,
    pub patterns: PatternCache,
    /// The programs, each with the single environment of its path.
    pub programs: Vec<StartedProgram>,
    pub assumptions: BTreeMap<String, Assumption>,
    /// The files that commands change, each with the place of the change.
    pub changed: BTreeSet<(String, String)>,
    /// The first place that runs ldconfig.
    pub ldconfig: Option<String>,
    /// The current nesting of scripts and functions.
    pub depth: usize,
    /// The number of conditions under evaluation.
    pub conditions: usize,
    /// The running scripts. A script that starts itself again with equal inputs is cut off.
    pub running: Vec<RunningScript>,
    /// The paths written by child processes.
    pub written: BTreeSet<String>,
    /// The functions exported by `export -f`, keyed by their environment variable.
    pub exported_functions: BTreeMap<String, Rc<Function>>,
    /// The text of the current statement, quoted by assumptions.
    pub snippet: String,
    /// The unset variables that the current statement names.
    pub unset: Vec<String>,
    pub steps: usize,
    pub bytes: usize,
}

/// The identity of a running script: path, text, user, arguments and environment. Equal ones mean endless recursion.
pub(crate) type RunningScript = (String, String, User, Vec<String>, BTreeMap<String, String>);

impl Reader<'_> {
    /// Whether the budget is exhausted.
    pub(crate) fn is_spent(&self) -> bool {
        self.steps > STEPS || self.bytes > VALUE_BYTES
    }

    /// Counts one step. Returns whether the budget still has room.
    pub(crate) fn step(&mut self) -> bool {
        self.steps += 1;
        !self.is_spent()
    }

    /// Starts a statement. Assumptions quote its text.
    pub(crate) fn begin_statement(&mut self, state: &State, span: Span) {
        self.snippet = state.script.snippet(span);
        self.unset.clear();
    }

    /// Counts the bytes of a new value. A value over the limit becomes a hole.
    pub(crate) fn bounded(&mut self, state: &State, text: String) -> String {
        self.bytes += text.len();
        let fits = text.len() <= VALUE_LENGTH;
        if fits {
            text
        } else {
            self.hole(&state.script.path, "a value that is too long")
        }
    }

    pub(crate) fn hole(&mut self, place: &str, reason: &str) -> String {
        self.holes.add(HoleKind::Other, place, reason)
    }

    pub(crate) fn given_hole(&mut self, place: &str, reason: &str) -> String {
        self.holes.add(HoleKind::Given, place, reason)
    }

    /// A hole for a program's output.
    pub(crate) fn output_hole(&mut self, place: &str, program: &str) -> String {
        self.holes.add(
            HoleKind::Output(program.to_owned()),
            place,
            &format!("the output of `{program}`"),
        )
    }

    /// Records the assumption that the current statement keeps the loader variables.
    pub(crate) fn assume_keeps(&mut self, kind: &str, place: &str) {
        self.assume(kind, place, format!("`{}` keeps the loader variables", self.snippet));
    }

    /// Records the assumption that a program missing from the image is provided at run time.
    pub(crate) fn assume_present(&mut self, name: &str, place: &str) {
        self.assume(
            "missing",
            place,
            format!("{name}, which is not in the image, is there when it starts"),
        );
    }

    /// Records an assumption. `text` is a predicate that follows the place.
    pub(crate) fn assume(&mut self, kind: &str, place: &str, text: String) {
        let id = format!("{kind}@{place}");
        self.assumptions.entry(id.clone()).or_insert_with(|| Assumption {
            variables: LOADER_VARIABLES.map(str::to_owned).to_vec(),
            unset: self.unset.clone(),
            ..Assumption::at(id, place, text)
        });
    }

    /// Whether a text has a hole that the engine may fill.
    pub(crate) fn is_given_text(&self, text: &str) -> bool {
        self.holes.kinds(text).any(|kind| *kind == HoleKind::Given)
    }

    /// Whether the path belongs to the driver or to the directories where the driver is mounted.
    pub(crate) fn is_driver_file(&mut self, path: &str) -> bool {
        let mut patterns = self.launchers.driver_files.iter();
        patterns.any(|pattern| self.patterns.matches(pattern, path) == Some(true))
    }

    /// The text of a file; `None` if a command may have changed it.
    pub(crate) fn file_text(&self, state: &State, path: &str) -> Option<String> {
        let is_known = !is_open(path) && !state.touched.contains(path);
        let content = is_known.then(|| self.files.read(path)).flatten()?;
        (content.len() <= SCRIPT_BYTES && !content.starts_with(b"\x7fELF")).then(|| clean_text(content))
    }

    /// Joins indistinguishable states and reduces the rest to at most [`WIDTH`].
    pub(crate) fn join(&mut self, states: Vec<State>) -> Vec<State> {
        let is_over = |state: &State| matches!(state.flow, Flow::Exit | Flow::Replaced);
        let all_over = states.iter().all(is_over);
        let mut joined: Vec<State> = Vec::new();
        // A state with an EXIT trap still has commands to run.
        for state in states
            .into_iter()
            .filter(|state| !is_over(state) || all_over || state.exit_trap.is_some())
        {
            match joined.iter_mut().find(|other| other.is_like(&state)) {
                Some(other) => other.merge_touched(&[state]),
                None => joined.push(state),
            }
        }
        if joined.len() > WIDTH {
            joined = self.merge(joined, |one, other| one.loader_key() == other.loader_key());
        }
        if joined.len() > WIDTH {
            // Still too many: join all of them, and the loader variables that differ become holes.
            let goes_on = joined.iter().any(|state| state.flow == Flow::Next);
            joined = self.merge(joined, |_, _| true);
            for state in &mut joined {
                state.status = None;
                state.flow = if goes_on { Flow::Next } else { state.flow };
            }
        }
        joined
    }

    /// Merges states that are alike. Values that differ become holes.
    fn merge(&mut self, states: Vec<State>, are_alike: fn(&State, &State) -> bool) -> Vec<State> {
        let mut groups: Vec<State> = Vec::new();
        for state in states {
            match groups.iter_mut().find(|group| are_alike(group, &state)) {
                Some(group) => self.forget_difference(group, &state),
                None => groups.push(state),
            }
        }
        groups
    }

    /// Turns the differences between two states into holes.
    fn forget_difference(&mut self, state: &mut State, other: &State) {
        let place = state.script.path.clone();
        let names: BTreeSet<&String> = state.variables.keys().chain(other.variables.keys()).collect();
        let differ = |name: &&&String| state.variables.get(**name) != other.variables.get(**name);
        let names: Vec<String> = names.iter().filter(differ).map(|name| (**name).clone()).collect();
        for name in names {
            let hole = self.hole(&place, &format!("{name}, of which there are too many values"));
            let variable = state.variable_mut(&name);
            variable.value = vec![hole];
            variable.is_exported |= other.variables.get(&name).is_some_and(|variable| variable.is_exported);
        }
        if state.directory != other.directory {
            state.directory = self.hole(&place, "the working directory");
        }
        if state.arguments != other.arguments {
            self.lose_arguments(state, &place);
        }
        let functions = Rc::make_mut(&mut state.functions);
        for (name, function) in other.functions.iter() {
            functions.entry(name.clone()).or_insert_with(|| Rc::clone(function));
        }
        state.merge_touched(std::slice::from_ref(other));
    }

    /// Makes the loader variables unknown, for example after the budget ran out.
    pub(crate) fn lose_variables(&mut self, state: &mut State, place: &str, reason: &str) {
        let hole = self.hole(place, reason);
        for name in LOADER_VARIABLES {
            *state.variable_mut(name) = Variable::exported(&hole);
        }
    }

    /// Makes LD_LIBRARY_PATH unknown, because `setter` may set it.
    pub(crate) fn lose_search_path(&mut self, state: &mut State, place: &str, setter: &str, kind: HoleKind) {
        let hole = self
            .holes
            .add(kind, place, &format!("LD_LIBRARY_PATH, which {setter} may set"));
        *state.variable_mut("LD_LIBRARY_PATH") = Variable::exported(&hole);
    }

    pub(crate) fn lose_arguments(&mut self, state: &mut State, place: &str) {
        let hole = self.hole(place, "the arguments");
        state.set_arguments([hole]);
    }

    /// Writes to standard output, if it is captured.
    pub(crate) fn print(&mut self, mut state: State, text: &str, status: Option<bool>) -> Vec<State> {
        if let Some(output) = state.output.take() {
            state.output = Some(self.bounded(&state, output + text));
        }
        state.finish(status)
    }

    /// The common text, or a hole if the texts differ.
    pub(crate) fn only_text<'t>(
        &mut self,
        texts: impl IntoIterator<Item = &'t str>,
        place: &str,
        reason: &str,
    ) -> String {
        let mut texts = texts.into_iter();
        let first = texts.next().unwrap_or_default();
        if texts.all(|text| text == first) {
            first.to_owned()
        } else {
            self.hole(place, reason)
        }
    }
}

/// Whether the file at this path comes from the host or from run time.
pub(crate) fn is_volatile(path: &str) -> bool {
    VOLATILE.iter().any(|folder| is_below(path, folder))
}

/// Whether a text names a loader variable.
pub(crate) fn mentions_loader(text: &str) -> bool {
    LOADER_VARIABLES.iter().any(|name| text.contains(name))
}

/// Whether a space-separated list contains a word.
pub(crate) fn has_word(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}
