//! Tar headers made plain before `tar-core` reads them.
//!
//! Where readers differ, what counts is the reader of the engines, Go's archive/tar. Fields that
//! `tar-core` need not read are blanked, so that an odd owner, time or device number stops nobody; a size is read
//! as Go reads it; what readers take for different members is an error.

/// The size of a tar block.
pub(super) const BLOCK: usize = 512;

/// The headers before the next entry that have been seen so far. One value serves one entry.
#[derive(Debug, Default)]
pub(crate) struct HeaderScan {
    /// Where the next block to be looked at begins, in bytes from the first header.
    next: usize,
    /// Whether the entry's own header has been seen, or the end marker.
    complete: bool,
    /// Whether there was a GNU long name.
    pub long_name: bool,
    /// Whether there was a GNU long link target.
    pub long_link: bool,
    /// The owner and its group in the entry's own header; 0 where they are no numbers.
    pub owner: (u32, u32),
}

impl HeaderScan {
    /// Where the entry's own header begins, in bytes from the first header.
    pub(crate) fn entry_at(&self) -> usize {
        self.next
    }

    /// Checks and blanks the headers in `buffer`, which begins with the first one, as far as it reaches.
    /// Called again with more bytes, it goes on where it stopped.
    ///
    /// Errors: What no reader of an engine takes for a header.
    pub(crate) fn prepare(&mut self, buffer: &mut [u8]) -> Result<(), String> {
        while !self.complete
            && let Some((block, after)) = buffer.get_mut(self.next..).and_then(<[u8]>::split_first_chunk_mut)
        {
            // Two blocks of zeros end a tar; one alone is an error to Go (`readHeader`).
            if is_zero(block) {
                let Some(second) = after.first_chunk::<BLOCK>() else {
                    return Ok(());
                };
                if !is_zero(second) {
                    return Err("a lone block of zeros stands where a header should".to_owned());
                }
                self.complete = true;
                return Ok(());
            }
            self.header(block)?;
        }
        Ok(())
    }

    fn header(&mut self, block: &mut [u8; BLOCK]) -> Result<(), String> {
        check_sum(block)?;
        let size = member_size(block).ok_or("the size is no number")?;
        let [kind] = field(block, KIND);
        let known = is_known(block);
        match kind {
            b'x' | b'L' | b'K' if known => {
                self.long_name |= kind == b'L';
                self.long_link |= kind == b'K';
                let whole = usize::try_from(size)
                    .ok()
                    .and_then(|size| size.checked_next_multiple_of(BLOCK));
                // A header too long to be held is refused by its size.
                self.next = whole.map_or(usize::MAX, |whole| {
                    self.next.saturating_add(BLOCK).saturating_add(whole)
                });
            }
            b'x' | b'L' | b'K' | b'S' if !known => {
                return Err("an extension header has no magic number".to_owned());
            }
            // Readers differ in whether its records then count for the entry under way.
            b'g' if self.next > 0 => {
                return Err("a global header stands between an entry and its own headers".to_owned());
            }
            _ => {
                self.complete = true;
                self.owner = (owner_number(block, USER), owner_number(block, GROUP));
                blank(block);
            }
        }
        // In base 256, which leaves no blanks and NULs to read otherwise than Go does.
        put_size(block, size);
        Ok(())
    }
}

/// A field of a header, by its first byte and the first behind it (POSIX.1-2017, pax, "ustar Interchange Format").
pub(super) type FieldRange = std::ops::Range<usize>;
pub(super) const NAME: FieldRange = 0..100;
const USER: FieldRange = 108..116;
const GROUP: FieldRange = 116..124;
pub(super) const SIZE: FieldRange = 124..136;
const TIME: FieldRange = 136..148;
pub(super) const SUM: FieldRange = 148..156;
pub(super) const KIND: FieldRange = 156..157;
pub(super) const LINK: FieldRange = 157..257;
pub(super) const MAGIC: FieldRange = 257..263;
pub(super) const VERSION: FieldRange = 263..265;
const DEVICE: FieldRange = 329..345;

fn field<const N: usize>(block: &[u8; BLOCK], place: FieldRange) -> [u8; N] {
    let bytes = block.get(place).and_then(|bytes| bytes.first_chunk());
    bytes.copied().unwrap_or([0; N])
}

fn fill(block: &mut [u8; BLOCK], place: FieldRange, value: u8) {
    block.get_mut(place).unwrap_or_default().fill(value);
}

/// Writes as much of `text` as fits into a field; the rest of the field is empty.
pub(super) fn put(block: &mut [u8; BLOCK], place: FieldRange, text: &[u8]) {
    let field = block.get_mut(place).unwrap_or_default();
    field.fill(0);
    for (to, from) in field.iter_mut().zip(text) {
        *to = *from;
    }
}

/// The zeros behind `bytes` of content, which fill its last block.
pub(super) fn padding(bytes: u64) -> u64 {
    bytes.wrapping_neg() % BLOCK as u64
}

fn is_zero(block: &[u8; BLOCK]) -> bool {
    block.iter().all(|&byte| byte == 0)
}

/// Whether the header is of a format that has extension headers: ustar in any version, or GNU.
fn is_known(block: &mut [u8; BLOCK]) -> bool {
    let magic: [u8; 6] = field(block, MAGIC);
    let version: [u8; 2] = field(block, VERSION);
    match &magic {
        b"ustar\0" => {
            // Go looks at the magic number alone, `tar-core` at the version too.
            fill(block, VERSION, b'0');
            true
        }
        b"ustar " => version == *b" \0",
        _ => false,
    }
}

/// Whether `start` begins with a header, by its checksum: the magic `ustar` is missing in older archives.
pub fn is_tar(start: &[u8]) -> bool {
    start.first_chunk().is_some_and(|block| check_sum(block).is_ok())
}

/// Compares the sum of the bytes, signed or unsigned, with the one that stands in the header.
fn check_sum(block: &[u8; BLOCK]) -> Result<(), String> {
    let stored: [u8; 8] = field(block, SUM);
    let stored = octal(&stored).ok_or("the checksum is no number")?;
    let (mut unsigned, mut signed) = (8 * u64::from(b' '), 8 * i64::from(b' '));
    for (at, &byte) in block.iter().enumerate() {
        if !SUM.contains(&at) {
            unsigned += u64::from(byte);
            // Sun's tar summed signed bytes (Go's archive/tar, `computeChecksum`).
            signed += i64::from(byte.cast_signed());
        }
    }
    if stored == unsigned || i64::try_from(stored) == Ok(signed) {
        return Ok(());
    }
    Err(format!("the checksum is {stored:o}, expected {unsigned:o}"))
}

/// The size, octal or as a big-endian number behind a set first bit; at most 63 bits.
pub(super) fn member_size(block: &[u8; BLOCK]) -> Option<u64> {
    let bytes: [u8; 12] = field(block, SIZE);
    header_number(&bytes)
}

/// The number of an owner; 0, which is root, where there is none.
fn owner_number(block: &[u8; BLOCK], place: FieldRange) -> u32 {
    let bytes: [u8; 8] = field(block, place);
    let number = header_number(&bytes).and_then(|number| u32::try_from(number).ok());
    number.unwrap_or_default()
}

/// A number of a header: octal, or in base 256.
fn header_number(bytes: &[u8]) -> Option<u64> {
    let (first, rest) = bytes.split_first()?;
    if first & 0x80 == 0 {
        return octal(bytes).filter(|&number| i64::try_from(number).is_ok());
    }
    let high = u128::from(first & 0x7f);
    let value = rest.iter().fold(high, |value, &byte| value << 8 | u128::from(byte));
    i64::try_from(value).ok().and_then(|number| u64::try_from(number).ok())
}

/// An octal number between blanks and NULs; nothing at all is 0.
fn octal(bytes: &[u8]) -> Option<u64> {
    let pad = |byte: &u8| *byte == b' ' || *byte == 0;
    let digits = bytes.iter().skip_while(|byte| pad(byte));
    let mut value = 0_u64;
    let mut ended = false;
    for byte in digits {
        match byte {
            // A string ends at its first NUL, whatever stands behind it.
            0 => return Some(value),
            b' ' => ended = true,
            b'0'..=b'7' if !ended => value = value.checked_mul(8)? + u64::from(byte - b'0'),
            _ => return None,
        }
    }
    Some(value)
}

fn put_size(block: &mut [u8; BLOCK], size: u64) {
    fill(block, SIZE, 0);
    let low = block.get_mut(SIZE.end - 8..SIZE.end).unwrap_or_default();
    low.copy_from_slice(&size.to_be_bytes());
    fill(block, SIZE.start..SIZE.start + 1, 0x80);
}

/// Clears the fields that no fact is taken from any more.
fn blank(block: &mut [u8; BLOCK]) {
    for place in [USER, GROUP, TIME, DEVICE] {
        fill(block, place, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, HeaderScan, member_size, octal};

    fn header(kind: u8, size: &[u8; 12]) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[0] = b'f';
        block[124..136].copy_from_slice(size);
        block[156] = kind;
        block[257..265].copy_from_slice(b"ustar\x0000");
        block
    }

    fn summed(mut block: [u8; BLOCK]) -> [u8; BLOCK] {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }

    #[test]
    fn sizes_are_read_as_engines_read_them() {
        let read = |bytes: &[u8; 12]| member_size(&header(b'0', bytes));
        assert_eq!(read(b"00000001000\0"), Some(512));
        assert_eq!(read(b"\0   1000    "), Some(512));
        assert_eq!(read(&[0; 12]), Some(0));
        assert_eq!(read(b"\x80\0\0\0\0\0\0\0\0\0\x02\0"), Some(512));
        // 2^64, which a reader of 64 bits takes for 0; a negative number; a sign; no digits; two numbers.
        assert_eq!(read(b"\x80\0\0\x01\0\0\0\0\0\0\0\0"), None);
        assert_eq!(read(&[0xff; 12]), None);
        assert_eq!(read(b"+0000001000\0"), None);
        assert_eq!(read(b"0000000zzzz\0"), None);
        assert_eq!(read(b"1000 1000   "), None);
        assert_eq!(octal(b"0755\0x"), Some(0o755));
    }

    #[test]
    fn headers_arrive_in_any_pieces() {
        let mut bytes = [
            summed(header(b'L', b"00000000002\0")),
            [0; BLOCK],
            summed(header(b'0', b"00000000000\0")),
        ]
        .concat();
        for end in [0, 511, 512, 1000, 1024, 1535] {
            let mut headers = HeaderScan::default();
            headers.prepare(&mut bytes.clone()[..end]).unwrap();
            assert!(!headers.complete, "{end}");
            headers.prepare(&mut bytes.clone()).unwrap();
            assert!(headers.complete && headers.long_name, "{end}");
        }
        bytes[1024] = b'g';
        assert!(HeaderScan::default().prepare(&mut bytes).is_err(), "checksum");
    }
}
