//! What one run of a shell may look like at a statement.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use shuck_ast::{Span, StmtSeq};

use crate::LOADER_VARIABLES;
use crate::script::{Script, Shell};
use crate::value::is_open;

/// The value of a variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShellValue {
    Text(String),
    /// An indexed array.
    List(Vec<String>),
}

/// A variable of a shell; one without a value is unset, and may be exported once it is set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Variable {
    pub value: Option<ShellValue>,
    pub is_exported: bool,
    pub is_readonly: bool,
}

/// A function with the script that its body is of.
#[derive(Debug)]
pub(crate) struct Function {
    pub script: Rc<Script>,
    pub body: StmtSeq,
}

/// Who a process runs as.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct User {
    /// A name or number with a group behind a colon, as the image config has it.
    pub name: String,
    /// The number, which may be a hole.
    pub uid: String,
}

/// Where a list of statements goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flow {
    Next,
    Break(usize),
    Continue(usize),
    Return,
    Exit,
    /// The shell became another program, or goes round a loop for ever.
    Replaced,
}

/// An option of `set` or `shopt`, or a state that a shell has once come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShellOption {
    AllExport,
    NoGlob,
    ErrExit,
    NullGlob,
    PipeFail,
    NoCaseMatch,
    ExpandAliases,
    Interactive,
    /// Unknown text was evaluated: what was unset may be set.
    Clouded,
}

/// A side of a condition that was not decided.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Branch {
    /// Where the condition stands: `/entry.sh:12`.
    pub place: String,
    /// Whether this is the side on which it holds.
    pub holds: bool,
}

/// One way that a shell may have come.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub variables: Rc<BTreeMap<String, Variable>>,
    pub functions: Rc<BTreeMap<String, Rc<Function>>>,
    /// `$0` and the positional parameters.
    pub arguments: Vec<String>,
    pub directory: String,
    pub user: User,
    pub shell: Shell,
    pub script: Rc<Script>,
    /// For each running function, what its local variables were before.
    pub frames: Vec<BTreeMap<String, Option<Variable>>>,
    pub flow: Flow,
    /// Whether the last command succeeded, if that is known.
    pub status: Option<bool>,
    /// What was written to descriptor 1, where that is collected.
    pub output: Option<String>,
    /// The standard input, where it is known.
    pub input: Option<String>,
    /// How many files are being sourced.
    pub sourced: usize,
    pub options: BTreeSet<ShellOption>,
    /// The paths that commands may have changed, with what they wrote where that is known.
    pub touched: Rc<BTreeMap<String, Option<String>>>,
    /// The last conditions that were not decided.
    pub branches: Vec<Branch>,
    /// What `trap … EXIT` runs.
    pub exit_trap: Option<String>,
    /// Whether it runs for a substitution's output.
    pub is_substitution: bool,
    /// Whether the main process goes on beside it.
    pub is_copy: bool,
}

/// The conditions that a state remembers.
const BRANCHES: usize = 6;

impl State {
    pub(crate) fn place(&self, span: Span) -> String {
        self.script.place_of(span)
    }

    pub(crate) fn value(&self, name: &str) -> Option<&ShellValue> {
        self.variables.get(name).and_then(|variable| variable.value.as_ref())
    }

    /// The text of a variable that is no array.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.value(name) {
            Some(ShellValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn variable_mut(&mut self, name: &str) -> &mut Variable {
        Rc::make_mut(&mut self.variables).entry(name.to_owned()).or_default()
    }

    pub(crate) fn set(&mut self, name: &str, value: ShellValue) {
        let exports = self.options.contains(&ShellOption::AllExport);
        let variable = self.variable_mut(name);
        if !variable.is_readonly {
            variable.value = Some(value);
            variable.is_exported |= exports;
        }
    }

    pub(crate) fn set_text(&mut self, name: &str, text: impl Into<String>) {
        self.set(name, ShellValue::Text(text.into()));
    }

    pub(crate) fn unset(&mut self, name: &str) {
        Rc::make_mut(&mut self.variables).remove(name);
    }

    pub(crate) fn restore(&mut self, name: &str, old: Option<Variable>) {
        match old {
            Some(old) => drop(Rc::make_mut(&mut self.variables).insert(name.to_owned(), old)),
            None => self.unset(name),
        }
    }

    pub(crate) fn touch(&mut self, path: String) {
        Rc::make_mut(&mut self.touched).insert(path, None);
    }

    /// Whether a command may have changed the path, something below it or a folder above.
    pub(crate) fn is_touched(&self, path: &str) -> bool {
        self.touched
            .keys()
            .any(|touched| is_below(path, touched) || is_below(touched, path))
    }

    /// Notes what a command has written to a file.
    pub(crate) fn write(&mut self, path: &str, text: Option<String>, appends: bool) {
        let before = self.touched.get(path).cloned().flatten();
        let text = match (appends, before) {
            (false, _) => text,
            (true, Some(before)) => text.map(|text| before + &text),
            (true, None) => None,
        };
        Rc::make_mut(&mut self.touched).insert(path.to_owned(), text);
    }

    pub(crate) fn merge_touched(&mut self, others: &[State]) {
        for other in others {
            if !Rc::ptr_eq(&other.touched, &self.touched) {
                let touched = Rc::make_mut(&mut self.touched);
                for (path, text) in other.touched.iter() {
                    match touched.get_mut(path) {
                        Some(known) if known != text => *known = None,
                        Some(_) => {}
                        None => drop(touched.insert(path.clone(), text.clone())),
                    }
                }
            }
        }
    }

    /// The same shell as a process of its own.
    pub(crate) fn copied(&self) -> Self {
        Self {
            is_copy: true,
            ..self.clone()
        }
    }

    pub(crate) fn finish(mut self, status: Option<bool>) -> Vec<Self> {
        self.status = status;
        vec![self]
    }

    /// The same on one side of a condition.
    pub(crate) fn branch(mut self, place: &str, holds: bool) -> Self {
        if self.branches.len() >= BRANCHES {
            self.branches.remove(0);
        }
        let place = place.to_owned();
        self.branches.push(Branch { place, holds });
        self
    }

    /// The path from the root of a word, which a leading hole leaves as it is.
    pub(crate) fn absolute(&self, path: &str) -> String {
        if path.starts_with('/') || path.starts_with(crate::value::is_hole) {
            normalize(path)
        } else {
            normalize(&format!("{}/{path}", self.directory))
        }
    }

    /// The environment that its programs get.
    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        let exported = self.variables.iter().filter(|(_, variable)| variable.is_exported);
        let mut environment: BTreeMap<String, String> = exported
            .filter_map(|(name, variable)| match &variable.value {
                Some(ShellValue::Text(text)) => Some((name.clone(), text.clone())),
                _ => None,
            })
            .collect();
        // `local X` without a value leaves the children the outer one, but in dash, where it keeps the value itself.
        for name in LOADER_VARIABLES.iter().filter(|name| self.value(name).is_none()) {
            let outer = self.frames.iter().rev().find_map(|frame| frame.get(*name));
            if self.shell.is_bash()
                && let Some(Some(Variable {
                    value: Some(ShellValue::Text(text)),
                    is_exported: true,
                    ..
                })) = outer
            {
                environment.insert((*name).to_owned(), text.clone());
            }
        }
        environment
    }

    /// What a later statement may see of it.
    fn key(&self) -> impl PartialEq + '_ {
        let functions: Vec<&String> = self.functions.keys().collect();
        let flow = (self.flow, self.status, &self.options);
        let words = (&self.arguments, &self.directory, &self.output, &self.input, &self.user);
        (&self.variables, functions, flow, words)
    }

    /// What the loader may see of it.
    pub(crate) fn loader_key(&self) -> (Vec<Option<Variable>>, Flow, Option<bool>, Option<String>) {
        let variables = LOADER_VARIABLES.iter().map(|name| self.variables.get(*name).cloned());
        (variables.collect(), self.flow, self.status, self.output.clone())
    }

    /// Whether two states go on alike.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

/// Whether a path is a folder or lies below it.
pub(crate) fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || folder.ends_with('/'))
}

/// A path without `.`, `..` and empty parts, as os.path.normpath has it.
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
    if is_open(parts.first().copied().unwrap_or_default()) && !path.starts_with('/') {
        joined
    } else {
        format!("/{joined}")
    }
}
