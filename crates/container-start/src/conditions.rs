//! Evaluates `test`, `[` and `[[`; `None` if the image's files and the known text do not decide.

use shuck_ast::{ConditionalBinaryOp as Binary, ConditionalExpr, ConditionalUnaryOp as Unary};

use crate::image_files::FileKind;
use crate::pattern::{quote, unquote};
use crate::reader::{Reader, is_volatile};
use crate::script::Shell;
use crate::state::{EXT_GLOB, State};
use crate::value::{is_all_hole, is_open};

/// Three-valued logical AND.
fn both(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        _ => left.and(right),
    }
}

/// Three-valued logical OR.
pub(crate) fn either(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    both(left.map(|it| !it), right.map(|it| !it)).map(|it| !it)
}

impl Reader<'_> {
    /// `test` and `[` with their name (POSIX test(1)).
    pub(crate) fn decide_test(&mut self, words: &[String], state: &State) -> Option<bool> {
        match words {
            [name, inner @ .., end] if name == "[" && end == "]" => self.decide_words(inner, state),
            [name, inner @ ..] if name == "test" => self.decide_words(inner, state),
            _ => None,
        }
    }

    fn decide_words(&mut self, words: &[String], state: &State) -> Option<bool> {
        match words {
            [] => Some(false),
            [word] => self.decide_unary("-n", word, state),
            // What `-a` and `-o` join is not decided.
            [_, _, _, _, _, ..] => None,
            [not, rest @ ..] if not == "!" => self.decide_words(rest, state).map(|holds| !holds),
            [operator, word] => self.decide_unary(operator, word, state),
            [left, operator, right] => self.decide_binary(left, operator, right, &quote(right), state),
            _ => None,
        }
    }

    /// Evaluates the expression inside `[[ ]]`.
    pub(crate) fn decide_expression(&mut self, expression: &ConditionalExpr, state: &mut State) -> Option<bool> {
        match expression {
            ConditionalExpr::Parenthesized(inner) => self.decide_expression(&inner.expr, state),
            ConditionalExpr::Word(word) => {
                let text = self.word_text(word, state);
                self.decide_unary("-n", &text, state)
            }
            ConditionalExpr::Unary(unary) if unary.op == Unary::Not => {
                self.decide_expression(&unary.expr, state).map(|holds| !holds)
            }
            ConditionalExpr::Unary(unary) => {
                let text = unquote(&self.operand_pattern(&unary.expr, state));
                self.decide_unary(unary.op.as_str(), &text, state)
            }
            ConditionalExpr::Binary(binary) if matches!(binary.op, Binary::And | Binary::Or) => {
                let is_and = binary.op == Binary::And;
                match self.decide_expression(&binary.left, state) {
                    Some(holds) if holds != is_and => Some(holds),
                    left => {
                        let right = self.decide_expression(&binary.right, state);
                        if is_and { both(left, right) } else { either(left, right) }
                    }
                }
            }
            ConditionalExpr::Binary(binary) => {
                let left = unquote(&self.operand_pattern(&binary.left, state));
                let pattern = self.operand_pattern(&binary.right, state);
                // "as if the extglob shell option were enabled"
                let mut extended = state.clone();
                extended.switch(EXT_GLOB, state.shell.is_bash());
                self.decide_binary(&left, binary.op.as_str(), &unquote(&pattern), &pattern, &extended)
            }
            ConditionalExpr::Pattern(_) | ConditionalExpr::Regex(_) | ConditionalExpr::VarRef(_) => None,
        }
    }

    fn operand_pattern(&mut self, expression: &ConditionalExpr, state: &mut State) -> String {
        match expression {
            ConditionalExpr::Word(word) | ConditionalExpr::Regex(word) => self.word_pattern(word, state),
            ConditionalExpr::Pattern(pattern) => self.case_pattern(pattern, state),
            ConditionalExpr::VarRef(reference) if reference.subscript.is_none() => quote(&reference.name),
            _ => self.hole("an operand"),
        }
    }

    fn decide_unary(&mut self, operator: &str, word: &str, state: &State) -> Option<bool> {
        match operator {
            // A word of holes only may be empty.
            "-z" | "-n" => Some(word.is_empty() == (operator == "-z")).filter(|_| !is_all_hole(word)),
            _ if is_open(word) => None,
            "-v" => {
                let is_set = !self.parameter(word, state).is_empty();
                Some(is_set).filter(|_| !is_set || !state.value(word).is_empty())
            }
            _ if word.is_empty() && operator.starts_with('-') => Some(false),
            _ => self.decide_file(operator, word, state),
        }
    }

    fn decide_file(&mut self, operator: &str, word: &str, state: &State) -> Option<bool> {
        let path = state.absolute(word);
        let stat = self.files.stat(&path);
        let may_change = is_volatile(&path) || self.is_touched(&path) || is_open(&path);
        let is_known = matches!(
            operator,
            "-d" | "-f" | "-e" | "-a" | "-x" | "-r" | "-s" | "-w" | "-L" | "-h"
        );
        if !is_known || may_change || stat.is_none() && self.is_driver_file(&path) {
            return None;
        }
        if matches!(operator, "-L" | "-h") {
            return Some(self.files.is_link(&path));
        }
        let Some(stat) = stat else {
            // A missing path may be mounted, except in a directory that the distribution owns.
            let folder = path.rsplit_once('/').map_or("/", |(folder, _)| folder);
            return Some(false).filter(|_| !self.provides_missing || self.files.is_packaged(folder));
        };
        let is_root = state.user.uid == "0";
        match operator {
            "-d" => Some(stat.kind == FileKind::Directory),
            "-f" => Some(matches!(stat.kind, FileKind::Regular | FileKind::Object)),
            "-s" => Some(stat.bytes > 0),
            "-x" if is_root => Some(stat.mode & 0o111 != 0 || stat.kind == FileKind::Directory),
            // The permissions of another user may depend on owner and group.
            "-r" => Some(true).filter(|_| is_root || stat.mode & 0o004 != 0),
            "-w" => Some(true).filter(|_| is_root || stat.mode & 0o002 != 0),
            "-x" => Some(true).filter(|_| stat.mode & 0o001 != 0),
            _ => Some(true),
        }
    }

    fn decide_binary(&mut self, left: &str, operator: &str, right: &str, pattern: &str, state: &State) -> Option<bool> {
        match operator {
            // dash's `test` has no `==`; it fails with an error.
            "==" if state.shell == Shell::Dash => return Some(false),
            "=" | "==" => return self.match_text(left, pattern, state),
            "!=" => return self.match_text(left, pattern, state).map(|holds| !holds),
            _ => {}
        }
        let (left, right) = (left.trim().parse::<i64>().ok()?, right.trim().parse::<i64>().ok()?);
        match operator {
            "-eq" => Some(left == right),
            "-ne" => Some(left != right),
            "-lt" => Some(left < right),
            "-le" => Some(left <= right),
            "-gt" => Some(left > right),
            "-ge" => Some(left >= right),
            _ => None,
        }
    }
}
