//! Interprets the headers of a member.

use std::ops::Range;
use std::sync::Arc;

use super::access_list::AccessList;
use super::node_access::{FileCapabilities, NodeAccess};
use super::pax::{self, SparseRecords};
use super::sparse_map::{self, SparseFile};
use super::tar_header::{
    Block, FieldRange, GROUP, KIND, LINK, MODE, REAL_SIZE, USER, field, has_odd_number, header_number, name, padding,
    text,
};

/// The type of a member, from its type flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TarKind {
    /// A file, with any of the flags that engines accept.
    Regular,
    /// A hard link. Its target path is relative to the root.
    HardLink,
    /// A symbolic link.
    Symlink,
    /// A directory.
    Directory,
    /// A device or a FIFO.
    Special,
    /// A type that Go's reader passes on but engines do not handle (moby/moby `createTarFile`).
    Unknown(u8),
}

impl TarKind {
    /// In the oldest format, a trailing slash marks a directory.
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

    /// Whether the member has content. Other types have none even if the header has a size: a hard link may carry the
    /// size of its target (Go's archive/tar, `isHeaderOnly`; GNU tar, "links 0 size on tape").
    pub(super) fn has_content(self) -> bool {
        matches!(self, Self::Regular | Self::Unknown(_))
    }
}

/// One member, from its headers.
pub struct TarMember {
    /// The raw name.
    pub name: Vec<u8>,
    /// The type.
    pub kind: TarKind,
    /// The raw target of a link.
    pub link: Vec<u8>,
    pub(super) access: NodeAccess,
    /// From the xattr `security.capability`.
    pub(super) capabilities: Option<FileCapabilities>,
    /// From the xattr `system.posix_acl_access`.
    pub(super) access_list: Option<Arc<AccessList>>,
    /// The bytes of content in the stream.
    pub stored: u64,
    /// The sparse map, if it is a sparse file.
    pub sparse: Option<SparseFile>,
    /// Whether a mode, time, owner or device is not a number. All engines reject such a header.
    pub(super) has_odd_number: bool,
    /// The position of its PAX records in the headers, and the start of its own header.
    pub(super) records: Range<usize>,
    pub(super) own: usize,
}

/// The headers of one member. Texts of missing extension headers are empty.
pub(super) struct MemberHeaders<'a> {
    pub long_name: &'a [u8],
    pub long_link: &'a [u8],
    pub records: &'a [u8],
    /// The member's own header.
    pub block: &'a Block,
    /// The extension blocks of a map in GNU's old sparse format.
    pub map_blocks: &'a [u8],
}

fn first_text(texts: [&[u8]; 3]) -> Option<Vec<u8>> {
    texts.into_iter().find(|text| !text.is_empty()).map(<[u8]>::to_vec)
}

impl MemberHeaders<'_> {
    /// Parses the member. Its own header gives `size`.
    ///
    /// Errors: Malformed headers.
    pub(super) fn read(&self, size: u64) -> Result<TarMember, String> {
        let records = pax::read_records(self.records)?;
        // Go's archive/tar prefers a GNU long name to a PAX record.
        let name = first_text([records.sparse.name, self.long_name, records.path]).unwrap_or_else(|| name(self.block));
        let link = first_text([self.long_link, records.linkpath, text(self.field(LINK))]).unwrap_or_default();
        let flag = self.field(KIND).first().copied().unwrap_or_default();
        let kind = TarKind::new(flag, &name);
        let size = records.size.unwrap_or(size);
        let [mode, user, group] = [MODE, USER, GROUP].map(|place| header_number(self.field(place)).unwrap_or_default());
        Ok(TarMember {
            name,
            kind,
            link,
            access: NodeAccess {
                mode: u16::try_from(mode & 0o7777).unwrap_or_default(),
                uid: records.uid.unwrap_or(u32::try_from(user).unwrap_or_default()),
                gid: records.gid.unwrap_or(u32::try_from(group).unwrap_or_default()),
            },
            capabilities: records.capabilities,
            access_list: records.access_list,
            stored: if kind.has_content() { size } else { 0 },
            sparse: self.sparse(kind, records.sparse, size)?,
            has_odd_number: records.has_odd_number || has_odd_number(self.block),
            records: 0..0,
            own: 0,
        })
    }

    fn field(&self, place: FieldRange) -> &[u8] {
        field(self.block, place)
    }

    fn sparse(&self, kind: TarKind, records: SparseRecords<'_>, size: u64) -> Result<Option<SparseFile>, &'static str> {
        let no_number = "the map of a sparse file has a value that is not a number";
        let bytes = records.bytes().unwrap_or(size);
        let (map, bytes) = match kind {
            TarKind::Unknown(b'S') => {
                let map = sparse_map::read_blocks(self.block, self.map_blocks).ok_or(no_number)?;
                (Some(map), header_number(self.field(REAL_SIZE)).ok_or(no_number)?)
            }
            _ if !records.is_there => return Ok(None),
            _ if kind.has_content() && records.map_is_in_content() => (None, bytes),
            _ if kind.has_content() && !records.map.is_empty() => (Some(records.map), bytes),
            _ => return Err("sparse records on a member that is not a sparse file"),
        };
        Ok(Some(SparseFile { map, bytes }))
    }
}

impl TarMember {
    /// The padding behind the content that fills the last block.
    pub fn padding(&self) -> u64 {
        padding(self.stored)
    }
}
