//! A tar stream of which headers can be looked into before they are consumed; what members hold is not copied.

use std::io::{self, BufRead};
use std::ops::Range;

/// A buffer over the stream that can be looked into before it is consumed.
pub(crate) struct TarInput<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    /// Where the headers that were consumed last are in the buffer.
    headers: Range<usize>,
    /// The bytes consumed, from the start of the tar.
    pub position: u64,
}

impl<R: BufRead> TarInput<R> {
    /// Nothing is read yet.
    pub(crate) fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            start: 0,
            headers: 0..0,
            position: 0,
        }
    }

    /// What has been read and not consumed.
    pub(crate) fn buffered(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Leaves `bytes` of headers behind.
    pub(crate) fn consume_headers(&mut self, bytes: usize) {
        self.headers = self.start..self.start + bytes;
        self.consume(bytes);
    }

    /// The headers that were consumed last, until more are read.
    pub(crate) fn headers(&self) -> &[u8] {
        self.buffer.get(self.headers.clone()).unwrap_or_default()
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.position += bytes as u64;
    }

    /// Reads until `bytes` are buffered, and at least one more than there are; false when the stream ends first.
    ///
    /// Errors: When that is more than `limit`, and what the stream gives.
    pub(crate) fn fill(&mut self, bytes: usize, limit: usize) -> Result<bool, String> {
        // More is asked for because what is buffered was not enough, whatever number came with it.
        let bytes = bytes.max(self.buffered().len() + 1);
        if bytes > limit {
            return Err(format!(
                "the header at byte {} is longer than the limit of {limit} bytes (tar-metadata)",
                self.position
            ));
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        while self.buffer.len() < bytes {
            // At least twice as much as there was, so that a header that asks byte by byte is soon at its limit.
            let more = (bytes - self.buffer.len()).max(self.buffer.len());
            let ready = ready(&mut self.reader)?;
            let ready = ready.get(..more).unwrap_or(ready);
            if ready.is_empty() {
                return Ok(false);
            }
            self.buffer.extend_from_slice(ready);
            let taken = ready.len();
            self.reader.consume(taken);
        }
        Ok(true)
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
            let most = usize::try_from(left).unwrap_or(usize::MAX);
            let held = self.buffered();
            let taken = if held.is_empty() {
                let ready = ready(&mut self.reader)?;
                let ready = ready.get(..most).unwrap_or(ready);
                take(ready);
                let taken = ready.len();
                self.reader.consume(taken);
                self.position += taken as u64;
                taken
            } else {
                let held = held.get(..most).unwrap_or(held);
                take(held);
                let taken = held.len();
                self.consume(taken);
                taken
            };
            if taken == 0 {
                break;
            }
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
