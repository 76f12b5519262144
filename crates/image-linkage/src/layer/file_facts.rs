//! Collects the facts of one file from a stream of its bytes.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::index::{FileFacts, LayerEntry, LayerProblem, ProblemKind};
use super::installed_list::InstalledList;
use super::interest::{FileInterest, IndexOptions};
use super::rpm_database::{self, is_rpm_database};
use crate::digest::to_hex;
use crate::elf::ElfStream;
use crate::elf::mentions::NameMatcher;
use crate::limits::Limits;
use crate::path::RootPath;

/// Reads one file from a stream.
pub(crate) struct FileReader<'a> {
    bytes: u64,
    mode: u16,
    shape: ContentKind<'a>,
    names: &'a NameMatcher,
    kept: Option<Vec<u8>>,
    kept_limit: u64,
    /// The list format and path, if the file is a list of installed files.
    list: Option<(InstalledList, RootPath)>,
    is_rpm_database: bool,
    /// The words that the file must contain to be kept; `None` if it is kept unconditionally or not at all.
    words: Option<&'a NameMatcher>,
    /// The words that the file must contain if it is a script, and its size limit.
    script: (Option<&'a NameMatcher>, u64),
    /// Whether it is kept only because a shell may read it.
    for_shell: bool,
    /// The words to note, and whether the file is a compiled module.
    noted: (&'a FileInterest, bool),
    /// Whether the file is one of thousands that packages contain.
    is_of_many: bool,
    hasher: Option<Sha256>,
    head_limit: usize,
}

enum ContentKind<'a> {
    /// Fewer than four bytes so far.
    Unknown(Vec<u8>),
    Elf(Box<ElfStream<'a>>),
    Other,
}

impl<'a> FileReader<'a> {
    /// A reader at the start of the file at `path` with permission bits `mode`.
    pub(crate) fn new(path: &RootPath, mode: u16, options: &'a IndexOptions) -> Self {
        let IndexOptions { limits, interest } = options;
        let keeps_content = interest.keeps_content(path);
        // Each check compares the path with dozens of patterns, so run it only if the earlier ones did not decide.
        let words = (!keeps_content).then(|| interest.wanted_words(path)).flatten();
        let is_open = !keeps_content && words.is_none();
        let script_words = is_open.then(|| interest.script_words(path)).flatten();
        let for_shell = script_words.is_some();
        let is_rpm_database = is_rpm_database(path);
        Self {
            bytes: 0,
            mode,
            for_shell,
            noted: (interest, path.name().ends_with(b".pyc")),
            is_of_many: words.is_some() && path.parent().name() != b"bin" || path.name() == b"__init__.py",
            shape: ContentKind::Unknown(Vec::new()),
            names: interest.names(),
            kept: (keeps_content || words.is_some() || for_shell).then(Vec::new),
            kept_limit: match words {
                _ if for_shell => SHELL_TEXT,
                Some(_) => limits.searched_file,
                None if is_rpm_database => limits.rpm_database,
                None => limits.kept_file,
            },
            list: InstalledList::of_path(path).map(|list| (list, path.clone())),
            is_rpm_database,
            words,
            script: (script_words, limits.searched_file),
            hasher: interest.needs_digest(path).then(Sha256::new),
            head_limit: limits.elf_head,
        }
    }

    /// Reads the next bytes of the file.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
        if let Some(kept) = self
            .kept
            .as_mut()
            // Keep one piece beyond the limit, to tell "too large" from "just fits".
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
                // The first bytes decide whether a file is a script, not its name (execve(2), "Interpreter scripts").
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

    /// Whether the content matters and not only the size. If so, holes of a sparse file are passed as zeros.
    pub(crate) fn reads_content(&self) -> bool {
        // Until the first four bytes have arrived, the file may still be an object.
        !matches!(self.shape, ContentKind::Other) || self.kept.is_some() || self.hasher.is_some()
    }

    /// Skips a hole whose content does not matter.
    pub(crate) fn skip(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Reads everything from `reader`.
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

    /// The facts of the whole file, and how its content counts against the limits.
    pub(crate) fn finish(mut self) -> (FileFacts, KeptClass) {
        // A binary in a script directory is not text.
        let is_text = !matches!(self.shape, ContentKind::Elf(_));
        let limit = self.kept_limit;
        let fits = |kept: &Vec<u8>| is_text && kept.len() as u64 <= limit;
        if self.words.is_some() {
            self.kept = self.kept.filter(fits);
        }
        if self.for_shell {
            self.kept = self.kept.filter(|kept| is_text && names_loader_variable(kept));
        }
        let (interest, is_compiled) = self.noted;
        let text = self.kept.as_ref().filter(|kept| fits(kept));
        let noted_words = text.map(|text| interest.noted_words(text, is_compiled));
        let is_script = text.is_some_and(|text| is_shell_script(text));
        if let Some(words) = self.words {
            self.kept = self.kept.filter(|kept| is_script || words.holds_prefix(kept));
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
        if self.is_rpm_database {
            kept = kept.and_then(|database| rpm_database::essence(&database));
        }
        let facts = FileFacts {
            bytes: self.bytes,
            mode: self.mode,
            elf,
            kept: kept.map(Vec::into_boxed_slice),
            sha256: self.hasher.map(|hasher| to_hex(&hasher.finalize()).into_boxed_str()),
            noted_words: noted_words.unwrap_or_default(),
            // The caller sets the owner from the tar header.
            ..FileFacts::default()
        };
        // Only the owner of a file comes from rpm's database, and that may be unknown.
        let class = if too_large && !self.is_rpm_database {
            KeptClass::TooLarge
        } else if self.is_of_many && !is_script {
            KeptClass::OfMany
        } else {
            KeptClass::Needed
        };
        (facts, class)
    }
}

/// How the content of a file counts against the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptClass {
    /// The loader, a shell, an interpreter or a package manager reads the file at its path.
    Needed,
    /// One of thousands of files that packages contain.
    OfMany,
    /// It should be kept, but is too large.
    TooLarge,
}

/// Per-layer state: the total of kept bytes, and the facts shared by equal files.
#[derive(Debug, Default)]
pub struct KeptFiles {
    bytes: u64,
    /// The first file beyond the limit, and the number of all.
    left_out: Option<(RootPath, usize)>,
    /// Facts of files without kept content. Most files of a layer are such, and many are equal.
    alike: HashMap<PlainFile, Arc<FileFacts>>,
}

/// All facts of a file without kept content: size, mode, user and group.
pub(super) type PlainFile = (u64, u16, u32, u32);
/// The maximum number of shared facts. A million files of an image have about ten thousand sizes.
const SHARED: usize = 1 << 16;

impl KeptFiles {
    /// Makes the entry of the file at `path`. If it is too large, drops the content and returns the reason.
    pub fn admit(
        &mut self,
        path: &RootPath,
        mut facts: FileFacts,
        class: KeptClass,
        limits: &Limits,
    ) -> (LayerEntry, Option<String>) {
        let why = (class == KeptClass::TooLarge)
            .then(|| format!("not read: larger than {}", limit_words("kept-file", limits.kept_file)));
        // The loader's files must have room behind any number of modules.
        let limit = match class {
            KeptClass::OfMany => limits.kept_total - limits.kept_total / 4,
            KeptClass::Needed | KeptClass::TooLarge => limits.kept_total,
        };
        let bytes = facts.kept.as_ref().map_or(0, |kept| kept.len() as u64);
        if bytes == 0 || self.bytes + bytes <= limit {
            self.bytes += bytes;
        } else {
            // Drop the content, not the layer. The report shows it as a gap.
            facts.kept = None;
            self.left_out.get_or_insert_with(|| (path.clone(), 0)).1 += 1;
        }
        (self.share(LayerEntry::File(Arc::new(facts))), why)
    }

    /// The problem of all files whose content was dropped because of the limit on a layer.
    pub fn left_out(self, limits: &Limits) -> Option<LayerProblem> {
        let (path, files) = self.left_out?;
        let others = match files {
            0 | 1 => String::new(),
            2 => ", like 1 other file".to_owned(),
            _ => format!(", like {} other files", files - 1),
        };
        let limit = limit_words("kept-total", limits.kept_total);
        let what = format!("not read{others}: the texts of the layer exceed {limit}");
        let kind = ProblemKind::Unread;
        Some(LayerProblem { path, what, kind })
    }

    /// Shares the facts of equal files. Objects are not shared, because their allocation identifies the inode.
    pub(crate) fn share(&mut self, entry: LayerEntry) -> LayerEntry {
        match plain_file(&entry) {
            Some(plain) => self.plain(plain),
            None => entry,
        }
    }

    /// The entry of a file without kept content, with shared facts.
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

fn limit_words(name: &str, limit: u64) -> String {
    let more = limit.saturating_mul(2);
    format!("the limit of {limit} bytes; raise it with --limit {name}={more}")
}

/// The facts of an entry, if it is a file without kept content.
pub(super) fn plain_file(entry: &LayerEntry) -> Option<PlainFile> {
    match entry {
        LayerEntry::File(facts) if facts.is_plain() => Some((facts.bytes, facts.mode, facts.uid, facts.gid)),
        _ => None,
    }
}

/// The maximum bytes of a text that is kept because a shell may read it.
const SHELL_TEXT: u64 = 64 << 10;

/// Whether a text names a loader variable. A script may read such a file under any name.
fn names_loader_variable(text: &[u8]) -> bool {
    let names = [&b"LD_LIBRARY_PATH"[..], b"LD_PRELOAD"];
    names.iter().any(|name| memchr::memmem::find(text, name).is_some())
}

/// Whether a file is a shell script. It may be between a container's command and its program.
fn is_shell_script(content: &[u8]) -> bool {
    let first = content.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let mut words = first
        .strip_prefix(b"#!")
        .unwrap_or_default()
        .split(|byte| b" \t/".contains(byte));
    content.len() as u64 <= SHELL_TEXT && words.any(|word| matches!(word, b"sh" | b"bash" | b"dash" | b"ash"))
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

/// Reads a file and returns the same facts as for the file in a layer, and how its content counts against the limits.
/// If the size is known, content that does not matter is skipped.
///
/// Errors: Those of `reader`.
pub fn read_file_facts(
    path: &RootPath,
    (mode, bytes): (u16, Option<u64>),
    reader: &mut dyn Read,
    options: &IndexOptions,
) -> io::Result<(FileFacts, KeptClass)> {
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

/// The bytes read first, enough to recognize an object or a script.
const START: u64 = 64;
