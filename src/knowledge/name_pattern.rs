//! How data speaks of names in an image.

/// Whether a name is the one that data speaks of; a final `*` in it stands for any rest.
pub fn matches_name_pattern(name: &[u8], pattern: &str) -> bool {
    // At the end alone: no name of a hostile image can make such a comparison slow.
    match pattern.strip_suffix('*') {
        Some(stem) => name.starts_with(stem.as_bytes()),
        None => name == pattern.as_bytes(),
    }
}
