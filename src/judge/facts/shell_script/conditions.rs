//! What is tested: `[`, `[[`, and whether there is a program.

use super::commands::is_builtin;
use super::grammar::TokenReader;
use super::script_run::{ScriptRun, ShellKind, Success};
use super::variables::UNKNOWN;
use crate::judge::facts::shell_words::{ShellToken, WordPart};
use image_linkage::loader::matches_text;
use regex_automata::meta::Regex;

/// A word, and whether some of it was quoted.
type QuotedWord<'t> = (&'t [WordPart], bool);

/// The longest pattern that is compared.
const PATTERN: usize = 256;
/// The bytes of a regular expression once it is compiled.
const EXPRESSION: usize = 64 << 10;

impl ScriptRun<'_> {
    /// `[ … ]` and `test …`.
    pub(super) fn test(&self, words: &[Option<String>]) -> Success {
        // Beside `-a` and `-o`, what is known of one side may decide.
        let unknown = UNKNOWN.to_string();
        let words = words.iter().map(|word| word.as_deref().unwrap_or(&unknown));
        let mut words: Vec<&str> = words.collect();
        if words.last() == Some(&"]") {
            words.pop();
        }
        self.expression(&words)
    }

    fn expression(&self, words: &[&str]) -> Success {
        // Up to three words mean what their number says (test(1p)).
        if words.len() > 3 {
            for (sign, decides) in [("-o", true), ("-a", false)] {
                if let Some(at) = words.iter().position(|word| *word == sign) {
                    let sides = [words.get(..at)?, words.get(at + 1..)?].map(|side| self.expression(side));
                    return joined(sides, decides);
                }
            }
        }
        if let Some((&"!", rest)) = words.split_first()
            && !rest.is_empty()
        {
            return self.expression(rest).map(|holds| !holds);
        }
        if words.iter().any(|word| word.contains(UNKNOWN)) {
            return None;
        }
        match words {
            [] => Some(false),
            ["-n", text] | [text] => Some(!text.is_empty()),
            ["-z", text] => Some(text.is_empty()),
            // dash: unexpected operator.
            [_, "==", _] if self.state.kind == ShellKind::Dash => Some(false),
            [one, "=" | "==", other] => Some(one == other),
            [one, "!=", other] => Some(one != other),
            [one, sign, other] => numbers_compare(one, sign, other),
            [sign, path] => {
                let mut signs = sign.strip_prefix('-')?.chars();
                let letter = signs.next().filter(|_| signs.next().is_none())?;
                self.file_test(letter, &self.path(path)?)
            }
            _ => None,
        }
    }

    /// What `test` says of a file; what is not in the image may be made by a program that ran before.
    pub(super) fn file_test(&self, letter: char, path: &str) -> Option<bool> {
        let holds = self.files.test(letter, path)?;
        Some(holds).filter(|holds| *holds || !self.has_started)
    }

    /// `[[ … ]]` of bash.
    pub(super) fn bash_test(&mut self, reader: &mut TokenReader<'_>) -> Success {
        reader.at += 1;
        let holds = self.any_of(reader);
        // What was not understood is passed over.
        while let Some(token) = reader.peek() {
            let is_end = reader.keyword() == Some("]]");
            if matches!(token, ShellToken::End | ShellToken::Line) {
                break;
            }
            reader.at += 1;
            if is_end {
                return holds;
            }
        }
        None
    }

    fn any_of(&mut self, reader: &mut TokenReader<'_>) -> Success {
        self.joined_by(&ShellToken::Or, reader, Self::all_of)
    }

    fn all_of(&mut self, reader: &mut TokenReader<'_>) -> Success {
        self.joined_by(&ShellToken::And, reader, Self::one)
    }

    /// Conditions with this sign between them.
    fn joined_by(
        &mut self,
        sign: &ShellToken,
        reader: &mut TokenReader<'_>,
        next: fn(&mut Self, &mut TokenReader<'_>) -> Success,
    ) -> Success {
        let mut holds = next(self, reader);
        while reader.take(sign) {
            reader.skip_lines();
            holds = joined([holds, next(self, reader)], *sign == ShellToken::Or);
        }
        holds
    }

    fn one(&mut self, reader: &mut TokenReader<'_>) -> Success {
        if reader.keyword() == Some("!") {
            reader.at += 1;
            return self.one(reader).map(|holds| !holds);
        }
        if reader.take(&ShellToken::Open) {
            let holds = self.any_of(reader);
            return if reader.take(&ShellToken::Close) { holds } else { None };
        }
        let mut words: Vec<&[WordPart]> = Vec::new();
        let mut is_quoted = false;
        while let Some(ShellToken::Word(parts, quoted)) = reader.peek()
            && reader.keyword() != Some("]]")
        {
            self.expand(parts);
            words.push(parts);
            is_quoted = *quoted;
            reader.at += 1;
        }
        if let [one, [WordPart::Text(sign)], other] = words.as_slice()
            && matches!(sign.as_str(), "=" | "==" | "!=")
        {
            let fits = self.fits(&self.text(one)?, other)?;
            return Some(fits == (sign != "!="));
        }
        if let [one, [WordPart::Text(sign)], other] = words.as_slice()
            && sign == "=~"
        {
            return self.matches(&self.text(one)?, (other, is_quoted), reader);
        }
        let texts: Option<Vec<String>> = words.iter().map(|parts| self.text(parts)).collect();
        let texts = texts?;
        self.expression(&texts.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Whether a text fits a pattern as that of `case`.
    pub(super) fn fits(&mut self, text: &str, pattern: &[WordPart]) -> Option<bool> {
        self.left = self.left.saturating_sub(1);
        let pattern = self.pattern(pattern).filter(|pattern| pattern.len() <= PATTERN)?;
        Some(matches_text(pattern.as_bytes(), text.as_bytes()))
    }

    /// `=~`: whether a text holds what a pattern of regex(7) stands for.
    fn matches(&self, text: &str, (pattern, is_quoted): QuotedWord<'_>, reader: &TokenReader<'_>) -> Success {
        // Brackets and bars are tokens of their own, and what is quoted stands for itself, as a dot behind a backslash.
        let is_whole =
            reader.keyword() == Some("]]") || matches!(reader.peek(), Some(ShellToken::And | ShellToken::Or));
        let may_be_quoted = |part: &WordPart| matches!(part, WordPart::Text(text) if text.contains('.'));
        let is_known = is_whole && !is_quoted && !pattern.iter().any(may_be_quoted);
        let pattern = self
            .text(pattern)
            .filter(|pattern| is_known && pattern.len() <= PATTERN)?;
        let small = Regex::config().nfa_size_limit(Some(EXPRESSION));
        let found = Regex::builder().configure(small).build(&pattern).ok()?;
        Some(found.is_match(text))
    }

    /// Whether all of some names are commands: functions, those of the shell, programs.
    pub(super) fn finds(&self, names: &[Option<String>]) -> Success {
        let names: Option<Vec<&str>> = names.iter().map(Option::as_deref).collect();
        let mut names = names?.into_iter().filter(|name| !name.starts_with('-')).peekable();
        names.peek()?;
        let is_function = |name: &str| self.functions.contains_key(name).then_some(true);
        let is_own = |name: &str| (!self.is_foreign(name) && is_builtin(name)).then_some(true);
        let found = names.map(|name| {
            let own = is_function(name).or_else(|| is_own(name));
            own.or_else(|| self.has_program(name))
        });
        let found: Option<Vec<bool>> = found.collect();
        found.map(|found| found.iter().all(|is_there| *is_there))
    }
}

/// Two conditions together, of which one alone decides where it is so.
fn joined(sides: [Success; 2], decides: bool) -> Success {
    if sides.contains(&Some(decides)) {
        return Some(decides);
    }
    let [one, other] = sides;
    one.and(other)
}

fn numbers_compare(one: &str, sign: &str, other: &str) -> Success {
    let (one, other): (i64, i64) = one.parse().ok().zip(other.parse().ok())?;
    match sign {
        "-eq" => Some(one == other),
        "-ne" => Some(one != other),
        "-lt" => Some(one < other),
        "-le" => Some(one <= other),
        "-gt" => Some(one > other),
        "-ge" => Some(one >= other),
        _ => None,
    }
}
