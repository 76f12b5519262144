//! Shell builtins (POSIX shell, 2.14; bash(1), "SHELL BUILTIN COMMANDS").

use std::rc::Rc;

use crate::commands::{Call, has_no_effect, is_builtin, run_control_word};
use crate::declarations::{Operand, is_name};
use crate::fields::read_field;
use crate::reader::{Reader, is_volatile, mentions_loader};
use crate::script::Shell;
use crate::state::{ShellOption, State};
use crate::value::{is_all_hole, is_open};

impl Reader<'_> {
    pub(crate) fn run_builtin(&mut self, call: &Call, state: State) -> Vec<State> {
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
            "break" | "continue" | "return" | "exit" => run_control_word(name, words, state),
            "echo" => self.echo(words, state, place),
            "printf" => self.printf(words, state, place),
            "pwd" => self.working_directory(words, state, place),
            "read" => self.read_line(words, state, place),
            "getopts" => {
                let names = words.get(1).map(String::as_str).into_iter().chain(["OPTARG", "OPTIND"]);
                self.set_all_unknown(names, state, place)
            }
            "mapfile" | "readarray" => {
                let name = words.last().filter(|word| !word.starts_with('-'));
                self.set_all_unknown([name.map_or("MAPFILE", String::as_str)], state, place)
            }
            "let" => {
                let is_other = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
                let names = words
                    .iter()
                    .filter_map(|word| word.trim_start_matches(['+', '-']).split(is_other).next());
                self.set_all_unknown(names, state, place)
            }
            "alias" => self.alias(words, state, place),
            "unset" => self.unset_names(words, state, place),
            "cd" | "pushd" | "popd" => self.change_directory(name, words, state, place),
            "shift" => self.shift(words, state, place),
            "set" => self.set_options(words, state, place),
            "shopt" => self.set_bash_options(words, state, place),
            "trap" => self.trap(words, state, place),
            "type" | "hash" => self.find_command(name, words, state, place),
            "command" | "builtin" => self.skip_functions(name, words, call, state),
            "exec" => self.become_program(words, call, state),
            "eval" => self.evaluate(&words.join(" "), state, place),
            "." | "source" => self.source(words, state, place),
            name if has_no_effect(name) => state.finish(Some(true)),
            _ => self.run_program(call, state),
        }
    }

    fn set_all_unknown<'w>(
        &mut self,
        names: impl IntoIterator<Item = &'w str>,
        mut state: State,
        place: &str,
    ) -> Vec<State> {
        names
            .into_iter()
            .for_each(|name| self.set_unknown(name, &mut state, place));
        state.finish(None)
    }

    fn echo(&mut self, words: &[String], state: State, place: &str) -> Vec<State> {
        let is_dash = state.shell == Shell::Dash;
        let (mut words, mut end, mut escapes) = (words, "\n", is_dash);
        while let Some((option, rest)) = words.split_first() {
            let letters = option.strip_prefix('-').unwrap_or_default();
            let is_option = !letters.is_empty() && letters.chars().all(|letter| "neE".contains(letter));
            if !is_option || is_dash && (letters != "n" || end.is_empty()) {
                break;
            }
            if letters.contains('n') {
                end = "";
            }
            let last = letters.rfind(['e', 'E']).and_then(|at| letters.get(at..));
            escapes = last.map_or(escapes, |last| last.starts_with('e'));
            words = rest;
        }
        let text = words.join(" ");
        let is_known = !escapes || !text.contains('\\');
        let text = if is_known {
            text
        } else {
            self.output_hole(place, "echo")
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
            Some(name) if is_name(name) => state.set_text(name, text),
            Some(name) => self.set_unknown(name, &mut state, place),
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

    /// `read`: the next line of a known standard input, otherwise unknown values.
    fn read_line(&mut self, words: &[String], mut state: State, place: &str) -> Vec<State> {
        let (mut names, mut options, mut words) = (Vec::new(), String::new(), words.iter());
        while let Some(word) = words.next() {
            match word.strip_prefix('-') {
                Some(letters) => {
                    options += letters;
                    if letters.ends_with(['d', 'i', 'n', 'N', 'p', 't', 'u']) {
                        words.next();
                    }
                }
                None => names.push(word.as_str()),
            }
        }
        if names.is_empty() {
            names.push("REPLY");
        }
        let is_plain = matches!(&*options, "" | "r") && names.iter().all(|name| is_name(name));
        let is_read = |text: &String| is_plain && !is_open(text) && (options == "r" || !text.contains('\\'));
        let input = state.input.take();
        let (Some(input), Some(separators)) = (input.clone().filter(is_read), state.separators()) else {
            // How much `read` consumed is unknown.
            state.input = input.map(|_| self.hole(place, "the rest of the standard input"));
            return self.set_all_unknown(names, state, place);
        };
        let (line, rest) = input.split_once('\n').unwrap_or((&input, ""));
        let (last, others) = names.split_last().unwrap_or((&"REPLY", &[]));
        let mut line = line;
        for name in others {
            let (field, rest) = read_field(line, &separators);
            state.set_text(name, field);
            line = rest;
        }
        let is_white = |letter: char| letter.is_ascii_whitespace() && separators.contains(letter);
        state.set_text(last, line.trim_matches(is_white));
        state.input = Some(rest.to_owned());
        state.finish(Some(input.contains('\n')))
    }

    fn alias(&mut self, words: &[String], state: State, place: &str) -> Vec<State> {
        let aliases_are_expanded = state.shell != Shell::Bash || state.has(ShellOption::ExpandAliases);
        if aliases_are_expanded && words.iter().any(|word| is_open(word) || mentions_loader(word)) {
            self.assume_keeps("alias", place);
        }
        state.finish(Some(true))
    }

    fn unset_names(&mut self, words: &[String], mut state: State, place: &str) -> Vec<State> {
        let is_function = words.iter().any(|word| word.starts_with('-') && word.contains('f'));
        for name in words.iter().filter(|word| !word.starts_with('-')) {
            let variable = state.variables.get(name).cloned();
            let has_value = variable.as_ref().is_some_and(|variable| !variable.value.is_empty());
            if is_function || !has_value && state.functions.contains_key(name) {
                Rc::make_mut(&mut state.functions).remove(name);
            } else if !is_name(name) {
                self.set_unknown(name, &mut state, place);
            } else if let Some(mut variable) = variable.filter(|variable| !variable.is_readonly) {
                // In bash, `unset` of a local variable keeps its local scope and export attribute.
                let is_local = state.frames.last().is_some_and(|frame| frame.contains_key(name));
                variable.value.clear();
                state.restore(name, Some(variable).filter(|_| is_local && state.shell.is_bash()));
            }
        }
        state.finish(Some(true))
    }

    fn change_directory(&mut self, name: &str, words: &[String], mut state: State, place: &str) -> Vec<State> {
        let target = words
            .iter()
            .find(|word| !word.starts_with('-') || *word == "-")
            .cloned();
        let target = target.unwrap_or_else(|| state.text("HOME").unwrap_or("/root").to_owned());
        let searches = !state.value("CDPATH").is_empty() && !target.starts_with(['/', '.']);
        if name == "popd" || is_open(&target) || target == "-" || target.starts_with('+') || searches {
            state.directory = self.hole(place, "the working directory");
            return state.finish(None);
        }
        let path = state.absolute(&target);
        let resolved = self.files.resolve(&path);
        let failed = state.clone().finish(Some(false));
        // A missing directory may be mounted or created.
        let may_come = self.provides_missing || is_volatile(&path) || state.is_touched(&path);
        if resolved.is_none() && !may_come {
            return failed;
        }
        let match_is_certain = resolved.is_some();
        let is_physical = words.iter().any(|word| word == "-P");
        state.directory = resolved.filter(|_| is_physical).unwrap_or(path);
        let moved = state.finish(Some(true));
        if match_is_certain {
            moved
        } else {
            [moved, failed].concat()
        }
    }

    fn shift(&mut self, words: &[String], mut state: State, place: &str) -> Vec<State> {
        let count = words.first().map_or(Some(1), |word| word.parse::<usize>().ok());
        // A word of holes only may be any number of words.
        let is_uncertain = state.arguments.iter().skip(1).any(|word| is_all_hole(word));
        let Some(count) = count.filter(|_| !is_uncertain) else {
            self.lose_arguments(&mut state, place);
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
            for letter in word.chars().skip(1) {
                let long = (letter == 'o').then(|| words.next()).flatten();
                let option = match (letter, long.map_or("", String::as_str)) {
                    ('a', _) | (_, "allexport") => ShellOption::AllExport,
                    ('e', _) | (_, "errexit") => ShellOption::ErrExit,
                    ('f', _) | (_, "noglob") => ShellOption::NoGlob,
                    (_, "pipefail") => ShellOption::PipeFail,
                    (_, "posix") if is_on && state.shell == Shell::Bash => {
                        state.shell = Shell::BashPosix;
                        continue;
                    }
                    ('B', _) => {
                        // `set +B` turns off brace expansion, which is not modelled.
                        self.assume_keeps("construct", place);
                        continue;
                    }
                    _ => continue,
                };
                state.switch(option, is_on);
            }
        }
        let ended = words.next_if(|word| *word == "--" || *word == "-");
        if ended.is_some_and(|word| word == "--") || words.peek().is_some() {
            state.set_arguments(words.cloned());
        }
        state.finish(Some(true))
    }

    fn set_bash_options(&mut self, words: &[String], mut state: State, place: &str) -> Vec<State> {
        let is_on = !words.iter().any(|word| word == "-u");
        for word in words {
            match word.as_str() {
                "nullglob" => state.switch(ShellOption::NullGlob, is_on),
                "nocasematch" => state.switch(ShellOption::NoCaseMatch, is_on),
                "expand_aliases" => state.switch(ShellOption::ExpandAliases, is_on),
                "-s" | "-u" | "-q" | "extglob" | "inherit_errexit" | "checkwinsize" | "histappend" => {}
                _ => self.assume_keeps("construct", place),
            }
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
        let matters = is_open(action) || mentions_loader(action);
        if at_exit {
            if action.contains("exec") || state.has(ShellOption::ErrExit) && mentions_loader(action) {
                self.assume_keeps("trap", place);
            }
            state.exit_trap = Some(action.clone()).filter(|action| !matches!(action.as_str(), "-" | "" | ":"));
        } else if !signals.is_empty() && matters {
            self.assume_keeps("trap", place);
        }
        state.finish(Some(true))
    }

    /// `command -v`, `type`, `which`, `hash`: locates a command.
    pub(crate) fn find_command(&mut self, asked_by: &str, words: &[String], state: State, place: &str) -> Vec<State> {
        let name = words
            .iter()
            .find(|word| !word.starts_with('-'))
            .map_or("", String::as_str);
        if state.functions.contains_key(name) || is_builtin(name, state.shell) && asked_by != "which" {
            return self.print(state, &format!("{name}\n"), Some(true));
        }
        let is_driver_tool = self.launchers.is_driver_tool(name);
        match self.find_program(name, &state).filter(|_| !is_open(name)) {
            Some(path) => self.print(state, &format!("{path}\n"), Some(true)),
            None if is_driver_tool || is_open(name) || state.text("PATH").is_some_and(is_open) => {
                let hole = self.output_hole(place, asked_by);
                let hole = if is_driver_tool {
                    self.given_hole(place, &format!("`{name}`, which the driver may bring"))
                } else {
                    hole
                };
                self.print(state, &hole, None)
            }
            None => state.finish(Some(false)),
        }
    }

    /// `command` and `builtin`: skips functions.
    fn skip_functions(&mut self, name: &str, words: &[String], call: &Call, state: State) -> Vec<State> {
        let words = match words {
            [option, rest @ ..] if name == "command" && matches!(option.as_str(), "-v" | "-V") => {
                return self.find_command(name, rest, state, &call.place);
            }
            [option, rest @ ..] if name == "command" && matches!(option.as_str(), "-p" | "--") => rest,
            [] => return state.finish(Some(true)),
            words => words,
        };
        self.dispatch_past_functions(
            &Call {
                words: words.to_vec(),
                ..call.clone()
            },
            state,
        )
    }
}

/// The output of `printf` for `%s` and simple escapes; `None` for other formats.
fn formatted(format: &str, words: &[String]) -> Option<String> {
    let (mut text, mut words) = (String::new(), words.iter());
    loop {
        let before = words.len();
        let mut letters = format.chars().filter(|_| !is_open(format));
        while let Some(letter) = letters.next() {
            match (
                letter,
                if matches!(letter, '\\' | '%') {
                    letters.next()?
                } else {
                    ' '
                },
            ) {
                ('\\', 'n') => text.push('\n'),
                ('%', 's') => text += words.next().map_or("", String::as_str),
                ('\\', '\\') | ('%', '%') => text.push(letter),
                ('\\' | '%', _) => return None,
                (letter, _) => text.push(letter),
            }
        }
        // printf reuses the format until all words are consumed.
        if words.len() == 0 || words.len() == before {
            return Some(text).filter(|_| !is_open(format));
        }
    }
}
