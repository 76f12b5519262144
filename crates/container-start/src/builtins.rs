//! Shell builtins (POSIX shell, 2.14; bash(1), "SHELL BUILTIN COMMANDS").

use std::rc::Rc;

use crate::commands::{Call, has_no_effect, is_builtin, run_control_word};
use crate::declarations::{Operand, is_name};
use crate::fields::read_field;
use crate::launcher_table::is_listed;
use crate::reader::{Reader, is_volatile, mentions_loader};
use crate::script::Shell;
use crate::state::{
    ALL_EXPORT, ERR_EXIT, EXPAND_ALIASES, EXT_GLOB, NO_CASE_MATCH, NO_GLOB, NULL_GLOB, PIPE_FAIL, State,
};
use crate::value::{is_all_hole, is_open};

impl Reader<'_> {
    pub(crate) fn run_builtin(&mut self, call: &Call, state: State) -> Vec<State> {
        let Some((name, words)) = call.words.split_first() else {
            return state.finish(Some(true));
        };
        match name.as_str() {
            "export" | "readonly" | "local" | "declare" | "typeset" => {
                let operands = words.iter().map(|word| Operand::of_word(word, &state)).collect();
                self.declare(name, operands, state)
            }
            ":" | "true" => state.finish(Some(true)),
            "false" => state.finish(Some(false)),
            "test" | "[" => {
                let holds = self.decide_test(&call.words, &state);
                state.finish(holds)
            }
            "[[" => state.finish(None),
            "break" | "continue" | "return" | "exit" => run_control_word(name, words, state),
            "echo" => self.echo(words, state),
            "printf" => self.printf(words, state),
            "pwd" => self.working_directory(words, state),
            "read" => self.read_line(words, state),
            "getopts" | "mapfile" | "readarray" | "let" => self.set_named(words, state),
            "alias" => {
                let are_expanded = state.shell != Shell::Bash || state.has(EXPAND_ALIASES);
                if are_expanded && words.iter().any(|word| is_open(word) || mentions_loader(word)) {
                    self.assume_keeps("alias");
                }
                state.finish(Some(true))
            }
            "unset" => self.unset_names(words, state),
            "cd" | "pushd" | "popd" => self.change_directory(name, words, state),
            "shift" => self.shift(words, state),
            "set" => self.set_options(words, state),
            "shopt" => self.set_bash_options(words, state),
            "trap" => self.trap(words, state),
            "type" | "hash" => self.find_command(name, words, state),
            "command" | "builtin" => self.skip_functions(name, words, call, state),
            "exec" => self.become_program(words, call, state),
            "eval" => self.evaluate(&words.join(" "), state),
            "." | "source" => self.source(words, state),
            name if has_no_effect(name) => {
                // Most of them print a setting.
                let output = self.output_hole(name);
                self.print(state, &output, Some(true))
            }
            _ => self.run_program(call, state),
        }
    }

    /// Makes the variables unknown that a builtin may set: every name in its words.
    fn set_named(&mut self, words: &[String], mut state: State) -> Vec<State> {
        let operands = words.iter().filter(|word| !word.starts_with('-'));
        let names = operands
            .flat_map(|word| word.split(|letter: char| letter.is_ascii_punctuation() && letter != '_'))
            .filter(|name| is_open(name) || is_name(name));
        for name in names.chain(["MAPFILE", "OPTARG", "OPTIND"]) {
            self.set_unknown(name, &mut state);
        }
        state.finish(None)
    }

    fn echo(&mut self, words: &[String], state: State) -> Vec<State> {
        let is_dash = state.shell == Shell::Dash;
        let is_option = |word: &&String| match word.strip_prefix('-').unwrap_or_default() {
            "" => false,
            letters => letters == "n" || !is_dash && letters.chars().all(|letter| "neE".contains(letter)),
        };
        let count = words.iter().take_while(is_option).count();
        let (options, words) = words.split_at(if is_dash { count.min(1) } else { count });
        let options = options.concat();
        let escapes = match options.rfind(['e', 'E']) {
            Some(at) => options.get(at..).is_some_and(|last| last.starts_with('e')),
            None => is_dash,
        };
        let mut text = words.join(" ");
        if escapes && text.contains('\\') {
            text = self.output_hole("echo");
        }
        let end = if options.contains('n') { "" } else { "\n" };
        self.print(state, &(text + end), Some(true))
    }

    fn printf(&mut self, words: &[String], state: State) -> Vec<State> {
        if words.first().is_some_and(|word| word == "-v") {
            return self.set_named(words, state);
        }
        let text = words
            .split_first()
            .and_then(|(format, words)| formatted(format, words))
            .unwrap_or_else(|| self.output_hole("printf"));
        self.print(state, &text, Some(true))
    }

    fn working_directory(&mut self, words: &[String], state: State) -> Vec<State> {
        let is_physical = words.iter().any(|word| word == "-P");
        let resolved = self.files.resolve(&state.directory).filter(|_| is_physical);
        let text = match resolved.unwrap_or_else(|| state.directory.clone()) {
            text if is_physical && self.is_touched(&text) => self.output_hole("pwd"),
            text => text,
        };
        self.print(state, &(text + "\n"), Some(true))
    }

    /// `read`: the next line of a known standard input, otherwise unknown values.
    fn read_line(&mut self, words: &[String], mut state: State) -> Vec<State> {
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
        let last = names.pop().unwrap_or("REPLY");
        let is_plain = matches!(&*options, "" | "r") && names.iter().chain([&last]).all(|name| is_name(name));
        let input = state.input.take();
        let text = input
            .clone()
            .filter(|text| is_plain && !is_open(text) && (options == "r" || !text.contains('\\')));
        let (Some(input), Some(separators)) = (text, state.separators()) else {
            // How much `read` consumed is unknown.
            state.input = input.map(|_| self.hole("the rest of the standard input"));
            for name in names.into_iter().chain([last]) {
                self.set_unknown(name, &mut state);
            }
            return state.finish(None);
        };
        let (mut line, rest) = input.split_once('\n').unwrap_or((&input, ""));
        for name in names {
            let (field, behind) = read_field(line, &separators);
            state.set_text(name, field);
            line = behind;
        }
        let line = line.trim_matches(|letter: char| letter.is_ascii_whitespace() && separators.contains(letter));
        state.set_text(last, line);
        state.input = Some(rest.to_owned());
        state.finish(Some(input.contains('\n')))
    }

    fn unset_names(&mut self, words: &[String], mut state: State) -> Vec<State> {
        let is_function = words.iter().any(|word| word.starts_with('-') && word.contains('f'));
        for name in words.iter().filter(|word| !word.starts_with('-')) {
            let variable = state.variables.get(name).cloned();
            if is_function || state.value(name).is_empty() && state.functions.contains_key(name) {
                Rc::make_mut(&mut state.functions).remove(name);
            } else if !is_name(name) {
                self.set_unknown(name, &mut state);
            } else if let Some(mut variable) = variable.filter(|variable| !variable.is_readonly) {
                // In bash, `unset` of a local variable keeps its local scope and export attribute.
                let is_local = state.frames.last().is_some_and(|frame| frame.contains_key(name));
                variable.value.clear();
                state.restore(name, Some(variable).filter(|_| is_local && state.shell.is_bash()));
            }
        }
        state.finish(Some(true))
    }

    fn change_directory(&mut self, name: &str, words: &[String], mut state: State) -> Vec<State> {
        let mut targets = words
            .iter()
            .filter(|word| !word.starts_with('-') || *word == "-")
            .cloned();
        let target = targets
            .next()
            .unwrap_or_else(|| state.text("HOME").unwrap_or("/root").to_owned());
        let searches = !state.value("CDPATH").is_empty() && !target.starts_with(['/', '.']);
        if name == "popd" || is_open(&target) || target.starts_with(['-', '+']) || searches {
            state.directory = self.hole("the working directory");
            return state.finish(None);
        }
        let path = state.absolute(&target);
        let resolved = self.files.resolve(&path);
        let failed = state.clone().finish(Some(false));
        let match_is_certain = resolved.is_some();
        let is_physical = words.iter().any(|word| word == "-P");
        // A missing directory may be mounted or created.
        let may_come = self.provides_missing || is_volatile(&path) || self.is_touched(&path);
        state.directory = resolved.filter(|_| is_physical).unwrap_or(path);
        match state.finish(Some(true)) {
            moved if match_is_certain => moved,
            moved if may_come => [moved, failed].concat(),
            _ => failed,
        }
    }

    fn shift(&mut self, words: &[String], mut state: State) -> Vec<State> {
        let count = words.first().map_or(Some(1), |word| word.parse::<usize>().ok());
        // A word of holes only may be any number of words.
        let is_uncertain = state.arguments.iter().skip(1).any(|word| is_all_hole(word));
        let Some(count) = count.filter(|_| !is_uncertain) else {
            self.lose_arguments(&mut state);
            return state.finish(None);
        };
        let fits = count < state.arguments.len();
        if fits {
            state.arguments.drain(1..=count);
        }
        state.finish(Some(fits))
    }

    fn set_options(&mut self, words: &[String], mut state: State) -> Vec<State> {
        let mut words = words.iter().peekable();
        while let Some(word) = words.next_if(|word| word.starts_with(['-', '+']) && *word != "--" && *word != "-") {
            let is_on = word.starts_with('-');
            for letter in word.chars().skip(1) {
                let long = (letter == 'o').then(|| words.next()).flatten();
                match long.map_or("", String::as_str) {
                    // `set +B` turns off brace expansion, which is not modelled.
                    "" if letter == 'B' => self.assume_keeps("construct"),
                    "" => state.switch(letter, is_on),
                    "allexport" => state.switch(ALL_EXPORT, is_on),
                    "errexit" => state.switch(ERR_EXIT, is_on),
                    "noglob" => state.switch(NO_GLOB, is_on),
                    "pipefail" => state.switch(PIPE_FAIL, is_on),
                    "posix" if is_on && state.shell == Shell::Bash => state.shell = Shell::BashPosix,
                    _ => {}
                }
            }
        }
        let ended = words.next_if(|word| *word == "--" || *word == "-");
        if ended.is_some_and(|word| word == "--") || words.peek().is_some() {
            state.set_arguments(words.cloned());
        }
        state.finish(Some(true))
    }

    fn set_bash_options(&mut self, words: &[String], mut state: State) -> Vec<State> {
        let is_on = !words.iter().any(|word| word == "-u");
        for word in words {
            match word.as_str() {
                "nullglob" => state.switch(NULL_GLOB, is_on),
                "extglob" => state.switch(EXT_GLOB, is_on),
                "nocasematch" => state.switch(NO_CASE_MATCH, is_on),
                "expand_aliases" => state.switch(EXPAND_ALIASES, is_on),
                "-s" | "-u" | "-q" | "inherit_errexit" | "checkwinsize" | "histappend" => {}
                _ => self.assume_keeps("construct"),
            }
        }
        state.finish(None)
    }

    fn trap(&mut self, words: &[String], mut state: State) -> Vec<State> {
        let [action, signals @ ..] = words else {
            return state.finish(Some(true));
        };
        let at_exit = signals
            .iter()
            .any(|signal| matches!(signal.as_str(), "0" | "EXIT" | "exit"));
        let matters = is_open(action) || mentions_loader(action);
        if at_exit {
            if action.contains("exec") || state.has(ERR_EXIT) && mentions_loader(action) {
                self.assume_keeps("trap");
            }
            state.exit_trap = Some(action.clone()).filter(|action| !matches!(action.as_str(), "-" | "" | ":"));
        } else if !signals.is_empty() && matters {
            self.assume_keeps("trap");
        }
        state.finish(Some(true))
    }

    /// `command -v`, `type`, `which`, `hash`: locates a command.
    pub(crate) fn find_command(&mut self, asked_by: &str, words: &[String], state: State) -> Vec<State> {
        let mut names = words.iter().filter(|word| !word.starts_with('-'));
        let name = names.next().map_or("", String::as_str);
        if state.functions.contains_key(name) || is_builtin(name, state.shell) && asked_by != "which" {
            return self.print(state, &format!("{name}\n"), Some(true));
        }
        let hole = match self.find_program(name, &state).filter(|_| !is_open(name)) {
            Some(path) => return self.print(state, &format!("{path}\n"), Some(true)),
            None if is_listed(&self.launchers.driver_tools, name) => {
                self.given_hole(&format!("`{name}`, which the driver may bring"))
            }
            None if is_open(name) || state.text("PATH").is_some_and(is_open) => self.output_hole(asked_by),
            None => return state.finish(Some(false)),
        };
        self.print(state, &hole, None)
    }

    /// `command` and `builtin`: skips functions.
    fn skip_functions(&mut self, name: &str, words: &[String], call: &Call, state: State) -> Vec<State> {
        let words = match words {
            [option, rest @ ..] if name == "command" && matches!(option.as_str(), "-v" | "-V") => {
                return self.find_command(name, rest, state);
            }
            [option, rest @ ..] if name == "command" && matches!(option.as_str(), "-p" | "--") => rest,
            [] => return state.finish(Some(true)),
            words => words,
        };
        let call = Call {
            words: words.to_vec(),
            ..call.clone()
        };
        self.dispatch_past_functions(&call, state)
    }
}

/// The output of `printf` for `%s` and newlines, with one word for each `%s`; `None` for other formats.
fn formatted(format: &str, words: &[String]) -> Option<String> {
    let format = format.replace("\\n", "\n");
    let texts: Vec<&str> = format.split("%s").collect();
    let is_known = !format.contains('\\') && !is_open(&format) && !texts.concat().contains('%');
    let (last, texts) = texts
        .split_last()
        .filter(|(_, texts)| is_known && texts.len() == words.len())?;
    let pairs = texts.iter().zip(words).flat_map(|(text, word)| [*text, word.as_str()]);
    Some(pairs.chain([*last]).collect())
}
