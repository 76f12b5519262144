//! Files that are complete or absent: written to a temporary file and renamed, with a digest at their end.
//!
//! There are no locks. Two processes that write the same file write the same bytes, and one of them wins.
#![expect(
    clippy::disallowed_methods,
    reason = "a cache is on the host, and eviction needs the clock"
)]

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, BufWriter, Read as _, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use super::file_kind::{is_cache_name, is_hex};
use crate::unfinished_output::{create_unfinished_file, is_unfinished_name};
use image_linkage::digest::DigestHasher;

/// The size limit of the cache: the indexes of a few thousand layers. An index of 250,000 files has 3 MB.
pub const KEPT_BYTES: u64 = 1 << 30;
/// The size limit of a file: four million entries take about 50 MB.
const FILE_BYTES: u64 = 256 << 20;
/// The length of the digest at the end of a file: `sha256:` and 64 digits.
const SEAL_BYTES: usize = 71;

/// A folder of such files.
pub(super) struct SealedFolder {
    root: PathBuf,
    folder: PathBuf,
    written: AtomicBool,
}

/// The size of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheContent {
    /// The number of files.
    pub files: usize,
    /// Their total size in bytes.
    pub bytes: u64,
}

struct CacheFile {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

impl SealedFolder {
    /// The folder `name` below `root`, created with the first file.
    ///
    /// Errors: The system's error, or that other users may write to `root`.
    pub(super) fn open(root: &Path, name: &str) -> io::Result<Self> {
        let folder = root.join(name);
        for folder in [root, &folder] {
            let mode = match fs::symlink_metadata(folder) {
                // A link would redirect all writes and removals.
                Ok(found) if found.is_symlink() => {
                    return Err(io::Error::other(format!("{} is a link", folder.display())));
                }
                Ok(found) => found.mode(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            // An index is trusted, so whoever can write one controls the report.
            if mode & 0o022 != 0 {
                let text = format!("others may write to {}; forbid it with: chmod go-w", folder.display());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
            }
        }
        Ok(Self {
            root: root.to_owned(),
            folder,
            written: AtomicBool::new(false),
        })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn open_sealed(&self, name: &str) -> Option<(File, Vec<u8>)> {
        let path = self.folder.join(name);
        // Opening a FIFO would block forever. Anything but a file counts as missing.
        let found = fs::metadata(&path).ok()?;
        if !found.is_file() || found.len() > FILE_BYTES {
            return None;
        }
        let mut sealed = Vec::new();
        let mut file = File::open(path).ok()?;
        (&mut file).take(FILE_BYTES).read_to_end(&mut sealed).ok()?;
        Some((file, sealed))
    }

    /// The content of a file; removes a damaged one.
    pub(super) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let (file, mut content) = self.open_sealed(name)?;
        let at = content.len().checked_sub(SEAL_BYTES);
        let seal = at.map(|at| content.split_off(at));
        let mut hasher = self.hasher(name);
        hasher.update(&content);
        if seal.as_deref() != Some(hasher.finish().as_ref().as_bytes()) {
            self.remove(name);
            return None;
        }
        // Marks the file as recently used. If that fails, it is evicted earlier.
        let _ = file.set_modified(SystemTime::now());
        Some(content)
    }

    /// Removes a useless file.
    pub(super) fn remove(&self, name: &str) {
        // Another process may have removed it. If removal fails, the file is found damaged again.
        let _ = fs::remove_file(self.folder.join(name));
    }

    /// Writes the output of `fill` to a file, atomically.
    ///
    /// Errors: Those of `fill` or of the system.
    pub(super) fn write(&self, name: &str, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        self.put(name, |file| fill_and_seal(file, self.hasher(name), fill))
    }

    fn put(&self, name: &str, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        self.written.store(true, Ordering::Relaxed);
        // The content of a private image must stay private.
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        // Created with access for its owner only.
        let mut beside = create_unfinished_file(&self.folder, Some(Permissions::from_mode(0o600)))?;
        fill(beside.as_file_mut())?;
        // Not synced: a file emptied by a crash is found damaged and written again.
        beside.persist(self.folder.join(name)).map_err(|error| error.error)?;
        Ok(())
    }

    /// Starts with the path of the file, so that a moved file counts as damaged.
    fn hasher(&self, name: &str) -> DigestHasher {
        let mut hasher = DigestHasher::default();
        for part in [
            self.folder.file_name().unwrap_or_default().as_encoded_bytes(),
            name.as_bytes(),
        ] {
            hasher.update(part);
        }
        hasher
    }

    /// Keeps all folders together within `bytes`, if anything was written.
    pub(super) fn bound(&self, bytes: u64) {
        if self.written.load(Ordering::Relaxed) {
            remove_files(&self.root, bytes);
        }
    }
}

/// The total content of the folders in `root`.
pub(super) fn list_folder(root: &Path) -> CacheContent {
    count(&find_files(root))
}

/// Removes the least recently used files until at most `bytes` remain; 0 removes all. Returns what was removed, and the
/// errors.
pub(super) fn remove_files(root: &Path, bytes: u64) -> (CacheContent, Vec<io::Error>) {
    let mut files = find_files(root);
    files.sort_by_key(|file| file.used);
    let mut total = count(&files).bytes;
    let mut removed = Vec::new();
    let mut errors = Vec::new();
    for file in files {
        if bytes > 0 && total <= bytes {
            continue;
        }
        total -= file.bytes;
        match fs::remove_file(&file.path) {
            // Another process was faster.
            Err(error) if error.kind() != io::ErrorKind::NotFound => errors.push(error),
            _ => removed.push(file),
        }
    }
    (count(&removed), errors)
}

fn count(files: &[CacheFile]) -> CacheContent {
    CacheContent {
        files: files.len(),
        bytes: files.iter().map(|file| file.bytes).sum(),
    }
}

/// The entries of a folder. A link could lead anywhere, so it has none.
fn entries_of(folder: &Path) -> impl Iterator<Item = fs::DirEntry> {
    let is_folder = fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir());
    let read = is_folder.then(|| fs::read_dir(folder));
    read.into_iter().flatten().flatten().flatten()
}

/// The cache files in the folders of `root`, recognized by name. Skips unreadable ones.
fn find_files(root: &Path) -> Vec<CacheFile> {
    let mut files = Vec::new();
    for folder in entries_of(root) {
        if !is_hex(&folder.file_name().to_string_lossy(), 64) {
            continue;
        }
        for entry in entries_of(&folder.path()) {
            let file_name = entry.file_name();
            let name = file_name.to_string_lossy();
            if (is_cache_name(&name) || is_unfinished_name(&name))
                && let Ok(found) = entry.metadata()
                && found.is_file()
                && let Ok(used) = found.modified()
            {
                let (path, bytes) = (entry.path(), found.len());
                files.push(CacheFile { path, bytes, used });
            }
        }
    }
    files
}

fn fill_and_seal(
    sealed: &mut File,
    hasher: DigestHasher,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut writer = SealingWriter {
        inner: BufWriter::new(sealed),
        hasher,
    };
    fill(&mut writer)?;
    writer.inner.write_all(writer.hasher.finish().as_ref().as_bytes())?;
    writer.inner.flush()
}

struct SealingWriter<W> {
    inner: W,
    hasher: DigestHasher,
}

impl<W: Write> Write for SealingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.hasher.update(bytes.get(..n).unwrap_or_default());
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::io;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use super::{CacheContent, SealedFolder, list_folder, remove_files};

    /// The folder of one set of index options.
    const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn keep(folder: &SealedFolder, name: &str, content: &[u8]) {
        folder.write(name, |to| to.write_all(content)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_file_is_private_and_a_changed_one_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = SealedFolder::open(&dir.path().join("cache"), KEY).unwrap();
        keep(&folder, "tar-sha256-a", b"content");
        let file = folder.folder().join("tar-sha256-a");
        assert_eq!((mode(folder.folder()), mode(&file)), (0o700, 0o600));
        assert_eq!(folder.read("tar-sha256-a").as_deref(), Some(&b"content"[..]));
        let whole = fs::read(&file).unwrap();
        for end in 0..whole.len() {
            fs::write(&file, &whole[..end]).unwrap();
            assert_eq!((folder.read("tar-sha256-a"), file.exists()), (None, false), "{end}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            fs::write(&file, &changed).unwrap();
            assert_eq!((folder.read("tar-sha256-a"), file.exists()), (None, false), "{at}");
        }
        // A file in the place of another is damaged too.
        fs::write(folder.folder().join("tar-sha256-b"), &whole).unwrap();
        assert_eq!(folder.read("tar-sha256-b"), None);
        let other = SealedFolder::open(&dir.path().join("cache"), &KEY.replace('0', "1")).unwrap();
        keep(&other, "tar-sha256-a", b"content");
        fs::write(other.folder().join("tar-sha256-a"), &whole).unwrap();
        assert_eq!(other.read("tar-sha256-a"), None);
        fs::write(&file, &whole).unwrap();
        assert_eq!(folder.read("tar-sha256-a").as_deref(), Some(&b"content"[..]));
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let folder = SealedFolder::open(dir.path(), KEY).unwrap();
        keep(&folder, "tar-sha256-a", b"old");
        let failed = folder.write("tar-sha256-a", |to| {
            to.write_all(b"new")?;
            Err(io::Error::other("the disk is full"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "the disk is full");
        assert_eq!(folder.read("tar-sha256-a").as_deref(), Some(&b"old"[..]));
        assert_eq!(list_folder(dir.path()).files, 1);
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cache");
        let folder = SealedFolder::open(&root, KEY).unwrap();
        assert!(!root.exists());
        folder.write("tar-sha256-f", |_| Ok(())).unwrap();
        assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
        for at in [&*root, folder.folder()] {
            for mode in [0o775, 0o757] {
                fs::set_permissions(at, Permissions::from_mode(mode)).unwrap();
                let error = SealedFolder::open(&root, KEY).err().unwrap().to_string();
                let refused = format!("others may write to {}; forbid it with: chmod go-w", at.display());
                assert_eq!(error, refused, "{mode:o}");
            }
            fs::set_permissions(at, Permissions::from_mode(0o755)).unwrap();
            assert!(SealedFolder::open(&root, KEY).is_ok());
        }
    }

    #[test]
    fn the_least_recently_used_file_is_removed_first() {
        let dir = tempfile::tempdir().unwrap();
        let folder = SealedFolder::open(dir.path(), KEY).unwrap();
        let used = |name: &str, hours: u64| {
            let file = fs::File::options()
                .append(true)
                .open(folder.folder().join(name))
                .unwrap();
            file.set_modified(SystemTime::now() - Duration::from_hours(hours))
                .unwrap();
        };
        for (name, hours) in [("tar-sha256-a", 3), ("tar-sha256-b", 2), ("tar-sha256-c", 1)] {
            keep(&folder, name, &[0; 29]);
            used(name, hours);
        }
        // Reading counts as use.
        assert!(folder.read("tar-sha256-a").is_some());
        let content = |files, bytes| CacheContent { files, bytes };
        assert_eq!(list_folder(dir.path()), content(3, 300));
        assert_eq!(remove_files(dir.path(), 200).0, content(1, 100));
        assert!(
            folder.read("tar-sha256-b").is_none()
                && folder.read("tar-sha256-a").is_some()
                && folder.read("tar-sha256-c").is_some()
        );
        assert_eq!(remove_files(dir.path(), 0).0, content(2, 200));
        assert_eq!(list_folder(dir.path()), content(0, 0));
    }

    #[test]
    fn only_files_of_the_cache_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        let folder = SealedFolder::open(&at("layers"), KEY).unwrap();
        keep(&folder, "tar-sha256-a", b"ours");
        fs::create_dir_all(at("layers/mine")).unwrap();
        fs::create_dir_all(at("docs")).unwrap();
        let theirs = [
            at("layers/mine/thesis.bin"),
            at("layers/mine/tar-sha256-b"),
            at("docs/tar-sha256-c"),
            folder.folder().join("notes"),
            at("layers/tar-sha256-d"),
        ];
        for file in &theirs {
            fs::write(file, "theirs").unwrap();
        }
        let other_key = KEY.replace('0', "1");
        symlink(at("docs"), at("layers").join(other_key)).unwrap();
        assert_eq!(list_folder(&at("layers")).files, 1);
        assert_eq!(remove_files(&at("layers"), 0).0.files, 1);
        assert!(theirs.iter().all(|file| file.exists()) && folder.read("tar-sha256-a").is_none());
        // The same if the whole folder is a link.
        keep(&folder, "tar-sha256-a", b"ours");
        symlink(at("layers"), at("link")).unwrap();
        assert_eq!(remove_files(&at("link"), 0).0.files, 0);
        let error = SealedFolder::open(&at("link"), KEY).err().unwrap().to_string();
        assert_eq!(error, format!("{} is a link", at("link").display()));
        assert!(folder.read("tar-sha256-a").is_some());
    }
}
