//! Profiles: data on the APIs of CUPTI, on files that may be dead weight, on what a phase of a project needs, and
//! on the drivers of hosts.

pub mod api;
pub mod baggage;
pub mod driver;
mod phase;

pub use phase::Phase;

/// The phases that are part of the program, in the order in which reports name them.
///
/// # Panics
/// Never: a test reads them.
pub fn phases() -> Vec<Phase> {
    const ORDER: [&str; 3] = ["inference", "training", "profiling"];
    let mut phases: Vec<Phase> = crate::data_files::PHASES
        .iter()
        .map(|(name, text)| {
            Phase::read(name, text).expect("a test reads the phases of the program")
        })
        .collect();
    phases.sort_by_key(|phase| ORDER.iter().position(|name| *name == phase.name));
    phases
}

/// Whether a name is the one that data speaks of; a final `*` in it stands for any rest.
pub fn named_like(name: &[u8], pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(stem) => name.starts_with(stem.as_bytes()),
        None => name == pattern.as_bytes(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_phases_of_the_program_can_be_read() {
        let names: Vec<String> = super::phases()
            .into_iter()
            .map(|phase| phase.name)
            .collect();
        assert_eq!(names, ["inference", "training", "profiling"]);
    }
}
