//! Words: quoting and expansion (POSIX shell, 2.2 and 2.6). The result is marked text ([`crate::pattern`]).

use shuck_ast::{
    CommandSubstitutionSyntax, Heredoc, HeredocBodyPart, LiteralText, Pattern, PatternPart, Span, StmtSeq, Word,
    WordPart, WordPartNode,
};

use crate::fields::split_text;
use crate::pattern::{has_group, quote, remove_backslashes, unquote};
use crate::reader::Reader;
use crate::state::{EXT_GLOB, NO_CASE_MATCH, State};
use crate::statements::common_status;
use crate::value::{EMPTY, is_open};

/// The quoting around the parts of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    /// None: expansions are split into fields.
    Split,
    /// None, but expansions are not split.
    Text,
    /// As `Text`, and `~` is also expanded behind a colon.
    Assigned,
    /// Double quotes.
    Quoted,
    /// The operand of `"${NAME:-…}"`.
    QuotedOperand,
    Heredoc,
}

impl Context {
    pub(crate) fn is_quoted(self) -> bool {
        matches!(self, Self::Quoted | Self::QuotedOperand | Self::Heredoc)
    }

    /// Marks source text inside quotes: a backslash quotes some characters, and joins lines.
    fn mark_source(self, source: &str) -> String {
        let special = match self {
            Self::Quoted => "$`\\\"",
            Self::QuotedOperand => "$`\\\"}",
            _ => "$`\\",
        };
        let mut text = String::with_capacity(source.len());
        let mut letters = source.chars().peekable();
        while let Some(letter) = letters.next() {
            match letters.peek() {
                Some('\n') if letter == '\\' => drop(letters.next()),
                Some(next) if letter == '\\' && special.contains(*next) => text.extend(letters.next()),
                _ => text.push(letter),
            }
        }
        quote(&text)
    }
}

/// Whether the parser inserted this word for a missing command name (assignments only).
pub(crate) fn is_absent(word: &Word) -> bool {
    matches!(&*word.parts, [WordPartNode { kind: WordPart::Literal(LiteralText::Owned(text)), .. }] if text.is_empty())
}

impl Reader<'_> {
    /// The fields of several words.
    pub(crate) fn all_fields(&mut self, words: &[Word], state: &mut State) -> Vec<String> {
        words.iter().flat_map(|word| self.fields(word, state)).collect()
    }

    /// Expands a word into fields, including braces and file names.
    pub(crate) fn fields(&mut self, word: &Word, state: &mut State) -> Vec<String> {
        let marked = self.expand(&word.parts, Context::Split, state);
        self.split_fields(&marked, state)
    }

    /// Expands a word without splitting.
    pub(crate) fn word_text(&mut self, word: &Word, state: &mut State) -> String {
        unquote(&self.word_pattern(word, state))
    }

    /// Expands a word into a pattern. Its quoted parts match literally.
    pub(crate) fn word_pattern(&mut self, word: &Word, state: &mut State) -> String {
        self.expand(&word.parts, Context::Text, state)
    }

    /// Marks the result of an expansion.
    pub(crate) fn mark(&mut self, text: &str, context: Context, state: &State) -> String {
        match context {
            Context::Split => match state.separators() {
                Some(separators) => split_text(text, &separators),
                None => self.hole("a word split by an unknown IFS"),
            },
            Context::Text | Context::Assigned => text.to_owned(),
            _ if text.is_empty() => EMPTY.to_string(),
            _ => quote(text),
        }
    }

    /// Expands the parts of a word in a context.
    pub(crate) fn expand(&mut self, parts: &[WordPartNode], context: Context, state: &mut State) -> String {
        let mut marked = String::new();
        for (number, part) in parts.iter().enumerate() {
            marked += &match &part.kind {
                WordPart::Literal(literal) => {
                    let source = literal.syntax_str(&state.script.text, part.span).to_owned();
                    let place = [number == 0, number + 1 == parts.len()];
                    if context.is_quoted() {
                        context.mark_source(&source)
                    } else {
                        self.expand_homes(&source, place, context, state)
                    }
                }
                WordPart::SingleQuoted { value, dollar } => {
                    let written = value.slice(&state.script.text);
                    // Inside double quotes, single quotes are literal and their content is expanded.
                    let is_expanded = context.is_quoted() && written.contains(['$', '`', '\\']);
                    let text = match dollar {
                        false if is_expanded => self.hole("a text in quotes within quotes"),
                        false if context.is_quoted() => format!("'{written}'"),
                        true if !state.shell.is_bash() => self.hole("a text in $''"),
                        _ => written.to_owned(),
                    };
                    self.mark(&text, Context::Quoted, state)
                }
                WordPart::DoubleQuoted { parts, dollar } => {
                    let sign = if *dollar && !state.shell.is_bash() { "$" } else { "" };
                    let inner = self.expand(parts, Context::Quoted, state);
                    // `"$@"` without arguments makes no field.
                    let is_literal = parts.iter().all(|part| matches!(part.kind, WordPart::Literal(_)));
                    let empty = Some(EMPTY).filter(|_| is_literal && inner.is_empty());
                    sign.chars().chain(empty).chain(inner.chars()).collect()
                }
                WordPart::Variable(name) => self.expand_variable(name, part.span, context, state),
                WordPart::Parameter(parameter) => self.expand_parameter(parameter, part.span, context, state),
                other => {
                    let text = self.substituted_text(other, part.span, state);
                    self.mark(&text, context, state)
                }
            };
        }
        marked
    }

    /// The result of a substitution or of an arithmetic expansion.
    fn substituted_text(&mut self, part: &WordPart, span: Span, state: &mut State) -> String {
        match part {
            WordPart::CommandSubstitution { body, syntax } => self.substitute(body, *syntax, span, state),
            WordPart::ArithmeticExpansion { expression_ast, .. } => {
                let expression = expression_ast.as_deref();
                let number = expression.and_then(|expression| self.evaluate_number(expression, state));
                number.map_or_else(|| self.hole("a number that is computed"), |number| number.to_string())
            }
            WordPart::ProcessSubstitution { body, .. } => {
                self.run_list(body, vec![state.copied()]);
                self.hole("a process substitution")
            }
            _ => self.hole("a word of another shell"),
        }
    }

    /// Marks an unquoted literal and expands its `~` and `~NAME`.
    fn expand_homes(
        &mut self,
        source: &str,
        [is_first, is_last]: [bool; 2],
        context: Context,
        state: &State,
    ) -> String {
        let mut marked = String::new();
        let colon = if context == Context::Assigned { ':' } else { EMPTY };
        let mut may_be_home = is_first;
        for part in source.split_inclusive(colon) {
            let after = part.strip_prefix('~').filter(|_| may_be_home);
            may_be_home = true;
            let split = after.map(|after| after.split_at(after.find(['/', ':']).unwrap_or(after.len())));
            // A name may not continue in an expansion.
            let Some((name, behind)) = split.filter(|(_, behind)| is_last || !behind.is_empty()) else {
                marked += &remove_backslashes(part);
                continue;
            };
            let home = self.home_of(name, state);
            // busybox drops the text behind an unknown user.
            marked += &quote(&home);
            marked += &remove_backslashes(if is_open(&home) { "" } else { behind });
        }
        marked
    }

    /// The value of an assignment.
    pub(crate) fn assigned_text(&mut self, word: &Word, state: &mut State) -> String {
        // HACK: shuck-parser 0.2.8 assigns wrong spans behind `\"` in the value of an assignment.
        if word.span.slice(&state.script.text).contains("\\\"") {
            return self.hole("a value with a quoted quote");
        }
        let text = unquote(&self.expand(&word.parts, Context::Assigned, state));
        self.bounded(text)
    }

    /// Expands a pattern of `case` or of a parameter expansion.
    pub(crate) fn case_pattern(&mut self, pattern: &Pattern, state: &mut State) -> String {
        let mut text = String::new();
        for part in &pattern.parts {
            text += &match &part.kind {
                PatternPart::Literal(literal) => remove_backslashes(literal.syntax_str(&state.script.text, part.span)),
                PatternPart::AnyString => "*".to_owned(),
                PatternPart::AnyChar => "?".to_owned(),
                PatternPart::CharClass(class) => remove_backslashes(class.slice(&state.script.text)),
                PatternPart::Word(word) => self.word_pattern(word, state),
                // HACK: shuck-parser 0.2.8 does not see the quotes inside a group.
                PatternPart::Group { .. } if part.span.slice(&state.script.text).contains(['"', '\'', '\\']) => {
                    self.hole("an extended pattern with quotes")
                }
                PatternPart::Group { kind, patterns } => {
                    let inner: Vec<String> = patterns.iter().map(|inner| self.case_pattern(inner, state)).collect();
                    [kind.prefix().to_string(), inner.join("|")].join("(") + ")"
                }
            };
        }
        text
    }

    /// Whether a text matches a pattern; `None` if unknown.
    pub(crate) fn match_text(&mut self, text: &str, pattern: &str, state: &State) -> Option<bool> {
        if pattern == "*" {
            return Some(true);
        }
        let is_open = is_open(text) || is_open(pattern) || has_group(pattern) && !state.has(EXT_GLOB);
        let is_known = !is_open && !state.has(NO_CASE_MATCH);
        is_known.then(|| self.patterns.matches(pattern, text)).flatten()
    }

    /// The body of a heredoc after expansion.
    pub(crate) fn heredoc_text(&mut self, heredoc: &Heredoc, state: &mut State) -> String {
        let mut marked = String::new();
        for part in &heredoc.body.parts {
            marked += &match &part.kind {
                HeredocBodyPart::Literal(literal) => {
                    let source = literal.syntax_str(&state.script.text, part.span);
                    let is_raw = !heredoc.delimiter.expands_body;
                    if is_raw {
                        quote(source)
                    } else {
                        Context::Heredoc.mark_source(source)
                    }
                }
                HeredocBodyPart::Variable(name) => self.expand_variable(name, part.span, Context::Heredoc, state),
                _ => self.hole("an expansion in a text for the standard input"),
            };
        }
        let text = unquote(&marked);
        if heredoc.delimiter.strip_tabs {
            let lines: Vec<&str> = text.split('\n').map(|line| line.trim_start_matches('\t')).collect();
            return lines.join("\n");
        }
        text
    }

    /// The output of a command substitution, without trailing newlines.
    fn substitute(
        &mut self,
        list: &StmtSeq,
        syntax: CommandSubstitutionSyntax,
        span: Span,
        state: &mut State,
    ) -> String {
        // The parser reads backticks without removing their backslashes first, so its tree would be wrong.
        let is_raw = syntax == CommandSubstitutionSyntax::Backtick && span.slice(&state.script.text).contains('\\');
        if is_raw {
            self.assume_keeps("unparsed");
            return self.hole("the output of a substitution");
        }
        let mut inner = state.copied();
        (inner.output, inner.is_substitution) = (Some(String::new()), true);
        let ended = self.run_list(list, vec![inner]);
        state.status = common_status(&ended);
        let output = self.common_output(&ended, "the output of a substitution");
        output.trim_end_matches('\n').to_owned()
    }
}
