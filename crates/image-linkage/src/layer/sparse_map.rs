//! Where the content of a sparse file lies, in the four ways of GNU tar to write it ("Storing Sparse Files" in its manual).

use super::pax::read_number;
use super::tar_header::{BLOCK, Block, header_number};

/// The regions of a sparse file that are stored; zeros lie between them.
pub struct SparseMap {
    /// The offset of each region in the file, and its length.
    pub(super) regions: Vec<[u64; 2]>,
    /// The size of the file.
    pub(super) bytes: u64,
}

impl SparseMap {
    /// The map of a file of `bytes`, by offset and length in turn.
    ///
    /// Errors: When they are no pairs, or more than the limit of `regions`.
    pub(super) fn new(numbers: &[u64], bytes: u64, regions: usize) -> Result<Self, String> {
        match numbers.as_chunks() {
            (pairs, []) if pairs.len() <= regions => Ok(Self {
                regions: pairs.to_vec(),
                bytes,
            }),
            (_, []) => Err(too_many(regions)),
            _ => Err("a sparse map has an offset without a length".to_owned()),
        }
    }

    /// The bytes of what is `stored` that no region takes; `None` unless the regions stand in order, one behind the other,
    /// within the file and with no more than is stored.
    pub(super) fn surplus(&self, stored: u64) -> Option<u64> {
        // A file's size has 63 bits (`off_t`).
        i64::try_from(self.bytes).ok()?;
        let mut end = 0;
        let mut surplus = stored;
        for &[offset, length] in &self.regions {
            surplus = surplus.checked_sub(length)?;
            let next = offset.checked_add(length).filter(|&next| next <= self.bytes)?;
            end = (offset >= end).then_some(next)?;
        }
        Some(surplus)
    }
}

fn too_many(regions: usize) -> String {
    format!("a sparse map has more than the limit of {regions} regions")
}

/// The numbers of a map, and the bytes behind the header that it takes; `None` when it goes on behind what there is.
pub(super) type StoredMap = Option<(Vec<u64>, usize)>;

/// A map as GNU's old format has it: in the header `block`, and in blocks `after` it.
///
/// Errors: When a number is none.
pub(super) fn read_blocks(block: &Block, after: &[u8]) -> Result<StoredMap, String> {
    let mut numbers = Vec::new();
    let mut bytes = 0;
    let mut pairs = block.get(386..482).unwrap_or_default();
    let mut goes_on = block.get(482);
    loop {
        // An offset that begins with a NUL ends the list, to every reader.
        for pair in pairs.chunks_exact(24).take_while(|pair| pair.first() != Some(&0)) {
            for number in pair.chunks_exact(12) {
                numbers.push(header_number(number).ok_or("a sparse map holds what is no number")?);
            }
        }
        if goes_on == Some(&0) {
            return Ok(Some((numbers, bytes)));
        }
        let Some(next) = after.get(bytes..).and_then(<[u8]>::first_chunk::<BLOCK>) else {
            return Ok(None);
        };
        bytes += BLOCK;
        pairs = next.get(..504).unwrap_or_default();
        goes_on = next.get(504);
    }
}

/// A map as format 1.0 has it: in lines at the start of the content, their number in the first, whole blocks in all.
///
/// Errors: When a line is no number, or there are more than the limit of `regions`.
pub(super) fn read_lines(content: &[u8], regions: usize) -> Result<StoredMap, String> {
    let no_number = "a line of a sparse map is no number";
    let lines = content.split_inclusive(|&byte| byte == b'\n');
    let mut lines = lines.map_while(|line| line.strip_suffix(b"\n"));
    let Some(first) = lines.next() else {
        return Ok(None);
    };
    let count = usize::try_from(read_number(first).ok_or(no_number)?).unwrap_or(usize::MAX);
    if count > regions {
        return Err(too_many(regions));
    }
    let lines: Vec<_> = lines.take(2 * count).collect();
    let bytes = lines.iter().fold(first.len() + 1, |sum, line| sum + line.len() + 1);
    let bytes = bytes.next_multiple_of(BLOCK);
    if lines.len() < 2 * count || content.len() < bytes {
        return Ok(None);
    }
    let numbers: Option<Vec<u64>> = lines.into_iter().map(read_number).collect();
    Ok(Some((numbers.ok_or(no_number)?, bytes)))
}
