//! What a shell script makes of its environment before it starts the program that it is for, as far as that can be
//! told without running it (POSIX.1-2017, Shell Command Language).
//!
//! What a command says is not known, nor is what depends on it: a variable that is set there is unknown from then on.

mod builtins;
mod changed_user;
mod loops;
mod variables;

use std::collections::BTreeMap;

use super::shell_words::{ShellToken, WordPart, shell_tokens};

pub(super) use changed_user::{ChangedUser, new_user};
pub(super) use variables::LOADER;
use variables::{UNKNOWN, assignment};

/// What is known of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VariableValue {
    Text(String),
    Unset,
    /// Only a run could tell.
    Unknown,
}

/// The variables of a shell, and which of them the programs get that it starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ShellState {
    pub variables: BTreeMap<String, VariableValue>,
    /// The variables that are not exported; all others are.
    pub local: Vec<String>,
    /// `$1` and so on, each as far as it is known.
    pub arguments: Vec<Option<String>>,
    pub exports_all: bool,
    /// `set -u`: what is not set ends the script.
    pub must_be_set: bool,
    /// The names that were exported before they had a value.
    pub marked: Vec<String>,
    /// The variables of which only a run could tell whether they are exported.
    pub doubtful: Vec<String>,
    /// Whether the script goes on where a file that it reads cannot be read, as bash does and POSIX forbids (2.8.1).
    pub goes_on_without: bool,
    /// The working directory, as `$PWD` has it; `None` where only a run could tell.
    pub directory: Option<String>,
}

/// A program that a script starts: its words and what it is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StartedProgram {
    pub words: Vec<Option<String>>,
    pub variables: BTreeMap<String, VariableValue>,
    /// The user that the script goes on as, if it may: `gosu` stands behind a test of who runs it.
    pub user: Option<ChangedUser>,
    /// The working directory, as far as it is known.
    pub directory: Option<String>,
    /// Why the script ends before it, if so.
    pub problem: Option<String>,
}

/// The commands that are followed in one script, those in functions each time.
const COMMANDS: usize = 1_000;
/// How deep functions, scripts and groups stand in each other.
const DEPTH: usize = 24;
/// The variables of one script.
const VARIABLES: usize = 1_000;

/// Reads the files that a script names, each by its path from the root.
pub(super) trait ScriptFiles {
    /// The text of a file; `None` where it is not known.
    fn text(&self, path: &str) -> Option<String>;
    /// What `test` says of a file by this letter; `None` where only a run could tell.
    fn test(&self, sign: char, path: &str) -> Option<bool>;
    /// The paths that a pattern from the root stands for, sorted; `None` where only a run could tell.
    fn names(&self, pattern: &str) -> Option<Vec<String>>;
    /// Whether a script that is read one after the other with its like may set a variable of the loader.
    fn some_part_sets(&self) -> bool;
}

/// The last program that a script starts, the one that takes its place; else no words, and what the script leaves.
pub(super) fn run_script(script: &str, state: ShellState, files: &dyn ScriptFiles) -> StartedProgram {
    let mut run = ScriptRun {
        files,
        state,
        functions: BTreeMap::new(),
        last: None,
        user: None,
        doubt: Doubt::Sure,
        returned: Doubt::Sure,
        left: COMMANDS,
        depth: 0,
        is_over: false,
        problem: None,
    };
    run.script(script);
    let (state, user, problem) = (run.state, run.user, run.problem);
    let left = || StartedProgram {
        words: Vec::new(),
        variables: exported(&state),
        user: None,
        directory: state.directory.clone(),
        problem: None,
    };
    StartedProgram {
        user,
        problem,
        ..run.last.unwrap_or_else(left)
    }
}

/// Whether commands are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Doubt {
    Sure,
    /// Only a run could tell.
    Open,
    /// They are certainly not run.
    Skipped,
}

struct ScriptRun<'f> {
    files: &'f dyn ScriptFiles,
    state: ShellState,
    functions: BTreeMap<String, Vec<ShellToken>>,
    last: Option<StartedProgram>,
    user: Option<ChangedUser>,
    doubt: Doubt,
    /// Whether the file or function that is read goes on behind a `return`.
    returned: Doubt,
    left: usize,
    depth: usize,
    /// Whether the script has come to its end: `exec`, `exit`.
    is_over: bool,
    /// Why it has come to its end too early.
    problem: Option<String>,
}

/// Tokens that are read one after the other.
struct TokenReader<'t> {
    tokens: &'t [ShellToken],
    at: usize,
}

impl TokenReader<'_> {
    fn peek(&self) -> Option<&ShellToken> {
        self.tokens.get(self.at)
    }

    /// The next token where it is a word that stands as it is, such as `if`.
    fn keyword(&self) -> Option<&str> {
        match self.peek()? {
            ShellToken::Word(parts, false) => match parts.as_slice() {
                [WordPart::Text(text)] => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    fn take(&mut self, token: &ShellToken) -> bool {
        let is_it = self.peek() == Some(token);
        self.at += usize::from(is_it);
        is_it
    }
}

/// What a command says of its success; `None` where only a run could tell.
type Success = Option<bool>;

impl ScriptRun<'_> {
    /// Runs a script in this shell.
    fn script(&mut self, text: &str) {
        match shell_tokens(text).filter(|_| self.depth < DEPTH) {
            Some(tokens) => {
                self.depth += 1;
                self.block(&mut TokenReader { tokens: &tokens, at: 0 }, &[]);
                self.depth -= 1;
            }
            None => self.forget_all(),
        }
    }

    /// Runs commands up to one of the words, which is left to the caller.
    fn block(&mut self, reader: &mut TokenReader<'_>, ends: &[&str]) -> Success {
        let mut success = Some(true);
        while let Some(token) = reader.peek() {
            if matches!(token, ShellToken::End | ShellToken::Background) {
                reader.at += 1;
                continue;
            }
            if matches!(token, ShellToken::Close | ShellToken::CaseEnd)
                || reader.keyword().is_some_and(|word| ends.contains(&word))
            {
                break;
            }
            let outer = self.doubt;
            self.doubt = outer.max(self.returned);
            success = self.list(reader);
            self.doubt = outer;
            if self.left == 0 || self.state.variables.len() > VARIABLES {
                self.forget_all();
                break;
            }
        }
        success
    }

    /// Commands that are joined by `&&`, `||` and `|`.
    fn list(&mut self, reader: &mut TokenReader<'_>) -> Success {
        let outer = self.doubt;
        let mut success = self.pipeline(reader);
        loop {
            let known = match reader.peek() {
                Some(ShellToken::And) => success,
                Some(ShellToken::Or) => success.map(|success| !success),
                _ => break,
            };
            reader.at += 1;
            while reader.take(&ShellToken::End) {}
            let runs = match known {
                Some(true) => Doubt::Sure,
                Some(false) => Doubt::Skipped,
                None => Doubt::Open,
            };
            self.doubt = outer.max(runs);
            let next = self.pipeline(reader);
            success = match known {
                Some(true) => next,
                Some(false) => success,
                None => None,
            };
            self.doubt = outer;
        }
        success
    }

    fn pipeline(&mut self, reader: &mut TokenReader<'_>) -> Success {
        let negates = reader.keyword() == Some("!");
        reader.at += usize::from(negates);
        let before = (
            self.state.clone(),
            self.last.clone(),
            self.is_over,
            self.problem.clone(),
        );
        let mut success = self.command(reader);
        let mut is_pipe = false;
        while reader.take(&ShellToken::Pipe) {
            while reader.take(&ShellToken::End) {}
            is_pipe = true;
            success = self.command(reader).and(None);
        }
        if is_pipe || reader.peek() == Some(&ShellToken::Background) {
            // Each command of a pipe, and what runs beside the script, has a shell of its own.
            (self.state, self.last, self.is_over, self.problem) = before;
        }
        if negates {
            success.map(|success| !success)
        } else {
            success
        }
    }

    fn command(&mut self, reader: &mut TokenReader<'_>) -> Success {
        self.left = self.left.saturating_sub(1);
        if self.depth >= DEPTH {
            self.forget_all();
            self.left = 0;
            return None;
        }
        self.depth += 1;
        let success = self.command_within(reader);
        self.depth -= 1;
        success
    }

    fn command_within(&mut self, reader: &mut TokenReader<'_>) -> Success {
        let word = reader.keyword().map(str::to_owned);
        match word.as_deref() {
            Some("if") => self.conditional(reader),
            Some("for" | "select") => self.for_loop(reader),
            Some("while" | "until") => self.while_loop(reader),
            Some("case") => self.case(reader),
            Some("{") => {
                reader.at += 1;
                let success = self.block(reader, &["}"]);
                reader.at += 1;
                success
            }
            Some("function") => {
                reader.at += 1;
                self.simple(reader)
            }
            _ if reader.take(&ShellToken::Open) => {
                let outer = (self.state.clone(), self.is_over, self.problem.clone());
                let success = self.block(reader, &[]);
                reader.take(&ShellToken::Close);
                (self.state, self.is_over, self.problem) = outer;
                success
            }
            _ => self.simple(reader),
        }
    }

    fn doubtful<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.doubt;
        self.doubt = outer.max(Doubt::Open);
        let result = act(self);
        self.doubt = outer;
        result
    }

    fn conditional(&mut self, reader: &mut TokenReader<'_>) -> Success {
        let outer = self.doubt;
        // Whether one of the conditions before was true.
        let mut chosen = Some(false);
        loop {
            let word = reader.keyword().map(str::to_owned);
            reader.at += 1;
            let holds = match word.as_deref() {
                Some("if" | "elif") => {
                    let holds = self.block(reader, &["then"]);
                    reader.at += 1;
                    holds
                }
                Some("else") => Some(true),
                // `fi`, or the end of a script that lacks it.
                _ => break,
            };
            let runs = match (chosen, holds) {
                (Some(true), _) | (_, Some(false)) => Doubt::Skipped,
                (Some(false), Some(true)) => Doubt::Sure,
                _ => Doubt::Open,
            };
            self.doubt = outer.max(runs);
            self.block(reader, &["elif", "else", "fi"]);
            self.doubt = outer;
            chosen = match (chosen, holds) {
                (Some(true), _) | (Some(false), Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
        }
        None
    }

    fn case(&mut self, reader: &mut TokenReader<'_>) -> Success {
        while reader.peek().is_some() && reader.keyword() != Some("in") {
            reader.at += 1;
        }
        reader.at += 1;
        while reader.peek().is_some() && reader.keyword() != Some("esac") {
            // The pattern, up to its parenthesis.
            while reader.peek().is_some_and(|token| *token != ShellToken::Close) && reader.keyword() != Some("esac") {
                reader.at += 1;
            }
            if reader.take(&ShellToken::Close) {
                self.doubtful(|run| run.block(reader, &["esac"]));
                reader.take(&ShellToken::CaseEnd);
            }
            while reader.take(&ShellToken::End) {}
        }
        reader.at += 1;
        None
    }

    /// A command of words, or a function that is told.
    fn simple(&mut self, reader: &mut TokenReader<'_>) -> Success {
        let mut words: Vec<(Vec<WordPart>, bool)> = Vec::new();
        while let Some(ShellToken::Word(parts, is_quoted)) = reader.peek() {
            words.push((parts.clone(), *is_quoted));
            reader.at += 1;
        }
        if let ([(name, _)], Some(ShellToken::Open)) = (words.as_slice(), reader.peek()) {
            self.function(&name.clone(), reader);
            return Some(true);
        }
        if words.is_empty() {
            // Something that no command begins with: no step would be made.
            reader.at += 1;
            return None;
        }
        if self.doubt == Doubt::Skipped || self.is_over {
            return None;
        }
        let assigned = words
            .iter()
            .take_while(|(parts, _)| assignment(parts).is_some())
            .count();
        let (assignments, words) = words.split_at_checked(assigned)?;
        let fields: Vec<Option<String>> = words
            .iter()
            .flat_map(|(parts, quoted)| self.fields(parts, *quoted))
            .collect();
        let assignments: Vec<(String, VariableValue)> = assignments
            .iter()
            .filter_map(|(parts, _)| self.assigned(parts))
            .collect();
        if fields.is_empty() {
            let is_known = assignments.iter().all(|(_, value)| *value != VariableValue::Unknown);
            for (name, value) in assignments {
                self.assign(&name, value);
            }
            return is_known.then_some(true);
        }
        self.run(&assignments, &fields)
    }

    fn function(&mut self, name: &[WordPart], reader: &mut TokenReader<'_>) {
        reader.at += 1;
        reader.take(&ShellToken::Close);
        while reader.take(&ShellToken::End) {}
        let body = self.skipped(reader, |run, reader| {
            run.command(reader);
        });
        if let [WordPart::Text(name)] = name {
            self.functions.insert(name.clone(), body.to_vec());
        }
    }

    /// Reads something to see where it ends, without running it: its tokens.
    fn skipped<'t>(
        &mut self,
        reader: &mut TokenReader<'t>,
        read: impl FnOnce(&mut Self, &mut TokenReader<'t>),
    ) -> &'t [ShellToken] {
        let start = reader.at;
        let outer = (self.doubt, self.state.clone());
        self.doubt = Doubt::Skipped;
        read(self, reader);
        (self.doubt, self.state) = outer;
        reader.tokens.get(start..reader.at).unwrap_or_default()
    }

    /// Runs a command by its name.
    fn run(&mut self, assignments: &[(String, VariableValue)], fields: &[Option<String>]) -> Success {
        let (name, rest) = fields.split_first()?;
        let known = name.as_deref().unwrap_or_default();
        if let Some(body) = self.functions.get(known).cloned() {
            let arguments = std::mem::replace(&mut self.state.arguments, rest.to_vec());
            let returned = std::mem::replace(&mut self.returned, Doubt::Sure);
            let success = self.block(&mut TokenReader { tokens: &body, at: 0 }, &[]);
            self.returned = returned;
            self.state.arguments = arguments;
            return success;
        }
        self.run_own(assignments, fields)
    }

    /// Runs a command that is no function of the script.
    #[expect(clippy::too_many_lines, reason = "one arm for each command of the shell")]
    fn run_own(&mut self, assignments: &[(String, VariableValue)], fields: &[Option<String>]) -> Success {
        let (name, rest) = fields.split_first()?;
        let known = name.as_deref().unwrap_or_default();
        match known {
            "export" | "declare" | "typeset" | "readonly" | "local" => {
                self.declare(known, rest);
                Some(true)
            }
            "unset" => {
                if rest.contains(&None) {
                    self.forget_all();
                }
                for name in rest.iter().flatten().filter(|name| !name.starts_with('-')) {
                    self.unset(name);
                }
                Some(true)
            }
            "set" => {
                self.set(rest);
                Some(true)
            }
            "shift" => {
                let count = rest.first().and_then(|word| word.as_deref()?.parse().ok()).unwrap_or(1);
                self.state.arguments = self.state.arguments.get(count..).unwrap_or_default().to_vec();
                Some(true)
            }
            "cd" => self.change_directory(rest),
            "." | "source" => self.source(rest),
            "exec" if rest.is_empty() => Some(true),
            "exec" => {
                // `-c` empties the environment, and `-a` takes a name.
                if rest
                    .first()
                    .and_then(Option::as_deref)
                    .is_some_and(|word| word.starts_with('-'))
                {
                    self.forget_all();
                }
                self.last = None;
                self.start(assignments, rest);
                self.is_over = self.doubt == Doubt::Sure;
                Some(true)
            }
            "exit" => {
                self.is_over = self.doubt == Doubt::Sure;
                None
            }
            "return" => {
                self.returned = self.returned.max(match self.doubt {
                    Doubt::Sure => Doubt::Skipped,
                    doubt => doubt,
                });
                None
            }
            "[" | "test" => self.test(rest),
            "true" | ":" | "echo" | "umask" | "ulimit" | "mkdir" | "ldconfig" | "ln" | "chmod" | "hash" => Some(true),
            "trap" => {
                // It runs before every command that follows.
                if rest
                    .iter()
                    .any(|word| word.as_deref().is_none_or(|word| word == "DEBUG"))
                {
                    self.forget_all();
                }
                Some(true)
            }
            // What the words mean from here on.
            "alias" => {
                self.forget_all();
                Some(true)
            }
            "command" | "builtin"
                if !rest
                    .first()
                    .is_some_and(|word| word.as_deref().is_some_and(|word| word.starts_with('-'))) =>
            {
                self.run_own(assignments, rest)
            }
            "false" => Some(false),
            "eval" | "pushd" | "popd" => {
                self.forget_all();
                None
            }
            // `printf -v NAME` sets a variable, too.
            "read" | "mapfile" | "readarray" | "getopts" | "printf" => {
                if known != "printf" && rest.contains(&None) {
                    self.forget_all();
                }
                for name in rest.iter().flatten() {
                    self.assign(name, VariableValue::Unknown);
                }
                None
            }
            "command" | "builtin" | "[[" | "((" | "type" | "let" | "wait" | "break" | "continue" | "shopt"
            | "enable" | "complete" | "times" | "jobs" => None,
            _ => {
                self.start(assignments, fields);
                None
            }
        }
    }

    /// A program is started; the last one is what the script is for.
    fn start(&mut self, assignments: &[(String, VariableValue)], words: &[Option<String>]) {
        if self.doubt != Doubt::Skipped {
            self.user = new_user(words).or(self.user.take());
        }
        // What may not run is what the script is for only where nothing else is.
        if self.doubt != Doubt::Sure && self.last.is_some() {
            return;
        }
        let mut variables = exported(&self.state);
        variables.extend(assignments.iter().cloned());
        self.last = Some(StartedProgram {
            words: words.to_vec(),
            variables,
            user: None,
            directory: self.state.directory.clone(),
            problem: None,
        });
    }
}

fn exported(state: &ShellState) -> BTreeMap<String, VariableValue> {
    let variables = state.variables.iter();
    let mut exported: BTreeMap<String, VariableValue> = variables
        .filter(|(name, _)| !state.local.contains(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let doubtful = state.doubtful.iter().cloned();
    exported.extend(doubtful.map(|name| (name, VariableValue::Unknown)));
    exported
}
