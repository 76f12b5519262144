//! The image's loader and the facts of its files, which every remedy step needs.

use super::RemedyError;
use crate::facts::ImageFacts;
use image_linkage::elf::ElfFacts;
use image_linkage::layer::FileFacts;
use image_linkage::loader::{DynamicLoader, Libc};
use image_linkage::path::RootPath;

/// The loader of an image.
///
/// Errors: A [`RemedyError`] if it has none.
pub(super) fn require_linker(target: &ImageFacts) -> Result<&DynamicLoader, RemedyError> {
    target
        .contexts
        .as_is
        .linker
        .as_ref()
        .ok_or_else(|| RemedyError::NoLoader {
            image: target.image.reference.clone(),
            platform: target.image.platform.to_string(),
        })
}

/// The loader of an image into which CUPTI can be installed.
///
/// Errors: A [`RemedyError`] if it has no loader, or musl's.
pub(super) fn require_glibc_linker(target: &ImageFacts) -> Result<&DynamicLoader, RemedyError> {
    let linker = require_linker(target)?;
    match linker.libc {
        Libc::Musl => Err(RemedyError::Musl {
            image: target.image.reference.clone(),
        }),
        Libc::Glibc(_) => Ok(linker),
    }
}

pub(super) fn elf_at<'s>(source: &'s ImageFacts, path: &RootPath) -> Option<&'s ElfFacts> {
    file_facts_at(source, path)?.elf.as_deref()
}

pub(super) fn file_facts_at<'s>(source: &'s ImageFacts, path: &RootPath) -> Option<&'s FileFacts> {
    source.contexts.as_is.rootfs.file(&path.absolute())
}
