//! What the shells run themselves (POSIX shell, 2.14; bash(1), "SHELL BUILTIN COMMANDS").

use std::rc::Rc;

use crate::LOADER_VARIABLES;
use crate::commands::{Call, base_name, is_builtin, is_harmless};
use crate::declarations::Operand;
use crate::reader::{DEPTH, Reader, is_volatile, split_place};
use crate::script::{Script, Shell};
use crate::state::{Flow, ShellOption, ShellValue, State};
use crate::value::{is_hole, is_open};

/// Where `getopts` stands within a word; no script can name it.
const OPTION_STAND: &str = "getopts ";

impl Reader<'_> {
    pub(crate) fn run_builtin(&mut self, call: &Call, mut state: State) -> Vec<State> {
        let place = &call.place;
        let Some((name, words)) = call.words.split_first() else {
            return state.finish(Some(true));
        };
        match name.as_str() {
            "export" | "readonly" | "local" | "declare" | "typeset" => {
                let operands = words.iter().map(|word| Operand::of_word(word, &state)).collect();
                self.declare(name, operands, state, place)
            }
            ":" | "true" => state.finish(Some(true)),
            "false" => state.finish(Some(false)),
            "test" | "[" => {
                let holds = self.decide_test(&call.words, &state);
                state.finish(holds)
            }
            "[[" => state.finish(None),
            "let" => {
                let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                for word in words {
                    let name = word.trim_start_matches(['+', '-']);
                    let end = name.find(|letter| !is_letter(letter)).unwrap_or(name.len());
                    self.set_unknown(name.get(..end).unwrap_or_default(), &mut state, place);
                }
                state.finish(None)
            }
            "break" | "continue" | "return" | "exit" => self.control(&call.words, state),
            "echo" => self.echo(words, state, place),
            "printf" => self.printf(words, state, place),
            "pwd" => self.working_directory(words, state, place),
            "read" => self.read_line(words, state, place),
            "mapfile" | "readarray" => {
                let name = words
                    .iter()
                    .rev()
                    .find(|word| !word.starts_with('-'))
                    .map_or("MAPFILE", String::as_str);
                self.set_unknown(name, &mut state, place);
                state.finish(Some(true))
            }
            "getopts" => self.next_option(words, state, place),
            "alias" => self.alias(words, state, place),
            "unset" => self.unset_names(words, state, place),
            "cd" | "pushd" | "popd" => self.change_directory(name, words, state, place),
            "shift" => self.shift(words, state, place),
            "set" => self.set_options(words, state, place),
            "shopt" => self.set_bash_options(words, state, place),
            "trap" => self.trap(words, state, place),
            "type" | "hash" => self.find_command(name, words, state, place),
            "command" | "builtin" => self.pass_on(name, words, call, state),
            "exec" => self.become_program(words, call, state),
            "eval" => self.evaluate(&words.join(" "), state, place),
            "." | "source" => self.source(words, state, place),
            name if is_harmless(name) => state.finish(Some(true)),
            _ => self.run_program(call, state),
        }
    }

    fn echo(&mut self, words: &[String], state: State, place: &str) -> Vec<State> {
        let mut words = words;
        let (mut end, mut escapes) = ("\n", state.shell == Shell::Dash);
        while let Some((option, rest)) = words.split_first() {
            let is_option = if state.shell == Shell::Dash {
                option == "-n" && !end.is_empty()
            } else {
                option.len() > 1 && option.starts_with('-') && option.bytes().skip(1).all(|byte| b"neE".contains(&byte))
            };
            if !is_option {
                break;
            }
            for letter in option.bytes().skip(1) {
                match letter {
                    b'n' => end = "",
                    b'e' => escapes = true,
                    _ => escapes = false,
                }
            }
            words = rest;
        }
        let text = words.join(" ");
        let text = if escapes && text.contains('\\') {
            self.output_hole(place, "echo")
        } else {
            text
        };
        self.print(state, &(text + end), Some(true))
    }

    fn printf(&mut self, words: &[String], mut state: State, place: &str) -> Vec<State> {
        let (target, words) = match words {
            [option, name, rest @ ..] if option == "-v" && state.shell.is_bash() => (Some(name), rest),
            [option, ..] if option == "-v" => return state.finish(Some(false)),
            words => (None, words),
        };
        let text = words.split_first().and_then(|(format, words)| formatted(format, words));
        let text = text.unwrap_or_else(|| self.output_hole(place, "printf"));
        match target {
            Some(name) if is_open(name) || !crate::declarations::is_name(name) => {
                self.set_unknown(name, &mut state, place);
            }
            Some(name) => state.set_text(name, text),
            None => return self.print(state, &text, Some(true)),
        }
        state.finish(Some(true))
    }

    fn working_directory(&mut self, words: &[String], state: State, place: &str) -> Vec<State> {
        let directory = state.directory.clone();
        let text = match words.iter().any(|word| word == "-P") {
            true if state.is_touched(&directory) => self.output_hole(place, "pwd"),
            true => self.files.resolve(&directory).unwrap_or(directory),
            false => directory,
        };
        self.print(state, &(text + "\n"), Some(true))
    }

    /// `read`: of a known standard input the next line, else what is not known.
    fn read_line(&mut self, words: &[String], mut state: State, place: &str) -> Vec<State> {
        let (mut names, mut list, mut is_plain, mut is_raw) = (Vec::new(), None, true, false);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.strip_prefix('-') {
                Some("r") => is_raw = true,
                Some("a" | "ra") if state.shell.is_bash() => {
                    is_raw |= word.contains('r');
                    list = words.next().cloned();
                }
                Some(letters) => {
                    is_plain = false;
                    if letters.ends_with(['d', 'i', 'n', 'N', 'p', 't', 'u']) {
                        words.next();
                    }
                }
                None => names.push(word.clone()),
            }
        }
        let is_known = is_plain && !names.iter().any(|name| is_open(name));
        let input = state
            .input
            .clone()
            .filter(|text| is_known && !is_open(text) && (is_raw || !text.contains('\\')));
        let separators = match state.value("IFS") {
            None => Some(" \t\n".to_owned()),
            Some(ShellValue::Text(text)) if !is_open(text) => Some(text.clone()),
            Some(_) => None,
        };
        let (Some(input), Some(separators)) = (input, separators) else {
            // What is left of a known input is not counted.
            state.input = state
                .input
                .as_ref()
                .map(|_| self.hole(place, "the rest of the standard input"));
            for name in names.iter().chain(&list) {
                self.set_unknown(name, &mut state, place);
            }
            return state.finish(None);
        };
        let (line, rest, is_whole) = match input.split_once('\n') {
            Some((line, rest)) => (line, rest, true),
            None => (input.as_str(), "", false),
        };
        if let Some(list) = list {
            let items = crate::words::split_fields(line, &separators, usize::MAX);
            state.set(&list, ShellValue::List(items));
        } else {
            let names = if names.is_empty() {
                vec!["REPLY".to_owned()]
            } else {
                names
            };
            let items = crate::words::split_fields(line, &separators, names.len());
            for (number, name) in names.iter().enumerate() {
                state.set_text(name, items.get(number).cloned().unwrap_or_default());
            }
        }
        state.input = Some(rest.to_owned());
        state.finish(Some(is_whole))
    }

    /// `getopts`: of known arguments the next option (POSIX getopts(1)).
    fn next_option(&mut self, words: &[String], mut state: State, place: &str) -> Vec<State> {
        let [letters, name, rest @ ..] = words else {
            return state.finish(Some(false));
        };
        let list = if rest.is_empty() {
            state.arguments.get(1..).unwrap_or_default().to_vec()
        } else {
            rest.to_vec()
        };
        let index = match state.value("OPTIND") {
            None => Some(1),
            Some(ShellValue::Text(text)) => text.parse::<usize>().ok().filter(|index| *index > 0),
            Some(ShellValue::List(_)) => None,
        };
        let Some(mut index) = index.filter(|_| !list.iter().chain([letters, name]).any(|word| is_open(word))) else {
            for name in [name.as_str(), "OPTARG", "OPTIND"] {
                self.set_unknown(name, &mut state, place);
            }
            return state.finish(None);
        };
        // Where it stands within one word, as long as nobody sets OPTIND.
        let stand = state
            .text(OPTION_STAND)
            .and_then(|text| text.strip_prefix(&format!("{index}:"))?.parse().ok());
        let at = stand.unwrap_or(1);
        let word = list.get(index - 1).map_or("", String::as_str);
        let Some(letter) = word.chars().nth(at).filter(|_| word.starts_with('-') && word != "--") else {
            state.set_text("OPTIND", (index + usize::from(word == "--")).to_string());
            state.set_text(name, "?");
            return state.finish(Some(false));
        };
        let behind: String = word.chars().skip(at + 1).collect();
        let known = letters.find(letter).filter(|_| letter != ':');
        let takes = known.is_some_and(|found| letters.get(found + 1..).is_some_and(|rest| rest.starts_with(':')));
        let mut found = if known.is_some() { letter } else { '?' };
        state.unset("OPTARG");
        if takes {
            index += 1;
            match list.get(index - 1) {
                _ if !behind.is_empty() => state.set_text("OPTARG", behind),
                Some(value) => {
                    state.set_text("OPTARG", value.clone());
                    index += 1;
                }
                None => found = if letters.starts_with(':') { ':' } else { '?' },
            }
            state.unset(OPTION_STAND);
        } else if behind.is_empty() {
            index += 1;
            state.unset(OPTION_STAND);
        } else {
            state.set_text(OPTION_STAND, format!("{index}:{}", at + 1));
        }
        if matches!(found, '?' | ':') && letters.starts_with(':') {
            state.set_text("OPTARG", letter.to_string());
        }
        state.set_text("OPTIND", index.to_string());
        state.set_text(name, found.to_string());
        state.finish(Some(true))
    }

    fn alias(&mut self, words: &[String], state: State, place: &str) -> Vec<State> {
        let is_heard = state.shell != Shell::Bash || state.options.contains(&ShellOption::ExpandAliases);
        let matters = |word: &String| is_open(word) || mentions_loader(word);
        if is_heard && words.iter().any(matters) {
            self.assume_keeps("alias", place);
        }
        state.finish(Some(true))
    }

    fn unset_names(&mut self, words: &[String], mut state: State, place: &str) -> Vec<State> {
        let is_function = words.iter().any(|word| word.starts_with('-') && word.contains('f'));
        for name in words.iter().filter(|word| !word.starts_with('-')) {
            if is_function {
                Rc::make_mut(&mut state.functions).remove(name);
            } else if is_open(name) {
                self.assume_keeps("name", place);
            } else if name.contains('[') {
                self.set_unknown(name, &mut state, place);
            } else if state.value(name).is_none() && state.functions.contains_key(name) {
                Rc::make_mut(&mut state.functions).remove(name);
            } else {
                let is_local = state.frames.last().is_some_and(|frame| frame.contains_key(name));
                let is_readonly = state.variables.get(name).is_some_and(|variable| variable.is_readonly);
                if is_readonly {
                    continue;
                }
                match state.variables.get(name) {
                    // A local variable of bash stays local, and what it is exported as.
                    Some(variable) if is_local && state.shell.is_bash() => {
                        let mut variable = variable.clone();
                        variable.value = None;
                        state.restore(name, Some(variable));
                    }
                    _ => state.unset(name),
                }
            }
        }
        state.finish(Some(true))
    }

    fn change_directory(&mut self, name: &str, words: &[String], mut state: State, place: &str) -> Vec<State> {
        let target = words.iter().find(|word| !word.starts_with('-') || *word == "-");
        let target = target
            .cloned()
            .unwrap_or_else(|| state.text("HOME").unwrap_or("/root").to_owned());
        let searches = state.value("CDPATH").is_some() && !target.starts_with(['/', '.']);
        let is_unknown = name == "popd" || is_open(&target) || target == "-" || target.starts_with('+') || searches;
        if is_unknown {
            state.directory = self.hole(place, "the working directory");
            return state.finish(None);
        }
        let path = state.absolute(&target);
        let Some(resolved) = self.files.resolve(&path) else {
            // What the image has not may be mounted or made.
            let may_come = self.is_given || is_volatile(&path) || state.is_touched(&path);
            let failed = state.clone().finish(Some(false));
            state.directory = path;
            return if may_come {
                state.finish(Some(true)).into_iter().chain(failed).collect()
            } else {
                failed
            };
        };
        state.directory = if words.iter().any(|word| word == "-P") {
            resolved
        } else {
            path
        };
        state.finish(Some(true))
    }

    fn shift(&mut self, words: &[String], mut state: State, place: &str) -> Vec<State> {
        let count = words.first().map_or(Some(1), |word| word.parse::<usize>().ok());
        // A hole alone may stand for any number of words.
        let is_uncertain = state
            .arguments
            .iter()
            .skip(1)
            .any(|word| !word.is_empty() && word.chars().all(is_hole));
        let Some(count) = count.filter(|_| !is_uncertain) else {
            let hole = self.hole(place, "the arguments");
            state.arguments.truncate(1);
            state.arguments.push(hole);
            return state.finish(None);
        };
        let fits = count < state.arguments.len();
        if fits {
            state.arguments.drain(1..=count);
        }
        state.finish(Some(fits))
    }

    fn set_options(&mut self, words: &[String], mut state: State, place: &str) -> Vec<State> {
        let mut words = words.iter().peekable();
        while let Some(word) = words.next_if(|word| word.starts_with(['-', '+']) && *word != "--" && *word != "-") {
            let is_on = word.starts_with('-');
            let mut switch = |option: Option<ShellOption>| match option {
                Some(option) if is_on => drop(state.options.insert(option)),
                Some(option) => drop(state.options.remove(&option)),
                None => {}
            };
            for letter in word.chars().skip(1) {
                switch(match letter {
                    'a' => Some(ShellOption::AllExport),
                    'e' => Some(ShellOption::ErrExit),
                    'f' => Some(ShellOption::NoGlob),
                    _ => None,
                });
                if letter == 'o' {
                    switch(match words.next().map(String::as_str) {
                        Some("allexport") => Some(ShellOption::AllExport),
                        Some("errexit") => Some(ShellOption::ErrExit),
                        Some("pipefail") => Some(ShellOption::PipeFail),
                        Some("posix") if is_on && state.shell == Shell::Bash => {
                            state.shell = Shell::BashPosix;
                            None
                        }
                        Some("noglob") => Some(ShellOption::NoGlob),
                        _ => None,
                    });
                }
                // Without braces, or in another mode, words are others.
                if letter == 'B' {
                    self.assume_keeps("construct", place);
                }
            }
        }
        let ended = words.next_if(|word| *word == "--" || *word == "-");
        if ended.is_some_and(|word| word == "--") || words.peek().is_some() {
            state.arguments.truncate(1);
            state.arguments.extend(words.cloned());
        }
        state.finish(Some(true))
    }

    fn set_bash_options(&mut self, words: &[String], mut state: State, place: &str) -> Vec<State> {
        let is_on = !words.iter().any(|word| word == "-u");
        for word in words {
            let option = match word.as_str() {
                "nullglob" => ShellOption::NullGlob,
                "nocasematch" => ShellOption::NoCaseMatch,
                "expand_aliases" => ShellOption::ExpandAliases,
                "lastpipe" | "failglob" | "extdebug" | "localvar_unset" | "localvar_inherit" | "dotglob"
                | "globstar" | "execfail" => {
                    self.assume_keeps("construct", place);
                    continue;
                }
                _ => continue,
            };
            if is_on {
                state.options.insert(option)
            } else {
                state.options.remove(&option)
            };
        }
        state.finish(None)
    }

    fn trap(&mut self, words: &[String], mut state: State, place: &str) -> Vec<State> {
        let [action, signals @ ..] = words else {
            return state.finish(Some(true));
        };
        let at_exit = signals
            .iter()
            .any(|signal| matches!(signal.as_str(), "0" | "EXIT" | "exit"));
        if at_exit && matches!(action.as_str(), "-" | "" | ":") {
            state.exit_trap = None;
        } else if at_exit {
            if action.contains("exec") || state.options.contains(&ShellOption::ErrExit) && mentions_loader(action) {
                self.assume_keeps("trap", place);
            }
            state.exit_trap = Some(action.clone());
        } else if !signals.is_empty() && (is_open(action) || mentions_loader(action)) {
            self.assume_keeps("trap", place);
        }
        state.finish(Some(true))
    }

    /// `command -v`, `type`, `which`, `hash`: where a command is.
    pub(crate) fn find_command(&mut self, asked_by: &str, words: &[String], state: State, place: &str) -> Vec<State> {
        let Some(name) = words
            .iter()
            .find(|word| !word.starts_with('-'))
            .filter(|name| !is_open(name))
        else {
            let hole = self.output_hole(place, asked_by);
            return self.print(state, &hole, None);
        };
        if state.functions.contains_key(name) || is_builtin(name, state.shell) && asked_by != "which" {
            return self.print(state, &format!("{name}\n"), Some(true));
        }
        let path_is_open = state.text("PATH").is_some_and(is_open);
        match self.find_program(name, &state) {
            Some(path) => self.print(state, &format!("{path}\n"), Some(true)),
            None if self.launchers.is_driver_tool(name) => {
                let hole = self.given_hole(place, &format!("`{name}`, which the driver may bring"));
                self.print(state, &hole, None)
            }
            None if path_is_open => {
                let hole = self.output_hole(place, asked_by);
                self.print(state, &hole, None)
            }
            None => state.finish(Some(false)),
        }
    }

    /// `command` and `builtin`: functions do not count.
    fn pass_on(&mut self, name: &str, words: &[String], call: &Call, state: State) -> Vec<State> {
        let words = match words {
            [option, rest @ ..] if name == "command" && matches!(option.as_str(), "-v" | "-V") => {
                return self.find_command(name, rest, state, &call.place);
            }
            [option, rest @ ..] if name == "command" && matches!(option.as_str(), "-p" | "--") => rest,
            words => words,
        };
        if words.is_empty() {
            return state.finish(Some(true));
        }
        let call = Call {
            words: words.to_vec(),
            ..call.clone()
        };
        self.dispatch_past_functions(&call, state)
    }

    /// `exec`: the shell becomes the program.
    fn become_program(&mut self, words: &[String], call: &Call, mut state: State) -> Vec<State> {
        let mut environment = state.environment();
        for (name, value) in &call.prefix {
            if let ShellValue::Text(text) = value {
                environment.insert(name.clone(), text.clone());
            }
        }
        let mut words = words;
        while let Some((option, rest)) = words.split_first().filter(|(option, _)| option.starts_with('-')) {
            words = if option == "-a" {
                rest.get(1..).unwrap_or_default()
            } else {
                rest
            };
            if !option.starts_with("-a") && option.contains('c') {
                environment.clear();
            }
        }
        if words.is_empty() {
            return state.finish(Some(true));
        }
        let before = self.programs.len();
        self.launch(words.to_vec(), environment, &state, &call.place);
        let is_main = !state.is_copy;
        let missing = self.programs.iter().skip(before).find(|program| program.path.is_none());
        let missing = missing
            .and_then(|program| program.words.first())
            .filter(|name| !is_open(name))
            .cloned();
        if let Some(name) = missing.filter(|_| is_main) {
            let (path, line) = split_place(&call.place);
            self.assume_at(
                "missing",
                path,
                line,
                format!("{name}, which is not in the image, is there when it starts"),
            );
        }
        for program in self.programs.iter_mut().skip(before) {
            program.rank = match program.rank {
                crate::Rank::Started if is_main => crate::Rank::Main,
                rank => rank.max(crate::Rank::Inside),
            };
        }
        state.flow = Flow::Replaced;
        vec![state]
    }

    /// `eval`, and what a trap runs.
    pub(crate) fn evaluate(&mut self, text: &str, mut state: State, place: &str) -> Vec<State> {
        if self.is_given && text.trim().is_empty() && !self.unset.is_empty() {
            self.lose_to_given(&mut state, place);
        }
        let (path, line) = split_place(place);
        let parsed = if is_open(text) {
            None
        } else {
            Script::parse(path, Some(line), text.to_owned(), state.shell)
        };
        let Some(script) = parsed.filter(|_| self.depth <= DEPTH) else {
            if !text.trim().is_empty() {
                self.meet_unknown_text("eval", text, &mut state, place);
            }
            return state.finish(None);
        };
        let outer = std::mem::replace(&mut state.script, Rc::clone(&script));
        self.depth += 1;
        let mut states = self.run_list(&script.body, vec![state]);
        self.depth -= 1;
        states.iter_mut().for_each(|state| state.script = Rc::clone(&outer));
        states
    }

    /// A variable that only a run sets names what is evaluated or sourced.
    fn lose_to_given(&mut self, state: &mut State, place: &str) {
        let reason = format!("LD_LIBRARY_PATH, which `{}` may set", self.snippet);
        let hole = self.given_hole(place, &reason);
        self.lose_search_path(state, hole);
    }

    /// Text that is not known is evaluated: hooks of activation tools are looked at, other text is assumed to be harmless.
    fn meet_unknown_text(&mut self, kind: &str, text: &str, state: &mut State, place: &str) {
        let programs = self.output_programs(text);
        let tools: Vec<&String> = programs
            .iter()
            .filter(|name| self.launchers.is_activator(base_name(name)))
            .collect();
        if self.is_given_text(text) && kind == "source" {
            let hole = self.given_hole(place, "LD_LIBRARY_PATH, which a mounted file may set");
            self.lose_search_path(state, hole);
        } else if tools.is_empty() {
            self.assume_keeps(kind, place);
        } else {
            self.activate(&tools, state, place);
        }
        if text.contains("set ") || kind == "source" {
            let hole = self.hole(place, "the arguments");
            state.arguments.truncate(1);
            state.arguments.push(hole);
        }
        state.options.insert(ShellOption::Clouded);
    }

    /// An activation tool sets variables by its hooks: where none of them names a loader variable, that is assumed of all.
    fn activate(&mut self, tools: &[&String], state: &mut State, place: &str) {
        let mut tops: Vec<String> = Vec::new();
        let mut hooks: Vec<String> = Vec::new();
        for tool in tools {
            let Some(path) = self.find_program(tool, state) else {
                continue;
            };
            let real = self.files.resolve(&path).unwrap_or_else(|| path.clone());
            let folder = real.rsplit_once('/').and_then(|(folder, _)| folder.rsplit_once('/'));
            tops.extend(folder.map(|(top, _)| top.to_owned()));
            if self.file_text(state, &path).is_some_and(|text| text.starts_with("#!")) {
                hooks.push(path);
            }
        }
        let named = ["CONDA_DIR", "CONDA_PREFIX", "MAMBA_ROOT_PREFIX"]
            .iter()
            .filter_map(|name| state.text(name));
        tops.extend(named.map(str::to_owned));
        for top in &tops {
            let environments = self.files.list(&format!("{top}/envs"));
            let environments = environments.iter().map(|name| format!("{top}/envs/{name}"));
            for environment in environments.chain([top.clone()]) {
                let folder = format!("{environment}/etc/conda/activate.d");
                hooks.extend(self.files.list(&folder).iter().map(|name| format!("{folder}/{name}")));
                hooks.push(format!("{environment}/conda-meta/state"));
            }
        }
        let names_loader = |path: &String| self.file_text(state, path).is_some_and(|text| text.contains("LD_"));
        if !tops.is_empty() && !hooks.iter().any(names_loader) {
            self.assume_keeps("activation", place);
            return;
        }
        let hole = self.hole(place, &format!("LD_LIBRARY_PATH, which `{}` sets", self.snippet));
        self.lose_search_path(state, hole);
    }

    /// `.` and `source`: another file runs in this shell.
    pub(crate) fn source(&mut self, words: &[String], mut state: State, place: &str) -> Vec<State> {
        let Some(name) = words.first().cloned() else {
            if self.is_given && !self.unset.is_empty() {
                self.lose_to_given(&mut state, place);
            }
            return state.finish(Some(false));
        };
        if is_open(&name) {
            self.meet_unknown_text("source", &name, &mut state, place);
            return state.finish(None);
        }
        let path = self.sourced_path(&name, &state);
        let text = self.file_text(&state, &path);
        let Some(text) = text else {
            let is_written = state.touched.contains_key(&path) || is_volatile(&path);
            if state.touched.contains_key(&path) {
                let hole = self.hole(place, &format!("LD_LIBRARY_PATH, which {path} may set"));
                self.lose_search_path(&mut state, hole);
            } else if is_written {
                self.meet_unknown_text("written", "", &mut state, place);
            } else if self.is_given {
                let hole = self.given_hole(place, &format!("LD_LIBRARY_PATH, which {path} may set"));
                self.lose_search_path(&mut state, hole);
            } else if self.files.stat(&path).is_some() {
                // It is in the image, and its content is not at hand.
                self.meet_unknown_text("source", "", &mut state, place);
            }
            return state.finish(if is_written { None } else { Some(false) });
        };
        let script = Script::parse(&path, None, text, state.shell).filter(|_| self.depth <= DEPTH);
        let Some(script) = script else {
            self.meet_unknown_text("unparsed", "", &mut state, place);
            return state.finish(None);
        };
        self.run_sourced(&script, words, state, place)
    }

    fn run_sourced(&mut self, script: &Rc<Script>, words: &[String], mut state: State, place: &str) -> Vec<State> {
        let outer = std::mem::replace(&mut state.script, Rc::clone(script));
        let arguments = state.arguments.clone();
        // dash takes no arguments here.
        let has_own = words.len() > 1 && state.shell != Shell::Dash;
        if has_own {
            state.arguments.truncate(1);
            state.arguments.extend(words.iter().skip(1).cloned());
        }
        state.sourced += 1;
        self.depth += 1;
        let conditions = std::mem::take(&mut self.conditions);
        let mut states = self.run_list(&script.body, vec![state]);
        self.conditions = conditions;
        self.depth -= 1;
        for state in &mut states {
            state.script = Rc::clone(&outer);
            state.sourced -= 1;
            if has_own {
                state.arguments.clone_from(&arguments);
            }
            if state.flow == Flow::Return {
                state.flow = Flow::Next;
            }
            if base_name(&script.path) == "setvars.sh" {
                let hole = self.hole(place, "LD_LIBRARY_PATH, which setvars.sh sets");
                self.lose_search_path(state, hole);
            }
        }
        states
    }

    fn sourced_path(&self, name: &str, state: &State) -> String {
        if name.contains('/') {
            return state.absolute(name);
        }
        let path = state.text("PATH").unwrap_or_default().to_owned();
        let folders = path
            .split(':')
            .chain([state.directory.as_str()])
            .filter(|folder| !is_open(folder));
        let found = folders.map(|folder| state.absolute(&format!("{folder}/{name}")));
        let mut found = found.filter(|path| self.files.stat(path).is_some());
        found.next().unwrap_or_else(|| state.absolute(name))
    }
}

/// What `printf` prints of strings and plain escapes; `None` for other formats.
fn formatted(format: &str, words: &[String]) -> Option<String> {
    if is_open(format) {
        return None;
    }
    let (mut text, mut words) = (String::new(), words.iter());
    loop {
        let before = words.len();
        let mut letters = format.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => match letters.next()? {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    '\\' => text.push('\\'),
                    _ => return None,
                },
                '%' => match letters.next()? {
                    's' => text += words.next().map_or("", String::as_str),
                    '%' => text.push('%'),
                    _ => return None,
                },
                letter => text.push(letter),
            }
        }
        // The format serves for all words.
        if words.len() == 0 || words.len() == before {
            return Some(text);
        }
    }
}

fn mentions_loader(text: &str) -> bool {
    LOADER_VARIABLES.iter().any(|name| text.contains(name))
}
