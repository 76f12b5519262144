//! Temporary output. It has its own name next to its target and is locked by its writer. If the writer is killed, the
//! next run in the same folder removes it.
#![expect(clippy::disallowed_methods, reason = "partial output is on the host")]

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::{NamedTempFile, TempDir};

/// The prefix of the names; [`RANDOM`] letters and digits follow.
const PREFIX: &str = ".image-unfinished-";
const RANDOM: usize = 6;

/// Everything that this process created, for removal on an interrupt. Old names stay in the list: they are never
/// reused.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A folder that is deleted with its content, unless it is moved first.
#[derive(Debug)]
pub struct UnfinishedFolder {
    folder: TempDir,
    /// Held while the folder is in use.
    _lock: File,
}

impl UnfinishedFolder {
    /// A new folder for this run in `parent`.
    ///
    /// Errors: The system's error.
    pub fn new(parent: &Path) -> io::Result<Self> {
        let made = create_locked(|| {
            let folder = named().tempdir_in(parent)?;
            match File::open(folder.path()) {
                Ok(lock) => Ok(Some((folder, lock))),
                Err(gone) if gone.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        });
        let (folder, lock) = made?;
        remove_abandoned(parent, &lock)?;
        Ok(Self { folder, _lock: lock })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// An empty file in `parent`, deleted unless it gets a name.
///
/// Errors: The system's error.
pub fn create_unfinished_file(parent: &Path, permissions: Option<Permissions>) -> io::Result<NamedTempFile> {
    // A temporary file is private; one that will stay gets the umask's permissions.
    let permissions = permissions.unwrap_or(Permissions::from_mode(0o666));
    let made = create_locked(|| {
        let file = named().permissions(permissions.clone()).tempfile_in(parent)?;
        // The same open file, so that the lock lasts until it has its name.
        let lock = file.as_file().try_clone()?;
        Ok(Some((file, lock)))
    });
    let (file, lock) = made?;
    remove_abandoned(parent, &lock)?;
    Ok(file)
}

/// Removes this process's partial output. It keeps the lock, so nothing new is created before the process ends.
pub fn remove_on_interrupt() {
    let made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    for place in made.iter() {
        // A thread may still write into the folder, so removal is tried three times.
        let _ = (0..3).find(|_| match fs::symlink_metadata(place) {
            Ok(there) if there.is_dir() => fs::remove_dir_all(place).is_ok(),
            Ok(_) => fs::remove_file(place).is_ok(),
            Err(_) => true,
        });
    }
    std::mem::forget(made);
}

fn named() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).rand_bytes(RANDOM);
    builder
}

trait OnDisk {
    fn place(&self) -> &Path;
}

impl OnDisk for TempDir {
    fn place(&self) -> &Path {
        self.path()
    }
}

impl OnDisk for NamedTempFile {
    fn place(&self) -> &Path {
        self.path()
    }
}

/// Creates and locks something. Before the lock another run may remove it as abandoned; then it is created again.
fn create_locked<T: OnDisk>(create: impl Fn() -> io::Result<Option<(T, File)>>) -> io::Result<(T, File)> {
    loop {
        // Held until the name is recorded, so that an interrupt never misses it.
        let mut names = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((made, file)) = create()? else {
            continue;
        };
        names.push(made.place().to_owned());
        drop(names);
        // Without lock support no other run has a lock either, and none removes anything.
        let is_locked = file.lock().is_ok();
        let is_there = fs::symlink_metadata(made.place()).is_ok_and(|there| same_file(&there, &file));
        if is_there || !is_locked {
            return Ok((made, file));
        }
    }
}

fn same_file(there: &fs::Metadata, lock: &File) -> bool {
    let opened = lock.metadata();
    opened.is_ok_and(|opened| (opened.dev(), opened.ino()) == (there.dev(), there.ino()))
}

/// Whether a name has the form of an unfinished file or folder.
pub(crate) fn is_unfinished_name(name: &str) -> bool {
    let random = name.strip_prefix(PREFIX);
    random.is_some_and(|random| random.len() == RANDOM)
}

/// Removes what killed runs of `own`'s owner left in a folder. Skips other users' files, and anything in use.
fn remove_abandoned(folder: &Path, own: &File) -> io::Result<()> {
    let user = own.metadata()?.uid();
    // A folder may be writable but not listable; then leftovers stay.
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(is_unfinished_name);
        let Some(found) = entry.metadata().ok().filter(|_| is_ours) else {
            continue;
        };
        if found.uid() != user || !(found.is_file() || found.is_dir()) {
            continue;
        }
        let path = entry.path();
        let lock = File::open(&path).ok().filter(|lock| lock.try_lock().is_ok());
        // The lock is held during removal. A run that reuses the name meanwhile sees another inode.
        if lock.as_ref().is_some_and(|lock| same_file(&found, lock)) {
            // A failure is harmless to the requested output.
            let _ = if found.is_dir() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{PREFIX, UnfinishedFolder, create_unfinished_file};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test looks at what is there")]
    fn leftovers_of_a_killed_run_are_removed_and_those_of_a_running_one_are_not() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let abandoned = at(&format!("{PREFIX}abcdef"));
        fs::create_dir_all(abandoned.join("layout/blobs")).unwrap();
        fs::write(at(&format!("{PREFIX}ghijkl")), "half").unwrap();
        for mine in [&*format!("{PREFIX}notes"), ".cupti-audit-abcdef"] {
            fs::write(at(mine), "kept").unwrap();
        }
        let (folder, file) = (
            UnfinishedFolder::new(parent.path()).unwrap(),
            create_unfinished_file(parent.path(), None).unwrap(),
        );
        let names = || {
            let entries = fs::read_dir(parent.path()).unwrap();
            entries
                .map(|entry| entry.unwrap().path())
                .collect::<std::collections::BTreeSet<_>>()
        };
        let living = [folder.path().to_owned(), file.path().to_owned()];
        let kept = [at(&format!("{PREFIX}notes")), at(".cupti-audit-abcdef")];
        assert_eq!(names(), living.into_iter().chain(kept.clone()).collect());
        drop((folder, file));
        assert_eq!(names(), kept.into());
    }

    #[test]
    fn concurrent_runs_do_not_remove_each_others_folders() {
        let parent = tempfile::tempdir().unwrap();
        let begin = || (0..200).map(|_| UnfinishedFolder::new(parent.path()));
        std::thread::scope(|scope| {
            let runs: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| begin().all(|made| made.is_ok())))
                .collect();
            assert!(runs.into_iter().all(|run| run.join().unwrap()));
        });
    }
}
