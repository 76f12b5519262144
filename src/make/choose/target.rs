//! The image's loader and the facts of its files, which every method needs.

use super::PatchError;
use crate::facts::ImageFacts;
use image_linkage::elf::ElfFacts;
use image_linkage::layer::FileFacts;
use image_linkage::loader::{DynamicLoader, Libc};
use image_linkage::path::RootPath;

/// The loader of an image.
///
/// Errors: A [`PatchError`] if it has none.
pub(crate) fn require_linker(target: &ImageFacts) -> Result<&DynamicLoader, PatchError> {
    target
        .contexts
        .as_is
        .linker
        .as_ref()
        .ok_or_else(|| PatchError::NoLoader {
            image: target.image.reference.clone(),
            platform: target.image.platform.to_string(),
        })
}

/// The loader of an image into which CUPTI can be installed.
///
/// Errors: A [`PatchError`] if it has no loader, or musl's.
pub(crate) fn require_glibc_linker(target: &ImageFacts) -> Result<&DynamicLoader, PatchError> {
    let linker = require_linker(target)?;
    match linker.libc {
        Libc::Musl => Err(PatchError::Musl {
            image: target.image.reference.clone(),
        }),
        Libc::Glibc(_) => Ok(linker),
    }
}

pub(crate) fn elf_at<'s>(source: &'s ImageFacts, path: &RootPath) -> Option<&'s ElfFacts> {
    file_facts_at(source, path)?.elf.as_deref()
}

pub(crate) fn file_facts_at<'s>(source: &'s ImageFacts, path: &RootPath) -> Option<&'s FileFacts> {
    source.contexts.as_is.rootfs.file(&path.absolute())
}
