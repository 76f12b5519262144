//! Objects of an image: the tables of one, and what a load came to.

use image_linkage::elf::ElfFacts;
use image_linkage::loader::{
    LoadRefusal, LoadResolution, LoadedObject, RequestOutcome, SearchStep, TriedFile, UnresolvedRequest,
};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// The tables of the object at `path`; `None` for anything else.
pub(crate) fn elf_at<'r>(rootfs: &'r Rootfs, path: &RootPath) -> Option<&'r ElfFacts> {
    rootfs.file(&path.absolute())?.elf.as_deref()
}

/// What did not resolve, without the driver's libraries, which no image can hold.
pub fn unresolved_objects(resolution: &LoadResolution) -> impl Iterator<Item = &UnresolvedRequest> {
    resolution
        .unresolved
        .iter()
        // Calling these missing would bury what is: the container runtime brings them from the host.
        .filter(|missing| missing.outcome != RequestOutcome::ProvidedAtRuntime)
}

/// Whether a search ended at a file of which only a run could tell what comes.
pub fn is_unforetold(trace: &[SearchStep]) -> bool {
    trace.iter().any(|step| match step {
        SearchStep::Tried { tried, .. } => matches!(tried, TriedFile::Refused(LoadRefusal::Undetermined(_))),
        _ => false,
    })
}

/// How many symbols nothing defines that a mapped object imports, where that is what is wrong.
pub(crate) fn unbound_symbols(failure: &UnresolvedRequest) -> Option<usize> {
    failure.trace.iter().find_map(|step| match step {
        SearchStep::Tried {
            tried: TriedFile::Refused(LoadRefusal::Unbound(count)),
            ..
        } => Some(*count),
        _ => None,
    })
}

/// The object that was opened, whether or not all that it needs was found.
pub fn opened_object(resolution: &LoadResolution) -> Option<&LoadedObject> {
    resolution.objects.get(resolution.root?)
}
