//! `$NAME` and `${NAME…}` (POSIX shell, 2.6.2; bash(1), "Parameter Expansion").

use shuck_ast::{
    BourneParameterExpansion as Bourne, ParameterExpansion, ParameterExpansionSyntax, ParameterOp as Op, Span,
    Subscript, SubscriptSelector as Selector, VarRef, Word,
};

use crate::LOADER_VARIABLES;
use crate::declarations::is_name;
use crate::pattern::{quote_letter, unquote};
use crate::reader::{Reader, has_word};
use crate::state::{State, UNKNOWN_CODE_RAN};
use crate::value::{BREAK, is_all_hole, is_open};
use crate::words::Context;

/// The elements of a parameter, none if it is unset; and `@` or `*` if all elements are meant, not one of them.
type Elements = (Vec<String>, Option<Selector>);

/// The maximum bytes of a value that `#` and `%` trim.
const TRIMMED_BYTES: usize = 4096;
/// Parameters that only the running shell knows.
const SHELL_PARAMETERS: &str = "RANDOM SRANDOM SECONDS LINENO PPID OSTYPE HOSTTYPE MACHTYPE HOSTNAME FUNCNAME SHLVL REPLY PIPESTATUS \
    DIRSTACK GROUPS MAPFILE OPTIND OPTARG OPTERR COLUMNS LINES PS1 PS2 PS3 PS4 TERM _ OLDPWD ? $ ! EPOCHSECONDS EPOCHREALTIME \
    COPROC COPROC_PID SHELL";

impl Reader<'_> {
    /// The elements of a parameter, one for a scalar; empty if it is unset.
    pub(crate) fn parameter(&mut self, name: &str, state: &State) -> Vec<String> {
        let is_bash = state.shell.is_bash();
        // A hole may stand for any number of arguments.
        let is_moved = |arguments: &[String]| arguments.iter().any(|word| is_all_hole(word));
        let text = match name {
            "@" | "*" => return state.arguments.iter().skip(1).cloned().collect(),
            "#" if state.arguments.iter().any(|word| is_open(word)) => self.hole("the number of arguments"),
            "#" => state.arguments.len().saturating_sub(1).to_string(),
            "PWD" => state.directory.clone(),
            "-" => {
                let letters = state.options.iter().filter(|letter| letter.is_ascii_lowercase());
                letters.chain(is_bash.then_some(&'B')).collect()
            }
            "UID" | "EUID" if is_bash => state.user.uid.clone(),
            _ if let Ok(number) = name.parse::<usize>() => match state.arguments.get(1..=number) {
                Some(before) if is_moved(before) => self.hole(&format!("argument {number}")),
                None if is_moved(&state.arguments) => self.hole(&format!("argument {number}")),
                _ => return state.arguments.get(number).cloned().into_iter().collect(),
            },
            _ if !state.value(name).is_empty() => return state.value(name).to_vec(),
            "BASH_SOURCE" if is_bash => state.script.path.clone(),
            "SHELL" if !is_bash => return Vec::new(),
            _ if name.starts_with("BASH") && !is_bash => return Vec::new(),
            _ if name.starts_with("BASH") || has_word(SHELL_PARAMETERS, name) => self.hole(&format!("${name}")),
            _ if LOADER_VARIABLES.contains(&name) => return Vec::new(),
            _ if state.has(UNKNOWN_CODE_RAN) => self.hole(&format!("${name}, which an unknown text may set")),
            _ if self.provides_missing && self.conditions > 0 => {
                self.given_hole(&format!("${name}, which the image does not set"))
            }
            _ => {
                if is_name(name) && !self.unset.iter().any(|known| known == name) {
                    self.unset.push(name.to_owned());
                }
                return Vec::new();
            }
        };
        vec![text]
    }

    /// Expands `$NAME` to marked text.
    pub(crate) fn expand_variable(&mut self, name: &str, span: Span, context: Context, state: &State) -> String {
        let selector = selector_of(name, None);
        let mut list = self.parameter(name, state);
        if selector.is_none() {
            list.truncate(1);
        }
        let marked = self.mark_elements((list, selector), context, state);
        marked.unwrap_or_else(|| self.parameter_hole(span, state))
    }

    /// Expands `${…}` to marked text; a hole if the form is not supported.
    pub(crate) fn expand_parameter(
        &mut self,
        parameter: &ParameterExpansion,
        span: Span,
        context: Context,
        state: &mut State,
    ) -> String {
        let known = match &parameter.syntax {
            ParameterExpansionSyntax::Bourne(bourne) => self.known_expansion(bourne, context, state),
            ParameterExpansionSyntax::Zsh(_) => None,
        };
        known.unwrap_or_else(|| self.parameter_hole(span, state))
    }

    fn parameter_hole(&mut self, span: Span, state: &State) -> String {
        self.hole(&format!("`{}`", state.script.snippet(span)))
    }

    fn known_expansion(&mut self, form: &Bourne, context: Context, state: &mut State) -> Option<String> {
        let elements = match form {
            Bourne::Access { reference } => self.elements(reference, state)?,
            Bourne::Length { reference } => {
                let (list, selector) = self.elements(reference, state)?;
                let first = list.first().map_or(0, |first| first.chars().count());
                let count = selector.map_or(first, |_| list.len());
                let is_known = !list.iter().any(|item| is_open(item));
                (is_known.then(|| vec![count.to_string()])?, None)
            }
            // `${@:N}` counts from `$0`, other lists from zero.
            Bourne::Slice {
                reference,
                length: None,
                ..
            } => {
                let (mut list, selector) = self.elements(reference, state)?;
                if reference.subscript.is_none() {
                    list.insert(0, state.arguments.first()?.clone());
                }
                let offset = self.word_text(form.offset_word_ast()?, state).trim().parse().ok()?;
                selector?;
                (list.into_iter().skip(offset).collect(), selector)
            }
            Bourne::Operation {
                reference,
                operator,
                colon_variant,
                ..
            } => {
                let elements = self.elements(reference, state)?;
                let operation = (&**operator, form.operand_word_ast(), *colon_variant);
                return self.operate(&reference.name, elements, operation, context, state);
            }
            Bourne::Indirect {
                reference,
                operator: None,
                ..
            } => {
                // Do not blame the outer variable: its value only names another one.
                let unset = self.unset.len();
                let (mut names, _) = self.elements(reference, state)?;
                self.unset.truncate(unset);
                let name = names.pop().filter(|name| is_name(name))?;
                (self.parameter(&name, state), None)
            }
            _ => return None,
        };
        self.mark_elements(elements, context, state)
    }

    /// The marked text of an operation on a parameter; `None` if unknown.
    fn operate(
        &mut self,
        name: &str,
        (list, selector): Elements,
        (operator, operand, colon): (&Op, Option<&Word>, bool),
        context: Context,
        state: &mut State,
    ) -> Option<String> {
        let is_blank = list.is_empty() || colon && list == [""];
        let may_be_blank = colon && !is_blank && list.iter().all(|item| is_all_hole(item));
        let parts = operand.map_or(&[][..], |word| &word.parts);
        let inner = if context == Context::Quoted {
            Context::QuotedOperand
        } else {
            context
        };
        let elements = match operator {
            Op::UseReplacement if may_be_blank => return None,
            Op::UseReplacement if is_blank => (Vec::new(), None),
            Op::UseDefault if !is_blank => (list, selector),
            Op::UseDefault | Op::UseReplacement => {
                let marked = self.expand(parts, inner, state);
                return Some(if marked.is_empty() {
                    self.mark("", context, state)
                } else {
                    marked
                });
            }
            Op::AssignDefault if is_blank => {
                let inner = if inner.is_quoted() { inner } else { Context::Assigned };
                let text = unquote(&self.expand(parts, inner, state));
                state.set_text(name, text.clone());
                (vec![text], None)
            }
            Op::Error if is_blank => {
                // Without the variable the script ends here, so assume that it is set.
                self.assume("given", &format!("${name} is set when the container starts"));
                (vec![self.given_hole(&format!("${name}, which must be set"))], None)
            }
            Op::AssignDefault | Op::Error => (list, selector),
            operator => {
                let edited: Option<_> = list.iter().map(|item| self.edit(item, operator, state)).collect();
                (edited?, selector)
            }
        };
        self.mark_elements(elements, context, state)
    }

    /// The elements that a reference selects; `None` if unknown.
    fn elements(&mut self, reference: &VarRef, state: &mut State) -> Option<Elements> {
        let subscript = reference.subscript.as_deref();
        let selector = selector_of(&reference.name, subscript);
        let mut list = self.parameter(&reference.name, state);
        if selector.is_none() {
            let index = match subscript {
                _ if list.is_empty() => 0,
                None => 0,
                Some(_) if list.iter().any(|item| is_open(item)) => return None,
                Some(subscript) => {
                    if let Some(expression) = &subscript.arithmetic_ast {
                        self.evaluate_number(expression, state);
                    }
                    self.word_text(subscript.word_ast()?, state).parse().ok()?
                }
            };
            list = list.get(index).cloned().into_iter().collect();
        }
        Some((list, selector))
    }

    /// Marks the elements of a parameter; `None` if they are joined by an unknown character.
    fn mark_elements(&mut self, (list, selector): Elements, context: Context, state: &State) -> Option<String> {
        let joint = match selector {
            None => return Some(self.mark(list.first().map_or("", String::as_str), context, state)),
            Some(Selector::Star) if context.is_quoted() => {
                state.separators()?.chars().take(1).map(quote_letter).collect()
            }
            Some(_) => BREAK.to_string(),
        };
        let marked: Vec<String> = list.iter().map(|item| self.mark(item, context, state)).collect();
        Some(marked.join(&joint))
    }

    /// Trims known text or changes its case.
    fn edit(&mut self, value: &str, operator: &Op, state: &mut State) -> Option<String> {
        if is_open(value) {
            return None;
        }
        let (pattern, is_prefix, is_long) = match operator {
            Op::UpperAll => return Some(value.to_uppercase()),
            Op::LowerAll => return Some(value.to_lowercase()),
            Op::RemovePrefixShort { pattern } => (pattern, true, false),
            Op::RemovePrefixLong { pattern } => (pattern, true, true),
            Op::RemoveSuffixShort { pattern } => (pattern, false, false),
            Op::RemoveSuffixLong { pattern } => (pattern, false, true),
            _ => return None,
        };
        let pattern = self.case_pattern(pattern, state);
        if value.len() > TRIMMED_BYTES {
            return None;
        }
        let mut cuts: Vec<usize> = value.char_indices().map(|(at, _)| at).chain([value.len()]).collect();
        // From the shortest cut to the longest, or the reverse.
        if is_prefix == is_long {
            cuts.reverse();
        }
        self.step();
        for at in cuts {
            let (before, after) = value.split_at(at);
            let (taken, kept) = if is_prefix { (before, after) } else { (after, before) };
            if self.match_text(taken, &pattern, state)? {
                return Some(kept.to_owned());
            }
        }
        Some(value.to_owned())
    }
}

/// Whether a reference selects all elements.
fn selector_of(name: &str, subscript: Option<&Subscript>) -> Option<Selector> {
    match name {
        "@" => Some(Selector::At),
        "*" => Some(Selector::Star),
        _ => subscript.and_then(Subscript::selector),
    }
}
