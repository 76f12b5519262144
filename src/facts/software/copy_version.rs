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

/// The headers with a version, by the copies nearest to them.
pub(crate) struct VersionHeaders {
    by_copy: BTreeMap<RootPath, RootPath>,
    copies: BTreeMap<RootPath, usize>,
}

impl VersionHeaders {
    /// Finds the headers around each copy.
    pub(crate) fn find(library: &LibraryProfile, rootfs: &Rootfs, found: &CuptiFiles) -> Self {
        let file = library.header_version.as_ref().map(|header| header.file.as_str());
        let nearest = |folder: &[u8]| {
            let header = |place: &&str| {
                let path = [folder, format!("/{place}/{}", file?).as_bytes()].concat();
                rootfs.lookup(&path).ok().map(|found| found.path)
            };
            INCLUDES.iter().find_map(header)
        };
        let near = found
            .files
            .iter()
            .map(|(path, _)| (path, nearest(&path.parent().absolute())));
        let by_copy: BTreeMap<RootPath, RootPath> = near
            .filter_map(|(path, header)| Some((path.clone(), header?)))
            .collect();
        let mut copies = BTreeMap::new();
        for header in by_copy.values() {
            *copies.entry(header.clone()).or_default() += 1;
        }
        Self { by_copy, copies }
    }

    /// The header of a copy. `None` if another copy is just as near, because the header may belong to that one.
    fn of(&self, copy: &RootPath) -> Option<&RootPath> {
        let header = self.by_copy.get(copy)?;
        (self.copies.get(header) == Some(&1)).then_some(header)
    }
}

/// The version of a copy. A source that contradicts the soname is ignored.
pub(crate) fn find_version(
    knowledge: &Knowledge,
    rootfs: &Rootfs,
    headers: &VersionHeaders,
    path: &RootPath,
    known: Option<&ReleaseFile>,
    owner: &FileOwner,
) -> Option<(String, VersionSource)> {
    let library = knowledge.library;
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
        let goes_on = |text: &String| {
            version
                .strip_prefix(text.as_str())
                .is_some_and(|rest| rest.starts_with('.'))
        };
        text.as_ref().is_none_or(goes_on)
    });
    // The name and the header of a file that is no library say what should be there.
    let name = || library.version_by_name(&knowledge.tables.releases, elf.and(Some(path.name()))?);
    let fits = |version: &String| !library.contradicts(version, soname);
    let header = || {
        let versions = library.version_by_header(rootfs.content(&elf.and(headers.of(path))?.absolute())?)?;
        // One number stands for 11.8, 12.0 and 12.1, whose sonames differ.
        let fitting: Vec<String> = versions.split(" or ").map(str::to_owned).filter(fits).collect();
        (!fitting.is_empty()).then(|| fitting.join(" or "))
    };
    let from = |version: Option<String>, source| Some((version.filter(fits)?, source));
    from(package, VersionSource::Package)
        .or_else(|| from(text, VersionSource::Text))
        .or_else(|| from(name(), VersionSource::FileName))
        // Headers come last, because a header is often near unrelated files.
        .or_else(|| from(header(), VersionSource::Header))
}

fn package_version(library: &LibraryProfile, owner: &FileOwner) -> Option<String> {
    // A package that bundles CUPTI, such as PyTorch, has its own version.
    let version = owner.version.as_ref().filter(|_| is_package_of(library, &owner.name))?;
    // Debian writes `12.4.127~12.4.1-2`, which starts with the release of the library. An epoch is no part of it.
    let version = version.rsplit(':').next().unwrap_or(version);
    let upstream = version.split(['~', '-']).next().unwrap_or(version);
    Some(upstream.to_owned())
}
