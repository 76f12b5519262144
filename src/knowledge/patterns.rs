//! How data speaks of names and paths in an image: a name with a final `*`, or a pattern of `*`, `**`, `?`, `[…]` and
//! `{…}`, of which only `**` goes across a slash.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// The bytes of a pattern; the longest of the program has 60.
const LENGTH: usize = 1024;
/// The braces within braces. What compiles a pattern goes one call deeper for each.
const BRACES: usize = 8;

/// Whether a name is the one that data speaks of; a final `*` in it stands for any rest.
pub fn matches_name_pattern(name: &[u8], pattern: &str) -> bool {
    // At the end alone: no name of a hostile image can make such a comparison slow.
    match pattern.strip_suffix('*') {
        Some(stem) => name.starts_with(stem.as_bytes()),
        None => name == pattern.as_bytes(),
    }
}

/// Reads a pattern of paths, within bounds.
///
/// Errors: That it is longer or deeper than anybody writes one, or what `globset` finds wrong with it.
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

/// A pattern ready to be compared.
///
/// Errors: As [`path_glob`], or that it is too large once it is compiled.
pub fn compile_glob(pattern: &str) -> Result<GlobSet, String> {
    let glob = path_glob(pattern)?;
    // `Glob::compile_matcher` panics at what a set refuses.
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
