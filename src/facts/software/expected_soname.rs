//! Determines which soname a program in this image would request.

use crate::facts::objects::resolved_objects::elf_at;
use crate::facts::software::consumers::CuptiConsumer;
use crate::facts::software::cupti_files::CuptiFiles;
use crate::knowledge::Knowledge;
use image_linkage::elf::ByteString;
use image_linkage::rootfs::Rootfs;
use image_source::Image;

/// The sonames to try, the most likely first. They come from the copies, the dangling links, the consumers, the
/// headers, and the image's CUDA version. Without any of these, the development name is used.
pub fn expected_sonames(
    image: &Image,
    rootfs: &Rootfs,
    knowledge: &Knowledge,
    found: &CuptiFiles,
    consumers: &[CuptiConsumer],
) -> Vec<ByteString> {
    let library = knowledge.library;
    let mut names: Vec<ByteString> = Vec::new();
    let mut add = |name: ByteString| {
        // A consumer may open a path, which other programs would not request.
        if library.is_name(&name) && !names.contains(&name) {
            names.push(name);
        }
    };
    // No program requests the name of a release, such as `libcupti.so.2024.1.1`, although a library may have it.
    let asked_by = |name: &[u8]| -> ByteString {
        let soname = library.soname_by_name(&knowledge.tables.releases, name);
        soname.map_or_else(|| name.into(), |soname| soname.into_bytes().into())
    };
    for path in found.own(knowledge) {
        add(elf_at(rootfs, path)
            .and_then(|elf| elf.soname.clone())
            // An unreadable file still has a name, and its dlopen shows the loader's reason.
            .unwrap_or_else(|| asked_by(path.name())));
    }
    for link in found
        .dangling
        .iter()
        // The development name has no version, and is tried last anyway.
        .filter(|link| link.path.name() != library.stem.as_bytes())
    {
        add(asked_by(link.path.name()));
    }
    for consumer in consumers {
        add(consumer.wants.clone());
    }
    let versions = found.headers.iter().filter_map(|(header, _)| {
        let file = &library.header_version.as_ref()?.file;
        library.version_by_header(rootfs.content(&header.parent().join(file.as_bytes()).absolute())?)
    });
    // NVIDIA's images set it. It does not apply to libraries with their own version numbers, such as NCCL.
    let of_image = image.config.env("CUDA_VERSION").filter(|_| library.is_cuda);
    for version in versions.chain(of_image.map(str::to_owned)) {
        if let Some(soname) = library.soname_of(&version) {
            add(soname.into_bytes().into());
        }
    }
    add(library.stem.as_bytes().into());
    names
}
