//! The state shared by all shells of one reading, and how shell states are joined.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::image_files::ImageFiles;
use crate::launch::Process;
use crate::launcher_table::LauncherTable;
use crate::pattern::PatternCache;
use crate::script::SCRIPT_BYTES;
use crate::state::{Flow, State, User, Variable, is_below};
use crate::value::{HoleKind, HoleTable, clean_text, is_open};
use crate::{Assumption, ChangedFile, LOADER_VARIABLES, StartedProgram};

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
    pub changed: BTreeSet<ChangedFile>,
    /// The first place that runs ldconfig.
    pub ldconfig: Option<String>,
    /// The current nesting of scripts and functions.
    pub depth: usize,
    /// The number of conditions under evaluation.
    pub conditions: usize,
    /// The running scripts: text, process and user. One that starts itself again with equal inputs is cut off.
    pub running: Vec<(String, Process, User)>,
    /// The paths that commands may have changed so far.
    pub touched: BTreeSet<String>,
    /// The place of the current statement: `/entry.sh:12`, or `config`.
    pub place: String,
    /// The text of the current statement, quoted by assumptions.
    pub snippet: String,
    /// The unset variables that the current statement names.
    pub unset: Vec<String>,
    pub steps: usize,
    pub bytes: usize,
}

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

    /// Runs a part of a condition. Its programs rank lower.
    pub(crate) fn in_condition<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        self.conditions += 1;
        let result = run(self);
        self.conditions -= 1;
        result
    }

    /// Counts the bytes of a new value. A value over the limit becomes a hole.
    pub(crate) fn bounded(&mut self, text: String) -> String {
        self.bytes += text.len();
        let fits = text.len() <= VALUE_LENGTH;
        if fits {
            text
        } else {
            self.hole("a value that is too long")
        }
    }

    pub(crate) fn hole(&mut self, reason: &str) -> String {
        self.holes.add(HoleKind::Other, &self.place, reason)
    }

    pub(crate) fn given_hole(&mut self, reason: &str) -> String {
        self.holes.add(HoleKind::Given, &self.place, reason)
    }

    /// A hole for a program's output.
    pub(crate) fn output_hole(&mut self, program: &str) -> String {
        let kind = HoleKind::Output(program.to_owned());
        self.holes.add(kind, &self.place, &format!("the output of `{program}`"))
    }

    /// Records the assumption that the current statement keeps the loader variables.
    pub(crate) fn assume_keeps(&mut self, kind: &str) {
        self.assume(kind, &format!("`{}` keeps the loader variables", self.snippet));
    }

    /// Records the assumption that a program missing from the image is provided at run time.
    pub(crate) fn assume_present(&mut self, name: &str) {
        let text = format!("{name}, which is not in the image, is there when it starts");
        self.assume("missing", &text);
    }

    /// Records an assumption about the current statement. `text` is a predicate that follows the place.
    pub(crate) fn assume(&mut self, kind: &str, text: &str) {
        self.assume_at(kind, &self.place.clone(), text);
    }

    pub(crate) fn assume_at(&mut self, kind: &str, place: &str, text: &str) {
        let id = format!("{kind}@{place}");
        self.assumptions.entry(id.clone()).or_insert_with(|| Assumption {
            variables: LOADER_VARIABLES.map(str::to_owned).to_vec(),
            unset: self.unset.clone(),
            ..Assumption::at(id, place, text.to_owned())
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

    /// Records that the current statement changes a file of the image.
    pub(crate) fn note_change(&mut self, path: &str) {
        let (path, place) = (path.to_owned(), self.place.clone());
        self.changed.insert(ChangedFile { path, place });
    }

    /// Whether a command may have changed the path, its parents or anything below it.
    pub(crate) fn is_touched(&self, path: &str) -> bool {
        let mut touched = self.touched.iter();
        touched.any(|touched| is_below(path, touched) || is_below(touched, path))
    }

    /// The text of a file; `None` if a command may have changed it.
    pub(crate) fn file_text(&self, path: &str) -> Option<String> {
        let is_known = !is_open(path) && !self.touched.contains(path);
        let content = is_known.then(|| self.files.read(path)).flatten()?;
        (content.len() <= SCRIPT_BYTES && !content.starts_with(b"\x7fELF")).then(|| clean_text(content))
    }

    /// Joins indistinguishable states and reduces the rest to at most [`WIDTH`].
    pub(crate) fn join(&mut self, states: Vec<State>) -> Vec<State> {
        let all_over = states.iter().all(State::is_over);
        // A state with an EXIT trap still has commands to run.
        let going = states
            .into_iter()
            .filter(|state| all_over || !state.is_over() || state.exit_trap.is_some());
        let mut joined = self.merge(going, State::is_like);
        if joined.len() > WIDTH {
            joined = self.merge(joined.into_iter(), |one, other| one.loader_key() == other.loader_key());
        }
        if joined.len() > WIDTH {
            // Still too many: join all of them, and the loader variables that differ become holes.
            let goes_on = joined.iter().any(|state| state.flow == Flow::Next);
            joined = self.merge(joined.into_iter(), |_, _| true);
            for state in &mut joined {
                state.status = None;
                state.flow = if goes_on { Flow::Next } else { state.flow };
            }
        }
        joined
    }

    /// Merges states that are alike. Values that differ become holes.
    fn merge(&mut self, states: impl Iterator<Item = State>, are_alike: fn(&State, &State) -> bool) -> Vec<State> {
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
        let names = state.variables.keys().chain(other.variables.keys());
        let different: BTreeSet<String> = names
            .filter(|name| state.variables.get(*name) != other.variables.get(*name))
            .cloned()
            .collect();
        for name in different {
            let hole = self.hole(&format!("{name}, of which there are too many values"));
            let variable = state.variable_mut(&name);
            variable.value = vec![hole];
            variable.is_exported |= other.variables.get(&name).is_some_and(|variable| variable.is_exported);
        }
        if state.directory != other.directory {
            state.directory = self.hole("the working directory");
        }
        if state.arguments != other.arguments {
            self.lose_arguments(state);
        }
        let functions = Rc::make_mut(&mut state.functions);
        for (name, function) in other.functions.iter() {
            functions.entry(name.clone()).or_insert_with(|| Rc::clone(function));
        }
    }

    /// Makes the loader variables unknown, for example after the budget ran out.
    pub(crate) fn lose_variables(&mut self, state: &mut State, reason: &str) {
        let hole = self.hole(reason);
        for name in LOADER_VARIABLES {
            *state.variable_mut(name) = Variable::exported(&hole);
        }
    }

    /// Makes LD_LIBRARY_PATH unknown, because `setter` may set it.
    pub(crate) fn lose_search_path(&mut self, state: &mut State, setter: &str, kind: HoleKind) {
        let hole = self
            .holes
            .add(kind, &self.place, &format!("LD_LIBRARY_PATH, which {setter} may set"));
        *state.variable_mut("LD_LIBRARY_PATH") = Variable::exported(&hole);
    }

    pub(crate) fn lose_arguments(&mut self, state: &mut State) {
        let hole = self.hole("the arguments");
        state.set_arguments([hole]);
    }

    /// Writes to standard output, if it is captured.
    pub(crate) fn print(&mut self, mut state: State, text: &str, status: Option<bool>) -> Vec<State> {
        if let Some(output) = state.output.take() {
            state.output = Some(self.bounded(output + text));
        }
        state.finish(status)
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
