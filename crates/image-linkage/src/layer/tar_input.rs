//! Reads the content of members from a tar stream without copying.

use std::io::{self, BufRead};

/// The tar stream behind the last headers.
pub(crate) struct TarInput<R> {
    pub reader: R,
    /// The bytes consumed since the start of the tar.
    pub position: u64,
}

impl<R: BufRead> TarInput<R> {
    /// Starts at the beginning of a tar.
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, position: 0 }
    }

    /// Passes the next `bytes` bytes to `take` in pieces.
    ///
    /// Errors: The stream ends early or fails, as for the other methods.
    pub(crate) fn read(&mut self, bytes: u64, take: impl FnMut(&[u8])) -> Result<(), String> {
        match self.read_available(bytes, take)? {
            0 => Ok(()),
            left => Err(format!(
                "the tar ends at byte {}, {left} bytes before the end of a member",
                self.position
            )),
        }
    }

    /// Like `read`, but stops at the end of the stream. Returns the number of missing bytes.
    fn read_available(&mut self, bytes: u64, mut take: impl FnMut(&[u8])) -> Result<u64, String> {
        let mut left = bytes;
        while left > 0 {
            let ready = ready(&mut self.reader)?;
            let most = usize::try_from(left).unwrap_or(usize::MAX);
            let wanted = ready.get(..most).unwrap_or(ready);
            let taken = wanted.len();
            if taken == 0 {
                break;
            }
            take(wanted);
            self.reader.consume(taken);
            self.position += taken as u64;
            left -= taken as u64;
        }
        Ok(left)
    }

    /// Skips the padding of the last block. umoci omits it at the end of a layer, and engines accept that (Go,
    /// `archive/tar`, `Reader.next`).
    pub(crate) fn skip_padding(&mut self, bytes: u64) -> Result<(), String> {
        self.read_available(bytes, |_| ()).map(drop)
    }

    /// Skips the next `bytes` bytes.
    pub(crate) fn skip(&mut self, bytes: u64) -> Result<(), String> {
        self.read(bytes, |_| ())
    }

    /// Reads to the end of the stream: only a completely read blob can be verified.
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

/// The buffered bytes; empty at the end.
fn ready(reader: &mut impl BufRead) -> Result<&[u8], String> {
    while let Err(error) = reader.fill_buf() {
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error.to_string());
        }
    }
    // Call again because the borrow cannot leave the loop. The bytes are buffered now.
    reader.fill_buf().map_err(|error| error.to_string())
}
