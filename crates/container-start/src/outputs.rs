//! What some programs print whose output is the image's alone to decide.

use crate::commands::base_name;
use crate::reader::{Reader, is_volatile};
use crate::state::State;
use crate::value::is_open;

/// The bytes of a file that `cat` gives a value.
const FILE_BYTES: usize = 4096;

impl Reader<'_> {
    /// The text that a program prints; `None` where it is not followed.
    pub(crate) fn program_output(&self, words: &[String], state: &State) -> Option<String> {
        if words.iter().any(|word| is_open(word)) {
            return None;
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (name, words) = words.split_first()?;
        // Nothing is printed by what is not there.
        self.find_program(name, state)?;
        let input = state.input.as_deref().filter(|text| !is_open(text));
        match (base_name(name), words) {
            ("dirname", [path] | ["--", path]) if !path.starts_with('-') => Some(directory_name(path) + "\n"),
            ("basename", [path] | ["--", path]) if !path.starts_with('-') => {
                let trimmed = path.trim_end_matches('/');
                let name = if trimmed.is_empty() { "/" } else { base_name(trimmed) };
                Some(format!("{name}\n"))
            }
            ("basename", [path, suffix]) if !path.starts_with('-') => {
                let name = base_name(path.trim_end_matches('/'));
                let cut = name.strip_suffix(suffix).filter(|cut| !cut.is_empty());
                Some(format!("{}\n", cut.unwrap_or(name)))
            }
            ("uname", [] | ["-s"]) => Some("Linux\n".to_owned()),
            ("uname", ["-m"]) if !self.machine.is_empty() => Some(format!("{}\n", self.machine)),
            ("id", ["-un"]) | ("whoami", []) => {
                let name = state.user.name.split(':').next().unwrap_or_default();
                let name = if state.user.uid == "0" { "root" } else { name };
                let is_name = !name.bytes().all(|byte| byte.is_ascii_digit());
                is_name.then(|| format!("{name}\n"))
            }
            ("id", ["-u"]) => Some(format!("{}\n", state.user.uid)),
            ("realpath" | "readlink", ["-f" | "-e" | "-m", path]) | ("realpath", [path]) if !path.starts_with('-') => {
                let path = state.absolute(path);
                let is_known = !state.is_touched(&path) && !is_volatile(&path);
                self.files.resolve(&path).filter(|_| is_known).map(|real| real + "\n")
            }
            ("cat", [path]) if !path.starts_with('-') => {
                let path = state.absolute(path);
                let is_known = !is_volatile(&path) && !state.is_touched(&path);
                self.file_text(state, &path)
                    .filter(|text| is_known && text.len() <= FILE_BYTES)
            }
            ("cat", []) => input.map(str::to_owned),
            ("printenv", [name]) => {
                let variable = state.variables.get(*name).filter(|variable| variable.is_exported);
                variable
                    .and_then(|_| state.text(name))
                    .filter(|text| !is_open(text))
                    .map(|text| format!("{text}\n"))
            }
            ("grep", words) => self.filter_lines(words, state),
            ("tr", words) => input.and_then(|text| translate(words, text)),
            ("cut", words) => input.and_then(|text| cut_fields(words, text)),
            ("head" | "tail", words) => input.and_then(|text| some_lines(base_name(name), words, text)),
            ("sort", words) => input.and_then(|text| sort_lines(words, text)),
            ("xargs", []) if self.find_program("echo", state).is_some() => input.and_then(|text| {
                let plain = !text.contains(['"', '\'', '\\']);
                plain.then(|| text.split_whitespace().collect::<Vec<_>>().join(" ") + "\n")
            }),
            _ => None,
        }
    }

    /// `grep [-v] PATTERN [FILE]` of patterns that basic and extended expressions read alike.
    fn filter_lines(&self, words: &[&str], state: &State) -> Option<String> {
        let (is_kept, words) = match words {
            ["-v" | "-vE" | "-Ev", rest @ ..] => (false, rest),
            ["-E", rest @ ..] => (true, rest),
            rest => (true, rest),
        };
        let (pattern, text) = match words {
            [pattern] => (pattern, state.input.clone()?),
            [pattern, path] => (pattern, self.file_text(state, &state.absolute(path))?),
            _ => return None,
        };
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "^$#_=:/- .".contains(letter);
        let pattern = pattern.replace("\\s", " ").replace("[[:space:]]", " ");
        let (pattern, may_begin_blank) = match pattern.strip_prefix("^ *") {
            Some(rest) => (format!("^{rest}"), true),
            None => (pattern, false),
        };
        if is_open(&text) || pattern.starts_with('-') || !pattern.chars().all(is_plain) {
            return None;
        }
        let regex = regex_automata::meta::Regex::new(&pattern).ok()?;
        let matches = |line: &&str| {
            let line = if may_begin_blank { line.trim_start() } else { line };
            regex.is_match(line) == is_kept
        };
        Some(text.lines().filter(matches).map(|line| format!("{line}\n")).collect())
    }
}

fn directory_name(path: &str) -> String {
    let trimmed = path.trim_end_matches('/');
    match trimmed.rsplit_once('/') {
        None if trimmed.is_empty() && path.starts_with('/') => "/".to_owned(),
        None => ".".to_owned(),
        Some((folder, _)) => match folder.trim_end_matches('/') {
            "" => "/".to_owned(),
            folder => folder.to_owned(),
        },
    }
}

/// `tr A B` and `tr -d A` of single letters.
fn translate(words: &[&str], text: &str) -> Option<String> {
    let letter = |word: &str| match word {
        "\\n" => Some('\n'),
        "\\t" => Some('\t'),
        word => {
            let mut letters = word.chars();
            letters
                .next()
                .filter(|letter| letters.next().is_none() && *letter != '\\')
        }
    };
    match words {
        ["-d", from] => Some(text.replace(letter(from)?, "")),
        [from, to] => Some(text.replace(letter(from)?, &letter(to)?.to_string())),
        _ => None,
    }
}

/// `cut -dX -fN`.
fn cut_fields(words: &[&str], text: &str) -> Option<String> {
    let joined = words.join(" ").replace("-d ", "-d").replace("-f ", "-f");
    let words: Vec<&str> = joined.split(' ').collect();
    let option = |begin: &str| words.iter().find_map(|word| word.strip_prefix(begin));
    let (separator, field) = (
        option("-d")?.trim_matches(['\'', '"']),
        option("-f")?.parse::<usize>().ok()?,
    );
    if words.len() != 2 || separator.chars().count() != 1 {
        return None;
    }
    let cut = |line: &str| {
        if line.contains(separator) {
            line.split(separator)
                .nth(field.checked_sub(1)?)
                .unwrap_or_default()
                .to_owned()
                .into()
        } else {
            Some(line.to_owned())
        }
    };
    let lines: Option<Vec<String>> = text.lines().map(cut).collect();
    Some(lines?.into_iter().map(|line| line + "\n").collect())
}

/// `head` and `tail` by lines.
fn some_lines(name: &str, words: &[&str], text: &str) -> Option<String> {
    let count = match words {
        [] => 10,
        ["-n", count] => count.parse().ok()?,
        [word] => word.strip_prefix("-n").or(word.strip_prefix('-'))?.parse().ok()?,
        _ => return None,
    };
    let lines: Vec<&str> = text.lines().collect();
    let skipped = if name == "tail" {
        lines.len().saturating_sub(count)
    } else {
        0
    };
    Some(
        lines
            .iter()
            .skip(skipped)
            .take(count)
            .map(|line| format!("{line}\n"))
            .collect(),
    )
}

/// `sort` with `-u`, `-r` and `-V` of names without letters beyond ASCII.
fn sort_lines(words: &[&str], text: &str) -> Option<String> {
    let options: String = words
        .iter()
        .map(|word| word.strip_prefix('-'))
        .collect::<Option<Vec<_>>>()?
        .concat();
    if !text.is_ascii() || !options.chars().all(|letter| "urV".contains(letter)) {
        return None;
    }
    let mut lines: Vec<&str> = text.lines().collect();
    // By other locales letters stand in another order.
    if !options.contains('V')
        && !lines
            .iter()
            .all(|line| line.bytes().all(|byte| byte.is_ascii_digit() || byte == b'/'))
    {
        return None;
    }
    lines.sort_by_cached_key(|line| version_key(line));
    if options.contains('r') {
        lines.reverse();
    }
    if options.contains('u') {
        lines.dedup();
    }
    Some(lines.iter().map(|line| format!("{line}\n")).collect())
}

/// A name as text and numbers in turns.
fn version_key(line: &str) -> Vec<(String, u64)> {
    let mut key = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let text = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let (before, behind) = rest.split_at(text);
        let digits = behind
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(behind.len());
        let (number, behind) = behind.split_at(digits);
        key.push((before.to_owned(), number.parse().unwrap_or(0)));
        rest = behind;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::{cut_fields, directory_name, some_lines, sort_lines, translate};

    #[test]
    fn filters_print_what_the_programs_print() {
        assert_eq!(translate(&["\\n", ":"], "a\nb\n").as_deref(), Some("a:b:"));
        assert_eq!(translate(&["a-z", "A-Z"], "a"), None);
        assert_eq!(cut_fields(&["-d:", "-f2"], "a:b:c\nd\n").as_deref(), Some("b\nd\n"));
        assert_eq!(cut_fields(&["-d", ".", "-f", "1"], "12.4\n").as_deref(), Some("12\n"));
        assert_eq!(some_lines("tail", &["-n1"], "a\nb\n").as_deref(), Some("b\n"));
        assert_eq!(some_lines("head", &["-1"], "a\nb\n").as_deref(), Some("a\n"));
        assert_eq!(
            sort_lines(&["-V"], "cuda-12.10\ncuda-12.4\n").as_deref(),
            Some("cuda-12.4\ncuda-12.10\n")
        );
        assert_eq!(
            sort_lines(&["-Vr"], "cuda-12.10\ncuda-12.4\n").as_deref(),
            Some("cuda-12.10\ncuda-12.4\n")
        );
        assert_eq!(sort_lines(&[], "b\na\n"), None);
        for (path, folder) in [("/a/b", "/a"), ("/a", "/"), ("a", "."), ("/", "/"), ("a//b/", "a")] {
            assert_eq!(directory_name(path), folder, "{path}");
        }
    }
}
