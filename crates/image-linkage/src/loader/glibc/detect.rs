//! The settings of glibc's `ld.so`. Default directories are compiled in and differ between distributions, so they are
//! read from the image's own file.

use std::sync::Arc;

use super::preload;
use crate::elf::ByteString;
use crate::escape;
use crate::loader::dynamic_loader::{DynamicLoader, SYSTEM_CACHE};
use crate::loader::ld_cache_file::{self, CacheFile};
use crate::loader::legacy_hwcaps::LegacyHwcaps;
use crate::loader::machine::{Arch, CpuLevel, Libc};
use crate::rootfs::{PATH, Rootfs};

/// The preload file of most loaders.
const PRELOAD: &[u8] = b"/etc/ld.so.preload";

/// The libc and version from the bytes of `ld.so`, and whether Debian or Ubuntu built it.
pub(in crate::loader) fn identify(bytes: &[u8]) -> (Libc, bool) {
    let is_debian = [&b"(Debian GLIBC "[..], b"(Ubuntu GLIBC "]
        .iter()
        .any(|banner| bytes.windows(banner.len()).any(|part| part == *banner));
    (Libc::Glibc(version(bytes)), is_debian)
}

/// Fills in glibc's settings from the loader's bytes, the processor and the cache.
pub(in crate::loader) fn complete(linker: &mut DynamicLoader, rootfs: &Rootfs, bytes: &[u8], cpu: CpuLevel) {
    linker.cache_path = system_file(bytes, b"/ld.so.cache").unwrap_or_else(|| SYSTEM_CACHE.into());
    linker.preload_path = system_file(bytes, b".so.preload").unwrap_or_else(|| PRELOAD.into());
    let is_moved = *linker.cache_path != *SYSTEM_CACHE;
    linker.default_dirs = default_dirs(bytes, if is_moved { 1 } else { 2 });
    if linker.default_dirs.is_empty() {
        linker.default_dirs = assumed_dirs(linker.arch);
        let path = linker.real_path.to_string();
        linker.problems.push(format!(
            "{path} does not contain its default directories; assuming those of its architecture"
        ));
    }
    if let Some(preload) = rootfs.file(&linker.preload_path) {
        let (path, bytes) = (escape::escape_bytes(&linker.preload_path), preload.bytes);
        if bytes > preload::PRELOAD_FILE as u64 {
            linker
                .problems
                .push(format!("{path} is longer than what is read of it: {bytes} bytes"));
        // The file is a link whose target has another name, so the index did not keep the content.
        } else if preload.kept.is_none() {
            linker.problems.push(format!("the content of {path} is unknown"));
        }
    }
    // The value of `$LIB` is not marked in the file. It is the first default directory without the outer slashes.
    let first = linker.default_dirs.first().cloned().unwrap_or_default();
    linker.lib = first
        .strip_prefix(b"/")
        .and_then(|dir| dir.strip_suffix(b"/"))
        .unwrap_or_default()
        .into();
    // glibc 2.33 added the subdirectories (NEWS for version 2.33).
    let knows_levels = !linker.libc.is_glibc_before((2, 33));
    if linker.arch.has_levels() && knows_levels {
        linker.levels = cpu
            .subdirectories()
            .iter()
            .map(|level| level.as_bytes().into())
            .collect();
    }
    let levels = linker.levels.iter();
    linker.subdirectories = levels
        .map(|level| [b"glibc-hwcaps/", &**level, b"/"].concat().into())
        .collect();
    linker.run_on(&LegacyHwcaps::baseline_of(linker.arch));
    read_cache(linker, rootfs);
}

fn read_cache(linker: &mut DynamicLoader, rootfs: &Rootfs) {
    let Some(file) = rootfs.file(&linker.cache_path) else {
        return;
    };
    let path = escape::escape_bytes(&linker.cache_path);
    let read = file.kept.as_deref().ok_or_else(|| "it was not read".to_owned());
    let problem = match read.and_then(|bytes| ld_cache_file::read_cache(bytes, linker.arch.data)) {
        Ok(CacheFile { cache, damage }) => {
            linker.cache = Some(Arc::new(cache));
            damage.map(|why| format!("what the loader finds in {path} cannot be determined: {why}"))
        }
        Err(why) => Some(format!("the loader ignores {path}: {why}")),
    };
    linker.problems.extend(problem);
}

/// The version in the banner of `ld.so`, such as `stable release version 2.36.`
fn version(bytes: &[u8]) -> Option<(u32, u32)> {
    let marker = b"release version ";
    let at = bytes.windows(marker.len()).position(|window| window == marker)?;
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

/// The maximum number of default directories. glibc has at most four.
const DIRECTORIES: usize = 64;

/// The strings in `ld.so` that are absolute paths; `None` for other strings.
fn paths(bytes: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    bytes.split(|&byte| byte == 0).map(|text| {
        // Non-text bytes may precede a string without a NUL between them.
        let text = text
            .iter()
            .rposition(|byte| !byte.is_ascii_graphic())
            .map_or(text, |at| text.get(at + 1..).unwrap_or_default());
        Some(text).filter(|text| text.starts_with(b"/") && text.len() < PATH)
    })
}

/// The directories compiled into `ld.so`: the first run of at least `least` NUL-separated absolute paths that end in
/// `/` (`system_dirs` in elf/dl-load.c).
fn default_dirs(bytes: &[u8], least: usize) -> Vec<ByteString> {
    let mut run: Vec<ByteString> = Vec::new();
    for text in paths(bytes) {
        if let Some(path) = text.filter(|path| path.len() > 2 && path.ends_with(b"/") && is_library_dir(path)) {
            if run.len() < DIRECTORIES {
                run.push(path.into());
            }
        // A single path may be anything. Distributions have at least two directories.
        } else if run.len() >= least {
            return run;
        } else {
            run.clear();
        }
    }
    if run.len() >= least { run } else { Vec::new() }
}

/// The first path in `ld.so` with this ending. Nix and Guix choose the directory of such files at build time
/// (`LD_SO_CACHE` in sysdeps/generic/dl-cache.h, `preload_file` in elf/rtld.c).
fn system_file(bytes: &[u8], ending: &[u8]) -> Option<ByteString> {
    let mut found = paths(bytes).flatten().filter(|path| path.ends_with(ending));
    found.next().map(Into::into)
}

/// Whether it may be a default directory. The file also contains paths such as `/proc/self/`.
fn is_library_dir(text: &[u8]) -> bool {
    text.windows(4).any(|part| part == b"/lib")
}

/// Default directories for an `ld.so` that does not show them.
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
    use super::{default_dirs, system_file, version};

    #[test]
    fn default_directories_are_found_among_other_strings() {
        let text = |bytes: &[u8]| -> Vec<String> {
            default_dirs(bytes, 2)
                .iter()
                .map(|dir| String::from_utf8_lossy(dir).into_owned())
                .collect()
        };
        let debian =
            b"\0/proc/self/\0\x01\x02/lib/x86_64-linux-gnu/\0/usr/lib/x86_64-linux-gnu/\0/lib/\0/usr/lib/\0\0x";
        assert_eq!(
            text(debian),
            [
                "/lib/x86_64-linux-gnu/",
                "/usr/lib/x86_64-linux-gnu/",
                "/lib/",
                "/usr/lib/"
            ]
        );
        assert_eq!(text(b"/etc/\0/lib64/\0/usr/lib64/\0glibc"), ["/lib64/", "/usr/lib64/"]);
        assert_eq!(text(b"\0/lib/\0nothing\0").len(), 0);
        let own = |least| default_dirs(b"\0/proc/self/\0/opt/glibc/lib/\0nothing\0", least);
        assert_eq!((own(1), own(2)), (vec![(*b"/opt/glibc/lib/").into()], Vec::new()));
    }

    #[test]
    fn the_files_of_a_loader_follow_its_prefix() {
        let found = |bytes: &[u8], ending: &[u8]| {
            let found = system_file(bytes, ending)?;
            Some(String::from_utf8_lossy(&found).into_owned())
        };
        let nix = b"\0Do not use /nix/glibc/etc/ld.so.cache\n\0/nix/glibc/etc/ld.so.cache\0/etc/ld-nix.so.preload\0";
        assert_eq!(
            found(nix, b"/ld.so.cache").as_deref(),
            Some("/nix/glibc/etc/ld.so.cache")
        );
        assert_eq!(found(nix, b".so.preload").as_deref(), Some("/etc/ld-nix.so.preload"));
        assert_eq!(found(b"\0etc/ld.so.cache\0", b"/ld.so.cache"), None);
        let long = [&b"\0/"[..], &[b'x'; 4096], b"/ld.so.cache\0"].concat();
        assert_eq!(found(&long, b"/ld.so.cache"), None);
        assert_eq!(default_dirs(&b"\0/lib/".repeat(100_000), 2).len(), 64);
    }

    #[test]
    fn the_version_is_read_from_the_banner() {
        assert_eq!(
            version(b"ld.so (Debian GLIBC 2.36-9+deb12u9) stable release version 2.36.\nCopy"),
            Some((2, 36))
        );
        assert_eq!(version(b"no banner"), None);
    }
}
