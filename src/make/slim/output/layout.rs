//! An OCI image layout in a folder: a new folder is put into its place as a whole, and in one that is there the
//! index is replaced last.
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
use crate::make::whole_file::ExistingOutput;
use image_linkage::digest::Digest;
use image_linkage::limits::Limits;

/// Looks whether an image of this name is in the folder.
pub(super) fn check_tag_free(dir: &Path, tag: Option<&str>, existing: ExistingOutput) -> Result<(), SlimError> {
    let others = images(dir)?;
    let is_named = |image: &Value| named(image) == tag;
    if existing == ExistingOutput::Stays && others.iter().any(is_named) {
        let what = tag.map_or_else(
            || format!("an image without a tag in {}", dir.display()),
            |tag| format!("{tag} in {}", dir.display()),
        );
        return Err(SlimError::Exists(what));
    }
    Ok(())
}

/// The images that a folder holds; none where it is empty or not there.
fn images(dir: &Path) -> Result<Vec<Value>, SlimError> {
    let failed = |error| io_error(dir, error);
    match fs::symlink_metadata(dir) {
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
    // Through links: a layout may be one.
    if !dir.is_dir() {
        return Err(no_layout());
    }
    if fs::read_dir(dir).map_err(failed)?.next().is_none() {
        return Ok(Vec::new());
    }
    if !dir.join("oci-layout").is_file() {
        return Err(no_layout());
    }
    let index = dir.join("index.json");
    let bytes = fs::metadata(&index).map_err(|error| io_error(&index, error))?.len();
    // It is read whole, and it is somebody else's file.
    if bytes > Limits::default().document {
        return Err(no_layout());
    }
    let text = fs::read(&index).map_err(|error| io_error(&index, error))?;
    let index: Map<String, Value> = serde_json::from_slice(&text).map_err(|_malformed| no_layout())?;
    let images = index.get("manifests").and_then(Value::as_array);
    images.cloned().ok_or_else(no_layout)
}

/// Whether a layout holds the blobs that an image has in common with the one it was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptBlobs {
    Copied,
    /// They stay where they are, and are read from there when the image is put into its place.
    Elsewhere,
}

/// Writes a layout with this image alone into the staging folder, and says where.
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
            // The staging folder lies beside the output, on the same file system: nothing is copied.
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

/// Puts the layout `new` into its place.
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
    // A name stands for one image in an index: the new one takes the place of the old.
    others.retain(|image| named(image) != name);
    let manifest = Digest::of(&made.manifest);
    let index = build_index(made, &manifest, tag, others).to_string();
    write_file(&new.join("index.json"), index.as_bytes())?;
    // The last moment at which stopping leaves nothing behind.
    interrupt::check_interrupt().map_err(|error| io_error(dir, error))?;
    // An empty folder is replaced by this; one that holds something is not.
    match fs::rename(new, dir) {
        Ok(()) => {}
        Err(_) if dir.join("oci-layout").is_file() => add(new, dir, &blob_paths(made))?,
        Err(error) => return Err(io_error(dir, error)),
    }
    Ok(format!("{} ({manifest})", dir.display()))
}

/// The names of the blobs, each once.
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
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error: io::Error| io_error(path, error))
}

/// Adds what was written to a layout that is there: blobs first, then the index. Blobs that were added are taken back when
/// the index cannot be replaced.
fn add(new: &Path, dir: &Path, blobs: &BTreeSet<String>) -> Result<(), SlimError> {
    let mut added = Vec::new();
    let mut move_all = || {
        for name in blobs {
            let place = dir.join(name);
            // By its name it is the same blob. It is replaced all the same: that this one is whole was seen.
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
