//! Little-endian numbers in binary files.

/// The `N`-byte number at offset `at`, or `None` past the end of `bytes`.
pub(crate) fn number_at<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(N)?)?;
    let mut number = [0; 8];
    number.get_mut(..N)?.copy_from_slice(field);
    Some(u64::from_le_bytes(number))
}

/// Same, as an offset or a count in memory.
pub(crate) fn size_at<const N: usize>(bytes: &[u8], at: usize) -> Option<usize> {
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
