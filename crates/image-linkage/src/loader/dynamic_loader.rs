//! A dynamic loader of an image. `detect` reads it.

use std::sync::Arc;

use super::budget::LoaderBudget;
use super::ld_cache::{CacheCriteria, LdCache};
use super::legacy_hwcaps::{self, LegacyHwcaps};
use super::machine::{Arch, Libc};
use crate::elf::ByteString;
use crate::path::RootPath;

/// The cache written by `ldconfig` and read by the loaders of distributions.
pub const SYSTEM_CACHE: &[u8] = b"/etc/ld.so.cache";

/// A dynamic loader of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DynamicLoader {
    /// The path that programs name in `PT_INTERP`.
    pub path: ByteString,
    /// The canonical path.
    pub real_path: RootPath,
    /// The C library it belongs to.
    pub libc: Libc,
    /// Whether it is a glibc of Debian or Ubuntu, whose patches change which files are skipped.
    pub is_debian: bool,
    /// The processor architecture.
    pub arch: &'static Arch,
    /// The default directories: glibc's with a trailing `/`, musl's as written.
    pub default_dirs: Vec<ByteString>,
    /// The searched `glibc-hwcaps` levels, best first.
    pub levels: Vec<ByteString>,
    /// The subdirectories searched before a directory itself, each with a trailing `/`.
    pub subdirectories: Vec<ByteString>,
    /// The bits of the legacy hardware subdirectories whose cache entries are usable.
    pub hardware: u64,
    /// The bits of the x86-64 levels that the processor supports. They decide which cache entries are usable.
    pub isa_bits: u32,
    /// The value of `$LIB`.
    pub lib: ByteString,
    /// The value of `$PLATFORM`.
    pub platform: ByteString,
    /// The path of glibc's cache: [`SYSTEM_CACHE`], unless glibc was built with its own prefix.
    pub cache_path: ByteString,
    /// The parsed cache; `None` if it is missing or unusable.
    pub cache: Option<Arc<LdCache>>,
    /// Whether `ldconfig` rewrites the cache at container start. It is then world-readable.
    pub cache_is_new: bool,
    /// The file that lists glibc's preloads, usually `/etc/ld.so.preload`.
    pub preload_path: ByteString,
    /// The budget shared by all processes that it starts.
    pub budget: Arc<LoaderBudget>,
    /// The parts that could not be read: the cache or the default directories.
    pub problems: Vec<String>,
}

impl DynamicLoader {
    /// Sets the exact processor: `$PLATFORM` and, before glibc 2.37, its hardware subdirectories.
    pub fn run_on(&mut self, processor: &LegacyHwcaps) {
        self.platform.clone_from(&processor.platform);
        self.subdirectories
            // Remove those of the previous processor, set at the latest when the loader was read.
            .retain(|name| name.starts_with(b"glibc-hwcaps/"));
        self.hardware = 0;
        if legacy_hwcaps::searches_hwcaps(self.arch, self.libc) {
            self.subdirectories.extend(processor.subdirectories());
            self.hardware = processor.bits();
        }
    }

    /// The processors that make this loader search a folder of this name; `None` if it is not such a subdirectory.
    pub fn processors_of(&self, folder: &[u8]) -> Option<&'static str> {
        if self.arch.name != "x86-64" {
            return None;
        }
        let folder = [b"/", folder].concat();
        let is_old = legacy_hwcaps::searches_hwcaps(self.arch, self.libc);
        let is_new = matches!(self.libc, Libc::Glibc(_)) && !self.libc.is_glibc_before((2, 33));
        let known = [
            (&b"/haswell"[..], is_old, "Intel's processors with AVX2"),
            (b"/haswell/avx512_1", is_old, "Intel's processors with AVX-512"),
            (b"/avx512_1", is_old, "Intel's processors with AVX-512"),
            (b"/xeon_phi", is_old, "Intel's Xeon Phi"),
            (
                b"/glibc-hwcaps/x86-64-v2",
                is_new,
                "processors of the level x86-64-v2 and above",
            ),
            (
                b"/glibc-hwcaps/x86-64-v3",
                is_new,
                "processors of the level x86-64-v3 and above",
            ),
            (b"/glibc-hwcaps/x86-64-v4", is_new, "processors of the level x86-64-v4"),
        ];
        let found = known
            .into_iter()
            .filter(|(name, counts, _)| *counts && folder.ends_with(name));
        found.map(|(_, _, who)| who).next_back()
    }

    /// The path for `name` in the loader's cache.
    pub fn cached_path(&self, name: &[u8]) -> Option<&[u8]> {
        let criteria = CacheCriteria {
            arch: self.arch,
            levels: &self.levels,
            hardware: self.hardware,
            isa_bits: self.isa_bits,
        };
        self.cache.as_ref()?.lookup(name, &criteria)
    }
}
