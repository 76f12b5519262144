//! The end of a script, where it comes before a program that it would start.
//!
//! Programs that it runs are taken to succeed: who writes `set -e` or `|| exit 1` behind one means it to.

use image_linkage::escape;

use super::script_run::{Doubt, ScriptRun, Success};
use crate::judge::facts::entry_problem::EntryProblem;

/// Whether and why a script comes to its end.
#[derive(Debug, Clone, Default)]
pub(super) struct ScriptEnding {
    /// Whether it has come to it.
    pub is_over: bool,
    /// Why it has, where what follows would start something else.
    why: Option<String>,
    /// Why it may have.
    may: Option<String>,
    /// What it says of its success there.
    pub success: Success,
    /// What that comes to, once there is a program that is not reached.
    pub problem: Option<EntryProblem>,
    /// The same for one of which only a run could tell.
    pub doubt: Option<String>,
}

/// The bytes of a command that are shown.
const SHOWN: usize = 60;

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
        self.ending.success = is_known.then_some(!fails);
    }

    /// `set -e`: a command fails, and nobody asks.
    pub(super) fn fail(&mut self) {
        if self.state.flags.contains(&'e') && !self.is_tested {
            self.end(format!("`{}` fails, and `set -e` is set", self.failed));
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

    /// What is left for the end of the script: `trap COMMAND EXIT`, where no program has run.
    pub(super) fn finish(&mut self) {
        if let Some(text) = self.at_exit.take().filter(|_| self.last.is_none()) {
            self.ending.is_over = false;
            self.doubt = Doubt::Sure;
            self.script(&text);
        }
    }

    /// A command as it is shown once it fails.
    pub(super) fn remember(&mut self, words: &[Option<String>]) {
        self.failed = shown(words);
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
