//! Loops: run as often as they are where that is known, else until nothing new comes of them.

use super::grammar::TokenReader;
use super::script_run::{Doubt, ScriptRun, Success, VariableValue};
use super::syntax::pass_list;
use crate::judge::facts::shell_words::ShellToken;

/// The rounds of a loop that are followed.
const ROUNDS: usize = 64;
/// The times that a loop of unknown rounds is gone through, until it changes nothing any more.
const PASSES: usize = 4;

impl ScriptRun<'_> {
    /// `for NAME [in WORD…]; do …; done`
    pub(super) fn for_loop(&mut self, reader: &mut TokenReader<'_>) -> Success {
        // What a user selects is his.
        let is_select = reader.keyword() == Some("select");
        reader.at += 1;
        let name = reader.keyword().map(str::to_owned);
        let is_counted = name.as_deref() == Some("((");
        reader.at += 1 + usize::from(is_counted);
        reader.skip_lines();
        let mut words = self.state.arguments.clone();
        if reader.keyword() == Some("in") {
            reader.at += 1;
            words.clear();
            while let Some(ShellToken::Word(parts, is_quoted)) = reader.peek() {
                self.expand(parts);
                // One more than are followed is enough to know that they are too many.
                if words.len() <= ROUNDS {
                    words.extend(self.fields(parts, *is_quoted));
                }
                reader.at += 1;
            }
        }
        let body = self.loop_body(reader);
        if self.doubt == Doubt::Skipped {
            return None;
        }
        let known: Option<Vec<String>> = words.into_iter().collect();
        let name = name.filter(|_| !is_counted);
        let known =
            known.filter(|words| words.len() <= ROUNDS && !is_select && !is_counted && !body.iter().any(is_jump));
        let (Some(name), Some(words)) = (&name, known) else {
            return self.repeat(&[body], name.as_deref());
        };
        // Without a round, its success is that of a command that did nothing.
        let mut success = Some(true);
        for word in words {
            if !self.begins_round() {
                break;
            }
            self.assign(name, VariableValue::Text(word));
            success = self.block(&mut TokenReader { tokens: body, at: 0 }, &[]);
        }
        success
    }

    /// `while …; do …; done`
    pub(super) fn while_loop(&mut self, reader: &mut TokenReader<'_>) -> Success {
        let is_until = reader.keyword() == Some("until");
        reader.at += 1;
        let start = reader.at;
        pass_list(reader, "do", self.state.kind);
        let condition = reader.tokens.get(start..reader.at).unwrap_or_default();
        let body = self.loop_body(reader);
        if self.doubt == Doubt::Skipped {
            return None;
        }
        for _ in 0..ROUNDS {
            if !self.begins_round() {
                break;
            }
            let holds = self.tested(|run| {
                run.block(
                    &mut TokenReader {
                        tokens: condition,
                        at: 0,
                    },
                    &[],
                )
            });
            match holds.map(|holds| holds != is_until) {
                Some(true) if !self.ending.is_over => {}
                Some(false) => return Some(true),
                _ => break,
            }
            self.block(&mut TokenReader { tokens: body, at: 0 }, &[]);
            let jumped = std::mem::replace(&mut self.jumped, Doubt::Sure);
            if jumped == Doubt::Skipped && body.iter().any(|token| is_word(token, "break")) {
                return Some(true);
            }
            if jumped.is_open() || self.returned != Doubt::Sure || self.left == 0 {
                break;
            }
        }
        self.repeat(&[condition, body], None)
    }

    /// Whether one more round is followed. It counts as a command: loops in loops of `:` would go on for hours.
    fn begins_round(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }

    /// What stands between `do` and `done`.
    fn loop_body<'t>(&self, reader: &mut TokenReader<'t>) -> &'t [ShellToken] {
        while reader.peek().is_some() && !matches!(reader.keyword(), Some("do" | "{")) {
            reader.at += 1;
        }
        let end = if reader.keyword() == Some("{") { "}" } else { "done" };
        reader.at += 1;
        let start = reader.at;
        pass_list(reader, end, self.state.kind);
        let body = reader.tokens.get(start..reader.at).unwrap_or_default();
        reader.at += 1;
        body
    }

    /// Goes through commands that may run any number of times, the first time with a variable of any value.
    fn repeat(&mut self, parts: &[&[ShellToken]], variable: Option<&str>) -> Success {
        let (outer, begun) = (self.doubt, self.begun);
        self.doubt = outer.max(Doubt::Open);
        for pass in 0..=PASSES {
            if !self.begins_round() {
                break;
            }
            let before = self.state.clone();
            if let Some(name) = variable {
                self.assign(name, VariableValue::Unknown);
            }
            for tokens in parts {
                self.block(&mut TokenReader { tokens, at: 0 }, &[]);
                self.jumped = Doubt::Sure;
            }
            if self.state == before {
                break;
            }
            if pass == PASSES {
                self.forget_all();
            }
        }
        (self.doubt, self.begun) = (outer, begun);
        None
    }
}

fn is_word(token: &ShellToken, word: &str) -> bool {
    token.keyword() == Some(word)
}

fn is_jump(token: &ShellToken) -> bool {
    is_word(token, "break") || is_word(token, "continue")
}
