//! Words: quoting, expansion, splitting into fields, braces and file names (POSIX shell, 2.6).

use std::rc::Rc;

use shuck_ast::{
    ArithmeticExprNode, CommandSubstitutionSyntax, Heredoc, HeredocBodyPart, LiteralText, Pattern, PatternGroupKind,
    PatternPart, Span, StmtSeq, Word, WordPart, WordPartNode,
};

use crate::image_files::FileKind;
use crate::parameters::Expansion;
use crate::pattern::{escape_braces, escape_pattern, has_wildcard, unescape_pattern};
use crate::reader::Reader;
use crate::script::{Script, Shell};
use crate::state::{ShellOption, ShellValue, State, is_below};
use crate::value::is_open;

/// A part of a word after its expansion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text that neither splits nor matches files.
    Quoted(String),
    /// Text of the script itself: it does not split, and its wildcards match files.
    Literal(String),
    /// What an unquoted expansion gave: it splits, and its wildcards match files.
    Expanded(String),
    /// Where one field ends and the next begins: between the parameters of `"$@"`.
    Break,
    /// What `"$@"` is without parameters: no field of its own.
    Nothing,
}

/// What stands around the parts of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    Plain,
    /// Double quotes.
    Quoted,
    /// The operand of `"${NAME:-…}"`.
    QuotedOperand,
    Heredoc,
}

impl Context {
    /// Text of an expansion in this context.
    pub(crate) fn piece(self, text: String) -> Piece {
        if self == Self::Plain {
            Piece::Expanded(text)
        } else {
            Piece::Quoted(text)
        }
    }

    /// The source of a literal as the shell reads it, where a backslash keeps itself before most letters.
    fn unescape(self, source: &str) -> String {
        let special = match self {
            Self::Plain | Self::Heredoc => "$`\\",
            Self::Quoted => "$`\\\"",
            Self::QuotedOperand => "$`\\\"}",
        };
        unescape_some(source, special)
    }
}

/// Removes the backslashes before special letters and, with it, before the end of a line.
fn unescape_some(source: &str, special: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut letters = source.chars().peekable();
    while let Some(letter) = letters.next() {
        match letters.peek() {
            Some('\n') if letter == '\\' => drop(letters.next()),
            Some(next) if letter == '\\' && special.contains(*next) => text.extend(letters.next()),
            _ => text.push(letter),
        }
    }
    text
}

/// The names that one pattern may match.
const MATCHES: usize = 256;
/// The words that braces may make of one.
const BRACE_WORDS: usize = 256;

/// The pieces as one text.
pub(crate) fn joined_text(pieces: &[Piece]) -> String {
    let texts = pieces.iter().map(|piece| match piece {
        Piece::Quoted(text) | Piece::Literal(text) | Piece::Expanded(text) => text,
        Piece::Break => " ",
        Piece::Nothing => "",
    });
    texts.collect()
}

/// The pieces as a pattern, in which what is quoted matches itself alone.
fn joined_pattern(pieces: &[Piece]) -> String {
    let texts = pieces.iter().map(|piece| match piece {
        Piece::Quoted(text) => escape_pattern(text),
        Piece::Literal(text) | Piece::Expanded(text) => text.clone(),
        Piece::Break => " ".to_owned(),
        Piece::Nothing => String::new(),
    });
    texts.collect()
}

/// Whether a word stands for none: the name of a command that only assigns.
pub(crate) fn is_absent(word: &Word) -> bool {
    matches!(&*word.parts, [WordPartNode { kind: WordPart::Literal(LiteralText::Owned(text)), .. }] if text.is_empty())
}

impl Reader<'_> {
    /// The fields of several words.
    pub(crate) fn all_fields<'w>(
        &mut self,
        words: impl IntoIterator<Item = &'w Word>,
        state: &mut State,
    ) -> Vec<String> {
        words.into_iter().flat_map(|word| self.fields(word, state)).collect()
    }

    /// The fields of a word: split, with braces and file names expanded.
    pub(crate) fn fields(&mut self, word: &Word, state: &mut State) -> Vec<String> {
        let pieces = self.word_pieces(word, state);
        let mut fields = Vec::new();
        for pattern in self.split_pieces(&pieces, state) {
            let words = if state.shell.is_bash() {
                self.expand_braces(&pattern, state)
            } else {
                vec![pattern]
            };
            for pattern in words {
                fields.extend(self.expand_files(&pattern, state));
            }
        }
        fields
    }

    /// The fields as patterns, split at the white space of what was expanded.
    fn split_pieces(&mut self, pieces: &[Piece], state: &State) -> Vec<String> {
        let separators = match state.value("IFS") {
            None => " \t\n".to_owned(),
            Some(ShellValue::Text(text)) if !is_open(text) => text.clone(),
            Some(_) => String::new(),
        };
        let is_unknown = matches!(state.value("IFS"), Some(ShellValue::Text(text)) if is_open(text));
        let (mut fields, mut field, mut is_begun) = (Vec::new(), String::new(), false);
        for piece in pieces {
            match piece {
                Piece::Quoted(text) => {
                    field += &escape_pattern(text);
                    is_begun = true;
                }
                Piece::Literal(text) => {
                    field += text;
                    is_begun = true;
                }
                Piece::Break => {
                    fields.push(std::mem::take(&mut field));
                    is_begun = true;
                }
                Piece::Nothing => {}
                Piece::Expanded(_) if is_unknown => {
                    field += &self.hole(&state.script.path, "a word split by an unknown IFS");
                    is_begun = true;
                }
                Piece::Expanded(text) => {
                    for (number, part) in split_by(text, &separators).into_iter().enumerate() {
                        if number > 0 && is_begun {
                            fields.push(std::mem::take(&mut field));
                            is_begun = false;
                        }
                        if let Some(part) = part {
                            field += &escape_braces(part);
                            is_begun = true;
                        }
                    }
                }
            }
        }
        if is_begun {
            fields.push(field);
        }
        fields
    }

    /// The pieces of a word, with the tilde of its beginning.
    pub(crate) fn word_pieces(&mut self, word: &Word, state: &mut State) -> Vec<Piece> {
        self.pieces(&word.parts, state, Context::Plain)
    }

    /// The pieces of parts in a context.
    pub(crate) fn pieces(&mut self, parts: &[WordPartNode], state: &mut State, context: Context) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            match &part.kind {
                WordPart::Literal(literal) if context != Context::Plain => {
                    let source = literal.syntax_str(&state.script.text, part.span);
                    pieces.push(Piece::Quoted(context.unescape(source)));
                }
                WordPart::Literal(literal) => {
                    let text = literal.syntax_str(&state.script.text, part.span).to_owned();
                    self.literal_pieces(&text, (number == 0, parts.len() == 1), state, &mut pieces);
                }
                WordPart::SingleQuoted { value, dollar } => {
                    let text = value.slice(&state.script.text).to_owned();
                    pieces.push(match (dollar, state.shell) {
                        // In quotes they are letters, and what is between them is expanded.
                        (false, _) if context != Context::Plain && text.contains(['$', '`', '\\']) => {
                            Piece::Quoted(self.hole(&state.place(part.span), "a text in quotes within quotes"))
                        }
                        (false, _) if context != Context::Plain => Piece::Quoted(format!("'{text}'")),
                        (true, Shell::Dash) => {
                            let raw = part.span.slice(&state.script.text);
                            Piece::Quoted(format!("${}", raw.trim_start_matches('$').trim_matches('\'')))
                        }
                        (true, Shell::Busybox) => Piece::Quoted(self.hole(&state.place(part.span), "a text in $''")),
                        _ => Piece::Quoted(text),
                    });
                }
                WordPart::DoubleQuoted { parts, dollar } => {
                    if *dollar && !state.shell.is_bash() {
                        pieces.push(Piece::Quoted("$".to_owned()));
                    }
                    let inner = self.pieces(parts, state, Context::Quoted);
                    if inner.is_empty() {
                        pieces.push(Piece::Quoted(String::new()));
                    }
                    pieces.extend(inner);
                }
                WordPart::CommandSubstitution { body, syntax } => {
                    let output = self.substitute(body, *syntax, part.span, state, context);
                    pieces.push(context.piece(output));
                }
                WordPart::ArithmeticExpansion { expression_ast, .. } => {
                    let number = self.computed_text(expression_ast.as_deref(), part.span, state);
                    pieces.push(context.piece(number));
                }
                WordPart::ProcessSubstitution { body, .. } => {
                    let ended = self.run_list(body, vec![state.copied()]);
                    state.merge_touched(&ended);
                    pieces.push(context.piece(self.hole(&state.place(part.span), "a process substitution")));
                }
                WordPart::ZshQualifiedGlob(_) => {
                    pieces.push(context.piece(self.hole(&state.place(part.span), "a pattern of zsh")));
                }
                kind => {
                    let expansion = Expansion::of_part(kind);
                    pieces.extend(self.expand_parameter(&expansion, part.span, state, context));
                }
            }
        }
        pieces
    }

    /// A literal without quotes: backslashes quote, a tilde at its beginning is a home.
    fn literal_pieces(
        &mut self,
        text: &str,
        (is_first, is_whole): (bool, bool),
        state: &State,
        pieces: &mut Vec<Piece>,
    ) {
        let mut rest = text;
        if is_first && let Some(after) = rest.strip_prefix('~') {
            let name = after.split(['/', ':']).next().unwrap_or_default();
            let behind = after.get(name.len()..).unwrap_or_default();
            if is_whole || !behind.is_empty() {
                let home = self.home_of(name, state);
                // busybox drops what follows an unknown user.
                rest = if is_open(&home) { "" } else { behind };
                pieces.push(Piece::Quoted(home));
            }
        }
        let mut letters = rest.chars();
        let mut plain = String::new();
        while let Some(letter) = letters.next() {
            if letter != '\\' {
                plain.push(letter);
                continue;
            }
            match letters.next() {
                Some('\n') => {}
                quoted => {
                    if !plain.is_empty() {
                        pieces.push(Piece::Literal(std::mem::take(&mut plain)));
                    }
                    pieces.push(Piece::Quoted(quoted.unwrap_or('\\').to_string()));
                }
            }
        }
        if !plain.is_empty() || pieces.is_empty() && is_whole {
            pieces.push(Piece::Literal(plain));
        }
    }

    /// The value of an assignment: nothing splits, and a tilde behind a colon is a home.
    pub(crate) fn assigned_text(&mut self, word: &Word, state: &mut State) -> String {
        // HACK: shuck-parser 0.2.8 misplaces what follows `\"` in the value of an assignment, not in other words.
        let source = word.span.slice(&state.script.text);
        if source.contains("\\\"") && !source.starts_with(": ") {
            let line = Some(state.script.line_of(word.span));
            let script = Script::parse(&state.script.path, line, format!(": {source}"), state.shell);
            if let Some((script, word)) = script
                .as_ref()
                .and_then(|script| Some((script, script.only_argument()?)))
            {
                let outer = std::mem::replace(&mut state.script, Rc::clone(script));
                let text = self.plain_assigned_text(word, state);
                state.script = outer;
                return text;
            }
        }
        self.plain_assigned_text(word, state)
    }

    fn plain_assigned_text(&mut self, word: &Word, state: &mut State) -> String {
        let pieces = self.word_pieces(word, state);
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Literal(literal) if literal.contains(":~") => {
                    for (number, part) in literal.split(":~").enumerate() {
                        if number > 0 {
                            let name = part.split(['/', ':']).next().unwrap_or_default();
                            text.push(':');
                            let home = self.home_of(name, state);
                            text += &home;
                            if !is_open(&home) {
                                text += part.get(name.len()..).unwrap_or_default();
                            }
                        } else {
                            text += part;
                        }
                    }
                }
                other => text += &joined_text(&[other]),
            }
        }
        self.bounded(state, text)
    }

    /// A pattern of `case` or of an expansion.
    pub(crate) fn case_pattern(&mut self, pattern: &Pattern, state: &mut State) -> String {
        let mut text = String::new();
        for part in &pattern.parts {
            match &part.kind {
                PatternPart::Literal(literal) => text += literal.syntax_str(&state.script.text, part.span),
                PatternPart::AnyString => text.push('*'),
                PatternPart::AnyChar => text.push('?'),
                PatternPart::CharClass(class) => text += class.slice(&state.script.text),
                PatternPart::Group { kind, patterns } => {
                    let inner: Vec<String> = patterns
                        .iter()
                        .map(|pattern| self.case_pattern(pattern, state))
                        .collect();
                    let sign = match kind {
                        PatternGroupKind::ZeroOrOne => '?',
                        PatternGroupKind::ZeroOrMore => '*',
                        PatternGroupKind::OneOrMore => '+',
                        PatternGroupKind::ExactlyOne => '@',
                        PatternGroupKind::NoneOf => '!',
                    };
                    text += &format!("{sign}({})", inner.join("|"));
                }
                PatternPart::Word(word) => text += &self.word_pattern(word, state),
            }
        }
        text
    }

    /// A word as a pattern.
    pub(crate) fn word_pattern(&mut self, word: &Word, state: &mut State) -> String {
        joined_pattern(&self.word_pieces(word, state))
    }

    /// Whether a text matches a pattern, if that is known.
    pub(crate) fn match_text(&mut self, text: &str, pattern: &str, state: &State) -> Option<bool> {
        if pattern == "*" {
            return Some(true);
        }
        let is_known = !is_open(text) && !is_open(pattern) && !state.options.contains(&ShellOption::NoCaseMatch);
        is_known.then(|| self.patterns.matches(pattern, text)).flatten()
    }

    /// The body of a heredoc as the command reads it.
    pub(crate) fn heredoc_text(&mut self, heredoc: &Heredoc, state: &mut State) -> String {
        let mut text = String::new();
        for part in &heredoc.body.parts {
            match &part.kind {
                HeredocBodyPart::Literal(literal) => {
                    let source = literal.syntax_str(&state.script.text, part.span);
                    if heredoc.delimiter.expands_body {
                        text += &Context::Heredoc.unescape(source);
                    } else {
                        text += source;
                    }
                }
                HeredocBodyPart::CommandSubstitution { body, syntax } => {
                    text += &self.substitute(body, *syntax, part.span, state, Context::Heredoc);
                }
                HeredocBodyPart::ArithmeticExpansion { expression_ast, .. } => {
                    text += &self.computed_text(expression_ast.as_deref(), part.span, state);
                }
                HeredocBodyPart::Variable(name) => {
                    text += &self.expanded_text(&Expansion::of_name(name), part.span, state);
                }
                HeredocBodyPart::Parameter(parameter) => {
                    text += &self.expanded_text(&Expansion::of_parameter(parameter), part.span, state);
                }
            }
        }
        if heredoc.delimiter.strip_tabs {
            let lines: Vec<&str> = text.split('\n').map(|line| line.trim_start_matches('\t')).collect();
            return lines.join("\n");
        }
        text
    }

    fn expanded_text(&mut self, expansion: &Expansion<'_>, span: Span, state: &mut State) -> String {
        joined_text(&self.expand_parameter(expansion, span, state, Context::Heredoc))
    }

    /// A number that is computed, or a hole.
    fn computed_text(&mut self, expression: Option<&ArithmeticExprNode>, span: Span, state: &mut State) -> String {
        let number = expression.and_then(|expression| self.evaluate_number(expression, state));
        number.map_or_else(
            || self.hole(&state.place(span), "a number that is computed"),
            |number| number.to_string(),
        )
    }

    /// What a list prints, without the newlines at its end. The tree of a list in backticks is of its raw text: the shell
    /// takes some backslashes away before it parses it.
    fn substitute(
        &mut self,
        list: &StmtSeq,
        syntax: CommandSubstitutionSyntax,
        span: Span,
        state: &mut State,
        context: Context,
    ) -> String {
        let mut inner = state.copied();
        inner.output = Some(String::new());
        inner.is_substitution = true;
        let ended = if syntax == CommandSubstitutionSyntax::Backtick {
            let raw = span
                .slice(&state.script.text)
                .trim_start_matches('`')
                .trim_end_matches('`');
            let special = if context == Context::Quoted { "$`\\\"" } else { "$`\\" };
            let line = Some(state.script.line_of(span));
            let text = unescape_some(raw, special);
            let Some(script) = Script::parse(&state.script.path, line, text, state.shell) else {
                self.assume_keeps("unparsed", &state.place(span));
                return self.hole(&state.place(span), "the output of a substitution");
            };
            inner.script = Rc::clone(&script);
            self.run_list(&script.body, vec![inner])
        } else {
            self.run_list(list, vec![inner])
        };
        state.merge_touched(&ended);
        state.status = match &*ended {
            [only] => only.status,
            _ => None,
        };
        let mut outputs = ended.iter().map(|state| state.output.as_deref().unwrap_or_default());
        let first = outputs.next().unwrap_or_default().trim_end_matches('\n').to_owned();
        if outputs.all(|output| output.trim_end_matches('\n') == first) {
            return first;
        }
        self.hole(&state.place(span), "the output of a substitution")
    }

    /// The words that braces make (bash, "Brace Expansion").
    fn expand_braces(&mut self, pattern: &str, state: &State) -> Vec<String> {
        let mut words = Vec::new();
        if !push_braces(pattern, &mut words) {
            return vec![self.hole(&state.script.path, "more words than are followed, from braces")];
        }
        if words.len() > 1 {
            words.retain(|word| !word.is_empty());
        }
        words
    }

    /// The files that a pattern matches, or itself.
    fn expand_files(&mut self, pattern: &str, state: &State) -> Vec<String> {
        let text = unescape_pattern(pattern);
        if !has_wildcard(pattern) || state.options.contains(&ShellOption::NoGlob) || is_open(&text) {
            return vec![text];
        }
        let place = state.script.path.clone();
        let mut parts = pattern.split('/').filter(|part| has_wildcard(part));
        if parts.any(|part| self.patterns.compile(part).is_none()) {
            return vec![self.hole(&place, &format!("the files that match {text}"))];
        }
        let begin = pattern.split(['*', '?', '[']).next().unwrap_or_default();
        let begin = begin.rsplit_once('/').map_or("", |(folder, _)| folder);
        let folder = state.absolute(&unescape_pattern(begin));
        if state.touched.keys().any(|touched| is_below(touched, &folder)) {
            return vec![self.hole(&place, &format!("the files that match {text}"))];
        }
        // The driver's files are there or not.
        let whole = state.absolute(&text.replace(['*', '?'], ""));
        let (is_drivers, matches) = (self.is_of_driver(&whole), self.matching_files(pattern, state));
        let is_optional = self.is_given && matches.is_empty() && text.starts_with('/') && place != "config";
        match matches.len() {
            0 if is_drivers || is_optional => vec![self.given_hole(&place, &format!("the files that match {text}"))],
            0 if state.options.contains(&ShellOption::NullGlob) => Vec::new(),
            0 => vec![text],
            count if count > MATCHES => vec![self.hole(&place, &format!("the files that match {text}"))],
            _ => matches,
        }
    }

    fn matching_files(&mut self, pattern: &str, state: &State) -> Vec<String> {
        let mut found = vec![String::new()];
        let is_absolute = pattern.starts_with('/');
        for part in pattern.split('/').filter(|part| !part.is_empty()) {
            let mut next = Vec::new();
            for folder in found {
                let join = |name: &str| match &*folder {
                    "" if !is_absolute => name.to_owned(),
                    folder => format!("{folder}/{name}"),
                };
                if !has_wildcard(part) {
                    next.push(join(&unescape_pattern(part)));
                    continue;
                }
                let hidden = part.starts_with('.') || part.starts_with("\\.");
                for name in
                    self.files
                        .list(&state.absolute(if folder.is_empty() && is_absolute { "/" } else { &folder }))
                {
                    if (hidden || !name.starts_with('.')) && self.patterns.matches(part, &name) == Some(true) {
                        next.push(join(&name));
                    }
                    if next.len() > MATCHES {
                        return next;
                    }
                }
            }
            found = next;
        }
        let only_folders = pattern.ends_with('/');
        found.retain(|path| {
            let stat = self.files.stat(&state.absolute(path));
            stat.is_some_and(|stat| !only_folders || stat.kind == FileKind::Directory)
        });
        if only_folders {
            found.iter_mut().for_each(|path| path.push('/'));
        }
        found
    }
}

/// The parts of a text between separators: `None` for the empty ones at white space, which make no field.
fn split_by<'t>(text: &'t str, separators: &str) -> Vec<Option<&'t str>> {
    if separators.is_empty() {
        return vec![Some(text).filter(|text| !text.is_empty())];
    }
    let is_white = |letter: char| letter.is_ascii_whitespace() && separators.contains(letter);
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let trimmed = rest.trim_start_matches(is_white);
        if trimmed.len() < rest.len() {
            // White space in front ends the field before.
            if parts.is_empty() {
                parts.push(None);
            }
            rest = trimmed;
        }
        let Some(at) = rest.find(|letter| separators.contains(letter)) else {
            parts.push(Some(rest).filter(|part| !part.is_empty()));
            return parts;
        };
        let (part, behind) = rest.split_at(at);
        // A separator that is no white space ends a field, if need be an empty one.
        let behind = behind.trim_start_matches(is_white);
        let mut letters = behind.chars();
        let is_hard = letters.next().is_some_and(|letter| separators.contains(letter));
        parts.push(Some(part).filter(|part| !part.is_empty() || is_hard));
        rest = if is_hard {
            letters.as_str().trim_start_matches(is_white)
        } else {
            behind
        };
        if rest.is_empty() {
            parts.push(None);
            return parts;
        }
    }
}

/// The fields that `read` makes of a line: the last of `count` takes the rest, without white space at its ends.
pub(crate) fn split_fields(line: &str, separators: &str, count: usize) -> Vec<String> {
    let is_white = |letter: char| letter.is_ascii_whitespace() && separators.contains(letter);
    let mut fields = Vec::new();
    let mut rest = line.trim_matches(is_white);
    while !rest.is_empty() {
        let end = rest
            .find(|letter| separators.contains(letter))
            .filter(|_| fields.len() + 1 < count);
        let Some(end) = end else {
            fields.push(rest.to_owned());
            break;
        };
        let (field, behind) = rest.split_at(end);
        fields.push(field.to_owned());
        let behind = behind.trim_start_matches(is_white);
        let mut letters = behind.chars();
        let is_hard = letters
            .next()
            .is_some_and(|letter| separators.contains(letter) && !is_white(letter));
        rest = if is_hard {
            letters.as_str().trim_start_matches(is_white)
        } else {
            behind
        };
    }
    fields
}

/// The places of a pattern's first brace expression: its `{`, its commas and its `}`.
fn find_braces(pattern: &str) -> Option<(usize, Vec<usize>, usize)> {
    let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut best: Option<(usize, Vec<usize>, usize)> = None;
    let mut letters = pattern.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '{' => open.push((at, Vec::new())),
            ',' => {
                if let Some((_, commas)) = open.last_mut() {
                    commas.push(at);
                }
            }
            '}' => {
                let Some((begin, commas)) = open.pop() else { continue };
                let inner = pattern.get(begin + 1..at).unwrap_or_default();
                if commas.is_empty() && sequence(inner).is_none() {
                    continue;
                }
                // An outer expression comes before those in it.
                if best.as_ref().is_none_or(|(known, ..)| begin < *known) {
                    best = Some((begin, commas, at));
                }
            }
            _ => {}
        }
    }
    best
}

/// Adds the words of a pattern; whether there is room for them.
fn push_braces(pattern: &str, words: &mut Vec<String>) -> bool {
    let Some((begin, commas, end)) = find_braces(pattern) else {
        words.push(pattern.to_owned());
        return words.len() <= BRACE_WORDS;
    };
    let part = |from: usize, to: usize| pattern.get(from..to).unwrap_or_default();
    let (before, after) = (part(0, begin), part(end + 1, pattern.len()));
    let items: Vec<String> = if commas.is_empty() {
        sequence(part(begin + 1, end)).unwrap_or_default()
    } else {
        let starts = [begin].into_iter().chain(commas.iter().copied());
        let ends = commas.iter().copied().chain([end]);
        starts
            .zip(ends)
            .map(|(from, to)| part(from + 1, to).to_owned())
            .collect()
    };
    items
        .iter()
        .all(|item| push_braces(&format!("{before}{item}{after}"), words))
}

/// The items of `{1..3}`, `{01..10..2}` or `{a..e}`.
fn sequence(inner: &str) -> Option<Vec<String>> {
    let mut parts = inner.split("..");
    let (first, last) = (parts.next()?, parts.next()?);
    let step = parts.next().map_or(Some(1), |step| step.parse::<i64>().ok())?;
    let step = usize::try_from(step.unsigned_abs().max(1)).ok()?;
    if parts.next().is_some() {
        return None;
    }
    let (from, to, is_letters) = if let (Ok(from), Ok(to)) = (first.parse::<i64>(), last.parse::<i64>()) {
        (from, to, false)
    } else {
        let letter = |text: &str| match text.as_bytes() {
            [byte] if byte.is_ascii_alphabetic() => Some(i64::from(*byte)),
            _ => None,
        };
        (letter(first)?, letter(last)?, true)
    };
    let is_padded =
        |text: &str| text.trim_start_matches('-').starts_with('0') && text.trim_start_matches('-').len() > 1;
    let width = if is_padded(first) || is_padded(last) {
        first.len().max(last.len())
    } else {
        0
    };
    let numbers: Vec<i64> = if from <= to {
        (from..=to).step_by(step).take(BRACE_WORDS + 1).collect()
    } else {
        (to..=from).rev().step_by(step).take(BRACE_WORDS + 1).collect()
    };
    let word = |number: &i64| match u8::try_from(*number) {
        Ok(byte) if is_letters => char::from(byte).to_string(),
        _ => format!("{number:0width$}"),
    };
    Some(numbers.iter().map(word).collect())
}
