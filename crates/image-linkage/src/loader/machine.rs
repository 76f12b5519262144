//! Properties of processor architectures: names, directories and cache flags (glibc sysdeps/*/dl-cache.h and
//! ldconfig.h).

use std::str::FromStr;

use elf::abi::{EM_386, EM_AARCH64, EM_ARM, EM_PPC64, EM_RISCV, EM_X86_64};

/// A processor architecture and word size supported by glibc.
#[derive(Debug, PartialEq, Eq)]
pub struct Arch {
    /// The name in reports.
    pub name: &'static str,
    /// `e_machine` in the ELF header.
    pub machine: u16,
    /// `EI_CLASS`: 1 is 32-bit, 2 is 64-bit.
    pub class: u8,
    /// `EI_DATA`: 1 is little-endian, 2 is big-endian.
    pub data: u8,
    /// The path of glibc's loader, defined by the ABI supplement.
    pub interpreter: &'static str,
    /// The path of musl's loader.
    pub musl: &'static str,
    /// The flags of a cache entry.
    pub cache_flags: i32,
    /// The value of `$PLATFORM`.
    pub platform: &'static str,
}

/// The architectures, most common first.
pub(crate) static ARCHES: [Arch; 6] = [
    Arch {
        name: "x86-64",
        machine: EM_X86_64,
        class: 2,
        data: 1,
        interpreter: "/lib64/ld-linux-x86-64.so.2",
        musl: "/lib/ld-musl-x86_64.so.1",
        // Low byte: `FLAG_ELF_LIBC6` (3). High byte: the architecture (sysdeps/generic/ldconfig.h).
        cache_flags: 0x0303,
        platform: "x86_64",
    },
    Arch {
        name: "aarch64",
        machine: EM_AARCH64,
        class: 2,
        data: 1,
        interpreter: "/lib/ld-linux-aarch64.so.1",
        musl: "/lib/ld-musl-aarch64.so.1",
        cache_flags: 0x0a03,
        platform: "aarch64",
    },
    Arch {
        name: "i386",
        machine: EM_386,
        class: 1,
        data: 1,
        interpreter: "/lib/ld-linux.so.2",
        musl: "/lib/ld-musl-i386.so.1",
        cache_flags: 0x0003,
        platform: "i686",
    },
    Arch {
        name: "ppc64le",
        machine: EM_PPC64,
        class: 2,
        data: 1,
        interpreter: "/lib64/ld64.so.2",
        musl: "/lib/ld-musl-powerpc64le.so.1",
        cache_flags: 0x0503,
        // The oldest processor that runs ppc64le.
        platform: "power8",
    },
    Arch {
        name: "arm",
        machine: EM_ARM,
        class: 1,
        data: 1,
        interpreter: "/lib/ld-linux-armhf.so.3",
        musl: "/lib/ld-musl-armhf.so.1",
        // `FLAG_ARM_LIBHF`: armhf, not armel.
        cache_flags: 0x0903,
        platform: "v7l",
    },
    Arch {
        name: "riscv64",
        machine: EM_RISCV,
        class: 2,
        data: 1,
        interpreter: "/lib/ld-linux-riscv64-lp64d.so.1",
        musl: "/lib/ld-musl-riscv64.so.1",
        // `FLAG_RISCV_FLOAT_ABI_DOUBLE`: the `lp64d` in the loader's name.
        cache_flags: 0x1003,
        platform: "riscv64",
    },
];

/// The C library of a loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Libc {
    /// glibc, with its version if `ld.so` shows it.
    Glibc(Option<(u32, u32)>),
    /// musl of any version.
    Musl,
}

impl Libc {
    /// Whether it is a glibc older than this version; false if its version is unknown.
    pub(super) fn is_glibc_before(self, version: (u32, u32)) -> bool {
        matches!(self, Self::Glibc(Some(own)) if own < version)
    }
}

impl Arch {
    /// The architecture of an object; `None` if unsupported.
    pub fn of_object(facts: &crate::elf::ElfFacts) -> Option<&'static Self> {
        ARCHES
            .iter()
            .find(|arch| arch.machine == facts.machine && arch.class == facts.class())
    }

    /// The flags that this architecture's `ldconfig` gives an object; `None` for an architecture it does not know
    /// (glibc sysdeps/unix/sysv/linux/*/readelflib.c).
    pub(crate) fn ldconfig_flags(&self, facts: &crate::elf::ElfFacts) -> Option<i32> {
        // One ldconfig handles both word sizes.
        if !self.runs(facts) {
            return None;
        }
        // x32: the x86-64 machine with the 32-bit class.
        if facts.machine == EM_X86_64 && facts.class() == 1 {
            return Some(0x0803);
        }
        // An i386 object belongs to glibc if it needs one of these libraries (elf/readelflib.c, `known_libs`).
        let is_glibc = facts
            .needed
            .iter()
            .any(|name| matches!(&**name, b"libc.so.6" | b"libm.so.6"))
            || facts.interp.as_deref() == Some(b"/lib/ld-linux.so.2");
        // `FLAG_ELF`: another C library or none.
        if facts.machine == EM_386 && !is_glibc {
            return Some(1);
        }
        Some(Self::of_object(facts)?.cache_flags)
    }

    /// Whether the processor can execute an object, in either word size.
    pub fn runs(&self, facts: &crate::elf::ElfFacts) -> bool {
        let [_, _, _, _, _, data, ..] = facts.ident;
        let [found, own] = [facts.machine, self.machine].map(|machine| match machine {
            EM_386 => EM_X86_64,
            EM_ARM => EM_AARCH64,
            other => other,
        });
        data == self.data && found == own
    }

    /// Whether glibc has subdirectories for ISA levels of this architecture.
    pub(super) fn has_levels(&self) -> bool {
        self.name == "x86-64"
    }

    /// The architecture for a Go architecture name.
    pub fn of_platform(goarch: &str) -> Option<&'static Self> {
        let name = match goarch {
            "amd64" => "x86-64",
            "arm64" => "aarch64",
            "386" => "i386",
            other => other,
        };
        ARCHES.iter().find(|arch| arch.name == name)
    }
}

/// The name of an `e_machine` value, with a fallback for unsupported ones.
pub(crate) fn machine_name(machine: u16) -> String {
    match ARCHES.iter().find(|arch| arch.machine == machine) {
        Some(arch) => arch.name.to_owned(),
        None => format!("machine {machine}"),
    }
}

/// The ISA level of an x86-64 processor (x86-64 psABI, "Micro-Architecture Levels").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CpuLevel {
    /// SSE2; all x86-64 processors.
    V1,
    /// Also SSE4.2, SSSE3 and POPCNT.
    V2,
    /// Also AVX2 and FMA; all machines rented with GPUs.
    V3,
    /// Also AVX-512 F, BW, CD, DQ and VL.
    V4,
}

impl FromStr for CpuLevel {
    type Err = String;

    /// Parses `x86-64`, `x86-64-v1` … `x86-64-v4`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "x86-64" | "x86-64-v1" => Ok(Self::V1),
            "x86-64-v2" => Ok(Self::V2),
            "x86-64-v3" => Ok(Self::V3),
            "x86-64-v4" => Ok(Self::V4),
            _ => Err("expected x86-64-v1, x86-64-v2, x86-64-v3 or x86-64-v4".to_owned()),
        }
    }
}

impl CpuLevel {
    /// The searched subdirectories of `glibc-hwcaps`, best first.
    pub(crate) fn subdirectories(self) -> &'static [&'static str] {
        match self {
            // Baseline libraries are in the directory itself.
            Self::V1 => &[],
            Self::V2 => &["x86-64-v2"],
            Self::V3 => &["x86-64-v3", "x86-64-v2"],
            Self::V4 => &["x86-64-v4", "x86-64-v3", "x86-64-v2"],
        }
    }

    /// The supported bits of `GNU_PROPERTY_X86_ISA_1_NEEDED`.
    pub fn isa_bits(self) -> u32 {
        match self {
            Self::V1 => 0b0001,
            Self::V2 => 0b0011,
            Self::V3 => 0b0111,
            Self::V4 => 0b1111,
        }
    }
}
