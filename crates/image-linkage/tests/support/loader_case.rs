//! A case for the loader as data: a small root file system, an environment and a program. Generated ones and
//! those that are kept in `testdata/loader/*/` have the same form.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use testkit::spec::{ElfSpec, KindSpec};

use super::loader_tree::{Entry, Tree};

/// Where the program lies.
pub const PROGRAM: &str = "/app/bin/prog";
/// Where the library lies that opens others for the program.
pub const CALLER: &str = "/app/caller/libcaller.so";

/// One case.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Case {
    /// The question, in words.
    #[serde(skip_serializing_if = "is_default")]
    pub about: String,
    /// The seed that it comes from.
    #[serde(skip_serializing_if = "is_default")]
    pub seed: u64,
    /// The processor that it runs on.
    #[serde(skip_serializing_if = "is_default")]
    pub processor: Processor,
    /// `LD_LIBRARY_PATH`.
    #[serde(skip_serializing_if = "is_default")]
    pub library_path: Option<String>,
    /// `LD_PRELOAD`.
    #[serde(skip_serializing_if = "is_default")]
    pub preload: Option<String>,
    /// The working directory; `/` where it is not said.
    #[serde(skip_serializing_if = "is_default")]
    pub working_dir: String,
    /// The name that the program is started by, where that is a link to it.
    #[serde(skip_serializing_if = "is_default")]
    pub started_as: Option<String>,
    /// What the program opens, where it is one that opens.
    #[serde(skip_serializing_if = "is_default")]
    pub opens: Option<Opens>,
    /// The files as they are before `ldconfig` runs. The program and the loader come by themselves.
    pub files: Tree,
    /// How `ldconfig` runs before the program, if it does.
    #[serde(skip_serializing_if = "is_default")]
    pub ldconfig: Option<CacheFormat>,
    /// Paths that are deleted after `ldconfig` ran.
    #[serde(skip_serializing_if = "is_default")]
    pub deleted: Vec<String>,
    /// What is added after `ldconfig` ran.
    #[serde(skip_serializing_if = "is_default")]
    pub added: Tree,
    /// What is wrong with the cache, if anything.
    #[serde(skip_serializing_if = "is_default")]
    pub damage: Option<Damage>,
    /// What the real loader and `ldconfig` answer.
    #[serde(skip_serializing_if = "is_default")]
    pub answer: Answer,
}

/// What a program opens, one name after the other.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Opens {
    /// The search paths of the program.
    #[serde(skip_serializing_if = "is_default")]
    pub program: Paths,
    /// Those of the library that opens for it; none where it opens itself.
    #[serde(skip_serializing_if = "is_default")]
    pub through: Option<Paths>,
    /// The names.
    pub names: Vec<String>,
}

/// The search paths of an object that is compiled.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Paths {
    /// `DT_RPATH`.
    #[serde(skip_serializing_if = "is_default")]
    pub rpath: Option<String>,
    /// `DT_RUNPATH`.
    #[serde(skip_serializing_if = "is_default")]
    pub runpath: Option<String>,
    /// Whether `DF_1_NODEFLIB` is set.
    #[serde(skip_serializing_if = "is_default")]
    pub nodeflib: bool,
}

/// What is answered; only what the case is about is said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    /// What the start says: warnings, then what is fatal, or each object with its path.
    #[serde(skip_serializing_if = "is_default")]
    pub start: Option<Vec<String>>,
    /// What the program that opens says.
    #[serde(skip_serializing_if = "is_default")]
    pub opens: Option<Vec<String>>,
    /// The entries of the cache, then the links that there are.
    #[serde(skip_serializing_if = "is_default")]
    pub ldconfig: Option<Vec<String>>,
}

/// The processor as the loader is told to see it (`GLIBC_TUNABLES`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Processor {
    /// The baseline, which looks the same on every machine.
    #[default]
    Plain,
    /// That of this machine.
    Native,
    /// The same without AVX-512: level 3 at most.
    NoAvx512,
    /// The same without AVX2: level 2 at most.
    NoAvx2,
    /// The same without SSE4.2: level 1, by whatever name.
    NoSse4,
}

impl Processor {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Plain, Self::Native, Self::NoAvx512, Self::NoAvx2, Self::NoSse4];

    /// The variable that makes the loader see it.
    pub fn variable(self) -> Option<String> {
        let hidden = match self {
            Self::Plain => "-SSE4_2,-AVX2,-AVX512F,-AVX512VL",
            Self::Native => return None,
            Self::NoAvx512 => "-AVX512F,-AVX512VL",
            Self::NoAvx2 => "-AVX2",
            Self::NoSse4 => "-SSE4_2",
        };
        Some(format!("GLIBC_TUNABLES=glibc.cpu.hwcaps={hidden}"))
    }
}

/// The format that `ldconfig -c` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheFormat {
    /// The usual one.
    New,
    /// The old one with the new one behind it.
    Compat,
    /// The old one alone.
    Old,
}

impl CacheFormat {
    /// The argument of `-c`.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Compat => "compat",
            Self::Old => "old",
        }
    }
}

/// What is wrong with a cache that `ldconfig` wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Damage {
    /// So many hundredths of its header and entries are left, and nothing behind them.
    Cut(usize),
    /// The first byte is another.
    Magic,
    /// It counts one entry more than fit.
    Count,
    /// It says that it is for the other byte order.
    Order,
}

impl Case {
    /// The name that the program is started by.
    pub fn program(&self) -> &str {
        self.started_as.as_deref().unwrap_or(PROGRAM)
    }

    /// The working directory.
    pub fn working_dir(&self) -> &str {
        match self.working_dir.as_str() {
            "" => "/",
            directory => directory,
        }
    }

    /// Reads a case that was kept.
    pub fn read(text: &str) -> Self {
        serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    /// The objects of the case, those that are added later included.
    pub fn objects_mut(&mut self) -> impl Iterator<Item = (&String, &mut ElfSpec)> {
        let files = self.files.0.iter_mut().chain(&mut self.added.0);
        files.filter_map(|(path, entry)| match entry {
            Entry::Elf(elf) | Entry::Cut { elf, .. } => Some((path, &mut **elf)),
            _ => None,
        })
    }

    /// Whether an object of the case is a filter.
    pub fn has_filters(&self) -> bool {
        let is_filter = |(_, elf): (&String, &mut ElfSpec)| !(elf.auxiliary.is_empty() && elf.filter.is_empty());
        self.clone().objects_mut().any(is_filter)
    }

    /// The case with a program of its own, where its files have none.
    pub fn with_program(mut self) -> Self {
        if self.opens.is_none() {
            let elf = ElfSpec {
                kind: KindSpec::Executable,
                ..ElfSpec::default()
            };
            self.files.add(PROGRAM, Entry::Elf(Box::new(elf)));
        }
        self
    }
}

impl fmt::Display for Case {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&serde_saphyr::to_string(self).unwrap())
    }
}

/// A map of few versions, as an object has it.
pub type Versions = IndexMap<String, Vec<String>>;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
