//! The grammar of a script: lists, pipelines and what groups commands (POSIX.1-2017, Shell Command Language, 2.9).

use super::script_run::{Doubt, ScriptRun, Success, VariableValue};
use super::variables::assignment;
use crate::judge::facts::shell_words::{ShellToken, WordPart, shell_tokens};

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
        match self.peek()? {
            ShellToken::Word(parts, false) => match parts.as_slice() {
                [WordPart::Text(text)] => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn take(&mut self, token: &ShellToken) -> bool {
        let is_it = self.peek() == Some(token);
        self.at += usize::from(is_it);
        is_it
    }
}

impl ScriptRun<'_> {
    /// Runs a script in this shell.
    pub(super) fn script(&mut self, text: &str) {
        match shell_tokens(text).filter(|_| self.depth < DEPTH) {
            Some(tokens) => {
                self.depth += 1;
                self.block(&mut TokenReader { tokens: &tokens, at: 0 }, &[]);
                self.depth -= 1;
            }
            None => self.forget_all(),
        }
    }

    /// Runs commands up to one of the words, which is left to the caller.
    pub(super) fn block(&mut self, reader: &mut TokenReader<'_>, ends: &[&str]) -> Success {
        let mut success = Some(true);
        while let Some(token) = reader.peek() {
            if matches!(token, ShellToken::End | ShellToken::Background) {
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
            success = self.list(reader);
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
            reader.at += 1;
            while reader.take(&ShellToken::End) {}
            let runs = match known {
                Some(true) => Doubt::Sure,
                Some(false) => Doubt::Skipped,
                None => self.open_doubt(),
            };
            self.doubt = outer.0.max(runs);
            self.is_tested = outer.1 || self.is_joined(reader);
            let next = self.pipeline(reader);
            success = match known {
                Some(true) => next,
                Some(false) => success,
                None => None,
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
        self.skipped(reader, |run, reader| {
            run.pipeline(reader);
        });
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
            while reader.take(&ShellToken::End) {}
            is_pipe = true;
            success = self.command(reader);
            self.is_of_program |= success.is_none();
        }
        if is_pipe || reader.peek() == Some(&ShellToken::Background) {
            // Each command of a pipe, and what runs beside the script, has a shell of its own.
            (self.state, self.last, self.ending) = before;
        }
        if success == Some(false) && !negates {
            self.fail();
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
        if self.depth >= DEPTH {
            self.forget_all();
            self.left = 0;
            return None;
        }
        self.depth += 1;
        let success = self.command_within(reader);
        self.depth -= 1;
        success
    }

    pub(super) fn command_within(&mut self, reader: &mut TokenReader<'_>) -> Success {
        let word = reader.keyword().map(str::to_owned);
        match word.as_deref() {
            Some("if") => self.conditional(reader),
            Some("for" | "select") => self.for_loop(reader),
            Some("while" | "until") => self.while_loop(reader),
            Some("case") => self.case(reader),
            Some("[[") => {
                self.is_of_program = false;
                self.bash_test(reader)
            }
            Some("{") => {
                reader.at += 1;
                let success = self.block(reader, &["}"]);
                reader.at += 1;
                success
            }
            Some("function") => {
                reader.at += 1;
                self.simple(reader)
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
            _ => self.simple(reader),
        }
    }

    /// A command of words, or a function that is told.
    pub(super) fn simple(&mut self, reader: &mut TokenReader<'_>) -> Success {
        let mut words: Vec<(Vec<WordPart>, bool)> = Vec::new();
        while let Some(ShellToken::Word(parts, is_quoted)) = reader.peek() {
            words.push((parts.clone(), *is_quoted));
            reader.at += 1;
        }
        if let ([(name, _)], Some(ShellToken::Open)) = (words.as_slice(), reader.peek()) {
            self.function(&name.clone(), reader);
            return Some(true);
        }
        if words.is_empty() {
            // Something that no command begins with: no step would be made.
            reader.at += 1;
            return None;
        }
        if self.doubt == Doubt::Skipped {
            return None;
        }
        for (parts, _) in &words {
            self.expand(parts);
        }
        let assigned = words
            .iter()
            .take_while(|(parts, _)| assignment(parts).is_some())
            .count();
        let (assignments, words) = words.split_at_checked(assigned)?;
        let fields: Vec<Option<String>> = words
            .iter()
            .flat_map(|(parts, quoted)| self.fields(parts, *quoted))
            .collect();
        let assignments: Vec<(String, VariableValue)> = assignments
            .iter()
            .filter_map(|(parts, _)| self.assigned(parts))
            .collect();
        if fields.is_empty() && !self.ending.is_over {
            self.is_of_program = false;
            let is_known = assignments.iter().all(|(_, value)| *value != VariableValue::Unknown);
            for (name, value) in assignments {
                self.assign(&name, value);
            }
            return is_known.then_some(true);
        }
        if self.ending.is_over {
            self.run_unreached(&fields);
            return None;
        }
        let asks_status = |parts: &Vec<WordPart>| {
            parts
                .iter()
                .any(|part| matches!(part, WordPart::Variable { name, .. } if name == "?"))
        };
        let is_of_program = words.iter().any(|(parts, _)| asks_status(parts));
        let success = self.run(&assignments, &fields);
        self.is_of_program |= is_of_program;
        if success == Some(false) {
            self.remember(&fields);
        }
        success
    }
}
