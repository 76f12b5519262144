//! The end of a script, where it comes before a program that it would start.
//!
//! Programs that it runs are taken to succeed: who writes `set -e` or `|| exit 1` behind one means it to.

use image_linkage::escape;

use super::script_run::{Doubt, ScriptRun, Success};
use crate::judge::facts::entry_problem::EntryProblem;
use crate::judge::facts::shell_words::ShellToken;

/// Whether and why a script comes to its end.
#[derive(Debug, Clone, Default)]
pub(super) struct ScriptEnding {
    /// Whether it has come to it.
    pub is_over: bool,
    /// Why it has, where what follows would start something else.
    why: Option<String>,
    /// Why it may have.
    may: Option<String>,
    /// A program that is not in the image, where one is to be started.
    pub missing: Option<String>,
    /// A program that is certainly passed over.
    passed: Option<String>,
    /// What it says of its success there.
    pub success: Success,
    /// What that comes to, once there is a program that is not reached.
    pub problem: Option<EntryProblem>,
    /// The same for one of which only a run could tell.
    pub doubt: Option<String>,
}

/// The bytes of a command that are shown.
const SHOWN: usize = 60;

/// The flag of a shell whose trap of `ERR` ends its script; no option has this letter.
pub(super) const ERROR_TRAP: char = '!';

impl ScriptRun<'_> {
    /// The script ends here for a reason, if this runs.
    pub(super) fn end(&mut self, why: String) {
        match self.doubt {
            Doubt::Sure => {
                self.ending.is_over = true;
                self.ending.success = Some(false);
                self.ending.why.get_or_insert(why);
            }
            Doubt::Open => drop(self.ending.may.get_or_insert(why)),
            Doubt::Program | Doubt::Skipped => {}
        }
    }

    /// It may be that the script ends here, which only a run could tell.
    pub(super) fn may_end(&mut self, why: String) {
        let open = self.doubt.max(Doubt::Open);
        let doubt = std::mem::replace(&mut self.doubt, open);
        self.end(why);
        self.doubt = doubt;
    }

    /// `exit [STATUS]`: behind a program and without a failure it is the end of that program's script.
    pub(super) fn exit(&mut self, status: Option<&str>) {
        let fails = status.is_some_and(|status| status.parse().is_ok_and(|number: i64| number != 0));
        let is_known = status.is_some_and(|status| status.parse::<i64>().is_ok());
        if fails || self.last.is_none() {
            let status = status.map(|status| format!(" {status}")).unwrap_or_default();
            let shown = escape::escape_bytes(format!("exit{status}").as_bytes());
            self.end(format!("`{shown}` comes first"));
        } else {
            self.ending.is_over = self.doubt == Doubt::Sure;
        }
        if self.doubt == Doubt::Sure {
            self.ending.success = if is_known { Some(!fails) } else { self.status };
        }
    }

    /// A command comes to its end: `set -e` asks for its success.
    pub(super) fn end_by(&mut self, success: Success) {
        let asks = std::mem::take(&mut self.asks);
        if success == Some(false) {
            self.fail();
        } else if success.is_none() && asks {
            let open = self.doubt.max(Doubt::Open);
            let doubt = std::mem::replace(&mut self.doubt, open);
            self.fail();
            self.doubt = doubt;
        }
    }

    /// The shell cannot read what follows, of which it runs nothing.
    pub(super) fn refuse(&mut self, token: Option<&ShellToken>) {
        let place = match token {
            Some(ShellToken::Broken) => "at something that nothing closes, or that its shell does not know".to_owned(),
            Some(token) if let Some(word) = token.keyword() => {
                format!("at `{}`", shown(&[Some(word.to_owned())]))
            }
            Some(ShellToken::Open | ShellToken::Close) => "at a parenthesis".to_owned(),
            _ => "before it is whole".to_owned(),
        };
        if self.ending.is_over {
            return;
        }
        // bash goes on where it is a file that it reads with `.`.
        if self.sources > 0 && self.state.is_bash() {
            return self.forget_all();
        }
        let why = format!("a syntax error ends its script {place}");
        if self.doubt == Doubt::Sure {
            let ends = EntryProblem::EndsBefore("its program".to_owned(), why.clone());
            self.ending.problem.get_or_insert(ends);
        }
        self.end(why);
    }

    /// `set -e`, or a trap of `ERR` that ends the script: a command fails, and nobody asks.
    pub(super) fn fail(&mut self) {
        let flags = &self.state.flags;
        let ends = match (flags.contains(&'e'), flags.contains(&ERROR_TRAP)) {
            (true, _) => "and `set -e` is set",
            (false, true) => "and a trap ends its script",
            (false, false) => return,
        };
        if !self.is_tested {
            self.end(format!("`{}` fails, {ends}", self.failed));
        }
    }

    /// A program would be started by words that come behind the end.
    pub(super) fn note_unreached(&mut self, words: &[Option<String>]) {
        let program = shown(words.get(..1).unwrap_or_default());
        let ending = &mut self.ending;
        match (ending.is_over, &ending.why, &ending.may) {
            (true, Some(why), _) => {
                let ends = EntryProblem::EndsBefore(program, why.clone());
                ending.problem.get_or_insert(ends);
            }
            (false, _, Some(why)) => {
                let whether = format!("only a run could tell whether the container's command starts {program}");
                let said = format!("{whether}: it may be that {why}");
                ending.doubt.get_or_insert(said);
            }
            _ => {}
        }
    }

    /// What comes of a script that starts no program for sure.
    fn conclude(&mut self) {
        let ending = &mut self.ending;
        if ending.problem.is_some() || ending.doubt.is_some() {
            return;
        }
        let fails = ending.is_over && ending.success == Some(false);
        match (&self.last, &ending.missing, &ending.passed) {
            (Some(last), ..) if !self.begun && !self.last_asks => {
                let program = shown(last.words.get(..1).unwrap_or_default());
                ending.doubt = Some(format!(
                    "only a run could tell whether the container's command starts {program}"
                ));
            }
            (Some(last), ..) if self.is_beside => {
                let program = shown(last.words.get(..1).unwrap_or_default());
                ending.doubt = Some(format!(
                    "only a run could tell how far {program} comes: its script ends beside it, and the container with that"
                ));
            }
            (Some(_), ..) => {}
            (None, ..) if fails && ending.why.is_some() => {
                let why = ending.why.as_deref().unwrap_or_default();
                ending.problem = Some(EntryProblem::EndsBefore("a program".to_owned(), why.to_owned()));
            }
            // Who goes on without it, and well, means to.
            (None, Some(program), _) if self.status != Some(true) => {
                ending.problem = Some(EntryProblem::EndsBefore(
                    program.clone(),
                    "it is not in the image".to_owned(),
                ));
            }
            (None, _, Some(program)) => {
                ending.problem = Some(EntryProblem::EndsBefore(
                    program.clone(),
                    "it passes it over".to_owned(),
                ));
            }
            (None, _, None) => {
                let may = ending.may.as_ref();
                ending.doubt = may.map(|why| {
                    format!("only a run could tell what the container's command starts: it may be that {why}")
                });
            }
        }
    }

    /// What is left for the end of the script: `trap COMMAND EXIT`, where no program has run.
    pub(super) fn finish(&mut self) {
        if let Some(text) = self.at_exit.take().filter(|_| self.last.is_none()) {
            self.ending.is_over = false;
            self.doubt = Doubt::Sure;
            self.script(&text);
        }
        self.conclude();
    }

    /// A command as it is shown once it fails.
    pub(super) fn remember(&mut self, words: &[Option<String>]) {
        self.failed = shown(words);
    }
}

impl ScriptEnding {
    /// A program is certainly not started.
    pub(super) fn pass_over(&mut self, words: &[Option<String>]) {
        self.passed
            .get_or_insert_with(|| shown(words.get(..1).unwrap_or_default()));
    }

    /// Whether only a run could tell whether it has come.
    pub(super) fn is_doubtful(&self) -> bool {
        self.may.is_some()
    }

    /// A program is not there to be started.
    pub(super) fn miss(&mut self, words: &[Option<String>]) {
        self.missing
            .get_or_insert_with(|| shown(words.get(..1).unwrap_or_default()));
    }
}

fn shown(words: &[Option<String>]) -> String {
    let words: Vec<&str> = words.iter().map(|word| word.as_deref().unwrap_or("…")).collect();
    let mut text: String = words.join(" ").chars().take(SHOWN + 1).collect();
    if text.chars().count() > SHOWN {
        text.pop();
        text.push('…');
    }
    escape::escape_bytes(text.as_bytes())
}
