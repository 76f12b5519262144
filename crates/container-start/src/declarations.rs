//! Assignments and declaration builtins: `export`, `local`, `readonly`, `declare`, `typeset`.

use shuck_ast::{ArrayElem, ArrayExpr, ArrayKind, Assignment, AssignmentValue, DeclClause, DeclOperand};

use crate::LOADER_VARIABLES;
use crate::reader::{Reader, VALUE_LENGTH};
use crate::script::Shell;
use crate::state::State;
use crate::value::is_open;

/// One operand of a declaration, expanded.
#[derive(Debug, Clone)]
pub(crate) enum Operand {
    /// Options: `-x`, `+x`.
    Flags(String),
    /// A name and an optional value.
    Name(String, Option<Vec<String>>),
    /// A name that is not a valid or known identifier.
    Unknown,
}

impl Operand {
    /// Parses an expanded word of a declaration.
    pub(crate) fn of_word(word: &str, state: &State) -> Self {
        if word.starts_with(['-', '+']) && word.len() > 1 {
            return Self::Flags(word.to_owned());
        }
        let (name, value) = word
            .split_once('=')
            .map_or((word, None), |(name, value)| (name, Some(value)));
        let added = name.strip_suffix('+').filter(|_| state.shell.is_bash());
        let name = added.unwrap_or(name);
        if !is_name(name) {
            return Self::Unknown;
        }
        let before = state.text(name).filter(|_| added.is_some()).unwrap_or_default();
        Self::Name(name.to_owned(), value.map(|value| vec![format!("{before}{value}")]))
    }
}

/// Whether a word is a valid variable name.
pub(crate) fn is_name(word: &str) -> bool {
    let mut letters = word.chars();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

impl Reader<'_> {
    /// The value of an assignment; `None` if the shell does not treat it as one.
    pub(crate) fn assignment_value(&mut self, assignment: &Assignment, state: &mut State) -> Option<Vec<String>> {
        // dash and busybox treat `A+=x` as a command name.
        if assignment.append && !state.shell.is_bash() {
            return None;
        }
        let name = &assignment.target.name;
        let before = if assignment.append {
            state.value(name).to_vec()
        } else {
            Vec::new()
        };
        let value = match (&assignment.value, &*before) {
            _ if assignment.target.subscript.is_some() => None,
            (AssignmentValue::Scalar(_), [_, _, ..]) => None,
            (AssignmentValue::Scalar(word), before) => {
                let text = before.concat() + &self.assigned_text(word, state);
                Some(vec![self.bounded(text)])
            }
            (AssignmentValue::Compound(array), before) => {
                if !state.shell.is_bash() {
                    self.assume("unparsed", "the shell goes on where it knows no arrays");
                }
                if LOADER_VARIABLES.contains(&name.as_str()) {
                    // Children do not get arrays.
                    self.assume_keeps("construct");
                }
                self.array(array, before.to_vec(), state)
            }
        };
        Some(value.unwrap_or_else(|| vec![self.hole(&format!("{name}, an array"))]))
    }

    /// The elements of an indexed array; `None` for keyed ones.
    fn array(&mut self, array: &ArrayExpr, mut list: Vec<String>, state: &mut State) -> Option<Vec<String>> {
        for element in &array.elements {
            match element {
                ArrayElem::Sequential(value) if array.kind != ArrayKind::Associative => {
                    list.extend(self.fields(&value.word, state));
                }
                _ => return None,
            }
        }
        let bytes: usize = list.iter().map(String::len).sum();
        self.bytes += bytes;
        Some(list).filter(|_| bytes <= VALUE_LENGTH && !self.is_spent())
    }

    pub(crate) fn run_declaration(&mut self, declaration: &DeclClause, mut state: State) -> Vec<State> {
        if state.shell != Shell::Bash {
            self.apply_assignments(&declaration.assignments, &mut state);
        }
        let mut operands = Vec::new();
        // The shell expands all words before the first assignment.
        for operand in &declaration.operands {
            match operand {
                DeclOperand::Flag(word) => operands.push(Operand::Flags(self.word_text(word, &mut state))),
                DeclOperand::Name(reference) => operands.push(Operand::Name(reference.name.to_string(), None)),
                DeclOperand::Assignment(assignment) => {
                    let name = &assignment.target.name;
                    let mut value = self.assignment_value(assignment, &mut state);
                    // bash expands braces in an operand into several words.
                    if state.shell.is_bash()
                        && matches!(&assignment.value, AssignmentValue::Scalar(word) if word.has_active_brace_expansion())
                    {
                        let reason = format!("{name}, which braces give several values");
                        value = Some(vec![self.hole(&reason)]);
                    }
                    operands.push(Operand::Name(name.to_string(), value));
                }
                DeclOperand::Dynamic(word) => {
                    let words = self.fields(word, &mut state);
                    operands.extend(words.iter().map(|word| Operand::of_word(word, &state)));
                }
            }
        }
        self.declare(&declaration.variant, operands, state)
    }

    /// Executes a declaration. Its exit status replaces that of its substitutions.
    pub(crate) fn declare(&mut self, kind: &str, operands: Vec<Operand>, mut state: State) -> Vec<State> {
        let is_bash_only = matches!(kind, "declare" | "typeset");
        if is_bash_only && !state.shell.is_bash() || kind == "local" && state.frames.is_empty() {
            return state.finish(Some(false));
        }
        if operands.iter().all(|operand| matches!(operand, Operand::Flags(_))) {
            // Without a name, it lists variables.
            let output = self.output_hole(kind);
            return self.print(state, &output, Some(true));
        }
        let mut flags = String::new();
        for operand in operands {
            match operand {
                Operand::Flags(more) => flags += &more,
                Operand::Unknown => self.assume_keeps("name"),
                Operand::Name(..) if flags.contains('n') && kind != "export" => self.assume_keeps("nameref"),
                // The functions that a child shell gets are not followed.
                Operand::Name(..) if flags.contains('f') => self.assume_keeps("function"),
                Operand::Name(name, mut value) => {
                    if flags.starts_with('-') && flags.contains(['i', 'u', 'l', 'A']) {
                        // bash converts values assigned to typed variables.
                        self.assume_keeps("typed");
                        value = value.map(|_| vec![self.hole(&format!("{name}, which has a type"))]);
                    }
                    declare_variable(kind, &name, value, &flags, &mut state);
                }
            }
        }
        state.finish(Some(true))
    }

    /// Sets the named variable to a hole.
    pub(crate) fn set_unknown(&mut self, name: &str, state: &mut State) {
        let name = name.split('[').next().unwrap_or_default();
        if is_open(name) || !is_name(name) {
            self.assume_keeps("name");
        } else {
            let hole = self.hole(&format!("{name}, which is read"));
            state.set_text(name, hole);
        }
    }
}

fn declare_variable(kind: &str, name: &str, value: Option<Vec<String>>, flags: &str, state: &mut State) {
    let is_local = kind == "local" || matches!(kind, "declare" | "typeset") && !flags.contains('g');
    let old = state.variables.get(name).cloned();
    if let Some(frame) = state.frames.last_mut().filter(|_| is_local) {
        frame.entry(name.to_owned()).or_insert(old);
        if value.is_none() && state.shell != Shell::Dash {
            state.variable_mut(name).value.clear();
        }
    }
    let is_declared = value.is_some();
    if let Some(value) = value {
        state.set(name, value);
    }
    let hides = kind == "export" && flags.contains('n') && (state.shell.is_bash() || !is_declared);
    let takes_export = hides || flags.contains("+x");
    let exports = kind == "export" && !flags.contains('n') || flags.contains('x');
    if takes_export || exports || is_declared || kind == "readonly" {
        let variable = state.variable_mut(name);
        variable.is_exported = !takes_export && (exports || variable.is_exported);
        variable.is_readonly |= kind == "readonly" || flags.contains('r');
    }
}
