//! The libraries beside libcupti: each is asked for as its API does, in a process that has come as far.

use crate::facts::objects::resolved_objects::{elf_at, opened_object, unresolved_objects};
use crate::knowledge::api::{CuptiApi, LibraryRequester};
use image_linkage::elf::ByteString;
use image_linkage::loader::{ObjectNames, RequestOutcome, SearchStage, SearchStep, SimulatedProcess};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use std::sync::Arc;

/// What the request for a library beside libcupti comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompanionLookup {
    /// The name that is asked for.
    pub name: ByteString,
    /// The name in the table of APIs.
    pub library: &'static str,
    /// Who asks for it: libcupti, or the program itself.
    pub got: LibraryRequester,
    /// What became of the request.
    pub outcome: RequestOutcome,
    /// The file, when it was found.
    pub real_path: Option<RootPath>,
    /// How it was found.
    pub how: Option<SearchStage>,
    /// The loader's words, when it was not.
    pub message: String,
    /// The steps of the search, in the loader's order.
    pub trace: Arc<[SearchStep]>,
    /// The objects that the numbers in the search count.
    pub objects: ObjectNames,
}

/// A library that is asked for beside libcupti.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CompanionRequest {
    library: &'static str,
    got: LibraryRequester,
    name: ByteString,
}

/// The libraries that the APIs need, those whose name has a number once for each that is there.
pub(crate) fn companion_requests(
    rootfs: &Rootfs,
    apis: &'static [CuptiApi],
    files: &[&RootPath],
) -> Vec<CompanionRequest> {
    let libraries = apis.iter().flat_map(|api| &api.libraries);
    let mut wanted: Vec<CompanionRequest> = libraries
        .flat_map(|library| {
            // `libcuinj64.so.12.4` bears the number of its CUDA: only the files tell which name can be asked for.
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
    // Several APIs take the same library, and one request answers for all of them.
    wanted.sort();
    wanted.dedup();
    wanted
}

/// The sonames of the files that are named as `stem`; the stem itself when there are none.
fn sonames(rootfs: &Rootfs, files: &[&RootPath], stem: &str) -> Vec<ByteString> {
    let likely = files.iter().filter(|file| file.name().starts_with(stem.as_bytes()));
    let names: Vec<ByteString> = likely.filter_map(|file| elf_at(rootfs, file)?.soname.clone()).collect();
    if names.is_empty() {
        vec![stem.as_bytes().into()]
    } else {
        names
    }
}

/// Asks for the libraries, each in a process of its own that has come as far as this one.
pub(crate) fn look_up_companions(
    process: &SimulatedProcess<'_>,
    asker: Option<&RootPath>,
    cupti: Option<&RootPath>,
    wanted: &[CompanionRequest],
) -> Vec<CompanionLookup> {
    let ask = |wanted: &CompanionRequest| {
        // A library that is mapped answers to its name, so that no request may see what another one mapped.
        let mut process = process.clone();
        let caller = match wanted.got {
            // Without libcupti nobody makes this request.
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
