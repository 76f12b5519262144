//! Builds ELF objects that the real glibc loader accepts, byte by byte.
//!
//! Like the loader's view, an object has program headers and a dynamic section, and no section headers. It is a single
//! writable segment without page padding, so a library takes about 1.5 KiB.

mod gpu_code;
mod layout;
mod note;
mod program;
mod tables;
mod write;

pub use note::IsaLevel;

use note::Note;
use tables::{Need, Symbol};

/// Values of `DT_FLAGS` (gABI, "Dynamic Section").
pub mod df {
    /// `$ORIGIN` is used.
    pub const ORIGIN: u64 = 0x1;
    /// The object itself comes first in symbol lookup; `libcupti` sets it.
    pub const SYMBOLIC: u64 = 0x2;
    /// All symbols are bound at load time.
    pub const BIND_NOW: u64 = 0x8;
}

/// Values of `DT_FLAGS_1`.
pub mod df_1 {
    /// `DT_RPATH` and `DT_RUNPATH` may contain `$ORIGIN`.
    pub const ORIGIN: u64 = 0x80;
    /// The loader skips the default directories and their part of `ld.so.cache`.
    pub const NODEFLIB: u64 = 0x800;
    /// A position-independent executable.
    pub const PIE: u64 = 0x0800_0000;
}

/// 32 or 64 bits, as in `EI_CLASS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// ELFCLASS32.
    Elf32,
    /// ELFCLASS64.
    Elf64,
}

/// The byte order, as in `EI_DATA`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endian {
    /// ELFDATA2LSB.
    Little,
    /// ELFDATA2MSB.
    Big,
}

/// The instruction set, as in `e_machine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// `EM_386`.
    I386,
    /// `EM_PPC64`, little or big endian.
    Ppc64,
    /// `EM_S390`.
    S390,
    /// `EM_ARM`.
    Arm,
    /// `EM_X86_64`.
    X86_64,
    /// `EM_AARCH64`.
    Aarch64,
    /// Any other value.
    Other(u16),
}

/// The type of the object, as in `e_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `ET_DYN`: a shared object or a position-independent executable.
    Dyn,
    /// `ET_EXEC`: an executable at a fixed address.
    Exec,
}

/// The table for symbol lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// `DT_HASH` only.
    Sysv,
    /// `DT_GNU_HASH` only, as in most distributions today.
    Gnu,
}

/// An ELF object. Its methods describe it, and [`Elf::build`] returns its bytes.
#[derive(Debug, Clone)]
#[must_use = "an object is only written by `build`"]
pub struct Elf {
    class: Class,
    endian: Endian,
    machine: Machine,
    kind: Kind,
    hash: Hash,
    linking: Linking,
    headers: HeaderPlace,
    strings: StringPlace,
    interp: Option<Vec<u8>>,
    /// Entries of the dynamic section whose value is a string: `DT_NEEDED`, `DT_SONAME`, search paths.
    names: Vec<(u64, Vec<u8>)>,
    /// Entries of the dynamic section whose value is a number.
    numbers: Vec<(u64, u64)>,
    defs: Vec<Vec<u8>>,
    needs: Vec<Need>,
    symbols: Vec<Symbol>,
    notes: Vec<Note>,
    rodata: Vec<Vec<u8>>,
    padding: usize,
    /// The containers of GPU code at the end of the file.
    gpu_code: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Linking {
    Dynamic,
    Static,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeaderPlace {
    First,
    Last,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StringPlace {
    WithTables,
    OwnSegment,
}

const DT_NEEDED: u64 = 1;
const DT_SONAME: u64 = 14;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;
const DT_FLAGS: u64 = 30;
const DT_FLAGS_1: u64 = 0x6fff_fffb;

impl Default for Elf {
    fn default() -> Self {
        Self::new()
    }
}

impl Elf {
    /// A shared object for x86-64 without a soname or dependencies.
    pub fn new() -> Self {
        Self {
            class: Class::Elf64,
            endian: Endian::Little,
            machine: Machine::X86_64,
            kind: Kind::Dyn,
            hash: Hash::Sysv,
            linking: Linking::Dynamic,
            headers: HeaderPlace::First,
            strings: StringPlace::WithTables,
            interp: None,
            names: Vec::new(),
            numbers: Vec::new(),
            defs: Vec::new(),
            needs: Vec::new(),
            symbols: Vec::new(),
            notes: Vec::new(),
            rodata: Vec::new(),
            padding: 0,
            gpu_code: Vec::new(),
        }
    }

    /// A shared object for x86-64 with a soname.
    pub fn library(soname: impl AsRef<[u8]>) -> Self {
        Self::new().soname(soname)
    }

    /// A position-independent executable for x86-64 Linux with glibc, which exits with 0.
    pub fn executable() -> Self {
        Self::new().interp("/lib64/ld-linux-x86-64.so.2").flags_1(df_1::PIE)
    }

    /// Sets the class. The machine is unchanged: a 32-bit object for `EM_X86_64` is an x32 one.
    pub fn class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// Sets the byte order.
    pub fn endian(mut self, endian: Endian) -> Self {
        self.endian = endian;
        self
    }

    /// Sets the machine.
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = machine;
        self
    }

    /// Sets the type.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets the kind of hash table.
    pub fn hash(mut self, hash: Hash) -> Self {
        self.hash = hash;
        self
    }

    /// Omits the interpreter, the dynamic section and all its tables.
    pub fn statically_linked(mut self) -> Self {
        self.interp = None;
        self.linking = Linking::Static;
        self
    }

    /// Sets the interpreter, `PT_INTERP`. This also adds `PT_PHDR`.
    pub fn interp(mut self, path: impl AsRef<[u8]>) -> Self {
        self.interp = Some(path.as_ref().to_vec());
        self
    }

    /// Adds `DT_SONAME`, which is also the base of the version definitions.
    pub fn soname(self, name: impl AsRef<[u8]>) -> Self {
        self.dynamic_name(DT_SONAME, name)
    }

    /// Adds a `DT_NEEDED` after the existing ones.
    pub fn needed(self, name: impl AsRef<[u8]>) -> Self {
        self.dynamic_name(DT_NEEDED, name)
    }

    /// Adds `DT_RPATH`.
    pub fn rpath(self, path: impl AsRef<[u8]>) -> Self {
        self.dynamic_name(DT_RPATH, path)
    }

    /// Adds `DT_RUNPATH`.
    pub fn runpath(self, path: impl AsRef<[u8]>) -> Self {
        self.dynamic_name(DT_RUNPATH, path)
    }

    /// Adds `DT_FLAGS`; the values are in [`df`].
    pub fn flags(self, flags: u64) -> Self {
        self.dynamic_number(DT_FLAGS, flags)
    }

    /// Adds `DT_FLAGS_1`; the values are in [`df_1`].
    pub fn flags_1(self, flags: u64) -> Self {
        self.dynamic_number(DT_FLAGS_1, flags)
    }

    /// Adds a dynamic entry whose value is the offset of `name` in the string table, such as `DT_AUXILIARY`.
    pub fn dynamic_name(mut self, tag: u64, name: impl AsRef<[u8]>) -> Self {
        self.names.push((tag, name.as_ref().to_vec()));
        self
    }

    /// Adds a dynamic entry with this value.
    pub fn dynamic_number(mut self, tag: u64, value: u64) -> Self {
        self.numbers.push((tag, value));
        self
    }

    /// Defines a version. The base version, named after the soname, is added automatically.
    pub fn verdef(mut self, version: impl AsRef<[u8]>) -> Self {
        tables::define(&mut self.defs, version.as_ref());
        self
    }

    /// Requires a version of a file. The loader expects the file in `DT_NEEDED` too; glibc 2.36 aborts otherwise.
    pub fn verneed(mut self, file: impl AsRef<[u8]>, version: impl AsRef<[u8]>) -> Self {
        tables::need(&mut self.needs, file.as_ref(), version.as_ref(), 0);
        self
    }

    /// Requires a version of a file weakly (`VER_FLG_WEAK`): if it is missing, the loader only warns.
    pub fn verneed_weak(mut self, file: impl AsRef<[u8]>, version: impl AsRef<[u8]>) -> Self {
        let weak = tables::VER_FLG_WEAK;
        tables::need(&mut self.needs, file.as_ref(), version.as_ref(), weak);
        self
    }

    /// Exports a function without a version.
    pub fn export(mut self, name: impl AsRef<[u8]>) -> Self {
        self.symbols.push(Symbol::export(name.as_ref(), None));
        self
    }

    /// Exports a function with a version, and defines the version if necessary.
    pub fn export_at(mut self, name: impl AsRef<[u8]>, version: impl AsRef<[u8]>) -> Self {
        tables::define(&mut self.defs, version.as_ref());
        let symbol = Symbol::export(name.as_ref(), Some(version.as_ref()));
        self.symbols.push(symbol);
        self
    }

    /// Imports a function from any object. On x86-64 and aarch64 it is bound at load time.
    pub fn import(mut self, name: impl AsRef<[u8]>) -> Self {
        self.symbols.push(Symbol::import(name.as_ref(), None));
        self
    }

    /// Imports a function that may be absent.
    pub fn import_weak(mut self, name: impl AsRef<[u8]>) -> Self {
        self.symbols.push(Symbol::import(name.as_ref(), None).weak());
        self
    }

    /// Imports a function with a version of a file, and adds the version requirement if necessary.
    pub fn import_at(mut self, name: impl AsRef<[u8]>, file: impl AsRef<[u8]>, version: impl AsRef<[u8]>) -> Self {
        let (file, version) = (file.as_ref(), version.as_ref());
        tables::need(&mut self.needs, file, version, 0);
        let symbol = Symbol::import(name.as_ref(), Some((file, version)));
        self.symbols.push(symbol);
        self
    }

    /// Adds the note with the required x86-64 level, which glibc checks since 2.33.
    pub fn isa_needed(mut self, level: IsaLevel) -> Self {
        self.notes.push(Note::isa_needed(level));
        self
    }

    /// Adds a `.note.dlopen` with this JSON text (UAPI group, "ELF dlopen metadata").
    pub fn dlopen_note(mut self, json: impl AsRef<[u8]>) -> Self {
        self.notes.push(Note::dlopen(json.as_ref()));
        self
    }

    /// Adds a NUL-terminated string to the read-only data, without gaps between strings.
    pub fn string(mut self, text: impl AsRef<[u8]>) -> Self {
        self.rodata.push(text.as_ref().to_vec());
        self
    }

    /// Adds this many zero bytes before the dynamic section, far from the tables.
    pub fn padding(mut self, bytes: usize) -> Self {
        self.padding = bytes;
        self
    }

    /// Moves the string table to the end of the file, in its own segment whose addresses differ from its offsets, as
    /// patchelf does.
    pub fn patched(mut self) -> Self {
        self.strings = StringPlace::OwnSegment;
        self
    }

    /// Moves the program headers to the end, before a string table moved by [`Elf::patched`].
    pub fn late_headers(mut self) -> Self {
        self.headers = HeaderPlace::Last;
        self
    }

    /// Adds a container of GPU code, without a section, at the end of the file. The names are such as `sm_90a` and
    /// `compute_90`; with `unknown`, no reader knows it.
    ///
    /// Errors: Another name.
    pub fn gpu_code(mut self, names: &[impl AsRef<str>]) -> Result<Self, String> {
        self.gpu_code.push(gpu_code::named_container(names)?);
        Ok(self)
    }

    /// Returns the bytes of the file.
    pub fn build(&self) -> Vec<u8> {
        let mut bytes = layout::build(self);
        gpu_code::append_containers(&mut bytes, &self.gpu_code);
        bytes
    }
}
