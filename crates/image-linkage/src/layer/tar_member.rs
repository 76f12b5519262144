//! What a member is, by its headers.

use std::sync::Arc;

use tar_core::parse::{Limits as TarLimits, ParsedEntry, Parser};
use tar_core::{EntryType, SparseEntry};

use super::access_list::AccessList;
use super::node_access::{FileCapabilities, NodeAccess};
use super::pax::{self, PaxRecords};
use super::tar_header::{HeaderScan, padding};
use crate::limits::Limits;

/// A parser of headers that were made plain.
pub(super) fn tar_parser(limits: &Limits) -> Parser {
    let mut parser = Parser::new(TarLimits {
        max_metadata_size: u32::try_from(limits.tar_metadata).unwrap_or(u32::MAX),
        max_sparse_entries: limits.sparse_regions,
        ..TarLimits::default()
    });
    parser.set_allow_empty_path(true);
    // `pax` and `header` check these themselves: what counts strictly, what does not count not at all.
    parser.set_ignore_pax_errors(true);
    parser.set_verify_checksums(false);
    parser
}

/// What the headers of one member say.
pub struct TarMember {
    /// The name, as written.
    pub name: Vec<u8>,
    /// What it is, by its type flag.
    pub kind: EntryType,
    /// The target of a link, as written.
    pub link: Vec<u8>,
    pub(super) access: NodeAccess,
    /// What its attribute `security.capability` says.
    pub(super) capabilities: Option<FileCapabilities>,
    /// What its attribute `system.posix_acl_access` says.
    pub(super) access_list: Option<Arc<AccessList>>,
    /// The bytes of content in the stream.
    pub stored: u64,
    /// Where they lie in a sparse file, and its size.
    pub sparse: Option<(Vec<SparseEntry>, u64)>,
    /// Where its own header begins among its headers, behind its extensions.
    pub(super) own: usize,
}

impl TarMember {
    /// Takes a member out of the buffer. `own_map` is the size of a sparse map that stands in the content.
    pub(crate) fn new(
        entry: &ParsedEntry<'_>,
        sparse: Option<(Vec<SparseEntry>, u64)>,
        headers: &HeaderScan,
        own_map: u64,
    ) -> Result<Self, String> {
        let records = pax::read_records(entry.pax.unwrap_or_default())?;
        // Readers differ in which of the two counts, so that this would be two members in one.
        if (headers.long_name && records.path) || (headers.long_link && records.linkpath) {
            return Err("a name stands in a PAX record and in a GNU long name".to_owned());
        }
        let kind = kind(entry);
        // GNU's old format has its map in the header, and no records.
        if records.sparse != sparse.is_some() && kind != EntryType::GnuSparse
            || sparse.is_some() && has_no_content(kind)
        {
            return Err("the records of a sparse file fit no sparse file".to_owned());
        }
        Ok(Self {
            name: entry.path.to_vec(),
            kind,
            link: entry.link_target.as_deref().unwrap_or_default().to_vec(),
            access: NodeAccess {
                mode: u16::try_from(entry.mode & 0o7777).unwrap_or_default(),
                uid: records.uid.unwrap_or(headers.owner.0),
                gid: records.gid.unwrap_or(headers.owner.1),
            },
            capabilities: records.capabilities,
            stored: stored(entry, kind, &records, own_map)?,
            access_list: records.access_list,
            sparse,
            own: headers.entry_at(),
        })
    }

    /// Whether it has no content, whatever its size says.
    pub(super) fn has_no_content(&self) -> bool {
        has_no_content(self.kind)
    }

    /// The bytes behind its content, which fill the last block.
    pub fn padding(&self) -> u64 {
        padding(self.stored)
    }
}

/// What a member is. A name that ends in a slash makes a directory of a file in the oldest format.
fn kind(entry: &ParsedEntry<'_>) -> EntryType {
    let [flag] = entry.header.as_ustar().typeflag;
    if flag == 0 && entry.path.ends_with(b"/") {
        EntryType::Directory
    } else {
        entry.entry_type
    }
}

/// Whether a member of this kind has no content even where its header gives a size: a hard link, for one, may
/// carry the size of its target (Go's archive/tar, `isHeaderOnly`; GNU tar, "links 0 size on tape").
fn has_no_content(kind: EntryType) -> bool {
    matches!(
        kind,
        EntryType::Link
            | EntryType::Symlink
            | EntryType::Char
            | EntryType::Block
            | EntryType::Directory
            | EntryType::Fifo
    )
}

/// The bytes of content that follow a member's headers.
fn stored(entry: &ParsedEntry<'_>, kind: EntryType, records: &PaxRecords, own_map: u64) -> Result<u64, String> {
    if has_no_content(kind) {
        return Ok(0);
    }
    match records.size {
        // `tar-core` takes the map from the size in the header, not from the one in a record.
        Some(size) if records.map_in_content() && kind != EntryType::GnuSparse => size
            .checked_sub(own_map)
            .ok_or_else(|| "a sparse map is larger than its member".to_owned()),
        _ => Ok(entry.size),
    }
}
