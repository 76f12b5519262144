//! Files and links whose name says another soname of CUPTI than the file has.

use super::copies::is_cupti_name;
use super::{expected_soname, file_owner, release_files};
use image_linkage::elf::ByteString;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs, RootfsNode};

/// A name that is not true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MisnamedLibrary {
    /// The file or link.
    pub path: RootPath,
    /// Its layer.
    pub layer: usize,
    /// The soname that its name stands for.
    pub says: ByteString,
    /// The soname of the file.
    pub soname: ByteString,
    /// The file that a link leads to; `None` for a file.
    pub target: Option<RootPath>,
}

/// The name of a node, if it is one of CUPTI and is not true. Copies that a tool brings for itself are left out.
pub(super) fn check_library_name(
    rootfs: &Rootfs,
    path: &RootPath,
    node: &RootfsNode,
) -> Option<MisnamedLibrary> {
    if !is_cupti_name(path.name()) || file_owner::is_private_copy(path) {
        return None;
    }
    let target = rootfs.lookup(&path.absolute()).ok()?.path;
    let elf = rootfs.file(&path.absolute())?.elf.as_ref()?;
    let soname = elf.soname.clone().filter(|soname| is_cupti_name(soname))?;
    let says = says(path.name()).filter(|says| *says != soname)?;
    let is_link = matches!(node.kind, NodeKind::Symlink(_));
    Some(MisnamedLibrary {
        path: path.clone(),
        layer: node.layer,
        says,
        soname,
        target: is_link.then_some(target),
    })
}

/// The soname that a file name stands for: `libcupti.so.2024.1.1` for `libcupti.so.12`; nothing for a name
/// without a version, or with one that no release had.
fn says(name: &[u8]) -> Option<ByteString> {
    let number = std::str::from_utf8(name.strip_prefix(b"libcupti.so.")?).ok()?;
    let major = number.parse::<u32>().ok().filter(|&major| major >= 12);
    match major {
        Some(_) => Some(name.into()),
        None => expected_soname::cupti_soname(&release_files::version_by_file_name(name)?),
    }
}

#[cfg(test)]
mod tests {
    use super::says;

    #[test]
    fn which_soname_a_file_name_stands_for() {
        let says = |name: &str| {
            says(name.as_bytes()).map(|soname| String::from_utf8(soname.to_vec()).unwrap())
        };
        assert_eq!(says("libcupti.so.12").as_deref(), Some("libcupti.so.12"));
        assert_eq!(says("libcupti.so.13").as_deref(), Some("libcupti.so.13"));
        assert_eq!(
            says("libcupti.so.2022.3.0").as_deref(),
            Some("libcupti.so.11.8")
        );
        assert_eq!(
            says("libcupti.so.10.1.208").as_deref(),
            Some("libcupti.so.10.1")
        );
        assert_eq!(says("libcupti.so.12.4").as_deref(), Some("libcupti.so.12"));
        assert_eq!(says("libcupti.so"), None);
        assert_eq!(says("libcupti.so.11"), None);
        assert_eq!(says("libcupti.so.1999.1.1"), None);
    }
}
