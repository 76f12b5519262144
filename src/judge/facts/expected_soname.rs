//! Which soname a program in this image would ask for.

use super::consumers::CuptiConsumer;
use super::copies::{CuptiFiles, is_cupti_name};
use super::release_files;
use crate::knowledge::LibraryRelease;
use image_linkage::elf::ByteString;
use image_linkage::rootfs::Rootfs;
use image_source::Image;

/// The sonames to try, the likeliest first: those of the copies, of the dangling links, of the consumers, of
/// the headers, of the image's CUDA version; without any of these the development name.
pub fn expected_sonames(
    image: &Image,
    rootfs: &Rootfs,
    found: &CuptiFiles,
    consumers: &[CuptiConsumer],
) -> Vec<ByteString> {
    let mut names: Vec<ByteString> = Vec::new();
    let mut add = |name: ByteString| {
        if is_cupti_name(&name) && !names.contains(&name) {
            names.push(name);
        }
    };
    for path in found.own() {
        let elf = rootfs
            .file(&path.absolute())
            .and_then(|facts| facts.elf.as_ref());
        add(elf
            .and_then(|elf| elf.soname.clone())
            .unwrap_or_else(|| path.name().into()));
    }
    for link in found
        .dangling
        .iter()
        .filter(|link| link.path.name() != b"libcupti.so")
    {
        add(link.path.name().into());
    }
    for consumer in consumers {
        add(consumer.wants.clone());
    }
    for (header, _) in &found.headers {
        let version =
            rootfs.content(&[header.parent().absolute(), b"/cupti_version.h".to_vec()].concat());
        version
            .and_then(release_files::version_by_header)
            .and_then(|version| cupti_soname(&version))
            .into_iter()
            .for_each(&mut add);
    }
    image
        .config
        .env("CUDA_VERSION")
        .and_then(cupti_soname)
        .into_iter()
        .for_each(&mut add);
    add(ByteString::from(&b"libcupti.so"[..]));
    names
}

/// The soname of a CUDA version: with the minor version up to 11.8, the major alone from 12 on.
pub fn cupti_soname(version: &str) -> Option<ByteString> {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    let (major, minor) = (parts.next()??, parts.next()??);
    let release = LibraryRelease::of_cuda((major, minor), None);
    Some(release.soname.into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::cupti_soname;

    #[test]
    fn the_soname_lost_its_minor_version_with_cuda_12() {
        let name =
            |version| cupti_soname(version).map(|name| String::from_utf8(name.to_vec()).unwrap());
        assert_eq!(name("12.4.1").as_deref(), Some("libcupti.so.12"));
        assert_eq!(name("11.8.0").as_deref(), Some("libcupti.so.11.8"));
        assert_eq!(name("13.0").as_deref(), Some("libcupti.so.13"));
        assert_eq!(name("unknown"), None);
    }
}
