//! Simulates a plain dlopen in a process without its own search paths, for the library and for libraries that the
//! driver or NVTX open because of a variable.

use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::unresolved_objects;
use crate::knowledge::LibraryProfile;
use image_linkage::elf::ByteString;
use image_linkage::loader::LoadResolution;
use image_linkage::loader::UnresolvedRequest;

/// The result of a plain dlopen of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainOpen {
    /// The requested soname.
    pub name: ByteString,
    /// The loader's result.
    pub resolution: LoadResolution,
}

/// Opens the sonames in order, in a process without search paths. Returns the first that opens, else the result of the
/// first soname.
pub(crate) fn open_first(context: &ProcessContext, library: &LibraryProfile, sonames: &[ByteString]) -> PlainOpen {
    let open = |name: &ByteString| PlainOpen {
        name: name.clone(),
        resolution: context.open_plain(name),
    };
    // Lazy: each open simulates a whole process, and the first usually succeeds.
    let mut opened = sonames.iter().map(open);
    let first = opened.next().unwrap_or_else(|| open(&library.stem.as_bytes().into()));
    if first.resolution.loads() {
        return first;
    }
    opened.find(|plain| plain.resolution.loads()).unwrap_or(first)
}

/// A library in a variable that does not load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InjectedLibrary {
    /// The environment variable.
    pub variable: &'static str,
    /// Its value, as passed to dlopen.
    pub library: String,
    /// The first failure.
    pub failure: UnresolvedRequest,
}

/// Variables whose value is passed to dlopen: by the driver in `cuInit`, and by NVTX in its first call.
const VARIABLES: [&str; 2] = ["CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"];

/// Finds the injected libraries that a process of the image cannot load.
pub fn find_injections(context: &ProcessContext) -> Vec<InjectedLibrary> {
    let named = VARIABLES.into_iter().filter_map(|variable| {
        let library = context.entry.variables.get(variable)?;
        // A path needs no search path.
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
