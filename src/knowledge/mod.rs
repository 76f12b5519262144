//! What the program knows: rules, phases, the programs that ask for CUPTI, and profiling tools, each a file.
//!
//! The files of the program come first, those of the user are added ([`user_folders`]). All of them are checked
//! before anything is judged, and all their mistakes are told at once.

pub mod advice;
pub mod api;
mod catalog;
mod consumer_profile;
pub(crate) mod data_files;
pub mod dead_weight;
pub mod driver_libraries;
pub mod file_interest;
pub mod host_conditions;
mod library;
mod library_release;
pub mod minimum_driver;
pub mod packages;
mod phase;
mod profiler;
mod release_table;
pub mod rule;
mod tables;
pub mod user_folders;

use std::collections::BTreeMap;
use std::fmt;

pub use catalog::DataFile;
pub(crate) use consumer_profile::opens_library;
pub use consumer_profile::{ConsumerProfile, FailureImpact, RequestKind};
pub use library::{
    FamilyLibrary, HeaderVersion, LibraryProfile, SonameRule, WheelNames, WheelOwner, WheelPackage,
    fill_version,
};
pub use library_release::{LibraryRelease, has_api};
pub use phase::{DeadWeightPolicy, IdChoice, Phase, PhaseRequirements, SEVERITY_PHASES};
pub use profiler::{
    CuptiNeed, KnownIds, Profiler, ProfilerFile, ToolCondition, ToolExclusion, ToolOverhead,
};

pub use release_table::{ReleaseFile, ReleaseTable};
pub use tables::{BundleFolder, KnowledgeTables};

use api::CuptiApi;
use catalog::{DataCatalog, DataEntry};
use rule::Rule;
use yaml_mistakes::{YamlMistake, unknown_name};

/// What a data file describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataKind {
    /// A finding: `rules/`.
    Rule,
    /// What an image is for: `phases/` of the profiles.
    Phase,
    /// A program that asks for CUPTI: `consumers/` of the profiles.
    Consumer,
    /// A profiling tool: `profilers/` of the profiles.
    Profiler,
    /// A library that an image is asked about: `libraries/` of the profiles.
    Library,
    /// Rows of a table: `cupti/` of the profiles.
    Table,
}

impl DataKind {
    /// The name used in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Phase => "phase",
            Self::Consumer => "consumer",
            Self::Profiler => "profiler",
            Self::Library => "library",
            Self::Table => "table",
        }
    }
}

/// All that the program knows.
#[derive(Debug, Clone)]
pub struct Knowledge {
    /// The rules, by id.
    pub rules: Vec<Rule>,
    /// The phases: those of the program in the order of a project, then the user's by name.
    pub phases: Vec<Phase>,
    /// The programs that ask for CUPTI: those of the program, then the user's.
    pub consumers: Vec<ConsumerProfile>,
    /// The profiling tools, by id.
    pub profilers: Vec<Profiler>,
    /// The tables. They are read once in a run and live as long as it, so that facts, plans and reports can point
    /// into them without a lifetime of their own.
    pub tables: &'static KnowledgeTables,
    /// The library that images are asked about.
    pub library: &'static LibraryProfile,
}

/// The library that an image is asked about where none is named.
pub const DEFAULT_LIBRARY: &str = "cupti";

/// A mistake in a file, or a file that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileMistake {
    /// The file as the user would name it.
    pub file: String,
    /// What is wrong in it, and where.
    pub mistake: YamlMistake,
}

impl fmt::Display for FileMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.mistake)
    }
}

impl Knowledge {
    /// What is part of the program.
    ///
    /// Panics: Never: a test reads it.
    pub fn built_in() -> Self {
        Self::with_user_files(Vec::new()).expect("a test reads the files of the program")
    }

    /// What is part of the program, and the user's `files`.
    ///
    /// Errors: All mistakes in all files, in the order of files and places.
    pub fn with_user_files(files: Vec<DataFile>) -> Result<Self, Vec<FileMistake>> {
        let all = built_in_files().chain(files);
        let (rows, files): (Vec<_>, Vec<_>) = all.partition(|file| file.kind == DataKind::Table);
        let (mut tables, mistakes) = tables::read_tables(&rows);
        let mut catalog = DataCatalog::new(files.into_iter(), mistakes);
        tables.libraries = catalog.read(DataKind::Library, |entry| {
            LibraryProfile::read(&entry.id, &entry.document)
        });
        let libraries = catalog.ids(DataKind::Library);
        let tools = catalog.ids(DataKind::Profiler);
        let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
        let mut phases = catalog.read(DataKind::Phase, |entry| {
            Phase::read(&entry.id, &entry.document, &tools, &tables)
        });
        let consumers = catalog.read(DataKind::Consumer, |entry| {
            ConsumerProfile::read(&entry.id, &entry.document, &libraries)
        });
        let profilers = profilers(&mut catalog, &tables);
        let names = catalog.ids(DataKind::Phase);
        let rule = |entry: &DataEntry| rule::compile_rule(&entry.id, &entry.document, &names);
        let rules = catalog.read(DataKind::Rule, rule);
        catalog.finish()?;
        inherit_removal(&mut phases);
        let tables: &'static KnowledgeTables = Box::leak(Box::new(tables));
        let library = tables.library(DEFAULT_LIBRARY);
        let mut knowledge = Self {
            tables,
            library: library
                .expect("it is part of the program, and a user's file can only replace it"),
            rules,
            phases,
            consumers,
            profilers,
        };
        knowledge.rules.sort_by(|a, b| a.id.cmp(&b.id));
        knowledge.profilers.sort_by(|a, b| a.id.cmp(&b.id));
        knowledge.phases.sort_by_key(|phase| {
            let place = SEVERITY_PHASES.iter().position(|name| *name == phase.name);
            place.unwrap_or(SEVERITY_PHASES.len())
        });
        Ok(knowledge)
    }

    /// The same, to ask images about the library of this id: with the programs that ask for it, and the rules, tools
    /// and phases that are about it.
    ///
    /// Errors: A sentence with the libraries that there are.
    pub fn about_library(mut self, id: &str) -> Result<Self, String> {
        let library = self.tables.library(id).ok_or_else(|| {
            let libraries = self.tables.libraries.iter();
            let known: Vec<&str> = libraries.map(|library| library.id.as_str()).collect();
            unknown_name("library", id, &known)
        })?;
        let is_about = |rule: &Rule| {
            let mut patterns = library.rules.iter();
            patterns.any(|pattern| matches_name_pattern(rule.id.as_bytes(), pattern))
        };
        self.rules.retain(is_about);
        if !library.has_apis {
            self.phases.clear();
            self.profilers.clear();
        }
        self.library = library;
        Ok(self)
    }

    /// The APIs of the library; none for one whose APIs are not known.
    pub fn apis(&self) -> &'static [CuptiApi] {
        self.tables.apis_of(self.library)
    }

    /// The programs that ask for the library.
    pub fn library_consumers(&self) -> Vec<ConsumerProfile> {
        let of = |consumer: &&ConsumerProfile| consumer.library == self.library.id;
        self.consumers.iter().filter(of).cloned().collect()
    }

    /// The phases of these names, in their order.
    pub fn phases_named(&self, names: &[String]) -> Vec<Phase> {
        let mut phases = self.phases.clone();
        phases.retain(|phase| names.contains(&phase.name));
        phases
    }

    /// The phase of this name.
    ///
    /// Errors: A sentence with those that there are.
    pub fn phase(&self, name: &str) -> Result<&Phase, String> {
        let found = self.phases.iter().find(|phase| phase.name == name);
        found.ok_or_else(|| unknown_name("phase", name, &self.phase_names()))
    }

    /// The names of the phases, in their order.
    pub fn phase_names(&self) -> Vec<&str> {
        let phases = self.phases.iter();
        phases.map(|phase| phase.name.as_str()).collect()
    }
}

/// A phase that does not say whether dead weight is removed for it does as the phase that it is like.
fn inherit_removal(phases: &mut [Phase]) {
    let said: BTreeMap<String, Option<bool>> = phases
        .iter()
        .map(|phase| (phase.name.clone(), phase.baggage.removes))
        .collect();
    for phase in phases {
        let like = said.get(&phase.like).copied().flatten();
        phase.baggage.removes = phase.baggage.removes.or(like);
    }
}

fn profilers(catalog: &mut DataCatalog, tables: &KnowledgeTables) -> Vec<Profiler> {
    let (consumers, profilers) = (
        catalog.ids(DataKind::Consumer),
        catalog.ids(DataKind::Profiler),
    );
    let consumers: Vec<&str> = consumers.iter().map(String::as_str).collect();
    let profilers: Vec<&str> = profilers.iter().map(String::as_str).collect();
    let apis: Vec<&str> = tables.apis.iter().map(|api| &*api.id).collect();
    let host: Vec<&str> = tables.host.iter().map(|known| &*known.id).collect();
    let known = KnownIds {
        apis: &apis,
        consumers: &consumers,
        host: &host,
        profilers: &profilers,
    };
    catalog.read(DataKind::Profiler, |entry| {
        Profiler::read(&entry.id, &entry.document, known)
    })
}

/// The numbers of a version, for comparing; empty for what is no version.
pub fn version_numbers(version: &str) -> Vec<u32> {
    let numbers: Result<Vec<u32>, _> = version.split('.').map(str::parse).collect();
    numbers.unwrap_or_default()
}

/// Whether a name is the one that data speaks of; a final `*` in it stands for any rest.
pub fn matches_name_pattern(name: &[u8], pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(stem) => name.starts_with(stem.as_bytes()),
        None => name == pattern.as_bytes(),
    }
}

fn built_in_files() -> impl Iterator<Item = DataFile> {
    let of =
        |kind: DataKind, folder: &'static str, files: &'static [(&'static str, &'static str)]| {
            files.iter().map(move |(id, text)| DataFile {
                kind,
                id: (*id).to_owned(),
                file: format!("{folder}/{id}.yaml"),
                text: (*text).to_owned(),
            })
        };
    of(DataKind::Rule, "rules", data_files::RULES)
        .chain(of(DataKind::Phase, "profiles/phases", data_files::PHASES))
        .chain(of(
            DataKind::Consumer,
            "profiles/consumers",
            data_files::CONSUMERS,
        ))
        .chain(of(
            DataKind::Profiler,
            "profiles/profilers",
            data_files::PROFILERS,
        ))
        .chain(of(
            DataKind::Library,
            "profiles/libraries",
            data_files::LIBRARIES,
        ))
        .chain(of(DataKind::Table, "profiles/cupti", data_files::TABLES))
        .chain(of(
            DataKind::Table,
            "profiles/cupti",
            data_files::CSV_TABLES,
        ))
        .chain(of(DataKind::Table, "profiles", data_files::ADVICE))
}

#[cfg(test)]
mod tests;
