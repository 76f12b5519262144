//! The headers of a tar, one member after the other: the one loop over them, for layers and for archives of images.

use std::io::BufRead;
use std::ops::Range;

use super::pax;
use super::sparse_map::map_blocks;
use super::tar_header::{BLOCK, Block, KIND, TarFormat, check_sum, field, is_zero, member_size, text};
use super::tar_input::TarInput;
use super::tar_member::{MemberHeaders, TarMember};
use crate::limits::Limits;

/// What the next headers of a tar are.
pub enum TarItem {
    /// The headers of one member; its content follows.
    Member(TarMember),
    /// A global header, which changes no member, as in Go's archive/tar.
    Global,
    /// The marker behind the last member.
    End,
}

/// What bytes come to that should begin with headers.
pub enum HeaderStep {
    /// The headers go on, and this many bytes of them have to be there, from their start.
    More(usize),
    /// They are whole.
    Whole(TarItem),
}

/// Understands headers as engines do, and reads nothing itself.
pub struct HeaderParser {
    metadata: u64,
    extensions: Extensions,
}

/// The extension headers in front of the next member that have been seen, by where their contents are. Of several of a kind
/// the last one counts, as in Go's archive/tar.
#[derive(Default)]
struct Extensions {
    /// Where the header behind them begins.
    end: usize,
    long_name: Range<usize>,
    long_link: Range<usize>,
    records: Range<usize>,
    /// The bytes of their contents.
    bytes: u64,
}

impl HeaderParser {
    /// For a tar under these limits, none of whose headers was seen.
    pub fn new(limits: &Limits) -> Self {
        Self {
            metadata: limits.tar_metadata as u64,
            extensions: Extensions::default(),
        }
    }

    /// What `ahead` is: the bytes that were asked for, of which one block is where headers begin.
    ///
    /// Errors: What is wrong with the headers.
    pub fn step(&mut self, ahead: &[u8]) -> Result<HeaderStep, String> {
        loop {
            let own = self.extensions.end;
            let Some((block, after)) = self.behind_extensions(ahead).and_then(<[u8]>::split_first_chunk) else {
                return Ok(HeaderStep::More(own.saturating_add(BLOCK)));
            };
            if is_zero(block) {
                return self.end(after);
            }
            check_sum(block)?;
            let size = member_size(block).ok_or("the size is no number")?;
            match field(block, KIND) {
                b"x" | b"L" | b"K" | b"S" if TarFormat::new(block) == TarFormat::Oldest => {
                    return Err("an extension header has no magic number".to_owned());
                }
                b"S" if TarFormat::new(block) != TarFormat::Gnu => {
                    return Err("a sparse file's header is not of GNU's format".to_owned());
                }
                // Readers differ in whether its records then count for the entry under way.
                b"g" if own > 0 => return Err("a global header stands between an entry and its own headers".to_owned()),
                kind @ (b"x" | b"L" | b"K" | b"g") => {
                    let content = self.pass_extension(size)?;
                    match kind {
                        b"x" => self.extensions.records = content,
                        b"L" => self.extensions.long_name = content,
                        b"K" => self.extensions.long_link = content,
                        _ => return self.global(ahead, content),
                    }
                }
                _ => return self.member(ahead, block, after, size),
            }
        }
    }

    /// The bytes of `ahead` behind the extension headers; `None` when these are not whole. A tar may end there.
    pub fn behind_extensions<'a>(&self, ahead: &'a [u8]) -> Option<&'a [u8]> {
        ahead.get(self.extensions.end..)
    }

    /// The content of an extension header that begins where the last one ended.
    fn pass_extension(&mut self, size: u64) -> Result<Range<usize>, String> {
        let extensions = &mut self.extensions;
        extensions.bytes = extensions.bytes.saturating_add(size);
        let (bytes, limit) = (extensions.bytes, self.metadata);
        if bytes > limit {
            return Err(format!("metadata exceeds limit: {bytes} bytes > {limit} bytes"));
        }
        let start = extensions.end + BLOCK;
        let end = start.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
        extensions.end = end.div_ceil(BLOCK).saturating_mul(BLOCK);
        Ok(start..end)
    }

    fn global(&mut self, ahead: &[u8], content: Range<usize>) -> Result<HeaderStep, String> {
        let Extensions { end, .. } = std::mem::take(&mut self.extensions);
        let Some(records) = ahead.get(content).filter(|_| end <= ahead.len()) else {
            return Ok(HeaderStep::More(end));
        };
        // The records count for nothing, but damage in them does.
        pax::read_records(records)?;
        Ok(HeaderStep::Whole(TarItem::Global))
    }

    fn member(&mut self, ahead: &[u8], block: &Block, after: &[u8], size: u64) -> Result<HeaderStep, String> {
        let is_old_sparse = field(block, KIND) == b"S";
        let blocks = if is_old_sparse {
            map_blocks(block, after)
        } else {
            Some(&[][..])
        };
        let Some(map_blocks) = blocks else {
            return Ok(HeaderStep::More(ahead.len() + BLOCK));
        };
        let extensions = std::mem::take(&mut self.extensions);
        let content = |place: &Range<usize>| ahead.get(place.clone()).unwrap_or_default();
        let headers = MemberHeaders {
            long_name: text(content(&extensions.long_name)),
            long_link: text(content(&extensions.long_link)),
            records: content(&extensions.records),
            block,
            map_blocks,
        };
        let mut member = headers.read(size)?;
        (member.records, member.own) = (extensions.records, extensions.end);
        Ok(HeaderStep::Whole(TarItem::Member(member)))
    }

    /// Two blocks of zeros end a tar; one alone is an error to Go (`readHeader`).
    fn end(&self, after: &[u8]) -> Result<HeaderStep, String> {
        let end = self.extensions.end + 2 * BLOCK;
        match after.first_chunk() {
            None => Ok(HeaderStep::More(end)),
            Some(second) if is_zero(second) => Ok(HeaderStep::Whole(TarItem::End)),
            Some(_) => Err("a lone block of zeros stands where a header should".to_owned()),
        }
    }
}

/// The headers of a layer. The content of a member has to be read or skipped before the next one is asked for.
pub(super) struct TarHeaders<R> {
    /// The stream behind the headers that were read last.
    pub input: TarInput<R>,
    parser: HeaderParser,
    /// The bytes that the headers of one member may have.
    limit: usize,
}

impl<R: BufRead> TarHeaders<R> {
    /// The headers of the tar that `reader` gives.
    pub(super) fn new(reader: R, limits: &Limits) -> Self {
        Self {
            input: TarInput::new(reader),
            parser: HeaderParser::new(limits),
            // A long name, a long link target and records may each reach the limit before the header comes.
            limit: limits.tar_metadata.saturating_mul(4),
        }
    }

    /// The next member or global header.
    ///
    /// Errors: What is wrong with its headers and at which byte, or what the reader gives.
    pub(super) fn next(&mut self) -> Result<TarItem, String> {
        self.input.headers.clear();
        let mut bytes = BLOCK;
        while self.input.fill(bytes, self.limit)? {
            let at = self.input.position;
            let step = self.parser.step(&self.input.headers);
            match step.map_err(|error| format!("damaged tar header at byte {at} of the uncompressed layer: {error}"))? {
                HeaderStep::Whole(item) => {
                    self.input.position += bytes as u64;
                    return Ok(item);
                }
                HeaderStep::More(more) => bytes = more,
            }
        }
        self.end_without_marker()
    }

    /// A tar may end without its marker or in the middle of it, but not within a header.
    fn end_without_marker(&self) -> Result<TarItem, String> {
        let rest = &self.input.headers;
        match self.parser.behind_extensions(rest) {
            Some([]) => Ok(TarItem::End),
            Some(rest) if rest.len() == BLOCK && rest.iter().all(|&byte| byte == 0) => Ok(TarItem::End),
            _ => Err(format!(
                "the tar ends in the middle of a header, {} bytes after byte {}",
                rest.len(),
                self.input.position
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HeaderParser, HeaderStep, TarItem};
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
    fn headers_arrive_in_any_pieces() {
        let mut long = [0; BLOCK];
        long[..2].copy_from_slice(b"it");
        let bytes = [header(b'L', "2"), long, header(b'0', "0")].concat();
        for end in [0, 511, 512, 1000, 1024, 1535] {
            let mut parser = HeaderParser::new(&Limits::default());
            let HeaderStep::More(more) = parser.step(&bytes[..end]).unwrap() else {
                panic!("{end}");
            };
            assert_eq!(more, if end < 512 { 512 } else { 1536 }, "{end}");
            let HeaderStep::Whole(TarItem::Member(member)) = parser.step(&bytes).unwrap() else {
                panic!("{end}");
            };
            assert_eq!(member.name, b"it");
        }
    }
}
