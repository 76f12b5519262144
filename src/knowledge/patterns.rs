//! Patterns in data files: a name with a final `*`, or a path glob with `*`, `**`, `?`, `[…]` and `{…}`, of which only
//! `**` matches a slash.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

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
