//! `$NAME`, `${NAME…}` and what arithmetic assigns.

use shuck_ast::{
    BourneParameterExpansion, Name, ParameterExpansion, ParameterExpansionSyntax, ParameterOp, Span, Subscript,
    SubscriptSelector, VarRef, Word, WordPart,
};

use crate::LOADER_VARIABLES;
use crate::pattern::{has_wildcard, unescape_pattern};
use crate::reader::Reader;
use crate::state::{ShellOption, ShellValue, State};
use crate::value::{is_hole, is_open};
use crate::words::{Context, Piece, joined_text};

/// A parameter and what is to be made of its value.
pub(crate) struct Expansion<'a> {
    name: &'a str,
    subscript: Option<&'a Subscript>,
    form: Form<'a>,
}

enum Form<'a> {
    Value,
    Length,
    Slice(&'a Word, Option<&'a Word>),
    Operation(&'a ParameterOp, Option<&'a Word>, bool),
    /// The value of the parameter that the value names.
    Indirect,
    /// Keys, names, transformations: what is not followed.
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
        use BourneParameterExpansion as Bourne;
        let ParameterExpansionSyntax::Bourne(bourne) = &parameter.syntax else {
            return Self::unknown("");
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
            } => Self::of_operation(reference, operator, operand_word_ast.as_deref(), *colon_variant),
            Bourne::Indirect {
                reference,
                operator: None,
                ..
            } => Self::of(reference, Form::Indirect),
            Bourne::Indices { reference }
            | Bourne::Indirect { reference, .. }
            | Bourne::Transformation { reference, .. } => Self::of(reference, Form::Unknown),
            Bourne::PrefixMatch { prefix, .. } => Self::unknown(prefix),
        }
    }

    /// The expansion that a part of a word is.
    pub(crate) fn of_part(part: &'a WordPart) -> Self {
        match part {
            WordPart::Variable(name) => Self::of_name(name),
            WordPart::Parameter(parameter) => Self::of_parameter(parameter),
            WordPart::ParameterExpansion {
                reference,
                operator,
                operand_word_ast,
                colon_variant,
                ..
            } => Self::of_operation(reference, operator, operand_word_ast.as_deref(), *colon_variant),
            WordPart::Length(reference) | WordPart::ArrayLength(reference) => Self::of(reference, Form::Length),
            WordPart::ArrayAccess(reference) => Self::of(reference, Form::Value),
            WordPart::Substring {
                reference,
                offset_word_ast,
                length_word_ast,
                ..
            }
            | WordPart::ArraySlice {
                reference,
                offset_word_ast,
                length_word_ast,
                ..
            } => Self::of(reference, Form::Slice(offset_word_ast, length_word_ast.as_deref())),
            WordPart::ArrayIndices(reference)
            | WordPart::IndirectExpansion { reference, .. }
            | WordPart::Transformation { reference, .. } => Self::of(reference, Form::Unknown),
            WordPart::PrefixMatch { prefix, .. } => Self::unknown(prefix),
            WordPart::Literal(_)
            | WordPart::ZshQualifiedGlob(_)
            | WordPart::SingleQuoted { .. }
            | WordPart::DoubleQuoted { .. }
            | WordPart::CommandSubstitution { .. }
            | WordPart::ArithmeticExpansion { .. }
            | WordPart::ProcessSubstitution { .. } => Self::unknown(""),
        }
    }

    fn of_operation(reference: &'a VarRef, operator: &'a ParameterOp, operand: Option<&'a Word>, colon: bool) -> Self {
        Self::of(reference, Form::Operation(operator, operand, colon))
    }

    fn of(reference: &'a VarRef, form: Form<'a>) -> Self {
        Self {
            name: &reference.name,
            subscript: reference.subscript.as_deref(),
            form,
        }
    }

    fn unknown(name: &'a str) -> Self {
        Self {
            name,
            subscript: None,
            form: Form::Unknown,
        }
    }
}

/// The bytes of a value in which patterns are replaced.
const MATCHED_BYTES: usize = 256;
/// The bytes of a value that is trimmed.
const TRIMMED_BYTES: usize = 4096;

/// The parameters whose values only the shell that runs knows, by their beginnings where they end in `*`.
const OF_SHELL: [&str; 31] = [
    "BASH*",
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "LINENO",
    "PPID",
    "OSTYPE",
    "HOSTTYPE",
    "MACHTYPE",
    "HOSTNAME",
    "FUNCNAME",
    "SHLVL",
    "REPLY",
    "PIPESTATUS",
    "DIRSTACK",
    "GROUPS",
    "EPOCH*",
    "COPROC*",
    "MAPFILE",
    "OPTIND",
    "OPTARG",
    "OPTERR",
    "COLUMNS",
    "LINES",
    "PS*",
    "TERM",
    "_",
    "OLDPWD",
    "?",
    "$",
    "!",
];

/// Those among them that bash alone has.
const OF_BASH: [&str; 4] = ["BASH*", "UID", "EUID", "SHELL"];

fn is_listed(list: &[&str], name: &str) -> bool {
    list.iter().any(|known| match known.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => *known == name,
    })
}

impl Reader<'_> {
    /// The value of a parameter; `None` if it is unset.
    pub(crate) fn parameter(&mut self, name: &str, state: &State) -> Option<ShellValue> {
        let text = |text: &str| Some(ShellValue::Text(text.to_owned()));
        if let Ok(number) = name.parse::<usize>() {
            // A hole among them stands for any number of words.
            let known = state.arguments.iter().take(number + 1).skip(1);
            let is_moved = known.clone().any(|word| is_open(word)) && self.is_uncertain_list(state);
            return match state.arguments.get(number) {
                Some(word) if !is_moved => text(word),
                None if !is_moved => None,
                _ => Some(ShellValue::Text(
                    self.hole(&state.script.path, &format!("argument {number}")),
                )),
            };
        }
        let place = state.script.path.clone();
        match name {
            "@" | "*" => return Some(ShellValue::List(state.arguments.iter().skip(1).cloned().collect())),
            "#" if state.arguments.iter().any(|word| is_open(word)) => {
                return Some(ShellValue::Text(self.hole(&place, "the number of arguments")));
            }
            "#" => return text(&state.arguments.len().saturating_sub(1).to_string()),
            "PWD" => return text(&state.directory),
            "-" => return text(&option_letters(state)),
            _ => {}
        }
        let known = state.value(name).cloned();
        match name {
            _ if known.is_none() && !state.shell.is_bash() && is_listed(&OF_BASH, name) => None,
            "UID" | "EUID" => text(&state.user.uid),
            _ if known.is_some() => known,
            "BASH_SOURCE" => Some(ShellValue::List(vec![state.script.path.clone()])),
            "SHELL" => Some(ShellValue::Text(self.hole(&place, "$SHELL"))),
            _ if is_listed(&OF_SHELL, name) => Some(ShellValue::Text(self.hole(&place, &format!("${name}")))),
            _ if LOADER_VARIABLES.contains(&name) => None,
            _ if state.options.contains(&ShellOption::Clouded) => Some(ShellValue::Text(
                self.hole(&place, &format!("${name}, which an unknown text may set")),
            )),
            _ if self.is_given && self.conditions > 0 => Some(ShellValue::Text(
                self.given_hole(&place, &format!("${name}, which the image does not set")),
            )),
            _ => {
                if !self.unset.iter().any(|known| known == name) {
                    self.unset.push(name.to_owned());
                }
                None
            }
        }
    }

    /// Whether a hole among the arguments may stand for several of them.
    fn is_uncertain_list(&self, state: &State) -> bool {
        state
            .arguments
            .iter()
            .any(|word| word.chars().all(is_hole) && !word.is_empty())
    }

    /// The pieces that an expansion gives.
    pub(crate) fn expand_parameter(
        &mut self,
        expansion: &Expansion<'_>,
        span: Span,
        state: &mut State,
        context: Context,
    ) -> Vec<Piece> {
        let wrap = |text: String| context.piece(text);
        let place = state.place(span);
        let reason = format!("`{}`", state.script.snippet(span));
        let mut value = self.parameter(expansion.name, state);
        if matches!(expansion.form, Form::Indirect) {
            value = match &value {
                Some(ShellValue::Text(name)) if crate::declarations::is_name(name) && !is_open(name) => {
                    self.parameter(name, state)
                }
                _ => Some(ShellValue::Text(self.hole(&place, &reason))),
            };
        }
        let value = match value {
            _ if matches!(expansion.form, Form::Unknown) => return vec![wrap(self.hole(&place, &reason))],
            Some(ShellValue::List(list)) => match self.list_value(expansion, list, state, context) {
                ListValue::Pieces(pieces) => return pieces,
                ListValue::Text(value) => value,
                ListValue::Unknown => return vec![wrap(self.hole(&place, &reason))],
            },
            // An element of what is no list.
            Some(ShellValue::Text(text)) if expansion.subscript.is_none() || is_open(&text) => Some(text),
            Some(ShellValue::Text(text)) if is_zero(expansion, state) => Some(text),
            Some(ShellValue::Text(_)) => return vec![wrap(self.hole(&place, &reason))],
            None => None,
        };
        match &expansion.form {
            Form::Value | Form::Indirect | Form::Unknown => vec![wrap(value.unwrap_or_default())],
            Form::Length => {
                let value = value.unwrap_or_default();
                let known = !is_open(&value);
                vec![wrap(if known {
                    value.chars().count().to_string()
                } else {
                    self.hole(&place, &reason)
                })]
            }
            Form::Slice(offset, length) => {
                let value = value.unwrap_or_default();
                let sliced = self.slice(&value, offset, *length, state);
                vec![wrap(sliced.unwrap_or_else(|| self.hole(&place, &reason)))]
            }
            Form::Operation(operator, operand, colon) => {
                let operation = Operation {
                    operator,
                    operand: *operand,
                    colon: *colon,
                    place: &place,
                    reason: &reason,
                };
                self.operate(expansion.name, value, &operation, state, context)
            }
        }
    }

    /// The elements of a list that an expansion names.
    fn list_value(
        &mut self,
        expansion: &Expansion<'_>,
        list: Vec<String>,
        state: &mut State,
        context: Context,
    ) -> ListValue {
        let selector = match (expansion.name, expansion.subscript) {
            ("@", _) => Some(SubscriptSelector::At),
            ("*", _) => Some(SubscriptSelector::Star),
            (_, Some(subscript)) => {
                if let Some(selector) = subscript.selector() {
                    Some(selector)
                } else {
                    let Some(number) = self.index_of(subscript, state) else {
                        return ListValue::Unknown;
                    };
                    return ListValue::Text(list.get(number).cloned());
                }
            }
            (_, None) => return ListValue::Text(list.first().cloned()),
        };
        let list = match &expansion.form {
            Form::Value | Form::Indirect => list,
            Form::Length if list.iter().any(|item| is_open(item)) => return ListValue::Unknown,
            Form::Length => return ListValue::Pieces(vec![Piece::Quoted(list.len().to_string())]),
            Form::Slice(offset, length) => match self.list_slice(expansion.name, list, offset, *length, state) {
                Some(list) => list,
                None => return ListValue::Unknown,
            },
            Form::Operation(ParameterOp::UseDefault | ParameterOp::UseReplacement, ..) if list.is_empty() => {
                return ListValue::Text(None);
            }
            Form::Operation(ParameterOp::UseDefault, ..) => list,
            Form::Operation(ParameterOp::UseReplacement, ..) => return ListValue::Text(Some(list.join(" "))),
            Form::Operation(..) | Form::Unknown => return ListValue::Unknown,
        };
        if selector == Some(SubscriptSelector::Star) && context != Context::Plain {
            let joint = match state.value("IFS") {
                None => " ".to_owned(),
                Some(ShellValue::Text(text)) if !is_open(text) => text.chars().take(1).collect(),
                Some(_) => return ListValue::Unknown,
            };
            return ListValue::Pieces(vec![Piece::Quoted(list.join(&joint))]);
        }
        if list.is_empty() {
            return ListValue::Pieces(vec![Piece::Nothing]);
        }
        let mut pieces = Vec::new();
        for (number, item) in list.into_iter().enumerate() {
            if number > 0 {
                pieces.push(if context == Context::Plain {
                    Piece::Expanded(" ".to_owned())
                } else {
                    Piece::Break
                });
            }
            pieces.push(context.piece(item));
        }
        ListValue::Pieces(pieces)
    }

    fn index_of(&mut self, subscript: &Subscript, state: &mut State) -> Option<usize> {
        if let Some(expression) = &subscript.arithmetic_ast {
            self.evaluate_number(expression, state);
        }
        let word = subscript.word_ast()?;
        let text = self.word_text(word, state);
        text.parse().ok()
    }

    fn list_slice(
        &mut self,
        name: &str,
        list: Vec<String>,
        offset: &Word,
        length: Option<&Word>,
        state: &mut State,
    ) -> Option<Vec<String>> {
        let number = |reader: &mut Self, word: &Word, state: &mut State| {
            let text = reader.word_text(word, state);
            text.trim().parse::<usize>().ok()
        };
        let offset = number(self, offset, state)?;
        let length = match length {
            Some(word) => Some(number(self, word, state)?),
            None => None,
        };
        // Of the parameters, 0 counts.
        let zeroth = state.arguments.first().cloned().filter(|_| matches!(name, "@" | "*"));
        let all = zeroth.into_iter().chain(list);
        Some(all.skip(offset).take(length.unwrap_or(usize::MAX)).collect())
    }

    /// `${NAME:OFFSET:LENGTH}` of known text.
    fn slice(&mut self, value: &str, offset: &Word, length: Option<&Word>, state: &mut State) -> Option<String> {
        let mut number = |word: &Word| self.word_text(word, state).trim().parse::<i64>().ok();
        let (offset, length) = (number(offset)?, length.map(&mut number));
        if is_open(value) {
            return None;
        }
        let letters: Vec<char> = value.chars().collect();
        let count = i64::try_from(letters.len()).ok()?;
        let begin = if offset < 0 { count + offset } else { offset.min(count) };
        let end = match length {
            None => count,
            Some(Some(length)) if length < 0 => count + length,
            Some(length) => begin.saturating_add(length?).min(count),
        };
        let (begin, end) = (usize::try_from(begin).ok()?, usize::try_from(end).ok()?);
        Some(letters.get(begin..end)?.iter().collect())
    }

    fn operate(
        &mut self,
        name: &str,
        value: Option<String>,
        operation: &Operation<'_>,
        state: &mut State,
        context: Context,
    ) -> Vec<Piece> {
        let wrap = |text: String| vec![context.piece(text)];
        let is_blank = value.is_none() || operation.colon && value.as_deref() == Some("");
        // A value of holes alone may be empty.
        let may_be_blank = operation.colon
            && value
                .as_deref()
                .is_some_and(|text| !text.is_empty() && text.chars().all(is_hole));
        let operand_context = if context == Context::Quoted {
            Context::QuotedOperand
        } else {
            context
        };
        let operand = |reader: &mut Self, state: &mut State| match operation.operand {
            Some(word) => reader.pieces(&word.parts, state, operand_context),
            None => Vec::new(),
        };
        match operation.operator {
            ParameterOp::UseDefault if is_blank => operand(self, state),
            ParameterOp::AssignDefault if is_blank => {
                let text = joined_text(&operand(self, state));
                state.set_text(name, text.clone());
                wrap(text)
            }
            ParameterOp::UseReplacement if is_blank => wrap(String::new()),
            ParameterOp::UseReplacement if may_be_blank => wrap(self.hole(operation.place, operation.reason)),
            ParameterOp::UseReplacement => operand(self, state),
            ParameterOp::Error if is_blank => {
                // The script ends here, or a run sets the variable.
                let (path, line) = crate::reader::split_place(operation.place);
                self.assume_at("given", path, line, format!("${name} is set when the container starts"));
                wrap(self.given_hole(operation.place, operation.reason))
            }
            ParameterOp::UseDefault | ParameterOp::AssignDefault | ParameterOp::Error => {
                wrap(value.unwrap_or_default())
            }
            operator => {
                let value = value.unwrap_or_default();
                let edited = self.edit(&value, operator, state);
                wrap(edited.unwrap_or_else(|| self.hole(operation.place, operation.reason)))
            }
        }
    }

    /// Trims, replaces or changes the letters of known text.
    fn edit(&mut self, value: &str, operator: &ParameterOp, state: &mut State) -> Option<String> {
        use ParameterOp as Op;
        if value.is_empty() {
            return Some(String::new());
        }
        if let Op::ReplaceFirst {
            pattern,
            replacement_word_ast: by,
            ..
        }
        | Op::ReplaceAll {
            pattern,
            replacement_word_ast: by,
            ..
        } = operator
        {
            let pattern = self.case_pattern(pattern, state);
            let by = self.word_text(by, state);
            let is_all = matches!(operator, Op::ReplaceAll { .. });
            // bash 5.2 puts what was matched in the place of an `&`.
            let is_known = !is_open(value) && !is_open(&pattern) && !is_open(&by) && !by.contains('&');
            return is_known.then(|| self.replace(value, &pattern, &by, is_all)).flatten();
        }
        if is_open(value) {
            return None;
        }
        let first = |change: &dyn Fn(char) -> String| {
            let mut letters = value.chars();
            let first = letters.next().map(change).unwrap_or_default();
            first + letters.as_str()
        };
        let (pattern, is_prefix, is_long) = match operator {
            Op::UpperAll => return Some(value.to_uppercase()),
            Op::LowerAll => return Some(value.to_lowercase()),
            Op::UpperFirst => return Some(first(&|letter| letter.to_uppercase().collect())),
            Op::LowerFirst => return Some(first(&|letter| letter.to_lowercase().collect())),
            Op::RemovePrefixShort { pattern } => (pattern, true, false),
            Op::RemovePrefixLong { pattern } => (pattern, true, true),
            Op::RemoveSuffixShort { pattern } => (pattern, false, false),
            Op::RemoveSuffixLong { pattern } => (pattern, false, true),
            _ => return None,
        };
        let pattern = self.case_pattern(pattern, state);
        let regex = Some(&pattern)
            .filter(|pattern| !is_open(pattern))
            .and_then(|pattern| self.patterns.compile(pattern))?;
        if value.len() > TRIMMED_BYTES {
            return None;
        }
        let mut cuts: Vec<usize> = value.char_indices().map(|(at, _)| at).chain([value.len()]).collect();
        // From the cut that takes least to the one that takes most, or the other way.
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

    /// `${NAME/PATTERN/BY}`: the longest match at the first place, or at each.
    fn replace(&mut self, value: &str, pattern: &str, by: &str, is_all: bool) -> Option<String> {
        let (pattern, at_begin, at_end) = match pattern.chars().next() {
            None => return Some(value.to_owned()),
            Some('#') if !is_all => (&pattern[1..], true, false),
            Some('%') if !is_all => (&pattern[1..], false, true),
            Some(_) => (pattern, false, false),
        };
        if !has_wildcard(pattern) && !at_begin && !at_end {
            let plain = unescape_pattern(pattern);
            return Some(if is_all {
                value.replace(&plain, by)
            } else {
                value.replacen(&plain, by, 1)
            });
        }
        // Longer values cost the cube of their length.
        if value.len() > MATCHED_BYTES {
            return None;
        }
        let regex = self.patterns.compile(pattern)?;
        let (mut replaced, mut rest, mut is_done) = (String::new(), value, false);
        while !rest.is_empty() && !is_done {
            let ends = rest.char_indices().map(|(at, letter)| at + letter.len_utf8()).rev();
            let end = ends
                .filter(|end| !at_end || *end == rest.len())
                .find(|end| regex.is_match(&rest[..*end]));
            if let Some(end) = end {
                replaced += by;
                rest = &rest[end..];
                is_done = !is_all;
            } else {
                let letter = rest.chars().next()?;
                replaced.push(letter);
                rest = &rest[letter.len_utf8()..];
                is_done = at_begin;
            }
        }
        Some(replaced + rest)
    }
}

/// What a list comes to for one expansion.
enum ListValue {
    Pieces(Vec<Piece>),
    Text(Option<String>),
    Unknown,
}

struct Operation<'a> {
    operator: &'a ParameterOp,
    operand: Option<&'a Word>,
    colon: bool,
    place: &'a str,
    reason: &'a str,
}

/// `$-`, as far as scripts ask for its letters.
fn option_letters(state: &State) -> String {
    let letters = [
        (ShellOption::AllExport, 'a'),
        (ShellOption::ErrExit, 'e'),
        (ShellOption::NoGlob, 'f'),
        (ShellOption::Interactive, 'i'),
    ];
    let set = letters.iter().filter(|(option, _)| state.options.contains(option));
    set.map(|(_, letter)| *letter)
        .chain(state.shell.is_bash().then_some('B'))
        .collect()
}

/// Whether the index of an expansion is 0, `@` or `*`: the value itself, of what is no list.
fn is_zero(expansion: &Expansion<'_>, state: &State) -> bool {
    expansion.subscript.is_some_and(|subscript| {
        subscript.selector().is_some() || subscript.text.slice(&state.script.text).trim() == "0"
    })
}
