//! Code that runs in the current shell: `eval`, `.`, and the output of activation tools.

use std::rc::Rc;

use crate::launcher_table::is_listed;
use crate::reader::{DEPTH, Reader, is_volatile};
use crate::script::{Script, Shell};
use crate::split_place;
use crate::state::{Flow, State, UNKNOWN_CODE_RAN, base_name};
use crate::value::{HoleKind, is_open};

impl Reader<'_> {
    /// Runs `eval`, or the action of a trap.
    pub(crate) fn evaluate(&mut self, text: &str, mut state: State) -> Vec<State> {
        self.forget_search_path_if_unset(text, &mut state);
        let (path, line) = split_place(&self.place);
        let known = (!is_open(text)).then(|| text.to_owned());
        let parsed = known.and_then(|text| Script::parse(path, Some(line), text, state.shell));
        let Some(script) = parsed.filter(|_| self.depth <= DEPTH) else {
            self.handle_unknown_code("eval", text, &mut state);
            return state.finish(None);
        };
        self.run_in_place(&script, state)
    }

    /// Runs another script in the current shell.
    fn run_in_place(&mut self, script: &Rc<Script>, mut state: State) -> Vec<State> {
        let outer = std::mem::replace(&mut state.script, Rc::clone(script));
        self.depth += 1;
        let mut states = self.run_list(&script.body, vec![state]);
        self.depth -= 1;
        states.iter_mut().for_each(|state| state.script = Rc::clone(&outer));
        states
    }

    /// If the text is empty because a variable is unset, the engine may set it to code that sets the search path.
    fn forget_search_path_if_unset(&mut self, text: &str, state: &mut State) {
        if self.provides_missing && text.trim().is_empty() && !self.unset.is_empty() {
            let setter = format!("`{}`", self.snippet);
            self.lose_search_path(state, &setter, HoleKind::Given);
        }
    }

    /// Handles code that is unknown. Checks the hooks of activation tools; other code is assumed not to touch the
    /// loader variables.
    fn handle_unknown_code(&mut self, kind: &str, text: &str, state: &mut State) {
        let programs = self.holes.kinds(text).filter_map(|kind| match kind {
            HoleKind::Output(program) => Some(base_name(program).to_owned()),
            _ => None,
        });
        let tools: Vec<String> = programs
            .filter(|name| is_listed(&self.launchers.activators, name))
            .collect();
        let is_mounted = self.is_given_text(text) && kind == "source";
        if is_mounted {
            self.lose_search_path(state, "a mounted file", HoleKind::Given);
        } else if tools.is_empty() {
            self.assume_keeps(kind);
        } else {
            self.activate(&tools, state);
        }
        if text.contains("set ") || kind == "source" && !is_mounted {
            self.lose_arguments(state);
        }
        state.options.insert(UNKNOWN_CODE_RAN);
    }

    /// Checks the hooks of an activation tool. If none names a loader variable, assumes that activation keeps them.
    fn activate(&mut self, tools: &[String], state: &mut State) {
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
        for pattern in ["etc/conda/activate.d/*", "conda-meta/state"] {
            for top in tops.iter().flat_map(|top| [top.clone(), format!("{top}/envs/*")]) {
                hooks.extend(
                    self.matching_files(&format!("{top}/{pattern}"), state)
                        .unwrap_or_default(),
                );
            }
        }
        let mut texts = hooks.iter().filter_map(|hook| self.file_text(hook));
        if tops.is_empty() || texts.any(|text| text.contains("LD_")) {
            let setter = format!("`{}`", self.snippet);
            self.lose_search_path(state, &setter, HoleKind::Other);
        } else {
            self.assume_keeps("activation");
        }
    }

    /// `.` and `source`: runs another file in the current shell.
    pub(crate) fn source(&mut self, words: &[String], mut state: State) -> Vec<State> {
        let Some(name) = words.first() else {
            self.forget_search_path_if_unset("", &mut state);
            return state.finish(Some(false));
        };
        if is_open(name) {
            self.handle_unknown_code("source", name, &mut state);
            return state.finish(None);
        }
        let path = self.sourced_path(name, &state);
        let is_touched = self.touched.contains(&path);
        let Some(text) = self.file_text(&path) else {
            let kind = if self.provides_missing {
                HoleKind::Given
            } else {
                HoleKind::Other
            };
            let is_there = self.files.stat(&path).is_some();
            if is_touched || self.provides_missing && !is_volatile(&path) {
                self.lose_search_path(&mut state, &path, kind);
            } else if is_volatile(&path) || is_there {
                // It is written at run time, or its content was not kept.
                let kind = if is_there { "source" } else { "written" };
                self.handle_unknown_code(kind, "", &mut state);
            }
            let may_be_there = is_touched || is_there || is_volatile(&path);
            return state.finish(if may_be_there { None } else { Some(false) });
        };
        let script = Script::parse(&path, None, text, state.shell).filter(|_| self.depth <= DEPTH);
        let Some(script) = script else {
            self.handle_unknown_code("unparsed", "", &mut state);
            return state.finish(None);
        };
        let arguments = state.arguments.clone();
        // dash ignores arguments here.
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
                self.lose_search_path(state, "setvars.sh", HoleKind::Other);
            }
        }
        states
    }

    fn sourced_path(&self, name: &str, state: &State) -> String {
        let path = state.text("PATH").unwrap_or_default();
        if name.contains('/') {
            return state.absolute(name);
        }
        let folders = path.split(':').chain([state.directory.as_str()]);
        folders
            .filter(|folder| !is_open(folder))
            .map(|folder| state.absolute(&format!("{folder}/{name}")))
            .find(|path| self.files.stat(path).is_some())
            .unwrap_or_else(|| state.absolute(name))
    }
}
