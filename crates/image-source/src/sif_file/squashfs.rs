//! The tables of a squashfs 4.0 file system (Linux, `fs/squashfs/squashfs_fs.h`): inodes, folders, fragments, owners.
//!
//! Libraries load all tables into memory and recurse through them, and a small image can describe any number. This
//! reader loads each block on demand.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;

use flate2::read::ZlibDecoder;
use image_linkage::layer::NodeAccess;
use image_linkage::limits::Limits;

/// The magic number of the file system.
pub(super) const MAGIC: &[u8] = b"hsqs";
const SUPERBLOCK: usize = 96;
/// The decompressed size of a table block, in bytes.
const METADATA: u64 = 8192;
/// How many table blocks are cached: a folder and its inodes are usually close.
const HELD: usize = 64;
/// The largest size of a content block, in bytes.
const LARGEST_BLOCK: u64 = 1 << 20;
/// The flag in a content block's size for an uncompressed block.
const PLAIN_BLOCK: u64 = 1 << 24;
/// The value for a file without a fragment.
const NO_FRAGMENT: u64 = 0xffff_ffff;

/// An opened file system.
pub(super) struct Squashfs {
    file: File,
    /// Its offset in the file, and its size.
    start: u64,
    bytes: u64,
    block_bytes: u64,
    compression: u64,
    /// The offsets of the tables.
    inodes: u64,
    folders: u64,
    fragments: u64,
    root: u64,
    owners: Vec<u32>,
    held: RefCell<VecDeque<(u64, Rc<TableBlock>)>>,
    fragment: RefCell<Option<(u64, Rc<Vec<u8>>)>>,
    /// The bytes that may still be decompressed.
    left: Cell<u64>,
}

/// A decompressed table block.
struct TableBlock {
    bytes: Vec<u8>,
    /// The offset of the next block.
    next: u64,
}

/// An inode.
pub(super) struct Inode {
    pub access: NodeAccess,
    pub kind: InodeKind,
}

/// The type of an inode.
pub(super) enum InodeKind {
    Folder(FolderPlace),
    File(FilePlace),
    Symlink(Vec<u8>),
    /// A device, a FIFO or a socket.
    Special,
}

/// The location of a folder's names.
pub(super) struct FolderPlace {
    pub block: u64,
    pub offset: usize,
    pub bytes: u64,
}

/// The location of a file's content.
pub(super) struct FilePlace {
    pub bytes: u64,
    /// Whether it may have several names.
    pub is_linked: bool,
    start: u64,
    fragment: Option<(u64, u64)>,
    /// The location of its block sizes.
    sizes: (u64, usize),
}

impl Squashfs {
    /// Opens the file system of `bytes` bytes at offset `start`.
    ///
    /// Errors: The system's error, or why the file system cannot be read.
    pub(super) fn open(file: File, start: u64, bytes: u64, limits: &Limits) -> io::Result<Self> {
        let mut head = [0; SUPERBLOCK];
        file.read_exact_at(&mut head, start)?;
        let word = |at| number_at::<8>(&head, at).unwrap_or_default();
        let half = |at| number_at::<2>(&head, at).unwrap_or_default();
        let block_bytes = number_at::<4>(&head, 12).unwrap_or_default();
        if !head.starts_with(MAGIC) || half(28) != 4 || !(4096..=LARGEST_BLOCK).contains(&block_bytes) {
            return Err(damaged("it is not a squashfs of version 4"));
        }
        let compression = half(20);
        if let Some(name) = unread_compression(compression) {
            let what = format!("its squashfs is compressed with {name}, which is not read");
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        let mut opened = Self {
            file,
            start,
            bytes,
            block_bytes,
            compression,
            inodes: word(64),
            folders: word(72),
            fragments: word(80),
            root: word(32),
            owners: Vec::new(),
            held: RefCell::default(),
            fragment: RefCell::default(),
            left: Cell::new(
                limits
                    .layer_bytes
                    .min(limits.ratio_from.max(bytes.saturating_mul(limits.layer_ratio))),
            ),
        };
        let owners = (0..half(26)).map(|number| {
            let mut cursor = opened.entry(word(48), number, 4)?;
            Ok(u32::try_from(cursor.number::<4>()?).unwrap_or_default())
        });
        opened.owners = owners.collect::<io::Result<_>>()?;
        Ok(opened)
    }

    /// The root folder's inode reference.
    pub(super) fn root(&self) -> u64 {
        self.root
    }

    /// Reads the inode at `reference`, which holds its block and its offset in that block.
    ///
    /// Errors: The file system is damaged, or the system's error.
    pub(super) fn inode(&self, reference: u64) -> io::Result<Inode> {
        let mut cursor = self.cursor(self.inodes, reference >> 16, reference & 0xffff)?;
        let number = cursor.number::<2>()?;
        let mode = cursor.number::<2>()?;
        let (uid, gid) = (cursor.number::<2>()?, cursor.number::<2>()?);
        cursor.number::<8>()?;
        let owner = |at: u64| {
            let owner = usize::try_from(at).ok().and_then(|at| self.owners.get(at));
            owner.copied().ok_or_else(|| damaged("an owner is not in its table"))
        };
        let access = NodeAccess {
            mode: u16::try_from(mode & 0o7777).unwrap_or_default(),
            uid: owner(uid)?,
            gid: owner(gid)?,
        };
        let kind = match number {
            1 | 8 => InodeKind::Folder(cursor.folder(number == 8)?),
            2 | 9 => InodeKind::File(cursor.file(number == 9, self.block_bytes)?),
            3 | 10 => {
                cursor.number::<4>()?;
                let bytes = cursor.number::<4>()?;
                // The kernel accepts no longer target (`PATH_MAX`).
                if bytes > 4096 {
                    return Err(damaged("a link is longer than a path may be"));
                }
                InodeKind::Symlink(cursor.bytes(bytes)?)
            }
            4..=7 | 11..=14 => InodeKind::Special,
            _ => return Err(damaged("an inode is of no known kind")),
        };
        Ok(Inode { access, kind })
    }

    /// A cursor at the first name of a folder.
    pub(super) fn names(&self, folder: &FolderPlace) -> io::Result<TableCursor<'_>> {
        self.cursor(self.folders, folder.block, folder.offset as u64)
    }

    /// A reader of a file's content.
    pub(super) fn content<'a>(&'a self, file: &FilePlace) -> SquashfsContent<'a> {
        SquashfsContent {
            sizes: TableCursor {
                of: self,
                block: file.sizes.0,
                offset: file.sizes.1,
            },
            next: file.start,
            left: file.bytes,
            fragment: file.fragment,
            block: Rc::default(),
            at: 0,
        }
    }

    fn cursor(&self, table: u64, block: u64, offset: u64) -> io::Result<TableCursor<'_>> {
        let block = table
            .checked_add(block)
            .ok_or_else(|| damaged("an offset is past its end"))?;
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        Ok(TableCursor {
            of: self,
            block,
            offset,
        })
    }

    /// An entry of a numbered table, whose block list is at `list`.
    fn entry(&self, list: u64, number: u64, bytes: u64) -> io::Result<TableCursor<'_>> {
        let each = METADATA / bytes;
        let mut place = [0; 8];
        let at = list.saturating_add(number / each * 8);
        self.read_at(&mut place, at)?;
        self.cursor(u64::from_le_bytes(place), 0, number % each * bytes)
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        let end = at.checked_add(into.len() as u64).filter(|&end| end <= self.bytes);
        end.ok_or_else(|| damaged("an offset is past its end"))?;
        self.file.read_exact_at(into, self.start.saturating_add(at))
    }

    /// The table block at offset `place`.
    fn table_block(&self, place: u64) -> io::Result<Rc<TableBlock>> {
        if let Some((_, block)) = self.held.borrow().iter().find(|(at, _)| *at == place) {
            return Ok(Rc::clone(block));
        }
        let mut header = [0; 2];
        self.read_at(&mut header, place)?;
        let word = u16::from_le_bytes(header);
        let stored = u64::from(word & 0x7fff);
        let bytes = self.read_block(place.saturating_add(2), stored, word & 0x8000 != 0, METADATA)?;
        let next = place.saturating_add(2 + stored);
        let block = Rc::new(TableBlock { bytes, next });
        let mut held = self.held.borrow_mut();
        held.truncate(HELD - 1);
        held.push_front((place, Rc::clone(&block)));
        Ok(block)
    }

    /// A content block with the size from an inode or a fragment.
    fn content_block(&self, place: u64, size: u64) -> io::Result<Rc<Vec<u8>>> {
        let stored = size & (PLAIN_BLOCK - 1);
        self.read_block(place, stored, size & PLAIN_BLOCK != 0, self.block_bytes)
            .map(Rc::new)
    }

    /// Reads a block and decompresses it to at most `limit` bytes.
    fn read_block(&self, place: u64, stored: u64, is_plain: bool, limit: u64) -> io::Result<Vec<u8>> {
        if stored > limit {
            return Err(damaged("a block is larger than blocks may be"));
        }
        self.charge(limit)?;
        let mut bytes = vec![0; usize::try_from(stored).map_err(io::Error::other)?];
        self.read_at(&mut bytes, place)?;
        if is_plain {
            return Ok(bytes);
        }
        let mut plain = Vec::new();
        match self.compression {
            GZIP => ZlibDecoder::new(bytes.as_slice())
                .take(limit)
                .read_to_end(&mut plain)
                .map(drop)?,
            _ => plain = zstd::bulk::decompress(&bytes, usize::try_from(limit).map_err(io::Error::other)?)?,
        }
        Ok(plain)
    }

    /// A block of zeros.
    fn read_hole(&self, bytes: u64) -> io::Result<Rc<Vec<u8>>> {
        self.charge(bytes)?;
        Ok(Rc::new(vec![0; usize::try_from(bytes).map_err(io::Error::other)?]))
    }

    fn charge(&self, bytes: u64) -> io::Result<()> {
        let left = self.left.get().checked_sub(bytes).ok_or_else(|| {
            let what = "it decompresses to more than the limits (layer-bytes, layer-ratio)";
            io::Error::new(io::ErrorKind::FileTooLarge, what)
        })?;
        self.left.set(left);
        Ok(())
    }

    /// The content block that holds the tails of several files.
    fn fragment(&self, number: u64) -> io::Result<Rc<Vec<u8>>> {
        if let Some((_, block)) = self.fragment.borrow().as_ref().filter(|(held, _)| *held == number) {
            return Ok(Rc::clone(block));
        }
        let mut entry = self.entry(self.fragments, number, 16)?;
        let (place, size) = (entry.number::<8>()?, entry.number::<4>()?);
        let block = self.content_block(place, size)?;
        *self.fragment.borrow_mut() = Some((number, Rc::clone(&block)));
        Ok(block)
    }
}

const GZIP: u64 = 1;

/// The name of an unsupported compression.
fn unread_compression(number: u64) -> Option<&'static str> {
    match number {
        GZIP | 6 => None,
        2 => Some("lzma"),
        3 => Some("lzo"),
        4 => Some("xz"),
        5 => Some("lz4"),
        _ => Some("an unknown method"),
    }
}

/// A position in a table, read sequentially.
pub(super) struct TableCursor<'a> {
    of: &'a Squashfs,
    block: u64,
    offset: usize,
}

impl TableCursor<'_> {
    /// The next `N`-byte number.
    pub(super) fn number<const N: usize>(&mut self) -> io::Result<u64> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        number_at::<N>(&bytes, 0).ok_or_else(|| damaged("a table ends early"))
    }

    /// The next few bytes.
    pub(super) fn bytes(&mut self, count: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(count).map_err(io::Error::other)?];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, mut into: &mut [u8]) -> io::Result<()> {
        while !into.is_empty() {
            let block = self.of.table_block(self.block)?;
            let Some(rest) = block.bytes.get(self.offset..).filter(|rest| !rest.is_empty()) else {
                (self.block, self.offset) = (block.next, self.offset.saturating_sub(block.bytes.len()));
                continue;
            };
            let count = rest.len().min(into.len());
            let (now, later) = into.split_at_mut(count);
            now.copy_from_slice(rest.get(..count).unwrap_or_default());
            self.offset += count;
            into = later;
        }
        Ok(())
    }

    fn folder(&mut self, is_long: bool) -> io::Result<FolderPlace> {
        let (block, bytes, offset);
        if is_long {
            self.number::<4>()?;
            (bytes, block) = (self.number::<4>()?, self.number::<4>()?);
            self.number::<6>()?;
            offset = self.number::<2>()?;
        } else {
            block = self.number::<4>()?;
            self.number::<4>()?;
            (bytes, offset) = (self.number::<2>()?, self.number::<2>()?);
        }
        Ok(FolderPlace {
            block,
            offset: usize::try_from(offset).map_err(io::Error::other)?,
            // The size includes `.` and `..`, which are not stored (fs/squashfs/dir.c).
            bytes: bytes.saturating_sub(3),
        })
    }

    fn file(&mut self, is_long: bool, block_bytes: u64) -> io::Result<FilePlace> {
        let (start, bytes, links, fragment, offset);
        if is_long {
            (start, bytes) = (self.number::<8>()?, self.number::<8>()?);
            self.number::<8>()?;
            (links, fragment, offset) = (self.number::<4>()?, self.number::<4>()?, self.number::<4>()?);
            self.number::<4>()?;
        } else {
            (start, fragment, offset) = (self.number::<4>()?, self.number::<4>()?, self.number::<4>()?);
            (bytes, links) = (self.number::<4>()?, 1);
        }
        Ok(FilePlace {
            bytes,
            is_linked: links > 1,
            start,
            fragment: (fragment != NO_FRAGMENT && bytes % block_bytes != 0).then_some((fragment, offset)),
            sizes: (self.block, self.offset),
        })
    }
}

/// The content of a file, read sequentially.
pub(super) struct SquashfsContent<'a> {
    /// The sizes of the remaining blocks.
    sizes: TableCursor<'a>,
    /// The offset of the next block.
    next: u64,
    /// The bytes without a block so far.
    left: u64,
    fragment: Option<(u64, u64)>,
    block: Rc<Vec<u8>>,
    at: usize,
}

impl SquashfsContent<'_> {
    /// Loads the next block; an empty one at the end.
    fn next_block(&mut self) -> io::Result<()> {
        let of = self.sizes.of;
        let count = self.left.min(of.block_bytes);
        (self.block, self.at) = match self.fragment {
            // A tail shorter than a block shares a fragment with other files.
            Some((number, offset)) if self.left < of.block_bytes => {
                let start = usize::try_from(offset).map_err(io::Error::other)?;
                let end = start.saturating_add(usize::try_from(count).map_err(io::Error::other)?);
                let part = of.fragment(number)?.get(start..end).map(<[u8]>::to_vec);
                (Rc::new(part.ok_or_else(|| damaged("a file ends early"))?), 0)
            }
            _ => {
                let size = self.sizes.number::<4>()?;
                let place = self.next;
                self.next = place.saturating_add(size & (PLAIN_BLOCK - 1));
                // A hole has no block.
                let block = match size {
                    0 => of.read_hole(count)?,
                    size => of.content_block(place, size)?,
                };
                if block.len() as u64 != count {
                    return Err(damaged("a file ends early"));
                }
                (block, 0)
            }
        };
        self.left -= count;
        Ok(())
    }
}

impl io::Read for SquashfsContent<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() && self.left > 0 {
            self.next_block()?;
        }
        let rest = self.block.get(self.at..).unwrap_or_default();
        let count = rest.len().min(buf.len());
        buf.get_mut(..count)
            .unwrap_or_default()
            .copy_from_slice(rest.get(..count).unwrap_or_default());
        self.at += count;
        Ok(count)
    }
}

/// The error for bytes that no tool writes.
pub(super) fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the squashfs is damaged: {what}"))
}

/// The `N`-byte number at offset `at`, or `None` past the end of `bytes`.
pub(super) fn number_at<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(N)?)?;
    let mut number = [0; 8];
    number.get_mut(..N)?.copy_from_slice(field);
    Some(u64::from_le_bytes(number))
}

/// Same, as an offset or a count in memory.
pub(super) fn size_at<const N: usize>(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(number_at::<N>(bytes, at)?).ok()
}

#[cfg(test)]
mod tests {
    use super::{number_at, size_at};

    #[test]
    fn a_number_is_read_whole_or_not_at_all() {
        let bytes = [1, 2, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(number_at::<2>(&bytes, 0), Some(0x201));
        assert_eq!(number_at::<8>(&bytes, 3), Some(u64::MAX));
        assert_eq!(size_at::<1>(&bytes, 1), Some(2));
        assert_eq!(
            (number_at::<4>(&bytes, 8), number_at::<1>(&bytes, usize::MAX)),
            (None, None)
        );
    }
}
