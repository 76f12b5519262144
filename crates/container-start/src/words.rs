//! Words: quoting and expansion (POSIX shell, 2.2 and 2.6).

use shuck_ast::{
    ArithmeticExprNode, CommandSubstitutionSyntax, Heredoc, HeredocBodyPart, LiteralText, Pattern, PatternPart, Span,
    StmtSeq, Word, WordPart, WordPartNode,
};

use crate::parameters::Expansion;
use crate::pattern::escape_pattern;
use crate::reader::Reader;
use crate::script::Shell;
use crate::state::{ShellOption, State};
use crate::value::is_open;

/// A part of a word after its expansion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Quoted text: neither split nor matched against files.
    Quoted(String),
    /// Unquoted text of the script: not split, but its wildcards match files.
    Literal(String),
    /// The result of an unquoted expansion: split, and its wildcards match files.
    Expanded(String),
    /// A field boundary between the parameters of `"$@"`.
    Break,
    /// `"$@"` without parameters: produces no field.
    Nothing,
}

/// The quoting around the parts of a word.
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
    /// Wraps the result of an expansion in this context.
    pub(crate) fn piece(self, text: String) -> Piece {
        if self == Self::Plain {
            Piece::Expanded(text)
        } else {
            Piece::Quoted(text)
        }
    }

    /// The characters that a backslash escapes here.
    fn special(self) -> &'static str {
        match self {
            Self::Plain | Self::Heredoc => "$`\\",
            Self::Quoted => "$`\\\"",
            Self::QuotedOperand => "$`\\\"}",
        }
    }
}

/// Removes backslashes before `special` characters, and line continuations.
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

/// Joins pieces into one text, with `quote` applied to quoted text.
fn joined(pieces: &[Piece], quote: fn(&str) -> String) -> String {
    let texts = pieces.iter().map(|piece| match piece {
        Piece::Quoted(text) => quote(text),
        Piece::Literal(text) | Piece::Expanded(text) => text.clone(),
        Piece::Break => " ".to_owned(),
        Piece::Nothing => String::new(),
    });
    texts.collect()
}

/// Joins pieces into one text.
pub(crate) fn joined_text(pieces: &[Piece]) -> String {
    joined(pieces, str::to_owned)
}

/// Whether the parser inserted this word for a missing command name (assignments only).
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

    /// Expands a word into fields, including braces and file names.
    pub(crate) fn fields(&mut self, word: &Word, state: &mut State) -> Vec<String> {
        let pieces = self.word_pieces(word, state);
        self.piece_fields(&pieces, state)
    }

    /// Expands a word without splitting.
    pub(crate) fn word_text(&mut self, word: &Word, state: &mut State) -> String {
        joined_text(&self.word_pieces(word, state))
    }

    /// Expands a word into a pattern. Its quoted parts match literally.
    pub(crate) fn word_pattern(&mut self, word: &Word, state: &mut State) -> String {
        joined(&self.word_pieces(word, state), escape_pattern)
    }

    fn word_pieces(&mut self, word: &Word, state: &mut State) -> Vec<Piece> {
        self.pieces(&word.parts, state, Context::Plain)
    }

    /// Expands the parts of a word in a context.
    pub(crate) fn pieces(&mut self, parts: &[WordPartNode], state: &mut State, context: Context) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let is_quoted = context != Context::Plain;
        for (number, part) in parts.iter().enumerate() {
            let place = state.place(part.span);
            match &part.kind {
                WordPart::Literal(literal) => {
                    let source = literal.syntax_str(&state.script.text, part.span);
                    if is_quoted {
                        pieces.push(Piece::Quoted(unescape_some(source, context.special())));
                    } else {
                        let source = source.to_owned();
                        self.literal_pieces(&source, number == 0, parts.len() == 1, state, &mut pieces);
                    }
                }
                WordPart::SingleQuoted { value, dollar } => {
                    let text = value.slice(&state.script.text);
                    pieces.push(Piece::Quoted(match (dollar, state.shell) {
                        // Inside double quotes, single quotes are literal and their content is expanded.
                        (false, _) if is_quoted && text.contains(['$', '`', '\\']) => {
                            self.hole(&place, "a text in quotes within quotes")
                        }
                        (false, _) if is_quoted => format!("'{text}'"),
                        (true, Shell::Dash | Shell::Busybox) => self.hole(&place, "a text in $''"),
                        _ => text.to_owned(),
                    }));
                }
                WordPart::DoubleQuoted { parts, dollar } => {
                    let sign = if *dollar && !state.shell.is_bash() { "$" } else { "" };
                    let inner = self.pieces(parts, state, Context::Quoted);
                    if inner.is_empty() || !sign.is_empty() {
                        pieces.push(Piece::Quoted(sign.to_owned()));
                    }
                    pieces.extend(inner);
                }
                WordPart::CommandSubstitution { body, syntax } => {
                    let output = self.substitute(body, *syntax, part.span, state);
                    pieces.push(context.piece(output));
                }
                WordPart::ArithmeticExpansion { expression_ast, .. } => {
                    let number = self.computed_text(expression_ast.as_deref(), part.span, state);
                    pieces.push(context.piece(number));
                }
                WordPart::ProcessSubstitution { body, .. } => {
                    let ended = self.run_list(body, vec![state.copied()]);
                    state.merge_touched(&ended);
                    pieces.push(context.piece(self.hole(&place, "a process substitution")));
                }
                WordPart::Variable(name) => {
                    pieces.extend(self.expand_parameter(&Expansion::of_name(name), part.span, state, context));
                }
                WordPart::Parameter(parameter) => {
                    pieces.extend(self.expand_parameter(
                        &Expansion::of_parameter(parameter),
                        part.span,
                        state,
                        context,
                    ));
                }
                _ => pieces.push(context.piece(self.hole(&place, "a word of another shell"))),
            }
        }
        pieces
    }

    /// Expands an unquoted literal: backslash escapes and a leading tilde.
    fn literal_pieces(&mut self, text: &str, is_first: bool, is_whole: bool, state: &State, pieces: &mut Vec<Piece>) {
        let mut rest = text;
        if is_first && let Some((home, behind)) = self.split_home(text, is_whole, state) {
            pieces.push(Piece::Quoted(home));
            rest = behind;
        }
        let mut letters = rest.chars();
        let mut plain = String::new();
        while let Some(letter) = letters.next() {
            if letter != '\\' {
                plain.push(letter);
                continue;
            }
            let quoted = letters.next().unwrap_or('\\');
            if quoted != '\n' {
                pieces.push(Piece::Literal(std::mem::take(&mut plain)));
                pieces.push(Piece::Quoted(quoted.to_string()));
            }
        }
        if !plain.is_empty() || is_whole && pieces.is_empty() {
            pieces.push(Piece::Literal(plain));
        }
    }

    /// The home directory for a leading `~` or `~NAME`, and the rest of the text.
    fn split_home<'t>(&mut self, text: &'t str, is_whole: bool, state: &State) -> Option<(String, &'t str)> {
        let after = text.strip_prefix('~')?;
        let end = after.find(['/', ':']).unwrap_or(after.len());
        let (name, behind) = after
            .split_at_checked(end)
            .filter(|(_, behind)| is_whole || !behind.is_empty())?;
        let home = self.home_of(name, state);
        // busybox drops the text behind an unknown user.
        let behind = if is_open(&home) { "" } else { behind };
        Some((home, behind))
    }

    /// The value of an assignment: no splitting, and `~` is also expanded behind a colon.
    pub(crate) fn assigned_text(&mut self, word: &Word, state: &mut State) -> String {
        // HACK: shuck-parser 0.2.8 assigns wrong spans behind `\"` in the value of an assignment.
        if word.span.slice(&state.script.text).contains("\\\"") {
            return self.hole(&state.place(word.span), "a value with a quoted quote");
        }
        let mut text = String::new();
        for piece in self.word_pieces(word, state) {
            let mut rest = joined_text(std::slice::from_ref(&piece));
            while let Piece::Literal(_) = piece
                && let Some((before, behind)) = rest.split_once(":~")
            {
                let tilde = format!("~{behind}");
                let (home, behind) = self.split_home(&tilde, true, state).unwrap_or_default();
                text = format!("{text}{before}:{home}");
                behind.clone_into(&mut rest);
            }
            text += &rest;
        }
        self.bounded(state, text)
    }

    /// Expands a pattern of `case` or of a parameter expansion.
    pub(crate) fn case_pattern(&mut self, pattern: &Pattern, state: &mut State) -> String {
        let mut text = String::new();
        for part in &pattern.parts {
            match &part.kind {
                PatternPart::Literal(literal) => text += literal.syntax_str(&state.script.text, part.span),
                PatternPart::AnyString => text.push('*'),
                PatternPart::AnyChar => text.push('?'),
                PatternPart::CharClass(class) => text += class.slice(&state.script.text),
                PatternPart::Word(word) => text += &self.word_pattern(word, state),
                PatternPart::Group { .. } => text += &self.hole(&state.place(part.span), "an extended pattern"),
            }
        }
        text
    }

    /// Whether a text matches a pattern; `None` if unknown.
    pub(crate) fn match_text(&mut self, text: &str, pattern: &str, state: &State) -> Option<bool> {
        if pattern == "*" {
            return Some(true);
        }
        let is_known = !is_open(text) && !is_open(pattern) && !state.has(ShellOption::NoCaseMatch);
        is_known.then(|| self.patterns.matches(pattern, text)).flatten()
    }

    /// The body of a heredoc after expansion.
    pub(crate) fn heredoc_text(&mut self, heredoc: &Heredoc, state: &mut State) -> String {
        let mut text = String::new();
        for part in &heredoc.body.parts {
            let place = state.place(part.span);
            text += &match &part.kind {
                HeredocBodyPart::Literal(literal) => {
                    let source = literal.syntax_str(&state.script.text, part.span);
                    let is_raw = !heredoc.delimiter.expands_body;
                    if is_raw {
                        source.to_owned()
                    } else {
                        unescape_some(source, Context::Heredoc.special())
                    }
                }
                HeredocBodyPart::Variable(name) => {
                    joined_text(&self.expand_parameter(&Expansion::of_name(name), part.span, state, Context::Heredoc))
                }
                _ => self.hole(&place, "an expansion in a text for the standard input"),
            };
        }
        if heredoc.delimiter.strip_tabs {
            let lines: Vec<&str> = text.split('\n').map(|line| line.trim_start_matches('\t')).collect();
            return lines.join("\n");
        }
        text
    }

    /// The result of an arithmetic expansion, or a hole.
    fn computed_text(&mut self, expression: Option<&ArithmeticExprNode>, span: Span, state: &mut State) -> String {
        let number = expression.and_then(|expression| self.evaluate_number(expression, state));
        let text = number.map(|number| number.to_string());
        text.unwrap_or_else(|| self.hole(&state.place(span), "a number that is computed"))
    }

    /// The output of a command substitution, without trailing newlines.
    fn substitute(
        &mut self,
        list: &StmtSeq,
        syntax: CommandSubstitutionSyntax,
        span: Span,
        state: &mut State,
    ) -> String {
        let place = state.place(span);
        // The parser reads backticks without removing their backslashes first, so its tree would be wrong.
        let is_raw = syntax == CommandSubstitutionSyntax::Backtick && span.slice(&state.script.text).contains('\\');
        if is_raw {
            self.assume_keeps("unparsed", &place);
            return self.hole(&place, "the output of a substitution");
        }
        let inner = State {
            output: Some(String::new()),
            is_substitution: true,
            ..state.copied()
        };
        let ended = self.run_list(list, vec![inner]);
        state.merge_touched(&ended);
        state.status = if let [only] = &*ended { only.status } else { None };
        let outputs = ended
            .iter()
            .map(|state| state.output.as_deref().unwrap_or_default().trim_end_matches('\n'));
        self.only_text(outputs, &place, "the output of a substitution")
    }
}
