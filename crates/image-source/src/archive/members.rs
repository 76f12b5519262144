//! The members of an image archive in order, from a stream or a seekable file.
//!
//! Only headers are interpreted here; the caller decides what a member is for.

use std::io::{self, BufReader, Read, Seek};

use crate::foreign_file::describe_foreign_file;
use crate::image_error::ImageError;
use image_linkage::escape;
use image_linkage::layer::{HeaderError, HeaderReader, TarItem, TarKind, TarMember};
use image_linkage::limits::Limits;
use image_linkage::path::RootPath;

/// The maximum members of an archive. An image with a thousand layers has about four thousand.
const MAX_MEMBERS: usize = 100_000;

/// The maximum bytes read behind the end of an archive. GNU tar pads to 10 KiB, or to megabytes with
/// `--blocking-factor`.
const PADDING: u64 = 64 << 20;

/// The header size in bytes. Contents are padded to multiples of it.
const BLOCK: u64 = 512;

/// The parts of a header needed for image archives.
pub(crate) struct ArchiveMember {
    pub name: RootPath,
    pub kind: MemberKind,
    /// The offset of its content in the archive, in bytes.
    pub offset: u64,
    /// The size of its content, in bytes.
    pub size: u64,
}

/// The type of a member, as far as image archives need it.
pub(crate) enum MemberKind {
    File,
    /// A symbolic or hard link.
    Link(RootPath),
    /// A sparse file: the stored bytes are not its content.
    Sparse,
    /// A directory or a special file.
    Other,
}

/// A reader that can skip bytes.
pub(crate) trait SkipRead: Read {
    /// Skips `bytes` bytes. An early end is [`io::ErrorKind::UnexpectedEof`].
    fn skip(&mut self, bytes: u64) -> io::Result<()>;
}

/// A file whose contents are skipped by seeking.
pub(crate) struct SeekFile<F> {
    inner: BufReader<F>,
    left: u64,
}

impl<F: Read + Seek> SeekFile<F> {
    /// Reads `file` of `bytes` bytes from its start.
    pub(crate) fn new(file: F, bytes: u64) -> Self {
        Self {
            inner: BufReader::new(file),
            left: bytes,
        }
    }
}

impl<F: Read + Seek> Read for SeekFile<F> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.left = self.left.saturating_sub(n as u64);
        Ok(n)
    }
}

impl<F: Read + Seek> SkipRead for SeekFile<F> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        // Seeking past the end succeeds and would hide truncation, so count the bytes.
        match i64::try_from(bytes) {
            // Within the buffer this is no system call; headers of small members are close together.
            Ok(step) if bytes <= self.left => self.inner.seek_relative(step)?,
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        self.left -= bytes;
        Ok(())
    }
}

/// A stream whose bytes are skipped by reading, up to `allowance`.
pub(crate) struct SkipStream<R> {
    inner: R,
    allowance: u64,
}

impl<R: Read> SkipStream<R> {
    /// Reads `inner`. At most `allowance` bytes that belong to no layer or document are read.
    pub(crate) fn new(inner: R, allowance: u64) -> Self {
        Self { inner, allowance }
    }

    /// Reads the bytes behind the archive's end, so that its writer does not get a broken pipe. Stops if they do not
    /// end.
    pub(crate) fn drain(&mut self) -> io::Result<()> {
        io::copy(&mut (&mut self.inner).take(PADDING), &mut io::sink()).map(drop)
    }
}

impl<R: Read> Read for SkipStream<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buf)
    }
}

impl<R: Read> SkipRead for SkipStream<R> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        // Skipping requires decompressing, so a bomb in an unused member costs as much as in a layer.
        self.allowance = self.allowance.checked_sub(bytes).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::FileTooLarge,
                "the members that are no layers hold more than the limit of a layer's bytes (layer-bytes)",
            )
        })?;
        match io::copy(&mut (&mut self.inner).take(bytes), &mut io::sink())? {
            passed if passed == bytes => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// The members of an archive. `Read` yields the current member's content.
pub(crate) struct ArchiveMembers<R> {
    what: String,
    inner: R,
    headers: HeaderReader,
    /// The maximum bytes of a member's name and of its link target.
    name_limit: usize,
    /// The bytes of the archive consumed so far.
    position: u64,
    current: RootPath,
    /// The unread bytes of the current member's content, and its padding.
    content: u64,
    padding: u64,
    count: usize,
}

impl<R: SkipRead> ArchiveMembers<R> {
    /// The members of the archive `inner`, which errors call `what`.
    pub(crate) fn new(what: &str, inner: R, limits: &Limits) -> Self {
        Self {
            what: what.to_owned(),
            inner,
            headers: HeaderReader::new(limits),
            name_limit: limits.path_bytes,
            position: 0,
            current: RootPath::default(),
            content: 0,
            padding: 0,
            count: 0,
        }
    }

    /// The next member; `None` at the end of the archive. Skips the rest of the previous one.
    ///
    /// Errors: [`ImageError::Io`] if the archive is unreadable or truncated, [`ImageError::NotAnImage`] if it is not a
    /// tar or has too many members.
    pub(crate) fn next(&mut self) -> Result<Option<ArchiveMember>, ImageError> {
        self.pass_content()?;
        loop {
            let item = self.headers.next(&mut self.inner);
            self.position += self.headers.raw.len() as u64;
            match item {
                Ok(TarItem::End) if self.position == 0 => {
                    return Err(self.not_a_tar("it is empty; did its writer fail?"));
                }
                Ok(TarItem::End) => return Ok(None),
                // Two zero blocks should end an archive. Some writers do not complete the last one.
                Err(HeaderError::Cut) if self.headers.raw.iter().all(|&byte| byte == 0) => return Ok(None),
                // `git archive` writes one in front. It is not a member.
                Ok(TarItem::Global) => {}
                Ok(TarItem::Member(member)) => return self.enter(&member).map(Some),
                Err(error) => return Err(self.unreadable(error)),
            }
        }
    }

    fn unreadable(&self, error: HeaderError) -> ImageError {
        // The first header is invalid: the file is something else.
        let is_none = self.position <= BLOCK;
        match error {
            HeaderError::Read(source) => self.io(source),
            HeaderError::Cut if self.position < BLOCK => self.not_a_tar(self.kind()),
            HeaderError::Cut => self.cut_short("in the header after"),
            HeaderError::Damaged(error) if is_none && error == "the checksum is not a number" => {
                self.not_a_tar(self.kind())
            }
            HeaderError::Damaged(error) => self.not_a_tar(&error),
        }
    }

    /// What the file is instead of a tar.
    fn kind(&self) -> &'static str {
        describe_foreign_file(&self.headers.raw).unwrap_or("it is not a tar archive")
    }

    /// The underlying reader.
    pub(crate) fn into_inner(self) -> R {
        self.inner
    }

    fn enter(&mut self, member: &TarMember) -> Result<ArchiveMember, ImageError> {
        self.count += 1;
        if self.count > MAX_MEMBERS {
            return Err(self.not_a_tar(&format!(
                "it has more than {MAX_MEMBERS} members; name the archive of an image, not of its files"
            )));
        }
        if member.name.len().max(member.link.len()) > self.name_limit {
            let limit = self.name_limit;
            return Err(self.not_a_tar(&format!(
                "the name of a member is longer than the limit of {limit} bytes"
            )));
        }
        self.content = member.stored;
        self.padding = member.padding();
        self.current = RootPath::new(&member.name);
        Ok(ArchiveMember {
            name: self.current.clone(),
            kind: kind(member),
            offset: self.position,
            size: member.stored,
        })
    }

    fn pass_content(&mut self) -> Result<(), ImageError> {
        let all = self.content.saturating_add(self.padding);
        // Sizes are untrusted, and their sum may overflow.
        let position = self.position.checked_add(all);
        self.position = position.ok_or_else(|| self.cut_short("inside"))?;
        self.inner.skip(all).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.cut_short("inside"),
            _ => self.io(error),
        })?;
        (self.content, self.padding) = (0, 0);
        Ok(())
    }

    fn cut_short(&self, place: &str) -> ImageError {
        let name = escape::escape_bytes(self.current.as_bytes());
        self.io(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("the archive ends {place} its member {name}; it was cut short, save the image again"),
        ))
    }

    fn io(&self, source: io::Error) -> ImageError {
        ImageError::io(&self.what)(source)
    }

    fn not_a_tar(&self, reason: &str) -> ImageError {
        let reason = match self.headers.raw.first() {
            // An engine that fails halfway appends its error as JSON.
            Some(b'{') => format!("{reason}; it goes on with {}", begin(&self.headers.raw)),
            _ => reason.to_owned(),
        };
        ImageError::not_an_image(&self.what, reason)
    }
}

fn begin(bytes: &[u8]) -> String {
    let start = bytes.get(..200).unwrap_or(bytes);
    escape::escape_bytes(start.split(|&byte| byte == 0).next().unwrap_or_default())
}

impl<R: Read> Read for ArchiveMembers<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.content).unwrap_or(usize::MAX).min(buf.len());
        let Some(buf) = buf.get_mut(..most).filter(|buf| !buf.is_empty()) else {
            return Ok(0);
        };
        let n = self.inner.read(buf)?;
        // A silent end would let a truncated member pass.
        if n == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive is cut short"));
        }
        self.content -= n as u64;
        self.position += n as u64;
        Ok(n)
    }
}

fn kind(member: &TarMember) -> MemberKind {
    let target = &member.link;
    match member.kind {
        _ if member.sparse.is_some() => MemberKind::Sparse,
        // Archives older than ustar mark directories only by a trailing slash.
        TarKind::Regular | TarKind::Unknown(b'7') if !member.name.ends_with(b"/") => MemberKind::File,
        // Hard links are relative to the archive's root, symbolic links to their own directory. Docker before 25 stored
        // a layer shared by two images as a link to `../ID/layer.tar`.
        TarKind::HardLink => MemberKind::Link(RootPath::new(target)),
        // An absolute target is a member of the archive, never a host file.
        TarKind::Symlink if target.starts_with(b"/") => MemberKind::Link(RootPath::new(target)),
        TarKind::Symlink => MemberKind::Link(RootPath::new(&member.name).parent().join(target)),
        _ => MemberKind::Other,
    }
}
