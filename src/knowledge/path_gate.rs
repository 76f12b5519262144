//! Quickly rejects almost every path that no pattern can match.
//!
//! A pattern ends in a name, whose first and last byte exclude most files. Or it ends in `**`, which matches only few
//! folders, each with many files.

use globset::{Candidate, GlobSet, GlobSetBuilder};

use super::patterns::{COMPILED, path_glob};

/// The maximum number of expansions of a pattern with braces; beyond it every path passes.
const EXPANSIONS: usize = 1024;

/// Decides which paths may match one of several patterns.
#[derive(Debug, Clone)]
pub(super) struct PathGate {
    /// Whether a name may start and end with these two bytes.
    name_ends: Box<[[bool; 256]]>,
    /// The patterns that end in `**`; each matches all files in a folder, or none.
    open_ended: GlobSet,
}

/// The result for the last folder.
#[derive(Debug, Default)]
pub(crate) struct LastFolder {
    folder: Vec<u8>,
    may_fit: Option<bool>,
}

impl Default for PathGate {
    /// Without patterns nothing passes.
    fn default() -> Self {
        Self {
            name_ends: vec![[false; 256]; 256].into(),
            open_ended: GlobSet::empty(),
        }
    }
}

impl PathGate {
    /// Takes patterns valid for `path_glob`.
    ///
    /// Errors: A message about an invalid pattern, or about the whole set.
    pub(super) fn new<'p>(patterns: impl Iterator<Item = &'p str>) -> Self {
        let mut gate = Self::default();
        let mut open_ended = GlobSetBuilder::new();
        for pattern in patterns {
            for simple in expand_braces(pattern).unwrap_or_else(|| vec!["**".to_owned()]) {
                match simple.rsplit('/').next().unwrap_or_default() {
                    "**" => _ = open_ended.add(path_glob(&simple).expect(COMPILED)),
                    name => gate.let_name_pass(name.as_bytes()),
                }
            }
        }
        gate.open_ended = open_ended.build().expect(COMPILED);
        gate
    }

    fn let_name_pass(&mut self, pattern: &[u8]) {
        let bytes = |end: Option<&u8>| match end {
            Some(&byte) if !b"*?".contains(&byte) => usize::from(byte)..=usize::from(byte),
            _ => 0..=255,
        };
        let (first, last) = (bytes(pattern.first()), bytes(pattern.last()));
        for by_last in self.name_ends.get_mut(first).into_iter().flatten() {
            if let Some(passes) = by_last.get_mut(last.clone()) {
                passes.fill(true);
            }
        }
    }

    /// Whether a pattern may match the path. `last` caches the result while files of one folder are adjacent.
    pub(super) fn may_fit(&self, path: &[u8], last: &mut LastFolder) -> bool {
        let cut = path.iter().rposition(|&byte| byte == b'/');
        let (folder, name) = path.split_at(cut.map_or(0, |cut| cut + 1));
        let ends = name.first().zip(name.last());
        let by_last = ends.and_then(|(&first, &last)| Some((self.name_ends.get(usize::from(first))?, last)));
        if by_last.is_some_and(|(by_last, last)| by_last.get(usize::from(last)) == Some(&true)) {
            return true;
        }
        if last.may_fit.is_none() || last.folder != folder {
            last.folder.clear();
            last.folder.extend_from_slice(folder);
            last.may_fit = Some(self.open_ended.is_match_candidate(&Candidate::from_bytes(path)));
        }
        last.may_fit == Some(true)
    }
}

/// Expands the braces of a pattern. `None` if there are too many expansions, or if a bracket or backslash may change a
/// brace's meaning.
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

/// Splits the alternatives of an opened brace, and returns the text after it.
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
    use crate::knowledge::patterns::compile_glob;

    #[test]
    fn what_does_a_pattern_with_braces_stand_for() {
        let check = |pattern: &str, expected: Option<&[&str]>| {
            let mut found = expand_braces(pattern);
            if let Some(patterns) = &mut found {
                patterns.sort();
            }
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
            let gate = PathGate::new([pattern].into_iter());
            let mut last = LastFolder::default();
            assert_eq!(gate.may_fit(path.as_bytes(), &mut last), expected, "{pattern} {path}");
            // A repeated query for the same folder gives the same answer.
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

    #[test]
    fn no_pattern_fits_a_path_that_does_not_pass() {
        let mut number = 1_u64;
        let mut text = |tokens: &[&str], most: u64| -> String {
            let mut next = |bound: usize| {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                usize::try_from(number >> 33).unwrap_or(0) % bound
            };
            let length = 1 + next(usize::try_from(most).unwrap());
            (0..length).map(|_| tokens[next(tokens.len())]).collect()
        };
        let (mut fits, mut held_back) = (0, 0);
        for _ in 0..4000 {
            let tokens = ["a", "b", "*", "**", "/**/", "?", "/", "/", "{", "}", ",", ".", "[ab]"];
            let pattern = text(&tokens, 9);
            let Ok(glob) = compile_glob(&pattern) else { continue };
            let gate = PathGate::new([pattern.as_str()].into_iter());
            for _ in 0..40 {
                let path = text(&["a", "b", "a/", "b/", "ab", "."], 5);
                let path = path.trim_end_matches('/');
                let passes = gate.may_fit(path.as_bytes(), &mut LastFolder::default());
                assert!(passes || !glob.is_match(path), "{pattern} {path}");
                fits += usize::from(glob.is_match(path));
                held_back += usize::from(!passes);
            }
        }
        assert!(fits > 3000 && held_back > 3000, "{fits} fit, {held_back} are held back");
    }
}
