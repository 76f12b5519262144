//! The names of the files of a cache: made here, and known again here when others have put files beside them.

use image_linkage::digest::Digest;

/// What a file of the cache is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// A blob as stored: which tar it holds.
    Blob,
    /// An uncompressed tar: its index.
    Tar,
    /// An image as an engine knows it.
    Image,
}

impl FileKind {
    const ALL: [Self; 3] = [Self::Blob, Self::Tar, Self::Image];

    fn word(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Tar => "tar",
            Self::Image => "image",
        }
    }

    /// The name of the file of this kind that is of `digest`: `KIND-ALGORITHM-HEX`.
    pub(super) fn file_name(self, digest: &Digest) -> String {
        format!("{}-{}-{}", self.word(), digest.algorithm(), digest.digest())
    }
}

/// Whether a file is called as [`FileKind::file_name`] calls one.
pub(super) fn is_cache_name(name: &str) -> bool {
    let mut parts = name.splitn(3, '-');
    let [kind, algorithm, digits] = [parts.next(), parts.next(), parts.next()].map(Option::unwrap_or_default);
    FileKind::ALL.iter().any(|own| own.word() == kind) && algorithm.starts_with("sha") && is_hex(digits, 1)
}

/// Whether a text is of hexadecimal digits alone, of so many at least.
pub(super) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() >= digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
