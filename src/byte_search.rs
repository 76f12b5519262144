//! Searches for bytes in image data, which may have megabytes.

use memchr::memmem;

/// Whether `text` contains `part`. An empty part is never contained, because an image may have an empty soname.
pub(crate) fn contains_bytes(text: &[u8], part: &[u8]) -> bool {
    !part.is_empty() && memmem::find(text, part).is_some()
}

/// The file name in a path.
pub(crate) fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::contains_bytes;

    #[test]
    fn an_empty_name_is_in_no_text() {
        assert!(contains_bytes(b"[libcupti.so]", b"libcupti"));
        assert!(!contains_bytes(b"[libcupti.so]", b"libcuptj"));
        assert!(!contains_bytes(b"[libcupti.so]", b""));
    }
}
