//! Text that runs in the same shell: `eval`, `.`, and what activation tools print.

use std::rc::Rc;

use crate::reader::{DEPTH, Reader, is_volatile};
use crate::script::{Script, Shell};
use crate::split_place;
use crate::state::{Flow, ShellOption, State, base_name};
use crate::value::{HoleKind, is_open};

impl Reader<'_> {
    /// `eval`, and what a trap runs.
    pub(crate) fn evaluate(&mut self, text: &str, mut state: State, place: &str) -> Vec<State> {
        self.lose_to_given(text, &mut state, place);
        let (path, line) = split_place(place);
        let known = (!is_open(text)).then(|| text.to_owned());
        let parsed = known.and_then(|text| Script::parse(path, Some(line), text, state.shell));
        let Some(script) = parsed.filter(|_| self.depth <= DEPTH) else {
            self.meet_unknown_text("eval", text, &mut state, place);
            return state.finish(None);
        };
        self.run_in_place(&script, state)
    }

    /// Runs another script in this shell.
    fn run_in_place(&mut self, script: &Rc<Script>, mut state: State) -> Vec<State> {
        let outer = std::mem::replace(&mut state.script, Rc::clone(script));
        self.depth += 1;
        let mut states = self.run_list(&script.body, vec![state]);
        self.depth -= 1;
        states.iter_mut().for_each(|state| state.script = Rc::clone(&outer));
        states
    }

    /// Where nothing is evaluated or sourced, a variable that only a run sets may name something.
    fn lose_to_given(&mut self, text: &str, state: &mut State, place: &str) {
        if self.is_given && text.trim().is_empty() && !self.unset.is_empty() {
            let setter = format!("`{}`", self.snippet);
            self.lose_search_path(state, place, &setter, HoleKind::Given);
        }
    }

    /// Text that is not known is evaluated: hooks of activation tools are looked at, other text is assumed to be harmless.
    fn meet_unknown_text(&mut self, kind: &str, text: &str, state: &mut State, place: &str) {
        let programs = self.holes.kinds(text).filter_map(|kind| match kind {
            HoleKind::Output(program) => Some(base_name(program)),
            _ => None,
        });
        let tools = programs
            .filter(|name| self.launchers.is_activator(name))
            .map(str::to_owned);
        let tools: Vec<String> = tools.collect();
        if self.is_given_text(text) && kind == "source" {
            self.lose_search_path(state, place, "a mounted file", HoleKind::Given);
        } else if tools.is_empty() {
            self.assume_keeps(kind, place);
        } else {
            self.activate(&tools, state, place);
        }
        if text.contains("set ") || kind == "source" {
            self.lose_arguments(state, place);
        }
        state.options.insert(ShellOption::Clouded);
    }

    /// An activation tool sets variables by its hooks: where none of them names a loader variable, that is assumed of all.
    fn activate(&mut self, tools: &[String], state: &mut State, place: &str) {
        let named = ["CONDA_DIR", "CONDA_PREFIX", "MAMBA_ROOT_PREFIX"]
            .iter()
            .filter_map(|name| state.text(name));
        let mut tops: Vec<String> = named.map(str::to_owned).collect();
        let mut hooks: Vec<String> = Vec::new();
        for path in tools.iter().filter_map(|tool| self.find_program(tool, state)) {
            let real = self.files.resolve(&path).unwrap_or_else(|| path.clone());
            let folder = real.rsplit_once('/').and_then(|(folder, _)| folder.rsplit_once('/'));
            tops.extend(folder.map(|(top, _)| top.to_owned()));
            hooks.push(path);
        }
        for top in &tops {
            let environments = self
                .files
                .list(&format!("{top}/envs"))
                .into_iter()
                .map(|name| format!("{top}/envs/{name}"));
            for environment in environments.chain([top.clone()]) {
                let folder = format!("{environment}/etc/conda/activate.d");
                hooks.extend(self.files.list(&folder).iter().map(|name| format!("{folder}/{name}")));
                hooks.push(format!("{environment}/conda-meta/state"));
            }
        }
        let names_loader = |path: &String| self.file_text(state, path).is_some_and(|text| text.contains("LD_"));
        if tops.is_empty() || hooks.iter().any(names_loader) {
            let setter = format!("`{}`", self.snippet);
            self.lose_search_path(state, place, &setter, HoleKind::Other);
        } else {
            self.assume_keeps("activation", place);
        }
    }

    /// `.` and `source`: another file runs in this shell.
    pub(crate) fn source(&mut self, words: &[String], mut state: State, place: &str) -> Vec<State> {
        let Some(name) = words.first() else {
            self.lose_to_given("", &mut state, place);
            return state.finish(Some(false));
        };
        if is_open(name) {
            self.meet_unknown_text("source", name, &mut state, place);
            return state.finish(None);
        }
        let path = self.sourced_path(name, &state);
        let is_touched = state.touched.contains(&path);
        let Some(text) = self.file_text(&state, &path) else {
            let kind = if self.is_given {
                HoleKind::Given
            } else {
                HoleKind::Other
            };
            let is_there = self.files.stat(&path).is_some();
            if is_touched || self.is_given && !is_volatile(&path) {
                self.lose_search_path(&mut state, place, &path, kind);
            } else if is_volatile(&path) || is_there {
                // A run writes it, or its content is not at hand.
                let kind = if is_there { "source" } else { "written" };
                self.meet_unknown_text(kind, "", &mut state, place);
            }
            let may_be_there = is_touched || is_there || is_volatile(&path);
            return state.finish(if may_be_there { None } else { Some(false) });
        };
        let script = Script::parse(&path, None, text, state.shell).filter(|_| self.depth <= DEPTH);
        let Some(script) = script else {
            self.meet_unknown_text("unparsed", "", &mut state, place);
            return state.finish(None);
        };
        let arguments = state.arguments.clone();
        // dash takes no arguments here.
        let has_own = words.len() > 1 && state.shell != Shell::Dash;
        if has_own {
            state.set_arguments(words.iter().skip(1).cloned());
        }
        state.sourced += 1;
        let conditions = std::mem::take(&mut self.conditions);
        let mut states = self.run_in_place(&script, state);
        self.conditions = conditions;
        for state in &mut states {
            state.sourced -= 1;
            if has_own {
                state.arguments.clone_from(&arguments);
            }
            if state.flow == Flow::Return {
                state.flow = Flow::Next;
            }
            if base_name(&path) == "setvars.sh" {
                self.lose_search_path(state, place, "setvars.sh", HoleKind::Other);
            }
        }
        states
    }

    fn sourced_path(&self, name: &str, state: &State) -> String {
        let folders = state
            .text("PATH")
            .unwrap_or_default()
            .split(':')
            .chain([state.directory.as_str()]);
        let folders = folders.filter(|folder| !is_open(folder) && !name.contains('/'));
        let mut found = folders.map(|folder| state.absolute(&format!("{folder}/{name}")));
        found
            .find(|path| self.files.stat(path).is_some())
            .unwrap_or_else(|| state.absolute(name))
    }
}
