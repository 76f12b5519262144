//! Where the content of a sparse file lies, as GNU tar writes it ("Storing Sparse Files" in its manual).

use std::io::BufRead;

use super::pax::read_number;
use super::tar_header::{BLOCK, Block, header_number};
use super::tar_input::TarInput;

/// A file of which only some regions are stored; zeros lie between them.
pub struct SparseFile {
    /// The offset of each region in the file and its length, in turn; `None` when they stand in lines before the content
    /// and are counted in its size (format 1.0).
    pub(super) map: Option<Vec<u64>>,
    /// The size of the file.
    pub(super) bytes: u64,
}

/// The map in a header of GNU's old format and in the blocks after it; `None` when a number is none.
pub(super) fn read_blocks(block: &Block, blocks: &[u8]) -> Option<Vec<u64>> {
    let further = blocks.chunks(BLOCK).filter_map(|block| block.get(..504));
    let lists = block.get(386..482).into_iter().chain(further);
    // An offset that begins with a NUL ends a list, to every reader.
    let pairs = lists.flat_map(|list| list.chunks_exact(24).take_while(|pair| pair.first() != Some(&0)));
    pairs
        .flat_map(|pair| pair.chunks_exact(12))
        .map(header_number)
        .collect()
}

/// Reads the map of format 1.0: how many regions there are, then each offset and length in a line, in whole blocks.
///
/// Errors: When a line is no number, or there are more than the limit of `regions`, and what `input` gives.
pub(super) fn read_lines(input: &mut TarInput<impl BufRead>, regions: usize) -> Result<Vec<u64>, String> {
    let no_number = "a line of a sparse map is no number";
    let mut text = Vec::new();
    let mut numbers = Vec::new();
    // No line reaches over a whole block.
    while text.len() < BLOCK {
        input.read(BLOCK as u64, |bytes| text.extend_from_slice(bytes))?;
        while let Some(end) = text.iter().position(|&byte| byte == b'\n') {
            numbers.push(text.get(..end).and_then(read_number).ok_or(no_number)?);
            text.drain(..=end);
            match numbers.split_first() {
                Some((&count, _)) if count > regions as u64 => return Err(too_many(regions)),
                Some((&count, map)) if map.len() as u64 == 2 * count => return Ok(map.to_vec()),
                _ => {}
            }
        }
    }
    Err(no_number.to_owned())
}

/// The offset and length of each region, and the bytes of what is `stored` that no region takes. The regions stand in
/// order, one behind the other, within a file of `bytes` and with no more than is stored.
///
/// Errors: When they do not, or are more than the limit of `regions`.
pub(super) fn check_map(map: &[u64], bytes: u64, stored: u64, regions: usize) -> Result<(&[[u64; 2]], u64), String> {
    let misfit = "a sparse file's map does not fit its content";
    let (pairs, []) = map.as_chunks() else {
        return Err(misfit.to_owned());
    };
    if pairs.len() > regions {
        return Err(too_many(regions));
    }
    // A file's size has 63 bits (`off_t`).
    i64::try_from(bytes).map_err(|_too_large| misfit)?;
    let mut end = 0;
    let mut surplus = stored;
    for &[offset, length] in pairs {
        surplus = surplus.checked_sub(length).ok_or(misfit)?;
        let next = offset
            .checked_add(length)
            .filter(|&next| offset >= end && next <= bytes);
        end = next.ok_or(misfit)?;
    }
    Ok((pairs, surplus))
}

fn too_many(regions: usize) -> String {
    format!("a sparse map has more than the limit of {regions} regions")
}
