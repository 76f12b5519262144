//! The dynamic loader of an image, as it was read; `detect` reads it.

use std::sync::Arc;

use super::budget::LoaderBudget;
use super::ld_cache::{CacheCriteria, LdCache};
use super::legacy_hwcaps::{self, LegacyHwcaps};
use super::machine::{Arch, Libc};
use crate::elf::ByteString;
use crate::path::RootPath;

/// The cache that `ldconfig` writes, and that the loaders of distributions read.
pub const SYSTEM_CACHE: &[u8] = b"/etc/ld.so.cache";

/// A dynamic loader of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DynamicLoader {
    /// The path by which programs name it in `PT_INTERP`.
    pub path: ByteString,
    /// The path without links.
    pub real_path: RootPath,
    /// The C library that it belongs to.
    pub libc: Libc,
    /// Whether it is a glibc of Debian or Ubuntu, whose patches change what is skipped.
    pub is_debian: bool,
    /// The processor that it is for.
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
    /// Where glibc's looks for its cache: [`SYSTEM_CACHE`], but for one that was built for a folder of its own.
    pub cache_path: ByteString,
    /// What the cache says; `None` where it is absent or unusable.
    pub cache: Option<Arc<LdCache>>,
    /// Whether `ldconfig` has made the cache when the container started, which everybody can read then.
    pub cache_is_new: bool,
    /// The file that names what glibc's loads before all else: `/etc/ld.so.preload` in most.
    pub preload_path: ByteString,
    /// What the processes that it starts may still ask for, together.
    pub budget: Arc<LoaderBudget>,
    /// What could not be read: the cache, or the default directories.
    pub problems: Vec<String>,
}

impl DynamicLoader {
    /// Puts the loader on a processor that it knows by more than a level: `$PLATFORM`, and before glibc 2.37 the
    /// subdirectories of its hardware.
    pub fn run_on(&mut self, processor: &LegacyHwcaps) {
        self.platform.clone_from(&processor.platform);
        self.subdirectories
            // A call for another processor came before, at the latest when the loader was read.
            .retain(|name| name.starts_with(b"glibc-hwcaps/"));
        self.hardware = 0;
        if legacy_hwcaps::searches_hwcaps(self.arch, self.libc) {
            self.subdirectories.extend(processor.subdirectories());
            self.hardware = processor.bits();
        }
    }

    /// The processors on which alone this loader looks into a folder of this name; nothing for one that is no
    /// subdirectory of hardware, or of no meaning to this loader.
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

    /// The path that the loader takes for `name` out of its cache.
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
