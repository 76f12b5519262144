//! Reads a hash file of Berkeley DB, such as rpm's `Packages` before rpm 4.16 (`src/dbinc/db_page.h` of Berkeley DB
//! 5.3 has the layout of its pages).

/// Passes the value of each key except 0 to `visit`; `None` if the file or a value is damaged. rpm keeps its highest
/// package number under the key 0.
pub(super) fn visit_values(file: &[u8], visit: &mut dyn FnMut(&[u8]) -> Option<()>) -> Option<()> {
    let mut hash = HashFile::open(file)?;
    for number in 1..=hash.last {
        let page = hash.page(number)?;
        if !matches!(page.get(PAGE_TYPE)?, 2 | 13) {
            continue;
        }
        let entries = hash.number(page, 20, 2)?;
        for key in (0..entries).step_by(2) {
            if hash.item(page, key)?.iter().skip(1).all(|&byte| byte == 0) {
                continue;
            }
            visit(&hash.value(page, key + 1)?)?;
        }
    }
    Some(())
}

/// The offset of the type in a page: 2 and 13 for hash tables, 7 for overflow.
const PAGE_TYPE: usize = 25;
const OVERFLOW: u8 = 7;
/// The length of a page header.
const PAGE_HEADER: usize = 26;
/// The item types.
const INLINE: u8 = 1;
const OFF_PAGE: u8 = 3;

struct HashFile<'f> {
    bytes: &'f [u8],
    is_little_endian: bool,
    page_bytes: usize,
    /// The number of the last page.
    last: usize,
    /// The overflow pages that may still be read. A sound file has each page once.
    overflow_left: usize,
}

impl<'f> HashFile<'f> {
    fn open(bytes: &'f [u8]) -> Option<Self> {
        let is_little_endian = match bytes.get(12..16)? {
            [0x61, 0x15, 0x06, 0x00] => true,
            [0x00, 0x06, 0x15, 0x61] => false,
            _ => return None,
        };
        // Encryption, page checksums and partitions change the layout. rpm uses none of them.
        let is_plain = bytes.get(24) == Some(&0) && bytes.get(26) == Some(&0);
        let mut hash = Self {
            bytes,
            is_little_endian,
            page_bytes: 0,
            last: 0,
            overflow_left: 0,
        };
        hash.page_bytes = hash.number(bytes, 20, 4)?;
        hash.last = hash.number(bytes, 32, 4)?;
        hash.overflow_left = bytes.len().checked_div(hash.page_bytes)?;
        (is_plain && hash.page_bytes >= 512).then_some(hash)
    }

    fn number(&self, bytes: &[u8], offset: usize, length: usize) -> Option<usize> {
        let mut number = 0;
        let bytes = bytes.get(offset..)?.get(..length)?;
        for (at, &byte) in bytes.iter().enumerate() {
            let place = if self.is_little_endian { at } else { length - 1 - at };
            number |= usize::from(byte) << (8 * place);
        }
        Some(number)
    }

    fn page(&self, number: usize) -> Option<&'f [u8]> {
        let start = number.checked_mul(self.page_bytes)?;
        self.bytes.get(start..)?.get(..self.page_bytes)
    }

    /// A key or value of a hash page, with its type as the first byte. The items fill the page from its end.
    fn item(&self, page: &'f [u8], index: usize) -> Option<&'f [u8]> {
        let offset = |index: usize| self.number(page, PAGE_HEADER + 2 * index, 2);
        let end = index.checked_sub(1).map_or(Some(self.page_bytes), offset)?;
        page.get(offset(index)?..end)
    }

    fn value(&mut self, page: &'f [u8], index: usize) -> Option<Vec<u8>> {
        let item = self.item(page, index)?;
        match *item.first()? {
            INLINE => item.get(1..).map(<[u8]>::to_vec),
            OFF_PAGE => self.overflow(self.number(item, 4, 4)?, self.number(item, 8, 4)?),
            // Duplicates, which rpm does not use.
            _ => None,
        }
    }

    /// A value of `length` bytes in a chain of pages.
    fn overflow(&mut self, first: usize, length: usize) -> Option<Vec<u8>> {
        let (mut value, mut next) = (Vec::new(), first);
        while value.len() < length {
            self.overflow_left = self.overflow_left.checked_sub(1)?;
            let page = self.page(next)?;
            let part = page.get(PAGE_HEADER..)?.get(..self.number(page, 22, 2)?)?;
            if page.get(PAGE_TYPE) != Some(&OVERFLOW) {
                return None;
            }
            value.extend_from_slice(part);
            next = self.number(page, 16, 4)?;
        }
        (value.len() == length).then_some(value)
    }
}
