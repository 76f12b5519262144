//! An OCI image layout in a folder. A new folder is renamed into place; in an existing layout the index is replaced
//! last.
#![expect(clippy::disallowed_methods, reason = "the image is written where the user wants it")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::layout_documents::{LAYOUT, blob_path, build_index, image_name, named};
use crate::make::slim::new_image::{LayerOrigin, NewImage, StoredLayer};
use crate::make::slim::staging_files::io_error;
use crate::make::slim::{SlimError, interrupt};
use crate::make::whole_file::{ExistingOutput, settle};
use image_linkage::digest::Digest;
use image_linkage::limits::Limits;

/// Checks that the folder has no image with this tag, or that it may be replaced.
pub(super) fn check_tag_free(dir: &Path, tag: Option<&str>, existing: ExistingOutput) -> Result<(), SlimError> {
    let others = images(dir)?;
    if existing == ExistingOutput::Stays && others.iter().any(|image| named(image) == tag) {
        let what = tag.map_or_else(
            || format!("an image without a tag in {}", dir.display()),
            |tag| format!("{tag} in {}", dir.display()),
        );
        return Err(SlimError::Exists(what));
    }
    Ok(())
}

/// The images in a folder; none if it is empty or missing.
fn images(dir: &Path) -> Result<Vec<Value>, SlimError> {
    let failed = |error| io_error(dir, error);
    // A link to a missing folder stands for that folder.
    match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
        Ok(_) => {}
    }
    let no_layout = || {
        let text = format!(
            "{} is there and is no OCI image layout; it is left alone",
            dir.display()
        );
        SlimError::Cannot(text)
    };
    // Follows links, because a layout may be a link.
    if !dir.is_dir() {
        return Err(no_layout());
    }
    if fs::read_dir(dir).map_err(failed)?.next().is_none() {
        return Ok(Vec::new());
    }
    if !dir.join("oci-layout").is_file() {
        return Err(no_layout());
    }
    let file = dir.join("index.json");
    let bytes = fs::metadata(&file).map_err(|error| io_error(&file, error))?.len();
    // The whole file is read into memory, and it is untrusted.
    if bytes > Limits::default().document {
        return Err(no_layout());
    }
    let text = fs::read(&file).map_err(|error| io_error(&file, error))?;
    let index: Map<String, Value> = serde_json::from_slice(&text).map_err(|_malformed| no_layout())?;
    let images = index.get("manifests").and_then(Value::as_array);
    images.cloned().ok_or_else(no_layout)
}

/// Whether a layout contains the blobs that the image shares with the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptBlobs {
    Copied,
    /// They are read from the original when the image is moved into place.
    Elsewhere,
}

/// Writes a layout with only this image into the staging folder. Returns its path.
pub(super) fn write_layout(
    made: &NewImage<'_>,
    tag: Option<&str>,
    kept: KeptBlobs,
    folder: &Path,
) -> Result<PathBuf, SlimError> {
    let new = folder.join("layout");
    let blobs = new.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(|error| io_error(&blobs, error))?;
    for layer in &made.layers {
        let path = new.join(blob_path(&layer.blob.digest));
        match &layer.origin {
            _ if path.exists() => {}
            // The staging folder is on the same file system as the output, so link instead of copying.
            LayerOrigin::Staged(staged) => {
                let linked = fs::hard_link(staged, &path).or_else(|_| fs::rename(staged, &path));
                linked.map_err(|error| io_error(&path, error))?;
            }
            _ if kept == KeptBlobs::Elsewhere => {}
            _ => copy_blob(made, layer, &path)?,
        }
    }
    for bytes in [&made.config, &made.manifest] {
        write_file(&new.join(blob_path(&Digest::of(bytes))), bytes)?;
    }
    let index = build_index(made, &Digest::of(&made.manifest), tag, Vec::new());
    write_file(&new.join("index.json"), index.to_string().as_bytes())?;
    write_file(&new.join("oci-layout"), LAYOUT)?;
    Ok(new)
}

/// Moves the layout `new` into place.
pub(super) fn place_layout(
    made: &NewImage<'_>,
    new: &Path,
    dir: &Path,
    tag: Option<&str>,
    existing: ExistingOutput,
) -> Result<String, SlimError> {
    let name = image_name(made, tag);
    check_tag_free(dir, name, existing)?;
    let mut others = images(dir)?;
    // A tag refers to one image of an index, so the new image replaces the old one.
    others.retain(|image| named(image) != name);
    let manifest = Digest::of(&made.manifest);
    let index = build_index(made, &manifest, tag, others).to_string();
    write_file(&new.join("index.json"), index.as_bytes())?;
    // The last point at which an interruption leaves nothing behind.
    interrupt::check_interrupt().map_err(|error| io_error(dir, error))?;
    // The rename replaces an empty folder, also behind a link, but fails for a non-empty one.
    match fs::rename(new, settle(dir)) {
        Ok(()) => {}
        Err(_) if dir.join("oci-layout").is_file() => add(new, dir, &blob_paths(made))?,
        Err(error) => return Err(io_error(dir, error)),
    }
    Ok(format!("{} ({manifest})", dir.display()))
}

/// The paths of the blobs, without duplicates.
fn blob_paths(made: &NewImage<'_>) -> BTreeSet<String> {
    let layers = made.layers.iter().map(|it| blob_path(&it.blob.digest));
    let documents = [&made.config, &made.manifest].map(|bytes| blob_path(&Digest::of(bytes)));
    layers.chain(documents).collect()
}

fn copy_blob(made: &NewImage<'_>, layer: &StoredLayer, path: &Path) -> Result<(), SlimError> {
    let mut blob = made.open_blob(layer)?;
    let mut out = File::create(path).map_err(|error| io_error(path, error))?;
    let copied = interrupt::copy_interruptible(&mut *blob, &mut out);
    copied.map(drop).map_err(|error| io_error(path, error))
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), SlimError> {
    File::create(path)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .map_err(|error| io_error(path, error))
}

/// Adds the new files to an existing layout: blobs first, then the index. If the index cannot be replaced, the new
/// blobs are removed again.
fn add(new: &Path, dir: &Path, blobs: &BTreeSet<String>) -> Result<(), SlimError> {
    let mut added = Vec::new();
    let mut move_all = || {
        for name in blobs {
            let place = dir.join(name);
            // The digest says that it is the same blob, but replace it: only the new one has been verified.
            let is_new = !place.exists();
            if let Some(folder) = place.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::rename(new.join(name), &place)?;
            added.extend(is_new.then_some(place));
        }
        fs::rename(new.join("index.json"), dir.join("index.json"))
    };
    let moved = move_all();
    moved.map_err(|error| {
        for blob in &added {
            let _ = fs::remove_file(blob);
        }
        io_error(dir, error)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::add;

    #[test]
    fn a_failure_removes_only_the_blobs_that_were_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let (new, old) = (dir.path().join("new"), dir.path().join("old"));
        for blob in ["new/blobs/a", "new/blobs/b", "old/blobs/a"] {
            let path = dir.path().join(blob);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        fs::write(new.join("index.json"), "").unwrap();
        // A folder in its place, which no file can replace.
        fs::create_dir(old.join("index.json")).unwrap();
        let blobs = ["blobs/a", "blobs/b"].map(str::to_owned).into();
        assert!(add(&new, &old, &blobs).is_err());
        let left = ["blobs/a", "blobs/b"].map(|blob| old.join(blob).exists());
        assert_eq!(left, [true, false]);
    }
}
