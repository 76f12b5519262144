//! The variables of a script: what is known of each, and what a word comes to with them.

use super::{Doubt, ScriptRun, VariableValue};
use crate::judge::facts::shell_words::{Alternative, WordPart};

impl ScriptRun<'_> {
    pub(super) fn value(&self, name: &str) -> VariableValue {
        if let Ok(number) = name.parse::<usize>() {
            let argument = number.checked_sub(1).map(|at| self.state.arguments.get(at));
            return match argument {
                // `$0` is the script's own name.
                None | Some(Some(None)) => VariableValue::Unknown,
                Some(Some(Some(text))) => VariableValue::Text(text.clone()),
                Some(None) => VariableValue::Unset,
            };
        }
        // The shell keeps it, whatever its environment says.
        if name == "PWD" {
            return self
                .state
                .directory
                .clone()
                .map_or(VariableValue::Unknown, VariableValue::Text);
        }
        let unset = if SET_AT_START.contains(&name) {
            VariableValue::Unknown
        } else {
            VariableValue::Unset
        };
        self.state.variables.get(name).cloned().unwrap_or(unset)
    }

    pub(super) fn assign(&mut self, name: &str, value: VariableValue) {
        let state = &mut self.state;
        let is_known = state.variables.contains_key(name) || state.marked.iter().any(|marked| marked == name);
        if !is_known && !state.exports_all {
            state.local.push(name.to_owned());
        }
        if state.exports_all {
            state.local.retain(|local| local != name);
        }
        let value = match self.doubt {
            // Where both ways come to the same, it is known all the same.
            Doubt::Open if self.value(name) != value => VariableValue::Unknown,
            _ => value,
        };
        self.state.variables.insert(name.to_owned(), value);
    }

    /// A variable is no more, and what is set under its name is not exported.
    pub(super) fn unset(&mut self, name: &str) {
        if self.doubt != Doubt::Sure {
            self.assign(name, VariableValue::Unknown);
            self.doubt_export(name);
            return;
        }
        self.state.variables.remove(name);
        for list in [&mut self.state.local, &mut self.state.marked, &mut self.state.doubtful] {
            list.retain(|known| known != name);
        }
        // It may be one that the engine would set.
        self.state.variables.insert(name.to_owned(), VariableValue::Unset);
        self.state.local.push(name.to_owned());
    }

    pub(super) fn export(&mut self, name: &str) {
        let is_local = self.state.local.iter().any(|local| local == name);
        let is_new = is_local || !self.state.variables.contains_key(name);
        match self.doubt {
            Doubt::Sure => {
                self.state.local.retain(|local| local != name);
                self.state.doubtful.retain(|doubtful| doubtful != name);
                self.state.marked.push(name.to_owned());
            }
            _ if is_new => self.doubt_export(name),
            _ => {}
        }
    }

    fn doubt_export(&mut self, name: &str) {
        let doubtful = &mut self.state.doubtful;
        // Once: a loop is gone through until nothing new comes of it.
        if !doubtful.iter().any(|doubtful| doubtful == name) {
            doubtful.push(name.to_owned());
        }
    }

    /// From here on, nothing is known of any variable.
    pub(super) fn forget_all(&mut self) {
        for name in LOADER {
            self.state.variables.insert(name.to_owned(), VariableValue::Unknown);
            self.state.local.retain(|local| local != name);
        }
        for value in self.state.variables.values_mut() {
            *value = VariableValue::Unknown;
        }
        self.state.directory = None;
    }

    /// The variable and value of an assignment.
    pub(super) fn assigned(&self, parts: &[WordPart]) -> Option<(String, VariableValue)> {
        let (name, appends, rest) = assignment(parts)?;
        let value = match self.text(&rest) {
            Some(text) if appends => match self.value(&name) {
                VariableValue::Text(before) => VariableValue::Text(before + &text),
                VariableValue::Unset => VariableValue::Text(text),
                VariableValue::Unknown => VariableValue::Unknown,
            },
            Some(text) => VariableValue::Text(text),
            None => VariableValue::Unknown,
        };
        Some((name, value))
    }

    /// The fields that a word comes to: none, one, or all arguments.
    pub(super) fn fields(&self, parts: &[WordPart], is_quoted: bool) -> Vec<Option<String>> {
        if parts == [WordPart::Arguments] {
            return self.state.arguments.clone();
        }
        // An assignment in the words of `export` keeps its name, whatever its value.
        let Some(text) = self.text(parts) else {
            let name = assignment(parts).map(|(name, _, _)| format!("{name}={UNKNOWN}"));
            return vec![name];
        };
        let splits = |part: &WordPart| matches!(part, WordPart::Variable { is_quoted: false, .. });
        let is_assignment = assignment(parts).is_some();
        if !is_assignment && parts.iter().any(|part| matches!(part, WordPart::Wildcard(_))) {
            return self.file_names(parts).unwrap_or_else(|| vec![None]);
        }
        if !is_assignment && parts.iter().any(splits) {
            // What a variable holds may be a pattern too.
            if text.contains(['*', '?', '[']) {
                return vec![None];
            }
            return text
                .split_ascii_whitespace()
                .map(|field| Some(field.to_owned()))
                .collect();
        }
        if text.is_empty() && !is_quoted {
            return Vec::new();
        }
        vec![Some(text)]
    }

    /// The files that a word with wildcards stands for; the word itself where there is none.
    fn file_names(&self, parts: &[WordPart]) -> Option<Vec<Option<String>>> {
        let text = self.text(parts)?;
        let escaped = parts.iter().map(|part| match part {
            WordPart::Wildcard(sign) => Some(sign.to_string()),
            other => {
                let text = self.part(other)?;
                let signs = text.chars().flat_map(|sign| {
                    let is_special = matches!(sign, '*' | '?' | '[' | '\\');
                    is_special.then_some('\\').into_iter().chain([sign])
                });
                Some(signs.collect())
            }
        });
        let pattern: Option<Vec<String>> = escaped.collect();
        let pattern = pattern?.concat();
        // The names that come of it are written as the pattern is: only one from the root can be looked up as it stands.
        let found = text.starts_with('/').then(|| self.files.names(&pattern))??;
        if found.is_empty() {
            return Some(vec![Some(text)]);
        }
        Some(found.into_iter().map(Some).collect())
    }

    pub(super) fn text(&self, parts: &[WordPart]) -> Option<String> {
        let texts: Option<Vec<String>> = parts.iter().map(|part| self.part(part)).collect();
        Some(texts?.concat()).filter(|text| text.len() <= VALUE)
    }

    pub(super) fn part(&self, part: &WordPart) -> Option<String> {
        match part {
            WordPart::Text(text) => Some(text.clone()),
            WordPart::Unknown => None,
            WordPart::Wildcard(sign) => Some(sign.to_string()),
            WordPart::Arguments => {
                let all: Option<Vec<String>> = self.state.arguments.iter().cloned().collect();
                Some(all?.join(" "))
            }
            WordPart::Variable { name, alternative, .. } => self.variable(name, alternative.as_ref()),
        }
    }

    pub(super) fn variable(&self, name: &str, alternative: Option<&Alternative>) -> Option<String> {
        let value = self.value(name);
        let Some(other) = alternative else {
            return match value {
                VariableValue::Text(text) => Some(text),
                // Nothing is started then; that nothing is known is the careful answer.
                VariableValue::Unset => (!self.state.must_be_set).then(String::new),
                VariableValue::Unknown => None,
            };
        };
        let is_set = match &value {
            VariableValue::Text(text) => !(text.is_empty() && other.empty_counts),
            VariableValue::Unset => false,
            VariableValue::Unknown => return None,
        };
        match (is_set, other.when_set, value) {
            (true, false, VariableValue::Text(text)) => Some(text),
            (false, true, _) => Some(String::new()),
            _ => self.text(&other.parts),
        }
    }
}

/// The longest value that is followed.
const VALUE: usize = 4 << 10;
/// What stands for a part of a word that only a run could tell.
pub(super) const UNKNOWN: char = '\u{0}';
/// The variables that loaders and the driver look at.
pub(in crate::judge::facts) const LOADER: [&str; 4] = [
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "CUDA_INJECTION64_PATH",
    "NVTX_INJECTION64_PATH",
];
/// The variables that an engine or the shell sets where the image does not.
const SET_AT_START: [&str; 12] = [
    "HOME", "HOSTNAME", "PATH", "PWD", "OLDPWD", "TERM", "SHLVL", "USER", "UID", "EUID", "PPID", "RANDOM",
];

/// The name and the value of a word that is an assignment, and whether it appends.
pub(super) fn assignment(parts: &[WordPart]) -> Option<(String, bool, Vec<WordPart>)> {
    let (first, rest) = parts.split_first()?;
    let WordPart::Text(text) = first else { return None };
    let (name, value) = text.split_once('=')?;
    let appends = name.ends_with('+');
    let name = name.strip_suffix('+').unwrap_or(name);
    let mut letters = name.chars();
    let begins = letters
        .next()
        .is_some_and(|first| first == '_' || first.is_ascii_alphabetic());
    let is_name = begins && letters.all(|letter| letter == '_' || letter.is_ascii_alphanumeric());
    let value = [WordPart::Text(value.to_owned())];
    is_name.then(|| (name.to_owned(), appends, [&value, rest].concat()))
}
