//! The content of members from a tar stream, which is not copied.

use std::io::{self, BufRead};

/// The stream of a tar behind the headers that were read last.
pub(crate) struct TarInput<R> {
    pub reader: R,
    /// The bytes consumed, from the start of the tar.
    pub position: u64,
}

impl<R: BufRead> TarInput<R> {
    /// Nothing is read yet.
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, position: 0 }
    }

    /// Hands the next `bytes` to `take`, piece by piece.
    ///
    /// Errors: When the stream ends before, and what it gives; so too for the next two.
    pub(crate) fn read(&mut self, bytes: u64, take: impl FnMut(&[u8])) -> Result<(), String> {
        match self.read_available(bytes, take)? {
            0 => Ok(()),
            left => Err(format!(
                "the tar ends at byte {}, {left} bytes before the end of a member",
                self.position
            )),
        }
    }

    /// The same, up to the end of the stream; returns how many bytes were missing.
    fn read_available(&mut self, bytes: u64, mut take: impl FnMut(&[u8])) -> Result<u64, String> {
        let mut left = bytes;
        while left > 0 {
            let ready = ready(&mut self.reader)?;
            let most = usize::try_from(left).unwrap_or(usize::MAX);
            let ready = ready.get(..most).unwrap_or(ready);
            let taken = ready.len();
            if taken == 0 {
                break;
            }
            take(ready);
            self.reader.consume(taken);
            self.position += taken as u64;
            left -= taken as u64;
        }
        Ok(left)
    }

    /// Passes over what fills a block behind a content. umoci writes layers that end there, and engines take a tar
    /// without its last padding (Go, `archive/tar`, `Reader.next`).
    pub(crate) fn skip_padding(&mut self, bytes: u64) -> Result<(), String> {
        self.read_available(bytes, |_| ()).map(drop)
    }

    /// Passes over the next `bytes`.
    pub(crate) fn skip(&mut self, bytes: u64) -> Result<(), String> {
        self.read(bytes, |_| ())
    }

    /// Reads to the end of the stream: only a blob that was read whole can be verified.
    pub(crate) fn drain(&mut self) -> Result<(), String> {
        loop {
            let surplus = ready(&mut self.reader)?.len();
            if surplus == 0 {
                return Ok(());
            }
            self.reader.consume(surplus);
        }
    }
}

/// What the reader has ready; nothing at its end.
fn ready(reader: &mut impl BufRead) -> Result<&[u8], String> {
    while let Err(error) = reader.fill_buf() {
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error.to_string());
        }
    }
    // Asked again, because a borrow cannot leave the loop; by now the bytes are there.
    reader.fill_buf().map_err(|error| error.to_string())
}
