//! An unpacked root file system in a folder of the host, read as one layer.
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
use crate::root_index::{RootIndex, too_many_entries};
use crate::source::{ImageDocuments, ImageSource, KeepFile, OpenRequest, OpenedImage, OpenedLayers};
use crate::source_kind::SourceKind;
use crate::work_pool::in_parallel;
use image_linkage::layer::{
    AccessList, FileCapabilities, FileFacts, LayerEntry, LayerIndex, NodeAccess, read_file_facts,
};
use image_linkage::path::RootPath;

/// A root file system in a folder. Links are recorded and never followed; file systems of the kernel at
/// `/proc`, `/sys` and `/dev` are left out where they are mounted.
#[derive(Debug, Clone)]
pub struct RootfsDir {
    /// The reference as the user wrote it.
    pub reference: String,
    /// A path of the host, which is `/` of the image.
    pub dir: PathBuf,
}

impl ImageSource for RootfsDir {
    /// Walks the whole folder. What cannot be read is a problem of the layer.
    fn open(&self, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError> {
        request.progress.start(0, None);
        let index = walk(&self.dir, &FolderView::default(), request)?;
        request.progress.finish(0);
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

/// The file system of the container that this process runs in, as its own user sees it: what that may not read is not
/// there for what it starts either. The folders `passed_over` are not entered.
///
/// Errors: As of a folder.
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

/// What is seen of a folder.
#[derive(Default)]
struct FolderView {
    /// Folders below it that are not entered.
    passed_over: BTreeSet<PathBuf>,
    /// Whether this process asks for itself: what is denied to it is as good as not there, and no gap.
    is_own: bool,
}

/// Walks `dir` and all folders below it.
fn walk(dir: &Path, view: &FolderView, request: &OpenRequest<'_>) -> Result<LayerIndex, ImageError> {
    let io_error = ImageError::io(dir.display());
    let limit = request.limits().layer_entries;
    let mut walk = FolderWalk {
        root: RootIndex::default(),
        // A list and no recursion: how deep folders lie in each other is up to who made them.
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
            // Without its root there is no image; a folder below it that cannot be read is a gap in one.
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
    Ok(walk.root.finish())
}

fn entries(folder: &Path) -> io::Result<Vec<DirEntry>> {
    // All names at once: a folder that breaks off half-way is unreadable as a whole, not shorter than it is.
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    // Which file is one too many for a limit must not be up to the file system.
    entries.sort_unstable_by_key(DirEntry::file_name);
    Ok(entries)
}

/// A walk under way.
struct FolderWalk<'a> {
    root: RootIndex,
    /// Folders to be read, and what they are called in the image.
    pending: Vec<(PathBuf, RootPath)>,
    /// The file system of the root.
    device: u64,
    /// Files that were found and are not read yet, in their order.
    files: Vec<FoundFile>,
    /// The bytes that may be kept of them.
    keepable: u64,
    /// The names found so far.
    found: usize,
    view: &'a FolderView,
    request: &'a OpenRequest<'a>,
}

/// A regular file that is to be read.
struct FoundFile {
    path: RootPath,
    /// Where it lies on the host.
    place: PathBuf,
    metadata: Metadata,
}

/// The files that are read together.
const TOGETHER: usize = 1024;
/// The bytes that may be kept of them, before it is seen whether there is room for all.
const KEEPABLE: u64 = 64 << 20;
/// The files that are read at a time: each may hold the start of an object, which has up to 24 MiB.
const READERS: usize = 4;

impl FoundFile {
    /// What its entry in the folder says alone.
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

    /// Reads it; the second value says that it was to be kept but is too large.
    fn read(&self, request: &OpenRequest<'_>) -> io::Result<(FileFacts, bool)> {
        let file = File::open(&self.place)?;
        let access = access(&self.metadata);
        let bytes = self.metadata.len();
        // A hole costs nothing to make and minutes to read: it is bounded as what a layer inflates to is.
        let (limits, stored) = (request.limits(), self.metadata.blocks().saturating_mul(512));
        let most = stored.saturating_mul(limits.layer_ratio).max(limits.ratio_from);
        let mut read = file.take(most);
        let (mut facts, too_large) = read_file_facts(&self.path, (access.mode, Some(bytes)), &mut read, request.index)?;
        if read.limit() == 0 {
            return Err(io::Error::other("nearly all of it is a hole (layer-ratio)"));
        }
        let file = read.into_inner();
        (facts.uid, facts.gid) = (access.uid, access.gid);
        // What nobody may execute gives nobody anything.
        facts.capabilities = (access.mode & 0o111 != 0).then(|| capabilities(&file)).flatten();
        facts.access_list = access_list(&self.place);
        request.progress.advance(0, facts.bytes);
        Ok((facts, too_large))
    }
}

impl FolderWalk<'_> {
    /// Enters what lies at one name.
    fn enter(&mut self, entry: &DirEntry, path: &RootPath) -> io::Result<()> {
        // Of the entry itself: a link is recorded, as its target is one of the image and not of this host.
        let metadata = entry.metadata()?;
        let kind = metadata.file_type();
        let found = if kind.is_dir() {
            // A root file system that is in use has them mounted: endless, and nothing of the image.
            if is_kernels(path) && metadata.dev() != self.device {
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
            // It is not opened: a FIFO would wait for its writer for ever, and a device has no end.
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

    /// Reads the files that wait, several at a time, and enters them in their order.
    fn read_files(&mut self) {
        let (files, request) = (std::mem::take(&mut self.files), self.request);
        self.keepable = 0;
        let readers = thread::available_parallelism().map_or(1, |cores| cores.get().min(READERS));
        let results = in_parallel(&files, readers, |file| file.read(request));
        for (file, read) in files.into_iter().zip(results) {
            match read {
                Ok((facts, too_large)) => {
                    self.root
                        .enter_file(&file.path, facts, too_large, self.request.limits());
                }
                Err(error) => {
                    if self.view.is_own {
                        let facts = file.facts_without_content();
                        self.root.enter_file(&file.path, facts, false, self.request.limits());
                    }
                    self.unreadable(file.path, &error);
                }
            }
        }
    }

    fn unreadable(&mut self, path: RootPath, error: &io::Error) {
        // A process of its own may be gone before it is read, and what is denied here is denied to it.
        let is_denied = matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound);
        if self.view.is_own && is_denied {
            return;
        }
        self.root.unread(path, format!("cannot be read on this host: {error}"));
    }
}

/// The owner and the mode, with the setuid and setgid bits, by which the loader ignores `LD_LIBRARY_PATH`, as ld.so(8)
/// has it under "Secure-execution mode".
fn access(metadata: &Metadata) -> NodeAccess {
    NodeAccess {
        mode: u16::try_from(metadata.mode() & 0o7777).unwrap_or_default(),
        uid: metadata.uid(),
        gid: metadata.gid(),
    }
}

/// The attribute `security.capability` of a file; nothing where there is none, or where this host does not show it.
fn capabilities(file: &File) -> Option<FileCapabilities> {
    let mut value = [0; ATTRIBUTE];
    let length = rustix::fs::fgetxattr(file, "security.capability", &mut value).ok()?;
    FileCapabilities::read(value.get(..length)?)
}

/// The attribute `system.posix_acl_access` of a file or folder, likewise.
fn access_list(path: &Path) -> Option<Arc<AccessList>> {
    // Without room it is asked for its size, which is 0 of nearly all.
    let bytes = rustix::fs::lgetxattr(path, LIST, &mut [0_u8; 0]).ok()?;
    let mut value = vec![0; bytes];
    let length = rustix::fs::lgetxattr(path, LIST, &mut value).ok()?;
    AccessList::read(value.get(..length)?).map(Arc::new)
}

/// The name of the attribute.
const LIST: &str = "system.posix_acl_access";
/// The bytes of that of capabilities, and some more: `struct vfs_ns_cap_data` has 24.
const ATTRIBUTE: usize = 64;

/// Whether the kernel mounts a file system of its own here.
fn is_kernels(path: &RootPath) -> bool {
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
    fn of_a_file_that_is_no_object_no_more_than_the_start_is_read() {
        let dir = folder();
        // A hole that it would take an hour to read.
        let large = fs::File::create(dir.path().join("large.bin")).unwrap();
        large.set_len(4 << 40).unwrap();
        let index = open(dir.path(), Limits::default()).unwrap();
        assert_eq!(index.bytes, 6 + (4 << 40));
    }

    #[test]
    fn capabilities_of_a_file_are_read_from_its_attribute() {
        let dir = folder();
        // cap_net_raw, effective, as setcap writes it; only root may.
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
            "the files to be read exceed the limit of 4 bytes (kept-total); it is not read"
        );
        assert!(open(Path::new("/does/not/exist"), limits).is_err());
    }
}
