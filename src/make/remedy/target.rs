//! The image's loader and the facts of its files, which every remedy step needs.

use super::RemedyError;
use crate::facts::ImageFacts;
use image_linkage::elf::ElfFacts;
use image_linkage::layer::FileFacts;
use image_linkage::loader::{DynamicLoader, Libc};
use image_linkage::path::RootPath;

/// The loader of an image that can be fixed.
///
/// Errors: A [`RemedyError`] if it has no loader, or musl's.
pub(super) fn require_glibc_linker(target: &ImageFacts) -> Result<&DynamicLoader, RemedyError> {
    let image = || target.image.reference.clone();
    match &target.contexts.as_is.linker {
        Some(linker) if linker.libc == Libc::Musl => Err(RemedyError::Musl { image: image() }),
        Some(linker) => Ok(linker),
        None => Err(RemedyError::NoLoader {
            image: image(),
            platform: target.image.platform.to_string(),
        }),
    }
}

pub(super) fn elf_at<'s>(source: &'s ImageFacts, path: &RootPath) -> Option<&'s ElfFacts> {
    file_facts_at(source, path)?.elf.as_deref()
}

pub(super) fn file_facts_at<'s>(source: &'s ImageFacts, path: &RootPath) -> Option<&'s FileFacts> {
    source.contexts.as_is.rootfs.file(&path.absolute())
}
