//! The grammar of a script: lists, pipelines and what groups commands (POSIX.1-2017, Shell Command Language, 2.9).

use super::script_run::{Doubt, ScriptRun, Success};
use super::syntax::{SyntaxFault, end_of_line, pass_pipeline};
use crate::judge::facts::shell_words::{ShellKind, ShellToken, shell_tokens};

/// How deep functions, scripts and groups stand in each other.
const DEPTH: usize = 24;
/// The variables of one script.
const VARIABLES: usize = 1_000;

/// Tokens that are read one after the other.
pub(super) struct TokenReader<'t> {
    pub tokens: &'t [ShellToken],
    pub at: usize,
}

impl<'t> TokenReader<'t> {
    pub(super) fn peek(&self) -> Option<&'t ShellToken> {
        self.tokens.get(self.at)
    }

    /// The next token where it is a word that stands as it is, such as `if`.
    pub(super) fn keyword(&self) -> Option<&'t str> {
        self.peek()?.keyword()
    }

    /// Passes over ends of lines, and over `;`.
    pub(super) fn skip_lines(&mut self) {
        while matches!(self.peek(), Some(ShellToken::Line | ShellToken::End)) {
            self.at += 1;
        }
    }

    pub(super) fn take(&mut self, token: &ShellToken) -> bool {
        let is_it = self.peek() == Some(token);
        self.at += usize::from(is_it);
        is_it
    }
}

impl ScriptRun<'_> {
    /// Runs a script in this shell; whether it could be read.
    pub(super) fn script(&mut self, text: &str) -> bool {
        let Some(left) = self.texts.get().checked_sub(text.len()) else {
            self.forget_all();
            self.left = 0;
            return true;
        };
        self.texts.set(left);
        let Some(tokens) = shell_tokens(text, self.state.kind).filter(|_| self.depth < DEPTH) else {
            self.forget_all();
            return true;
        };
        self.depth += 1;
        let is_read = self.lines(&tokens);
        self.depth -= 1;
        is_read
    }

    /// Runs commands line by line, as a shell reads them; whether it can.
    pub(super) fn lines(&mut self, tokens: &[ShellToken]) -> bool {
        let mut at = 0;
        while at < tokens.len() && self.left > 0 {
            match end_of_line(tokens, at, self.state.kind) {
                Ok(end) => {
                    let line = tokens.get(at..end).unwrap_or_default();
                    self.block(&mut TokenReader { tokens: line, at: 0 }, &[]);
                    at = end;
                }
                Err(SyntaxFault::TooDeep) => {
                    self.forget_all();
                    return true;
                }
                Err(SyntaxFault::At(place)) => {
                    self.refuse(tokens.get(place));
                    return self.ending.is_over;
                }
            }
        }
        true
    }

    /// Runs commands up to one of the words, which is left to the caller.
    pub(super) fn block(&mut self, reader: &mut TokenReader<'_>, ends: &[&str]) -> Success {
        let mut success = Some(true);
        while let Some(token) = reader.peek() {
            if matches!(token, ShellToken::End | ShellToken::Line | ShellToken::Background) {
                reader.at += 1;
                continue;
            }
            if matches!(token, ShellToken::Close | ShellToken::CaseEnd)
                || reader.keyword().is_some_and(|word| ends.contains(&word))
            {
                break;
            }
            let outer = self.doubt;
            self.doubt = outer.max(self.returned).max(self.jumped);
            let said = self.list(reader);
            if self.doubt != Doubt::Skipped {
                success = said;
                self.status = said;
            }
            self.doubt = outer;
            if self.left == 0 || self.state.variables.len() > VARIABLES {
                self.forget_all();
                break;
            }
        }
        success
    }

    /// Commands that are joined by `&&`, `||` and `|`.
    pub(super) fn list(&mut self, reader: &mut TokenReader<'_>) -> Success {
        let outer = (self.doubt, self.is_tested);
        self.is_tested |= self.is_joined(reader);
        let mut success = self.pipeline(reader);
        loop {
            let known = match reader.peek() {
                Some(ShellToken::And) => success,
                Some(ShellToken::Or) => success.map(|success| !success),
                _ => break,
            };
            let is_or = reader.peek() == Some(&ShellToken::Or);
            reader.at += 1;
            reader.skip_lines();
            let runs = match known {
                Some(true) => Doubt::Sure,
                Some(false) => Doubt::Skipped,
                None => self.open_doubt(),
            };
            self.doubt = outer.0.max(runs);
            self.is_tested = outer.1 || self.is_joined(reader);
            let (begun, fallback) = (self.begun, self.is_fallback);
            self.is_fallback |= is_or;
            let (is_of_program, next) = (self.is_of_program, self.pipeline(reader));
            self.is_fallback = fallback;
            if runs == Doubt::Open || known.is_none() && is_or {
                self.begun = begun;
            }
            success = match known {
                Some(true) => next,
                Some(false) => success,
                // Either is true, or what stands behind `||`.
                None if is_or && next == Some(true) => next,
                None => {
                    self.is_of_program &= is_of_program;
                    None
                }
            };
            self.doubt = outer.0;
        }
        self.is_tested = outer.1;
        success
    }

    /// What is not known to run by the success of what ran before.
    pub(super) fn open_doubt(&self) -> Doubt {
        if self.is_of_program {
            Doubt::Program
        } else {
            Doubt::Open
        }
    }

    /// Whether `&&` or `||` stands behind the next pipeline, so that somebody asks for its success.
    fn is_joined(&mut self, reader: &mut TokenReader<'_>) -> bool {
        if !self.state.flags.contains(&'e') || self.is_tested || self.doubt == Doubt::Skipped {
            return false;
        }
        let start = reader.at;
        pass_pipeline(reader, self.state.kind);
        let is_joined = matches!(reader.peek(), Some(ShellToken::And | ShellToken::Or));
        reader.at = start;
        is_joined
    }

    pub(super) fn pipeline(&mut self, reader: &mut TokenReader<'_>) -> Success {
        if self.state.is_bash() && reader.keyword() == Some("time") {
            reader.at += 1;
            reader.at += usize::from(reader.keyword() == Some("-p"));
        }
        let negates = reader.keyword() == Some("!");
        reader.at += usize::from(negates);
        let outer_tested = self.is_tested;
        self.is_tested |= negates;
        let before = (self.state.clone(), self.last.clone(), self.ending.clone());
        let mut success = self.command(reader);
        let mut is_pipe = false;
        while reader.take(&ShellToken::Pipe) {
            reader.skip_lines();
            is_pipe = true;
            let is_asked = self.state.flags.contains(&'p');
            let (first, asks) = (success.filter(|success| !success && is_asked), self.asks && is_asked);
            success = self.command(reader);
            self.asks |= asks;
            self.is_of_program |= success.is_none() && !self.asks;
            success = first.or(success);
        }
        if is_pipe || reader.peek() == Some(&ShellToken::Background) {
            // Each command of a pipe, and what runs beside the script, has a shell of its own.
            self.is_beside |= reader.peek() == Some(&ShellToken::Background) && self.last != before.1;
            let inner = std::mem::replace(&mut self.last, before.1);
            (self.state, self.ending) = (before.0, before.2);
            self.last = self.last.take().or(inner);
            self.output = None;
        }
        if !negates && !self.ending.is_over {
            self.end_by(success);
        }
        self.is_tested = outer_tested;
        if negates {
            success.map(|success| !success)
        } else {
            success
        }
    }

    pub(super) fn command(&mut self, reader: &mut TokenReader<'_>) -> Success {
        // What is only looked through is as long as the script at most.
        self.left = self.left.saturating_sub(usize::from(self.doubt != Doubt::Skipped));
        if self.depth >= DEPTH || self.state.is_too_large() {
            self.forget_all();
            self.left = 0;
            return None;
        }
        self.depth += 1;
        self.asks = false;
        let success = self.command_within(reader);
        self.depth -= 1;
        success
    }

    pub(super) fn command_within(&mut self, reader: &mut TokenReader<'_>) -> Success {
        let start = reader.at;
        let success = self.compound(reader);
        if reader.at == start {
            return self.simple(reader);
        }
        // Where the output of all goes.
        while matches!(reader.peek(), Some(ShellToken::Redirection(..))) {
            self.output = None;
            reader.at += 1;
        }
        success
    }

    /// A command that holds others; nothing is read where it is none.
    fn compound(&mut self, reader: &mut TokenReader<'_>) -> Success {
        let is_dash = self.state.kind == ShellKind::Dash;
        match reader.keyword() {
            Some("if") => self.conditional(reader),
            Some("for") => self.for_loop(reader),
            Some("select") if !is_dash => self.for_loop(reader),
            Some("while" | "until") => self.while_loop(reader),
            Some("case") => self.case(reader),
            Some("[[") if !is_dash => {
                self.is_of_program = false;
                let holds = self.bash_test(reader);
                self.asks = holds.is_none();
                "[[ … ]]".clone_into(&mut self.failed);
                holds
            }
            Some("{") => {
                reader.at += 1;
                let success = self.block(reader, &["}"]);
                reader.at += 1;
                success
            }
            Some("function") if !is_dash => {
                reader.at += 1;
                let name = match reader.peek() {
                    Some(ShellToken::Word(parts, _)) => parts.clone(),
                    _ => Vec::new(),
                };
                reader.at += 1;
                self.function(&name, reader);
                Some(true)
            }
            _ if reader.take(&ShellToken::Open) => {
                let outer = (self.state.clone(), self.ending.clone());
                let success = self.block(reader, &[]);
                reader.take(&ShellToken::Close);
                let inner = std::mem::replace(&mut self.ending, outer.1);
                self.state = outer.0;
                let said = if inner.is_over && !self.ending.is_over {
                    inner.success
                } else {
                    success
                };
                if said == Some(false) {
                    "( … )".clone_into(&mut self.failed);
                }
                said
            }
            _ => None,
        }
    }
}
