//! Simulates a plain dlopen in a process without its own search paths, for the library and for libraries that the
//! driver or NVTX open because of a variable.

use crate::facts::objects::load_answer::LoadAnswer;
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

impl PlainOpen {
    fn new(context: &ProcessContext, name: ByteString) -> Self {
        Self {
            resolution: context.open_plain(&name),
            name,
        }
    }

    /// The loader's answer.
    pub fn answer(&self) -> LoadAnswer {
        // Without an unresolved object, no process can start at all.
        let no_loader = "the image has no dynamic loader";
        LoadAnswer::of_open(&self.resolution).unwrap_or_else(|| LoadAnswer::not_found(no_loader.to_owned()))
    }
}

/// Opens the sonames in order, in a process without search paths. Returns the first that opens, else the result of the
/// first soname.
pub(crate) fn open_first(context: &ProcessContext, library: &LibraryProfile, sonames: &[ByteString]) -> PlainOpen {
    let mut first = None;
    for name in sonames {
        let opened = PlainOpen::new(context, name.clone());
        if opened.resolution.loads() {
            return opened;
        }
        first.get_or_insert(opened);
    }
    first.unwrap_or_else(|| PlainOpen::new(context, library.stem.as_bytes().into()))
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
    let mut injected = Vec::new();
    for variable in VARIABLES {
        let Some(library) = context.entry.variables.get(variable) else {
            continue;
        };
        // A path needs no search path.
        let is_open = !library.contains('/') && context.entry.unknown.contains_key("LD_LIBRARY_PATH");
        if library.is_empty() || is_open {
            continue;
        }
        let opened = context.open_plain(library.as_bytes());
        injected.extend(unresolved_objects(&opened).next().map(|failure| InjectedLibrary {
            variable,
            library: library.clone(),
            failure: failure.clone(),
        }));
    }
    injected
}
