//! The dynamic loader that the image holds, and what it starts with.
//!
//! The default directories are compiled into `ld.so`, and differ between distributions; they are read from
//! the image's own file.

use super::arch::{Arch, CpuLevel};
use super::ld_cache::{CacheCriteria, LdCache};
use super::ld_cache_file::{self, CacheFile};
use super::legacy_hwcaps::{self, LegacyHwcaps};
use super::{musl, preload};
use crate::elf::ByteString;
use crate::escape;
use crate::path::RootPath;
use crate::rootfs::{LookupError, NodeKind, Rootfs};

/// The C library whose loader it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Libc {
    /// glibc, with its major and minor version where `ld.so` says it.
    Glibc(Option<(u32, u32)>),
    /// musl.
    Musl,
}

/// A dynamic loader of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DynamicLoader {
    /// The path by which programs name it in `PT_INTERP`.
    pub path: ByteString,
    /// The path without links.
    pub real_path: RootPath,
    /// The C library.
    pub libc: Libc,
    /// Whether it is a glibc of Debian or Ubuntu, whose patches change what is skipped.
    pub is_debian: bool,
    /// The processor.
    pub arch: &'static Arch,
    /// The default directories: glibc's each with a final `/`, musl's as they are written.
    pub default_dirs: Vec<ByteString>,
    /// The `glibc-hwcaps` levels that are searched, the best first.
    pub levels: Vec<ByteString>,
    /// The subdirectories that are searched before a directory itself, each with a final `/`.
    pub subdirectories: Vec<ByteString>,
    /// The bits of the hardware subdirectories whose entries in the cache count.
    pub hardware: u64,
    /// The bits of the x86-64 levels that the processor has; they decide which entries of the cache count.
    pub isa_bits: u32,
    /// What `$LIB` stands for.
    pub lib: ByteString,
    /// What `$PLATFORM` stands for.
    pub platform: ByteString,
    /// `/etc/ld.so.cache`; `None` where it is absent or unusable.
    pub cache: Option<LdCache>,
    /// What could not be read: the cache, or the default directories.
    pub problems: Vec<String>,
}

impl DynamicLoader {
    /// The loader of the image for the processor: glibc's, else musl's.
    pub fn find_default(rootfs: &Rootfs, arch: &'static Arch, cpu: CpuLevel) -> Option<Self> {
        Self::read_at(rootfs, arch.interpreter.as_bytes(), arch, cpu)
            .or_else(|| Self::read_at(rootfs, arch.musl.as_bytes(), arch, cpu))
    }

    /// The loader at `path`, which a program names in `PT_INTERP`; `None` when no file lies there.
    pub fn read_at(
        rootfs: &Rootfs,
        path: &[u8],
        arch: &'static Arch,
        cpu: CpuLevel,
    ) -> Option<Self> {
        let real_path = rootfs.lookup(path).ok()?.path;
        let file = rootfs.file(path)?;
        let bytes = file.kept.as_deref().unwrap_or_default();
        let is_musl = real_path.name().starts_with(b"ld-musl-")
            || path.windows(8).any(|part| part == b"ld-musl-");
        let mut linker = Self {
            path: path.into(),
            real_path,
            libc: if is_musl {
                Libc::Musl
            } else {
                Libc::Glibc(version(bytes))
            },
            is_debian: [&b"(Debian GLIBC "[..], b"(Ubuntu GLIBC "]
                .iter()
                .any(|banner| bytes.windows(banner.len()).any(|part| part == *banner)),
            arch,
            default_dirs: Vec::new(),
            levels: Vec::new(),
            subdirectories: Vec::new(),
            hardware: 0,
            isa_bits: cpu.isa_bits(),
            lib: ByteString::default(),
            platform: arch.platform.as_bytes().into(),
            cache: None,
            problems: Vec::new(),
        };
        if is_musl {
            linker.read_musl(rootfs);
        } else {
            linker.read_glibc(rootfs, bytes, cpu);
        }
        Some(linker)
    }

    fn read_musl(&mut self, rootfs: &Rootfs) {
        let path = musl::path_file_name(self);
        let file = match rootfs.lookup(&path) {
            Err(LookupError::NotFound) => None,
            // It is there and cannot be read: there are no default directories.
            Err(_) => Some(&b""[..]),
            Ok(found) => match &rootfs.node(found.node).kind {
                NodeKind::File(file) if file.kept.is_none() => {
                    let path = escape::escape_bytes(&path);
                    self.problems
                        .push(format!("what {path} holds is not known"));
                    None
                }
                NodeKind::File(file) => file.kept.as_deref(),
                _ => Some(&b""[..]),
            },
        };
        self.default_dirs = musl::default_dirs(file);
    }

    /// Puts the loader on a processor that it knows by more than a level: `$PLATFORM`, and before glibc 2.37 the
    /// subdirectories of its hardware.
    pub fn run_on(&mut self, processor: &LegacyHwcaps) {
        self.platform.clone_from(&processor.platform);
        self.subdirectories
            .retain(|name| name.starts_with(b"glibc-hwcaps/"));
        self.hardware = 0;
        if legacy_hwcaps::searches_hwcaps(self.arch, self.libc) {
            self.subdirectories.extend(processor.subdirectories());
            self.hardware = processor.bits();
        }
    }

    /// What the loader takes of a cache.
    pub fn cache_criteria(&self) -> CacheCriteria<'_> {
        CacheCriteria {
            arch: self.arch,
            levels: &self.levels,
            hardware: self.hardware,
            isa_bits: self.isa_bits,
        }
    }

    fn read_glibc(&mut self, rootfs: &Rootfs, bytes: &[u8], cpu: CpuLevel) {
        self.default_dirs = default_dirs(bytes);
        if self.default_dirs.is_empty() {
            self.default_dirs = assumed_dirs(self.arch);
            let path = self.real_path.to_string();
            self.problems.push(format!(
                "{path} does not show its default directories; those of its processor are assumed"
            ));
        }
        let preload = rootfs
            .file(b"/etc/ld.so.preload")
            .map_or(0, |file| file.bytes);
        if preload > preload::FILE as u64 {
            let what = "/etc/ld.so.preload is longer than what is read of it";
            self.problems.push(format!("{what}: {preload} bytes"));
        }
        let first = self.default_dirs.first().cloned().unwrap_or_default();
        self.lib = first
            .strip_prefix(b"/")
            .and_then(|dir| dir.strip_suffix(b"/"))
            .unwrap_or_default()
            .into();
        // The subdirectories came with glibc 2.33 (NEWS for version 2.33).
        let has_levels = !matches!(self.libc, Libc::Glibc(Some(version)) if version < (2, 33));
        if self.arch.name == "x86-64" && has_levels {
            self.levels = cpu
                .subdirectories()
                .iter()
                .map(|level| level.as_bytes().into())
                .collect();
        }
        let levels = self.levels.iter();
        self.subdirectories = levels
            .map(|level| [b"glibc-hwcaps/", &**level, b"/"].concat().into())
            .collect();
        self.run_on(&LegacyHwcaps::baseline_of(self.arch));
        let Some(file) = rootfs.file(b"/etc/ld.so.cache") else {
            return;
        };
        let read = file
            .kept
            .as_deref()
            .ok_or_else(|| "it is too large".to_owned());
        match read.and_then(|bytes| ld_cache_file::read_cache(bytes, self.arch.data)) {
            Ok(CacheFile { cache, damage }) => {
                self.cache = Some(cache);
                self.problems.extend(damage.map(|why| {
                    format!("what the loader finds in /etc/ld.so.cache cannot be foretold: {why}")
                }));
            }
            Err(why) => self
                .problems
                .push(format!("the loader ignores /etc/ld.so.cache: {why}")),
        }
    }
}

/// The version in the banner of `ld.so`, such as `stable release version 2.36.`
fn version(bytes: &[u8]) -> Option<(u32, u32)> {
    let marker = b"release version ";
    let at = bytes
        .windows(marker.len())
        .position(|window| window == marker)?;
    let text: String = bytes
        .get(at + marker.len()..)?
        .iter()
        .take(12)
        .take_while(|byte| byte.is_ascii_digit() || **byte == b'.')
        .map(|&byte| char::from(byte))
        .collect();
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The directories compiled into `ld.so`: the first run of NUL-separated absolute paths that end in `/`
/// (`system_dirs` in elf/dl-load.c).
fn default_dirs(bytes: &[u8]) -> Vec<ByteString> {
    let is_dir = |text: &[u8]| {
        text.len() > 2
            && text.starts_with(b"/")
            && text.ends_with(b"/")
            && text.iter().all(u8::is_ascii_graphic)
    };
    let mut run: Vec<ByteString> = Vec::new();
    for text in bytes.split(|&byte| byte == 0) {
        // The list may stand behind other bytes that no NUL divides from it.
        let text = text
            .iter()
            .rposition(|byte| !byte.is_ascii_graphic())
            .map_or(text, |at| text.get(at + 1..).unwrap_or_default());
        if is_dir(text) && is_library_dir(text) {
            run.push(text.into());
        } else if run.len() >= 2 {
            return run;
        } else {
            run.clear();
        }
    }
    if run.len() >= 2 { run } else { Vec::new() }
}

fn is_library_dir(text: &[u8]) -> bool {
    text.windows(4).any(|part| part == b"/lib")
}

/// The default directories where `ld.so` does not show them.
fn assumed_dirs(arch: &Arch) -> Vec<ByteString> {
    let slib = if arch.interpreter.starts_with("/lib64/") {
        "lib64"
    } else {
        "lib"
    };
    [format!("/{slib}/"), format!("/usr/{slib}/")]
        .into_iter()
        .map(|dir| dir.into_bytes().into())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{default_dirs, version};

    #[test]
    fn default_directories_are_found_among_other_strings() {
        let text = |bytes: &[u8]| -> Vec<String> {
            default_dirs(bytes)
                .iter()
                .map(|dir| String::from_utf8_lossy(dir).into_owned())
                .collect()
        };
        let debian = b"\0/proc/self/\0\x01\x02/lib/x86_64-linux-gnu/\0/usr/lib/x86_64-linux-gnu/\0/lib/\0/usr/lib/\0\0x";
        assert_eq!(
            text(debian),
            [
                "/lib/x86_64-linux-gnu/",
                "/usr/lib/x86_64-linux-gnu/",
                "/lib/",
                "/usr/lib/"
            ]
        );
        assert_eq!(
            text(b"/etc/\0/lib64/\0/usr/lib64/\0glibc"),
            ["/lib64/", "/usr/lib64/"]
        );
        assert_eq!(text(b"\0/lib/\0nothing\0").len(), 0);
    }

    #[test]
    fn the_version_stands_in_the_banner() {
        assert_eq!(
            version(b"ld.so (Debian GLIBC 2.36-9+deb12u9) stable release version 2.36.\nCopy"),
            Some((2, 36))
        );
        assert_eq!(version(b"no banner"), None);
    }
}
