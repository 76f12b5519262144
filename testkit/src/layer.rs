//! One layer: a deterministic tar, and its compressed blob.
#![expect(clippy::missing_panics_doc, reason = "every write goes to a Vec, which takes it")]

use std::fmt::Write as _;
use std::io::Write as _;

use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

/// How a blob is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// The plain tar.
    None,
    /// gzip without name and time.
    #[default]
    Gzip,
    /// One zstd frame.
    Zstd,
}

/// The type of a layer entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file with this content.
    File(Vec<u8>),
    /// A symbolic link to this target, unchanged.
    Symlink(Vec<u8>),
    /// A hard link to this member of the same or a lower layer.
    Hardlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// An entry of this type, without content.
    Typed(u8),
}

/// One entry of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, unchanged: without a leading `/`, as in engines' layers, unless a test needs one.
    pub name: Vec<u8>,
    /// The permission bits.
    pub mode: u32,
    /// The type.
    pub kind: Kind,
}

/// A layer under construction, with its entries in order.
#[derive(Debug, Clone, Default)]
#[must_use = "a layer is only written by `tar` or `blob`"]
pub struct Layer {
    entries: Vec<Entry>,
}

/// A stored layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The stored bytes.
    pub bytes: Vec<u8>,
    /// `sha256:` and the hexadecimal digest of the stored bytes.
    pub digest: String,
    /// Same, of the uncompressed tar.
    pub diff_id: String,
    /// The compression.
    pub compression: Compression,
}

impl Layer {
    /// A layer without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds any entry.
    pub fn entry(mut self, entry: Entry) -> Self {
        self.entries.push(entry);
        self
    }

    /// Adds a directory.
    pub fn dir(self, name: impl AsRef<[u8]>) -> Self {
        self.add(name.as_ref(), 0o755, Kind::Directory)
    }

    /// Adds a regular file, mode 644.
    pub fn file(self, name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Self {
        let kind = Kind::File(content.as_ref().to_vec());
        self.add(name.as_ref(), 0o644, kind)
    }

    /// Adds a regular file, mode 755.
    pub fn executable(self, name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Self {
        let kind = Kind::File(content.as_ref().to_vec());
        self.add(name.as_ref(), 0o755, kind)
    }

    /// Adds a symbolic link.
    pub fn symlink(self, name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        let kind = Kind::Symlink(target.as_ref().to_vec());
        self.add(name.as_ref(), 0o777, kind)
    }

    /// Adds a hard link.
    pub fn hardlink(self, name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        let kind = Kind::Hardlink(target.as_ref().to_vec());
        self.add(name.as_ref(), 0o644, kind)
    }

    /// Deletes a path of lower layers (image-spec, layer.md, "Whiteouts").
    pub fn whiteout(self, name: impl AsRef<[u8]>) -> Self {
        let (dir, base) = split(name.as_ref());
        let marker = [dir, b".wh.", base].concat();
        self.file(marker, b"")
    }

    /// Hides a directory's content in lower layers.
    pub fn opaque(self, dir: impl AsRef<[u8]>) -> Self {
        let marker = [dir.as_ref(), b"/.wh..wh..opq"].concat();
        self.file(marker, b"")
    }

    fn add(self, name: &[u8], mode: u32, kind: Kind) -> Self {
        let name = name.to_vec();
        self.entry(Entry { name, mode, kind })
    }

    /// The entries, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The uncompressed tar: time 0, owner 0, and PAX records only for long names.
    pub fn tar(&self) -> Vec<u8> {
        let mut tar = Builder::new(Vec::new());
        for entry in &self.entries {
            append(&mut tar, entry);
        }
        tar.into_inner().expect("a Vec takes every write")
    }

    /// The stored blob.
    pub fn blob(&self, compression: Compression) -> Blob {
        let tar = self.tar();
        let diff_id = sha256(&tar);
        let bytes = compress(tar, compression);
        Blob {
            digest: sha256(&bytes),
            diff_id,
            bytes,
            compression,
        }
    }
}

/// Splits a name into its directory, with the trailing `/`, and its last component.
fn split(name: &[u8]) -> (&[u8], &[u8]) {
    let cut = name.iter().rposition(|byte| *byte == b'/');
    name.split_at(cut.map_or(0, |slash| slash + 1))
}

/// The length of a tar header's name field.
const NAME_BYTES: usize = 100;

fn append(tar: &mut Builder<Vec<u8>>, entry: &Entry) {
    let (kind, content, target): (_, &[u8], &[u8]) = match &entry.kind {
        Kind::Directory => (EntryType::Directory, b"", b""),
        Kind::File(content) => (EntryType::Regular, content, b""),
        Kind::Symlink(target) => (EntryType::Symlink, b"", target),
        Kind::Hardlink(target) => (EntryType::Link, b"", target),
        Kind::Fifo => (EntryType::Fifo, b"", b""),
        Kind::Typed(flag) => (EntryType::new(*flag), b"", b""),
    };
    let mut name = entry.name.clone();
    if kind == EntryType::Directory && !name.ends_with(b"/") {
        name.push(b'/');
    }
    let long = [("path", name.as_slice()), ("linkpath", target)];
    let long = long.into_iter().filter(|(_, text)| text.len() > NAME_BYTES);
    tar.append_pax_extensions(long).expect("a Vec takes every write");
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(entry.mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(u64::try_from(content.len()).expect("sizes have at most 64 bits"));
    put(&mut header.as_old_mut().name, &name);
    put(&mut header.as_old_mut().linkname, target);
    header.set_cksum();
    tar.append(&header, content).expect("a Vec takes every write");
}

/// Writes as much of `text` as fits; a PAX record has all of it.
fn put(field: &mut [u8; NAME_BYTES], text: &[u8]) {
    for (to, from) in field.iter_mut().zip(text) {
        *to = *from;
    }
}

/// Compresses bytes. Join several results for a blob with multiple gzip members or zstd frames.
pub fn compress(bytes: Vec<u8>, compression: Compression) -> Vec<u8> {
    match compression {
        Compression::None => bytes,
        Compression::Gzip => {
            let level = flate2::Compression::new(9);
            let mut gzip = flate2::GzBuilder::new().mtime(0).write(Vec::new(), level);
            gzip.write_all(&bytes).expect("a Vec takes every write");
            gzip.finish().expect("a Vec takes every write")
        }
        Compression::Zstd => zstd::encode_all(bytes.as_slice(), 19).expect("a Vec takes every write"),
    }
}

/// `sha256:` and the hexadecimal digest of bytes.
pub fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().fold("sha256:".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
