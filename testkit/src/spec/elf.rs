//! The description of an ELF object in a fixture.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::make::unescape;
use crate::elf::{Class, Elf, Endian, Hash, IsaLevel, Kind, Machine, df_1};

const DT_AUXILIARY: u64 = 0x7fff_fffd;
const DT_FILTER: u64 = 0x7fff_ffff;

/// An ELF object. Defaults are those of [`Elf::new`]: a 64-bit little-endian shared object for x86-64.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of a file")]
pub struct ElfSpec {
    /// The kind of object.
    #[serde(skip_serializing_if = "is_default")]
    pub kind: KindSpec,
    /// 32 or 64.
    #[serde(skip_serializing_if = "is_default")]
    pub class: Option<u8>,
    /// The byte order.
    #[serde(skip_serializing_if = "is_default")]
    pub endian: EndianSpec,
    /// The machine.
    #[serde(skip_serializing_if = "is_default")]
    pub machine: MachineSpec,
    /// `PT_INTERP`; the default of an executable is glibc's loader for its machine.
    #[serde(skip_serializing_if = "is_default")]
    pub interp: Option<String>,
    /// `DT_SONAME`.
    #[serde(skip_serializing_if = "is_default")]
    pub soname: Option<String>,
    /// Each `DT_NEEDED`.
    #[serde(skip_serializing_if = "is_default")]
    pub needed: Vec<String>,
    /// Each `DT_AUXILIARY`.
    #[serde(skip_serializing_if = "is_default")]
    pub auxiliary: Vec<String>,
    /// Each `DT_FILTER`.
    #[serde(skip_serializing_if = "is_default")]
    pub filter: Vec<String>,
    /// `DT_RPATH`.
    #[serde(skip_serializing_if = "is_default")]
    pub rpath: Option<String>,
    /// `DT_RUNPATH`.
    #[serde(skip_serializing_if = "is_default")]
    pub runpath: Option<String>,
    /// Whether `DF_1_NODEFLIB` is set.
    #[serde(skip_serializing_if = "is_default")]
    pub nodeflib: bool,
    /// Whether `DF_1_PIE` is set, as it is in every executable.
    #[serde(skip_serializing_if = "is_default")]
    pub pie: bool,
    /// The defined versions, without the base.
    #[serde(skip_serializing_if = "is_default")]
    pub verdef: Vec<String>,
    /// The required versions of each file.
    #[serde(skip_serializing_if = "is_default")]
    pub verneed: IndexMap<String, Vec<String>>,
    /// The weakly required versions of each file.
    #[serde(skip_serializing_if = "is_default")]
    pub weak_verneed: IndexMap<String, Vec<String>>,
    /// The required x86-64 level, 1 to 4; no processor supports 5 yet.
    #[serde(skip_serializing_if = "is_default")]
    pub isa_needed: Option<u8>,
    /// Functions exported, as `name` or `name@version`.
    #[serde(skip_serializing_if = "is_default")]
    pub exports: Vec<String>,
    /// Imported functions, as `name` or `name@version`; `verneed` must contain the version.
    #[serde(skip_serializing_if = "is_default")]
    pub imports: Vec<String>,
    /// Functions imported that may be absent.
    #[serde(skip_serializing_if = "is_default")]
    pub weak_imports: Vec<String>,
    /// NUL-terminated strings in the read-only data, without gaps.
    #[serde(skip_serializing_if = "is_default")]
    pub strings: Vec<String>,
    /// The JSON of a `.note.dlopen`.
    #[serde(skip_serializing_if = "is_default")]
    pub dlopen: Option<String>,
    /// Zero bytes between the tables and the dynamic section.
    #[serde(skip_serializing_if = "is_default")]
    pub padding: usize,
    /// Whether the string table is moved to the end, as by patchelf.
    #[serde(skip_serializing_if = "is_default")]
    pub patched: bool,
    /// Whether the program headers come last.
    #[serde(skip_serializing_if = "is_default")]
    pub late_headers: bool,
    /// Whether the hash table is `DT_GNU_HASH`.
    #[serde(skip_serializing_if = "is_default")]
    pub gnu_hash: bool,
    /// Containers of GPU code: each has names such as `sm_90a` and `compute_90`.
    #[serde(skip_serializing_if = "is_default")]
    pub gpu_code: Vec<Vec<String>>,
}

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KindSpec {
    /// A shared object.
    #[default]
    Library,
    /// A position-independent executable that exits with 0.
    Executable,
    /// An executable without a dynamic section.
    StaticExecutable,
    /// An executable at a fixed address, with a dynamic section and without an interpreter.
    FixedExecutable,
    /// A shared object without a dynamic section.
    StaticLibrary,
}

/// The byte order of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndianSpec {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

/// The machine of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
pub enum MachineSpec {
    /// `EM_X86_64`.
    #[default]
    #[serde(rename = "x86-64")]
    X86_64,
    /// `EM_AARCH64`.
    #[serde(rename = "aarch64")]
    Aarch64,
    /// `EM_386`.
    #[serde(rename = "i386")]
    I386,
    /// `EM_PPC64`.
    #[serde(rename = "ppc64")]
    Ppc64,
    /// `EM_ARM`.
    #[serde(rename = "arm")]
    Arm,
}

impl ElfSpec {
    /// Builds the described object.
    ///
    /// Errors: A class other than 32 and 64, an import's version that is not in `verneed`, an unknown name of GPU code, or
    /// an invalid escape.
    pub fn object(&self) -> Result<Elf, String> {
        let mut elf = self.shape()?;
        if let Some(soname) = &self.soname {
            elf = elf.soname(unescape(soname)?);
        }
        for name in &self.needed {
            elf = elf.needed(unescape(name)?);
        }
        for (tag, names) in [(DT_AUXILIARY, &self.auxiliary), (DT_FILTER, &self.filter)] {
            for name in names {
                elf = elf.dynamic_name(tag, unescape(name)?);
            }
        }
        if let Some(path) = &self.rpath {
            elf = elf.rpath(unescape(path)?);
        }
        if let Some(path) = &self.runpath {
            elf = elf.runpath(unescape(path)?);
        }
        elf = self.versions(elf);
        for text in &self.strings {
            elf = elf.string(unescape(text)?);
        }
        if let Some(json) = &self.dlopen {
            elf = elf.dlopen_note(json);
        }
        for names in &self.gpu_code {
            elf = elf.gpu_code(names)?;
        }
        self.symbols(elf)
    }

    /// The object without names: its kind, machine, class and layout.
    fn shape(&self) -> Result<Elf, String> {
        let elf = match self.kind {
            KindSpec::Library => Elf::new(),
            KindSpec::Executable => Elf::new().interp(self.machine.interp()),
            KindSpec::StaticExecutable => Elf::new().statically_linked().kind(Kind::Exec),
            KindSpec::FixedExecutable => Elf::new().kind(Kind::Exec),
            KindSpec::StaticLibrary => Elf::new().statically_linked(),
        };
        let elf = match &self.interp {
            Some(path) => elf.interp(unescape(path)?),
            None => elf,
        };
        let elf = match self.class {
            Some(32) => elf.class(Class::Elf32),
            None | Some(64) => elf,
            Some(other) => return Err(format!("class is {other}: an ELF object has 32 or 64")),
        };
        let elf = match self.endian {
            EndianSpec::Little => elf,
            EndianSpec::Big => elf.endian(Endian::Big),
        };
        let elf = elf.machine(self.machine.machine()).padding(self.padding);
        let elf = match self.flags_1() {
            0 => elf,
            flags => elf.flags_1(flags),
        };
        let elf = match self.isa_needed {
            None => elf,
            Some(level) => elf.isa_needed(isa_level(level)?),
        };
        let elf = if self.patched { elf.patched() } else { elf };
        let elf = if self.late_headers { elf.late_headers() } else { elf };
        Ok(if self.gnu_hash { elf.hash(Hash::Gnu) } else { elf })
    }

    fn flags_1(&self) -> u64 {
        let is_program = self.pie || self.kind == KindSpec::Executable;
        let pie = if is_program { df_1::PIE } else { 0 };
        let nodeflib = if self.nodeflib { df_1::NODEFLIB } else { 0 };
        pie | nodeflib
    }

    fn versions(&self, elf: Elf) -> Elf {
        let elf = self.verdef.iter().fold(elf, Elf::verdef);
        let all = self.verneed.iter();
        let all = all.flat_map(|(file, versions)| versions.iter().map(move |version| (file, version)));
        let elf = all.fold(elf, |elf, (file, version)| elf.verneed(file, version));
        let weak = self.weak_verneed.iter();
        let weak = weak.flat_map(|(file, versions)| versions.iter().map(move |version| (file, version)));
        weak.fold(elf, |elf, (file, version)| elf.verneed_weak(file, version))
    }

    fn symbols(&self, mut elf: Elf) -> Result<Elf, String> {
        for export in &self.exports {
            elf = match export.split_once('@') {
                Some((name, version)) => elf.export_at(name, version),
                None => elf.export(export),
            };
        }
        for import in &self.imports {
            elf = match import.split_once('@') {
                Some((name, version)) => elf.import_at(name, self.file_of(import, version)?, version),
                None => elf.import(import),
            };
        }
        Ok(self.weak_imports.iter().fold(elf, Elf::import_weak))
    }

    /// The file in `verneed` with this version.
    fn file_of(&self, import: &str, version: &str) -> Result<&str, String> {
        let known = |versions: &[String]| versions.iter().any(|known| known == version);
        let mut files = self.verneed.iter();
        let found = files.find(|(_, versions)| known(versions));
        let missing = || format!("import {import}: no file in verneed has the version {version}");
        found.map(|(file, _)| file.as_str()).ok_or_else(missing)
    }
}

impl MachineSpec {
    fn machine(self) -> Machine {
        match self {
            Self::X86_64 => Machine::X86_64,
            Self::Aarch64 => Machine::Aarch64,
            Self::I386 => Machine::I386,
            Self::Ppc64 => Machine::Ppc64,
            Self::Arm => Machine::Arm,
        }
    }

    /// The loader of glibc for the machine.
    fn interp(self) -> &'static str {
        match self {
            Self::X86_64 => "/lib64/ld-linux-x86-64.so.2",
            Self::Aarch64 => "/lib/ld-linux-aarch64.so.1",
            Self::I386 => "/lib/ld-linux.so.2",
            Self::Ppc64 => "/lib64/ld64.so.2",
            Self::Arm => "/lib/ld-linux-armhf.so.3",
        }
    }
}

fn isa_level(level: u8) -> Result<IsaLevel, String> {
    match level {
        1 => Ok(IsaLevel::V1),
        2 => Ok(IsaLevel::V2),
        3 => Ok(IsaLevel::V3),
        4 => Ok(IsaLevel::V4),
        5 => Ok(IsaLevel::Beyond),
        other => Err(format!(
            "isa_needed is {other}: the levels are 1 to 4, and 5 is beyond all"
        )),
    }
}

/// Whether a field has its default, and is omitted in the output.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
