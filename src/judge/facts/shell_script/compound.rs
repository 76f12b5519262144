//! Commands that hold others: `if`, `case` and functions.

use super::grammar::TokenReader;
use super::script_run::{Doubt, ScriptRun, Success};
use super::syntax::pass_command;
use crate::judge::facts::shell_words::{ShellToken, WordPart};

impl ScriptRun<'_> {
    pub(super) fn conditional(&mut self, reader: &mut TokenReader<'_>) -> Success {
        let outer = self.doubt;
        // Whether one of the conditions before was true.
        let mut chosen = Some(false);
        let mut open = Doubt::Sure;
        let mut branches = BranchOutcomes::new(self.begun);
        loop {
            let word = reader.keyword().map(str::to_owned);
            reader.at += 1;
            let holds = match word.as_deref() {
                Some("if" | "elif") => {
                    let holds = self.tested(|run| run.block(reader, &["then"]));
                    reader.at += 1;
                    if chosen == Some(false) {
                        branches.begun = self.begun;
                    }
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
            self.begun = branches.begun;
            self.doubt = outer.max(runs);
            let success = self.block(reader, &["elif", "else", "fi"]);
            self.doubt = outer;
            branches.add(runs, success, &mut self.begun);
            branches.is_whole |= word.as_deref() == Some("else");
            chosen = match (chosen, holds) {
                (Some(true), _) | (Some(false), Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
        }
        branches.join(chosen, &mut self.begun)
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
        reader.skip_lines();
        let outer = self.doubt;
        let mut chosen = Some(false);
        let mut branches = BranchOutcomes::new(self.begun);
        while reader.peek().is_some() && reader.keyword() != Some("esac") {
            let fits = self.patterns(reader, word.as_deref());
            let runs = match (chosen, fits) {
                (Some(true), _) | (_, Some(false)) => Doubt::Skipped,
                (Some(false), Some(true)) => Doubt::Sure,
                _ => Doubt::Open,
            };
            self.doubt = outer.max(runs);
            let success = self.block(reader, &["esac"]);
            self.doubt = outer;
            branches.add(runs, success, &mut self.begun);
            branches.is_whole |= fits == Some(true);
            reader.take(&ShellToken::CaseEnd);
            chosen = match (chosen, fits) {
                (Some(true), _) | (Some(false), Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
            reader.skip_lines();
        }
        reader.at += 1;
        branches.is_whole |= chosen == Some(true);
        branches.join(chosen, &mut self.begun)
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
                    let fits_all = (*parts == [WordPart::Wildcard('*')]).then_some(true);
                    let this = fits_all.or_else(|| word.and_then(|word| self.fits(word, parts)));
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
        // bash lets the parentheses away behind `function`.
        if reader.take(&ShellToken::Open) {
            reader.take(&ShellToken::Close);
        }
        reader.skip_lines();
        let start = reader.at;
        pass_command(reader, self.state.kind);
        let body = reader.tokens.get(start..reader.at).unwrap_or_default();
        if let ([WordPart::Text(name)], true) = (name, self.doubt != Doubt::Skipped) {
            self.functions.insert(name.clone(), body.into());
        }
    }
}

/// What the branches of a command come to together.
struct BranchOutcomes {
    /// Whether a program was started before them.
    begun: bool,
    /// Whether one is started in each of those that may be run.
    all_begin: bool,
    /// Whether one of them is run for sure.
    is_whole: bool,
    success: Success,
}

impl BranchOutcomes {
    fn new(begun: bool) -> Self {
        Self {
            begun,
            all_begin: true,
            is_whole: false,
            success: Some(true),
        }
    }

    fn add(&mut self, runs: Doubt, success: Success, begun: &mut bool) {
        let has_begun = std::mem::replace(begun, self.begun);
        if runs == Doubt::Skipped {
            return;
        }
        self.all_begin &= has_begun;
        self.success = if runs == Doubt::Sure { success } else { None };
    }

    /// The success of the branch that is run; with nothing known of which, that of none.
    fn join(self, chosen: Option<bool>, begun: &mut bool) -> Success {
        *begun = self.begun || self.all_begin && (self.is_whole || chosen == Some(true));
        match chosen {
            Some(_) => self.success,
            None => None,
        }
    }
}
