//! Profiles: data on the APIs of CUPTI, on files that may be dead weight, on what a phase of a project needs, and on
//! profiling tools and the hosts they meet.

pub mod advice;
pub mod api;
pub mod baggage;
pub mod driver;
pub mod host;
mod phase;
mod profiler;

use std::sync::LazyLock;

use crate::yaml::Document;

pub use phase::{COLUMNS, Phase, Weights, Wish, Wishes};
pub use profiler::{
    Condition, CuptiNeed, Exclusion, Known, Overhead, Profiler, ProfilerError, ProfilerFile,
};

/// The phases that are part of the program, in the order in which reports name them.
///
/// # Panics
/// Never: a test reads them.
pub fn phases() -> Vec<Phase> {
    let profilers: Vec<&str> = profilers().iter().map(|tool| &*tool.id).collect();
    let read = |(name, text): &(&str, &str)| {
        let document = Document::parse(text).map_err(|mistake| vec![mistake])?;
        Phase::read(name, &document, &profilers)
    };
    let phases: Result<Vec<Phase>, _> = crate::data_files::PHASES.iter().map(read).collect();
    let mut phases = phases.expect("a test reads the phases of the program");
    phases.sort_by_key(|phase| COLUMNS.iter().position(|name| *name == phase.name));
    phases
}

/// The phases whose severities the rules take for the phases of these names.
pub fn columns(phases: &[Phase], asked: &[String]) -> Vec<String> {
    let like = |name: &String| {
        let phase = phases.iter().find(|phase| phase.name == *name);
        phase.map_or_else(|| name.clone(), |phase| phase.like.clone())
    };
    asked.iter().map(like).collect()
}

/// Whether a name is the one that data speaks of; a final `*` in it stands for any rest.
pub fn named_like(name: &[u8], pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(stem) => name.starts_with(stem.as_bytes()),
        None => name == pattern.as_bytes(),
    }
}

static PROFILERS: LazyLock<Vec<Profiler>> = LazyLock::new(|| {
    read_profilers(crate::data_files::PROFILERS).expect("a test reads the profilers of the program")
});

/// The profiling tools that are part of the program, by id.
pub fn profilers() -> &'static [Profiler] {
    &PROFILERS
}

/// Reads the files of profilers, ids and texts, against the APIs, programs and conditions that are known.
///
/// # Errors
/// All mistakes in all files, with line and column.
pub fn read_profilers(files: &[(&str, &str)]) -> Result<Vec<Profiler>, ProfilerError> {
    let apis: Vec<&str> = api::all().iter().map(|api| &*api.id).collect();
    let consumers: Vec<&str> = crate::facts::known_programs().map(|(id, _)| id).collect();
    let host: Vec<&str> = host::conditions().iter().map(|known| &*known.id).collect();
    let known = Known {
        apis: &apis,
        consumers: &consumers,
        host: &host,
    };
    profiler::compile(files, known)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{profilers, read_profilers};

    #[test]
    fn the_profilers_of_the_program_can_be_read_and_no_two_answer_to_one_name() {
        let read = read_profilers(crate::data_files::PROFILERS);
        assert!(read.is_ok(), "{}", read.unwrap_err());
        let mut names = BTreeSet::new();
        for profiler in profilers() {
            for name in profiler.names() {
                assert!(names.insert(name), "{name}: {}", profiler.id);
                assert!(profiler.answers_to(name));
            }
            let said = &profiler.said;
            assert!(!said.fallbacks.contains(&profiler.id), "{}", profiler.id);
            assert!(!said.gives.ends_with('.') && !said.without.ends_with('.'));
        }
        assert_eq!(profilers().len(), 21);
    }

    #[test]
    fn the_phases_of_the_program_can_be_read() {
        let names: Vec<String> = super::phases()
            .into_iter()
            .map(|phase| phase.name)
            .collect();
        assert_eq!(names, ["inference", "training", "profiling"]);
    }
}
