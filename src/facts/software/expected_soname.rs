//! Determines which soname a program in this image would request.

use crate::facts::objects::resolved_objects::elf_at;
use crate::facts::software::consumers::{CuptiConsumer, TrialCase};
use crate::knowledge::Knowledge;
use image_linkage::elf::ByteString;
use image_source::Image;
use std::collections::BTreeSet;

/// The sonames to try, the most likely first. They come from the copies, the dangling links, the consumers, the
/// headers, and the image's CUDA version. Without any of these, the development name is used.
pub(crate) fn expected_sonames(image: &Image, case: &TrialCase<'_>, consumers: &[CuptiConsumer]) -> Vec<ByteString> {
    let (knowledge, found, rootfs) = (case.knowledge, case.found, &case.contexts.as_is.rootfs);
    let library = knowledge.library;
    let mut names: Vec<ByteString> = Vec::new();
    for path in found.own(knowledge) {
        let soname = elf_at(rootfs, path).and_then(|elf| elf.soname.clone());
        // An unreadable file still has a name, and its dlopen shows the loader's reason.
        names.push(soname.unwrap_or_else(|| requested_name(knowledge, path.name())));
    }
    for link in &found.dangling {
        // The development name has no version, and is tried last anyway.
        if link.path.name() != library.stem.as_bytes() {
            names.push(requested_name(knowledge, link.path.name()));
        }
    }
    names.extend(consumers.iter().map(|consumer| consumer.requested_name.clone()));
    let versions = found.headers.iter().filter_map(|(header, _)| {
        let file = &library.header_version.as_ref()?.file;
        library.version_by_header(rootfs.content(&header.parent().join(file.as_bytes()).absolute())?)
    });
    // NVIDIA's images set it.
    let of_image = image.config.env("CUDA_VERSION");
    for version in versions.chain(of_image.map(str::to_owned)) {
        names.extend(library.soname_of(&version).map(|soname| soname.into_bytes().into()));
    }
    names.push(library.stem.as_bytes().into());
    let mut seen = BTreeSet::new();
    // A consumer may open a path, which other programs would not request.
    names.retain(|name| library.is_name(name) && seen.insert(name.clone()));
    names
}

/// The name that programs request instead of the name of a release, such as `libcupti.so.2024.1.1`, which a library may
/// have.
fn requested_name(knowledge: &Knowledge, name: &[u8]) -> ByteString {
    let soname = knowledge.library.soname_by_name(&knowledge.tables.releases, name);
    soname.map_or_else(|| name.into(), |soname| soname.into_bytes().into())
}
