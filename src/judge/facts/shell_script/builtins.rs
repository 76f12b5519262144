//! The commands of the shell itself that change or ask for variables.

use super::{ScriptRun, Success, UNKNOWN, VariableValue};

impl ScriptRun<'_> {
    pub(super) fn declare(&mut self, by: &str, words: &[Option<String>]) {
        let options: Vec<&str> = words
            .iter()
            .flatten()
            .map(String::as_str)
            .take_while(|word| word.starts_with('-'))
            .collect();
        let exports = by == "export" && !options.contains(&"-n") || options.iter().any(|option| option.contains('x'));
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
            } else if by == "export" {
                self.state.variables.insert(name.to_owned(), VariableValue::Unknown);
            }
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
        let path = words.first().and_then(Option::as_deref);
        let Some(path) = path else {
            if self.files.some_part_sets() {
                self.forget_all();
            }
            return None;
        };
        match (self.files.text(path), self.files.test('e', path)) {
            (Some(text), _) => self.script(&text),
            (None, Some(false)) => return Some(false),
            (None, _) => self.forget_all(),
        }
        Some(true)
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
            [sign, path] => {
                let mut signs = sign.strip_prefix('-')?.chars();
                let letter = signs.next().filter(|_| signs.next().is_none())?;
                self.files.test(letter, path)
            }
            _ => None,
        };
        if words.iter().any(|word| word.contains(UNKNOWN)) {
            return None;
        }
        holds.map(|holds| holds != negates)
    }
}
