//! The fields of one header block (POSIX.1-2017, pax, "ustar Interchange Format"; GNU tar, "Basic Tar Format").
//!
//! If readers differ, Go's archive/tar is authoritative, because engines use it.

/// The size of a tar block.
pub(super) const BLOCK: usize = 512;
pub(super) type Block = [u8; BLOCK];

/// The byte range of a header field.
pub(super) type FieldRange = std::ops::Range<usize>;
pub(super) const NAME: FieldRange = 0..100;
pub(super) const MODE: FieldRange = 100..108;
pub(super) const USER: FieldRange = 108..116;
pub(super) const GROUP: FieldRange = 116..124;
pub(super) const SIZE: FieldRange = 124..136;
const TIME: FieldRange = 136..148;
pub(super) const SUM: FieldRange = 148..156;
pub(super) const KIND: FieldRange = 156..157;
pub(super) const LINK: FieldRange = 157..257;
pub(super) const MAGIC: FieldRange = 257..263;
pub(super) const VERSION: FieldRange = 263..265;
/// The part of a name in front of the name field.
pub(super) const PREFIX: FieldRange = 345..500;
/// The size of a sparse file in GNU's format.
pub(super) const REAL_SIZE: FieldRange = 483..495;

pub(super) fn field(block: &Block, place: FieldRange) -> &[u8] {
    block.get(place).unwrap_or_default()
}

/// The text of a field or of a GNU long name, up to its first NUL.
pub(super) fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// The number in a field: octal, or big-endian if the first bit is set; at most 63 bits.
pub(super) fn header_number(bytes: &[u8]) -> Option<u64> {
    let (first, rest) = bytes.split_first()?;
    if first & 0x80 == 0 {
        return octal(bytes).filter(|&number| i64::try_from(number).is_ok());
    }
    let high = u128::from(first & 0x7f);
    let value = rest.iter().fold(high, |value, &byte| value << 8 | u128::from(byte));
    i64::try_from(value).ok().and_then(|number| u64::try_from(number).ok())
}

/// The sum of all bytes outside the field of the checksum.
fn sum_others(block: &Block, count: impl Fn(u8) -> u8) -> u64 {
    let fields = [block.as_slice(), field(block, SUM)];
    let [whole, own] = fields.map(|bytes| bytes.iter().map(|&byte| u64::from(count(byte))).sum::<u64>());
    whole - own
}

/// The size of a member's content.
pub(super) fn member_size(block: &Block) -> Option<u64> {
    header_number(field(block, SIZE))
}

/// An octal number surrounded by blanks and NULs. An empty field is 0.
fn octal(bytes: &[u8]) -> Option<u64> {
    let digits = bytes.iter().skip_while(|byte| matches!(byte, b' ' | 0));
    let mut value = 0_u64;
    let mut ended = false;
    for byte in digits {
        match byte {
            // The first NUL ends the string.
            0 => return Some(value),
            b' ' => ended = true,
            b'0'..=b'7' if !ended => value = value.checked_mul(8)? + u64::from(byte - b'0'),
            _ => return None,
        }
    }
    Some(value)
}

/// The header format, by its magic number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TarFormat {
    /// No magic number, and no extension headers.
    Oldest,
    /// POSIX: ustar in any version. Go checks only the magic number.
    Ustar,
    Gnu,
}

impl TarFormat {
    pub(super) fn new(block: &Block) -> Self {
        match (field(block, MAGIC), field(block, VERSION)) {
            (b"ustar\0", _) => Self::Ustar,
            (b"ustar ", b" \0") => Self::Gnu,
            _ => Self::Oldest,
        }
    }
}

/// The name in a header, including its prefix.
pub(super) fn name(block: &Block) -> Vec<u8> {
    let name = text(field(block, NAME));
    // star has a shorter prefix followed by times.
    let end = if block.ends_with(b"tar\0") { 476 } else { PREFIX.end };
    let prefix = text(field(block, PREFIX.start..end));
    let counts = match TarFormat::new(block) {
        TarFormat::Oldest => false,
        TarFormat::Ustar => !prefix.is_empty(),
        // Go before 1.8 wrote a prefix where GNU has times, and every later Go still checks for it (`readHeader`).
        TarFormat::Gnu => {
            let times = [345..357, 357..369];
            !prefix.is_empty() && prefix.is_ascii() && times.into_iter().any(|time| is_text(field(block, time)))
        }
    };
    if counts {
        [prefix, b"/", name].concat()
    } else {
        name.to_vec()
    }
}

/// Whether engines reject the header because of a malformed number (Go's archive/tar, `readHeader`).
pub(super) fn has_odd_number(block: &Block) -> bool {
    let has_devices = TarFormat::new(block) != TarFormat::Oldest;
    let devices: &[FieldRange] = if has_devices { &[329..337, 337..345] } else { &[] };
    let mut numbers = [MODE, USER, GROUP, TIME].into_iter().chain(devices.iter().cloned());
    numbers.any(|number| is_text(field(block, number)))
}

/// Whether a numeric field contains text.
fn is_text(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| (1..0x80).contains(first)) && octal(bytes).is_none()
}

/// Whether `start` begins with a valid header checksum. Old archives lack the magic number `ustar`.
pub fn is_tar(start: &[u8]) -> bool {
    start.first_chunk().is_some_and(|block| check_sum(block).is_ok())
}

/// Compares the header's checksum, signed or unsigned, with its bytes.
pub(super) fn check_sum(block: &Block) -> Result<(), String> {
    let stored = octal(field(block, SUM)).ok_or("the checksum is not a number")?;
    // The checksum is computed with blanks in its own field.
    let unsigned = sum_others(block, |byte| byte) + 8 * u64::from(b' ');
    // Sun's tar summed signed bytes (Go's archive/tar, `computeChecksum`).
    if stored == unsigned || stored.checked_add(256 * sum_others(block, |byte| byte >> 7)) == Some(unsigned) {
        return Ok(());
    }
    Err(format!("the checksum is {stored:o}, expected {unsigned:o}"))
}

pub(super) fn is_zero(block: &Block) -> bool {
    block.iter().all(|&byte| byte == 0)
}

/// Writes as much of `text` as fits into a field and clears the rest.
pub(super) fn put(block: &mut Block, place: FieldRange, text: &[u8]) {
    let field = block.get_mut(place).unwrap_or_default();
    field.fill(0);
    for (to, from) in field.iter_mut().zip(text) {
        *to = *from;
    }
}

/// The padding that fills the last block behind `bytes` of content.
pub(super) fn padding(bytes: u64) -> u64 {
    bytes.wrapping_neg() % BLOCK as u64
}

#[cfg(test)]
mod tests {
    use super::{header_number, octal};

    #[test]
    fn numbers_are_parsed_like_engines_do() {
        assert_eq!(header_number(b"00000001000\0"), Some(512));
        assert_eq!(header_number(b"\0   1000    "), Some(512));
        assert_eq!(header_number(&[0; 12]), Some(0));
        assert_eq!(header_number(b"\x80\0\0\0\0\0\0\0\0\0\x02\0"), Some(512));
        // 2^64, which overflows 64 bits; a negative number; a sign; no digits; two numbers.
        assert_eq!(header_number(b"\x80\0\0\x01\0\0\0\0\0\0\0\0"), None);
        assert_eq!(header_number(&[0xff; 12]), None);
        assert_eq!(header_number(b"+0000001000\0"), None);
        assert_eq!(header_number(b"0000000zzzz\0"), None);
        assert_eq!(header_number(b"1000 1000   "), None);
        assert_eq!(octal(b"0755\0x"), Some(0o755));
    }
}
