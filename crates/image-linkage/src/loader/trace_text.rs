//! A search in words: one line per step, in the loader's order.

use super::{How, Object, Step, Tried, arch};
use crate::escape;

/// One step of a search as three columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The part of the search, such as `LD_LIBRARY_PATH`.
    pub part: String,
    /// The path that was tried, or nothing.
    pub path: String,
    /// What came of it.
    pub result: String,
}

impl Line {
    fn new(part: impl Into<String>, path: &[u8], result: impl Into<String>) -> Self {
        Self {
            part: part.into(),
            path: escape::text(path),
            result: result.into(),
        }
    }

    /// The line as one text.
    pub fn text(&self) -> String {
        let path = if self.path.is_empty() {
            String::new()
        } else {
            format!(" {}", self.path)
        };
        format!("{}{path}: {}", self.part, self.result)
    }
}

/// The steps in words. `objects` are those that the numbers in the steps count.
pub fn lines(steps: &[Step], objects: &[Object]) -> Vec<Line> {
    steps.iter().map(|step| line(step, objects)).collect()
}

fn line(step: &Step, objects: &[Object]) -> Line {
    match step {
        Step::Tried { how, path, tried } => Line::new(part(*how, objects), path, result(tried)),
        Step::NoDirectory { how, path } => {
            Line::new(part(*how, objects), path, "no such directory")
        }
        Step::RpathIgnored => Line::new("DT_RPATH", b"", "ignored: the object has a DT_RUNPATH"),
        Step::NotInCache => Line::new("ld.so.cache", b"", "no entry"),
        Step::NoCache => Line::new("ld.so.cache", b"", "there is none"),
        Step::NoDefaults => Line::new("default", b"", "not searched: the object has DF_1_NODEFLIB"),
    }
}

/// The part of the search, with the object whose path it is.
pub fn part(how: How, objects: &[Object]) -> String {
    let of = |number: usize| {
        objects.get(number).map_or_else(
            || "an object".to_owned(),
            |object| escape::text(base_name(&object.path)),
        )
    };
    match how {
        How::Start => "started".to_owned(),
        How::Interpreter => "the loader itself".to_owned(),
        How::Preload => "preloaded".to_owned(),
        How::Direct => "path".to_owned(),
        How::Rpath(number) => format!("DT_RPATH of {}", of(number)),
        How::LdLibraryPath => "LD_LIBRARY_PATH".to_owned(),
        How::Runpath(number) => format!("DT_RUNPATH of {}", of(number)),
        How::Cache => "ld.so.cache".to_owned(),
        How::Default => "default directory".to_owned(),
    }
}

/// What lay at a path.
pub fn result(tried: &Tried) -> String {
    match tried {
        Tried::Found => "found".to_owned(),
        Tried::Missing(error) => error.to_string(),
        Tried::WrongClass => "skipped: wrong ELF class".to_owned(),
        Tried::WrongMachine => "skipped: for another processor".to_owned(),
        Tried::Refused(refusal) => format!("{refusal}; the search stops here"),
    }
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// The name of the processor an object is for, with its word size where that is unusual.
pub fn machine(facts: &crate::elf::ElfFacts) -> String {
    let name = arch::machine_name(facts.machine);
    match (facts.class(), facts.machine) {
        (1, 62) => "x32".to_owned(),
        _ => name,
    }
}
