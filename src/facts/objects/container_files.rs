//! Gives the reader of the command access to the merged file system of an image.

use container_start::{FileKind, FileStat, ImageFiles};
use image_linkage::rootfs::{FileCredentials, FileUse, NodeKind, Rootfs};

/// The files of an image, and the steps that created its layers.
pub(crate) struct ContainerFiles<'r> {
    pub rootfs: &'r Rootfs,
    /// The step that created each layer, from the image config.
    pub created_by: &'r [String],
    /// The user that the command starts as.
    pub credentials: &'r FileCredentials,
}

/// The directories of a distribution's own files.
const SYSTEM_FOLDERS: [&str; 10] = [
    "bin/",
    "sbin/",
    "lib/",
    "lib64/",
    "usr/bin/",
    "usr/sbin/",
    "usr/lib/",
    "usr/lib64/",
    "usr/libexec/",
    "usr/share/",
];

impl ImageFiles for ContainerFiles<'_> {
    fn resolve(&self, path: &str) -> Option<String> {
        let found = self.rootfs.lookup_as(path.as_bytes(), self.credentials).ok()?;
        String::from_utf8(found.path.absolute()).ok()
    }

    fn stat(&self, path: &str) -> Option<FileStat> {
        let found = self.rootfs.lookup_as(path.as_bytes(), self.credentials).ok()?;
        let (kind, mode, bytes) = match &self.rootfs.node(found.node).kind {
            NodeKind::File(facts) if facts.elf.is_some() => (FileKind::Object, facts.mode, facts.bytes),
            NodeKind::File(facts) => (FileKind::Regular, facts.mode, facts.bytes),
            NodeKind::Directory(_) => {
                let access = self.rootfs.access(found.node);
                (FileKind::Directory, access.map_or(0o755, |(access, _)| access.mode), 0)
            }
            _ => (FileKind::Special, 0o600, 0),
        };
        Some(FileStat {
            kind,
            mode: u32::from(mode),
            bytes,
        })
    }

    fn is_link(&self, path: &str) -> bool {
        let found = self.rootfs.lookup_link(path.as_bytes());
        found.is_ok_and(|found| matches!(self.rootfs.node(found.node).kind, NodeKind::Symlink(_)))
    }

    fn read(&self, path: &str) -> Option<&[u8]> {
        self.rootfs
            .open_as(path.as_bytes(), self.credentials, FileUse::Read)
            .ok()?;
        self.rootfs.content(path.as_bytes())
    }

    fn list(&self, path: &str) -> Vec<String> {
        let Ok(found) = self.rootfs.open_as(path.as_bytes(), self.credentials, FileUse::Read) else {
            return Vec::new();
        };
        let names = match self.rootfs.node(found.node).kind {
            NodeKind::Directory(_) => self.rootfs.children(found.node),
            _ => return Vec::new(),
        };
        let mut listed: Vec<String> = names
            .filter_map(|(name, _)| String::from_utf8(name.to_vec()).ok())
            .collect();
        listed.sort();
        listed
    }

    /// Whether a file is in a system directory and no `COPY` or `ADD` above the base created it. Package lists are not
    /// stored, so they cannot tell.
    fn is_packaged(&self, path: &str) -> bool {
        let Ok(found) = self.rootfs.lookup(path.as_bytes()) else {
            return false;
        };
        let is_system = SYSTEM_FOLDERS
            .iter()
            .any(|folder| found.path.as_bytes().starts_with(folder.as_bytes()));
        let layer = self.rootfs.node(found.node).layer;
        let step = self.created_by.get(layer).map_or("", String::as_str);
        let is_copied = step.contains("COPY ") || step.contains("ADD ");
        is_system && (layer == 0 || !is_copied)
    }
}
