//! An object's file: checked reads, and the reasons that it stays as it is.

use std::io;

use crate::read_at::ReadAt;

/// Why an object stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum Obstacle {
    /// It has no section `.nv_fatbin`.
    #[error("it has no GPU code")]
    NoCode,
    /// All its code is for the GPU, or the rest is less than a page.
    #[error("nothing to save")]
    NoSaving,
    /// Something that is unknown, damaged or unexpected.
    #[error("{0}")]
    Unexpected(&'static str),
    /// It could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The result of a step.
pub(crate) type Checked<T> = Result<T, Obstacle>;

/// Fails with `what` unless `is_fine`.
pub(crate) fn require(is_fine: bool, what: &'static str) -> Checked<()> {
    if is_fine {
        Ok(())
    } else {
        Err(Obstacle::Unexpected(what))
    }
}

/// The bytes of an object.
pub(crate) struct ObjectFile<'a, R: ?Sized> {
    source: &'a R,
    pub bytes: u64,
}

/// The bytes compared or scanned at a time.
pub(crate) const PIECE: u64 = 256 << 10;

impl<'a, R: ReadAt + ?Sized> ObjectFile<'a, R> {
    pub(crate) fn new(source: &'a R) -> Checked<Self> {
        let bytes = source.total_bytes()?;
        Ok(Self { source, bytes })
    }

    /// `N` bytes at `offset`.
    pub(crate) fn array<const N: usize>(&self, offset: u64) -> Checked<[u8; N]> {
        let mut buffer = [0; N];
        self.source.read_exact_at(&mut buffer, offset)?;
        Ok(buffer)
    }

    /// Some bytes at `offset`; the caller bounds their number.
    pub(crate) fn vec(&self, offset: u64, bytes: u64) -> Checked<Vec<u8>> {
        require(self.holds(offset, bytes), "a table ends behind the file")?;
        let mut buffer = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        self.source.read_exact_at(&mut buffer, offset)?;
        Ok(buffer)
    }

    /// Whether the file has these bytes.
    pub(crate) fn holds(&self, offset: u64, bytes: u64) -> bool {
        offset.checked_add(bytes).is_some_and(|end| end <= self.bytes)
    }

    /// Passes the rows of a table to `take`, each with its offset. An incomplete last row is left out.
    pub(crate) fn rows<const N: usize>(
        &self,
        offset: u64,
        bytes: u64,
        mut take: impl FnMut(u64, &[u8; N]) -> Checked<()>,
    ) -> Checked<()> {
        let step = PIECE / N as u64 * N as u64;
        let end = offset.saturating_add(bytes / N as u64 * N as u64);
        let mut at = offset;
        while at < end {
            let piece = self.vec(at, step.min(end - at))?;
            for row in piece.as_chunks::<N>().0 {
                take(at, row)?;
                at += N as u64;
            }
        }
        Ok(())
    }
}

/// The little-endian number at `at` in a record; 0 behind its end.
pub(crate) fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(field(record, at))
}

/// Same with four bytes.
pub(crate) fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(field(record, at))
}

/// Same with eight bytes.
pub(crate) fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(field(record, at))
}

fn field<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    let rest = record.get(at..).and_then(<[u8]>::first_chunk);
    rest.copied().unwrap_or([0; N])
}
