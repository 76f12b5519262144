//! The facts of one file, taken as its bytes pass.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::index::{FileFacts, LayerEntry};
use super::installed_list::InstalledList;
use super::interest::IndexOptions;
use crate::digest::to_hex;
use crate::elf::ElfStream;
use crate::elf::mentions::NameMatcher;
use crate::limits::Limits;
use crate::path::RootPath;

/// Reads one file from a stream of its bytes.
pub(crate) struct FileReader<'a> {
    bytes: u64,
    mode: u16,
    shape: ContentKind<'a>,
    names: &'a NameMatcher,
    kept: Option<Vec<u8>>,
    kept_limit: u64,
    /// Its form and path, where it is a list of installed files.
    list: Option<(InstalledList, RootPath)>,
    /// What the file has to hold to be kept, where that matters.
    words: Option<&'a NameMatcher>,
    /// What it has to hold if it turns out to be a script, and how large it may be.
    script: (Option<&'a NameMatcher>, u64),
    /// Whether it is kept for what a shell may read of it alone.
    for_shell: bool,
    hasher: Option<Sha256>,
    head_limit: usize,
}

enum ContentKind<'a> {
    /// Fewer than four bytes have arrived.
    Unknown(Vec<u8>),
    Elf(Box<ElfStream<'a>>),
    Other,
}

impl<'a> FileReader<'a> {
    /// A reader at the start of the file at `path`, whose permission bits are `mode`.
    pub(crate) fn new(path: &RootPath, mode: u16, options: &'a IndexOptions) -> Self {
        let IndexOptions { limits, interest } = options;
        let keeps_content = interest.keeps_content(path);
        // Each of these compares the path with dozens of patterns, and is asked where it matters alone.
        let words = (!keeps_content).then(|| interest.wanted_words(path)).flatten();
        let is_open = !keeps_content && words.is_none();
        let script_words = is_open.then(|| interest.script_words(path)).flatten();
        let for_shell = script_words.is_some();
        Self {
            bytes: 0,
            mode,
            for_shell,
            shape: ContentKind::Unknown(Vec::new()),
            names: interest.names(),
            kept: (keeps_content || words.is_some() || for_shell).then(Vec::new),
            kept_limit: match words {
                _ if for_shell => SHELL_TEXT,
                Some(_) => limits.searched_file,
                None => limits.kept_file,
            },
            list: InstalledList::of_path(path).map(|list| (list, path.clone())),
            words,
            script: (script_words, limits.searched_file),
            hasher: interest.needs_digest(path).then(Sha256::new),
            head_limit: limits.elf_head,
        }
    }

    /// Takes the next bytes of the file.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
        if let Some(kept) = self
            .kept
            .as_mut()
            // One piece past the limit is kept, which tells "too large" from "just fits".
            .filter(|kept| (kept.len() as u64) <= self.kept_limit)
        {
            kept.extend_from_slice(bytes);
        }
        let is_long = self.kept.as_ref().is_some_and(|kept| kept.len() as u64 > SHELL_TEXT);
        if self.for_shell && is_long {
            self.kept = None;
        }
        match &mut self.shape {
            ContentKind::Elf(stream) => stream.push(bytes),
            ContentKind::Other => {}
            ContentKind::Unknown(start) => {
                start.extend_from_slice(bytes);
                let start = std::mem::take(start);
                // execve(2), "Interpreter scripts": what a file is called says nothing of whether it is one.
                if let (words @ Some(_), limit) = self.script
                    && start.starts_with(b"#!")
                {
                    (self.words, self.kept_limit, self.kept) = (words, limit, Some(start.clone()));
                    (self.script.0, self.for_shell) = (None, false);
                }
                self.shape = shape(start, self.names, self.head_limit);
            }
        }
    }

    /// Whether the content matters, beyond its size: holes of a sparse file must then be passed as zeros.
    pub(crate) fn reads_content(&self) -> bool {
        // Before the first four bytes have come, the file may still be an object.
        !matches!(self.shape, ContentKind::Other) || self.kept.is_some() || self.hasher.is_some()
    }

    /// Counts a hole whose zeros do not matter.
    pub(crate) fn skip(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Takes all that `reader` gives.
    fn read_to_end(&mut self, reader: &mut dyn Read) -> io::Result<()> {
        let mut buffer = vec![0; 128 << 10];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(n) => self.push(buffer.get(..n).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The facts, once the last byte has passed; and whether the file was to be kept but is too large for it.
    pub(crate) fn finish(mut self) -> (FileFacts, bool) {
        if let Some(words) = self.words {
            let limit = self.kept_limit;
            // A program in a folder of scripts is no text.
            let is_text = !matches!(self.shape, ContentKind::Elf(_));
            self.kept = self
                .kept
                .filter(|kept| is_text && kept.len() as u64 <= limit)
                .filter(|kept| is_shell_script(kept) || words.holds_prefix(kept));
        }
        if self.for_shell {
            let is_text = !matches!(self.shape, ContentKind::Elf(_));
            self.kept = self.kept.filter(|kept| is_text && names_loader_variable(kept));
        }
        let elf = match self.shape {
            ContentKind::Elf(stream) => Some(Box::new(stream.finish())),
            _ => None,
        };
        let too_large = self
            .kept
            .as_ref()
            .is_some_and(|kept| kept.len() as u64 > self.kept_limit);
        let mut kept = self.kept.filter(|_| !too_large);
        if let (Some(content), Some((list, path))) = (&mut kept, self.list) {
            *content = list.essence(&path, content);
        }
        let facts = FileFacts {
            bytes: self.bytes,
            mode: self.mode,
            elf,
            kept: kept.map(Vec::into_boxed_slice),
            sha256: self.hasher.map(|hasher| to_hex(&hasher.finalize()).into_boxed_str()),
            // Who reads the headers knows the owner.
            ..FileFacts::default()
        };
        (facts, too_large)
    }
}

/// What the files of one layer come to together: the bytes that are kept of them, and the facts that many share.
#[derive(Debug, Default)]
pub struct KeptFiles {
    bytes: u64,
    /// Files without content that are all alike: those are most of the memory of a layer.
    alike: HashMap<PlainFile, Arc<FileFacts>>,
}

/// All that is known of a file without content: its size, mode, user and group.
pub(super) type PlainFile = (u64, u16, u32, u32);
/// The facts that are kept to be shared: a million files of an image have some ten thousand sizes.
const SHARED: usize = 1 << 16;

impl KeptFiles {
    /// The entry of a file, without its content past the limit; the second value is why it is not read then.
    pub fn admit(&mut self, mut facts: FileFacts, too_large: bool, limits: &Limits) -> (LayerEntry, Option<String>) {
        let why = if too_large {
            let limit = limits.kept_file;
            Some(format!(
                "larger than the limit of {limit} bytes (kept-file); it is not read"
            ))
        } else {
            self.count_kept(&mut facts, limits.kept_total)
        };
        (self.share(LayerEntry::File(Arc::new(facts))), why)
    }

    fn count_kept(&mut self, facts: &mut FileFacts, limit: u64) -> Option<String> {
        let bytes = facts.kept.as_ref().map_or(0, |kept| kept.len() as u64);
        if self.bytes + bytes > limit {
            // The file goes and not the layer; that it was not read is a gap in the report.
            facts.kept = None;
            return Some(format!(
                "the files to be read exceed the limit of {limit} bytes (kept-total); it is not read"
            ));
        }
        self.bytes += bytes;
        None
    }

    /// The entry, with the facts of the first file like it. Objects do not share: of them one allocation is one inode.
    pub(crate) fn share(&mut self, entry: LayerEntry) -> LayerEntry {
        match plain_file(&entry) {
            Some(plain) => self.plain(plain),
            None => entry,
        }
    }

    /// The entry of a file without content, with the facts of the first file like it.
    pub(super) fn plain(&mut self, plain: PlainFile) -> LayerEntry {
        if let Some(facts) = self.alike.get(&plain) {
            return LayerEntry::File(Arc::clone(facts));
        }
        let (bytes, mode, uid, gid) = plain;
        let facts = Arc::new(FileFacts {
            bytes,
            mode,
            uid,
            gid,
            ..FileFacts::default()
        });
        if self.alike.len() < SHARED {
            self.alike.insert(plain, Arc::clone(&facts));
        }
        LayerEntry::File(facts)
    }
}

/// The file without content that an entry is.
pub(super) fn plain_file(entry: &LayerEntry) -> Option<PlainFile> {
    match entry {
        LayerEntry::File(facts) if facts.is_plain() => Some((facts.bytes, facts.mode, facts.uid, facts.gid)),
        _ => None,
    }
}

/// The bytes of a text that is kept for what a shell may read of it.
const SHELL_TEXT: u64 = 64 << 10;

/// Whether a text, whatever its name, names a variable of the loader: a script may read it.
fn names_loader_variable(text: &[u8]) -> bool {
    let names = [&b"LD_LIBRARY_PATH"[..], b"LD_PRELOAD"];
    names.iter().any(|name| memchr::memmem::find(text, name).is_some())
}

/// Whether a file is a script for a shell: it may stand between a container's command and its program.
fn is_shell_script(content: &[u8]) -> bool {
    let first = content.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let mut words = first
        .strip_prefix(b"#!")
        .unwrap_or_default()
        .split(|byte| b" \t/".contains(byte));
    let is_shell = |word: &[u8]| [&b"sh"[..], b"bash", b"dash", b"ash"].contains(&word);
    content.len() as u64 <= SHELL_TEXT && words.any(is_shell)
}

fn shape(start: Vec<u8>, names: &NameMatcher, head_limit: usize) -> ContentKind<'_> {
    // The first region of a sparse file may be shorter than the magic number.
    if start.len() < 4 {
        return ContentKind::Unknown(start);
    }
    if !start.starts_with(b"\x7fELF") {
        return ContentKind::Other;
    }
    let mut stream = Box::new(ElfStream::new(names, head_limit));
    stream.push(&start);
    ContentKind::Elf(stream)
}

/// Reads a file: the same facts as the same file in a layer gives. The second value says that the file was to be kept
/// but is larger than the limit for it. Where its size is known, only the first few `bytes` are read of one whose content
/// tells nothing.
///
/// Errors: What `reader` gives.
pub fn read_file_facts(
    path: &RootPath,
    (mode, bytes): (u16, Option<u64>),
    reader: &mut dyn Read,
    options: &IndexOptions,
) -> io::Result<(FileFacts, bool)> {
    let mut file = FileReader::new(path, mode, options);
    let mut start = Vec::new();
    reader.take(START).read_to_end(&mut start)?;
    file.push(&start);
    if file.for_shell && bytes.is_some_and(|bytes| bytes > SHELL_TEXT) {
        (file.for_shell, file.kept) = (false, None);
    }
    match bytes {
        Some(bytes) if !file.reads_content() => file.skip(bytes.saturating_sub(file.bytes)),
        _ => file.read_to_end(reader)?,
    }
    Ok(file.finish())
}

/// The bytes by which an object is told from other files, and some more.
const START: u64 = 64;
