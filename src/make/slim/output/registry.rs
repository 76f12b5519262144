//! A registry. Existing blobs are not sent, and the manifest is sent last.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use super::OutputAccess;
use crate::make::slim::new_image::NewImage;
use crate::make::slim::original_image::OriginalImage;
use crate::make::slim::{SlimError, interrupt};
use crate::make::whole_file::ExistingOutput;
use image_source::registry::{PushOutcome, RegistryPush};
use image_source::{Digest, ImageError, RegistryReference};

/// Checks that the tag does not exist, or that it may be replaced.
pub(super) fn check_tag_unused(
    reference: &RegistryReference,
    written: &str,
    reach: &OutputAccess<'_>,
) -> Result<(), SlimError> {
    let push = RegistryPush::new(reference, written, None, reach.registry)?;
    free(&push, written, reach.existing)
}

fn free(push: &RegistryPush, written: &str, existing: ExistingOutput) -> Result<(), SlimError> {
    if push.exists()? && existing == ExistingOutput::Stays {
        return Err(SlimError::Exists(written.to_owned()));
    }
    Ok(())
}

pub(super) fn push_image(
    made: &NewImage<'_>,
    reference: &RegistryReference,
    written: &str,
    reach: &OutputAccess<'_>,
) -> Result<String, SlimError> {
    let push = RegistryPush::new(reference, written, home(made.original, reference), reach.registry)?;
    free(&push, written, reach.existing)?;
    let mut done: BTreeMap<PushOutcome, usize> = BTreeMap::new();
    for layer in &made.layers {
        // A layer that the registry has in another repository is mounted, not sent (distribution-spec, "Mounting a blob
        // from another repository").
        let pushed = push.push_blob(&layer.blob.digest, layer.blob.size, &|| {
            interrupt::check_interrupt().map_err(ImageError::io(written))?;
            made.open_blob(layer).map_err(of_image)
        })?;
        *done.entry(pushed).or_default() += 1;
    }
    let config = made.config.clone();
    push.push_blob(&made.config_digest(), config.len() as u64, &|| {
        Ok(Box::new(Cursor::new(config.clone())) as Box<dyn Read + Send>)
    })?;
    // Last: a registry rejects a manifest with missing blobs, so nobody pulls an incomplete image.
    push.push_manifest(made.manifest_type, &made.manifest)?;
    let outcomes = [PushOutcome::Sent, PushOutcome::Mounted, PushOutcome::There];
    let [sent, mounted, there] = outcomes.map(|outcome| done.get(&outcome).copied().unwrap_or(0));
    let digest = Digest::of(&made.manifest);
    Ok(format!(
        "{written} ({digest}; {sent} layers sent, {mounted} mounted, {there} there already)"
    ))
}

fn of_image(error: SlimError) -> ImageError {
    match error {
        SlimError::Image(error) => error,
        other => ImageError::Remote(other.to_string()),
    }
}

/// The original image's repository, if it is in the same registry.
fn home<'o>(original: &'o OriginalImage, reference: &RegistryReference) -> Option<&'o str> {
    let home = original.home.as_ref()?;
    (home.registry() == reference.registry()).then_some(home.repository())
}
