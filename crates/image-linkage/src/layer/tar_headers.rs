//! Reads the headers of a tar, member by member. The only such loop, for layers and for image archives.

use std::io::{self, BufRead, Read};
use std::ops::Range;

use super::pax;
use super::tar_header::{BLOCK, Block, KIND, TarFormat, check_sum, field, is_zero, member_size, text};
use super::tar_input::TarInput;
use super::tar_member::{MemberHeaders, TarMember};
use crate::limits::Limits;

/// The next headers of a tar.
pub enum TarItem {
    /// The headers of one member. Its content follows.
    Member(TarMember),
    /// A global header. It changes no member, as in Go's archive/tar.
    Global,
    /// The end marker.
    End,
}

/// Why headers cannot be read.
#[derive(Debug)]
pub enum HeaderError {
    /// The reader failed.
    Read(io::Error),
    /// The tar ends in the middle of a header.
    Cut,
    /// The headers are malformed.
    Damaged(String),
}

impl From<String> for HeaderError {
    fn from(what: String) -> Self {
        Self::Damaged(what)
    }
}

impl From<&str> for HeaderError {
    fn from(what: &str) -> Self {
        Self::Damaged(what.to_owned())
    }
}

/// Reads headers as engines do.
pub struct HeaderReader {
    /// The last headers, unmodified.
    pub raw: Vec<u8>,
    /// The maximum bytes of one extension header.
    limit: usize,
}

/// The positions of a member's extension headers. The last one of a kind counts, as in Go's archive/tar.
#[derive(Default)]
struct Extensions {
    long_name: Range<usize>,
    long_link: Range<usize>,
    records: Range<usize>,
}

impl HeaderReader {
    /// A reader with these limits.
    pub fn new(limits: &Limits) -> Self {
        Self {
            raw: Vec::new(),
            limit: limits.tar_metadata,
        }
    }

    /// Reads the next headers from `reader`, and no byte behind them.
    ///
    /// Errors: Why they cannot be read. `raw` has the bytes read so far.
    pub fn next(&mut self, reader: &mut impl Read) -> Result<TarItem, HeaderError> {
        self.raw.clear();
        let mut extensions = Extensions::default();
        loop {
            let own = self.raw.len();
            // A tar may end without its end marker or inside it.
            let Some(block) = self.block(reader)? else {
                return Ok(TarItem::End);
            };
            if is_zero(&block) {
                // Two zero blocks end a tar. Go rejects a single one (`readHeader`).
                return match self.block(reader)? {
                    Some(second) if !is_zero(&second) => {
                        Err("a lone block of zeros stands where a header should".into())
                    }
                    _ => Ok(TarItem::End),
                };
            }
            check_sum(&block)?;
            let size = member_size(&block).ok_or("the size is not a number")?;
            match (field(&block, KIND), TarFormat::new(&block)) {
                (b"x" | b"L" | b"K" | b"S", TarFormat::Oldest) => {
                    return Err("an extension header has no magic number".into());
                }
                (b"S", TarFormat::Ustar) => return Err("a sparse file's header is not of GNU's format".into()),
                // Readers differ on whether its records apply to the pending entry.
                (b"g", _) if own > 0 => {
                    return Err("a global header stands between an entry and its own headers".into());
                }
                (b"g", _) => {
                    // The records are ignored, but damage in them is an error.
                    let records = self.content(reader, size)?;
                    pax::read_records(self.bytes(&records))?;
                    return Ok(TarItem::Global);
                }
                (b"x", _) => extensions.records = self.content(reader, size)?,
                (b"L", _) => extensions.long_name = self.content(reader, size)?,
                (b"K", _) => extensions.long_link = self.content(reader, size)?,
                (b"S", _) => {
                    self.map_blocks(reader)?;
                    return self.member(&block, size, own, extensions);
                }
                _ => return self.member(&block, size, own, extensions),
            }
        }
    }

    fn member(&self, block: &Block, size: u64, own: usize, extensions: Extensions) -> Result<TarItem, HeaderError> {
        let headers = MemberHeaders {
            long_name: text(self.bytes(&extensions.long_name)),
            long_link: text(self.bytes(&extensions.long_link)),
            records: self.bytes(&extensions.records),
            block,
            map_blocks: self.bytes(&(own + BLOCK..self.raw.len())),
        };
        let mut member = headers.read(size)?;
        (member.records, member.own) = (extensions.records, own);
        Ok(TarItem::Member(member))
    }

    fn bytes(&self, place: &Range<usize>) -> &[u8] {
        self.raw.get(place.clone()).unwrap_or_default()
    }

    /// The next block; `None` at the end of the tar.
    fn block(&mut self, reader: &mut impl Read) -> Result<Option<Block>, HeaderError> {
        let start = self.raw.len();
        match self.fill(reader, BLOCK) {
            Err(HeaderError::Cut) if self.raw.len() == start => Ok(None),
            filled => filled.map(|()| self.raw.last_chunk().copied()),
        }
    }

    /// Reads the content of an extension header up to its last block. Returns its range.
    fn content(&mut self, reader: &mut impl Read, size: u64) -> Result<Range<usize>, HeaderError> {
        let limit = self.limit;
        let size = usize::try_from(size)
            .ok()
            .filter(|&size| size <= limit)
            .ok_or_else(|| format!("its metadata exceeds limit of {limit} bytes (tar-metadata)"))?;
        let start = self.raw.len();
        self.fill(reader, size.next_multiple_of(BLOCK))?;
        Ok(start..start + size)
    }

    /// Reads the extension blocks of a map in GNU's old format.
    fn map_blocks(&mut self, reader: &mut impl Read) -> Result<(), HeaderError> {
        // The continuation flag has different offsets in the header and in extension blocks.
        let mut from_end = BLOCK - 482;
        while self.raw.get(self.raw.len() - from_end) != Some(&0) {
            self.fill(reader, BLOCK)?;
            from_end = BLOCK - 504;
        }
        Ok(())
    }

    fn fill(&mut self, reader: &mut impl Read, bytes: usize) -> Result<(), HeaderError> {
        // A long name, a long link target and PAX records may each reach the limit before the header itself.
        let limit = self.limit.saturating_mul(4);
        if self.raw.len() + bytes > limit {
            return Err(format!("it is longer than the limit of {limit} bytes (tar-metadata)").into());
        }
        let missing = bytes as u64;
        match reader.take(missing).read_to_end(&mut self.raw) {
            Ok(read) if read == bytes => Ok(()),
            Ok(_) => Err(HeaderError::Cut),
            Err(error) => Err(HeaderError::Read(error)),
        }
    }
}

/// The headers of a layer. The caller must consume a member's content before the next call.
pub(super) struct TarHeaders<R> {
    /// The stream behind the last headers.
    pub input: TarInput<R>,
    reader: HeaderReader,
}

impl<R: BufRead> TarHeaders<R> {
    /// The headers of the tar from `reader`.
    pub(super) fn new(reader: R, limits: &Limits) -> Self {
        Self {
            input: TarInput::new(reader),
            reader: HeaderReader::new(limits),
        }
    }

    /// The next member or global header.
    ///
    /// Errors: The damage and its byte offset, or an error of the reader.
    pub(super) fn next(&mut self) -> Result<TarItem, String> {
        let at = self.input.position;
        let item = self.reader.next(&mut self.input.reader);
        let bytes = self.raw().len();
        self.input.position += bytes as u64;
        item.map_err(|error| match error {
            HeaderError::Read(error) => error.to_string(),
            HeaderError::Cut => format!("the tar ends in the middle of a header, {bytes} bytes after byte {at}"),
            HeaderError::Damaged(what) => {
                format!("damaged tar header at byte {at} of the uncompressed layer: {what}")
            }
        })
    }

    /// The last headers, unmodified.
    pub(super) fn raw(&self) -> &[u8] {
        &self.reader.raw
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Chain, Read};

    use super::{HeaderReader, TarItem};
    use crate::layer::tar_header::{BLOCK, KIND, MAGIC, NAME, SIZE, SUM, put};
    use crate::limits::Limits;

    fn header(kind: u8, size: &str) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        for (place, text) in [(NAME, "f"), (SIZE, size), (MAGIC, "ustar"), (SUM, "        ")] {
            put(&mut block, place, text.as_bytes());
        }
        put(&mut block, KIND, &[kind]);
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        put(&mut block, SUM, format!("{sum:06o}").as_bytes());
        block
    }

    #[test]
    fn headers_may_arrive_in_pieces_and_content_is_not_consumed() {
        let mut long = [0; BLOCK];
        long[..2].copy_from_slice(b"it");
        let bytes = [&header(b'L', "2")[..], &long, &header(b'0', "7"), b"content"].concat();
        for end in [0, 511, 512, 1000, 1024, 1535] {
            let (one, other) = bytes.split_at(end);
            let mut reader: Chain<&[u8], &[u8]> = one.chain(other);
            let mut headers = HeaderReader::new(&Limits::default());
            let Ok(TarItem::Member(member)) = headers.next(&mut reader) else {
                panic!("{end}");
            };
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest).unwrap();
            assert_eq!((&*member.name, member.stored, &*rest), (&b"it"[..], 7, &b"content"[..]));
        }
    }
}
