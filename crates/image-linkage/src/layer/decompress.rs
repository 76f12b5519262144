//! The only interface to the decompressors: from the bytes of a blob to the bytes of its tar.
//!
//! The compression is detected from the first bytes. Media types and file names are ignored.

use std::io::{self, BufRead, Read};

// Pure Rust by default. The faster C and assembly library is optional; docs/speed.md compares both.
#[cfg(not(feature = "isal"))]
use flate2::bufread::GzDecoder as MemberReader;
#[cfg(feature = "isal")]
use isal_inflate::MemberReader;

/// The compression of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// An uncompressed tar.
    None,
    /// gzip, of one or more members (RFC 1952).
    Gzip,
    /// zstd, of one or more frames (RFC 8878).
    Zstd,
}

impl Compression {
    /// Detects the compression from the first bytes of a blob.
    pub fn of(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, optionally preceded by a skippable frame (RFC 8878, sections 3.1.1 and 3.1.2).
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// Decompresses a blob. Detects the compression at the first read.
pub struct DecompressedReader<R: BufRead>(ReaderState<R>);

#[expect(clippy::large_enum_variant, reason = "there is one of it for each layer")]
enum ReaderState<R: BufRead> {
    /// Nothing has been read.
    Unknown(Option<R>),
    /// An uncompressed tar.
    Plain(R),
    /// All members of a gzip file.
    Gzip(GzipMembers<R>),
    /// All frames of a zstd file.
    Zstd(Box<zstd::Decoder<'static, R>>),
}

impl<R: BufRead> DecompressedReader<R> {
    /// Decompresses the bytes of `inner`.
    pub fn new(inner: R) -> Self {
        Self(ReaderState::Unknown(Some(inner)))
    }

    /// The underlying reader, at its current position.
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
                ReaderState::Zstd(decoder) => return decoder.read(buf).map_err(|error| zstd_failure(&error)),
                ReaderState::Unknown(inner) => {
                    let Some(mut inner) = inner.take() else {
                        return Ok(0);
                    };
                    let start = inner.fill_buf()?;
                    if let Some(name) = foreign_compression(start) {
                        return Err(damaged(format!(
                            "it is compressed with {name}, which image layers do not support"
                        )));
                    }
                    self.0 = match Compression::of(start) {
                        Compression::None => ReaderState::Plain(inner),
                        Compression::Gzip => {
                            let member = Some(open_member(inner)?);
                            ReaderState::Gzip(GzipMembers { member })
                        }
                        // Continues across frames; zstd:chunked has one for each file. libzstd limits the window to 128
                        // MiB.
                        Compression::Zstd => ReaderState::Zstd(Box::new(zstd::Decoder::with_buffer(inner)?)),
                    };
                }
            }
        }
    }
}

/// The members of a gzip file, in order.
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
            if !at_next_member(member.get_mut())? {
                return Ok(0);
            }
            if let Some(member) = self.member.take() {
                self.member = Some(open_member(member.into_inner())?);
            }
        }
    }
}

/// Whether another gzip member follows.
fn at_next_member(inner: &mut impl BufRead) -> io::Result<bool> {
    match inner.fill_buf()? {
        [] => Ok(false),
        [0x1f, ..] => Ok(true),
        // gzip(1) warns about trailing bytes and ignores zeros. Go's reader, used by most engines, fails on both.
        _ => Err(damaged("trailing bytes after the last gzip member")),
    }
}

/// Opens the gzip member at the current position.
///
/// Errors: Its file name or comment is longer than Go's reader allows (compress/gzip, `readString`).
fn open_member<R: BufRead>(inner: R) -> io::Result<MemberReader<R>> {
    let member = MemberReader::new(inner);
    let header = member.header();
    let names = header
        .into_iter()
        .flat_map(|header| [header.filename(), header.comment()]);
    if names.flatten().any(|name| name.len() > NAME) {
        return Err(damaged(format!("the name in a gzip member has more than {NAME} bytes")));
    }
    Ok(member)
}

/// The maximum bytes of a name in a gzip header.
const NAME: usize = 511;

fn damaged(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// Adds context to libzstd's error messages.
fn zstd_failure(error: &io::Error) -> io::Error {
    let words = error.to_string();
    damaged(match words.as_str() {
        "Frame requires too much memory for decoding" => {
            "a zstd frame needs a window over the limit of 128 MiB".to_owned()
        }
        "Unknown frame descriptor" => "trailing bytes after the last zstd frame".to_owned(),
        _ => format!("damaged zstd frame: {words}"),
    })
}

/// The name of a compression that some tools write but engines need not support.
fn foreign_compression(start: &[u8]) -> Option<&'static str> {
    match start {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some("xz"),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => Some("bzip2"),
        _ => None,
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
    fn members_and_frames_are_concatenated() {
        check(b"plain", Ok(b"plain"));
        check(b"", Ok(b""));
        check(&[gzip(b"one "), gzip(b""), gzip(b"two")].concat(), Ok(b"one two"));
        let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 3).unwrap();
        let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3].to_vec();
        check(
            &[skippable.clone(), zstd(b"one "), skippable, zstd(b"two")].concat(),
            Ok(b"one two"),
        );
    }

    #[test]
    fn damage_is_an_error() {
        check(
            &[gzip(b"one"), b"garbage".to_vec()].concat(),
            Err("after the last gzip member"),
        );
        // All five tested engines and tools fail on zeros, too.
        check(
            &[gzip(b"one"), vec![0; 70_000]].concat(),
            Err("after the last gzip member"),
        );
        check(
            &[gzip(b"one"), vec![0; 9], gzip(b"two")].concat(),
            Err("after the last gzip member"),
        );
        let whole = gzip(&[7; 5000]);
        check(&whole[..whole.len() - 9], Err(""));
        let frame = zstd::encode_all([7_u8; 5000].as_slice(), 3).unwrap();
        check(&frame[..frame.len() - 3], Err("damaged zstd frame: incomplete frame"));
        check(&[frame.clone(), vec![0; 9]].concat(), Err("after the last zstd frame"));
        check(b"\xfd7zXZ\0....", Err("compressed with xz"));
        check(b"BZh91AY&SY....", Err("compressed with bzip2"));
        check(b"BZhome/x", Ok(b"BZhome/x"));
    }

    #[test]
    fn a_window_over_the_limit_is_reported() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(28).unwrap();
        encoder.write_all(&vec![7; 1 << 20]).unwrap();
        check(&encoder.finish().unwrap(), Err("a window over the limit of 128 MiB"));
    }

    #[test]
    fn gzip_names_have_the_length_limit_of_engines() {
        let named = |extra: usize, name: usize, comment: usize| {
            let builder = flate2::GzBuilder::new()
                .extra(vec![7; extra])
                .filename(vec![b'n'; name]);
            let mut encoder = builder
                .comment(vec![b'c'; comment])
                .write(Vec::new(), flate2::Compression::fast());
            encoder.write_all(b"one").unwrap();
            encoder.finish().unwrap()
        };
        for (name, comment) in [(511, 0), (1, 511), (511, 511)] {
            check(&named(700, name, comment), Ok(b"one"));
            check(&[named(0, 3, 3), named(0, name, comment)].concat(), Ok(b"oneone"));
        }
        for (name, comment) in [(512, 0), (1, 512), (60_000, 3)] {
            check(&named(700, name, comment), Err("more than 511 bytes"));
            check(
                &[named(0, 3, 3), named(0, name, comment)].concat(),
                Err("more than 511 bytes"),
            );
            // The result does not depend on how many header bytes arrive at once.
            let member = named(700, name, comment);
            let mut out = Vec::new();
            let reader = std::io::BufReader::with_capacity(100, member.as_slice());
            let failed = DecompressedReader::new(reader).read_to_end(&mut out).unwrap_err();
            assert!(failed.to_string().contains("more than 511 bytes"), "{failed}");
        }
    }
}
