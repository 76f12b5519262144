//! The one seam to the decompressors: a blob's bytes in, the tar's bytes out.
//!
//! The compression is recognised by the first bytes; media types and file names are not believed.

use std::io::{self, BufRead, Read};

// In pure Rust, or by a library in C and assembly that is faster where its code is wanted: docs/speed.md has both.
#[cfg(not(feature = "isal"))]
use flate2::bufread::GzDecoder as MemberReader;
#[cfg(feature = "isal")]
use isal_inflate::MemberReader;

/// How a blob is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// The tar as it is.
    None,
    /// gzip, of one or more members (RFC 1952).
    Gzip,
    /// zstd, of one or more frames (RFC 8878).
    Zstd,
}

impl Compression {
    /// The compression that `start`, the first bytes of a blob, shows.
    pub fn of(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, or a skippable frame before it (RFC 8878, sections 3.1.1 and 3.1.2).
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// Decompresses a blob whose compression is recognised on the first read.
pub struct DecompressedReader<R: BufRead>(ReaderState<R>);

#[expect(clippy::large_enum_variant, reason = "there is one of it for each layer")]
enum ReaderState<R: BufRead> {
    /// Nothing has been read.
    Unknown(Option<R>),
    /// The tar as it is, passed through.
    Plain(R),
    /// All members of a gzip file.
    Gzip(GzipMembers<R>),
    /// All frames of a zstd file.
    Zstd(Box<zstd::Decoder<'static, R>>),
}

impl<R: BufRead> DecompressedReader<R> {
    /// Decompresses the blob that `inner` gives.
    pub fn new(inner: R) -> Self {
        Self(ReaderState::Unknown(Some(inner)))
    }

    /// The reader of the stored bytes, where it stands.
    pub(crate) fn into_inner(self) -> Option<R> {
        match self.0 {
            ReaderState::Unknown(inner) => inner,
            ReaderState::Plain(inner) => Some(inner),
            ReaderState::Gzip(members) => members.member.map(MemberReader::into_inner),
            ReaderState::Zstd(decoder) => Some(decoder.finish()),
        }
    }
}

impl<R: BufRead> Read for DecompressedReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match &mut self.0 {
                ReaderState::Plain(inner) => return inner.read(buf),
                ReaderState::Gzip(members) => return members.read(buf),
                ReaderState::Zstd(decoder) => return decoder.read(buf),
                ReaderState::Unknown(inner) => {
                    let Some(mut inner) = inner.take() else {
                        return Ok(0);
                    };
                    self.0 = match Compression::of(inner.fill_buf()?) {
                        Compression::None => ReaderState::Plain(inner),
                        Compression::Gzip => ReaderState::Gzip(GzipMembers {
                            member: Some(MemberReader::new(inner)),
                        }),
                        // Goes on from frame to frame, of which zstd:chunked has one for each file. libzstd bounds
                        // the window to 128 MiB.
                        Compression::Zstd => ReaderState::Zstd(Box::new(zstd::Decoder::with_buffer(inner)?)),
                    };
                }
            }
        }
    }
}

/// The members of a gzip file, one after the other. Zero bytes after a member are padding, as gzip(1) has it.
struct GzipMembers<R: BufRead> {
    member: Option<MemberReader<R>>,
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(member) = &mut self.member else {
                return Ok(0);
            };
            let n = member.read(buf)?;
            if n > 0 || buf.is_empty() {
                return Ok(n);
            }
            // `MultiGzDecoder` would take the zeros for a broken header.
            if !at_next_member(member.get_mut())? {
                return Ok(0);
            }
            self.member = self.member.take().map(|member| MemberReader::new(member.into_inner()));
        }
    }
}

/// Skips padding and says whether another member follows.
fn at_next_member(inner: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = inner.fill_buf()?;
        let padding = bytes.iter().take_while(|&&byte| byte == 0).count();
        match bytes.get(padding) {
            Some(0x1f) => {
                inner.consume(padding);
                return Ok(true);
            }
            Some(_) => {
                // gzip(1) only warns of such bytes; Go's reader, which most engines use, fails on them.
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "bytes that are no gzip member follow the last one",
                ));
            }
            None if bytes.is_empty() => return Ok(false),
            None => inner.consume(padding),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::DecompressedReader;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn check(blob: &[u8], expected: Result<&[u8], &str>) {
        let mut out = Vec::new();
        let result = DecompressedReader::new(blob).read_to_end(&mut out);
        match (result, expected) {
            (Ok(_), Ok(expected)) => assert_eq!(out, expected),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (result, _) => panic!("{result:?} {out:?}"),
        }
    }

    #[test]
    fn members_frames_and_padding_are_one_stream() {
        check(b"plain", Ok(b"plain"));
        check(b"", Ok(b""));
        check(&[gzip(b"one "), gzip(b""), gzip(b"two")].concat(), Ok(b"one two"));
        check(&[gzip(b"one"), vec![0; 70_000]].concat(), Ok(b"one"));
        let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 3).unwrap();
        let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3].to_vec();
        check(
            &[skippable.clone(), zstd(b"one "), skippable, zstd(b"two")].concat(),
            Ok(b"one two"),
        );
    }

    #[test]
    fn damage_is_an_error() {
        check(&[gzip(b"one"), b"garbage".to_vec()].concat(), Err("no gzip member"));
        let whole = gzip(&[7; 5000]);
        check(&whole[..whole.len() - 9], Err(""));
        let frame = zstd::encode_all([7_u8; 5000].as_slice(), 3).unwrap();
        check(&frame[..frame.len() - 3], Err("incomplete"));
    }
}
