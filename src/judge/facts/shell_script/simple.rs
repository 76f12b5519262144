//! A command of words: what its words come to, where it reads and writes, and what becomes of it.

use super::commands::SPECIAL;
use super::grammar::TokenReader;
use super::programs::is_harmless;
use super::script_run::{Doubt, ScriptRun, Success, VariableValue};
use super::variables::assignment;
use crate::judge::facts::shell_words::{FileDirection, ShellKind, ShellToken, WordPart};

/// A word, and whether some of it was quoted.
type QuotedWord<'t> = (&'t [WordPart], bool);

impl ScriptRun<'_> {
    /// A command of words, or a function that is told.
    pub(super) fn simple(&mut self, reader: &mut TokenReader<'_>) -> Success {
        let mut words: Vec<QuotedWord<'_>> = Vec::new();
        let mut redirections = Vec::new();
        loop {
            match reader.peek() {
                Some(ShellToken::Word(parts, is_quoted)) => words.push((parts, *is_quoted)),
                Some(ShellToken::Redirection(direction, parts)) => redirections.push((*direction, parts.as_slice())),
                _ => break,
            }
            reader.at += 1;
        }
        if let ([(name, _)], Some(ShellToken::Open)) = (words.as_slice(), reader.peek()) {
            self.function(name, reader);
            return Some(true);
        }
        if words.is_empty() && redirections.is_empty() {
            // Something that no command begins with: no step would be made.
            reader.at += 1;
            return None;
        }
        if self.doubt == Doubt::Skipped {
            self.note_passed(&words);
            return None;
        }
        if let [(name, _), ([WordPart::Arithmetic(text)], _)] = words.as_slice()
            && matches!(name, [WordPart::Text(sign)] if sign == "((")
            && !self.ending.is_over
        {
            return self.run_arithmetic(text);
        }
        // Behind its end nothing demands or sets anything any more.
        let is_over = self.ending.is_over;
        for (parts, _) in words.iter().filter(|_| !is_over) {
            self.expand(parts);
        }
        let is_dash = self.state.kind == ShellKind::Dash;
        let is_assignment = |parts: &[WordPart]| assignment(parts).is_some_and(|(_, appends, _)| !(appends && is_dash));
        let assigned = words.iter().take_while(|(parts, _)| is_assignment(parts));
        let (assignments, words) = words.split_at_checked(assigned.count())?;
        let fields = self.all_fields(words);
        if self.ending.is_over {
            self.run_unreached(&fields);
            return None;
        }
        if let Some(success) = self.cannot_redirect(&redirections, &fields) {
            return success;
        }
        for (direction, parts) in &redirections {
            let path = self.text(parts).and_then(|text| self.path(&text));
            if let (Some(FileDirection::Write), Some(path)) = (direction, path) {
                self.change(path, true);
            }
        }
        let is_conf = |(_, parts): &(_, &[WordPart])| self.text(parts).is_some_and(|path| path.contains("ld.so.conf"));
        self.changes_paths |= redirections.iter().any(is_conf);
        let before = (!redirections.is_empty()).then(|| self.output.clone());
        let success = self.run_words(assignments, words, &fields);
        if let Some(output) = before {
            // Where it goes is not looked at: what says something may have said it there.
            let is_same = self.output == output;
            let is_said = fields
                .first()
                .and_then(Option::as_deref)
                .is_some_and(|name| name != "echo" && name != "printf");
            self.output = self.output.take().filter(|_| is_same || is_said);
        }
        success
    }

    fn all_fields(&self, words: &[QuotedWord<'_>]) -> Vec<Option<String>> {
        let fields = words.iter().flat_map(|(parts, quoted)| self.fields(parts, *quoted));
        fields.take(WORDS).collect()
    }

    fn run_words(
        &mut self,
        assignments: &[QuotedWord<'_>],
        words: &[QuotedWord<'_>],
        fields: &[Option<String>],
    ) -> Success {
        if fields.is_empty() {
            return self.assign_all(assignments);
        }
        let assigned: Vec<(String, VariableValue)> = assignments
            .iter()
            .filter_map(|(parts, _)| self.assigned(parts))
            .collect();
        if let [(first, _), ..] = words
            && is_element(first)
        {
            return Some(true);
        }
        let asks_status = |(parts, _): &QuotedWord<'_>| {
            parts
                .iter()
                .any(|part| matches!(part, WordPart::Variable { name, .. } if name == "?"))
        };
        let is_of_program = words.iter().any(asks_status);
        let success = self.run(&assigned, fields);
        if fields
            .first()
            .and_then(Option::as_deref)
            .is_some_and(|name| DECLARES.contains(&name))
        {
            for (parts, _) in words {
                if let Some((name, ..)) = assignment(parts) {
                    self.assign_elements(&name, parts);
                }
            }
        }
        self.is_of_program |= is_of_program;
        if success == Some(false) || self.asks {
            self.remember(fields);
        }
        success
    }

    /// `NAME=VALUE…` alone: its success is that of the last substitution of a command in it.
    fn assign_all(&mut self, assignments: &[QuotedWord<'_>]) -> Success {
        self.is_of_program = false;
        let mut success = Some(true);
        for (parts, _) in assignments {
            let said = parts.iter().rev().find_map(|part| match part {
                WordPart::Command(commands, _) => Some(self.substitute(commands)),
                _ => None,
            });
            if let Some(said) = said {
                success = said.success;
                (self.asks, self.is_of_program) = (said.asks, !said.asks);
                self.failed = format!("$({})", said.failed);
            }
            if let Some((name, value)) = self.assigned(parts) {
                if self.state.readonly.contains(&name) {
                    success = Some(false);
                    self.failed = format!("{name}=…");
                }
                self.assign_elements(&name, parts);
                self.assign(&name, value);
            }
        }
        success
    }

    /// The elements of `NAME=(…)`.
    fn assign_elements(&mut self, name: &str, parts: &[WordPart]) {
        let Some(WordPart::List(elements)) = parts.last() else {
            return;
        };
        let appends = matches!(parts.first(), Some(WordPart::Text(text)) if text.ends_with("+="));
        let words = elements.iter().filter_map(|token| match token {
            ShellToken::Word(parts, is_quoted) => Some(self.fields(parts, *is_quoted)),
            _ => None,
        });
        let more: Vec<Option<String>> = words.flatten().take(ELEMENTS + 1).collect();
        let mut all = self.state.arrays.get(name).cloned().unwrap_or_default();
        if !appends {
            all.clear();
        }
        all.extend(more);
        // What may have been done leaves a word that is not known.
        if self.doubt != Doubt::Sure || all.len() > ELEMENTS || self.state.is_too_large() {
            all = vec![None];
        }
        self.state.arrays.insert(name.to_owned(), all);
    }

    /// A file that cannot be read from or written to: the command is not run, and one of the shell's own that is special
    /// ends it (POSIX.1-2017, Shell Command Language, 2.8.1).
    fn cannot_redirect(
        &mut self,
        redirections: &[(Option<FileDirection>, &[WordPart])],
        fields: &[Option<String>],
    ) -> Option<Success> {
        let fails = redirections.iter().find_map(|(direction, parts)| {
            let path = self.path(&self.text(parts)?)?;
            let fails = match direction.as_ref()? {
                FileDirection::Read => self.file_test('e', &path) == Some(false),
                FileDirection::Write => self.cannot_write(&path),
            };
            fails.then_some(path)
        })?;
        self.failed = format!("a redirection to or from {fails}");
        let name = fields.first().and_then(Option::as_deref).unwrap_or_default();
        let is_special = SPECIAL.contains(&name) && !self.state.is_bash();
        if is_special {
            let why = format!("{} fails, which `{name}` has", self.failed);
            self.end(why);
        }
        self.is_of_program = false;
        Some(Some(false))
    }

    /// Remembers a program that is certainly not started, where nothing else is.
    fn note_passed(&mut self, words: &[QuotedWord<'_>]) {
        let words = words.iter().skip_while(|(parts, _)| assignment(parts).is_some());
        let words: Vec<QuotedWord<'_>> = words.copied().collect();
        let fields = self.all_fields(&words);
        let fields = match fields.split_first() {
            Some((Some(first), rest)) if first == "exec" => rest,
            _ => &fields,
        };
        let name = fields.first().and_then(Option::as_deref).unwrap_or_default();
        if !name.is_empty()
            && !self.functions.contains_key(name)
            && !super::commands::is_own(name)
            && !is_harmless(name)
        {
            self.ending.pass_over(fields);
        }
    }
}

/// Whether a word sets one element of an array: `NAME[INDEX]=VALUE`.
fn is_element(parts: &[WordPart]) -> bool {
    let is_begun = matches!(parts, [WordPart::Text(_), WordPart::Wildcard('['), ..]);
    is_begun
        && parts
            .iter()
            .any(|part| matches!(part, WordPart::Text(text) if text.contains("]=")))
}

/// The commands whose words may be arrays.
const DECLARES: [&str; 4] = ["declare", "local", "readonly", "typeset"];
/// The elements of one array, or of the arguments, that are followed.
pub(super) const ELEMENTS: usize = 256;
/// The words of one command that are looked at: what it runs stands in front.
const WORDS: usize = 1 << 16;
