//! An OCI image layout in a folder: a new folder is put into its place as a whole, and in one that is there the
//! index is replaced last.
#![expect(clippy::disallowed_methods, reason = "the image is written where the user wants it")]

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::layout_documents::{LAYOUT, blob_path, build_index, named};
use crate::make::slim::new_image::{LayerOrigin, NewImage, sha256_digest};
use crate::make::slim::staging_files::io_error;
use crate::make::slim::{SlimError, interrupt};
use crate::make::whole_file::ExistingOutput;
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
    if fs::read_dir(dir).map_err(failed)?.next().is_none() {
        return Ok(Vec::new());
    }
    let no_layout = || {
        let text = format!(
            "{} is there and is no OCI image layout; it is left alone",
            dir.display()
        );
        SlimError::Cannot(text)
    };
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

/// Writes the layout and puts it into its place.
pub(super) fn place_layout(
    made: &NewImage<'_>,
    dir: &Path,
    tag: Option<&str>,
    existing: ExistingOutput,
    folder: &Path,
) -> Result<String, SlimError> {
    check_tag_free(dir, tag, existing)?;
    let mut others = images(dir)?;
    // A name stands for one image in an index: the new one takes the place of the old.
    others.retain(|image| named(image) != tag);
    let new = folder.join("layout");
    let blobs = write(made, &new)?;
    let manifest = sha256_digest(&made.manifest)?;
    let index = build_index(made, &manifest, tag, others).to_string();
    file(&new.join("index.json"), index.as_bytes())?;
    file(&new.join("oci-layout"), LAYOUT)?;
    // The last moment at which stopping leaves nothing behind.
    interrupt::check_interrupt().map_err(|error| io_error(dir, error))?;
    // An empty folder is replaced by this; one that holds something is not.
    match fs::rename(&new, dir) {
        Ok(()) => {}
        Err(_) if dir.join("oci-layout").is_file() => add(&new, dir, &blobs)?,
        Err(error) => return Err(io_error(dir, error)),
    }
    Ok(format!("{} ({manifest})", dir.display()))
}

/// Writes the blobs below a new folder; gives their names.
fn write(made: &NewImage<'_>, new: &Path) -> Result<Vec<String>, SlimError> {
    let folder = new.join("blobs/sha256");
    fs::create_dir_all(&folder).map_err(|error| io_error(&folder, error))?;
    let mut names = Vec::new();
    for layer in &made.layers {
        let name = blob_path(&layer.blob.digest);
        let path = new.join(&name);
        if names.contains(&name) {
            continue;
        }
        match &layer.origin {
            // The staging folder lies beside the output, on the same file system: nothing is copied.
            LayerOrigin::Staged(staged) => {
                fs::rename(staged, &path).map_err(|error| io_error(&path, error))?;
            }
            _ => copy(made, layer, &path)?,
        }
        names.push(name);
    }
    for bytes in [&made.config, &made.manifest] {
        let name = blob_path(&sha256_digest(bytes)?);
        file(&new.join(&name), bytes)?;
        names.push(name);
    }
    Ok(names)
}

fn copy(
    made: &NewImage<'_>,
    layer: &crate::make::slim::new_image::StoredLayer,
    path: &PathBuf,
) -> Result<(), SlimError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| io_error(folder, error))?;
    }
    let mut blob = made.open_blob(layer)?;
    let mut out = File::create(path).map_err(|error| io_error(path, error))?;
    let copied = interrupt::copy_interruptible(&mut *blob, &mut out);
    copied.map(drop).map_err(|error| io_error(path, error))
}

fn file(path: &Path, bytes: &[u8]) -> Result<(), SlimError> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error: io::Error| io_error(path, error))
}

/// Adds what was written to a layout that is there: blobs first, then the index. Blobs that were added are taken back when
/// the index cannot be replaced.
fn add(new: &Path, dir: &Path, blobs: &[String]) -> Result<(), SlimError> {
    let mut added = Vec::new();
    let mut move_all = || {
        for name in blobs {
            let place = dir.join(name);
            // Its name is its digest: it is the same blob.
            if place.exists() {
                continue;
            }
            if let Some(folder) = place.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::rename(new.join(name), &place)?;
            added.push(place);
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
