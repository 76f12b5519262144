//! What `/etc/ld.so.conf` and its includes say (glibc elf/ldconfig.c, `parse_conf`).

use super::glob;
use crate::elf::ByteString;
use crate::escape;
use crate::path::RootPath;
use crate::rootfs::Rootfs;

/// Configuration files that are read, at most; CUDA's images have some five.
const FILES: usize = 256;
/// Includes within includes, at most; only a file that includes itself goes deeper.
const DEPTH: usize = 8;
/// Patterns of `include`, at most: each may walk many folders, whether or not it finds a file.
const PATTERNS: usize = 1024;

/// Names that all patterns together are compared with, at most: each goes through a whole folder.
const NAMES: usize = 2_000_000;

/// The configuration of `ldconfig`.
#[derive(Debug, Clone, Default)]
pub struct LdSoConf {
    /// The directories in the order of their lines, without a final `/`, whether or not they are there.
    pub directories: Vec<ByteString>,
    /// What was not read of the configuration, and why.
    pub problems: Vec<String>,
    /// The patterns of the `include` lines, absolute.
    patterns: Vec<Vec<u8>>,
    files: usize,
    /// The names that patterns were compared with.
    names: usize,
}

impl LdSoConf {
    /// Reads `/etc/ld.so.conf` and what it includes; without that file there are no directories.
    pub fn read(rootfs: &Rootfs) -> Self {
        let mut configuration = Self::default();
        configuration.read_file(rootfs, b"/etc/ld.so.conf", 0);
        configuration
    }

    /// Whether a file at this path, where there is one, is among those that are included.
    pub fn includes(&self, path: &RootPath) -> bool {
        let path = path.absolute();
        self.patterns.iter().any(|pattern| glob::matches_path(pattern, &path))
    }

    /// Reads one file: a directory a line, `include` with patterns, `#` begins a comment.
    fn read_file(&mut self, rootfs: &Rootfs, path: &[u8], depth: usize) {
        self.files += 1;
        if depth > DEPTH || self.files > FILES {
            self.tell_once(format!(
                "the includes of /etc/ld.so.conf go deeper than {DEPTH} or are more than {FILES}"
            ));
            return;
        }
        let Some(content) = rootfs.content(path) else {
            // It is there and was not kept: it is too large, or lies where no configuration is expected.
            if rootfs.file(path).is_some() {
                let path = escape::escape_bytes(path);
                self.problems.push(format!(
                    "{path} is part of the configuration of ldconfig and was not read"
                ));
            }
            return;
        };
        for line in content.split(|&byte| byte == b'\n') {
            // A comment ends a line of any kind, an `include` too, and so does a NUL, as the line is a C string.
            let line = line.split(|byte| b"#\0".contains(byte)).next();
            let line = trim_start(line.unwrap_or_default());
            if let Some(patterns) = word_after(line, b"include") {
                // `strsep` divides them at blanks alone: the `\r` of a line's end is part of the last one's name.
                let patterns = patterns.split(|&byte| is_blank(byte));
                for pattern in patterns.filter(|pattern| !pattern.is_empty()) {
                    self.include(rootfs, pattern, path, depth);
                }
            } else if !is_hwcap_line(line) {
                self.directories.extend(directory_of(line));
            }
        }
    }

    /// A pattern that is no absolute path counts from the folder of the file that it stands in.
    fn include(&mut self, rootfs: &Rootfs, pattern: &[u8], from: &[u8], depth: usize) {
        if self.patterns.len() >= PATTERNS {
            self.tell_once(format!("/etc/ld.so.conf includes more than {PATTERNS} patterns"));
            return;
        }
        // A relative pattern counts from the folder of the file that includes it (`parse_conf_include`).
        let base = from
            .iter()
            .rposition(|&byte| byte == b'/')
            .and_then(|at| from.get(..at))
            .unwrap_or_default();
        let pattern = if pattern.starts_with(b"/") {
            pattern.to_vec()
        } else {
            [base, b"/", pattern].concat()
        };
        // One more than can be read, so that the limit is told; beyond it no folder is walked any more.
        let left = (FILES + 1).saturating_sub(self.files);
        let mut names_left = NAMES.saturating_sub(self.names);
        let before = names_left;
        let files = if left > 0 {
            glob::expand_within(rootfs, &pattern, left, &mut names_left)
        } else {
            Vec::new()
        };
        self.names += before - names_left;
        if names_left == 0 {
            self.tell_once(format!(
                "the includes of /etc/ld.so.conf are compared with more than {NAMES} names"
            ));
        }
        self.patterns.push(pattern);
        for file in files {
            // The files included by those before may have used up what was left.
            if self.files > FILES {
                return;
            }
            self.read_file(rootfs, &file, depth + 1);
        }
    }

    /// A limit is exceeded by each further file, of which a hostile image has thousands.
    fn tell_once(&mut self, problem: String) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

/// The directory of a line, which a `=` and the type of its libraries may follow (`add_dir_1`). A relative one counts
/// from the root, where `ldconfig` runs.
fn directory_of(line: &[u8]) -> Option<ByteString> {
    let directory = line.split(|&byte| byte == b'=').next()?;
    let end = directory.iter().rposition(|&byte| !is_space(byte))?;
    let directory = directory.get(..=end)?;
    let last = directory.iter().rposition(|&byte| byte != b'/')?;
    directory.get(..=last).map(Into::into)
}

/// What follows `word` and a blank.
fn word_after<'l>(line: &'l [u8], word: &[u8]) -> Option<&'l [u8]> {
    let rest = line.strip_prefix(word)?;
    rest.first().is_some_and(|&byte| is_blank(byte)).then_some(rest)
}

/// The line without the white space at its start.
fn trim_start(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|&byte| !is_space(byte));
    start.and_then(|start| line.get(start..)).unwrap_or_default()
}

/// C's `isspace`; Rust's white space lacks the vertical tab.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b'\x0b'
}

/// What C's `isblank` takes.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Whether a line is the `hwcap` directive, in any case of letters, which is ignored.
fn is_hwcap_line(line: &[u8]) -> bool {
    word_after(&line.to_ascii_lowercase(), b"hwcap").is_some()
}
