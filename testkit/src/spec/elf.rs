//! An ELF object as a fixture describes it.

use indexmap::IndexMap;
use serde::Deserialize;

use super::make::unescape;
use crate::elf::{Class, Elf, Endian, Hash, Kind, Machine, df_1};

/// An ELF object. What is not said is as in [`Elf::new`]: a 64-bit little-endian shared object for x86-64.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ElfSpec {
    /// What the object is.
    pub kind: KindSpec,
    /// 32 or 64.
    pub class: Option<u8>,
    /// The byte order.
    pub endian: EndianSpec,
    /// The machine.
    pub machine: MachineSpec,
    /// `PT_INTERP`; an executable without one gets glibc's for its machine.
    pub interp: Option<String>,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// Each `DT_NEEDED`.
    pub needed: Vec<String>,
    /// `DT_RPATH`.
    pub rpath: Option<String>,
    /// `DT_RUNPATH`.
    pub runpath: Option<String>,
    /// Whether `DF_1_NODEFLIB` is set.
    pub nodeflib: bool,
    /// The versions defined, without the base.
    pub verdef: Vec<String>,
    /// The versions needed of each file.
    pub verneed: IndexMap<String, Vec<String>>,
    /// Functions exported, as `name` or `name@version`.
    pub exports: Vec<String>,
    /// Functions imported, as `name` or `name@version`; the version stands in `verneed`.
    pub imports: Vec<String>,
    /// Functions imported that may be absent.
    pub weak_imports: Vec<String>,
    /// Strings in the read-only data, one after the other, each ended by a NUL.
    pub strings: Vec<String>,
    /// The JSON of a `.note.dlopen`.
    pub dlopen: Option<String>,
    /// Zero bytes between the tables and the dynamic section.
    pub padding: usize,
    /// Whether the string table was moved to the end, as patchelf does.
    pub patched: bool,
    /// Whether the hash table is `DT_GNU_HASH`.
    pub gnu_hash: bool,
}

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KindSpec {
    /// A shared object.
    #[default]
    Library,
    /// A position-independent executable that exits with 0.
    Executable,
    /// An executable without a dynamic section.
    StaticExecutable,
}

/// The byte order of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndianSpec {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

/// The machine of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
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
}

impl ElfSpec {
    /// The object that is described.
    ///
    /// # Errors
    /// A class that is neither 32 nor 64, a version of an import that `verneed` does not have, or a bad
    /// escape.
    pub fn object(&self) -> Result<Elf, String> {
        let mut elf = self.shape()?;
        if let Some(soname) = &self.soname {
            elf = elf.soname(unescape(soname)?);
        }
        for name in &self.needed {
            elf = elf.needed(unescape(name)?);
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
        self.symbols(elf)
    }

    /// The object before it has names: its kind, machine, class and layout.
    fn shape(&self) -> Result<Elf, String> {
        let elf = match self.kind {
            KindSpec::Library => Elf::new(),
            KindSpec::Executable => Elf::executable().interp(self.machine.interp()),
            KindSpec::StaticExecutable => Elf::new().statically_linked().kind(Kind::Exec),
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
        let elf = if self.nodeflib {
            elf.flags_1(df_1::NODEFLIB)
        } else {
            elf
        };
        let elf = if self.patched { elf.patched() } else { elf };
        Ok(if self.gnu_hash {
            elf.hash(Hash::Gnu)
        } else {
            elf
        })
    }

    fn versions(&self, elf: Elf) -> Elf {
        let elf = self.verdef.iter().fold(elf, Elf::verdef);
        let all = self.verneed.iter();
        let all =
            all.flat_map(|(file, versions)| versions.iter().map(move |version| (file, version)));
        all.fold(elf, |elf, (file, version)| elf.verneed(file, version))
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
                Some((name, version)) => {
                    elf.import_at(name, self.file_of(import, version)?, version)
                }
                None => elf.import(import),
            };
        }
        Ok(self.weak_imports.iter().fold(elf, Elf::import_weak))
    }

    /// The file of which `verneed` needs this version.
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
        }
    }

    /// The loader of glibc for the machine.
    fn interp(self) -> &'static str {
        match self {
            Self::X86_64 => "/lib64/ld-linux-x86-64.so.2",
            Self::Aarch64 => "/lib/ld-linux-aarch64.so.1",
            Self::I386 => "/lib/ld-linux.so.2",
            Self::Ppc64 => "/lib64/ld64.so.2",
        }
    }
}
