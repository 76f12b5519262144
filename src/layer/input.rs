//! A tar stream with a buffer that can be looked into before it is consumed.

use std::io::{self, Read};

/// The bytes asked for at a time.
const CHUNK: usize = 256 << 10;

/// A buffer over the stream that can be looked into before it is consumed.
pub struct Input<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    /// The bytes consumed.
    pub position: u64,
}

impl<R: Read> Input<R> {
    /// Nothing is read yet.
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: Vec::with_capacity(CHUNK),
            start: 0,
            position: 0,
        }
    }

    /// What has been read and not consumed.
    pub fn buffered(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// The same, to be made plain in place.
    pub fn buffered_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.start..).unwrap_or_default()
    }

    /// Leaves `bytes` of the buffer behind.
    pub fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.position += bytes as u64;
    }

    /// Reads until `bytes` are buffered, and at least one more than there are; false when the stream ends first.
    ///
    /// # Errors
    /// When that is more than `limit`, and what the stream gives.
    pub fn fill(&mut self, bytes: usize, limit: usize) -> Result<bool, String> {
        // More is asked for because what is buffered was not enough, whatever number came with it.
        let bytes = bytes.max(self.buffered().len() + 1);
        if bytes > limit {
            return Err(format!(
                "the header at byte {} is longer than the limit of {limit} bytes",
                self.position
            ));
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        while self.buffer.len() < bytes {
            if self.read_more()? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read_more(&mut self) -> Result<usize, String> {
        let held = self.buffer.len();
        self.buffer.resize(held + CHUNK, 0);
        let space = self.buffer.get_mut(held..).unwrap_or_default();
        let n = loop {
            match self.reader.read(space) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.buffer
            .truncate(held + n.as_ref().copied().unwrap_or(0));
        n.map_err(|error| error.to_string())
    }

    /// Hands the next `bytes` to `take`, piece by piece.
    ///
    /// # Errors
    /// When the stream ends before, and what it gives; so too for the next two.
    pub fn read(&mut self, bytes: u64, mut take: impl FnMut(&[u8])) -> Result<(), String> {
        let mut left = bytes;
        while left > 0 {
            if self.buffered().is_empty() {
                self.buffer.clear();
                self.start = 0;
                if self.read_more()? == 0 {
                    return Err(format!(
                        "the tar ends at byte {}, {left} bytes before the end of a member",
                        self.position
                    ));
                }
            }
            let n = self
                .buffered()
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            take(self.buffered().get(..n).unwrap_or_default());
            self.consume(n);
            left -= n as u64;
        }
        Ok(())
    }

    /// Passes over the next `bytes`.
    pub fn skip(&mut self, bytes: u64) -> Result<(), String> {
        self.read(bytes, |_| ())
    }

    /// Reads to the end of the stream: only a blob that was read whole can be verified.
    pub fn drain(&mut self) -> Result<(), String> {
        loop {
            self.buffer.clear();
            self.start = 0;
            if self.read_more()? == 0 {
                return Ok(());
            }
        }
    }
}
