//! The knowledge of the program, read and checked as a whole before any judgement.

use super::catalog::{DataCatalog, DataFile, DataKind, FileIds};
use super::consumer_profile::ConsumerProfile;
use super::data_files::built_in_files;
use super::library::LibraryProfile;
use super::mistake::{FileMistake, unknown_name};
use super::phase::{Phase, SEVERITY_PHASES};
use super::profiler::{KnownIds, Profiler};
use super::rule::Rule;
use super::tables::KnowledgeTables;

/// The knowledge of the program.
#[derive(Debug, Clone)]
pub struct Knowledge {
    /// The rules, by id.
    pub rules: Vec<Rule>,
    /// The phases in project order, each followed by those that are like it.
    pub phases: Vec<Phase>,
    /// The programs that request CUPTI: built-in ones, then the user's.
    pub consumers: Vec<ConsumerProfile>,
    /// The profiling tools, by id.
    pub profilers: Vec<Profiler>,
    /// The tables. They are read once and live for the whole run, so that facts, plans and reports can borrow from them
    /// as `'static`.
    pub tables: &'static KnowledgeTables,
    /// CUPTI itself.
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
        let [phase_ids, consumer_ids, profiler_ids] =
            [DataKind::Phase, DataKind::Consumer, DataKind::Profiler].map(|kind| ids.of(kind));
        let tables: &'static KnowledgeTables = Box::leak(Box::new(KnowledgeTables::read(&rows)));
        let library = &tables.library;
        let mut rules = catalog.read(DataKind::Rule, |id, text| Rule::read(id, text, &phase_ids));
        let mut phases = catalog.read(DataKind::Phase, |id, text| Phase::read(id, text, &profiler_ids, tables));
        let consumers = catalog.read(DataKind::Consumer, |id, text| {
            ConsumerProfile::read(id, text, &consumer_ids)
        });
        let mut profilers = profilers(&mut catalog, &ids, tables);
        // Only after all kinds were read, so that mistakes in one do not hide those in the next.
        catalog.finish()?;
        rules.sort_by(|a, b| a.id.cmp(&b.id));
        profilers.sort_by(|a, b| a.id.cmp(&b.id));
        // The sort is stable, so phases that are like one follow it in file order.
        phases.sort_by_key(|phase: &Phase| {
            let place = SEVERITY_PHASES.iter().position(|name| *name == phase.like);
            (place, phase.like != phase.name)
        });
        Ok(Self {
            rules,
            phases,
            consumers,
            profilers,
            tables,
            library,
        })
    }

    /// The rule with this id.
    pub fn rule(&self, id: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.id == id)
    }

    /// The ids of all rules.
    pub fn rule_ids(&self) -> Vec<&str> {
        self.rules.iter().map(|rule| rule.id.as_str()).collect()
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
    let capabilities: Vec<&str> = tables.driver_libraries.iter().map(|known| &*known.capability).collect();
    let known = KnownIds {
        apis: &apis,
        consumers: &ids.of(DataKind::Consumer),
        host: &host,
        profilers: &ids.of(DataKind::Profiler),
        capabilities: &capabilities,
    };
    catalog.read(DataKind::Profiler, |id, text| Profiler::read(id, text, known))
}
