//! Tar archives built block by block, so that tests can write invalid ones.

#![allow(dead_code, reason = "each test target uses its own part of this module")]

/// The size of a tar block.
pub const BLOCK: usize = 512;

/// One header block.
#[derive(Clone)]
pub struct Header([u8; BLOCK]);

impl Header {
    /// A ustar header; `kind` is the type flag.
    pub fn new(name: &[u8], kind: u8, size: usize) -> Self {
        Self([0; BLOCK])
            .set(0, name)
            .set(100, b"0000644\0")
            .set(108, b"0000000\0")
            .set(116, b"0000000\0")
            .set(124, format!("{size:011o}\0").as_bytes())
            .set(136, b"00000000000\0")
            .set(156, &[kind])
            .set(257, b"ustar\x0000")
    }

    /// Writes `bytes` at an offset and updates the checksum, unless they are one.
    pub fn set(mut self, at: usize, bytes: &[u8]) -> Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        if at == 148 {
            return self;
        }
        self.0[148..156].fill(b' ');
        let sum: u32 = self.0.iter().map(|&byte| u32::from(byte)).sum();
        self.0[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self
    }

    /// With a link target.
    pub fn link(self, target: &[u8]) -> Self {
        self.set(157, target)
    }

    /// With the magic number of GNU tar.
    pub fn gnu(self) -> Self {
        self.set(257, b"ustar  \0")
    }

    /// The block.
    pub fn bytes(&self) -> [u8; BLOCK] {
        self.0
    }
}

/// A tar archive under construction.
#[derive(Clone, Default)]
#[must_use = "an archive is only written by `end` or `cut`"]
pub struct Tar(Vec<u8>);

impl Tar {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a header and a content that may not match it.
    pub fn raw(mut self, header: &Header, content: &[u8]) -> Self {
        self.0.extend(header.bytes());
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
        self
    }

    /// Adds bytes without a header.
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// Adds a member with its content.
    pub fn member(self, name: &str, kind: u8, content: &[u8]) -> Self {
        let header = Header::new(name.as_bytes(), kind, content.len());
        self.raw(&header, content)
    }

    /// Adds a regular file.
    pub fn file(self, name: &str, content: &[u8]) -> Self {
        self.member(name, b'0', content)
    }

    /// Adds an extended header with these records.
    pub fn pax(self, records: &[(&str, &str)]) -> Self {
        let bytes: Vec<u8> = records
            .iter()
            .flat_map(|(key, value)| record(key.as_bytes(), value.as_bytes()))
            .collect();
        self.member("PaxHeaders/x", b'x', &bytes)
    }

    /// Adds a GNU long name (`L`) or long link target (`K`), NUL-terminated.
    pub fn long(self, kind: u8, text: &[u8]) -> Self {
        let text = [text, b"\0"].concat();
        let header = Header::new(b"././@LongLink", kind, text.len()).gnu();
        self.raw(&header, &text)
    }

    /// The archive without an end marker.
    pub fn cut(self) -> Vec<u8> {
        self.0
    }

    /// The archive with its end marker.
    pub fn end(mut self) -> Vec<u8> {
        self.0.extend([0; 2 * BLOCK]);
        self.0
    }
}

/// One PAX record: its own length, key and value.
pub fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let text = [b" ", key, b"=", value, b"\n"].concat();
    let mut length = text.len();
    while length.to_string().len() + text.len() != length {
        length = length.to_string().len() + text.len();
    }
    [length.to_string().as_bytes(), &text].concat()
}
