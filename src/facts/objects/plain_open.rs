//! A plain dlopen: what a process without search paths of its own gets, of the library and of what variables make the
//! driver or NVTX open.

use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::unresolved_objects;
use crate::knowledge::LibraryProfile;
use image_linkage::elf::ByteString;
use image_linkage::loader::LoadResolution;
use image_linkage::loader::UnresolvedRequest;

/// What a plain dlopen of one name gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainOpen {
    /// The soname that was opened.
    pub name: ByteString,
    /// What the loader does.
    pub resolution: LoadResolution,
}

/// Opens the sonames one after the other, as a process without search paths would; the first that opens
/// counts, else the first that is expected.
pub(crate) fn open_first(context: &ProcessContext, library: &LibraryProfile, sonames: &[ByteString]) -> PlainOpen {
    let open = |name: &ByteString| PlainOpen {
        name: name.clone(),
        resolution: context.open_plain(name),
    };
    // One after the other: each open maps a whole process, and the first mostly succeeds.
    let mut opened = sonames.iter().map(open);
    let first = opened.next().unwrap_or_else(|| open(&library.stem.as_bytes().into()));
    if first.resolution.loads() {
        return first;
    }
    opened.find(|plain| plain.resolution.loads()).unwrap_or(first)
}

/// A library that a variable names and that cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InjectedLibrary {
    /// The variable of the environment that names it.
    pub variable: &'static str,
    /// What it names, as dlopen gets it.
    pub library: String,
    /// The first thing that keeps it from being loaded.
    pub failure: UnresolvedRequest,
}

/// The variables whose value is opened by dlopen: by the driver in cuInit, and by NVTX at its first call.
const VARIABLES: [&str; 2] = ["CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"];

/// The injected libraries that a process of the image cannot load.
pub fn find_injections(context: &ProcessContext) -> Vec<InjectedLibrary> {
    let named = VARIABLES.into_iter().filter_map(|variable| {
        let library = context.entry.variables.get(variable)?;
        // A path needs no search path to be found.
        let is_open = !library.contains('/') && context.entry.unknown.contains_key("LD_LIBRARY_PATH");
        Some((variable, library)).filter(|(_, library)| !library.is_empty() && !is_open)
    });
    named
        .filter_map(|(variable, library)| {
            let opened = context.open_plain(library.as_bytes());
            let failure = unresolved_objects(&opened).next()?.clone();
            Some(InjectedLibrary {
                variable,
                library: library.clone(),
                failure,
            })
        })
        .collect()
}
