//! A small root file system: written to the host for the real loader, read back as a layer for ours.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use cupti_audit::layer::{self, Expected, LayerIndex};
use cupti_audit::limits::Limits;
use cupti_audit::rootfs::{self, Rootfs};
use testkit::layer::{Compression, Layer};

/// What lies at a path of a case.
#[derive(Debug, Clone)]
pub enum Content {
    /// A directory.
    Directory,
    /// A file, with words about it.
    File(Vec<u8>, String),
    /// A symbolic link.
    Symlink(String),
    /// Another name of the file at this path.
    Hardlink(String),
}

/// A root file system by path, each path with a `/` in front. Directories come by themselves.
#[derive(Debug, Clone, Default)]
pub struct Tree(pub Vec<(String, Content)>);

impl Tree {
    /// Adds a path; one that is taken stays as it is.
    pub fn add(&mut self, path: &str, content: Content) -> bool {
        let taken = self.0.iter().any(|(known, _)| known == path);
        if !taken {
            self.0.push((path.to_owned(), content));
        }
        !taken
    }

    /// The tree with a file more.
    pub fn with(mut self, path: &str, bytes: impl AsRef<[u8]>) -> Self {
        let content = Content::File(bytes.as_ref().to_vec(), String::new());
        assert!(self.add(path, content), "{path} is there already");
        self
    }

    /// The tree with a symbolic link more.
    pub fn link(mut self, path: &str, target: &str) -> Self {
        let content = Content::Symlink(target.to_owned());
        assert!(self.add(path, content), "{path} is there already");
        self
    }

    /// Writes everything under `root`. What a link of the host would lead out of the root is left out.
    pub fn write(&self, root: &Path) {
        for (path, content) in &self.0 {
            write(root, path, content);
        }
    }
}

/// Writes one path, in the folders that its parents really are.
pub fn write(root: &Path, path: &str, content: &Content) {
    let Some(at) = host_path(root, path) else {
        return;
    };
    match content {
        Content::Directory => drop(fs::create_dir(&at)),
        Content::File(bytes, _) => {
            // A link that is there is not followed out of the root.
            if fs::symlink_metadata(&at).is_ok() {
                return;
            }
            fs::write(&at, bytes).unwrap();
            fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Content::Symlink(target) => drop(symlink(target, &at)),
        Content::Hardlink(target) => {
            if let Some(from) = host_path(root, target) {
                drop(fs::hard_link(from, &at));
            }
        }
    }
}

/// Where `path` lies on the host, its parents made and links among them followed inside the root; nothing
/// where a parent is no directory.
pub fn host_path(root: &Path, path: &str) -> Option<PathBuf> {
    let mut at = root.to_owned();
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let name = parts.pop()?;
    for part in parts {
        let mut next = at.join(part);
        for _ in 0..8 {
            match fs::read_link(&next) {
                Ok(target) if target.is_absolute() => {
                    next = root.join(target.strip_prefix("/").ok()?);
                }
                Ok(target) => next = next.parent()?.join(target),
                Err(_) => break,
            }
        }
        if fs::symlink_metadata(&next).is_err() {
            fs::create_dir(&next).ok()?;
        }
        if !fs::symlink_metadata(&next).ok()?.is_dir() {
            return None;
        }
        at = next;
    }
    Some(at.join(name))
}

/// The root's files as a layer, without those at the paths in `without`.
pub fn read(root: &Path, without: &[&str]) -> LayerIndex {
    let mut layer = Layer::new();
    let mut inodes: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(folder) = pending.pop() {
        let mut names: Vec<_> = fs::read_dir(root.join(&folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        for name in names {
            let inside = folder.join(name);
            let text = inside.as_os_str().as_bytes().to_vec();
            if without.iter().any(|path| path.as_bytes() == text) {
                continue;
            }
            let at = root.join(&inside);
            let facts = fs::symlink_metadata(&at).unwrap();
            layer = if facts.is_dir() {
                pending.push(inside);
                layer.dir(text)
            } else if facts.is_symlink() {
                layer.symlink(text, fs::read_link(&at).unwrap().as_os_str().as_bytes())
            } else if let Some(first) = inodes.get(&facts.ino()) {
                layer.hardlink(text, first)
            } else {
                inodes.insert(facts.ino(), text.clone());
                layer.executable(text, fs::read(&at).unwrap())
            };
        }
    }
    index(&layer)
}

/// What the tool knows of a layer.
pub fn index(layer: &Layer) -> LayerIndex {
    let blob = layer.blob(Compression::None);
    let limits = Limits::default();
    layer::index("case", blob.bytes.as_slice(), &Expected::default(), &limits).unwrap()
}

/// The file system of layers that apply without a problem.
pub fn merge(layers: [&LayerIndex; 2]) -> Rootfs {
    let (rootfs, problems) = rootfs::merge(layers);
    assert_eq!(problems, []);
    rootfs
}

impl fmt::Display for Tree {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, content) in &self.0 {
            match content {
                Content::Directory => writeln!(to, "  {path}/")?,
                Content::File(_, words) => writeln!(to, "  {path}: {words}")?,
                Content::Symlink(target) => writeln!(to, "  {path} -> {target}")?,
                Content::Hardlink(target) => writeln!(to, "  {path} == {target}")?,
            }
        }
        Ok(())
    }
}
