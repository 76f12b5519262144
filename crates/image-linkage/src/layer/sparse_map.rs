//! The data regions of a sparse file, as GNU tar writes them (manual, "Storing Sparse Files").

use std::io::BufRead;

use super::pax::read_number;
use super::tar_header::{BLOCK, Block, header_number};
use super::tar_input::TarInput;

/// A sparse file: only some regions are stored; the rest is zeros.
pub struct SparseFile {
    /// Alternating offsets and lengths of the regions; `None` if the content starts with the map (format 1.0).
    pub(super) map: Option<Vec<u64>>,
    /// The size of the file including holes.
    pub(super) bytes: u64,
}

/// Parses the map in a header of GNU's old format and its extension blocks; `None` if a number is malformed.
pub(super) fn read_blocks(block: &Block, blocks: &[u8]) -> Option<Vec<u64>> {
    let further = blocks.chunks(BLOCK).filter_map(|block| block.get(..504));
    let lists = block.get(386..482).into_iter().chain(further);
    // All readers treat an offset that starts with NUL as the end of the list.
    let pairs = lists.flat_map(|list| list.chunks_exact(24).take_while(|pair| pair.first() != Some(&0)));
    pairs
        .flat_map(|pair| pair.chunks_exact(12))
        .map(header_number)
        .collect()
}

/// Reads the map of format 1.0: the number of regions, then one offset or length per line, in whole blocks.
///
/// Errors: A line is not a number, there are more than `regions`, or `input` fails.
pub(super) fn read_lines(input: &mut TarInput<impl BufRead>, regions: usize) -> Result<Vec<u64>, String> {
    let no_number = "a line of a sparse map is not a number";
    let mut text = Vec::new();
    let mut numbers = Vec::new();
    // No line spans a whole block.
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

/// Validates a map. Returns the offset and length of each region, and the stored bytes that no region uses. Regions
/// must be ordered, disjoint, inside a file of `bytes`, and no longer than `stored` in total.
///
/// Errors: An invalid map, or more than `regions`.
pub(super) fn check_map(map: &[u64], bytes: u64, stored: u64, regions: usize) -> Result<(&[[u64; 2]], u64), String> {
    let misfit = "a sparse file's map does not fit its content";
    let (pairs, []) = map.as_chunks() else {
        return Err(misfit.to_owned());
    };
    if pairs.len() > regions {
        return Err(too_many(regions));
    }
    // A file size has 63 bits (`off_t`).
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
