//! Resolves libcupti's companion libraries, each as its API opens it and in a copy of the process at that point.

use crate::facts::objects::resolved_objects::{elf_at, opened_object, unresolved_objects};
use crate::knowledge::api::{CuptiApi, LibraryRequester};
use image_linkage::elf::ByteString;
use image_linkage::loader::{ObjectNames, RequestOutcome, SearchStage, SearchStep, SimulatedProcess};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use std::sync::Arc;

/// The result of a request for a companion library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompanionLookup {
    /// The requested name.
    pub name: ByteString,
    /// The name in the table of APIs.
    pub library: &'static str,
    /// The requester: libcupti or the program.
    pub got: LibraryRequester,
    /// The outcome of the request.
    pub outcome: RequestOutcome,
    /// The file, if found.
    pub real_path: Option<RootPath>,
    /// How it was found.
    pub how: Option<SearchStage>,
    /// The loader's message, if not found.
    pub message: String,
    /// The steps of the search, in the loader's order.
    pub trace: Arc<[SearchStep]>,
    /// The names of the objects that the search steps refer to by number.
    pub objects: ObjectNames,
}

/// A request for a companion library.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CompanionRequest {
    library: &'static str,
    got: LibraryRequester,
    name: ByteString,
}

/// The requests of the APIs. If a name contains a version number, there is one for each version in the image.
pub(crate) fn companion_requests(
    rootfs: &Rootfs,
    apis: &'static [CuptiApi],
    files: &[&RootPath],
) -> Vec<CompanionRequest> {
    let libraries = apis.iter().flat_map(|api| &api.libraries);
    let mut wanted: Vec<CompanionRequest> = libraries
        .flat_map(|library| {
            // `libcuinj64.so.12.4` contains its CUDA version, so only the files show which name to request.
            let names = if library.is_numbered() {
                sonames(rootfs, files, library.stem())
            } else {
                vec![library.name.as_bytes().into()]
            };
            let (got, library) = (library.got, library.name.as_str());
            names
                .into_iter()
                .map(move |name| CompanionRequest { library, got, name })
        })
        .collect();
    // Several APIs use the same library; one request is enough.
    wanted.sort();
    wanted.dedup();
    wanted
}

/// The sonames of the files whose names start with `stem`, or the stem itself if there are none.
fn sonames(rootfs: &Rootfs, files: &[&RootPath], stem: &str) -> Vec<ByteString> {
    let likely = files.iter().filter(|file| file.name().starts_with(stem.as_bytes()));
    let names: Vec<ByteString> = likely.filter_map(|file| elf_at(rootfs, file)?.soname.clone()).collect();
    if names.is_empty() {
        vec![stem.as_bytes().into()]
    } else {
        names
    }
}

/// Resolves each request in its own copy of the process.
pub(crate) fn look_up_companions(
    process: &SimulatedProcess<'_>,
    asker: Option<&RootPath>,
    cupti: Option<&RootPath>,
    wanted: &[CompanionRequest],
) -> Vec<CompanionLookup> {
    let ask = |wanted: &CompanionRequest| {
        // A mapped library satisfies later requests, so each request needs a fresh copy.
        let mut process = process.clone();
        let caller = match wanted.got {
            // Without libcupti this request does not happen.
            LibraryRequester::ByCupti => Some(process.map_of_path(cupti?)?),
            LibraryRequester::ByAsker => asker.and_then(|asker| process.map_of_path(asker)),
        };
        Some(companion(&mut process, wanted, caller))
    };
    wanted.iter().filter_map(ask).collect()
}

fn companion(process: &mut SimulatedProcess<'_>, wanted: &CompanionRequest, caller: Option<usize>) -> CompanionLookup {
    let resolution = process.open(&wanted.name, caller);
    let failure = unresolved_objects(&resolution).next();
    let found = opened_object(&resolution).filter(|_| resolution.loads());
    let trace = match (found, failure) {
        (Some(object), _) => object.trace.as_slice(),
        (None, Some(failure)) => failure.trace.as_slice(),
        (None, None) => &[],
    };
    CompanionLookup {
        name: wanted.name.clone(),
        library: wanted.library,
        got: wanted.got,
        outcome: match (found, failure) {
            (Some(_), _) => RequestOutcome::Loaded,
            (None, Some(failure)) => failure.outcome,
            (None, None) => RequestOutcome::NotFound,
        },
        real_path: found.map(|object| object.real_path.clone()),
        how: found.map(|object| object.how),
        message: failure.map(|failure| failure.message.clone()).unwrap_or_default(),
        objects: ObjectNames::of_trace(&resolution.objects, trace, found.map(|object| object.how)),
        trace: trace.into(),
    }
}
