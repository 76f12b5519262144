//! Archives. They are written beside their path and renamed when complete.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::json;
use tempfile::NamedTempFile;

use super::layout_documents::{LAYOUT, blob_path, build_index};
use crate::make::slim::new_image::NewImage;
use crate::make::slim::staging_files::io_error;
use crate::make::slim::{SlimError, interrupt};
use crate::make::whole_file::{ExistingOutput, OutputPlace, look_at_place, open_output_stream, put_in_place, settle};
use image_linkage::digest::Digest;
use image_linkage::layer::LayerWriter;
use image_linkage::path::RootPath;
use image_store::create_unfinished_file;

/// Checks that a file does not exist or may be replaced.
pub(super) fn check_file_free(file: &Path, existing: ExistingOutput) -> Result<(), SlimError> {
    match look_at_place(file) {
        Ok(OutputPlace::File) if existing == ExistingOutput::Stays => {
            Err(SlimError::Exists(file.display().to_string()))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            let text = format!("{} is a folder, and an archive is a file", file.display());
            Err(SlimError::Cannot(text))
        }
        Err(error) => Err(io_error(file, error)),
    }
}

/// Writes an archive with `write` into `folder`.
pub(super) fn write_archive(
    folder: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), SlimError>,
) -> Result<NamedTempFile, SlimError> {
    let failed = |error| io_error(folder, error);
    let mut out = BufWriter::new(create_unfinished_file(folder, None).map_err(failed)?);
    write(&mut out)?;
    let whole = out.into_inner().map_err(|error| failed(error.into_error()))?;
    // Before the rename: after a power failure the name must not refer to bytes that never reached the disk.
    whole.as_file().sync_all().map_err(failed)?;
    Ok(whole)
}

/// Moves an archive into place.
pub(super) fn place_archive(
    archive: NamedTempFile,
    file: &Path,
    existing: ExistingOutput,
) -> Result<String, SlimError> {
    if look_at_place(file).map_err(|error| io_error(file, error))? == OutputPlace::Stream {
        return open_output_stream(file)
            .and_then(|mut stream| interrupt::copy_interruptible(&mut archive.reopen()?, &mut stream))
            .map(|_| file.display().to_string())
            .map_err(|error| io_error(file, error));
    }
    // Write the target of a link, and keep the link.
    match put_in_place(archive, &settle(file), existing) {
        Ok(()) => Ok(file.display().to_string()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(SlimError::Exists(file.display().to_string()))
        }
        Err(error) => Err(io_error(file, error)),
    }
}

/// An OCI image layout as a tar (image-spec, image-layout.md).
pub(super) fn write_layout_tar(made: &NewImage<'_>, tag: Option<&str>, out: &mut dyn Write) -> Result<(), SlimError> {
    let mut writer = LayerWriter::new(out);
    let config = made.config_digest();
    let manifest = Digest::of(&made.manifest);
    let index = build_index(made, &manifest, tag, Vec::new());
    // Documents before layers, so that a streaming reader knows what follows.
    small(&mut writer, "oci-layout", LAYOUT)?;
    small(&mut writer, "index.json", index.to_string().as_bytes())?;
    small(&mut writer, &blob_path(&manifest), &made.manifest)?;
    small(&mut writer, &blob_path(&config), &made.config)?;
    let mut written = BTreeSet::new();
    for layer in &made.layers {
        // Layers with the same bytes share a blob.
        let name = blob_path(&layer.blob.digest);
        if !written.insert(name.clone()) {
            continue;
        }
        let path = RootPath::from(name.as_str());
        let mut blob = made.open_blob(layer)?;
        writer
            .file_by(&path, layer.blob.size, |out| {
                interrupt::copy_interruptible(&mut *blob, out).map(drop)
            })
            .map_err(|error: io::Error| archived(&path, &error))?;
    }
    writer.end().map_err(|error| archived(&RootPath::default(), &error))
}

/// An archive in the old `docker save` format, before OCI layouts; every engine and tool reads it.
pub(super) fn write_docker_tar(made: &NewImage<'_>, tag: Option<&str>, out: &mut dyn Write) -> Result<(), SlimError> {
    let mut writer = LayerWriter::new(out);
    let config = format!("{}.json", made.config_digest().digest());
    small(&mut writer, &config, &made.config)?;
    let mut layers: Vec<String> = Vec::new();
    for layer in &made.layers {
        let name = format!("{}.tar", layer.blob.diff_id.digest());
        let is_new = !layers.contains(&name);
        layers.push(name.clone());
        if is_new {
            let path = RootPath::from(name.as_str());
            // Keep a layer's own error; only the archive's errors name the archive.
            let mut failed = None;
            let written = writer.file_by(&path, layer.blob.bytes, |out| {
                made.write_tar(layer, out).map_err(|error| {
                    failed = Some(error);
                    io::Error::other("the layer could not be read")
                })
            });
            written.map_err(|error| failed.unwrap_or_else(|| archived(&path, &error)))?;
        }
    }
    let tags: Vec<&str> = tag.into_iter().collect();
    let manifest = json!([{"Config": config, "RepoTags": tags, "Layers": layers}]);
    // Last, because an archive without it is invalid.
    small(&mut writer, "manifest.json", manifest.to_string().as_bytes())?;
    writer.end().map_err(|error| archived(&RootPath::default(), &error))
}

fn small<W: Write>(writer: &mut LayerWriter<W>, name: &str, bytes: &[u8]) -> Result<(), SlimError> {
    let path = RootPath::from(name);
    let written = writer.file(&path, 0o644, bytes.len() as u64, bytes);
    written.map_err(|error| archived(&path, &error))
}

fn archived(path: &RootPath, error: &io::Error) -> SlimError {
    SlimError::Cannot(format!("the archive cannot be written, at {path}: {error}"))
}
