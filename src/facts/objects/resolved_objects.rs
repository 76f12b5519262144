//! Helpers for objects of an image: the ELF data of one, and the result of a load.

use std::collections::BTreeSet;

use image_linkage::elf::ElfFacts;
use image_linkage::loader::{
    LoadRefusal, LoadResolution, LoadedObject, RequestOutcome, SearchStep, TriedFile, UnresolvedRequest,
};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// The ELF data of the object at `path`; `None` for other files.
pub(crate) fn elf_at<'r>(rootfs: &'r Rootfs, path: &RootPath) -> Option<&'r ElfFacts> {
    rootfs.file(&path.absolute())?.elf.as_deref()
}

/// The unresolved requests, except those for the driver's libraries, which are never part of an image.
pub fn unresolved_objects(resolution: &LoadResolution) -> impl Iterator<Item = &UnresolvedRequest> {
    resolution
        .unresolved
        .iter()
        // The container runtime injects these from the host; as missing libraries they would hide real ones.
        .filter(|missing| missing.outcome != RequestOutcome::ProvidedAtRuntime)
}

/// The names of the driver's libraries that objects of a process need; they are never part of an image.
pub(crate) fn driver_libraries(resolution: &LoadResolution) -> BTreeSet<&[u8]> {
    let missing = resolution.unresolved.iter();
    let of_driver = missing.filter(|missing| missing.outcome == RequestOutcome::ProvidedAtRuntime);
    of_driver.map(|missing| &*missing.name).collect()
}

/// Whether a search ended at a file whose load cannot be predicted.
pub fn is_undetermined(trace: &[SearchStep]) -> bool {
    trace.iter().any(|step| match step {
        SearchStep::Tried { tried, .. } => matches!(tried, TriedFile::Refused(LoadRefusal::Undetermined(_))),
        _ => false,
    })
}

/// The number of undefined symbols that a mapped object imports, if that is the failure.
pub(crate) fn unbound_symbols(failure: &UnresolvedRequest) -> Option<usize> {
    failure.trace.iter().find_map(|step| match step {
        SearchStep::Tried {
            tried: TriedFile::Refused(LoadRefusal::Unbound(count)),
            ..
        } => Some(*count),
        _ => None,
    })
}

/// The opened object, even if its dependencies fail.
pub fn opened_object(resolution: &LoadResolution) -> Option<&LoadedObject> {
    resolution.objects.get(resolution.root?)
}
