//! `$NAME` and `${NAME…}` (POSIX shell, 2.6.2; bash(1), "Parameter Expansion").

use std::ops::Range;

use shuck_ast::{
    BourneParameterExpansion as Bourne, Name, ParameterExpansion, ParameterExpansionSyntax, ParameterOp as Op, Span,
    Subscript, SubscriptSelector, VarRef, Word,
};

use crate::LOADER_VARIABLES;
use crate::declarations::is_name;
use crate::pattern::has_wildcard;
use crate::reader::{Reader, has_word};
use crate::state::{ShellOption, ShellValue, State};
use crate::value::{is_all_hole, is_open};
use crate::words::{Context, Piece, joined_text};

/// A parameter and the operation on its value.
pub(crate) struct Expansion<'a> {
    name: &'a str,
    subscript: Option<&'a Subscript>,
    form: Form<'a>,
}

enum Form<'a> {
    Value,
    Length,
    Slice(&'a Word, Option<&'a Word>),
    Operation(&'a Op, Option<&'a Word>, bool),
    /// `${!NAME}`: the value of the parameter that NAME names.
    Indirect,
    /// Unsupported: keys, name prefixes, transformations.
    Unknown,
}

impl<'a> Expansion<'a> {
    pub(crate) fn of_name(name: &'a Name) -> Self {
        Self {
            name,
            subscript: None,
            form: Form::Value,
        }
    }

    pub(crate) fn of_parameter(parameter: &'a ParameterExpansion) -> Self {
        let ParameterExpansionSyntax::Bourne(bourne) = &parameter.syntax else {
            return Self {
                name: "",
                subscript: None,
                form: Form::Unknown,
            };
        };
        match bourne {
            Bourne::Access { reference } => Self::of(reference, Form::Value),
            Bourne::Length { reference } => Self::of(reference, Form::Length),
            Bourne::Slice {
                reference,
                offset_word_ast,
                length_word_ast,
                ..
            } => Self::of(reference, Form::Slice(offset_word_ast, length_word_ast.as_deref())),
            Bourne::Operation {
                reference,
                operator,
                operand_word_ast,
                colon_variant,
                ..
            } => Self::of(
                reference,
                Form::Operation(operator, operand_word_ast.as_deref(), *colon_variant),
            ),
            Bourne::Indirect {
                reference,
                operator: None,
                ..
            } => Self::of(reference, Form::Indirect),
            Bourne::Indices { reference }
            | Bourne::Indirect { reference, .. }
            | Bourne::Transformation { reference, .. } => Self::of(reference, Form::Unknown),
            Bourne::PrefixMatch { prefix, .. } => Self {
                name: prefix,
                subscript: None,
                form: Form::Unknown,
            },
        }
    }

    fn of(reference: &'a VarRef, form: Form<'a>) -> Self {
        Self {
            name: &reference.name,
            subscript: reference.subscript.as_deref(),
            form,
        }
    }
}

/// The maximum bytes of a value that `#` and `%` trim.
const TRIMMED_BYTES: usize = 4096;
/// Parameters that only the running shell knows.
const SHELL_PARAMETERS: &str = "RANDOM SRANDOM SECONDS LINENO PPID OSTYPE HOSTTYPE MACHTYPE HOSTNAME FUNCNAME SHLVL REPLY PIPESTATUS \
    DIRSTACK GROUPS MAPFILE OPTIND OPTARG OPTERR COLUMNS LINES PS1 PS2 PS3 PS4 TERM _ OLDPWD ? $ ! EPOCHSECONDS EPOCHREALTIME \
    COPROC COPROC_PID SHELL";

impl Reader<'_> {
    /// The value of a parameter; `None` if it is unset.
    pub(crate) fn parameter(&mut self, name: &str, state: &State) -> Option<ShellValue> {
        let place = &state.script.path;
        let is_bash = state.shell.is_bash();
        let is_uncertain = || state.arguments.iter().any(|word| is_open(word));
        let text = match name {
            "@" | "*" => return Some(ShellValue::List(state.arguments.iter().skip(1).cloned().collect())),
            "#" if is_uncertain() => self.hole(place, "the number of arguments"),
            "#" => state.arguments.len().saturating_sub(1).to_string(),
            "PWD" => state.directory.clone(),
            "-" => option_letters(state),
            "UID" | "EUID" if is_bash => state.user.uid.clone(),
            _ if let Ok(number) = name.parse::<usize>() => {
                // A hole before it may stand for any number of words.
                let is_moved = state
                    .arguments
                    .iter()
                    .take(number + 1)
                    .skip(1)
                    .any(|word| is_all_hole(word));
                match state.arguments.get(number) {
                    argument if !is_moved => argument?.clone(),
                    _ => self.hole(place, &format!("argument {number}")),
                }
            }
            _ if let Some(value) = state.value(name) => return Some(value.clone()),
            "BASH_SOURCE" if is_bash => return Some(ShellValue::List(vec![state.script.path.clone()])),
            "SHELL" if !is_bash => return None,
            _ if name.starts_with("BASH") && !is_bash => return None,
            _ if name.starts_with("BASH") || has_word(SHELL_PARAMETERS, name) => self.hole(place, &format!("${name}")),
            _ if LOADER_VARIABLES.contains(&name) => return None,
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
                return None;
            }
        };
        Some(ShellValue::Text(text))
    }

    /// Expands a parameter; a hole if the form is not supported.
    pub(crate) fn expand_parameter(
        &mut self,
        expansion: &Expansion<'_>,
        span: Span,
        state: &mut State,
        context: Context,
    ) -> Vec<Piece> {
        let pieces = self.known_pieces(expansion, span, state, context);
        pieces.unwrap_or_else(|| {
            let reason = format!("`{}`", state.script.snippet(span));
            vec![context.piece(self.hole(&state.place(span), &reason))]
        })
    }

    fn known_pieces(
        &mut self,
        expansion: &Expansion<'_>,
        span: Span,
        state: &mut State,
        context: Context,
    ) -> Option<Vec<Piece>> {
        if let Form::Unknown = expansion.form {
            return None;
        }
        let unset = self.unset.len();
        let mut value = self.parameter(expansion.name, state);
        if let Form::Indirect = expansion.form {
            // Do not blame the outer variable: its value only names another one.
            self.unset.truncate(unset);
            let Some(ShellValue::Text(name)) = &value else {
                return None;
            };
            value = self.parameter(Some(name).filter(|name| is_name(name))?, state);
        }
        let subscript = expansion.subscript;
        let selector = match expansion.name {
            "@" => Some(SubscriptSelector::At),
            "*" => Some(SubscriptSelector::Star),
            _ => subscript.and_then(Subscript::selector),
        };
        let value = match (value, subscript) {
            (Some(ShellValue::List(list)), _) if let Some(selector) = selector => {
                return self.list_pieces(expansion, list, selector, span, state, context);
            }
            (Some(ShellValue::List(list)), None) => list.first().cloned(),
            (Some(ShellValue::List(list)), Some(subscript)) => list.get(self.index_of(subscript, state)?).cloned(),
            (Some(ShellValue::Text(text)), Some(subscript)) if selector.is_none() && !is_open(&text) => {
                // A scalar has only element 0.
                Some(text)
                    .filter(|_| subscript.text.slice(&state.script.text).trim() == "0")
                    .map(Some)?
            }
            (Some(ShellValue::Text(text)), _) => Some(text),
            (None, _) => None,
        };
        if let Form::Operation(operator, operand, colon) = expansion.form {
            return self.operate(expansion.name, value, (operator, operand, colon), span, state, context);
        }
        let value = value.unwrap_or_default();
        let text = match expansion.form {
            Form::Value | Form::Indirect => value,
            _ if is_open(&value) => return None,
            Form::Length => value.chars().count().to_string(),
            Form::Slice(offset, length) => {
                let letters: Vec<char> = value.chars().collect();
                let range = self.slice_range(letters.len(), offset, length, state)?;
                letters.get(range)?.iter().collect()
            }
            Form::Operation(..) | Form::Unknown => return None,
        };
        Some(vec![context.piece(text)])
    }

    /// Expands `$@`, `$*` or a whole array.
    fn list_pieces(
        &mut self,
        expansion: &Expansion<'_>,
        list: Vec<String>,
        selector: SubscriptSelector,
        span: Span,
        state: &mut State,
        context: Context,
    ) -> Option<Vec<Piece>> {
        let list = match expansion.form {
            Form::Value | Form::Indirect => list,
            Form::Length => {
                let is_known = !list.iter().any(|item| is_open(item));
                return is_known.then(|| vec![Piece::Quoted(list.len().to_string())]);
            }
            Form::Slice(offset, length) => {
                // Slices of `$@` and `$*` count from `$0`.
                let zeroth = state
                    .arguments
                    .first()
                    .cloned()
                    .filter(|_| matches!(expansion.name, "@" | "*"));
                let all: Vec<String> = zeroth.into_iter().chain(list).collect();
                let range = self.slice_range(all.len(), offset, length, state)?;
                all.get(range)?.to_vec()
            }
            Form::Operation(Op::UseDefault, ..) if !list.is_empty() => list,
            Form::Operation(operator @ (Op::UseDefault | Op::UseReplacement), operand, colon) => {
                let value = (!list.is_empty()).then(|| list.join(" "));
                return self.operate(expansion.name, value, (operator, operand, colon), span, state, context);
            }
            Form::Operation(..) | Form::Unknown => return None,
        };
        if selector == SubscriptSelector::Star && context != Context::Plain {
            let joint: String = state.separators()?.chars().take(1).collect();
            return Some(vec![Piece::Quoted(list.join(&joint))]);
        }
        let mut pieces = Vec::new();
        for item in list {
            if !pieces.is_empty() {
                pieces.push(if context == Context::Plain {
                    Piece::Expanded(" ".to_owned())
                } else {
                    Piece::Break
                });
            }
            pieces.push(context.piece(item));
        }
        if pieces.is_empty() {
            pieces.push(Piece::Nothing);
        }
        Some(pieces)
    }

    fn index_of(&mut self, subscript: &Subscript, state: &mut State) -> Option<usize> {
        if let Some(expression) = &subscript.arithmetic_ast {
            self.evaluate_number(expression, state);
        }
        self.word_text(subscript.word_ast()?, state).parse().ok()
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
        value: Option<String>,
        (operator, operand, colon): (&Op, Option<&Word>, bool),
        span: Span,
        state: &mut State,
        context: Context,
    ) -> Option<Vec<Piece>> {
        let is_blank = value.is_none() || colon && value.as_deref() == Some("");
        let may_be_blank = colon && value.as_deref().is_some_and(is_all_hole);
        let value = value.unwrap_or_default();
        let inner = if context == Context::Quoted {
            Context::QuotedOperand
        } else {
            context
        };
        let parts = operand.map_or(&[][..], |word| &word.parts);
        let text = match operator {
            Op::UseDefault if is_blank => return Some(self.pieces(parts, state, inner)),
            Op::UseReplacement if may_be_blank => return None,
            Op::UseReplacement if !is_blank => return Some(self.pieces(parts, state, inner)),
            Op::UseReplacement => String::new(),
            Op::AssignDefault if is_blank => {
                let text = joined_text(&self.pieces(parts, state, inner));
                state.set_text(name, text.clone());
                text
            }
            Op::Error if is_blank => {
                // Without the variable the script ends here, so assume that it is set.
                let place = state.place(span);
                self.assume("given", &place, format!("${name} is set when the container starts"));
                self.given_hole(&place, &format!("`{}`", state.script.snippet(span)))
            }
            Op::UseDefault | Op::AssignDefault | Op::Error => value,
            _ if value.is_empty() => value,
            _ if is_open(&value) => return None,
            operator => self.edit(&value, operator, state)?,
        };
        Some(vec![context.piece(text)])
    }

    /// Trims, replaces or changes the case of known text.
    fn edit(&mut self, value: &str, operator: &Op, state: &mut State) -> Option<String> {
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
        let regex = self
            .patterns
            .compile(&pattern, [true, true])
            .filter(|_| value.len() <= TRIMMED_BYTES)?;
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
        let matches = regex.find_iter(value).filter(|found| !found.is_empty());
        let (mut replaced, mut end) = (String::new(), 0);
        for found in matches.take(if is_all { usize::MAX } else { 1 }) {
            replaced += value.get(end..found.start())?;
            replaced += by;
            end = found.end();
        }
        Some(replaced + value.get(end..)?)
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
