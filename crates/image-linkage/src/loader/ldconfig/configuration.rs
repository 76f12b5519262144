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
}

/// The directories that `ldconfig` reads from `/etc/ld.so.conf` and what it includes, without those built in.
pub fn directories(rootfs: &Rootfs) -> Vec<ByteString> {
    LdSoConf::read(rootfs).directories
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
            self.problems.push(format!(
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
            // A comment ends a line of any kind, an `include` too.
            let line = line.split(|&byte| byte == b'#').next();
            let line = line.unwrap_or_default().trim_ascii();
            if let Some(patterns) = word_after(line, b"include") {
                for pattern in patterns
                    .split(u8::is_ascii_whitespace)
                    .filter(|pattern| !pattern.is_empty())
                {
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
            let problem = format!("/etc/ld.so.conf includes more than {PATTERNS} patterns");
            if self.problems.last() != Some(&problem) {
                self.problems.push(problem);
            }
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
        let files = glob::expand_pattern(rootfs, &pattern);
        self.patterns.push(pattern);
        for file in files {
            self.read_file(rootfs, &file, depth + 1);
        }
    }
}

/// The directory of a line, which a `=` and the type of its libraries may follow (`add_dir_1`). A relative one counts
/// from the root, where `ldconfig` runs.
fn directory_of(line: &[u8]) -> Option<ByteString> {
    let directory = line.split(|&byte| byte == b'=').next()?.trim_ascii_end();
    let last = directory.iter().rposition(|&byte| byte != b'/')?;
    directory.get(..=last).map(Into::into)
}

/// What follows `word` and white space.
fn word_after<'l>(line: &'l [u8], word: &[u8]) -> Option<&'l [u8]> {
    line.strip_prefix(word)
        .filter(|rest| rest.first().is_some_and(u8::is_ascii_whitespace))
        .map(<[u8]>::trim_ascii_start)
}

/// Whether a line is the `hwcap` directive, in any case of letters, which is ignored.
fn is_hwcap_line(line: &[u8]) -> bool {
    word_after(&line.to_ascii_lowercase(), b"hwcap").is_some()
}
