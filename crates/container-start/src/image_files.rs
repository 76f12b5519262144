//! The image's files, as whoever reads a container's start has to provide them.

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file that begins as an ELF object does.
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
    /// What it is, links followed.
    pub kind: FileKind,
    /// The permission bits.
    pub mode: u32,
    /// The size in bytes.
    pub bytes: u64,
}

/// The merged file system of an image. Paths are absolute; links are followed as the kernel follows them.
pub trait ImageFiles {
    /// The path without links; `None` where nothing is there.
    fn resolve(&self, path: &str) -> Option<String>;

    /// The facts of what the path leads to.
    fn stat(&self, path: &str) -> Option<FileStat>;

    /// Whether the last part of the path is a symbolic link.
    fn is_link(&self, path: &str) -> bool;

    /// The content of a regular file; `None` where it is not there, or not at hand.
    fn read(&self, path: &str) -> Option<&[u8]>;

    /// The names in a directory, sorted; none where it is no directory.
    fn list(&self, path: &str) -> Vec<String>;

    /// Whether the file belongs to a package of the distribution.
    fn is_packaged(&self, path: &str) -> bool;
}
