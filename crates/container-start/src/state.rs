//! The state of one shell at a statement.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use shuck_ast::{Span, Stmt};

use crate::LOADER_VARIABLES;
use crate::script::{Script, Shell};
use crate::value::{is_hole, is_open};

/// A shell variable. An unset one may carry the export attribute.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Variable {
    /// One text, or the elements of an array; empty if it is unset.
    pub value: Vec<String>,
    pub is_exported: bool,
    pub is_readonly: bool,
}

impl Variable {
    /// An exported variable.
    pub(crate) fn exported(text: &str) -> Self {
        Self {
            value: vec![text.to_owned()],
            is_exported: true,
            is_readonly: false,
        }
    }
}

/// The variables of a shell that starts with an environment.
pub(crate) fn exported_variables(environment: &BTreeMap<String, String>) -> Rc<BTreeMap<String, Variable>> {
    let variables = environment
        .iter()
        .map(|(name, text)| (name.clone(), Variable::exported(text)));
    Rc::new(variables.collect())
}

/// A function and the script that defines it.
#[derive(Debug)]
pub(crate) struct Function {
    pub script: Rc<Script>,
    pub body: Stmt,
}

/// The user of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct User {
    /// A name or number, optionally followed by `:group`, as in the image config.
    pub name: String,
    /// The number, which may be a hole.
    pub uid: String,
}

/// How execution continues after a list of statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Flow {
    #[default]
    Next,
    Break(usize),
    Continue(usize),
    Return,
    Exit,
    /// The shell was replaced by exec, or loops forever.
    Replaced,
}

/// The options of a shell: the letters of `set`, and capital letters for options that have none.
pub(crate) const ALL_EXPORT: char = 'a';
pub(crate) const ERR_EXIT: char = 'e';
pub(crate) const NO_GLOB: char = 'f';
pub(crate) const INTERACTIVE: char = 'i';
pub(crate) const NULL_GLOB: char = 'N';
pub(crate) const PIPE_FAIL: char = 'Q';
pub(crate) const NO_CASE_MATCH: char = 'M';
pub(crate) const EXT_GLOB: char = 'X';
pub(crate) const EXPAND_ALIASES: char = 'A';
/// Unknown code ran, so unset variables may be set.
pub(crate) const UNKNOWN_CODE_RAN: char = 'U';

/// One side of an undecided condition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Branch {
    /// The place of the condition: `/entry.sh:12`.
    pub place: String,
    /// Whether the condition is true on this side.
    pub holds: bool,
}

/// One possible state of a shell.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub variables: Rc<BTreeMap<String, Variable>>,
    pub functions: Rc<BTreeMap<String, Rc<Function>>>,
    /// `$0` and the positional parameters.
    pub arguments: Vec<String>,
    pub directory: String,
    pub user: User,
    pub shell: Shell,
    pub script: Rc<Script>,
    /// For each active function, the values that its local variables shadow.
    pub frames: Vec<BTreeMap<String, Option<Variable>>>,
    pub flow: Flow,
    /// Whether the last command succeeded; `None` if unknown.
    pub status: Option<bool>,
    /// The captured standard output; `None` if it is not captured.
    pub output: Option<String>,
    /// The standard input; `None` if unknown.
    pub input: Option<String>,
    /// The nesting of `source`.
    pub sourced: usize,
    pub options: BTreeSet<char>,
    /// The last conditions that were not decided.
    pub branches: Vec<Branch>,
    /// The argument of `trap … EXIT`.
    pub exit_trap: Option<String>,
    /// Whether it is a command substitution.
    pub is_substitution: bool,
    /// Whether it is a child process, so that the main process continues.
    pub is_copy: bool,
}

/// The maximum number of conditions that a state remembers.
const BRANCHES: usize = 6;

impl State {
    pub(crate) fn place(&self, span: Span) -> String {
        self.script.place_of(span)
    }

    pub(crate) fn has(&self, option: char) -> bool {
        self.options.contains(&option)
    }

    pub(crate) fn switch(&mut self, option: char, is_on: bool) {
        if is_on {
            self.options.insert(option)
        } else {
            self.options.remove(&option)
        };
    }

    pub(crate) fn value(&self, name: &str) -> &[String] {
        self.variables.get(name).map_or(&[], |variable| &variable.value)
    }

    /// The text of a scalar variable.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.value(name) {
            [text] => Some(text),
            _ => None,
        }
    }

    /// The value of IFS; `None` if unknown.
    pub(crate) fn separators(&self) -> Option<String> {
        match self.value("IFS") {
            [] => Some(" \t\n".to_owned()),
            [text] if !is_open(text) => Some(text.clone()),
            _ => None,
        }
    }

    pub(crate) fn variable_mut(&mut self, name: &str) -> &mut Variable {
        Rc::make_mut(&mut self.variables).entry(name.to_owned()).or_default()
    }

    /// Whether a variable keeps its value.
    pub(crate) fn is_readonly(&self, name: &str) -> bool {
        self.variables.get(name).is_some_and(|variable| variable.is_readonly)
    }

    pub(crate) fn set(&mut self, name: &str, value: Vec<String>) {
        let exports = self.has(ALL_EXPORT);
        let variable = self.variable_mut(name);
        if !variable.is_readonly {
            variable.value = value;
            variable.is_exported |= exports;
        }
    }

    pub(crate) fn set_text(&mut self, name: &str, text: impl Into<String>) {
        self.set(name, vec![text.into()]);
    }

    pub(crate) fn restore(&mut self, name: &str, old: Option<Variable>) {
        let variables = Rc::make_mut(&mut self.variables);
        match old {
            Some(old) => drop(variables.insert(name.to_owned(), old)),
            None => drop(variables.remove(name)),
        }
    }

    /// Replaces the positional parameters.
    pub(crate) fn set_arguments(&mut self, words: impl IntoIterator<Item = String>) {
        self.arguments.truncate(1);
        self.arguments.extend(words);
    }

    /// The same shell, forked.
    pub(crate) fn copied(&self) -> Self {
        let mut copy = self.clone();
        copy.is_copy = true;
        copy
    }

    /// A fork whose output starts empty.
    pub(crate) fn silent_copy(&self) -> Self {
        let mut copy = self.copied();
        copy.output.as_mut().map(String::clear);
        copy
    }

    pub(crate) fn finish(mut self, status: Option<bool>) -> Vec<Self> {
        self.status = status;
        vec![self]
    }

    /// The same state on one side of a condition.
    pub(crate) fn branch(mut self, place: &str, holds: bool) -> Self {
        if self.branches.len() >= BRANCHES {
            self.branches.remove(0);
        }
        let place = place.to_owned();
        self.branches.push(Branch { place, holds });
        self
    }

    /// The absolute path of a word. A word that starts with a hole stays as it is.
    pub(crate) fn absolute(&self, path: &str) -> String {
        if path.starts_with('/') || path.starts_with(is_hole) {
            normalize(path)
        } else {
            normalize(&format!("{}/{path}", self.directory))
        }
    }

    /// The environment that child processes get, including the assignments in front of the command.
    pub(crate) fn environment(&self, prefix: &BTreeMap<String, Vec<String>>) -> BTreeMap<String, String> {
        let mut environment = BTreeMap::new();
        // bash: while a local X is unset, children still get the outer exported X. dash keeps the value in X itself.
        let frames = self.frames.iter().flatten().filter(|_| self.shell.is_bash());
        let hidden =
            frames.filter(|(name, _)| LOADER_VARIABLES.contains(&name.as_str()) && self.value(name).is_empty());
        let outer = hidden.filter_map(|(name, variable)| Some((name, variable.as_ref()?)));
        for (name, variable) in outer.chain(self.variables.iter()) {
            if let ([text], true) = (&*variable.value, variable.is_exported) {
                environment.insert(name.clone(), text.clone());
            }
        }
        for (name, value) in prefix {
            if let [text] = &**value {
                environment.insert(name.clone(), text.clone());
            }
        }
        environment
    }

    /// The part of the state that decides what the loader sees.
    pub(crate) fn loader_key(&self) -> impl PartialEq + use<> {
        let variables = LOADER_VARIABLES.map(|name| self.variables.get(name).cloned());
        (variables, self.flow, self.status, self.output.clone())
    }

    /// Whether its shell ended or became another program.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.flow, Flow::Exit | Flow::Replaced)
    }

    /// Whether two states continue identically.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let same_words =
            self.arguments == other.arguments && self.directory == other.directory && self.user == other.user;
        let same_streams = self.output == other.output && self.input == other.input;
        let same_flow = self.flow == other.flow && self.status == other.status && self.options == other.options;
        let same_functions = self.functions.keys().eq(other.functions.keys());
        same_words && same_streams && same_flow && same_functions && self.variables == other.variables
    }
}

/// Whether a path is a directory or below it.
pub(crate) fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || folder.ends_with('/'))
}

/// The last component of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// A path without `.`, `..` and empty components (Python's `os.path.normpath`).
pub(crate) fn normalize(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    let begins_unknown = !path.starts_with('/') && parts.first().is_some_and(|part| is_open(part));
    if begins_unknown { joined } else { format!("/{joined}") }
}
