//! Commands that hold others: `if`, `case` and functions.

use super::grammar::TokenReader;
use super::script_run::{Doubt, ScriptRun, Success};
use crate::judge::facts::shell_words::{ShellToken, WordPart};

impl ScriptRun<'_> {
    pub(super) fn conditional(&mut self, reader: &mut TokenReader<'_>) -> Success {
        let outer = self.doubt;
        // Whether one of the conditions before was true.
        let mut chosen = Some(false);
        let mut open = Doubt::Sure;
        loop {
            let word = reader.keyword().map(str::to_owned);
            reader.at += 1;
            let holds = match word.as_deref() {
                Some("if" | "elif") => {
                    let holds = self.tested(|run| run.block(reader, &["then"]));
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
                (Some(false), None) => self.open_doubt(),
                (None, _) if open == Doubt::Program => Doubt::Program,
                _ => Doubt::Open,
            };
            if runs.is_open() {
                open = runs;
            }
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

    /// `case WORD in [(]PATTERN[|PATTERN]…) …;; esac`
    pub(super) fn case(&mut self, reader: &mut TokenReader<'_>) -> Success {
        reader.at += 1;
        let word = match reader.peek() {
            Some(ShellToken::Word(parts, _)) => {
                self.expand(parts);
                self.text(parts)
            }
            _ => None,
        };
        while reader.peek().is_some() && reader.keyword() != Some("in") {
            reader.at += 1;
        }
        reader.at += 1;
        while reader.take(&ShellToken::End) {}
        let outer = self.doubt;
        let mut chosen = Some(false);
        while reader.peek().is_some() && reader.keyword() != Some("esac") {
            let fits = self.patterns(reader, word.as_deref());
            let runs = match (chosen, fits) {
                (Some(true), _) | (_, Some(false)) => Doubt::Skipped,
                (Some(false), Some(true)) => Doubt::Sure,
                _ => Doubt::Open,
            };
            self.doubt = outer.max(runs);
            self.block(reader, &["esac"]);
            self.doubt = outer;
            reader.take(&ShellToken::CaseEnd);
            chosen = match (chosen, fits) {
                (Some(true), _) | (Some(false), Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
            while reader.take(&ShellToken::End) {}
        }
        reader.at += 1;
        None
    }

    /// Whether a word fits one of the patterns in front of a parenthesis.
    fn patterns(&mut self, reader: &mut TokenReader<'_>, word: Option<&str>) -> Option<bool> {
        let mut fits = Some(false);
        reader.take(&ShellToken::Open);
        while let Some(token) = reader.peek() {
            reader.at += 1;
            match token {
                ShellToken::Close => break,
                ShellToken::Word(parts, _) if fits != Some(true) => {
                    let this = word.and_then(|word| self.fits(word, parts));
                    fits = if this == Some(false) { fits } else { this };
                }
                _ => {}
            }
        }
        fits
    }

    /// Runs what somebody asks for its success.
    pub(super) fn tested<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.is_tested, true);
        let result = act(self);
        self.is_tested = outer;
        result
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
