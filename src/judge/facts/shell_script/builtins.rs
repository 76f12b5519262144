//! The commands of the shell itself that change or ask for variables.

use image_linkage::escape;

use super::{Doubt, ScriptRun, Success, UNKNOWN, VariableValue};

impl ScriptRun<'_> {
    pub(super) fn declare(&mut self, by: &str, words: &[Option<String>]) {
        let options: Vec<&str> = words
            .iter()
            .flatten()
            .map(String::as_str)
            .take_while(|word| word.starts_with(['-', '+']))
            .collect();
        let has = |sign: char, letter: char| {
            options
                .iter()
                .any(|option| option.starts_with(sign) && option.contains(letter))
        };
        let exports = by == "export" && !options.contains(&"-n") || has('-', 'x');
        if by != "export" && has('-', 'n') {
            // A name that stands for another variable.
            self.forget_all();
        }
        for word in words.get(options.len()..).unwrap_or_default() {
            let Some(word) = word else {
                self.forget_all();
                continue;
            };
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.as_str(), None),
            };
            if let Some(value) = value {
                let appended = name.strip_suffix('+');
                let value = match (appended, appended.map(|name| self.value(name))) {
                    (_, Some(VariableValue::Text(before))) => VariableValue::Text(before + value),
                    (None, _) | (_, Some(VariableValue::Unset)) => VariableValue::Text(value.to_owned()),
                    _ => VariableValue::Unknown,
                };
                // What a word held that is not known was marked so.
                let value = match value {
                    VariableValue::Text(text) if text.contains(UNKNOWN) => VariableValue::Unknown,
                    other => other,
                };
                self.assign(appended.unwrap_or(name), value);
            }
            if exports {
                self.export(name.strip_suffix('+').unwrap_or(name));
            } else if by == "export" || has('+', 'x') {
                self.state.variables.insert(name.to_owned(), VariableValue::Unknown);
            }
        }
    }

    pub(super) fn unset_all(&mut self, names: &[Option<String>]) {
        if names.contains(&None) {
            self.forget_all();
        }
        for name in names.iter().flatten().filter(|name| !name.starts_with('-')) {
            self.unset(name);
        }
    }

    pub(super) fn set(&mut self, words: &[Option<String>]) {
        let end = words.iter().position(|word| word.as_deref() == Some("--"));
        if let Some(arguments) = end.and_then(|end| words.get(end + 1..)) {
            self.state.arguments = arguments.to_vec();
        }
        for word in words.iter().flatten() {
            match word.as_str() {
                "allexport" => self.state.exports_all = true,
                "nounset" => self.state.must_be_set = true,
                letters if letters.starts_with(['-', '+']) && !letters.starts_with("--") => {
                    let is_on = letters.starts_with('-');
                    let flags = [('a', &mut self.state.exports_all), ('u', &mut self.state.must_be_set)];
                    for (_, flag) in flags.into_iter().filter(|(letter, _)| letters.contains(*letter)) {
                        *flag = is_on;
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn source(&mut self, words: &[Option<String>]) -> Success {
        let Some(name) = words.first().and_then(Option::as_deref) else {
            if self.files.some_part_sets() {
                self.forget_all();
            }
            return None;
        };
        // A name without a slash is searched for along PATH, by bash in the working directory too.
        let path = Some(name)
            .filter(|name| name.contains('/'))
            .and_then(|name| self.path(name));
        let Some(path) = path else {
            self.forget_all();
            return None;
        };
        match (self.files.text(&path), self.files.test('e', &path)) {
            (Some(text), _) => {
                let before = std::mem::replace(&mut self.returned, Doubt::Sure);
                self.script(&text);
                self.returned = before;
            }
            (None, Some(false)) => return Some(self.read_nothing(&path, "is not in the image")),
            (None, _) if self.files.test('r', &path) == Some(false) => {
                return Some(self.read_nothing(&path, "may not be read by its user"));
            }
            (None, _) => self.forget_all(),
        }
        Some(true)
    }

    /// A file that cannot be read is the end of a script, but for bash.
    fn read_nothing(&mut self, path: &str, why: &str) -> bool {
        if !self.state.goes_on_without {
            self.forget_all();
            if self.doubt == Doubt::Sure {
                let path = escape::escape_bytes(path.as_bytes());
                self.is_over = true;
                self.problem = Some(format!("the container's command stops at {path}, which {why}"));
            }
        }
        false
    }

    /// A path from the root, where the working directory is known.
    pub(super) fn path(&self, path: &str) -> Option<String> {
        if path.starts_with('/') {
            return Some(path.to_owned());
        }
        let directory = self.state.directory.as_deref()?;
        Some(format!("{}/{path}", directory.trim_end_matches('/')))
    }

    /// `cd [-L|-P] [DIRECTORY]`: the path stays as it is written, but for `.` and `..`.
    pub(super) fn change_directory(&mut self, words: &[Option<String>]) -> Success {
        let mut words = words
            .iter()
            .skip_while(|word| matches!(word.as_deref(), Some("-L" | "--")));
        let to = match words.next() {
            None => match self.value("HOME") {
                VariableValue::Text(home) => Some(home),
                _ => None,
            },
            Some(word) => word.clone().filter(|word| !word.starts_with('-')),
        };
        let is_searched = self.value("CDPATH") != VariableValue::Unset;
        let to = to.filter(|to| !is_searched || to.starts_with(['/', '.']));
        let to = to.and_then(|to| self.path(&to)).map(|to| without_dots(&to));
        // One that is not in the image may have been made, or mounted.
        let to = to.filter(|to| self.files.test('d', to) == Some(true));
        if self.doubt == Doubt::Sure || to != self.state.directory {
            self.state.directory = to.filter(|_| self.doubt == Doubt::Sure);
        }
        self.state.directory.is_some().then_some(true)
    }

    pub(super) fn test(&self, words: &[Option<String>]) -> Success {
        let words: Option<Vec<&str>> = words.iter().map(Option::as_deref).collect();
        let mut words = words?;
        if words.last() == Some(&"]") {
            words.pop();
        }
        let (negates, words) = match words.split_first() {
            Some((&"!", rest)) => (true, rest.to_vec()),
            _ => (false, words),
        };
        let holds = match words.as_slice() {
            ["-n", text] | [text] => Some(!text.is_empty()),
            ["-z", text] => Some(text.is_empty()),
            [one, "=" | "==", other] => Some(one == other),
            [one, "!=", other] => Some(one != other),
            [one, sign @ ("-eq" | "-ne"), other] => {
                let numbers: Option<(i64, i64)> = one.parse().ok().zip(other.parse().ok());
                numbers.map(|(one, other)| (one == other) == (*sign == "-eq"))
            }
            [sign, path] => {
                let mut signs = sign.strip_prefix('-')?.chars();
                let letter = signs.next().filter(|_| signs.next().is_none())?;
                self.files.test(letter, &self.path(path)?)
            }
            _ => None,
        };
        if words.iter().any(|word| word.contains(UNKNOWN)) {
            return None;
        }
        holds.map(|holds| holds != negates)
    }
}

/// A path without `.`, and with each `..` taken together with what stands before it.
fn without_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}
