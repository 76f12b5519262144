//! Reads a table of an `SQLite` file (<https://www.sqlite.org/fileformat2.html>), such as `rpmdb.sqlite`.

/// Passes the columns of each row of `table` to `visit`; `None` if the file or a row is damaged, or the table is
/// missing.
pub(super) fn visit_rows<'f>(
    file: &'f [u8],
    table: &[u8],
    visit: &mut dyn FnMut(&[&[u8]]) -> Option<()>,
) -> Option<()> {
    let mut root = None;
    // The schema is the table at page 1: type, name, table, root page, SQL.
    SqliteFile::open(file)?.visit_table(1, &mut |columns| {
        if columns.first() == Some(&&b"table"[..]) && columns.get(1) == Some(&table) {
            let bytes = columns.get(3)?;
            root = Some(bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)));
        }
        Some(())
    })?;
    SqliteFile::open(file)?.visit_table(usize::try_from(root?).ok()?, visit)
}

struct SqliteFile<'f> {
    bytes: &'f [u8],
    page_bytes: usize,
    /// The bytes of a page without the space reserved for extensions.
    usable: usize,
    /// The pages that may still be read. A sound table reads each page once, so this ends every loop.
    pages_left: usize,
}

/// The length of the header of the file.
const FILE_HEADER: usize = 100;
/// The b-tree page types of tables.
const INTERIOR: u8 = 5;
const LEAF: u8 = 13;

impl<'f> SqliteFile<'f> {
    fn open(bytes: &'f [u8]) -> Option<Self> {
        let page_bytes = match big_endian(bytes, 16, 2)? {
            1 => 65_536,
            size if size >= 512 && size.is_power_of_two() => size,
            _ => return None,
        };
        let usable = page_bytes - big_endian(bytes, 20, 1)?;
        let is_known = bytes.starts_with(b"SQLite format 3\0") && usable >= 480;
        is_known.then_some(Self {
            bytes,
            page_bytes,
            usable,
            pages_left: bytes.len() / page_bytes,
        })
    }

    /// The page with this number, counted from 1.
    fn page(&mut self, number: usize) -> Option<&'f [u8]> {
        self.pages_left = self.pages_left.checked_sub(1)?;
        let start = number.checked_sub(1)?.checked_mul(self.page_bytes)?;
        self.bytes.get(start..)?.get(..self.page_bytes)
    }

    fn visit_table(&mut self, root: usize, visit: &mut dyn FnMut(&[&[u8]]) -> Option<()>) -> Option<()> {
        let mut numbers = vec![root];
        while let Some(number) = numbers.pop() {
            let page = self.page(number)?;
            let start = if number == 1 { FILE_HEADER } else { 0 };
            let kind = *page.get(start)?;
            let first = start + if kind == INTERIOR { 12 } else { 8 };
            for cell in 0..big_endian(page, start + 3, 2)? {
                let cell = big_endian(page, first + 2 * cell, 2)?;
                match kind {
                    INTERIOR => numbers.push(big_endian(page, cell, 4)?),
                    LEAF => visit(&columns(&self.payload(page, cell)?)?)?,
                    _ => return None,
                }
            }
            if kind == INTERIOR {
                numbers.push(big_endian(page, start + 8, 4)?);
            }
            // Too many children: some page would be read twice.
            if numbers.len() > self.pages_left {
                return None;
            }
        }
        Some(())
    }

    /// The record of a leaf cell, with its part on overflow pages.
    fn payload(&mut self, page: &[u8], cell: usize) -> Option<Vec<u8>> {
        let mut rest = page.get(cell..self.usable)?;
        let length = read_varint(&mut rest)?;
        let _row = read_varint(&mut rest)?;
        let local = self.local_bytes(length)?;
        let (start, rest) = rest.split_at_checked(local)?;
        let mut payload = start.to_vec();
        let mut next = if local < length { big_endian(rest, 0, 4)? } else { 0 };
        while payload.len() < length {
            let overflow = self.page(next)?.get(..self.usable)?;
            next = big_endian(overflow, 0, 4)?;
            let part = overflow.get(4..)?;
            payload.extend_from_slice(part.get(..length - payload.len()).unwrap_or(part));
        }
        Some(payload)
    }

    /// The bytes of a record of `length` bytes that are on its leaf page ("B-tree Pages").
    fn local_bytes(&self, length: usize) -> Option<usize> {
        let most = self.usable - 35;
        if length <= most {
            return Some(length);
        }
        let least = (self.usable - 12) * 32 / 255 - 23;
        let fitting = least + length.checked_sub(least)? % (self.usable - 4);
        Some(if fitting <= most { fitting } else { least })
    }
}

/// The columns of a record ("Record Format"), as bytes. A row number stored outside the record is empty.
fn columns(record: &[u8]) -> Option<Vec<&[u8]>> {
    let mut after = record;
    let header = read_varint(&mut after)?;
    let (mut types, mut body) = (record.get(record.len() - after.len()..header)?, record.get(header..)?);
    let mut columns = Vec::new();
    while !types.is_empty() {
        let length = match read_varint(&mut types)? {
            0 | 8 | 9 => 0,
            length @ 1..=4 => length,
            5 => 6,
            6 | 7 => 8,
            10 | 11 => return None,
            text_or_blob => (text_or_blob - 12) / 2,
        };
        let (column, rest) = body.split_at_checked(length)?;
        columns.push(column);
        body = rest;
    }
    Some(columns)
}

/// Reads a number of one to nine bytes ("Varint").
fn read_varint(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    for position in 0..9 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if position == 8 {
            number = number << 8 | u64::from(byte);
            break;
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            break;
        }
    }
    usize::try_from(number).ok()
}

fn big_endian(bytes: &[u8], offset: usize, length: usize) -> Option<usize> {
    let bytes = bytes.get(offset..)?.get(..length)?;
    Some(bytes.iter().fold(0, |number, &byte| number << 8 | usize::from(byte)))
}
