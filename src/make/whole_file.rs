//! Files that the user names: each is there whole or not at all.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::NamedTempFile;

/// What happens to what is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExistingOutput {
    /// It stays, and nothing is written.
    Stays,
    Replaced,
}

impl ExistingOutput {
    /// What a user's `--force` means.
    pub(crate) fn with_force(force: bool) -> Self {
        if force { Self::Replaced } else { Self::Stays }
    }
}

/// The folder that a path lies in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        // The parent of a bare name is the empty path, which no call of the host takes.
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// An empty file in `folder` without a lasting name: it is gone unless it is put into its place.
///
/// Errors: What the host says.
pub(crate) fn create_unnamed(folder: &Path, permissions: Option<Permissions>) -> io::Result<NamedTempFile> {
    // A temporary file is the user's alone; one that is to stay is readable as the umask has it.
    let permissions = permissions.unwrap_or(Permissions::from_mode(0o666));
    // In the same folder, as a rename is at once only within one file system.
    tempfile::Builder::new()
        .prefix(".cupti-audit-")
        .permissions(permissions)
        .tempfile_in(folder)
}

/// Gives a file its name. A file that came there in the meantime stays where it is to stay.
///
/// Errors: What the host says; [`io::ErrorKind::AlreadyExists`] for a file that is there and stays.
pub(crate) fn put_in_place(file: NamedTempFile, place: &Path, existing: ExistingOutput) -> io::Result<()> {
    let put = match existing {
        ExistingOutput::Stays => file.persist_noclobber(place),
        ExistingOutput::Replaced => file.persist(place),
    };
    put.map(drop).map_err(|error| error.error)
}

/// Writes a file at once: a reader never sees half of it, and of a run that is cut off nothing is left in its place.
///
/// Errors: What the host says of the folder, the file or its name.
pub(crate) fn write_whole_file(place: &Path, content: &str, existing: ExistingOutput) -> io::Result<()> {
    let mut file = create_unnamed(folder_of(place), None)?;
    file.write_all(content.as_bytes())?;
    put_in_place(file, place, existing)
}

#[cfg(test)]
mod tests {
    use super::{ExistingOutput, write_whole_file};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test looks at what was written")]
    fn a_file_that_appeared_meanwhile_is_replaced_only_where_it_may_be() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("proof.json");
        write_whole_file(&file, "theirs", ExistingOutput::Stays).unwrap();
        let refused = write_whole_file(&file, "ours", ExistingOutput::Stays).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "theirs");
        write_whole_file(&file, "ours", ExistingOutput::Replaced).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "ours");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
