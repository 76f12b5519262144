//! The variables of a script: what is known of each, and what a word comes to with them.

use image_linkage::escape;

use super::script_run::{Doubt, ScriptRun, VariableValue};
use super::simple::ELEMENTS;
use crate::judge::facts::shell_words::{Alternative, Extent, ValueChange, WordPart};

impl ScriptRun<'_> {
    pub(super) fn value(&self, name: &str) -> VariableValue {
        if let Ok(number) = name.parse::<usize>() {
            let argument = number.checked_sub(1).map(|at| self.state.arguments.get(at));
            return match argument {
                // `$0` is the script's own name.
                None => {
                    return self
                        .state
                        .script
                        .clone()
                        .map_or(VariableValue::Unknown, VariableValue::Text);
                }
                Some(Some(None)) => VariableValue::Unknown,
                Some(Some(Some(text))) => VariableValue::Text(text.clone()),
                Some(None) => VariableValue::Unset,
            };
        }
        if name == "#" {
            // One that is not known may be several.
            let is_known = self.state.arguments.iter().all(Option::is_some);
            let count = self.state.arguments.len().to_string();
            return Some(count)
                .filter(|_| is_known)
                .map_or(VariableValue::Unknown, VariableValue::Text);
        }
        if let Some(name) = name.strip_prefix('!') {
            return match self.value(name) {
                VariableValue::Text(other) if !other.starts_with('!') => self.value(&other),
                // bash refuses it, and goes on.
                _ => VariableValue::Unknown,
            };
        }
        if let Some(value) = self.element(name) {
            return value;
        }
        if let Some(name) = name.strip_prefix('#').filter(|name| !name.is_empty()) {
            return match self.value(name) {
                VariableValue::Text(text) => VariableValue::Text(text.chars().count().to_string()),
                VariableValue::Unset => VariableValue::Text("0".to_owned()),
                VariableValue::Unknown => VariableValue::Unknown,
            };
        }
        if matches!(name, "@" | "*") {
            return match self.joined_arguments() {
                Some(_) if self.state.arguments.is_empty() => VariableValue::Unset,
                Some(all) => VariableValue::Text(all),
                None => VariableValue::Unknown,
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
        let unset = match name {
            "IFS" => VariableValue::Text(BLANKS.to_owned()),
            _ if SET_AT_START.contains(&name) => VariableValue::Unknown,
            _ => VariableValue::Unset,
        };
        self.state.variables.get(name).cloned().unwrap_or(unset)
    }

    /// What is known of an array's element: `NAME[0]`, `#NAME[@]`, and `NAME` for the first; nothing where it is no array.
    fn element(&self, name: &str) -> Option<VariableValue> {
        let (array, index) = name.split_once('[').unwrap_or((name, "0]"));
        let elements = self.state.arrays.get(array.strip_prefix('#').unwrap_or(array));
        let index = index.trim_end_matches(']');
        if !name.contains('[') && name.starts_with('#') || elements.is_none() && !name.contains('[') {
            return None;
        }
        let is_known = |elements: &&Vec<Option<String>>| elements.iter().all(Option::is_some);
        let Some(elements) = elements.filter(is_known) else {
            return Some(VariableValue::Unknown);
        };
        if name.starts_with('#') && index == "@" {
            return Some(VariableValue::Text(elements.len().to_string()));
        }
        let element = index.parse().ok().map(|at: usize| elements.get(at).cloned().flatten());
        Some(match element.filter(|_| !name.starts_with('#')) {
            Some(Some(text)) => VariableValue::Text(text),
            Some(None) => VariableValue::Unset,
            None => VariableValue::Unknown,
        })
    }

    pub(super) fn assign(&mut self, name: &str, value: VariableValue) {
        if self.state.readonly.contains(name) {
            self.refuse_as_dash(&format!("{} is read only", escape::escape_bytes(name.as_bytes())));
            return;
        }
        let state = &mut self.state;
        let is_known = state.variables.contains_key(name) || state.marked.iter().any(|marked| marked == name);
        let exports_all = state.flags.contains(&'a');
        if !is_known && !exports_all {
            state.local.push(name.to_owned());
        }
        if exports_all {
            state.local.retain(|local| local != name);
        }
        let value = match self.doubt {
            // Where both ways come to the same, it is known all the same.
            doubt if doubt.is_open() && self.value(name) != value => VariableValue::Unknown,
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

    /// Something was read that nothing is known of: it may set any variable, and define any function.
    pub(super) fn forget_commands(&mut self) {
        self.has_unknown = true;
        self.forget_all();
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

    /// The arguments; what is not known in the place of more than are followed, as `set -- "$@" "$@"` doubles them.
    fn arguments(&self) -> Vec<Option<String>> {
        let arguments = &self.state.arguments;
        if arguments.len() > ELEMENTS {
            vec![None]
        } else {
            arguments.clone()
        }
    }

    /// The fields that a word comes to: none, one, or all arguments.
    pub(super) fn fields(&self, parts: &[WordPart], is_quoted: bool) -> Vec<Option<String>> {
        match parts {
            [WordPart::Arguments] => return self.arguments(),
            [WordPart::Variable { name, alternative, .. }] => {
                let stands_aside = alternative
                    .as_ref()
                    .is_none_or(|other| matches!(other.change, ValueChange::Default));
                if name == "@" && stands_aside && !self.state.arguments.is_empty() {
                    return self.arguments();
                }
                if let Some(array) = name.strip_suffix("[@]").filter(|name| !name.starts_with('#')) {
                    return self.state.arrays.get(array).cloned().unwrap_or_else(|| vec![None]);
                }
            }
            _ => {}
        }
        if let Some(at) = parts.iter().position(|part| matches!(part, WordPart::Choice(_))) {
            return self.chosen_files(parts, at).unwrap_or_else(|| vec![None]);
        }
        // An assignment in the words of `export` keeps its name, whatever its value.
        let Some(text) = self.text(parts) else {
            let name = assignment(parts).map(|(name, _, _)| format!("{name}={UNKNOWN}"));
            return vec![name];
        };
        let splits = |part: &WordPart| {
            matches!(
                part,
                WordPart::Variable { is_quoted: false, .. } | WordPart::Command(_, false)
            )
        };
        let is_assignment = assignment(parts).is_some();
        if !is_assignment && parts.iter().any(|part| matches!(part, WordPart::Wildcard(_))) {
            return self.file_names(parts).unwrap_or_else(|| vec![None]);
        }
        if !is_assignment && parts.iter().any(splits) {
            // What a variable holds may be a pattern too.
            if text.contains(['*', '?', '[']) {
                let names = Some(&text).filter(|text| !text.contains(char::is_whitespace));
                return names
                    .and_then(|text| self.matching_files(text, text))
                    .unwrap_or_else(|| vec![None]);
            }
            return self.fields_of(&text).unwrap_or_else(|| vec![None]);
        }
        if text.is_empty() && !is_quoted {
            return Vec::new();
        }
        vec![Some(text)]
    }

    /// The arguments in one text; where `IFS` is another, what stands between them depends on the shell.
    fn joined_arguments(&self) -> Option<String> {
        let all: Option<Vec<String>> = self.state.arguments.iter().cloned().collect();
        let is_plain = self.value("IFS") == VariableValue::Text(BLANKS.to_owned());
        all.filter(|all| is_plain || all.len() < 2).map(|all| all.join(" "))
    }

    /// What an expansion is divided into (POSIX.1-2024, 2.6.5): blanks divide wherever they stand, what else `IFS` holds
    /// ends a field each time. Nothing where both are in it, or only a run could tell.
    fn fields_of(&self, text: &str) -> Option<Vec<Option<String>>> {
        let separators = match self.value("IFS") {
            VariableValue::Text(text) => text,
            VariableValue::Unset => BLANKS.to_owned(),
            VariableValue::Unknown => return None,
        };
        let is_blank = |sign: char| sign.is_ascii_whitespace();
        let are_blanks = separators.contains(is_blank);
        if are_blanks && !separators.chars().all(is_blank) {
            return None;
        }
        let fields = text.split_terminator(|sign| separators.contains(sign));
        let fields = fields.filter(|field| !are_blanks || !field.is_empty());
        Some(fields.map(|field| Some(field.to_owned())).collect())
    }

    /// The files that a word with a choice stands for; none where there are none, as with the `nullglob` beside it.
    fn chosen_files(&self, parts: &[WordPart], at: usize) -> Option<Vec<Option<String>>> {
        let (before, rest) = parts.split_at_checked(at)?;
        let (WordPart::Choice(texts), after) = rest.split_first()? else {
            return None;
        };
        let mut found = Vec::new();
        for text in texts {
            let pattern = self.pattern(&[before, &[WordPart::Text(text.clone())], after].concat())?;
            found.extend(
                Some(pattern)
                    .filter(|it| it.starts_with('/'))
                    .and_then(|it| self.files.names(&it))?,
            );
        }
        found.sort();
        Some(found.into_iter().map(Some).collect())
    }

    /// The files that a word with wildcards stands for; the word itself where there is none.
    fn file_names(&self, parts: &[WordPart]) -> Option<Vec<Option<String>>> {
        self.matching_files(&self.text(parts)?, &self.pattern(parts)?)
    }

    fn matching_files(&self, text: &str, pattern: &str) -> Option<Vec<Option<String>>> {
        // The names that come of it are written as the pattern is: only one from the root can be looked up as it stands.
        let found = text.starts_with('/').then(|| self.files.names(pattern))??;
        if found.is_empty() {
            return Some(vec![Some(text.to_owned())]);
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
            WordPart::Unknown | WordPart::Refused | WordPart::List(_) | WordPart::Choice(_) => None,
            WordPart::Arithmetic(text) => self.calculate(text).map(|number| number.to_string()),
            WordPart::Command(commands, _) => self.substitute(commands).output,
            WordPart::Wildcard(sign) => Some(sign.to_string()),
            WordPart::Arguments => self.joined_arguments(),
            WordPart::Variable { name, alternative, .. } => self.variable(name, alternative.as_ref()),
        }
    }

    pub(super) fn variable(&self, name: &str, alternative: Option<&Alternative>) -> Option<String> {
        let value = self.value(name);
        let Some(other) = alternative else {
            return match value {
                VariableValue::Text(text) => Some(text),
                // Nothing is started then; that nothing is known is the careful answer.
                VariableValue::Unset => (!self.state.flags.contains(&'u')).then(String::new),
                VariableValue::Unknown => None,
            };
        };
        let is_set = counts_as_set(&value, other)?;
        let text = match value {
            VariableValue::Text(text) => text,
            _ => String::new(),
        };
        match other.change {
            ValueChange::Default | ValueChange::Assigned | ValueChange::Demanded if is_set => Some(text),
            ValueChange::Instead if !is_set => Some(String::new()),
            ValueChange::Default | ValueChange::Assigned | ValueChange::Instead => self.text(&other.parts),
            ValueChange::CutFront(_) | ValueChange::CutEnd(_) => self.cut(&text, other),
            ValueChange::Part if self.state.is_bash() && !matches!(name, "@" | "*") => {
                part_of(&text, &self.text(&other.parts)?)
            }
            ValueChange::Demanded | ValueChange::Part => None,
        }
    }

    /// A value without what a pattern takes of it at one end; of patterns, those with one `*` at one of their ends.
    fn cut(&self, text: &str, other: &Alternative) -> Option<String> {
        let any = WordPart::Wildcard('*');
        let (parts, begins, ends) = match other.parts.as_slice() {
            [first, rest @ ..] if *first == any => (rest, true, false),
            [rest @ .., last] if *last == any => (rest, false, true),
            all => (all, false, false),
        };
        if parts.iter().any(|part| matches!(part, WordPart::Wildcard(_))) {
            return None;
        }
        let word = self.text(parts)?;
        let cut = match other.change {
            ValueChange::CutFront(Extent::Shortest) if begins => text.split_once(&word).map(|(_, rest)| rest),
            ValueChange::CutFront(Extent::Longest) if begins => text.rsplit_once(&word).map(|(_, rest)| rest),
            ValueChange::CutEnd(Extent::Shortest) if ends => text.rsplit_once(&word).map(|(rest, _)| rest),
            ValueChange::CutEnd(Extent::Longest) if ends => text.split_once(&word).map(|(rest, _)| rest),
            ValueChange::CutFront(Extent::Longest) if ends => text.strip_prefix(&word).map(|_| ""),
            ValueChange::CutEnd(Extent::Longest) if begins => text.strip_suffix(&word).map(|_| ""),
            ValueChange::CutFront(_) => text.strip_prefix(&word),
            _ => text.strip_suffix(&word),
        };
        Some(cut.unwrap_or(text).to_owned())
    }

    /// A word as a pattern of glob(7): what stands for itself is escaped.
    pub(super) fn pattern(&self, parts: &[WordPart]) -> Option<String> {
        let escaped = parts.iter().map(|part| match part {
            WordPart::Wildcard(sign) => Some(sign.to_string()),
            other => {
                let text = self.part(other)?;
                let signs = text.chars().flat_map(|sign| {
                    // A `]` may close what stands before it.
                    let is_special = matches!(sign, '*' | '?' | '[' | '\\');
                    is_special.then_some('\\').into_iter().chain([sign])
                });
                Some(signs.collect())
            }
        });
        let pattern: Option<Vec<String>> = escaped.collect();
        Some(pattern?.concat()).filter(|pattern| pattern.len() <= VALUE)
    }

    /// What a word does on the way: it sets variables, or ends the script.
    pub(super) fn expand(&mut self, parts: &[WordPart]) {
        if let Some(why) = self.fault(parts) {
            self.end(why);
        }
        // What runs there may make files as any program does.
        for part in parts {
            if let WordPart::Command(commands, _) = part {
                self.has_started |= self.substitute(commands).has_started;
            }
        }
        for part in parts {
            if let WordPart::Arithmetic(text) = part {
                self.forget_in(text);
            }
        }
        self.assign_defaults(parts);
    }

    /// Why a word ends the script, if it does: a variable in it has to be set and is not.
    fn fault(&self, parts: &[WordPart]) -> Option<String> {
        parts.iter().find_map(|part| {
            if *part == WordPart::Refused {
                return Some("an expansion of bash is a bad substitution for dash".to_owned());
            }
            let WordPart::Variable { name, alternative, .. } = part else {
                return None;
            };
            let value = self.value(name);
            let shown = || escape::escape_bytes(name.as_bytes());
            let replaces = |other: &Alternative| {
                use ValueChange::{Assigned, Default, Demanded, Instead};
                matches!(other.change, Default | Assigned | Demanded | Instead)
            };
            match alternative.as_ref().filter(|other| replaces(other)) {
                None if self.state.flags.contains(&'u') && value == VariableValue::Unset => {
                    Some(format!("{} is not set, which `set -u` demands", shown()))
                }
                None => None,
                Some(other) => match (other.change, counts_as_set(&value, other)) {
                    (ValueChange::Demanded, Some(false)) => {
                        Some(format!("{} is not set, which the script demands", shown()))
                    }
                    (ValueChange::Default | ValueChange::Assigned, Some(false))
                    | (ValueChange::Instead, Some(true)) => self.fault(&other.parts),
                    _ => None,
                },
            }
        })
    }

    /// The variables that a word sets on the way: `${NAME:=VALUE}`.
    fn assign_defaults(&mut self, parts: &[WordPart]) {
        for part in parts {
            if let WordPart::Variable {
                name,
                alternative: Some(other),
                ..
            } = part
                && other.change == ValueChange::Assigned
            {
                let value = self.value(name);
                match counts_as_set(&value, other) {
                    Some(true) => {}
                    Some(false) => {
                        let text = self.text(&other.parts);
                        self.assign(name, text.map_or(VariableValue::Unknown, VariableValue::Text));
                    }
                    None => self.assign(name, VariableValue::Unknown),
                }
            }
        }
    }
}

/// Whether a variable is there for what is made of it; `None` where only a run could tell.
fn counts_as_set(value: &VariableValue, other: &Alternative) -> Option<bool> {
    match value {
        VariableValue::Text(text) => Some(!(text.is_empty() && other.empty_counts)),
        VariableValue::Unset => Some(false),
        VariableValue::Unknown => None,
    }
}

/// `OFFSET[:LENGTH]` of a value, both of them numbers from 0.
fn part_of(text: &str, place: &str) -> Option<String> {
    let (offset, length) = match place.split_once(':') {
        Some((offset, length)) => (offset, Some(length.parse().ok()?)),
        None => (place, None),
    };
    let rest = text.chars().skip(offset.parse().ok()?);
    Some(rest.take(length.unwrap_or(usize::MAX)).collect())
}

/// What `IFS` is where a shell starts.
const BLANKS: &str = " \t\n";
/// The longest value that is followed.
pub(super) const VALUE: usize = 4 << 10;
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
