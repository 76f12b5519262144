//! Patterns in data files: a name with a final `*`, or a path glob with `*`, `**`, `?`, `[…]` and `{…}`, of which only
//! `**` matches a slash.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use serde::Deserialize;

/// The maximum bytes of a pattern; the longest built-in one has 60.
const LENGTH: usize = 1024;
/// The maximum depth of nested braces. The compiler recurses once per level.
const BRACES: usize = 8;

/// Whether a name matches a pattern; a final `*` matches any suffix.
pub fn matches_name_pattern(name: &[u8], pattern: &str) -> bool {
    // Only at the end, so that no name in a hostile image can make matching slow.
    match pattern.strip_suffix('*') {
        Some(stem) => name.starts_with(stem.as_bytes()),
        None => name == pattern.as_bytes(),
    }
}

/// Parses a path pattern, within limits.
///
/// Errors: The pattern is too long or too deep, or `globset` rejects it.
pub fn path_glob(pattern: &str) -> Result<Glob, String> {
    if pattern.len() > LENGTH {
        return Err(format!("a pattern of more than {LENGTH} bytes"));
    }
    let depth = pattern.bytes().try_fold(0_usize, |depth, byte| match byte {
        b'{' if depth == BRACES => None,
        b'{' => Some(depth + 1),
        b'}' => Some(depth.saturating_sub(1)),
        _ => Some(depth),
    });
    if depth.is_none() {
        return Err(format!("a pattern with more than {BRACES} braces within each other"));
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    glob.map_err(|error| error.to_string())
}

/// A compiled pattern.
///
/// Errors: As [`path_glob`], or the compiled pattern is too large.
pub fn compile_glob(pattern: &str) -> Result<GlobSet, String> {
    let glob = path_glob(pattern)?;
    // `Glob::compile_matcher` panics on patterns that a set rejects.
    let set = GlobSetBuilder::new().add(glob).build();
    set.map_err(|error| error.to_string())
}

/// Why no pattern of the program fails to be compiled.
pub(super) const COMPILED: &str = "a test compiles the patterns of the program";

/// A list of patterns in a data file, compiled together when the first path is matched.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "Vec<ValidGlob>")]
pub struct PathPatterns {
    globs: Vec<Glob>,
    set: OnceLock<GlobSet>,
}

/// A pattern that is parsed while it is read, so that an invalid one has a position.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct ValidGlob(Glob);

impl TryFrom<String> for ValidGlob {
    type Error = String;

    fn try_from(pattern: String) -> Result<Self, String> {
        path_glob(&pattern).map(Self)
    }
}

impl From<Vec<ValidGlob>> for PathPatterns {
    fn from(globs: Vec<ValidGlob>) -> Self {
        let globs = globs.into_iter().map(|glob| glob.0).collect();
        Self {
            globs,
            set: OnceLock::new(),
        }
    }
}

impl PathPatterns {
    /// Whether one of the patterns matches.
    pub fn is_match(&self, path: &[u8]) -> bool {
        let set = self.set.get_or_init(|| GlobSet::new(&self.globs).expect(COMPILED));
        set.is_match_candidate(&Candidate::from_bytes(path))
    }
}

/// Several lists of patterns, compiled together, to find the lists that match a path.
#[derive(Debug, Clone)]
pub(super) struct PatternLists {
    set: GlobSet,
    /// The list of each pattern.
    lists: Vec<usize>,
}

impl PatternLists {
    /// Compiles lists of the program.
    pub(super) fn of<'p>(lists: impl Iterator<Item = &'p Vec<String>>) -> Self {
        let (mut set, mut of_patterns) = (GlobSetBuilder::new(), Vec::new());
        for (number, patterns) in lists.enumerate() {
            for pattern in patterns {
                set.add(path_glob(pattern).expect(COMPILED));
                of_patterns.push(number);
            }
        }
        Self {
            set: set.build().expect(COMPILED),
            lists: of_patterns,
        }
    }

    /// The numbers of the lists that match, lowest first.
    pub(super) fn lists(&self, path: &[u8]) -> BTreeSet<usize> {
        let matches = self.set.matches_candidate(&Candidate::from_bytes(path));
        let lists = matches.into_iter().filter_map(|pattern| self.lists.get(pattern));
        lists.copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::compile_glob;

    #[test]
    fn x_13_a_pattern_deeper_or_longer_than_anybody_writes_is_refused() {
        let check = |pattern: String, expected: Option<&str>| {
            let error = compile_glob(&pattern).err();
            assert_eq!(error.is_some(), expected.is_some(), "{pattern}: {error:?}");
            let expected = expected.unwrap_or_default();
            assert!(error.unwrap_or_default().contains(expected), "{pattern}");
        };
        check("/opt/{a,b{c,d}}/**/lib*.so".to_owned(), None);
        check("{".repeat(150) + &"}".repeat(150), Some("8 braces"));
        check("x".repeat(2000), Some("1024 bytes"));
        check("{".to_owned(), Some(""));
        check("{a,b,c,d,e,f,g,h}".repeat(50), None);
    }
}
