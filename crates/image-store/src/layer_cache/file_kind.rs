//! The file names of the cache: creates them, and recognizes them among foreign files.

use image_linkage::digest::Digest;

/// The content of a cache file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// A stored blob: which tar it contains.
    Blob,
    /// An uncompressed tar: its index.
    Tar,
    /// An engine's image.
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

    /// The file name for `digest`: `KIND-ALGORITHM-HEX`.
    pub(super) fn file_name(self, digest: &Digest) -> String {
        format!("{}-{}-{}", self.word(), digest.algorithm(), digest.digest())
    }
}

/// Whether a name has the form of [`FileKind::file_name`].
pub(super) fn is_cache_name(name: &str) -> bool {
    let mut parts = name.splitn(3, '-');
    let [kind, algorithm, digits] = [parts.next(), parts.next(), parts.next()].map(Option::unwrap_or_default);
    FileKind::ALL.iter().any(|own| own.word() == kind) && algorithm.starts_with("sha") && is_hex(digits, 1)
}

/// Whether a text consists of at least `digits` hexadecimal digits.
pub(super) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() >= digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
