//! Counts four habits that make code hard to read. `--check` fails above their limits.
#![expect(clippy::disallowed_methods, reason = "this chore reads the repository's own folder")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use crate::layers::code_of;

const ROOTS: [&str; 3] = ["src", "crates", "xtask/src"];
const SKIPPED: [&str; 4] = ["tests", "benches", "examples", "target"];
const SMALL_FILE: usize = 30;
/// The habits and their limits. The first counts per 1,000 lines of code.
const HABITS: [(&str, usize); 4] = [
    ("closures bound by let in 1,000 lines", 5),
    ("match ()", 0),
    ("names bound twice in a block", 60),
    ("files under 30 lines", 20),
];

#[derive(Default)]
struct StyleCounts {
    code_lines: usize,
    /// The places of each habit.
    places: [Vec<String>; 4],
}

/// Counts the habits in all sources, and lists the places with `--list`. Returns lines to print.
///
/// Errors: A file that cannot be read; with `--check`, a count above its limit.
pub fn count(option: &str) -> Result<String, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let mut counts = StyleCounts::default();
    for folder in ROOTS {
        counts.read_folder(&root.join(folder))?;
    }
    let (mut lines, mut is_above) = (Vec::new(), false);
    for (number, ((habit, limit), places)) in HABITS.iter().zip(&counts.places).enumerate() {
        let in_lines = if number == 0 { counts.code_lines } else { 1000 };
        let count = (places.len() * 1000).div_ceil(in_lines);
        is_above |= count > *limit;
        lines.push(format!("{count} {habit}, at most {limit}\n"));
        if option == "--list" {
            lines.extend(places.iter().map(|place| format!("  {place}\n")));
        }
    }
    if option == "--check" && is_above {
        lines.push("cargo xtask style --list shows the places".to_owned());
        return Err(lines.concat().into());
    }
    Ok(lines.concat())
}

impl StyleCounts {
    fn read_folder(&mut self, folder: &Path) -> Result<(), Box<dyn Error>> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && !SKIPPED.contains(&&*name) {
                self.read_folder(&path)?;
            } else if name.ends_with(".rs") && name != "tests.rs" {
                self.read_file(&path.display().to_string(), &code_of(&fs::read_to_string(&path)?));
            }
        }
        Ok(())
    }

    fn read_file(&mut self, path: &str, code: &str) {
        let [closures, empty_matches, bound_twice, small_files] = &mut self.places;
        small_files.extend((code.lines().count() < SMALL_FILE).then(|| path.to_owned()));
        // By indentation, because an inner block may bind a name again.
        let mut bound: BTreeMap<(usize, &str), usize> = BTreeMap::new();
        for (number, line) in code.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            self.code_lines += 1;
            let words = line.trim_start();
            let place = format!("{path}:{}: {words}", number + 1);
            empty_matches.extend(words.ends_with("match () {").then(|| place.clone()));
            if words.contains("fn ") && words.ends_with(['{', '(', ',']) {
                bound.clear();
            }
            let Some((name, value)) = binding(words) else { continue };
            let times = bound.entry((line.len() - words.len(), name)).or_default();
            *times += 1;
            bound_twice.extend((*times == 2).then(|| place.clone()));
            closures.extend(value.trim_start_matches("move ").starts_with('|').then_some(place));
        }
    }
}

/// The name that a `let` binds, and its value. A pattern binds no single name.
fn binding(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("let ")?;
    let (name, value) = rest.trim_start_matches("mut ").split_once(" = ")?;
    let name = name.split(':').next().unwrap_or_default();
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_name && name != "_").then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::StyleCounts;

    fn counts(code: &str) -> [usize; 4] {
        let mut counts = StyleCounts::default();
        counts.read_file("a.rs", code);
        counts.places.map(|places| places.len())
    }

    #[test]
    fn habits_are_counted_and_blocks_functions_and_patterns_are_none() {
        let habits = "fn f() {\nlet a = |b| b;\nlet mut a: fn() = move |b| c;\nmatch () {\n}\n}\n";
        assert_eq!(counts(habits), [2, 1, 1, 1]);
        let others = "fn f() {\nlet a = 1;\n {\n let a = 2;\n }\nlet (a, b) = c;\n}\nfn g() {\nlet a = 3;\n}\n";
        assert_eq!(counts(&(others.to_owned() + &"\n".repeat(30))), [0; 4]);
    }
}
