//! Parses `/etc/ld.so.conf` and its includes (glibc elf/ldconfig.c, `parse_conf`).

use super::glob;
use crate::elf::ByteString;
use crate::escape;
use crate::path::RootPath;
use crate::rootfs::Rootfs;

/// The maximum number of configuration files. CUDA images have about five.
const FILES: usize = 256;
/// The maximum include depth. Only a file that includes itself exceeds it.
const DEPTH: usize = 8;
/// The maximum number of `include` patterns. Each may walk many directories without finding a file.
const PATTERNS: usize = 1024;

/// The maximum number of names that all patterns are compared with.
const NAMES: usize = 2_000_000;

/// The configuration of `ldconfig`.
#[derive(Debug, Clone, Default)]
pub struct LdSoConf {
    /// The configured directories in order, without a trailing `/`, whether or not they exist.
    pub directories: Vec<ByteString>,
    /// The parts of the configuration that were not read, and why.
    pub problems: Vec<String>,
    /// The absolute patterns of the `include` lines.
    patterns: Vec<Vec<u8>>,
    files: usize,
    /// The number of names that patterns were compared with.
    names: usize,
}

impl LdSoConf {
    /// Reads `/etc/ld.so.conf` and its includes. Without that file there are no directories.
    pub fn read(rootfs: &Rootfs) -> Self {
        let mut configuration = Self::default();
        configuration.read_file(rootfs, b"/etc/ld.so.conf", 0);
        configuration
    }

    /// Whether a file at this path would be included.
    pub fn includes(&self, path: &RootPath) -> bool {
        let path = path.absolute();
        self.patterns.iter().any(|pattern| glob::matches_path(pattern, &path))
    }

    /// Reads one file: one directory per line, `include` with patterns, and `#` comments.
    fn read_file(&mut self, rootfs: &Rootfs, path: &[u8], depth: usize) {
        self.files += 1;
        if depth > DEPTH || self.files > FILES {
            self.report_once(format!(
                "the includes of /etc/ld.so.conf go deeper than {DEPTH} or are more than {FILES}"
            ));
            return;
        }
        let Some(content) = rootfs.content(path) else {
            // The file exists but was not kept: it is too large or in an unexpected place.
            if rootfs.file(path).is_some() {
                let path = escape::escape_bytes(path);
                self.problems.push(format!(
                    "{path} is part of the configuration of ldconfig and was not read"
                ));
            }
            return;
        };
        for line in content.split(|&byte| byte == b'\n') {
            // A comment or a NUL ends any line: ldconfig treats it as a C string.
            let text = line.split(|byte| b"#\0".contains(byte)).next();
            let line = trim_start(text.unwrap_or_default());
            if let Some(patterns) = word_after(line, b"include") {
                // `strsep` splits only at blanks, so a trailing `\r` becomes part of the last name.
                let patterns = patterns.split(|&byte| is_blank(byte));
                for pattern in patterns.filter(|pattern| !pattern.is_empty()) {
                    self.include(rootfs, pattern, path, depth);
                }
            } else if !is_hwcap_line(line) {
                self.directories.extend(directory_of(line));
            }
        }
    }

    /// Reads the files that match an `include` pattern.
    fn include(&mut self, rootfs: &Rootfs, pattern: &[u8], from: &[u8], depth: usize) {
        if self.patterns.len() >= PATTERNS {
            self.report_once(format!("/etc/ld.so.conf includes more than {PATTERNS} patterns"));
            return;
        }
        // A relative pattern starts at the directory of the including file (`parse_conf_include`).
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
        // Allow one more than the limit, so that exceeding it is reported. Beyond that, walk no directory.
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
            self.report_once(format!(
                "the includes of /etc/ld.so.conf are compared with more than {NAMES} names"
            ));
        }
        self.patterns.push(pattern);
        for file in files {
            // Nested includes may have used up the rest.
            if self.files > FILES {
                return;
            }
            self.read_file(rootfs, &file, depth + 1);
        }
    }

    /// Reports a problem once; a hostile image may trigger it thousands of times.
    fn report_once(&mut self, problem: String) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

/// The directory of a line, without an optional `=TYPE` (`add_dir_1`). Relative directories start at the root, the
/// working directory of `ldconfig`.
fn directory_of(line: &[u8]) -> Option<ByteString> {
    let before = line.split(|&byte| byte == b'=').next()?;
    let end = before.iter().rposition(|&byte| !is_space(byte))?;
    let directory = before.get(..=end)?;
    let last = directory.iter().rposition(|&byte| byte != b'/')?;
    directory.get(..=last).map(Into::into)
}

/// The rest of a line behind `word` and a blank.
fn word_after<'l>(line: &'l [u8], word: &[u8]) -> Option<&'l [u8]> {
    let rest = line.strip_prefix(word)?;
    rest.first().is_some_and(|&byte| is_blank(byte)).then_some(rest)
}

/// The line without leading whitespace.
fn trim_start(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|&byte| !is_space(byte));
    start.and_then(|start| line.get(start..)).unwrap_or_default()
}

/// C's `isspace`. Rust's version lacks the vertical tab.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b'\x0b'
}

/// C's `isblank`.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Whether a line is a `hwcap` directive in any case, which is ignored.
fn is_hwcap_line(line: &[u8]) -> bool {
    word_after(&line.to_ascii_lowercase(), b"hwcap").is_some()
}
