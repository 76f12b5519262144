//! An unpacked root file system in a host folder, read as one layer.
#![expect(clippy::disallowed_methods, reason = "an image source reads the host")]

use std::collections::BTreeSet;
use std::fs::{self, DirEntry, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use crate::config::ImageConfig;
use crate::image::Image;
use crate::image_error::ImageError;
use crate::platform::Platform;
use crate::read_layers::in_parallel;
use crate::root_index::{RootIndex, too_many_entries};
use crate::source::{ImageDocuments, ImageSource, KeepFile, OpenRequest, OpenedImage, OpenedLayers};
use crate::source_kind::SourceKind;
use image_linkage::layer::{
    AccessList, FileCapabilities, FileFacts, KeptClass, LayerEntry, LayerIndex, NodeAccess, read_file_facts,
};
use image_linkage::path::RootPath;

/// A root file system in a folder. Links are recorded and never followed. Skips kernel file systems mounted at `/proc`,
/// `/sys` and `/dev`.
#[derive(Debug, Clone)]
pub struct RootfsDir {
    /// The reference as the user wrote it.
    pub reference: String,
    /// The host path of the image's `/`.
    pub dir: PathBuf,
}

impl ImageSource for RootfsDir {
    /// Walks the whole folder. Whatever cannot be read becomes a problem of the layer.
    fn open(&self, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError> {
        let index = walk(&self.dir, &FolderView::default(), request)?;
        Ok(OpenedImage {
            image: Image::of_root(&self.reference, SourceKind::Rootfs, Platform::host()),
            documents: ImageDocuments::default(),
            layers: OpenedLayers::Folder(self.dir.clone(), Box::new(index)),
            home: None,
        })
    }

    fn list_platforms(&self, _request: &OpenRequest<'_>) -> Result<Vec<Platform>, ImageError> {
        Ok(Vec::new())
    }

    fn open_reopenable(&self, request: &OpenRequest<'_>, _keep: KeepFile<'_>) -> Result<OpenedImage, ImageError> {
        self.open(request)
    }
}

/// The root file system of the container that this process runs in. What its user may not read is also unreadable for
/// the programs that it starts, so that counts as absent. Skips the folders `passed_over`.
///
/// Errors: As for a folder.
pub fn open_running_root(
    config: ImageConfig,
    passed_over: BTreeSet<PathBuf>,
    request: &OpenRequest<'_>,
) -> Result<OpenedImage, ImageError> {
    let root = Path::new("/");
    let view = FolderView {
        passed_over,
        is_own: true,
    };
    let index = walk(root, &view, request)?;
    let image = Image::of_root("rootfs:/", SourceKind::Rootfs, Platform::host());
    Ok(OpenedImage {
        image: Image { config, ..image },
        documents: ImageDocuments::default(),
        layers: OpenedLayers::Folder(root.to_owned(), Box::new(index)),
        home: None,
    })
}

/// What to include in a walk.
#[derive(Default)]
struct FolderView {
    /// Subfolders to skip.
    passed_over: BTreeSet<PathBuf>,
    /// Whether this process asks for itself. Then an unreadable path counts as absent, and not as a gap.
    is_own: bool,
}

/// Walks `dir` and all its subfolders.
fn walk(dir: &Path, view: &FolderView, request: &OpenRequest<'_>) -> Result<LayerIndex, ImageError> {
    request.progress.start(0, None);
    let io_error = ImageError::io(dir.display());
    let limit = request.limits().layer_entries;
    let mut walk = FolderWalk {
        root: RootIndex::default(),
        // A list and not recursion: the image decides how deep the folders are.
        pending: vec![(dir.to_owned(), RootPath::default())],
        device: fs::metadata(dir).map_err(&io_error)?.dev(),
        files: Vec::new(),
        keepable: 0,
        found: 0,
        view,
        request,
    };
    while let Some((folder, at)) = walk.pending.pop() {
        let entries = match entries(&folder) {
            Ok(entries) => entries,
            // An unreadable root is an error; an unreadable subfolder is a gap.
            Err(error) if at == RootPath::default() => return Err(io_error(error)),
            Err(error) => {
                walk.unreadable(at, &error);
                continue;
            }
        };
        for entry in entries {
            let path = at.join(entry.file_name().as_bytes());
            walk.found += 1;
            if walk.found > limit {
                return Err(too_many_entries(&dir.display().to_string(), limit));
            }
            if let Err(error) = walk.enter(&entry, &path) {
                walk.unreadable(path, &error);
            }
        }
    }
    walk.read_files();
    request.progress.finish(0);
    Ok(walk.root.finish(request.limits()))
}

fn entries(folder: &Path) -> io::Result<Vec<DirEntry>> {
    // Collects all names first: a folder that fails half-way is unreadable as a whole, and not shorter.
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    // Sorted, so that the file system's order does not decide which file exceeds a limit.
    entries.sort_unstable_by_key(DirEntry::file_name);
    Ok(entries)
}

/// An unfinished walk.
struct FolderWalk<'a> {
    root: RootIndex,
    /// Folders to read, with their paths in the image.
    pending: Vec<(PathBuf, RootPath)>,
    /// The device number of the root's file system.
    device: u64,
    /// Files found but not read yet, in order.
    files: Vec<FoundFile>,
    /// The bytes of them that may be kept.
    keepable: u64,
    /// How many names were found so far.
    found: usize,
    view: &'a FolderView,
    request: &'a OpenRequest<'a>,
}

/// A regular file to read.
struct FoundFile {
    path: RootPath,
    /// Its path on the host.
    place: PathBuf,
    metadata: Metadata,
}

/// How many files are read as one batch.
const TOGETHER: usize = 1024;
/// How many bytes of a batch may be kept, before the total is checked.
const KEEPABLE: u64 = 64 << 20;
/// How many files are read in parallel: each may hold the start of an object, up to 24 MiB.
const READERS: usize = 4;

impl FoundFile {
    /// The facts from its directory entry alone.
    fn facts_without_content(&self) -> FileFacts {
        let access = access(&self.metadata);
        FileFacts {
            bytes: self.metadata.len(),
            mode: access.mode,
            uid: access.uid,
            gid: access.gid,
            ..FileFacts::default()
        }
    }

    /// Reads it. The second value says how its content counts against the limits.
    fn read(&self, request: &OpenRequest<'_>) -> io::Result<(FileFacts, KeptClass)> {
        let access = access(&self.metadata);
        let bytes = self.metadata.len();
        // A sparse file is cheap to make and takes minutes to read. The ratio limit of a layer applies to it too.
        let (limits, stored) = (request.limits(), self.metadata.blocks().saturating_mul(512));
        let most = stored.saturating_mul(limits.layer_ratio).max(limits.ratio_from);
        let mut read = File::open(&self.place)?.take(most);
        let (mut facts, class) = read_file_facts(&self.path, (access.mode, Some(bytes)), &mut read, request.index)?;
        if read.limit() == 0 {
            return Err(io::Error::other("nearly all of it is a hole (layer-ratio)"));
        }
        let file = read.into_inner();
        (facts.uid, facts.gid) = (access.uid, access.gid);
        // Capabilities only matter on an executable file.
        facts.capabilities = (access.mode & 0o111 != 0).then(|| capabilities(&file)).flatten();
        facts.access_list = access_list(&self.place);
        request.progress.advance(0, facts.bytes);
        Ok((facts, class))
    }
}

impl FolderWalk<'_> {
    /// Adds the entry of one name.
    fn enter(&mut self, entry: &DirEntry, path: &RootPath) -> io::Result<()> {
        // Metadata of the entry itself: a link is recorded, because its target is in the image and not on this host.
        let metadata = entry.metadata()?;
        let kind = metadata.file_type();
        let found = if kind.is_dir() {
            // A root file system in use has these mounted: endless, and not part of the image.
            if is_kernel_mount(path) && metadata.dev() != self.device {
                return Ok(());
            }
            if self.view.passed_over.contains(&entry.path()) {
                return Ok(());
            }
            self.pending.push((entry.path(), path.clone()));
            LayerEntry::Directory(access(&metadata), access_list(&entry.path()))
        } else if kind.is_symlink() {
            let target = fs::read_link(entry.path())?;
            LayerEntry::Symlink(target.as_os_str().as_bytes().into())
        } else if kind.is_file() {
            self.add_file(FoundFile {
                path: path.clone(),
                place: entry.path(),
                metadata,
            });
            return Ok(());
        } else {
            // Not opened: a FIFO would wait for its writer forever, and a device has no end.
            LayerEntry::Special
        };
        self.root.insert(path, found);
        Ok(())
    }

    fn add_file(&mut self, file: FoundFile) {
        if self.request.index.interest.may_keep(&file.path) {
            self.keepable += file.metadata.len().min(self.request.limits().kept_file);
        }
        self.files.push(file);
        if self.files.len() >= TOGETHER || self.keepable > KEEPABLE {
            self.read_files();
        }
    }

    /// Reads the pending files in parallel, and adds them in order.
    fn read_files(&mut self) {
        let (files, request) = (std::mem::take(&mut self.files), self.request);
        self.keepable = 0;
        let readers = thread::available_parallelism().map_or(1, |cores| cores.get().min(READERS));
        let results = in_parallel(&files, readers, |file| file.read(request));
        for (file, read) in files.into_iter().zip(results) {
            match read {
                Ok((facts, class)) => {
                    self.root.enter_file(&file.path, facts, class, self.request.limits());
                }
                Err(error) => {
                    if self.view.is_own {
                        let facts = file.facts_without_content();
                        self.root
                            .enter_file(&file.path, facts, KeptClass::Needed, self.request.limits());
                    }
                    self.unreadable(file.path, &error);
                }
            }
        }
    }

    fn unreadable(&mut self, path: RootPath, error: &io::Error) {
        // A process of this container may have ended before its files are read. Files that deny access here deny it to
        // the container's programs too.
        let is_denied = matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound);
        if self.view.is_own && is_denied {
            return;
        }
        let what = format!("cannot be read on this host: {error}");
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                let what = format!("{what}; run as root, or as the owner of the files");
                self.root.hidden(path, what);
            }
            // A limit of this program, which this one file exceeds.
            io::ErrorKind::Other => self.root.unread(path, what),
            _ => self.root.hidden(path, what),
        }
    }
}

/// The owner and the mode, including setuid and setgid: with those the loader ignores `LD_LIBRARY_PATH` (ld.so(8),
/// "Secure-execution mode").
fn access(metadata: &Metadata) -> NodeAccess {
    NodeAccess {
        mode: u16::try_from(metadata.mode() & 0o7777).unwrap_or_default(),
        uid: metadata.uid(),
        gid: metadata.gid(),
    }
}

/// The attribute `security.capability` of a file; `None` if it is absent or hidden by this host.
fn capabilities(file: &File) -> Option<FileCapabilities> {
    let mut value = [0; ATTRIBUTE];
    let length = rustix::fs::fgetxattr(file, "security.capability", &mut value).ok()?;
    FileCapabilities::read(value.get(..length)?)
}

/// The attribute `system.posix_acl_access` of a file or folder, likewise.
fn access_list(path: &Path) -> Option<Arc<AccessList>> {
    // An empty buffer queries the size, which is 0 for nearly all files.
    let bytes = rustix::fs::lgetxattr(path, LIST, &mut [0_u8; 0]).ok()?;
    let mut value = vec![0; bytes];
    let length = rustix::fs::lgetxattr(path, LIST, &mut value).ok()?;
    AccessList::read(value.get(..length)?).map(Arc::new)
}

/// The name of the attribute.
const LIST: &str = "system.posix_acl_access";
/// The buffer for capabilities; `struct vfs_ns_cap_data` has 24 bytes.
const ATTRIBUTE: usize = 64;

/// Whether the kernel usually mounts its own file system at this path.
fn is_kernel_mount(path: &RootPath) -> bool {
    matches!(path.as_bytes(), b"proc" | b"sys" | b"dev")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::{fs, path::Path};

    use super::RootfsDir;
    use crate::{ImageError, ImageSource, OpenRequest, OpenedLayers};
    use image_linkage::layer::{FileCapabilities, IndexOptions, LayerEntry, LayerIndex};
    use image_linkage::limits::Limits;

    fn open(dir: &Path, limits: Limits) -> Result<LayerIndex, ImageError> {
        let index = IndexOptions {
            limits,
            ..IndexOptions::default()
        };
        let source = RootfsDir {
            reference: format!("rootfs:{}", dir.display()),
            dir: dir.to_owned(),
        };
        let opened = source.open(&OpenRequest {
            platform: None,
            index: &index,
            progress: &(),
            cache: None,
        })?;
        let OpenedLayers::Folder(_, index) = opened.layers else {
            panic!("a folder");
        };
        assert_eq!(opened.image.layers.len(), 1);
        Ok(*index)
    }

    fn shown(index: &LayerIndex) -> Vec<String> {
        let entry = |entry: &LayerEntry| match entry {
            LayerEntry::Directory(..) => "directory".to_owned(),
            LayerEntry::File(facts) => format!("{} bytes {:o}, kept {}", facts.bytes, facts.mode, facts.kept.is_some()),
            LayerEntry::Symlink(target) => format!("-> {}", String::from_utf8_lossy(target)),
            other => format!("{other:?}"),
        };
        let entries: BTreeMap<_, _> = index.entries.iter().collect();
        entries
            .into_iter()
            .map(|(path, found)| format!("{path} {}", entry(found)))
            .collect()
    }

    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("etc")).unwrap();
        fs::write(dir.path().join("etc/ld.so.conf"), "/opt\n").unwrap();
        fs::write(dir.path().join("tool"), "x").unwrap();
        fs::set_permissions(dir.path().join("tool"), fs::Permissions::from_mode(0o4755)).unwrap();
        fs::set_permissions(dir.path().join("etc/ld.so.conf"), fs::Permissions::from_mode(0o644)).unwrap();
        symlink("/", dir.path().join("up")).unwrap();
        dir
    }

    #[test]
    fn a_folder_is_one_layer_and_links_are_not_followed() {
        let index = open(folder().path(), Limits::default()).unwrap();
        assert_eq!(
            shown(&index),
            [
                "/etc directory",
                "/etc/ld.so.conf 5 bytes 644, kept true",
                "/tool 1 bytes 4755, kept false",
                "/up -> /"
            ]
        );
        assert_eq!((index.bytes, index.problems), (6, vec![]));
    }

    #[test]
    fn only_the_start_of_a_file_that_is_not_an_object_is_read() {
        let dir = folder();
        // Reading this hole would take an hour.
        let large = fs::File::create(dir.path().join("large.bin")).unwrap();
        large.set_len(4 << 40).unwrap();
        let index = open(dir.path(), Limits::default()).unwrap();
        assert_eq!(index.bytes, 6 + (4 << 40));
    }

    #[test]
    fn capabilities_of_a_file_are_read_from_its_attribute() {
        let dir = folder();
        // cap_net_raw, effective, as written by setcap; only root can set it.
        let mut attribute = [0; 20];
        (attribute[0], attribute[3], attribute[5]) = (1, 2, 0x20);
        let none = rustix::fs::XattrFlags::empty();
        let tool = dir.path().join("tool");
        let set = rustix::fs::setxattr(&tool, "security.capability", &attribute, none);
        let index = open(dir.path(), Limits::default()).unwrap();
        let Some(LayerEntry::File(facts)) = index.entries.get(b"tool".as_slice()) else {
            panic!("{index:?}");
        };
        let expected = FileCapabilities::read(&attribute).filter(|_| set.is_ok());
        assert_eq!(facts.capabilities, expected);
    }

    #[test]
    fn a_folder_past_the_limits_is_an_error_or_a_problem() {
        let dir = folder();
        let limits = Limits {
            layer_entries: 3,
            ..Limits::default()
        };
        assert_eq!(
            open(dir.path(), limits.clone()).unwrap_err().to_string(),
            format!(
                "{} is not a container image: it holds more than the limit of 3 files and folders (layer-entries)",
                dir.path().display()
            )
        );
        let limits = Limits {
            kept_total: 4,
            ..Limits::default()
        };
        let problems = open(dir.path(), limits.clone()).unwrap().problems;
        assert_eq!(problems.len(), 1);
        assert_eq!(
            problems[0].what,
            "not read: the texts of the layer exceed the limit of 4 bytes; raise it with --limit kept-total=8"
        );
        assert!(open(Path::new("/does/not/exist"), limits).is_err());
    }
}
