//! `$NAME` and `${NAME…}` (POSIX shell, 2.6.2; bash(1), "Parameter Expansion").

use std::ops::Range;

use shuck_ast::{
    BourneParameterExpansion as Bourne, ParameterExpansion, ParameterExpansionSyntax, ParameterOp as Op, Span,
    Subscript, SubscriptSelector as Selector, VarRef, Word,
};

use crate::LOADER_VARIABLES;
use crate::declarations::is_name;
use crate::pattern::{has_wildcard, quote, unquote};
use crate::reader::{Reader, has_word};
use crate::state::{ShellOption, State};
use crate::value::{BREAK, is_all_hole, is_open};
use crate::words::Context;

/// The elements of a parameter.
struct Elements {
    /// Empty if it is unset.
    list: Vec<String>,
    /// `@` or `*`, for all elements; `None` for one of them.
    selector: Option<Selector>,
}

/// The maximum bytes of a value that `#` and `%` trim.
const TRIMMED_BYTES: usize = 4096;
/// Parameters that only the running shell knows.
const SHELL_PARAMETERS: &str = "RANDOM SRANDOM SECONDS LINENO PPID OSTYPE HOSTTYPE MACHTYPE HOSTNAME FUNCNAME SHLVL REPLY PIPESTATUS \
    DIRSTACK GROUPS MAPFILE OPTIND OPTARG OPTERR COLUMNS LINES PS1 PS2 PS3 PS4 TERM _ OLDPWD ? $ ! EPOCHSECONDS EPOCHREALTIME \
    COPROC COPROC_PID SHELL";

impl Reader<'_> {
    /// The elements of a parameter, one for a scalar; empty if it is unset.
    pub(crate) fn parameter(&mut self, name: &str, state: &State) -> Vec<String> {
        let place = &state.script.path;
        let is_bash = state.shell.is_bash();
        // A hole may stand for any number of arguments.
        let is_moved = |arguments: &[String]| arguments.iter().any(|word| is_all_hole(word));
        let text = match name {
            "@" | "*" => return state.arguments.iter().skip(1).cloned().collect(),
            "#" if is_moved(&state.arguments) => self.hole(place, "the number of arguments"),
            "#" => state.arguments.len().saturating_sub(1).to_string(),
            "PWD" => state.directory.clone(),
            "-" => option_letters(state),
            "UID" | "EUID" if is_bash => state.user.uid.clone(),
            _ if let Ok(number) = name.parse::<usize>() => match state.arguments.get(1..=number) {
                Some(before) if is_moved(before) => self.hole(place, &format!("argument {number}")),
                None if is_moved(&state.arguments) => self.hole(place, &format!("argument {number}")),
                _ => return state.arguments.get(number).cloned().into_iter().collect(),
            },
            _ if !state.value(name).is_empty() => return state.value(name).to_vec(),
            "BASH_SOURCE" if is_bash => state.script.path.clone(),
            "SHELL" if !is_bash => return Vec::new(),
            _ if name.starts_with("BASH") && !is_bash => return Vec::new(),
            _ if name.starts_with("BASH") || has_word(SHELL_PARAMETERS, name) => self.hole(place, &format!("${name}")),
            _ if LOADER_VARIABLES.contains(&name) => return Vec::new(),
            _ if state.has(ShellOption::UnknownCodeRan) => {
                self.hole(place, &format!("${name}, which an unknown text may set"))
            }
            _ if self.provides_missing && self.conditions > 0 => {
                self.given_hole(place, &format!("${name}, which the image does not set"))
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
        let mut elements = Elements {
            list: self.parameter(name, state),
            selector: selector_of(name, None),
        };
        elements
            .list
            .truncate(if elements.selector.is_some() { usize::MAX } else { 1 });
        self.mark_elements(elements, context, state)
            .unwrap_or_else(|| self.parameter_hole(span, state))
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
            ParameterExpansionSyntax::Bourne(bourne) => self.known_expansion(bourne, span, context, state),
            ParameterExpansionSyntax::Zsh(_) => None,
        };
        known.unwrap_or_else(|| self.parameter_hole(span, state))
    }

    fn parameter_hole(&mut self, span: Span, state: &State) -> String {
        self.hole(&state.place(span), &format!("`{}`", state.script.snippet(span)))
    }

    fn known_expansion(&mut self, form: &Bourne, span: Span, context: Context, state: &mut State) -> Option<String> {
        let elements = match form {
            Bourne::Access { reference } => self.elements(reference, state)?,
            Bourne::Length { reference } => {
                let Elements { list, selector } = self.elements(reference, state)?;
                let first = list.first().map_or("", String::as_str);
                let count = if selector.is_some() {
                    list.len()
                } else {
                    first.chars().count()
                };
                let is_known = !list.iter().any(|item| is_open(item));
                Elements {
                    list: is_known.then(|| vec![count.to_string()])?,
                    selector: None,
                }
            }
            Bourne::Slice {
                reference,
                offset_word_ast,
                length_word_ast,
                ..
            } => {
                let elements = self.elements(reference, state)?;
                self.slice(
                    reference,
                    elements,
                    (offset_word_ast, length_word_ast.as_deref()),
                    state,
                )?
            }
            Bourne::Operation {
                reference,
                operator,
                operand_word_ast,
                colon_variant,
                ..
            } => {
                let elements = self.elements(reference, state)?;
                let operand = operand_word_ast.as_deref();
                return self.operate(
                    &reference.name,
                    elements,
                    (operator, operand, *colon_variant),
                    span,
                    context,
                    state,
                );
            }
            Bourne::Indirect {
                reference,
                operator: None,
                ..
            } => {
                // Do not blame the outer variable: its value only names another one.
                let unset = self.unset.len();
                let name = self
                    .elements(reference, state)?
                    .list
                    .pop()
                    .filter(|name| is_name(name))?;
                self.unset.truncate(unset);
                Elements {
                    list: self.parameter(&name, state),
                    selector: None,
                }
            }
            _ => return None,
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
        Some(Elements { list, selector })
    }

    /// Marks the elements of a parameter; `None` if they are joined by an unknown character.
    fn mark_elements(&mut self, elements: Elements, context: Context, state: &State) -> Option<String> {
        let Elements { list, selector } = elements;
        let joint = match selector {
            None => return Some(self.mark(list.first().map_or("", String::as_str), context, state)),
            Some(Selector::Star) if context.is_quoted() => {
                quote(&state.separators()?.chars().take(1).collect::<String>())
            }
            Some(_) => BREAK.to_string(),
        };
        let marked: Vec<String> = list.iter().map(|item| self.mark(item, context, state)).collect();
        Some(marked.join(&joint))
    }

    /// `${NAME:OFFSET:LENGTH}`: characters of a scalar, or elements of a list.
    fn slice(
        &mut self,
        reference: &VarRef,
        elements: Elements,
        (offset, length): (&Word, Option<&Word>),
        state: &mut State,
    ) -> Option<Elements> {
        let Elements { mut list, selector } = elements;
        if matches!(reference.name.as_str(), "@" | "*") {
            // The positional parameters count from `$0`.
            list.insert(0, state.arguments.first()?.clone());
        } else if selector.is_none() {
            let text = list.pop().filter(|text| !is_open(text));
            let range = self.slice_range(text.as_ref()?.chars().count(), offset, length, state)?;
            let letters = text?.chars().skip(range.start).take(range.len()).collect();
            return Some(Elements {
                list: vec![letters],
                selector,
            });
        }
        let range = self.slice_range(list.len(), offset, length, state)?;
        Some(Elements {
            list: list.get(range)?.to_vec(),
            selector,
        })
    }

    /// The range that `OFFSET:LENGTH` selects from `count` characters or elements.
    fn slice_range(
        &mut self,
        count: usize,
        offset: &Word,
        length: Option<&Word>,
        state: &mut State,
    ) -> Option<Range<usize>> {
        let count = i64::try_from(count).ok()?;
        let mut number = |word: &Word| self.word_text(word, state).trim().parse::<i64>().ok();
        let offset = number(offset)?;
        let begin = if offset < 0 { count + offset } else { offset.min(count) };
        let end = match length {
            None => count,
            Some(word) => match number(word)? {
                length if length < 0 => count + length,
                length => begin.saturating_add(length).min(count),
            },
        };
        Some(usize::try_from(begin).ok()?..usize::try_from(end).ok()?)
    }

    fn operate(
        &mut self,
        name: &str,
        elements: Elements,
        (operator, operand, colon): (&Op, Option<&Word>, bool),
        span: Span,
        context: Context,
        state: &mut State,
    ) -> Option<String> {
        let is_blank = elements.list.is_empty() || colon && elements.list == [""];
        let may_be_blank = colon && !is_blank && elements.list.iter().all(|item| is_all_hole(item));
        let inner = if context == Context::Quoted {
            Context::QuotedOperand
        } else {
            context
        };
        let parts = operand.map_or(&[][..], |word| &word.parts);
        let text = match operator {
            Op::UseReplacement if may_be_blank => return None,
            Op::UseReplacement if is_blank => String::new(),
            Op::UseDefault | Op::UseReplacement if is_blank == matches!(operator, Op::UseDefault) => {
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
                text
            }
            Op::Error if is_blank => {
                // Without the variable the script ends here, so assume that it is set.
                let place = state.place(span);
                self.assume("given", &place, format!("${name} is set when the container starts"));
                self.given_hole(&place, &format!("`{}`", state.script.snippet(span)))
            }
            Op::UseDefault | Op::AssignDefault | Op::Error => return self.mark_elements(elements, context, state),
            operator => {
                let Elements { list, selector } = elements;
                let list: Option<_> = list.iter().map(|item| self.edit(item, operator, state)).collect();
                return self.mark_elements(Elements { list: list?, selector }, context, state);
            }
        };
        Some(self.mark(&text, context, state))
    }

    /// Trims, replaces or changes the case of known text.
    fn edit(&mut self, value: &str, operator: &Op, state: &mut State) -> Option<String> {
        if is_open(value) {
            return None;
        }
        let (pattern, is_prefix, is_long) = match operator {
            Op::UpperAll => return Some(value.to_uppercase()),
            Op::LowerAll => return Some(value.to_lowercase()),
            Op::ReplaceFirst {
                pattern,
                replacement_word_ast: by,
                ..
            }
            | Op::ReplaceAll {
                pattern,
                replacement_word_ast: by,
                ..
            } => {
                let pattern = self.case_pattern(pattern, state);
                let by = self.word_text(by, state);
                return self.replace(value, &pattern, &by, matches!(operator, Op::ReplaceAll { .. }));
            }
            Op::RemovePrefixShort { pattern } => (pattern, true, false),
            Op::RemovePrefixLong { pattern } => (pattern, true, true),
            Op::RemoveSuffixShort { pattern } => (pattern, false, false),
            Op::RemoveSuffixLong { pattern } => (pattern, false, true),
            _ => return None,
        };
        let pattern = self.case_pattern(pattern, state);
        let regex = self.patterns.compile(&pattern, [true, true]);
        let regex = regex.filter(|_| value.len() <= TRIMMED_BYTES)?;
        let mut cuts: Vec<usize> = value.char_indices().map(|(at, _)| at).chain([value.len()]).collect();
        // From the shortest cut to the longest, or the reverse.
        if is_prefix == is_long {
            cuts.reverse();
        }
        self.step();
        let cut = cuts.into_iter().find_map(|at| {
            let (before, after) = value.split_at(at);
            let (taken, kept) = if is_prefix { (before, after) } else { (after, before) };
            regex.is_match(taken).then(|| kept.to_owned())
        });
        Some(cut.unwrap_or_else(|| value.to_owned()))
    }

    /// `${NAME/PATTERN/BY}`: the longest match at the first position, or at every position.
    fn replace(&mut self, value: &str, pattern: &str, by: &str, is_all: bool) -> Option<String> {
        let (pattern, anchors) = match pattern.chars().next() {
            Some('#') if !is_all => (pattern.get(1..)?, [true, false]),
            Some('%') if !is_all => (pattern.get(1..)?, [false, true]),
            Some(_) => (pattern, [false, false]),
            None => return Some(value.to_owned()),
        };
        // bash 5.2 replaces `&` by the match. For alternatives the regex finds the first match, not the longest.
        if is_open(by) || by.contains('&') || pattern.contains('|') && has_wildcard(pattern) {
            return None;
        }
        let regex = self.patterns.compile(pattern, anchors)?;
        let mut replaced = String::new();
        let mut end = 0;
        for found in regex
            .find_iter(value)
            .filter(|found| !found.is_empty())
            .take(if is_all { usize::MAX } else { 1 })
        {
            replaced += value.get(end..found.start())?;
            replaced += by;
            end = found.end();
        }
        Some(replaced + value.get(end..)?)
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

/// `$-`, limited to the letters that scripts test for.
fn option_letters(state: &State) -> String {
    let letters = [
        (ShellOption::AllExport, 'a'),
        (ShellOption::ErrExit, 'e'),
        (ShellOption::NoGlob, 'f'),
        (ShellOption::Interactive, 'i'),
    ];
    let set = letters
        .iter()
        .filter(|(option, _)| state.has(*option))
        .map(|(_, letter)| *letter);
    set.chain(state.shell.is_bash().then_some('B')).collect()
}
