//! glibc's names for processor hardware before ISA levels, and the subdirectories it searched for them up to 2.36
//! (glibc 2.36, elf/dl-hwcaps.c, sysdeps/x86/dl-procinfo.c).

use super::machine::{Arch, Libc};
use crate::elf::ByteString;

/// The bit of the subdirectory `tls` (sysdeps/generic/dl-cache.h, `TLS_HWCAP_BIT`).
const TLS: u32 = 63;
/// The names on x86 and their bits; the last one is for aarch64.
const NAMES: [(&[u8], u32); 9] = [
    (b"sse2", 0),
    (b"x86_64", 1),
    (b"avx512_1", 2),
    (b"i586", 48),
    (b"i686", 49),
    (b"haswell", 50),
    (b"xeon_phi", 51),
    (b"tls", TLS),
    (b"atomics", 8),
];

/// Processor properties that the loader uses in addition to the ISA level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyHwcaps {
    /// The value of `$PLATFORM`: the kernel's name of the processor, or `haswell` or `xeon_phi`, which glibc
    /// substitutes on Intel processors (sysdeps/x86/cpu-features.c).
    pub platform: ByteString,
    /// The names of its capabilities, highest bit first.
    pub capabilities: Vec<ByteString>,
}

impl LegacyHwcaps {
    /// The capabilities of every processor used with GPUs. `haswell` and `avx512_1` exist only on Intel's; `atomics`
    /// (Armv8.1) on all of NVIDIA's since Xavier and on every server's.
    pub fn baseline_of(arch: &Arch) -> Self {
        let capabilities = match arch.name {
            "x86-64" => vec![ByteString::from(&b"x86_64"[..])],
            "aarch64" => vec![ByteString::from(&b"atomics"[..])],
            _ => Vec::new(),
        };
        Self {
            platform: arch.platform.as_bytes().into(),
            capabilities,
        }
    }

    /// The subdirectories in search order, each with a trailing `/`: all subsets of `tls`, platform and capabilities,
    /// largest first.
    pub(super) fn subdirectories(&self) -> Vec<ByteString> {
        let tls = ByteString::from(&b"tls"[..]);
        let names: Vec<&ByteString> = [&tls, &self.platform].into_iter().chain(&self.capabilities).collect();
        let mut all: Vec<ByteString> = Vec::new();
        // With `tls` as the highest bit, counting subsets downwards yields the loader's order. The limit bounds their
        // number; a processor has three or four names.
        for subset in (1..1_u32 << names.len().min(8)).rev() {
            let last = names.len() - 1;
            let chosen = names
                .iter()
                .enumerate()
                .filter(|(at, _)| subset >> (last - at) & 1 == 1);
            let path: Vec<u8> = chosen.flat_map(|(_, name)| [name, &b"/"[..]].concat()).collect();
            // `x86_64` is both platform and capability, which yields duplicates.
            if !all.iter().any(|known| **known == *path) {
                all.push(path.into());
            }
        }
        all
    }

    /// The bits of usable cache entries (elf/dl-cache.c, `search_cache`).
    pub(super) fn bits(&self) -> u64 {
        let names = [&self.platform].into_iter().chain(&self.capabilities);
        let bits = names.filter_map(|name| capability_bit(name));
        // `_DL_HWCAP_TLS_MASK` is accepted on every processor (`search_cache`).
        bits.fold(1 << TLS, |all, bit| all | bit)
    }
}

/// Whether this loader searches legacy hardware subdirectories; none since 2.37 (glibc, NEWS).
pub(super) fn searches_hwcaps(arch: &Arch, libc: Libc) -> bool {
    libc.is_glibc_before((2, 37)) && matches!(arch.name, "x86-64" | "aarch64")
}

/// The bit of a hardware name.
pub(super) fn capability_bit(name: &[u8]) -> Option<u64> {
    let known = NAMES.iter().find(|(known, _)| *known == name);
    known.map(|(_, bit)| 1 << bit)
}

#[cfg(test)]
mod tests {
    use super::LegacyHwcaps;

    fn check(platform: &str, capabilities: &[&str], expected: &str) {
        let hardware = LegacyHwcaps {
            platform: platform.as_bytes().into(),
            capabilities: capabilities.iter().map(|name| name.as_bytes().into()).collect(),
        };
        let paths: Vec<String> = hardware
            .subdirectories()
            .iter()
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect();
        assert_eq!(paths.join(" "), expected);
    }

    #[test]
    fn the_fullest_subdirectory_comes_first() {
        let any = "tls/x86_64/x86_64/ tls/x86_64/ tls/ x86_64/x86_64/ x86_64/";
        check("x86_64", &["x86_64"], any);
        check(
            "aarch64",
            &["atomics"],
            "tls/aarch64/atomics/ tls/aarch64/ tls/atomics/ tls/ aarch64/atomics/ aarch64/ atomics/",
        );
        let intel = "tls/haswell/x86_64/ tls/haswell/ tls/x86_64/ tls/ haswell/x86_64/ haswell/ x86_64/";
        check("haswell", &["x86_64"], intel);
    }
}
