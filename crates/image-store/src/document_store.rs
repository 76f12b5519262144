//! Stores small named documents as files below a folder, possibly on a network file system, with any number of concurrent
//! writers.
#![expect(clippy::disallowed_methods, reason = "the documents are on the host")]

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use image_source::ImageError;

/// The size limit of a document: a hundred times the report of an image with every CUPTI file.
const DOCUMENT_BYTES: u64 = 64 << 20;
/// The folder of unfinished files.
const UNFINISHED: &str = ".unfinished";
/// The age at which an unfinished file counts as left behind by a killed worker.
const ABANDONED: Duration = Duration::from_hours(24);
/// The maximum depth of document folders.
const DEPTH: usize = 4;

/// Documents as files in one folder, named after the documents. Names are `a/b/c`; the caller limits them to letters,
/// digits, `-`, `_` and `.`.
pub struct DocumentStore {
    folder: PathBuf,
    /// Runs the cleanup of abandoned files once.
    is_tidy: Once,
}

impl DocumentStore {
    /// Opens a folder, which may not exist yet.
    ///
    /// Errors: [`ImageError::Reference`] if the name is empty, an address, or that of a file.
    pub fn open(place: &str) -> Result<Self, ImageError> {
        if place.is_empty() {
            return Err(ImageError::reference(place, "it is empty; name a folder"));
        }
        if let Some((scheme, _)) = place.split_once("://") {
            let why = format!("nothing is kept in {scheme}://; mount it, and name the folder");
            return Err(ImageError::reference(place, why));
        }
        if Path::new(place).is_file() {
            let why = "it is a file, and results are in a folder; is it the worklist?";
            return Err(ImageError::reference(place, why));
        }
        let (folder, is_tidy) = (place.into(), Once::new());
        Ok(Self { folder, is_tidy })
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes the bytes to a separate file, so that readers never see a partial document.
    fn unfinished(&self, name: &str, bytes: &[u8]) -> io::Result<tempfile::NamedTempFile> {
        let folder = self.place(UNFINISHED);
        for needed in [Some(&*folder), self.place(name).parent()].into_iter().flatten() {
            fs::create_dir_all(needed)?;
        }
        // Several users may share the folder; the umask still applies.
        let shared = fs::Permissions::from_mode(0o666);
        let mut file = tempfile::Builder::new().permissions(shared).tempfile_in(&folder)?;
        file.write_all(bytes)?;
        self.is_tidy.call_once(|| remove_abandoned(&folder, file.path()));
        // Synced before the rename: after a power loss a file might have its name but not its bytes, and an existing
        // document is never written again.
        file.as_file().sync_all()?;
        Ok(file)
    }

    /// The bytes of a document; `None` if it does not exist.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, ImageError> {
        let place = self.place(name);
        let failed = ImageError::io(place.display());
        // Opening a FIFO would block forever.
        match fs::symlink_metadata(&place) {
            Ok(found) if found.is_file() => {}
            Ok(_) => return Err(failed(io::Error::other("it is not a file"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
        let file = File::open(&place).map_err(&failed)?;
        let mut bytes = Vec::new();
        let read = file.take(DOCUMENT_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(failed)?;
        check_size(&place, &bytes)?;
        Ok(Some(bytes))
    }

    /// Whether a document exists.
    pub fn exists(&self, name: &str) -> Result<bool, ImageError> {
        let place = self.place(name);
        match fs::symlink_metadata(&place) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(ImageError::io(place.display())(error)),
        }
    }

    /// Creates a complete document. If several writers try at once, one succeeds; `false` means that it already
    /// existed and is unchanged.
    pub fn create(&self, name: &str, bytes: &[u8]) -> Result<bool, ImageError> {
        let place = self.place(name);
        let failed = ImageError::io(place.display());
        if fs::symlink_metadata(&place).is_ok() {
            return Ok(false);
        }
        let file = self.unfinished(name, bytes).map_err(&failed)?;
        match file.persist_noclobber(&place) {
            Ok(_) => Ok(true),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            // A bucket mounted as a folder supports neither hard links nor renaming without replacing.
            Err(error) => match error.file.persist(&place) {
                Ok(_) => Ok(true),
                Err(error) => Err(failed(error.error)),
            },
        }
    }

    /// Creates or replaces a document.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), ImageError> {
        let place = self.place(name);
        self.unfinished(name, bytes)
            .and_then(|file| file.persist(&place).map_err(|error| error.error))
            .map(drop)
            .map_err(ImageError::io(place.display()))
    }

    /// Removes a document; a missing one is not an error.
    pub fn remove(&self, name: &str) -> Result<(), ImageError> {
        let place = self.place(name);
        match fs::remove_file(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ImageError::io(place.display())(error)),
            _ => Ok(()),
        }
    }

    /// The names of all documents in a folder and its subfolders, sorted.
    pub fn list(&self, folder: &str) -> Result<Vec<String>, ImageError> {
        let mut names = Vec::new();
        list_below(&self.place(folder), folder, DEPTH, &mut names)?;
        names.sort();
        Ok(names)
    }
}

/// Errors: The document exceeds the size limit.
fn check_size(path: &Path, bytes: &[u8]) -> Result<(), ImageError> {
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= DOCUMENT_BYTES) {
        return Ok(());
    }
    let (what, limit) = (path.display().to_string(), DOCUMENT_BYTES);
    Err(ImageError::TooLarge { what, limit })
}

/// Removes files that are so much older than `own` that their writer must be gone. All times come from the file server,
/// so this machine's clock does not matter.
fn remove_abandoned(folder: &Path, own: &Path) {
    let written = |path: &Path| fs::symlink_metadata(path).and_then(|found| found.modified()).ok();
    let paths = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in paths.map(|entry| entry.path()) {
        let age = written(own).zip(written(&path));
        let is_old = age.is_some_and(|(now, then)| now.duration_since(then).is_ok_and(|age| age > ABANDONED));
        if is_old {
            // A failure is harmless: the file disturbs nobody.
            let _ = fs::remove_file(path);
        }
    }
}

fn list_below(folder: &Path, name: &str, depth: usize, names: &mut Vec<String>) -> Result<(), ImageError> {
    let failed = ImageError::io(folder.display());
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        let entry = entry.map_err(&failed)?;
        let file_name = entry.file_name();
        let Some(own) = file_name.to_str().filter(|own| !own.starts_with('.')) else {
            continue;
        };
        let below = format!("{name}/{own}");
        match entry.file_type().map_err(&failed)? {
            kind if kind.is_dir() && depth > 0 => list_below(&entry.path(), &below, depth - 1, names)?,
            kind if kind.is_dir() => {}
            // Reading it reports that it is not a file.
            _ => names.push(below),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ABANDONED, DocumentStore, UNFINISHED};

    #[test]
    fn a_fifo_is_listed_and_reading_it_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("results")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(dir.path().join("results/fifo"))
            .status();
        assert!(made.unwrap().success());
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("results/link")).unwrap();
        let store = DocumentStore::open(dir.path().to_str().unwrap()).unwrap();
        assert_eq!(store.list("results").unwrap(), ["results/fifo", "results/link"]);
        for name in ["results/fifo", "results/link"] {
            let error = store.read(name).unwrap_err().to_string();
            assert!(error.ends_with(": it is not a file"), "{error}");
        }
    }

    #[test]
    fn a_document_is_created_once_by_one_of_many_and_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("new/folder");
        let store = DocumentStore::open(place.to_str().unwrap()).unwrap();
        assert_eq!(store.list("results").unwrap(), Vec::<String>::new());
        assert_eq!(store.read("results/a/b.json").unwrap(), None);
        let texts: Vec<Vec<u8>> = (0..8).map(|number| vec![number; 100_000]).collect();
        let outcomes = std::thread::scope(|scope| {
            let all: Vec<_> = texts
                .iter()
                .map(|text| scope.spawn(|| store.create("results/a/b.json", text).unwrap()))
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
        });
        let created = outcomes.iter().filter(|one| **one);
        assert_eq!(created.count(), 1);
        assert!(texts.contains(&store.read("results/a/b.json").unwrap().unwrap()));
        store.replace("results/c.json", b"1").unwrap();
        store.replace("results/c.json", b"2").unwrap();
        assert_eq!(store.read("results/c.json").unwrap().unwrap(), b"2");
        std::fs::write(place.join("results/a/.hidden"), "no document").unwrap();
        assert_eq!(store.list("results").unwrap(), ["results/a/b.json", "results/c.json"]);
        assert_eq!(std::fs::read_dir(place.join(UNFINISHED)).unwrap().count(), 0);
        store.remove("results/c.json").unwrap();
        store.remove("results/c.json").unwrap();
        assert_eq!(store.list("results").unwrap(), ["results/a/b.json"]);
    }

    #[test]
    fn leftovers_of_a_killed_worker_are_removed_and_files_in_use_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let half = dir.path().join(UNFINISHED);
        std::fs::create_dir(&half).unwrap();
        for (name, age) in [("left", 2 * ABANDONED), ("begun", ABANDONED / 2)] {
            let file = std::fs::File::create(half.join(name)).unwrap();
            file.set_modified(std::time::SystemTime::now() - age).unwrap();
        }
        let store = DocumentStore::open(dir.path().to_str().unwrap()).unwrap();
        store.create("results/a.json", b"1").unwrap();
        let there: Vec<_> = std::fs::read_dir(&half)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(there, ["begun"]);
    }
}
