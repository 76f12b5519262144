//! Access to the image's files. Callers implement it.

/// The type of the file at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file with the ELF magic.
    Object,
    /// Any other regular file.
    Regular,
    /// A directory.
    Directory,
    /// A device, a pipe or a socket.
    Special,
}

/// The facts of a file that scripts test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    /// The type, after following links.
    pub kind: FileKind,
    /// The permission bits.
    pub mode: u32,
    /// The size in bytes.
    pub bytes: u64,
}

/// The merged file system of an image. Paths are absolute. Links are followed as the kernel follows them.
pub trait ImageFiles {
    /// The canonical path; `None` if nothing exists there.
    fn resolve(&self, path: &str) -> Option<String>;

    /// The facts of the file at the path, after following links.
    fn stat(&self, path: &str) -> Option<FileStat>;

    /// Whether the last component of the path is a symbolic link.
    fn is_link(&self, path: &str) -> bool;

    /// The content of a regular file; `None` if it is missing or was not kept.
    fn read(&self, path: &str) -> Option<&[u8]>;

    /// The sorted names in a directory; empty if it is not a directory.
    fn list(&self, path: &str) -> Vec<String>;

    /// Whether the distribution's package manager owns the file.
    fn is_packaged(&self, path: &str) -> bool;
}
