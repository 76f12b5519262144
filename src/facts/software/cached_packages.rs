//! Unpacked packages in uv's cache. uv links their files into environments. The files of a package are in use only if
//! symbolic links lead to them. Otherwise they are copies or hard links of files elsewhere, and no Python imports them.

use std::collections::BTreeSet;

use crate::byte_search::contains_bytes;
use image_linkage::elf::ByteString;
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// The folders of packages in uv's cache: `…/archive-v0/ID`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CachedPackages(BTreeSet<RootPath>);

impl CachedPackages {
    /// Adds the package that contains a path, if one does.
    pub(crate) fn add(&mut self, path: &RootPath) {
        self.0.extend(package_of(path));
    }

    /// Whether one of the packages contains a path.
    pub fn contain(&self, path: &RootPath) -> bool {
        !self.0.is_empty() && package_of(path).is_some_and(|package| self.0.contains(&package))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The packages without the environments that `uvx` keeps among them.
    pub(crate) fn without_environments(mut self, rootfs: &Rootfs) -> Self {
        self.0
            .retain(|package| rootfs.lookup(&package.join(b"pyvenv.cfg").absolute()).is_err());
        self
    }

    /// The packages that nothing uses, in an image with these symbolic links.
    pub(crate) fn unused(mut self, links: &[(RootPath, ByteString)]) -> Self {
        if self.0.is_empty() {
            return self;
        }
        for (link, target) in links.iter().filter(|(_, target)| target.starts_with(b"/")) {
            let Some(package) = package_of(&RootPath::new(target)) else {
                continue;
            };
            // Links within the cache are its index.
            let cache = package.parent().parent();
            if link.folders().all(|folder| folder != cache) {
                self.0.remove(&package);
            }
        }
        self
    }
}

/// The start of the name of uv's folder of unpacked packages; the version of its format follows (uv, `CacheBucket`).
const BUCKET: &[u8] = b"archive-v";

/// The folder of the unpacked package that contains a path.
fn package_of(path: &RootPath) -> Option<RootPath> {
    // Nearly no path has it, and this runs for every file of an image.
    if !contains_bytes(path.as_bytes(), BUCKET) {
        return None;
    }
    let mut folders = path.folders().chain([path.clone()]);
    folders.find(|folder| is_bucket(folder.parent().name()))
}

fn is_bucket(name: &[u8]) -> bool {
    let number = name.strip_prefix(BUCKET).unwrap_or_default();
    !number.is_empty() && number.iter().all(u8::is_ascii_digit)
}
