//! The file in which containerd keeps its names: a tree of buckets, keys and values (bbolt, `page.go`, `bucket.go`,
//! `meta.go`).
//!
//! containerd holds the file's lock for as long as it runs, and a library would wait for it. No lock is needed: a
//! transaction writes only pages that the last committed tree does not use, so what was read is whole if that tree is
//! still the last one afterwards.
#![expect(clippy::disallowed_methods, reason = "an image source reads the host")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::little_endian::{number_at, size_at};

/// The bytes read of one file: the names of some hundred thousand images.
const READ_BYTES: u64 = 64 << 20;
/// The bytes of a page's header, and of an element behind it.
const HEADER: usize = 16;
/// The bytes of what says where the tree begins.
const META: usize = 64;
/// Where the second of the two copies of it may lie: pages are those of the machine that made the file.
const PAGE_SIZES: [u64; 3] = [4096, 16384, 65536];
const MAGIC: u64 = 0xED0C_DAED;
/// Flags of a page, and of an element.
const BRANCH: u64 = 1;
const LEAF: u64 = 2;
const IS_BUCKET: u64 = 1;

/// An opened file, as of one transaction.
pub(super) struct BoltFile {
    file: File,
    meta: BoltMeta,
    /// The bytes that may still be read.
    left: Cell<u64>,
}

/// What says where the tree of a transaction begins.
#[derive(Clone, Copy, PartialEq, Eq)]
struct BoltMeta {
    page_bytes: u64,
    root: u64,
    transaction: u64,
}

/// What a key stands for.
pub(super) enum BoltValue {
    Bytes(Vec<u8>),
    Bucket(BoltBucket),
}

/// A bucket, by where its keys are.
pub(super) enum BoltBucket {
    Page(u64),
    /// A small one lies in the value that it is.
    Inline(Vec<u8>),
}

impl BoltFile {
    /// Errors: What the system says, or that the file is none of bbolt's.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        Ok(Self {
            meta: newest_meta(&file)?,
            file,
            left: Cell::new(READ_BYTES),
        })
    }

    /// The bucket that holds all others.
    pub(super) fn root(&self) -> BoltBucket {
        BoltBucket::Page(self.meta.root)
    }

    /// Whether all that was read is of one transaction.
    pub(super) fn is_unchanged(&self) -> bool {
        newest_meta(&self.file).is_ok_and(|meta| meta == self.meta)
    }

    /// The keys of a bucket.
    ///
    /// Errors: What the system says, that the file is damaged, or that it is larger than is read.
    pub(super) fn entries(&self, bucket: &BoltBucket) -> io::Result<BTreeMap<Vec<u8>, BoltValue>> {
        let mut found = BTreeMap::new();
        // A list and no recursion: how deep a damaged tree is, is up to its pages.
        let (mut page, mut pending) = match bucket {
            BoltBucket::Page(number) => (self.page(*number)?, Vec::new()),
            BoltBucket::Inline(page) => (page.clone(), Vec::new()),
        };
        loop {
            let flags = number_at::<2>(&page, 8).ok_or_else(damaged)?;
            for element in 0..size_at::<2>(&page, 10).ok_or_else(damaged)? {
                let at = HEADER + element * HEADER;
                match flags {
                    BRANCH => pending.push(number_at::<8>(&page, at + 8).ok_or_else(damaged)?),
                    LEAF => found.extend([leaf(&page, at).ok_or_else(damaged)?]),
                    _ => return Err(damaged()),
                }
            }
            match pending.pop() {
                Some(next) => page = self.page(next)?,
                None => return Ok(found),
            }
        }
    }

    /// A page with those that belong to it.
    fn page(&self, number: u64) -> io::Result<Vec<u8>> {
        let bytes = self.meta.page_bytes;
        let place = number.checked_mul(bytes).ok_or_else(damaged)?;
        let mut header = [0; HEADER];
        self.file.read_exact_at(&mut header, place)?;
        let more = number_at::<4>(&header, 12).unwrap_or_default();
        let size = (more + 1).saturating_mul(bytes);
        let left = self.left.get().checked_sub(size).ok_or_else(|| {
            let what = format!("more than {READ_BYTES} bytes would have to be read of it");
            io::Error::new(io::ErrorKind::FileTooLarge, what)
        })?;
        self.left.set(left);
        let mut page = vec![0; usize::try_from(size).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut page, place)?;
        Ok(page)
    }
}

/// A key and its value, of the element at `at`.
fn leaf(page: &[u8], at: usize) -> Option<(Vec<u8>, BoltValue)> {
    let flags = number_at::<4>(page, at)?;
    let key_at = at.checked_add(size_at::<4>(page, at + 4)?)?;
    let value_at = key_at.checked_add(size_at::<4>(page, at + 8)?)?;
    let end = value_at.checked_add(size_at::<4>(page, at + 12)?)?;
    let (key, value) = (page.get(key_at..value_at)?, page.get(value_at..end)?);
    let value = match number_at::<8>(value, 0) {
        _ if flags & IS_BUCKET == 0 => BoltValue::Bytes(value.to_vec()),
        // The page stands behind the bucket's own header.
        Some(0) => BoltValue::Bucket(BoltBucket::Inline(value.get(HEADER..)?.to_vec())),
        number => BoltValue::Bucket(BoltBucket::Page(number?)),
    };
    Some((key.to_vec(), value))
}

/// Of the two copies the whole one of the later transaction: each commit writes over the older.
fn newest_meta(file: &File) -> io::Result<BoltMeta> {
    let places = [0].into_iter().chain(PAGE_SIZES);
    let metas = places.filter_map(|place| {
        let mut page = [0; HEADER + META];
        file.read_exact_at(&mut page, place).ok()?;
        // A page of data may lie at a place of another size.
        read_meta(page.get(HEADER..)?).filter(|meta| place == 0 || meta.page_bytes == place)
    });
    metas.max_by_key(|meta| meta.transaction).ok_or_else(damaged)
}

fn read_meta(bytes: &[u8]) -> Option<BoltMeta> {
    let (summed, sum) = bytes.split_at_checked(META - 8)?;
    // FNV-1a of 64 bits.
    let own = summed.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let page_bytes = number_at::<4>(summed, 8)?;
    let is_meta = number_at::<4>(summed, 0)? == MAGIC && number_at::<8>(sum, 0)? == own;
    (is_meta && PAGE_SIZES.contains(&page_bytes)).then_some(BoltMeta {
        page_bytes,
        root: number_at::<8>(summed, 16)?,
        transaction: number_at::<8>(summed, 48)?,
    })
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is damaged, or no file of containerd's")
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the numbers of these few pages are small"
)]
mod tests {
    use std::io::Write as _;

    use super::{BoltBucket, BoltFile, BoltValue, LEAF, MAGIC};

    const PAGE: usize = 4096;

    /// A page of keys and values, of which some are buckets.
    fn leaf_page(entries: &[(&[u8], &[u8], bool)]) -> Vec<u8> {
        let (mut head, mut tail) = (vec![0; 8], Vec::new());
        head.extend([LEAF as u8, 0, entries.len() as u8, 0, 0, 0, 0, 0]);
        for (number, (key, value, is_bucket)) in entries.iter().enumerate() {
            let place = (entries.len() - number) * 16 + tail.len();
            let numbers = [usize::from(*is_bucket), place, key.len(), value.len()];
            head.extend(numbers.iter().flat_map(|&number| (number as u32).to_le_bytes()));
            tail.extend([*key, *value].concat());
        }
        [head, tail].concat()
    }

    fn meta_page(transaction: u64, root: u64) -> Vec<u8> {
        let words = [MAGIC as u32, 2, PAGE as u32, 0].map(u32::to_le_bytes).concat();
        let words = [words, [root, 0, 9, 9, transaction].map(u64::to_le_bytes).concat()].concat();
        let sum = words.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, &byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        [vec![0; 16], words, sum.to_le_bytes().to_vec()].concat()
    }

    /// Two transactions: the later one's tree holds a bucket within its value and one on a page of its own.
    fn sample() -> Vec<u8> {
        let inline = [vec![0; 16], leaf_page(&[(b"in", b"1", false)])].concat();
        let on_page = [4_u64.to_le_bytes(), [0; 8]].concat();
        let root = leaf_page(&[(b"a", &inline, true), (b"b", &on_page, true), (b"c", b"3", false)]);
        let pages = [
            meta_page(7, 3),
            meta_page(6, 2),
            leaf_page(&[]),
            root,
            leaf_page(&[(b"on", b"2", false)]),
        ];
        let padded = pages.map(|mut bytes| {
            bytes.resize(PAGE, 0);
            bytes
        });
        padded.concat()
    }

    /// All keys with their values, buckets within each other.
    fn read(file: &BoltFile, bucket: &BoltBucket, depth: usize) -> std::io::Result<String> {
        let mut text = Vec::new();
        for (key, value) in file.entries(bucket)? {
            let value = match value {
                BoltValue::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                BoltValue::Bucket(inner) if depth < 4 => format!("{{{}}}", read(file, &inner, depth + 1)?),
                BoltValue::Bucket(_) => String::new(),
            };
            text.push(format!("{}={value} ", String::from_utf8_lossy(&key)));
        }
        Ok(text.concat())
    }

    fn open(bytes: &[u8]) -> std::io::Result<(tempfile::NamedTempFile, BoltFile)> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let opened = BoltFile::open(file.path())?;
        Ok((file, opened))
    }

    #[test]
    fn the_later_of_two_transactions_is_read() {
        let (mut file, opened) = open(&sample()).unwrap();
        assert_eq!(read(&opened, &opened.root(), 0).unwrap(), "a={in=1 } b={on=2 } c=3 ");
        assert!(opened.is_unchanged());
        // The next transaction writes over the older copy.
        std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(PAGE as u64)).unwrap();
        file.write_all(&meta_page(8, 2)).unwrap();
        assert!(!opened.is_unchanged());
        let again = BoltFile::open(file.path()).unwrap();
        assert_eq!(read(&again, &again.root(), 0).unwrap(), "");
    }

    #[test]
    fn damage_anywhere_is_an_error_or_other_names_and_never_the_end() {
        let whole = sample();
        let used = whole.iter().enumerate().filter(|(_, byte)| **byte != 0);
        let near = used.flat_map(|(at, _)| [at, at + 1]);
        for at in near.filter(|at| *at < whole.len()) {
            for flip in [0x01, 0x03, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                if let Ok((_file, opened)) = open(&bytes) {
                    let _ = read(&opened, &opened.root(), 0);
                }
            }
        }
        assert!(open(b"").is_err() && open(&[0; 9000]).is_err());
    }
}
