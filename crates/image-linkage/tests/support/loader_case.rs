//! A loader case as data: a small root file system, an environment and a program. Generated cases and those saved in
//! `testdata/loader/*/` have the same form.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use testkit::spec::{ElfSpec, KindSpec};

use super::loader_tree::{Entry, Tree};

/// The path of the program.
pub const PROGRAM: &str = "/app/bin/prog";
/// The path of the library that calls dlopen for the program.
pub const CALLER: &str = "/app/caller/libcaller.so";

/// One case.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Case {
    /// The question, in words.
    #[serde(skip_serializing_if = "is_default")]
    pub about: String,
    /// The seed it was generated from.
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
    /// The working directory; default: `/`.
    #[serde(skip_serializing_if = "is_default")]
    pub working_dir: String,
    /// The link used to start the program, if any.
    #[serde(skip_serializing_if = "is_default")]
    pub started_as: Option<String>,
    /// The dlopen calls of the program, if any.
    #[serde(skip_serializing_if = "is_default")]
    pub opens: Option<Opens>,
    /// The files before `ldconfig` runs. The program and the loader are added automatically.
    pub files: Tree,
    /// The `ldconfig` run before the program, if any.
    #[serde(skip_serializing_if = "is_default")]
    pub ldconfig: Option<CacheFormat>,
    /// Paths deleted after `ldconfig`.
    #[serde(skip_serializing_if = "is_default")]
    pub deleted: Vec<String>,
    /// Files added after `ldconfig`.
    #[serde(skip_serializing_if = "is_default")]
    pub added: Tree,
    /// The damage to the cache, if any.
    #[serde(skip_serializing_if = "is_default")]
    pub damage: Option<Damage>,
    /// The answer of the real loader and `ldconfig`.
    #[serde(skip_serializing_if = "is_default")]
    pub answer: Answer,
}

/// A sequence of dlopen calls.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Opens {
    /// The search paths of the program.
    #[serde(skip_serializing_if = "is_default")]
    pub program: Paths,
    /// The search paths of the library that calls dlopen; `None` if the program does.
    #[serde(skip_serializing_if = "is_default")]
    pub through: Option<Paths>,
    /// The names.
    pub names: Vec<String>,
}

/// The search paths of a compiled object.
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

/// The expected answers. Only the parts relevant to the case are set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    /// The output at start: warnings, then the fatal error or each object with its path.
    #[serde(skip_serializing_if = "is_default")]
    pub start: Option<Vec<String>>,
    /// The output of the program that calls dlopen.
    #[serde(skip_serializing_if = "is_default")]
    pub opens: Option<Vec<String>>,
    /// The cache entries, then the symbolic links.
    #[serde(skip_serializing_if = "is_default")]
    pub ldconfig: Option<Vec<String>>,
}

/// The processor that the loader sees (`GLIBC_TUNABLES`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Processor {
    /// The baseline, equal on every machine.
    #[default]
    Plain,
    /// The real processor.
    Native,
    /// The real one without AVX-512: at most level 3.
    NoAvx512,
    /// The real one without AVX2: at most level 2.
    NoAvx2,
    /// The real one without SSE4.2: level 1.
    NoSse4,
}

impl Processor {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Plain, Self::Native, Self::NoAvx512, Self::NoAvx2, Self::NoSse4];

    /// The variable that selects it.
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
    /// The default.
    New,
    /// The old one followed by the new one.
    Compat,
    /// Only the old one.
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

/// Damage to a cache written by `ldconfig`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Damage {
    /// Only this percentage of its header and entries remains.
    Cut(usize),
    /// The first byte is changed.
    Magic,
    /// The count is one too high.
    Count,
    /// It claims the other byte order.
    Order,
}

impl Case {
    /// The path used to start the program.
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

    /// Parses a saved case.
    pub fn read(text: &str) -> Self {
        serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    /// The objects of the case, including those added later.
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

    /// The case with a default program, if it has none.
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

/// A map of a few versions.
pub type Versions = IndexMap<String, Vec<String>>;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
