//! Commands that hold others: `if`, `case` and functions.

use super::{Doubt, ScriptRun, Success, TokenReader};
use crate::judge::facts::shell_words::{ShellToken, WordPart};

impl ScriptRun<'_> {
    pub(super) fn doubtful<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.doubt;
        self.doubt = outer.max(Doubt::Open);
        let result = act(self);
        self.doubt = outer;
        result
    }

    pub(super) fn conditional(&mut self, reader: &mut TokenReader<'_>) -> Success {
        let outer = self.doubt;
        // Whether one of the conditions before was true.
        let mut chosen = Some(false);
        loop {
            let word = reader.keyword().map(str::to_owned);
            reader.at += 1;
            let holds = match word.as_deref() {
                Some("if" | "elif") => {
                    let holds = self.block(reader, &["then"]);
                    reader.at += 1;
                    holds
                }
                Some("else") => Some(true),
                // `fi`, or the end of a script that lacks it.
                _ => break,
            };
            let runs = match (chosen, holds) {
                (Some(true), _) | (_, Some(false)) => Doubt::Skipped,
                (Some(false), Some(true)) => Doubt::Sure,
                _ => Doubt::Open,
            };
            self.doubt = outer.max(runs);
            self.block(reader, &["elif", "else", "fi"]);
            self.doubt = outer;
            chosen = match (chosen, holds) {
                (Some(true), _) | (Some(false), Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
        }
        None
    }

    pub(super) fn case(&mut self, reader: &mut TokenReader<'_>) -> Success {
        while reader.peek().is_some() && reader.keyword() != Some("in") {
            reader.at += 1;
        }
        reader.at += 1;
        while reader.peek().is_some() && reader.keyword() != Some("esac") {
            // The pattern, up to its parenthesis.
            while reader.peek().is_some_and(|token| *token != ShellToken::Close) && reader.keyword() != Some("esac") {
                reader.at += 1;
            }
            if reader.take(&ShellToken::Close) {
                self.doubtful(|run| run.block(reader, &["esac"]));
                reader.take(&ShellToken::CaseEnd);
            }
            while reader.take(&ShellToken::End) {}
        }
        reader.at += 1;
        None
    }

    pub(super) fn function(&mut self, name: &[WordPart], reader: &mut TokenReader<'_>) {
        reader.at += 1;
        reader.take(&ShellToken::Close);
        while reader.take(&ShellToken::End) {}
        let body = self.skipped(reader, |run, reader| {
            run.command(reader);
        });
        if let [WordPart::Text(name)] = name {
            self.functions.insert(name.clone(), body.to_vec());
        }
    }

    /// Reads something to see where it ends, without running it: its tokens.
    pub(super) fn skipped<'t>(
        &mut self,
        reader: &mut TokenReader<'t>,
        read: impl FnOnce(&mut Self, &mut TokenReader<'t>),
    ) -> &'t [ShellToken] {
        let start = reader.at;
        let outer = (self.doubt, self.state.clone());
        self.doubt = Doubt::Skipped;
        read(self, reader);
        (self.doubt, self.state) = outer;
        reader.tokens.get(start..reader.at).unwrap_or_default()
    }
}
