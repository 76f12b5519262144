//! One reading of a container's start: what all its shells share, and how states are joined.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use shuck_ast::Span;

use crate::image_files::ImageFiles;
use crate::launcher_table::LauncherTable;
use crate::pattern::PatternCache;
use crate::script::SCRIPT_BYTES;
use crate::state::{Flow, Function, ShellValue, State, User, Variable, is_below};
use crate::value::{HoleKind, HoleTable, clean_text, is_open};
use crate::{Assumption, LOADER_VARIABLES, StartedProgram};

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

/// A reading in progress.
pub(crate) struct Reader<'f> {
    pub files: &'f dyn ImageFiles,
    pub launchers: &'f LauncherTable,
    /// Whether variables and files that the image has not may be there: the second reading.
    pub is_given: bool,
    /// What `uname -m` prints.
    pub machine: &'f str,
    pub holes: HoleTable,
    pub patterns: PatternCache,
    /// The programs, each with the one environment of its path.
    pub programs: Vec<StartedProgram>,
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
    /// The paths that processes of their own have written to.
    pub written: BTreeSet<String>,
    /// The functions that `export -f` hands to shells, by the names of their variables.
    pub exported_functions: BTreeMap<String, Rc<Function>>,
    /// The statement that is being read, for the words of assumptions.
    pub snippet: String,
    /// The unset variables that its words name.
    pub unset: Vec<String>,
    pub steps: usize,
    pub bytes: usize,
}

/// What tells a script that starts itself again: its path, text, user, arguments and environment.
pub(crate) type RunningScript = (String, String, User, Vec<String>, BTreeMap<String, String>);

impl Reader<'_> {
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
    pub(crate) fn begin_statement(&mut self, state: &State, span: Span) {
        self.snippet = state.script.snippet(span);
        self.unset.clear();
    }

    /// Counts the bytes of a new value; one that is too long becomes a hole.
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

    /// The output of a program, which only a run can tell.
    pub(crate) fn output_hole(&mut self, place: &str, program: &str) -> String {
        self.holes.add(
            HoleKind::Output(program.to_owned()),
            place,
            &format!("the output of `{program}`"),
        )
    }

    /// Notes that the statement which is being read is taken to keep the loader variables.
    pub(crate) fn assume_keeps(&mut self, kind: &str, place: &str) {
        self.assume(kind, place, format!("`{}` keeps the loader variables", self.snippet));
    }

    /// Notes that a program is there which the image has not.
    pub(crate) fn assume_present(&mut self, name: &str, place: &str) {
        self.assume(
            "missing",
            place,
            format!("{name}, which is not in the image, is there when it starts"),
        );
    }

    /// Notes what is taken for granted at a place; `text` follows the place.
    pub(crate) fn assume(&mut self, kind: &str, place: &str, text: String) {
        let id = format!("{kind}@{place}");
        self.assumptions.entry(id.clone()).or_insert_with(|| Assumption {
            variables: LOADER_VARIABLES.map(str::to_owned).to_vec(),
            unset: self.unset.clone(),
            ..Assumption::at(id, place, text)
        });
    }

    /// Whether the kinds of a text's holes include one that a run gives.
    pub(crate) fn is_given_text(&self, text: &str) -> bool {
        self.holes.kinds(text).any(|kind| *kind == HoleKind::Given)
    }

    /// Whether the file is a part of the driver, or of the folders where it is mounted.
    pub(crate) fn is_of_driver(&mut self, path: &str) -> bool {
        let mut patterns = self.launchers.driver_files.iter();
        patterns.any(|pattern| self.patterns.matches(pattern, path) == Some(true))
    }

    /// The text of a file; nothing of a file that a command may have changed.
    pub(crate) fn file_text(&self, state: &State, path: &str) -> Option<String> {
        let is_known = !is_open(path) && !state.touched.contains(path);
        let content = is_known.then(|| self.files.read(path)).flatten()?;
        (content.len() <= SCRIPT_BYTES && !content.starts_with(b"\x7fELF")).then(|| clean_text(content))
    }

    /// The states that go on, joined where they cannot be told apart, at most [`WIDTH`] of them.
    pub(crate) fn join(&mut self, states: Vec<State>) -> Vec<State> {
        let is_over = |state: &State| matches!(state.flow, Flow::Exit | Flow::Replaced);
        let all_over = states.iter().all(is_over);
        let mut joined: Vec<State> = Vec::new();
        // A path with a trap still has something to run.
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
            // What the loader sees is not known.
            let goes_on = joined.iter().any(|state| state.flow == Flow::Next);
            joined = self.merge(joined, |_, _| true);
            for state in &mut joined {
                state.status = None;
                state.flow = if goes_on { Flow::Next } else { state.flow };
            }
        }
        joined
    }

    /// Makes one state of those that are alike, which forgets in what they differ.
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

    /// Makes holes of what differs between a state and another one.
    fn forget_difference(&mut self, state: &mut State, other: &State) {
        let place = state.script.path.clone();
        let names: BTreeSet<&String> = state.variables.keys().chain(other.variables.keys()).collect();
        let differ = |name: &&&String| state.variables.get(**name) != other.variables.get(**name);
        let names: Vec<String> = names.iter().filter(differ).map(|name| (**name).clone()).collect();
        for name in names {
            let hole = self.hole(&place, &format!("{name}, of which there are too many values"));
            let variable = state.variable_mut(&name);
            variable.value = Some(ShellValue::Text(hole));
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

    /// After the budget: the loader variables are not known.
    pub(crate) fn lose_variables(&mut self, state: &mut State, place: &str, reason: &str) {
        let hole = self.hole(place, reason);
        for name in LOADER_VARIABLES {
            *state.variable_mut(name) = Variable::exported(&hole);
        }
    }

    /// Makes a hole of the search path, because of what may set it.
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

    /// Writes to descriptor 1.
    pub(crate) fn print(&mut self, mut state: State, text: &str, status: Option<bool>) -> Vec<State> {
        if let Some(output) = state.output.take() {
            state.output = Some(self.bounded(&state, output + text));
        }
        state.finish(status)
    }

    /// The one text of several; a hole where they differ.
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

/// Whether a file under this path is the host's or a run's to bring.
pub(crate) fn is_volatile(path: &str) -> bool {
    VOLATILE.iter().any(|folder| is_below(path, folder))
}

/// Whether a text names a variable of the loader.
pub(crate) fn mentions_loader(text: &str) -> bool {
    LOADER_VARIABLES.iter().any(|name| text.contains(name))
}

/// Whether a list of words has one.
pub(crate) fn has_word(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}
