//! Determines the version of a copy of the library, from its bytes, its package, its name or its header.

use std::collections::BTreeMap;

use crate::facts::objects::resolved_objects::elf_at;
use crate::facts::software::cupti_files::CuptiFiles;
use crate::facts::software::file_owner::{FileOwner, is_package_of};
use crate::knowledge::{Knowledge, LibraryProfile, ReleaseFile};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// The source of a version, the most reliable first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VersionSource {
    /// The file's SHA-256 matches a known release.
    Hash,
    /// A string in the file, from the compiler of GPU code.
    Text,
    /// The package that owns the file.
    Package,
    /// The release in the file's name, as in `libcupti.so.2024.1.1`.
    FileName,
    /// The nearest header, if it has no other copy near it.
    Header,
}

impl VersionSource {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Text => "text",
            Self::Package => "package",
            Self::FileName => "file-name",
            Self::Header => "header",
        }
    }
}

/// The header directories relative to the library's, for a wheel, and for a toolkit's lib64, targets/*/lib and extras.
const INCLUDES: [&str; 4] = ["include", "../include", "../../include", "../../../include"];

/// Finds the versions of copies, with the headers nearest to them.
pub(crate) struct CopyVersions<'c> {
    knowledge: &'c Knowledge,
    rootfs: &'c Rootfs,
    by_copy: BTreeMap<RootPath, RootPath>,
    copies: BTreeMap<RootPath, usize>,
}

impl<'c> CopyVersions<'c> {
    /// Finds the headers around each copy.
    pub(crate) fn new(knowledge: &'c Knowledge, rootfs: &'c Rootfs, found: &CuptiFiles) -> Self {
        let mut headers = Self {
            knowledge,
            rootfs,
            by_copy: BTreeMap::new(),
            copies: BTreeMap::new(),
        };
        let Some(version) = &knowledge.library.header_version else {
            return headers;
        };
        for (path, _) in &found.files {
            if let Some(header) = nearest_header(rootfs, &path.parent(), &version.file) {
                *headers.copies.entry(header.clone()).or_default() += 1;
                headers.by_copy.insert(path.clone(), header);
            }
        }
        headers
    }

    /// The header of a copy. `None` if another copy is just as near, because the header may belong to that one.
    fn header_of(&self, copy: &RootPath) -> Option<&RootPath> {
        let header = self.by_copy.get(copy)?;
        (self.copies.get(header) == Some(&1)).then_some(header)
    }

    /// The version of a copy. A source that contradicts the soname is ignored.
    pub(crate) fn find(
        &self,
        path: &RootPath,
        known: Option<&ReleaseFile>,
        owner: &FileOwner,
    ) -> Option<(String, VersionSource)> {
        let (library, rootfs) = (self.knowledge.library, self.rootfs);
        // Several releases can contain the same file: libpcsamplingutil.so is in 12.0 and 12.1.
        if let Some(release) = known.filter(|release| !release.versions.is_empty()) {
            return Some((release.versions.join(" or "), VersionSource::Hash));
        }
        let elf = elf_at(rootfs, path);
        let soname = elf.and_then(|elf| elf.soname.as_deref());
        let texts = elf
            .into_iter()
            .flat_map(|elf| elf.mentions.iter().chain(&elf.fragments));
        let text = library.version_by_text(texts.map(|text| &**text));
        let package = package_version(library, owner).filter(|version| {
            // The package version also contains the update, if it is of the same release as the bytes.
            text.as_ref().is_none_or(|text| {
                let rest = version.strip_prefix(text.as_str());
                rest.is_some_and(|rest| rest.starts_with('.'))
            })
        });
        let known = [(package, VersionSource::Package), (text, VersionSource::Text)];
        for (version, source) in known {
            if let Some(version) = version.filter(|version| !library.contradicts(version, soname)) {
                return Some((version, source));
            }
        }
        // The name and the header of a file that is no library say what should be there.
        elf?;
        let by_name = library.version_by_name(&self.knowledge.tables.releases, path.name());
        if let Some(version) = by_name.filter(|version| !library.contradicts(version, soname)) {
            return Some((version, VersionSource::FileName));
        }
        // Headers come last, because a header is often near unrelated files.
        let versions = library.version_by_header(rootfs.content(&self.header_of(path)?.absolute())?)?;
        // One number stands for 11.8, 12.0 and 12.1, whose sonames differ.
        let fitting = versions
            .split(" or ")
            .filter(|version| !library.contradicts(version, soname));
        let version = fitting.collect::<Vec<_>>().join(" or ");
        if version.is_empty() || library.contradicts(&version, soname) {
            return None;
        }
        Some((version, VersionSource::Header))
    }
}

fn nearest_header(rootfs: &Rootfs, folder: &RootPath, file: &str) -> Option<RootPath> {
    INCLUDES.iter().find_map(|place| {
        let path = [&*folder.absolute(), format!("/{place}/{file}").as_bytes()].concat();
        rootfs.lookup(&path).ok().map(|found| found.path)
    })
}

fn package_version(library: &LibraryProfile, owner: &FileOwner) -> Option<String> {
    // A package that bundles CUPTI, such as PyTorch, has its own version.
    let version = owner.version.as_ref().filter(|_| is_package_of(library, &owner.name))?;
    // Debian writes `12.4.127~12.4.1-2`, which starts with the release of the library. An epoch is no part of it.
    let without_epoch = version.rsplit(':').next()?;
    let upstream = without_epoch.split(['~', '-']).next()?;
    Some(upstream.to_owned())
}
