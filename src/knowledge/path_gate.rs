//! What settles for nearly every path that no pattern of a list fits it, in a fraction of the time of asking them.
//!
//! A pattern ends in a name, whose first and last byte rule out most files, or in `**`, and then few folders come into
//! question, each of which has many files.

use globset::{Candidate, GlobSet, GlobSetBuilder};

use super::path_glob::path_glob;

/// The patterns that one with braces stands for, at most; one with more lets every path pass.
const EXPANSIONS: usize = 1024;

/// Which paths may fit one of some patterns.
#[derive(Debug, Clone)]
pub(super) struct PathGate {
    /// Whether a name may begin and end with these two bytes.
    name_ends: Box<[[bool; 256]]>,
    /// The folders below which everything may fit.
    folders: GlobSet,
}

/// What was found of the folder that was asked for last.
#[derive(Debug, Default)]
pub(crate) struct LastFolder {
    folder: Vec<u8>,
    may_fit: Option<bool>,
}

impl Default for PathGate {
    /// Lets nothing pass, as there are no patterns.
    fn default() -> Self {
        Self {
            name_ends: vec![[false; 256]; 256].into(),
            folders: GlobSet::empty(),
        }
    }
}

impl PathGate {
    /// Takes patterns that `path_glob` takes.
    ///
    /// Errors: What is wrong with a pattern, or with all of them together.
    pub(super) fn new<'p>(patterns: impl Iterator<Item = &'p str>) -> Result<Self, String> {
        let mut gate = Self::default();
        let mut folders = GlobSetBuilder::new();
        for pattern in patterns {
            for simple in expand_braces(pattern).unwrap_or_else(|| vec!["**".to_owned()]) {
                match simple.rsplit_once('/') {
                    Some((folder, name)) if name.contains("**") => {
                        // One `**` takes what two take, and nothing is left for the second.
                        let folder = folder.trim_end_matches("/**");
                        folders.add(path_glob(folder)?);
                        folders.add(path_glob(&format!("{folder}/**"))?);
                    }
                    split => gate.let_name_pass(split.map_or(simple.as_str(), |(_, name)| name).as_bytes()),
                }
            }
        }
        gate.folders = folders.build().map_err(|error| error.to_string())?;
        Ok(gate)
    }

    fn let_name_pass(&mut self, pattern: &[u8]) {
        let literal = |byte: Option<&u8>| byte.copied().filter(|byte| !b"*?".contains(byte));
        let (first, last) = (literal(pattern.first()), literal(pattern.last()));
        for (byte, by_last) in (0..=u8::MAX).zip(&mut self.name_ends) {
            for (end, passes) in (0..=u8::MAX).zip(by_last) {
                *passes |= first.is_none_or(|first| first == byte) && last.is_none_or(|last| last == end);
            }
        }
    }

    /// Whether a pattern may fit the path; `last` saves most questions where the files of a folder come together.
    pub(super) fn may_fit(&self, path: &[u8], last: &mut LastFolder) -> bool {
        let cut = path.iter().rposition(|&byte| byte == b'/');
        let (folder, name) = path.split_at(cut.map_or(0, |cut| cut + 1));
        let ends = name.first().zip(name.last());
        let by_last = ends.and_then(|(&first, &last)| Some((self.name_ends.get(usize::from(first))?, last)));
        if by_last.is_some_and(|(by_last, last)| by_last.get(usize::from(last)) == Some(&true)) {
            return true;
        }
        let folder = folder.strip_suffix(b"/").unwrap_or(folder);
        if last.may_fit.is_none() || last.folder != folder {
            last.folder.clear();
            last.folder.extend_from_slice(folder);
            last.may_fit = Some(self.folders.is_match_candidate(&Candidate::from_bytes(folder)));
        }
        last.may_fit == Some(true)
    }
}

/// The patterns without braces that this one stands for; `None` where they are many, or where a bracket or a backslash
/// may give a brace another meaning.
fn expand_braces(pattern: &str) -> Option<Vec<String>> {
    if pattern.contains(['[', '\\']) {
        return None;
    }
    let (mut pending, mut expanded) = (vec![pattern.to_owned()], Vec::new());
    while let Some(text) = pending.pop() {
        if pending.len() + expanded.len() > EXPANSIONS {
            return None;
        }
        let Some((before, rest)) = text.split_once('{') else {
            expanded.push(text);
            continue;
        };
        let (alternatives, after) = split_alternatives(rest)?;
        pending.extend(alternatives.iter().map(|chosen| format!("{before}{chosen}{after}")));
    }
    Some(expanded)
}

/// What stands between the commas of a brace that was opened, and what follows the one that closes it.
fn split_alternatives(text: &str) -> Option<(Vec<&str>, &str)> {
    let (mut depth, mut start, mut alternatives) = (0_usize, 0, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b',' if depth == 0 => alternatives.push(text.get(std::mem::replace(&mut start, at + 1)..at)?),
            b'}' if depth == 0 => {
                alternatives.push(text.get(start..at)?);
                return Some((alternatives, text.get(at + 1..)?));
            }
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{LastFolder, PathGate, expand_braces};

    #[test]
    fn what_does_a_pattern_with_braces_stand_for() {
        let check = |pattern: &str, expected: Option<&[&str]>| {
            let mut found = expand_braces(pattern);
            found.iter_mut().for_each(|patterns| patterns.sort());
            let found = found
                .as_ref()
                .map(|patterns| patterns.iter().map(String::as_str).collect());
            assert_eq!(found, expected.map(<[&str]>::to_vec), "{pattern}");
        };
        check("usr/*/lib.a", Some(&["usr/*/lib.a"]));
        check(
            "{a,b{c,d/**},}x{1,2}",
            Some(&["ax1", "ax2", "bcx1", "bcx2", "bd/**x1", "bd/**x2", "x1", "x2"]),
        );
        check("lib[{]so", None);
        check(&"{a,b}".repeat(12), None);
    }

    #[test]
    fn does_a_path_pass_that_a_pattern_may_fit() {
        let check = |pattern: &str, path: &str, expected: bool| {
            let gate = PathGate::new([pattern].into_iter()).unwrap();
            let mut last = LastFolder::default();
            assert_eq!(gate.may_fit(path.as_bytes(), &mut last), expected, "{pattern} {path}");
            // A folder that was asked for says the same again.
            assert_eq!(gate.may_fit(path.as_bytes(), &mut last), expected, "{pattern} {path}");
        };
        for (pattern, path, expected) in [
            ("usr/bin/{nvcc,ptxas}", "usr/bin/ptxas", true),
            ("usr/bin/{nvcc,ptxas}", "usr/bin/ls", false),
            ("**/lib*.so*", "usr/lib/libx.so.1", true),
            ("**/lib*.so*", "usr/lib/x.so", false),
            ("opt/n*/{a,b/**}", "opt/nv/b/c/d", true),
            ("opt/n*/{a,b/**}", "opt/nv/c/d", false),
            ("opt/n*/**", "opt/nv", false),
            ("opt/n*/**", "opt/nv/x", true),
            ("opt/n*/**/**", "opt/nv/x", true),
            ("**/x/**/**c", "x/c", true),
            ("opt/n*/**/**", "opt/x", false),
            ("**/*", "x", true),
            ("**", "x", true),
            ("x", "x", true),
            ("x", "y", false),
        ] {
            check(pattern, path, expected);
        }
    }
}
