//! What `test`, `[` and `[[` decide, as far as the image's files and known text decide it.

use std::cmp::Ordering;

use shuck_ast::{ConditionalBinaryOp as Binary, ConditionalExpr, ConditionalUnaryOp as Unary, Span};

use crate::image_files::FileKind;
use crate::pattern::escape_pattern;
use crate::reader::{Reader, is_volatile};
use crate::script::Shell;
use crate::state::State;
use crate::value::{is_hole, is_open};

/// What both sides of `-a` or `&&` come to.
fn both(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn either(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    both(left.map(|it| !it), right.map(|it| !it)).map(|it| !it)
}

impl Reader<'_> {
    /// The words of `test`, without its name and the closing bracket (POSIX test(1)).
    pub(crate) fn decide_words(&mut self, words: &[String], state: &State) -> Option<bool> {
        let split = |operator: &str| {
            let mut inner = words.iter().enumerate().skip(1).take(words.len().saturating_sub(2));
            inner
                .find(|(_, word)| *word == operator)
                .map(|(at, _)| words.split_at(at))
        };
        if words.len() > 3
            && let Some((left, right)) = split("-o")
        {
            let left = self.decide_words(left, state);
            return either(left, self.decide_words(right.get(1..)?, state));
        }
        if words.len() > 3
            && let Some((left, right)) = split("-a")
        {
            let left = self.decide_words(left, state);
            return both(left, self.decide_words(right.get(1..)?, state));
        }
        match words {
            [] => Some(false),
            [word] => self.decide_unary("-n", word, state),
            [not, rest @ ..] if not == "!" => self.decide_words(rest, state).map(|holds| !holds),
            [operator, word] => self.decide_unary(operator, word, state),
            [left, operator, right] => self.decide_binary(left, operator, right, &escape_pattern(right), state),
            _ => None,
        }
    }

    /// The expression of `[[ ]]`.
    pub(crate) fn decide_expression(&mut self, expression: &ConditionalExpr, state: &mut State) -> Option<bool> {
        match expression {
            ConditionalExpr::Parenthesized(inner) => self.decide_expression(&inner.expr, state),
            ConditionalExpr::Word(word) => {
                let text = self.word_text(word, state);
                self.decide_unary("-n", &text, state)
            }
            ConditionalExpr::Unary(unary) => {
                if unary.op == Unary::Not {
                    return self.decide_expression(&unary.expr, state).map(|holds| !holds);
                }
                let text = self.operand_text(&unary.expr, state);
                let operator = unary.op.as_str();
                self.decide_unary(operator, &text, state)
            }
            ConditionalExpr::Binary(binary) => {
                let left = |reader: &mut Self, state: &mut State| reader.decide_expression(&binary.left, state);
                match binary.op {
                    Binary::And => match left(self, state) {
                        Some(false) => Some(false),
                        holds => both(holds, self.decide_expression(&binary.right, state)),
                    },
                    Binary::Or => match left(self, state) {
                        Some(true) => Some(true),
                        holds => either(holds, self.decide_expression(&binary.right, state)),
                    },
                    operator => {
                        let left = self.operand_text(&binary.left, state);
                        let right = self.operand_text(&binary.right, state);
                        let pattern = match &*binary.right {
                            ConditionalExpr::Pattern(pattern) => self.case_pattern(pattern, state),
                            ConditionalExpr::Word(word) => self.word_pattern(word, state),
                            _ => escape_pattern(&right),
                        };
                        self.decide_binary(&left, operator.as_str(), &right, &pattern, state)
                    }
                }
            }
            ConditionalExpr::Pattern(_) | ConditionalExpr::Regex(_) | ConditionalExpr::VarRef(_) => None,
        }
    }

    fn operand_text(&mut self, expression: &ConditionalExpr, state: &mut State) -> String {
        match expression {
            ConditionalExpr::Word(word) | ConditionalExpr::Regex(word) => self.word_text(word, state),
            ConditionalExpr::Pattern(pattern) => crate::pattern::unescape_pattern(&self.case_pattern(pattern, state)),
            ConditionalExpr::VarRef(reference) if reference.subscript.is_none() => reference.name.to_string(),
            _ => self.hole(&state.place(Span::new()), "an operand"),
        }
    }

    fn decide_unary(&mut self, operator: &str, word: &str, state: &State) -> Option<bool> {
        let is_empty = match word.chars().all(is_hole) {
            _ if word.is_empty() => Some(true),
            // What is a hole alone may be empty.
            true => None,
            false => Some(false),
        };
        match operator {
            "-z" => is_empty,
            "-n" => is_empty.map(|it| !it),
            _ if is_open(word) => None,
            "-v" => match self.parameter(word, state) {
                Some(_) if state.value(word).is_none() => None,
                value => Some(value.is_some()),
            },
            _ if word.is_empty() && operator.starts_with('-') => Some(false),
            "-d" | "-f" | "-e" | "-a" | "-x" | "-r" | "-s" | "-w" | "-L" | "-h" => {
                self.decide_file(operator, word, state)
            }
            _ => None,
        }
    }

    fn decide_file(&mut self, operator: &str, word: &str, state: &State) -> Option<bool> {
        let path = state.absolute(word);
        let stat = self.files.stat(&path);
        let may_change = is_volatile(&path) || state.is_touched(&path) || is_open(&path);
        if may_change || stat.is_none() && self.is_of_driver(&path) {
            return None;
        }
        if matches!(operator, "-L" | "-h") {
            return Some(self.files.is_link(&path));
        }
        let Some(stat) = stat else {
            // What the image has not may be mounted, beside the distribution's own files.
            let folder = path.rsplit_once('/').map_or("/", |(folder, _)| folder);
            return if self.is_given && !self.files.is_packaged(folder) {
                None
            } else {
                Some(false)
            };
        };
        let is_root = state.user.uid == "0";
        let may = |bits: u32| match () {
            () if is_root || stat.mode & bits & 0o007 != 0 => Some(true),
            () if stat.mode & bits == 0 => Some(false),
            () => None,
        };
        match operator {
            "-d" => Some(stat.kind == FileKind::Directory),
            "-f" => Some(matches!(stat.kind, FileKind::Regular | FileKind::Object)),
            "-s" => Some(stat.bytes > 0),
            "-r" => may(0o444),
            "-w" => may(0o222),
            "-x" if is_root => Some(stat.mode & 0o111 != 0 || stat.kind == FileKind::Directory),
            "-x" => may(0o111),
            _ => Some(true),
        }
    }

    fn decide_binary(&mut self, left: &str, operator: &str, right: &str, pattern: &str, state: &State) -> Option<bool> {
        let compare = || {
            let number = |text: &str| text.trim().parse::<i64>().ok();
            Some(number(left)?.cmp(&number(right)?))
        };
        match operator {
            // dash ends such a `test` with an error.
            "==" if state.shell == Shell::Dash => Some(false),
            "=" | "==" => self.match_text(left, pattern, state),
            "!=" => self.match_text(left, pattern, state).map(|holds| !holds),
            "-eq" => compare().map(Ordering::is_eq),
            "-ne" => compare().map(Ordering::is_ne),
            "-lt" => compare().map(Ordering::is_lt),
            "-le" => compare().map(Ordering::is_le),
            "-gt" => compare().map(Ordering::is_gt),
            "-ge" => compare().map(Ordering::is_ge),
            _ => None,
        }
    }

    /// `test` and `[` with their name.
    pub(crate) fn decide_test(&mut self, words: &[String], state: &State) -> Option<bool> {
        match words {
            [name, inner @ .., end] if name == "[" && end == "]" => self.decide_words(inner, state),
            [name, inner @ ..] if name == "test" => self.decide_words(inner, state),
            _ => None,
        }
    }
}
