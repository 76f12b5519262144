//! What a shell script makes of its environment before it starts the program that it is for, as far as that can be
//! told without running it (POSIX.1-2017, Shell Command Language).
//!
//! What a command says is not known, nor is what depends on it: a variable that is set there is unknown from then on.

mod builtins;
mod variables;

use std::collections::BTreeMap;

use super::shell_words::{ShellToken, WordPart, shell_tokens};

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
}

/// A program that a script starts: its words and what it is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StartedProgram {
    pub words: Vec<Option<String>>,
    pub variables: BTreeMap<String, VariableValue>,
    /// The user that the script goes on as, if it may: `gosu` stands behind a test of who runs it.
    pub user: Option<String>,
}

/// The commands that are followed in one script, those in functions each time.
const COMMANDS: usize = 1_000;
/// How deep functions, scripts and groups stand in each other.
const DEPTH: usize = 24;
/// The variables of one script.
const VARIABLES: usize = 1_000;

/// Reads the files that a script names: the text of one, and what is known of whether one is there.
pub(super) trait ScriptFiles {
    /// The text of a file; `None` where it is not known.
    fn text(&self, path: &str) -> Option<String>;
    /// What `test` says of a file by this letter; `None` where only a run could tell.
    fn test(&self, sign: char, path: &str) -> Option<bool>;
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
        left: COMMANDS,
        depth: 0,
        is_over: false,
    };
    run.script(script);
    let (state, user) = (run.state, run.user);
    let left = || StartedProgram {
        words: Vec::new(),
        variables: exported(&state),
        user: None,
    };
    StartedProgram {
        user,
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
    user: Option<String>,
    doubt: Doubt,
    left: usize,
    depth: usize,
    /// Whether the script has come to its end: `exec`, `exit`.
    is_over: bool,
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
            success = self.list(reader);
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
        let before = (self.state.clone(), self.last.clone());
        let mut success = self.command(reader);
        let mut is_pipe = false;
        while reader.take(&ShellToken::Pipe) {
            while reader.take(&ShellToken::End) {}
            is_pipe = true;
            success = self.command(reader).and(None);
        }
        if is_pipe || reader.peek() == Some(&ShellToken::Background) {
            // Each command of a pipe, and what runs beside the script, has a shell of its own.
            (self.state, self.last) = before;
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
            Some("for" | "while" | "until" | "select") => {
                while reader.peek().is_some() && reader.keyword() != Some("do") {
                    reader.at += 1;
                }
                reader.at += 1;
                self.doubtful(|run| run.block(reader, &["done"]));
                reader.at += 1;
                None
            }
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
                let state = self.state.clone();
                let success = self.block(reader, &[]);
                reader.take(&ShellToken::Close);
                self.state = state;
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
        let start = reader.at;
        let outer = (self.doubt, self.state.clone());
        // The body is read to see where it ends.
        self.doubt = Doubt::Skipped;
        self.command(reader);
        (self.doubt, self.state) = outer;
        let body = reader.tokens.get(start..reader.at).unwrap_or_default();
        if let [WordPart::Text(name)] = name {
            self.functions.insert(name.clone(), body.to_vec());
        }
    }

    /// Runs a command by its name.
    fn run(&mut self, assignments: &[(String, VariableValue)], fields: &[Option<String>]) -> Success {
        let (name, rest) = fields.split_first()?;
        let known = name.as_deref().unwrap_or_default();
        if let Some(body) = self.functions.get(known).cloned() {
            let arguments = std::mem::replace(&mut self.state.arguments, rest.to_vec());
            let success = self.block(&mut TokenReader { tokens: &body, at: 0 }, &[]);
            self.state.arguments = arguments;
            return success;
        }
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
                self.state.arguments = self.state.arguments.get(1..).unwrap_or_default().to_vec();
                Some(true)
            }
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
            "exit" | "return" => {
                self.is_over = self.doubt == Doubt::Sure && known == "exit";
                None
            }
            "[" | "test" => self.test(rest),
            "true" | ":" | "cd" | "echo" | "printf" | "umask" | "ulimit" | "mkdir" | "trap" | "ldconfig" | "ln"
            | "chmod" | "alias" | "hash" => Some(true),
            "false" => Some(false),
            "eval" => {
                self.forget_all();
                None
            }
            "read" | "mapfile" | "readarray" | "getopts" => {
                for name in rest.iter().flatten() {
                    self.assign(name, VariableValue::Unknown);
                }
                None
            }
            "command" | "builtin" | "[[" | "((" | "type" | "let" | "wait" => None,
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

/// The user that a command takes on before it starts another, in the form of the image's own: `NAME`, `NAME:GROUP`.
pub(super) fn new_user(words: &[Option<String>]) -> Option<String> {
    let words: Vec<&str> = words.iter().map_while(Option::as_deref).collect();
    let (program, rest) = words.split_first()?;
    let value = |name: &str| {
        let mut pairs = rest.iter().zip(rest.iter().skip(1));
        let given = rest.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        given.or_else(|| pairs.find(|(word, _)| **word == name).map(|(_, value)| *value))
    };
    match program.rsplit('/').next()? {
        "gosu" | "su-exec" => rest.first().map(|user| (*user).to_owned()),
        "setpriv" => {
            let (user, group) = (value("--reuid")?, value("--regid"));
            Some(group.map_or_else(|| user.to_owned(), |group| format!("{user}:{group}")))
        }
        "runuser" => value("-u").or(value("--user")).map(str::to_owned),
        _ => None,
    }
}
