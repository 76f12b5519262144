//! Finds the image's loader: glibc or musl.

use super::dynamic_loader::DynamicLoader;
use super::machine::{Arch, CpuLevel, Libc};
use super::{glibc, musl};
use crate::elf::ByteString;
use crate::rootfs::Rootfs;

impl DynamicLoader {
    /// The image's loader for a processor. glibc wins if both exist: musl then only serves a tool of its own.
    pub fn find_default(rootfs: &Rootfs, arch: &'static Arch, cpu: CpuLevel) -> Option<Self> {
        Self::read_at(rootfs, Self::default_path(rootfs, arch)?.as_bytes(), arch, cpu)
    }

    /// The path of that loader.
    pub fn default_path(rootfs: &Rootfs, arch: &'static Arch) -> Option<&'static str> {
        let mut known = [arch.interpreter, arch.musl].into_iter();
        known.find(|path| rootfs.file(path.as_bytes()).is_some())
    }

    /// The loader at `path`, as named by a program's `PT_INTERP`; `None` if there is no such file.
    pub fn read_at(rootfs: &Rootfs, path: &[u8], arch: &'static Arch, cpu: CpuLevel) -> Option<Self> {
        let real_path = rootfs.lookup(path).ok()?.path;
        let file = rootfs.file(path)?;
        let bytes = file.kept.as_deref().unwrap_or_default();
        // On Alpine the loader is musl's `libc.so`, and only the link to it has the loader's name.
        let is_musl = real_path.name().starts_with(b"ld-musl-") || path.windows(8).any(|part| part == b"ld-musl-");
        let (libc, is_debian) = if is_musl {
            (Libc::Musl, false)
        } else {
            glibc::detect::identify(bytes)
        };
        let mut linker = Self {
            path: path.into(),
            real_path,
            libc,
            is_debian,
            arch,
            default_dirs: Vec::new(),
            levels: Vec::new(),
            subdirectories: Vec::new(),
            hardware: 0,
            isa_bits: cpu.isa_bits(),
            lib: ByteString::default(),
            platform: arch.platform.as_bytes().into(),
            cache_path: ByteString::default(),
            cache: None,
            cache_is_new: false,
            preload_path: ByteString::default(),
            budget: std::sync::Arc::default(),
            problems: Vec::new(),
        };
        match libc {
            Libc::Glibc(_) => glibc::detect::complete(&mut linker, rootfs, bytes, cpu),
            Libc::Musl => musl::detect::complete(&mut linker, rootfs),
        }
        Some(linker)
    }
}
