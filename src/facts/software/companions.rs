//! Resolves libcupti's companion libraries, each as its API opens it and in a copy of the process at that point.

use crate::facts::objects::load_answer::LoadAnswer;
use crate::facts::objects::resolved_objects::elf_at;
use crate::knowledge::api::{CuptiApi, LibraryRequester};
use image_linkage::elf::ByteString;
use image_linkage::loader::SimulatedProcess;
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// The result of a request for a companion library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompanionLookup {
    /// The requested name.
    pub name: ByteString,
    /// The name in the table of APIs.
    pub library: &'static str,
    /// The requester: libcupti or the program.
    pub requester: LibraryRequester,
    /// The loader's answer.
    pub answer: LoadAnswer,
}

/// A request for a companion library.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CompanionRequest {
    library: &'static str,
    requester: LibraryRequester,
    name: ByteString,
}

/// The requests of the APIs. If a name contains a version number, there is one for each version in the image.
pub(crate) fn companion_requests(
    rootfs: &Rootfs,
    apis: &'static [CuptiApi],
    files: &[&RootPath],
) -> Vec<CompanionRequest> {
    let mut wanted = Vec::new();
    for library in apis.iter().flat_map(|api| &api.libraries) {
        // `libcuinj64.so.12.4` contains its CUDA version, so only the files show which name to request.
        let names = if library.is_numbered() {
            sonames(rootfs, files, library.stem())
        } else {
            vec![library.name.as_bytes().into()]
        };
        wanted.extend(names.into_iter().map(|name| CompanionRequest {
            library: &library.name,
            requester: library.requester,
            name,
        }));
    }
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

/// Resolves each request in its own copy of the process, in which `object` requests the library.
pub(crate) fn look_up_companions(
    process: &SimulatedProcess<'_>,
    object: Option<&RootPath>,
    cupti: Option<&RootPath>,
    wanted: &[CompanionRequest],
) -> Vec<CompanionLookup> {
    let mut lookups = Vec::new();
    for request in wanted {
        // A mapped library satisfies later requests, so each request needs a fresh copy.
        let mut process = process.clone();
        let caller = match request.requester {
            // Without libcupti this request does not happen.
            LibraryRequester::Cupti => {
                let Some(caller) = cupti.and_then(|cupti| process.map_of_path(cupti)) else {
                    continue;
                };
                Some(caller)
            }
            LibraryRequester::Program => object.and_then(|object| process.map_of_path(object)),
        };
        let opened = process.open(&request.name, caller);
        lookups.push(CompanionLookup {
            name: request.name.clone(),
            library: request.library,
            requester: request.requester,
            answer: LoadAnswer::of_open(&opened).unwrap_or_else(|| LoadAnswer::not_found(String::new())),
        });
    }
    lookups
}
