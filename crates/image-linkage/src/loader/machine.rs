//! What differs between processors: names, directories and cache flags (glibc sysdeps/*/dl-cache.h and ldconfig.h).

use std::str::FromStr;

use elf::abi::{EM_386, EM_AARCH64, EM_ARM, EM_PPC64, EM_RISCV, EM_X86_64};

/// A processor and word size that glibc knows.
#[derive(Debug, PartialEq, Eq)]
pub struct Arch {
    /// The name used in reports.
    pub name: &'static str,
    /// The number in `e_machine` of the ELF header.
    pub machine: u16,
    /// The class byte: 1 is 32-bit, 2 is 64-bit.
    pub class: u8,
    /// The data byte: 1 is little-endian, 2 is big-endian.
    pub data: u8,
    /// The path of glibc's loader, from the processor's ABI supplement.
    pub interpreter: &'static str,
    /// The path of musl's loader.
    pub musl: &'static str,
    /// The flags of an entry of `ld.so.cache` for this processor.
    pub cache_flags: i32,
    /// What `$PLATFORM` stands for.
    pub platform: &'static str,
}

/// The processors, the most common first.
pub(crate) static ARCHES: [Arch; 6] = [
    Arch {
        name: "x86-64",
        machine: EM_X86_64,
        class: 2,
        data: 1,
        interpreter: "/lib64/ld-linux-x86-64.so.2",
        musl: "/lib/ld-musl-x86_64.so.1",
        // The low byte 3 is `FLAG_ELF_LIBC6`, the high one the processor (sysdeps/generic/ldconfig.h).
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
        // The oldest processor that ppc64le runs on.
        platform: "power8",
    },
    Arch {
        name: "arm",
        machine: EM_ARM,
        class: 1,
        data: 1,
        interpreter: "/lib/ld-linux-armhf.so.3",
        musl: "/lib/ld-musl-armhf.so.1",
        // `FLAG_ARM_LIBHF`: that of armhf, not of armel.
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
        // `FLAG_RISCV_FLOAT_ABI_DOUBLE`, as `lp64d` in the loader's name says.
        cache_flags: 0x1003,
        platform: "riscv64",
    },
];

/// The C library that a loader belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Libc {
    /// glibc, with its major and minor version where `ld.so` says it.
    Glibc(Option<(u32, u32)>),
    /// musl, of any version.
    Musl,
}

impl Libc {
    /// Whether it is a glibc older than this version; one that does not say its version is none.
    pub(super) fn is_glibc_before(self, version: (u32, u32)) -> bool {
        matches!(self, Self::Glibc(Some(own)) if own < version)
    }
}

impl Arch {
    /// The processor of an object; `None` for one that is not known here.
    pub fn of_object(facts: &crate::elf::ElfFacts) -> Option<&'static Self> {
        ARCHES
            .iter()
            .find(|arch| arch.machine == facts.machine && arch.class == facts.class())
    }

    /// The flags that the `ldconfig` of this processor gives an object in its cache; `None` for an object of
    /// a processor that it does not know (glibc sysdeps/unix/sysv/linux/*/readelflib.c).
    pub(crate) fn ldconfig_flags(&self, facts: &crate::elf::ElfFacts) -> Option<i32> {
        // One ldconfig serves both word sizes of a processor.
        if !self.runs(facts) {
            return None;
        }
        // An x32 object: the processor is x86-64, the class 32-bit.
        if facts.machine == EM_X86_64 && facts.class() == 1 {
            return Some(0x0803);
        }
        // An i386 object says by what it needs that it is for glibc (elf/readelflib.c, `known_libs`).
        let is_glibc = facts
            .needed
            .iter()
            .any(|name| matches!(&**name, b"libc.so.6" | b"libm.so.6"))
            || facts.interp.as_deref() == Some(b"/lib/ld-linux.so.2");
        // `FLAG_ELF` alone: the library may be of another C library, or of none.
        if facts.machine == EM_386 && !is_glibc {
            return Some(1);
        }
        Some(Self::of_object(facts)?.cache_flags)
    }

    /// Whether the processor executes an object, in either word size.
    pub fn runs(&self, facts: &crate::elf::ElfFacts) -> bool {
        let [_, _, _, _, _, data, ..] = facts.ident;
        let family = |machine| match machine {
            EM_386 | EM_X86_64 => EM_X86_64,
            EM_ARM | EM_AARCH64 => EM_AARCH64,
            other => other,
        };
        data == self.data && family(facts.machine) == family(self.machine)
    }

    /// Whether the processor has micro-architecture levels for which glibc knows subdirectories.
    pub(super) fn has_levels(&self) -> bool {
        self.name == "x86-64"
    }

    /// The processor of a platform, by Go's name.
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

/// The name of a processor by `e_machine`, also of one whose loader is not known here.
pub(crate) fn machine_name(machine: u16) -> String {
    match ARCHES.iter().find(|arch| arch.machine == machine) {
        Some(arch) => arch.name.to_owned(),
        None => format!("machine {machine}"),
    }
}

/// The micro-architecture level of an x86-64 processor (x86-64 psABI, "Micro-Architecture Levels").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CpuLevel {
    /// SSE2, which every x86-64 processor has.
    V1,
    /// Also SSE4.2, SSSE3 and POPCNT.
    V2,
    /// Also AVX2 and FMA: every machine that GPUs are rented with.
    V3,
    /// Also AVX-512 in its parts F, BW, CD, DQ and VL.
    V4,
}

impl FromStr for CpuLevel {
    type Err = String;

    /// Reads `x86-64`, `x86-64-v1` … `x86-64-v4`.
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
    /// The subdirectories of `glibc-hwcaps` that are searched, the best first.
    pub(crate) fn subdirectories(self) -> &'static [&'static str] {
        match self {
            // The libraries of the baseline lie in the directory itself.
            Self::V1 => &[],
            Self::V2 => &["x86-64-v2"],
            Self::V3 => &["x86-64-v3", "x86-64-v2"],
            Self::V4 => &["x86-64-v4", "x86-64-v3", "x86-64-v2"],
        }
    }

    /// The bits of `GNU_PROPERTY_X86_ISA_1_NEEDED` that the processor has.
    pub fn isa_bits(self) -> u32 {
        match self {
            Self::V1 => 0b0001,
            Self::V2 => 0b0011,
            Self::V3 => 0b0111,
            Self::V4 => 0b1111,
        }
    }
}
