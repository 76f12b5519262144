//! The knowledge of the program, read and checked as a whole before any judgement.

use super::api::CuptiApi;
use super::catalog::{DataCatalog, DataFile, DataKind, FileIds};
use super::consumer_profile::ConsumerProfile;
use super::data_files::built_in_files;
use super::library::{DEFAULT_LIBRARY, LibraryProfile};
use super::library_file::read_library;
use super::mistake::{FileMistake, unknown_name};
use super::phase::{Phase, SEVERITY_PHASES};
use super::profiler::{KnownIds, Profiler};
use super::rule::{Rule, compile_rule};
use super::tables::{KnowledgeTables, read_tables};

/// The knowledge of the program.
#[derive(Debug, Clone)]
pub struct Knowledge {
    /// The rules that apply to the library, by id, with its names filled in.
    pub rules: Vec<Rule>,
    /// All rules, as in their files.
    all_rules: Vec<Rule>,
    /// The phases in project order, each followed by those that are like it.
    pub phases: Vec<Phase>,
    /// The programs that request CUPTI: built-in ones, then the user's.
    pub consumers: Vec<ConsumerProfile>,
    /// The profiling tools, by id.
    pub profilers: Vec<Profiler>,
    /// The tables. They are read once and live for the whole run, so that facts, plans and reports can borrow from them
    /// as `'static`.
    pub tables: &'static KnowledgeTables,
    /// The library to audit for.
    pub library: &'static LibraryProfile,
}

impl Knowledge {
    /// The built-in knowledge.
    ///
    /// Panics: Never, because a test reads it.
    pub fn built_in() -> Self {
        Self::with_user_files(Vec::new()).expect("a test reads the files of the program")
    }

    /// The built-in knowledge with the user's `files`.
    ///
    /// Errors: The first mistake of each file, in file order.
    pub fn with_user_files(files: Vec<DataFile>) -> Result<Self, Vec<FileMistake>> {
        Self::of_files(built_in_files().chain(files))
    }

    /// The knowledge in these files.
    pub(super) fn of_files(files: impl Iterator<Item = DataFile>) -> Result<Self, Vec<FileMistake>> {
        // Only `explain` reads the known errors.
        let files = files.filter(|file| file.kind != DataKind::Errors);
        let (rows, files): (Vec<_>, Vec<_>) = files.partition(|file| file.kind == DataKind::Table);
        let mut catalog = DataCatalog::new(files.into_iter());
        let ids = catalog.ids();
        let [rule_ids, phase_ids, consumer_ids, profiler_ids, library_ids] = [
            DataKind::Rule,
            DataKind::Phase,
            DataKind::Consumer,
            DataKind::Profiler,
            DataKind::Library,
        ]
        .map(|kind| ids.of(kind));
        let all_rules = catalog.read(DataKind::Rule, |id, text| {
            compile_rule(id, text, &phase_ids, &library_ids)
        });
        // Tables come before phases and tools, which refer to their rows.
        let (mut tables, mistakes) = read_tables(&rows, &ids);
        catalog.add_mistakes(mistakes);
        tables.libraries = catalog.read(DataKind::Library, |id, text| read_library(id, text, &rule_ids));
        let phases = catalog.read(DataKind::Phase, |id, text| {
            Phase::read(id, text, &profiler_ids, &tables)
        });
        let consumers = catalog.read(DataKind::Consumer, |id, text| {
            ConsumerProfile::read(id, text, &library_ids, &consumer_ids)
        });
        let profilers = profilers(&mut catalog, &ids, &tables);
        // Only after all kinds were read, so that mistakes in one do not hide those in the next.
        catalog.finish()?;
        let tables: &'static KnowledgeTables = Box::leak(Box::new(tables));
        let library = tables.library(DEFAULT_LIBRARY);
        let mut knowledge = Self {
            tables,
            library: library.expect("it is part of the program, and a user's file can only replace it"),
            rules: Vec::new(),
            all_rules,
            phases,
            consumers,
            profilers,
        };
        knowledge.all_rules.sort_by(|a, b| a.id.cmp(&b.id));
        knowledge.rules = knowledge.rules_of_library();
        knowledge.profilers.sort_by(|a, b| a.id.cmp(&b.id));
        // The sort is stable, so phases that are like one follow it in file order.
        knowledge.phases.sort_by_key(|phase| {
            let place = SEVERITY_PHASES.iter().position(|name| *name == phase.like);
            (place, phase.like != phase.name)
        });
        Ok(knowledge)
    }

    /// The knowledge for another library: the programs that request it, and its rules, tools and phases.
    ///
    /// Errors: A message with the known libraries.
    pub fn about_library(mut self, id: &str) -> Result<Self, String> {
        let library = self.tables.library(id).ok_or_else(|| {
            let libraries = self.tables.libraries.iter();
            let known: Vec<&str> = libraries.map(|library| library.id.as_str()).collect();
            unknown_name("library", id, &known)
        })?;
        // Phases and tools refer to CUPTI's APIs, which other libraries do not export.
        if !library.has_apis {
            self.phases.clear();
            self.profilers.clear();
        }
        self.library = library;
        self.rules = self.rules_of_library();
        Ok(self)
    }

    /// The rule with this id, in the words of the audited library.
    pub fn rule(&self, id: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.id == id)
    }

    /// The ids of all rules, including those about other libraries.
    pub fn rule_ids(&self) -> Vec<&str> {
        self.all_rules.iter().map(|rule| rule.id.as_str()).collect()
    }

    fn rules_of_library(&self) -> Vec<Rule> {
        let about = self.all_rules.iter().filter(|rule| rule.is_about(self.library));
        about.map(|rule| rule.in_words_of(self.library)).collect()
    }

    /// The APIs of the library; empty if they are unknown.
    pub fn apis(&self) -> &'static [CuptiApi] {
        self.tables.apis_of(self.library)
    }

    /// The programs that request the library.
    pub fn library_consumers(&self) -> Vec<ConsumerProfile> {
        let of = |consumer: &&ConsumerProfile| consumer.library == self.library.id;
        self.consumers.iter().filter(of).cloned().collect()
    }

    /// The phases with these names, in project order.
    pub fn phases_named(&self, names: &[String]) -> Vec<Phase> {
        let mut phases = self.phases.clone();
        phases.retain(|phase| names.contains(&phase.name));
        phases
    }

    /// The phases that are targets of a project's Dockerfile, in file order.
    pub fn staged_phases(&self) -> Vec<&Phase> {
        let mut phases: Vec<&Phase> = self.phases.iter().filter(|phase| phase.stage.is_some()).collect();
        phases.sort_by_key(|phase| (phase.stage, &phase.name));
        phases
    }

    /// The phase of this name.
    ///
    /// Errors: A message with the known phases.
    pub fn phase(&self, name: &str) -> Result<&Phase, String> {
        let found = self.phases.iter().find(|phase| phase.name == name);
        found.ok_or_else(|| unknown_name("phase", name, &self.phase_names()))
    }

    /// The names of the phases, in project order.
    pub fn phase_names(&self) -> Vec<&str> {
        let phases = self.phases.iter();
        phases.map(|phase| phase.name.as_str()).collect()
    }
}

fn profilers(catalog: &mut DataCatalog, ids: &FileIds, tables: &KnowledgeTables) -> Vec<Profiler> {
    let apis: Vec<&str> = tables.apis.iter().map(|api| &*api.id).collect();
    let host: Vec<&str> = tables.host.iter().map(|known| &*known.id).collect();
    let capabilities = tables.driver_libraries.iter();
    let capabilities: Vec<&str> = capabilities.map(|driver| &*driver.capability).collect();
    let known = KnownIds {
        apis: &apis,
        consumers: &ids.of(DataKind::Consumer),
        host: &host,
        profilers: &ids.of(DataKind::Profiler),
        capabilities: &capabilities,
    };
    catalog.read(DataKind::Profiler, |id, text| Profiler::read(id, text, known))
}
