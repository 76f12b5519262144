//! Formats a search: one line per step, in the loader's order.

use super::machine;
use super::resolution::NumberedObjects;
use super::trace::{SearchStage, SearchStep, TriedFile};
use crate::escape;
use crate::rootfs::LookupError;

/// One step of a search as three columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceLine {
    /// The search stage, such as `LD_LIBRARY_PATH`.
    pub part: String,
    /// The tried path, or empty.
    pub path: String,
    /// The result.
    pub result: String,
}

const NO_DIRECTORY: &str = "no such directory";

impl TraceLine {
    fn new(part: impl Into<String>, path: &[u8], result: impl Into<String>) -> Self {
        Self {
            part: part.into(),
            path: escape::escape_bytes(path),
            result: result.into(),
        }
    }

    /// Whether the step only shows that something is not there, so that the search goes on.
    pub fn is_absence(&self) -> bool {
        self.result == NO_DIRECTORY || self.result == LookupError::NotFound.to_string()
    }

    /// The line as text.
    pub fn text(&self) -> String {
        let path = if self.path.is_empty() {
            String::new()
        } else {
            format!(" {}", self.path)
        };
        format!("{}{path}: {}", self.part, self.result)
    }
}

/// Formats the steps. `objects` resolves the object numbers in them.
pub fn trace_lines(steps: &[SearchStep], objects: &impl NumberedObjects) -> Vec<TraceLine> {
    steps.iter().map(|step| line(step, objects)).collect()
}

fn line(step: &SearchStep, objects: &impl NumberedObjects) -> TraceLine {
    match step {
        SearchStep::Tried { how, path, tried } => TraceLine::new(how.text(objects), path, tried_text(tried)),
        SearchStep::NoDirectory { how, path } => TraceLine::new(how.text(objects), path, NO_DIRECTORY),
        SearchStep::LibraryPathIgnored(why) => TraceLine::new("LD_LIBRARY_PATH", b"", format!("ignored: {why}")),
        SearchStep::OriginIgnored { how, path, why } => {
            TraceLine::new(how.text(objects), path, format!("ignored: {why}"))
        }
        SearchStep::CacheIgnored(why) => TraceLine::new("ld.so.cache", b"", format!("not read: {why}")),
        SearchStep::RpathIgnored => TraceLine::new("DT_RPATH", b"", "ignored: the object has a DT_RUNPATH"),
        SearchStep::NotInCache => TraceLine::new("ld.so.cache", b"", "no entry"),
        SearchStep::NoCache => TraceLine::new("ld.so.cache", b"", "there is none"),
        SearchStep::LeftOut(steps) => TraceLine::new("…", b"", format!("{steps} more steps without a result")),
        SearchStep::NoDefaults => TraceLine::new("default", b"", "not searched: the object has DF_1_NODEFLIB"),
    }
}

impl SearchStage {
    /// The search stage and the object whose path it is.
    pub fn text(self, objects: &impl NumberedObjects) -> String {
        let of = |number: usize| {
            let path = objects.path_of(number).map(base_name);
            path.map_or_else(|| "an object".to_owned(), escape::escape_bytes)
        };
        match self {
            Self::Start => "started".to_owned(),
            Self::Interpreter => "the loader itself".to_owned(),
            Self::Preload => "preloaded".to_owned(),
            Self::Direct => "path".to_owned(),
            Self::Rpath(number) => format!("DT_RPATH of {}", of(number)),
            Self::LdLibraryPath => "LD_LIBRARY_PATH".to_owned(),
            Self::Runpath(number) => format!("DT_RUNPATH of {}", of(number)),
            Self::Cache => "ld.so.cache".to_owned(),
            Self::Default => "default directory".to_owned(),
        }
    }
}

/// The result of a tried path.
pub(crate) fn tried_text(tried: &TriedFile) -> String {
    match tried {
        TriedFile::Found => "found".to_owned(),
        TriedFile::Missing(LookupError::Denied(denial)) => format!("permission denied: {denial}"),
        TriedFile::Missing(error) => error.to_string(),
        TriedFile::Untrusted => "skipped: no set-user-ID bit in secure-execution mode".to_owned(),
        TriedFile::WrongClass => "skipped: wrong ELF class".to_owned(),
        TriedFile::WrongMachine => "skipped: for another processor".to_owned(),
        TriedFile::Refused(refusal) => format!("{refusal}; the search stops here"),
    }
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// The architecture name of an object, including an unusual word size.
pub fn object_machine(facts: &crate::elf::ElfFacts) -> String {
    let name = machine::machine_name(facts.machine);
    match (facts.class(), facts.machine) {
        // A 32-bit object for x86-64.
        (1, elf::abi::EM_X86_64) => "x32".to_owned(),
        _ => name,
    }
}
