//! Whether the module of a command comes to its end: what ends it is followed from line to line, with the conditions that
//! an image decides. Calls of others are taken to succeed, and so is what stands in `try`.

use std::collections::{BTreeMap, BTreeSet};

use super::source_names::{names_in, rebound_names};
use super::source_text::OPENERS;
use super::source_values::{KnownNames, PythonSurroundings, PythonValue, value_of};
use super::source_words::{SourceString, SourceWords, read_words};

/// An end of a module in front of the rest of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::judge::facts) struct ModuleEnd {
    /// What ends it, as the begin of a sentence.
    pub why: String,
    /// Whether it does, or only a run could tell.
    pub is_sure: bool,
}

/// The lines of one module that are followed, those of functions each time.
const LINES: usize = 4_000;
/// The lines of a module from which on it is not followed.
const ALL_LINES: usize = 20_000;
/// The functions of one module that are followed.
const FUNCTIONS: usize = 200;
/// The bytes of a module beside the script that is followed, and the lines that it counts for.
const MODULE: (usize, usize) = (64 << 10, 200);
/// How deep functions are followed in each other.
const CALLS: usize = 6;
/// How many modules are followed in each other.
const IMPORTS: usize = 2;
/// The letters of a statement that are shown.
const SHOWN: usize = 60;
/// What ends a process, or puts another program in its place.
pub(super) const ENDS: [&str; 8] = [
    "sys.exit(",
    "exit(",
    "quit(",
    "os._exit(",
    "os.abort(",
    "os.exec",
    "raise ",
    "raise\n",
];
/// What makes no statement out of a part of a line, or leaves open whether it runs.
const PARTIAL: [&str; 5] = [" if ", " and ", " or ", "lambda", " for "];
/// What fails without the file that it is given.
const READS: [&str; 4] = ["open(", "os.listdir(", "os.scandir(", "os.chdir("];

/// How a mode begins in which a file is made where it is not there, and what else it may hold.
const WRITES: [&str; 7] = ["'w", "\"w", "'a", "\"a", "'x", "\"x", "+"];

/// The signs behind the path that are looked at for a mode.
const MODE: usize = 200;

/// What ends a module before something follows that it would run.
pub(in crate::judge::facts) fn end_of_module(text: &str, process: &dyn PythonSurroundings) -> Option<ModuleEnd> {
    follow((text, "__main__"), process, 0, |run| run.found)
}

/// Whether a module ends with a failure for sure.
pub(in crate::judge::facts) fn fails_as_module(text: &str, process: &dyn PythonSurroundings) -> bool {
    // `sys.exit(main())` says what that comes to.
    let is_failure = |why: &str| match why.split_once("exit(") {
        Some((_, status)) => status.starts_with(['1', '2', '3', '4', '5', '6', '7', '8', '9', '"', '\'']),
        None => !why.contains("`os.exec") && !why.contains("`while"),
    };
    follow((text, "__main__"), process, 0, |run| {
        run.ended.is_some_and(|why| is_failure(&why))
    })
}

fn follow<T>(
    (text, name): (&str, &str),
    process: &dyn PythonSurroundings,
    imports: usize,
    answer: impl FnOnce(ModuleRun<'_, '_>) -> T,
) -> T {
    let words = read_words(text);
    let mut run = ModuleRun {
        text,
        words: &words,
        process,
        names: KnownNames::from([("__name__".to_owned(), Some(PythonValue::Text(name.to_owned())))]),
        rebound: rebound_names(&words),
        functions: BTreeMap::new(),
        is_open: false,
        is_caught: false,
        is_left: false,
        ended: None,
        may_end: None,
        found: None,
        calls: 0,
        imports,
        lines_left: LINES >> imports,
    };
    if words.lines.len() <= ALL_LINES {
        run.block(0, words.lines.len());
    }
    answer(run)
}

struct ModuleRun<'r, 't> {
    text: &'t str,
    words: &'r SourceWords<'t>,
    process: &'r dyn PythonSurroundings,
    names: KnownNames,
    /// Those that more than one line may set: what such a one is depends on the way.
    rebound: BTreeSet<String>,
    /// The line of each function.
    functions: BTreeMap<String, usize>,
    /// Whether only a run could tell if what is followed runs.
    is_open: bool,
    /// Whether something takes failures.
    is_caught: bool,
    /// Whether a `return` has left the function that is followed.
    is_left: bool,
    ended: Option<String>,
    may_end: Option<String>,
    found: Option<ModuleEnd>,
    calls: usize,
    /// How many modules import each other down to this one.
    imports: usize,
    lines_left: usize,
}

impl ModuleRun<'_, '_> {
    /// Follows the lines from one number to another, all of one indentation but for what stands in them.
    fn block(&mut self, from: usize, to: usize) {
        let mut at = from;
        while at < to && self.found.is_none() && !self.is_left && self.lines_left > 0 {
            self.lines_left -= 1;
            let end = self.block_end(at, to);
            at = self.line(at, end, to);
        }
    }

    /// The number of the line behind the block that belongs to a line.
    fn block_end(&self, at: usize, to: usize) -> usize {
        let own = self.indent(at).unwrap_or_default();
        let mut next = at + 1;
        while next < to && self.indent(next).is_none_or(|indent| indent > own) {
            next += 1;
        }
        next
    }

    /// How far a line is indented; `None` where nothing stands in it.
    fn indent(&self, number: usize) -> Option<usize> {
        let line = self.words.line(self.text, number);
        let code = line.trim_start();
        (!code.is_empty() && !code.starts_with('#')).then(|| line.len() - code.len())
    }

    /// Follows one line with its block; the number of the next.
    fn line(&mut self, at: usize, end: usize, to: usize) -> usize {
        let code = self.words.line(&self.words.code, at).trim_start();
        let first = code.split(|sign: char| !(sign == '_' || sign.is_alphanumeric())).next();
        match first.unwrap_or_default() {
            "if" => return self.conditional(at, to),
            "def" => {
                let name = code.strip_prefix("def ").and_then(|rest| rest.split('(').next());
                // What is decorated may be another function, and what yields runs when it is asked to.
                let before = at
                    .checked_sub(1)
                    .map_or("", |before| self.words.line(&self.words.code, before));
                let is_plain = !before.trim_start().starts_with('@') && !self.range(at, end).contains("yield");
                let name = name.filter(|_| is_plain && self.functions.len() < FUNCTIONS);
                self.functions.extend(name.map(|name| (name.trim().to_owned(), at)));
            }
            // What is decorated or made so is called by others; the last is a line of blanks.
            "class" | "async" | "match" | "except" | "elif" | "else" | "" => {}
            "finally" => self.suite(at, end),
            "with" => {
                self.reads(at);
                let swallows = code.contains("suppress") || code.contains("raises");
                let outer = self.is_caught;
                self.is_caught |= swallows;
                self.suite(at, end);
                self.is_caught = outer;
            }
            "try" => {
                let outer = std::mem::replace(&mut self.is_caught, true);
                if self.takes_exits(end) {
                    self.in_doubt(|run| run.suite(at, end));
                } else {
                    self.suite(at, end);
                }
                self.is_caught = outer;
            }
            "for" => {
                self.reads(at);
                self.in_doubt(|run| run.suite(at, end));
            }
            "while" => self.repeat(at, end),
            _ => self.statements(at, 0),
        }
        end
    }

    fn in_doubt(&mut self, act: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.is_open, true);
        act(self);
        // What may have left the function leaves open what follows.
        self.is_open = outer || std::mem::take(&mut self.is_left);
    }

    /// Whether what stands behind a `try` takes the end of the process, too.
    fn takes_exits(&self, mut at: usize) -> bool {
        while let code = self.words.line(&self.words.code, at).trim_start()
            && code.starts_with("except")
        {
            if code.starts_with("except:") || code.contains("BaseException") || code.contains("SystemExit") {
                return true;
            }
            at = self.block_end(at, self.words.lines.len());
        }
        false
    }

    /// `if`, `elif` and `else`; the number of the line behind them.
    fn conditional(&mut self, from: usize, to: usize) -> usize {
        let mut chosen = Some(false);
        let mut at = from;
        let mut may_leave = false;
        loop {
            let end = self.block_end(at, to);
            let code = self.words.line(&self.words.code, at).trim_start();
            let holds = if code.starts_with("else") {
                Some(true)
            } else {
                self.holds(at)
            };
            match (chosen, holds) {
                (Some(true), _) | (_, Some(false)) => {}
                (Some(false), Some(true)) => self.suite(at, end),
                _ => {
                    let outer = std::mem::replace(&mut self.is_open, true);
                    self.suite(at, end);
                    self.is_open = outer;
                    may_leave |= std::mem::take(&mut self.is_left);
                }
            }
            chosen = match (chosen, holds) {
                (Some(true), _) | (Some(false), Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
            at = end;
            let next = self.words.line(&self.words.code, at).trim_start();
            let goes_on = at < to && (next.starts_with("elif") || next.starts_with("else"));
            if !goes_on || self.indent(at) != self.indent(from) {
                break;
            }
        }
        self.is_open |= may_leave;
        at
    }

    /// `while CONDITION:`
    fn repeat(&mut self, at: usize, end: usize) {
        let holds = self.holds(at);
        if holds == Some(false) {
            return;
        }
        let body = self.range(at + 1, end);
        let ends = ["break", "return", "raise", "exit("]
            .iter()
            .any(|word| body.contains(word));
        if holds == Some(true) && !ends {
            self.suite(at, end);
            let is_endless = ["while True", "while 1"];
            let code = self.words.line(&self.words.code, at).trim_start();
            let open = !is_endless.iter().any(|head| code.starts_with(head));
            self.end_in_doubt(open, at, 0);
        } else {
            self.in_doubt(|run| run.suite(at, end));
        }
    }

    fn range(&self, from: usize, to: usize) -> &str {
        let place = |number: usize| self.words.lines.get(number).copied().unwrap_or(self.text.len());
        self.words.code.get(place(from)..place(to)).unwrap_or_default()
    }

    /// What the condition of a line comes to: `if CONDITION:`, `while CONDITION:`.
    fn holds(&self, at: usize) -> Option<bool> {
        let line = self.words.line(self.text, at);
        let colon = self.colon(at)?;
        let head = line.get(..colon)?.trim_start();
        let mut words = ["if", "elif", "while"].iter();
        let condition = words.find_map(|word| head.strip_prefix(word))?;
        value_of(condition, &self.names, self.process).map(|value| value.holds())
    }

    /// Where the colon of a compound statement stands in its line.
    fn colon(&self, at: usize) -> Option<usize> {
        let code = self.words.line(&self.words.code, at);
        let mut depth = 0_usize;
        let mut signs = code.char_indices();
        signs.find_map(|(place, sign)| {
            match sign {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            (sign == ':' && depth == 0).then_some(place)
        })
    }

    /// What stands behind a colon: in the same line, or in the block below.
    fn suite(&mut self, at: usize, end: usize) {
        let Some(colon) = self.colon(at) else { return };
        let code = self.words.line(&self.words.code, at);
        if code.get(colon + 1..).is_some_and(|rest| rest.trim().is_empty()) {
            self.block(at + 1, end);
        } else {
            self.statements(at, colon + 1);
        }
    }

    /// The simple statements of a line from one of its bytes on.
    fn statements(&mut self, at: usize, from: usize) {
        let code = self.words.line(&self.words.code, at);
        let mut start = from;
        for part in code.get(from..).unwrap_or_default().split(';') {
            if self.is_left || self.found.is_some() {
                return;
            }
            self.statement(at, (start, start + part.len()));
            start += part.len() + 1;
        }
    }

    fn statement(&mut self, at: usize, (from, to): (usize, usize)) {
        let words = self.words;
        let line = words.line(&words.code, at);
        let part = line.get(from..to).unwrap_or_default();
        let (code, blank) = (part.trim(), part.len() - part.trim_start().len());
        if code.is_empty() || code == "pass" || code.starts_with('@') {
            return;
        }
        let gets = code.starts_with("import ")
            || code.starts_with("from ")
            || OPENERS.iter().any(|opener| code.contains(opener));
        if self.note_rest(gets) {
            return;
        }
        if code == "return" || code.starts_with("return ") || code.starts_with("return(") {
            self.called(code);
            self.is_left = true;
            return;
        }
        if self.is_caught {
            // Whatever the module does, something goes on.
        } else if let Some(module) = code.strip_prefix("import ").or_else(|| code.strip_prefix("from ")) {
            self.imported(module.split([' ', ',', '.']).next().unwrap_or_default());
        }
        // A text at the end of a line is no part of its code.
        let start = words.lines.get(at).copied().unwrap_or_default();
        let last = self
            .strings(at)
            .last()
            .map(|string| string.start + string.text.len() + 2);
        let last = last
            .filter(|_| to == line.len())
            .unwrap_or_default()
            .saturating_sub(start);
        let raw = words.line(self.text, at).get(from + blank..to.max(last));
        let raw = raw.unwrap_or_default().trim_end();
        self.called(code);
        if self.ended.is_some() {
            return;
        }
        let is_failure = code == "raise" || code.starts_with("raise ");
        let exits = ENDS.iter().any(|end| code.starts_with(end));
        if (exits && !is_failure) || (is_failure && !self.is_caught) {
            // `exit() if … else …` is a condition, too.
            self.end_in_doubt(code.contains(" else "), at, from + blank);
        } else if let Some(condition) = raw.strip_prefix("assert ") {
            // A message that is a text is blank in the code, which ends at the comma in front of it.
            let condition = condition.split_once(", ").map_or(condition, |(condition, _)| condition);
            let condition = condition.trim_end_matches(',');
            let holds = value_of(condition, &self.names, self.process).map(|value| value.holds());
            if holds != Some(true) && !self.is_caught {
                self.end_in_doubt(holds.is_none(), at, from + blank);
            }
        } else {
            self.reads(at);
            self.takes_argument(at, code);
            self.assign(code, raw);
        }
    }

    /// Notes that something would follow the end of the module; whether that has come.
    fn note_rest(&mut self, gets: bool) -> bool {
        let (is_sure, why) = match (&self.ended, &self.may_end) {
            (Some(why), _) => (true, why),
            (None, Some(why)) if gets => (false, why),
            _ => return false,
        };
        let why = why.clone();
        self.found = Some(ModuleEnd { why, is_sure });
        true
    }

    /// The module ends at a statement.
    fn end(&mut self, at: usize, from: usize) {
        let line = self.words.line(self.text, at).get(from..).unwrap_or_default();
        let mut shown: String = line
            .trim()
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(SHOWN + 1)
            .collect();
        if shown.chars().count() > SHOWN {
            shown.pop();
            shown.push('…');
        }
        self.end_by(format!("`{shown}` comes first"));
    }

    /// The same, where `doubt` says that only a run could tell, or what is followed does.
    fn end_in_doubt(&mut self, doubt: bool, at: usize, from: usize) {
        let outer = self.is_open;
        self.is_open |= doubt;
        self.end(at, from);
        self.is_open = outer;
    }

    fn end_by(&mut self, why: String) {
        let place = if self.is_open {
            &mut self.may_end
        } else {
            &mut self.ended
        };
        place.get_or_insert(why);
    }

    /// Follows a function of the module that a statement calls.
    fn called(&mut self, code: &str) {
        let called = |name: &str| {
            code.match_indices(name).any(|(at, _)| {
                let before = code.get(..at).unwrap_or_default();
                let after = code.get(at + name.len()..).unwrap_or_default();
                after.starts_with('(')
                    && !before.ends_with(|sign: char| sign == '_' || sign == '.' || sign.is_alphanumeric())
            })
        };
        let Some((_, line)) = self.functions.iter().find(|(name, _)| called(name)) else {
            return;
        };
        if self.calls >= CALLS {
            return;
        }
        let (line, names, open) = (*line, self.names.clone(), self.is_open);
        for parameter in names_in(self.words.line(&self.words.code, line)) {
            self.names.insert(parameter.to_owned(), None);
        }
        self.calls += 1;
        self.suite(line, self.block_end(line, self.words.lines.len()));
        self.calls -= 1;
        (self.names, self.is_open, self.is_left) = (names, open, false);
    }

    /// Follows a module beside the script.
    fn imported(&mut self, name: &str) {
        let text = (self.imports < IMPORTS && self.lines_left > 0).then(|| self.process.module_text(name));
        let Some(text) = text.flatten().filter(|text| text.len() <= MODULE.0) else {
            return;
        };
        self.lines_left = self.lines_left.saturating_sub(MODULE.1);
        let ends = follow((&text, name), self.process, self.imports + 1, |run| {
            (run.ended, run.may_end)
        });
        if let Some(why) = ends.0 {
            self.end_by(format!("in {name}.py {why}"));
        } else if let Some(why) = ends.1 {
            self.may_end.get_or_insert(format!("in {name}.py {why}"));
        }
    }

    /// A file that a line reads and that is not there.
    fn reads(&mut self, at: usize) {
        let code = self.words.line(&self.words.code, at);
        if self.is_caught || PARTIAL.iter().any(|word| code.contains(word)) {
            return;
        }
        let mut strings = self.strings(at).iter().filter(|string| string.is_plain);
        let missing = strings.find(|string| {
            let before = self.words.code_before(string);
            let is_path = before.ends_with("Path(");
            if !is_path && !READS.iter().any(|call| before.ends_with(call)) {
                return false;
            }
            let rest = self.text.get(string.start + string.text.len() + 2..);
            let rest = rest.unwrap_or_default();
            let is_read = if is_path {
                [").read_text(", ").read_bytes("]
                    .iter()
                    .any(|call| rest.starts_with(call))
            } else {
                let mode: String = rest.chars().take(MODE).take_while(|sign| *sign != ')').collect();
                !WRITES.iter().any(|sign| mode.contains(sign))
            };
            is_read && self.process.file_test('e', string.text) == Some(false)
        });
        if let Some(missing) = missing {
            let why = format!("{} is not in the image", missing.text);
            self.end_by(why);
        }
    }

    /// `sys.argv[N]` that nobody gives, and options that have to be given.
    fn takes_argument(&mut self, at: usize, code: &str) {
        let Some(arguments) = self.process.arguments() else {
            return;
        };
        let asked = code.split("sys.argv[").nth(1).and_then(|rest| rest.split(']').next());
        let asked: Option<usize> = asked.and_then(|index| index.trim().parse().ok());
        if self.is_caught || PARTIAL.iter().any(|word| code.contains(word)) {
            return;
        }
        let number = ["int(os.environ.get(", "int(os.getenv(", "float(os.getenv("]
            .iter()
            .any(|call| code.contains(call));
        let is_unset = |name: &str| self.process.variable(name) == Some(None);
        if number && !code.contains(',') && self.strings(at).first().is_some_and(|string| is_unset(string.text)) {
            return self.end_by(format!("`{}` is no number", code.trim()));
        }
        if asked.is_some_and(|index| index >= arguments.len()) {
            return self.end_by(format!("`{code}` finds no such argument"));
        }
        let is_known = self.may_end.is_some() || !code.contains(".parse_args()");
        if !is_known && arguments.len() < 2 && self.demands_option() {
            self.end_in_doubt(true, at, 0);
        }
    }

    /// The texts in quotes of one line.
    fn strings(&self, at: usize) -> &[SourceString<'_>] {
        let strings = &self.words.strings;
        let from = strings.partition_point(|string| string.line < at);
        let to = strings.partition_point(|string| string.line <= at);
        strings.get(from..to).unwrap_or_default()
    }

    /// Whether argparse is told of an argument that has to be given.
    fn demands_option(&self) -> bool {
        let mut strings = self.words.strings.iter();
        strings.any(|string| {
            let before = self.words.code.get(..string.start).unwrap_or_default();
            if !before.ends_with(".add_argument(") {
                return false;
            }
            let line = self.words.line(&self.words.code, string.line);
            let is_optional = string.text.starts_with('-') && !line.contains("required=True");
            !is_optional && !line.contains("nargs=") && !self.words.is_spent()
        })
    }

    /// `NAME = VALUE`
    fn assign(&mut self, code: &str, raw: &str) {
        let Some(at) = code.find('=').filter(|at| code.get(at + 1..at + 2) != Some("=")) else {
            return;
        };
        let target = code.get(..at).unwrap_or_default().trim();
        let name = target.split(':').next().unwrap_or_default().trim();
        let is_name = !name.is_empty() && name.chars().all(|sign| sign == '_' || sign.is_alphanumeric());
        let value = raw.get(at + 1..).unwrap_or_default();
        // A list may be added to by any call.
        let is_kept = |value: &PythonValue| !matches!(value, PythonValue::Several(_) | PythonValue::Environment);
        let is_sure = is_name && !self.is_open && !self.is_caught && !self.rebound.contains(name);
        let value = value_of(value, &self.names, self.process).filter(is_kept);
        if let Some(value) = value.filter(|_| is_sure) {
            self.names.insert(name.to_owned(), Some(value));
        }
    }
}
