//! What a member is, by its headers.

use std::sync::Arc;

use super::access_list::AccessList;
use super::node_access::{FileCapabilities, NodeAccess};
use super::pax::{self, SparseRecords};
use super::sparse_map::{self, SparseMap};
use super::tar_header::{
    Block, FieldRange, GROUP, KIND, LINK, MODE, REAL_SIZE, TarFormat, USER, field, header_number, padding, text,
};

/// What a member is, by its type flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TarKind {
    /// A file, of any of the flags for one that engines take.
    Regular,
    /// Another name of a file, which its target names from the root.
    HardLink,
    /// A symbolic link.
    Symlink,
    /// A directory.
    Directory,
    /// A device or a named pipe.
    Special,
    /// A type that Go's reader hands on and engines have no case for (moby/moby `createTarFile`).
    Unknown(u8),
}

impl TarKind {
    /// A name that ends in a slash makes a directory of a file in the oldest format.
    fn new(flag: u8, name: &[u8]) -> Self {
        match flag {
            b'5' => Self::Directory,
            0 if name.ends_with(b"/") => Self::Directory,
            0 | b'0' => Self::Regular,
            b'1' => Self::HardLink,
            b'2' => Self::Symlink,
            b'3' | b'4' | b'6' => Self::Special,
            _ => Self::Unknown(flag),
        }
    }

    /// Whether a member of this kind has content. Others have none even where the header gives a size: a hard link,
    /// for one, may carry the size of its target (Go's archive/tar, `isHeaderOnly`; GNU tar, "links 0 size on tape").
    pub(super) fn has_content(self) -> bool {
        matches!(self, Self::Regular | Self::Unknown(_))
    }
}

/// What the headers of one member say.
pub struct TarMember {
    /// The name, as written.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: TarKind,
    /// The target of a link, as written.
    pub link: Vec<u8>,
    pub(super) access: NodeAccess,
    /// What its attribute `security.capability` says.
    pub(super) capabilities: Option<FileCapabilities>,
    /// What its attribute `system.posix_acl_access` says.
    pub(super) access_list: Option<Arc<AccessList>>,
    /// The bytes of content in the stream.
    pub stored: u64,
    /// Where they lie in a sparse file.
    pub sparse: Option<SparseMap>,
    /// Whether a time or an owner is no number, so that every engine ends here.
    pub(super) has_odd_number: bool,
    /// Where its own header begins among its headers, behind its extensions.
    pub(super) own: usize,
}

/// The headers of one member. The contents of extension headers are empty where there is none.
pub(super) struct MemberHeaders<'a> {
    pub long_name: &'a [u8],
    pub long_link: &'a [u8],
    pub records: &'a [u8],
    /// Where the member's own header begins, in bytes from the first one.
    pub own: usize,
    pub block: &'a Block,
    /// What has been read of the stream behind it.
    pub after: &'a [u8],
}

impl MemberHeaders<'_> {
    /// The member, and the bytes behind its own header that a sparse map takes; `None` when the map goes on behind what
    /// has been read.
    ///
    /// Errors: What is wrong with the headers, or a map of more than the limit of `regions`.
    pub(super) fn read(&self, size: u64, regions: usize) -> Result<Option<(TarMember, usize)>, String> {
        let records = pax::read_records(self.records)?;
        let (long_name, long_link) = (text(self.long_name), text(self.long_link));
        let are_two = |one: &[u8], other: &[u8]| !one.is_empty() && !other.is_empty();
        // Readers differ in which of the two counts, so that this would be two members in one.
        if are_two(long_name, records.path) || are_two(long_link, records.linkpath) {
            return Err("a name stands in a PAX record and in a GNU long name".to_owned());
        }
        let format = TarFormat::new(self.block);
        let first = |texts: [&[u8]; 3]| texts.into_iter().find(|text| !text.is_empty()).map(<[u8]>::to_vec);
        let name = first([records.sparse.name, records.path, long_name]).unwrap_or_else(|| format.name(self.block));
        let link = first([records.linkpath, long_link, text(self.field(LINK))]).unwrap_or_default();
        let kind = TarKind::new(self.flag(), &name);
        let size = records.size.unwrap_or(size);
        let Some((sparse, taken)) = self.sparse(kind, records.sparse, size, regions)? else {
            return Ok(None);
        };
        let stored = match self.flag() {
            // The blocks of GNU's old format are not counted in the size, the lines of the newest are.
            b'S' => size,
            _ if kind.has_content() => size
                .checked_sub(taken as u64)
                .ok_or("a sparse map is larger than its member")?,
            _ => 0,
        };
        let owner = |place| header_number(self.field(place)).and_then(|number| u32::try_from(number).ok());
        let mode = header_number(self.field(MODE)).unwrap_or_default() & 0o7777;
        let member = TarMember {
            name,
            kind,
            link,
            access: NodeAccess {
                mode: u16::try_from(mode).unwrap_or_default(),
                uid: records.uid.or_else(|| owner(USER)).unwrap_or_default(),
                gid: records.gid.or_else(|| owner(GROUP)).unwrap_or_default(),
            },
            capabilities: records.capabilities,
            access_list: records.access_list,
            stored,
            sparse,
            has_odd_number: records.has_odd_number,
            own: self.own,
        };
        Ok(Some((member, taken)))
    }

    fn field(&self, place: FieldRange) -> &[u8] {
        field(self.block, place)
    }

    fn flag(&self) -> u8 {
        self.field(KIND).first().copied().unwrap_or_default()
    }

    /// The map of a sparse file, none of another file, and the bytes behind the header that it takes.
    fn sparse(
        &self,
        kind: TarKind,
        records: SparseRecords<'_>,
        size: u64,
        regions: usize,
    ) -> Result<Option<(Option<SparseMap>, usize)>, String> {
        let bytes = records.bytes().unwrap_or(size);
        let (map, bytes) = match kind {
            TarKind::Unknown(b'S') => {
                let bytes = header_number(self.field(REAL_SIZE)).ok_or("the size of a sparse file is no number")?;
                (sparse_map::read_blocks(self.block, self.after)?, bytes)
            }
            _ if !records.is_there => return Ok(Some((None, 0))),
            _ if !kind.has_content() => return Err(NOT_SPARSE.to_owned()),
            _ if records.map_is_in_content() => (sparse_map::read_lines(self.after, regions)?, bytes),
            _ if records.map.is_empty() => return Err(NOT_SPARSE.to_owned()),
            _ => (Some((records.map, 0)), bytes),
        };
        let Some((numbers, taken)) = map else {
            return Ok(None);
        };
        Ok(Some((Some(SparseMap::new(&numbers, bytes, regions)?), taken)))
    }
}

const NOT_SPARSE: &str = "the records of a sparse file fit no sparse file";

impl TarMember {
    /// The bytes behind its content, which fill the last block.
    pub fn padding(&self) -> u64 {
        padding(self.stored)
    }
}
