//! A small root file system: written to the host for the real loader, read back as a layer for ours.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use image_linkage::layer::{self, ExpectedBlob, IndexOptions, LayerIndex};
use image_linkage::rootfs::{self, Rootfs};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use testkit::layer::{Compression, Layer};
use testkit::spec::ElfSpec;

/// An entry of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entry {
    /// A directory.
    Dir,
    /// A file with this text.
    Text(String),
    /// A symbolic link.
    Link(String),
    /// A hard link to this path.
    Hardlink(String),
    /// An object.
    Elf(Box<ElfSpec>),
    /// The first bytes of an object.
    Cut {
        /// The number of bytes.
        bytes: usize,
        /// The object.
        elf: Box<ElfSpec>,
    },
}

impl Entry {
    /// The content of a file.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let build = |elf: &ElfSpec| elf.object().unwrap().build();
        match self {
            Self::Dir | Self::Link(_) | Self::Hardlink(_) => None,
            Self::Text(text) => Some(text.as_bytes().to_vec()),
            Self::Elf(elf) => Some(build(elf)),
            Self::Cut { bytes, elf } => {
                let mut whole = build(elf);
                whole.truncate(*bytes);
                Some(whole)
            }
        }
    }
}

/// A root file system by absolute path. Directories are created automatically.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tree(pub IndexMap<String, Entry>);

impl Tree {
    /// Adds a path unless it exists.
    pub fn add(&mut self, path: &str, entry: Entry) {
        self.0.entry(path.to_owned()).or_insert(entry);
    }

    /// Writes everything below `root`, except paths that a link would lead out of it.
    pub fn write(&self, root: &Path) {
        for (path, entry) in &self.0 {
            write(root, path, entry);
        }
    }

    /// The same, as a layer.
    pub fn layer(&self) -> Layer {
        self.0.iter().fold(Layer::new(), |layer, (path, entry)| {
            let path = path.trim_start_matches('/');
            match entry {
                Entry::Dir => layer.dir(path),
                Entry::Link(target) => layer.symlink(path, target),
                Entry::Hardlink(target) => layer.hardlink(path, target.trim_start_matches('/')),
                file => layer.executable(path, file.bytes().unwrap_or_default()),
            }
        })
    }
}

/// Writes one path in the directories that its parents resolve to.
fn write(root: &Path, path: &str, entry: &Entry) {
    let Some(at) = host_path(root, path) else {
        return;
    };
    match entry {
        Entry::Dir => drop(fs::create_dir(&at)),
        Entry::Link(target) => drop(symlink(target, &at)),
        Entry::Hardlink(target) => {
            if let Some(from) = host_path(root, target) {
                drop(fs::hard_link(from, &at));
            }
        }
        file => write_file(&at, &file.bytes().unwrap_or_default()),
    }
}

/// Writes a file of a root without following an existing link.
pub fn write_file(at: &Path, bytes: &[u8]) {
    if fs::symlink_metadata(at).is_ok() {
        return;
    }
    fs::write(at, bytes).unwrap();
    fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The host path of `path`: parents are created and links resolved inside the root. `None` if a parent is not a
/// directory.
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

/// The files of a root as a layer, except the paths in `without`.
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

/// The index of a layer.
pub fn index(layer: &Layer) -> LayerIndex {
    let blob = layer.blob(Compression::None);
    let options = IndexOptions::default();
    layer::index_layer("case", blob.bytes.as_slice(), &ExpectedBlob::default(), &options).unwrap()
}

/// Merges layers that apply without problems.
pub fn merge<'a>(layers: impl IntoIterator<Item = &'a LayerIndex>) -> Rootfs {
    let (rootfs, problems) = rootfs::merge_layers(layers);
    assert_eq!(problems, []);
    rootfs
}
