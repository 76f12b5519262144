//! A tar stream of which the headers are held until they are whole; what members hold is not copied.

use std::io::{self, BufRead};

/// The stream of a tar, with the headers of one member.
pub(crate) struct TarInput<R> {
    reader: R,
    /// The headers under way, or those that were read last.
    pub headers: Vec<u8>,
    /// The bytes consumed, from the start of the tar.
    pub position: u64,
}

impl<R: BufRead> TarInput<R> {
    /// Nothing is read yet.
    pub(crate) fn new(reader: R) -> Self {
        Self {
            reader,
            headers: Vec::new(),
            position: 0,
        }
    }

    /// Reads until there are `bytes` of headers; false when the stream ends first.
    ///
    /// Errors: When that is more than `limit`, and what the stream gives.
    pub(crate) fn fill(&mut self, bytes: usize, limit: usize) -> Result<bool, String> {
        if bytes > limit {
            return Err(format!(
                "the header at byte {} is longer than the limit of {limit} bytes (tar-metadata)",
                self.position
            ));
        }
        let missing = bytes.saturating_sub(self.headers.len()) as u64;
        let headers = &mut self.headers;
        let left = read_from(&mut self.reader, missing, |bytes| headers.extend_from_slice(bytes))?;
        Ok(left == 0)
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
    fn read_available(&mut self, bytes: u64, take: impl FnMut(&[u8])) -> Result<u64, String> {
        let left = read_from(&mut self.reader, bytes, take)?;
        self.position += bytes - left;
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

/// Hands the next `bytes` to `take`, up to the end of the stream; returns how many were missing.
fn read_from(reader: &mut impl BufRead, bytes: u64, mut take: impl FnMut(&[u8])) -> Result<u64, String> {
    let mut left = bytes;
    while left > 0 {
        let ready = ready(reader)?;
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let ready = ready.get(..most).unwrap_or(ready);
        if ready.is_empty() {
            break;
        }
        take(ready);
        let taken = ready.len();
        reader.consume(taken);
        left -= taken as u64;
    }
    Ok(left)
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
