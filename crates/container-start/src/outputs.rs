//! The output of programs that depends only on the image.

use regex_automata::meta::Regex;

use crate::reader::{Reader, is_volatile};
use crate::state::{State, base_name};
use crate::value::is_open;

/// The maximum bytes of a file that `cat` turns into a value.
const FILE_BYTES: usize = 4096;

impl Reader<'_> {
    /// The output of a program; `None` if it is not modelled.
    pub(crate) fn program_output(&self, words: &[String], state: &State) -> Option<String> {
        let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "--").collect();
        let (name, words) = words.split_first()?;
        // A missing program prints nothing.
        self.find_program(name, state)?;
        let is_plain = words.iter().all(|word| !is_open(word)) && !is_open(name);
        let input = state.input.as_deref().filter(|text| !is_open(text));
        let known = |path: &str| Some(state.absolute(path)).filter(|path| !is_volatile(path) && !self.is_touched(path));
        let line = match (base_name(name), words) {
            _ if !is_plain => return None,
            ("cat", []) => return input.map(str::to_owned),
            ("cat", [path]) => return self.file_text(&known(path)?).filter(|text| text.len() <= FILE_BYTES),
            ("grep", words) => return self.filter_lines(words, state),
            ("xargs", []) if self.find_program("echo", state).is_some() => {
                let text = input.filter(|text| !text.contains(['"', '\'', '\\']))?;
                text.split_whitespace().collect::<Vec<_>>().join(" ")
            }
            ("dirname", [path]) => directory_name(path).to_owned(),
            ("basename", [path]) if path.trim_end_matches('/').is_empty() => (*path).to_owned(),
            ("basename", [path, rest @ ..]) => {
                let name = base_name(path.trim_end_matches('/'));
                let cut = rest
                    .first()
                    .and_then(|suffix| name.strip_suffix(suffix))
                    .filter(|cut| !cut.is_empty());
                cut.unwrap_or(name).to_owned()
            }
            ("uname", [] | ["-s"]) => "Linux".to_owned(),
            ("uname", ["-m"]) if !self.machine.is_empty() => self.machine.to_owned(),
            ("id", ["-u"]) => state.user.uid.clone(),
            ("realpath" | "readlink", ["-f" | "-e" | "-m", path]) | ("realpath", [path]) => {
                self.files.resolve(&known(path)?)?
            }
            _ => return None,
        };
        let is_option = words
            .first()
            .is_some_and(|word| word.starts_with('-') && matches!(*name, "dirname" | "basename"));
        (!is_option).then_some(line + "\n")
    }

    /// `grep [-v] PATTERN [FILE]`, for patterns that mean the same as basic and as extended expressions.
    fn filter_lines(&self, words: &[&str], state: &State) -> Option<String> {
        let (is_kept, words) = match words {
            ["-v" | "-vE" | "-Ev", rest @ ..] => (false, rest),
            ["-E", rest @ ..] | rest => (true, rest),
        };
        let (pattern, text) = match words {
            [pattern] => (pattern, state.input.clone()?),
            [pattern, path] => (pattern, self.file_text(&state.absolute(path))?),
            _ => return None,
        };
        let mut letters = pattern.chars();
        let is_plain = letters.all(|letter| letter.is_ascii_alphanumeric() || "^$#_=:/- .".contains(letter));
        if is_open(&text) || pattern.starts_with('-') || !is_plain {
            return None;
        }
        let regex = Regex::new(pattern).ok()?;
        let lines = text.lines().filter(|line| regex.is_match(line) == is_kept);
        Some(lines.flat_map(|line| [line, "\n"]).collect())
    }
}

fn directory_name(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    match trimmed.rsplit_once('/') {
        None if trimmed.is_empty() && path.starts_with('/') => "/",
        None => ".",
        Some((folder, _)) => match folder.trim_end_matches('/') {
            "" => "/",
            folder => folder,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::directory_name;

    #[test]
    fn directory_name_equals_dirname() {
        for (path, folder) in [("/a/b", "/a"), ("/a", "/"), ("a", "."), ("/", "/"), ("a//b/", "a")] {
            assert_eq!(directory_name(path), folder, "{path}");
        }
    }
}
