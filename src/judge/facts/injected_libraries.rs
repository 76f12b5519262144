//! Libraries that variables make the driver or NVTX open.

use super::process_context::ProcessContext;
use super::resolved_objects::unresolved_objects;
use image_linkage::loader::UnresolvedRequest;

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
