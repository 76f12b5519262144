//! Writes the tar of a layer: owner 0, time 0, and PAX records only for names that do not fit.
//!
//! The caller provides the members in order.

use std::io::{self, Read, Write};

use tar::{Builder, EntryType, Header};

use super::tar_header::{BLOCK, LINK, NAME, padding, put};
use crate::path::RootPath;

/// A tar writer for layers.
pub struct LayerWriter<W: Write> {
    tar: Builder<W>,
}

/// The header fields of a member, except its path.
#[derive(Debug, Clone, Copy)]
struct MemberHeader<'a> {
    kind: EntryType,
    mode: u32,
    target: &'a [u8],
    bytes: u64,
}

impl<W: Write> LayerWriter<W> {
    /// Starts an empty tar on `out`.
    pub fn new(out: W) -> Self {
        Self { tar: Builder::new(out) }
    }

    /// Writes a directory with mode 755.
    ///
    /// Errors: Those of `out`, as for the other methods.
    pub fn directory(&mut self, path: &RootPath) -> io::Result<()> {
        let name = [path.as_bytes(), b"/"].concat();
        let shape = MemberHeader {
            kind: EntryType::Directory,
            mode: 0o755,
            target: b"",
            bytes: 0,
        };
        self.append(&name, shape, io::empty())
    }

    /// Writes a regular file with `bytes` bytes from `content`. Fewer or more bytes are an error.
    pub fn file(&mut self, path: &RootPath, mode: u16, bytes: u64, mut content: impl Read) -> io::Result<()> {
        let shape = MemberHeader {
            kind: EntryType::Regular,
            mode: mode.into(),
            target: b"",
            bytes,
        };
        // The header comes first, so a file that changes meanwhile would shift everything behind it.
        let mut counted = (&mut content).take(bytes);
        self.append(path.as_bytes(), shape, &mut counted)?;
        let missing = counted.limit();
        if missing > 0 || content.read(&mut [0])? > 0 {
            return Err(other_size(path, bytes));
        }
        Ok(())
    }

    /// Writes a regular file with mode 644. `content` writes its `bytes` bytes.
    pub fn file_by<E: From<io::Error>>(
        &mut self,
        path: &RootPath,
        bytes: u64,
        content: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<(), E> {
        let shape = MemberHeader {
            kind: EntryType::Regular,
            mode: 0o644,
            target: b"",
            bytes,
        };
        self.append(path.as_bytes(), shape, io::empty())?;
        let mut counted = CountingWriter {
            inner: self.tar.get_mut(),
            bytes: 0,
        };
        content(&mut counted)?;
        if counted.bytes != bytes {
            return Err(other_size(path, bytes).into());
        }
        // The builder wrote only the header, so pad the last block here.
        let padding = usize::try_from(padding(bytes)).unwrap_or(0);
        let zeros = [0; BLOCK];
        self.tar.get_mut().write_all(zeros.get(..padding).unwrap_or_default())?;
        Ok(())
    }

    /// Writes a symbolic link with a raw target.
    pub fn symlink(&mut self, path: &RootPath, target: &[u8]) -> io::Result<()> {
        let shape = MemberHeader {
            kind: EntryType::Symlink,
            mode: 0o777,
            target,
            bytes: 0,
        };
        self.append(path.as_bytes(), shape, io::empty())
    }

    /// Writes a whiteout that deletes `path` of lower layers (image-spec, layer.md, "Whiteouts").
    pub fn whiteout(&mut self, path: &RootPath) -> io::Result<()> {
        // An empty file. The character devices that overlayfs uses are not allowed in layers.
        let name = [b".wh.", path.name()].concat();
        self.file(&path.parent().join(&name), 0o644, 0, io::empty())
    }

    /// Writes the end marker.
    pub fn end(&mut self) -> io::Result<()> {
        self.tar.finish()
    }

    fn append(&mut self, name: &[u8], shape: MemberHeader<'_>, content: impl Read) -> io::Result<()> {
        let texts = [("path", name), ("linkpath", shape.target)];
        let long = texts.into_iter().filter(|(_, text)| text.len() > NAME.len());
        // Not the ustar prefix field, which needs a slash at the right position.
        self.tar.append_pax_extensions(long)?;
        let mut header = Header::new_ustar();
        header.set_entry_type(shape.kind);
        header.set_mode(shape.mode);
        header.set_uid(0);
        header.set_gid(0);
        // No clock: equal files must give an equal digest.
        header.set_mtime(0);
        header.set_size(shape.bytes);
        put(header.as_mut_bytes(), NAME, name);
        put(header.as_mut_bytes(), LINK, shape.target);
        header.set_cksum();
        self.tar.append(&header, content)
    }
}

fn other_size(path: &RootPath, bytes: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{path} does not have the expected {bytes} bytes"),
    )
}

/// Counts the bytes written through it.
struct CountingWriter<'a, W> {
    inner: &'a mut W,
    bytes: u64,
}

impl<W: Write> Write for CountingWriter<'_, W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(buf)?;
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
