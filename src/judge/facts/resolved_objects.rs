//! What a load came to: the object that was opened, and what stayed open.

use image_linkage::loader::{LoadResolution, LoadedObject, RequestOutcome, UnresolvedRequest};

/// What did not resolve, without the driver's libraries, which no image can hold.
pub fn unresolved_objects(resolution: &LoadResolution) -> impl Iterator<Item = &UnresolvedRequest> {
    resolution
        .unresolved
        .iter()
        // Calling these missing would bury what is: the container runtime brings them from the host.
        .filter(|missing| missing.outcome != RequestOutcome::ProvidedAtRuntime)
}

/// The object that was opened, whether or not all that it needs was found.
pub fn opened_object(resolution: &LoadResolution) -> Option<&LoadedObject> {
    resolution.objects.get(resolution.root?)
}
