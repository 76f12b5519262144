//! Builds the new image in a staging folder: rewritten layers, the added layer, config and manifest.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;

use super::added_layer::{self, GatheredLayer, SlimInput};
use super::blob_writer::{BlobWriter, WrittenBlob};
use super::decision::SlimDecision;
use super::gpu_code::PrunedObject;
use super::hashed_writer::HashedWriter;
use super::new_config::{ConfigChange, LayerHistory, write_config};
use super::new_image::{ImageForm, LayerOrigin, LayerStorage, NewImage, StoredLayer};
use super::new_manifest::{ManifestLayer, MediaFamily, write_manifest};
use super::original_image::OriginalImage;
use super::staging_files::{StagingFile, io_error, open_file};
use super::twin_files::TwinFiles;
use super::{SlimError, interrupt};
use crate::make::patch::layer::AddedLayer;
use crate::size::format_size;
use image_linkage::layer::Compression;
use image_linkage::layer::{LayerCut, LayerIndex, rewrite_layer};
use image_linkage::limits::Limits;
use image_source::Digest;

/// Builds the image that `making` describes: keeps or rewrites each layer, and adds the new one.
///
/// Errors: Why a layer cannot be read or written.
pub(crate) fn build_new_image<'a>(making: &SlimInput<'a>, form: ImageForm) -> Result<NewImage<'a>, SlimError> {
    let original = making.original;
    let mut work = ImageBuilder {
        original,
        decision: making.decision,
        limits: &making.options.index.limits,
        folder: making.folder,
        form: form.storage,
        family: form.family,
        layers: Vec::new(),
    };
    for number in 0..original.layers.len() {
        work.layer(number, making.decision.cuts.get(&number))?;
    }
    if making.decision.is_nothing() {
        // The image stays the same byte for byte, without even a provenance record.
        return work.finish(making, None);
    }
    let gathered = added_layer::gather_added_layer(making)?;
    work.add(&gathered)?;
    work.finish(making, Some(gathered.layer))
}

struct ImageBuilder<'a> {
    original: &'a OriginalImage,
    decision: &'a SlimDecision,
    limits: &'a Limits,
    folder: &'a Path,
    form: LayerStorage,
    family: MediaFamily,
    layers: Vec<StoredLayer>,
}

impl<'a> ImageBuilder<'a> {
    /// Keeps a layer or rewrites it.
    fn layer(&mut self, number: usize, cut: Option<&LayerCut>) -> Result<(), SlimError> {
        let (Some(index), Some(described)) = (self.original.layers.get(number), self.original.image.layers.get(number))
        else {
            return Ok(());
        };
        let stored = self.compression(number, index, &described.media_type)?;
        // An engine saves a layer as a plain tar that was compressed in its registry, so compress it again.
        let squeeze = self.form == LayerStorage::Blobs
            && stored == Compression::None
            && self.original.image.source.saves_plain_layers();
        let compression = if squeeze { Compression::Gzip } else { stored };
        let written = Some(described.media_type.as_str()).filter(|_| !squeeze);
        let (blob, origin) = match (cut, self.form) {
            (None, _) if !squeeze => (blob_of(index), LayerOrigin::Kept(number)),
            (Some(cut), LayerStorage::Tars) => {
                let measured = self.measure(number, cut)?;
                (measured, LayerOrigin::Again(number, cut.clone()))
            }
            (cut, _) => {
                let write = |out: &mut BlobWriter| match cut {
                    Some(cut) => self.rewrite(number, cut, out),
                    // Byte for byte, including padding after the end marker, so that its diff id stays the same.
                    None => interrupt::copy_interruptible(&mut self.original.tar(number)?, out)
                        .map(drop)
                        .map_err(|error| self.failed(number, &error.to_string())),
                };
                self.stage(compression, write)?
            }
        };
        self.layers.push(StoredLayer {
            of: Some(number),
            blob,
            media_type: self.family.layer_type(written, compression),
            origin,
        });
        Ok(())
    }

    /// The compression of a layer: from its media type or, without a manifest, from its first bytes.
    fn compression(&self, number: usize, index: &LayerIndex, media_type: &str) -> Result<Compression, SlimError> {
        // Equal digests mean that the blob is the tar.
        if index.digest == index.diff_id {
            return Ok(Compression::None);
        }
        if self.original.documents.manifest.is_some() {
            // By media type, as clients do: a blob that is not the tar is zstd or gzip (image-spec, layer.md).
            let is_zstd = media_type.ends_with("zstd");
            return Ok(if is_zstd { Compression::Zstd } else { Compression::Gzip });
        }
        let mut start = Vec::new();
        // The longest magic number, that of zstd, has four bytes (RFC 8878, 3.1.1).
        let read = self.original.blob(number)?.take(4).read_to_end(&mut start);
        read.map_err(|error| SlimError::Cannot(format!("layer {}: {error}", number + 1)))?;
        Ok(Compression::of(&start))
    }

    /// Writes a layer's tar into a blob in the staging folder.
    fn stage(
        &self,
        compression: Compression,
        write: impl FnOnce(&mut BlobWriter) -> Result<(), SlimError>,
    ) -> Result<(WrittenBlob, LayerOrigin), SlimError> {
        let path = self.folder.join(format!("layer-{}", self.layers.len()));
        let mut writer = StagingFile::create(path.clone())
            .and_then(|file| BlobWriter::new(file, compression))
            .map_err(|error| io_error(&path, error))?;
        write(&mut writer)?;
        Ok((writer.finish()?, LayerOrigin::Staged(path)))
    }

    /// Computes the digest and size of a rewritten layer without storing its bytes.
    fn measure(&self, number: usize, cut: &LayerCut) -> Result<WrittenBlob, SlimError> {
        let mut writer = HashedWriter::new(io::sink());
        self.rewrite(number, cut, &mut writer)?;
        let (_, diff_id, bytes) = writer.finish();
        Ok(WrittenBlob {
            digest: diff_id.clone(),
            size: bytes,
            diff_id,
            bytes,
        })
    }

    fn rewrite(&self, number: usize, cut: &LayerCut, out: &mut dyn Write) -> Result<(), SlimError> {
        let tar = self.original.tar(number)?;
        rewrite_layer(
            tar,
            cut,
            &|path| self.decision.open_replacement(number, path),
            self.limits,
            out,
        )
        .map_err(|why| self.failed(number, &why))
    }

    fn failed(&self, number: usize, why: &str) -> SlimError {
        let digest = self.original.layers.get(number).map(|index| index.digest.to_string());
        SlimError::Cannot(format!("layer {}: {why}", digest.unwrap_or_default()))
    }

    fn add(&mut self, added: &GatheredLayer) -> Result<(), SlimError> {
        let compression = match self.form {
            LayerStorage::Blobs => Compression::Gzip,
            LayerStorage::Tars => Compression::None,
        };
        let (blob, origin) = self.stage(compression, |out| {
            let written = added.layer.write(out, |from| match added.taken.get(from) {
                Some(file) => open_file(&file.path),
                None => Err(io::Error::other("a file of the layer was not taken out of its source")),
            });
            written.map_err(|error| SlimError::Cannot(format!("the layer that is added: {error}")))
        })?;
        self.layers.push(StoredLayer {
            of: None,
            blob,
            // Also for a plain tar: a Docker archive does not store a layer's media type.
            media_type: self.family.layer_type(None, Compression::Gzip),
            origin,
        });
        Ok(())
    }

    fn finish(self, making: &SlimInput<'a>, added: Option<AddedLayer>) -> Result<NewImage<'a>, SlimError> {
        let original = self.original;
        let diff_ids: Vec<Digest> = self.layers.iter().map(|it| it.blob.diff_id.clone()).collect();
        let history = added.as_ref().map(|_| history(making.decision, &making.plan.phase));
        // Without a new layer the config is unchanged, so keep its bytes.
        let config = match &history {
            None => original.documents.config.clone(),
            history => {
                let change = ConfigChange {
                    added: history.as_ref(),
                    library_path: making.decision.patch.library_path.as_ref().map(|path| &*path.value),
                    label: making.decision.gpu_label(),
                };
                let written = write_config(&original.documents.config, &diff_ids, &change);
                written.map_err(SlimError::Cannot)?
            }
        };
        let config_digest = Digest::of(&config);
        let described = original.documents.manifest.as_deref();
        let layers: Vec<ManifestLayer> = self.layers.iter().map(in_manifest).collect();
        let written = write_manifest(described, self.family, (&config_digest, config.len()), &layers);
        let manifest = written.map_err(SlimError::Cannot)?;
        let (platform, _) = image_source::read_image_config("the new image", &config)?;
        Ok(NewImage {
            original,
            decision: making.decision,
            platform,
            layers: self.layers,
            config,
            manifest,
            manifest_type: self.family.manifest_type(),
            added,
            limits: self.limits,
        })
    }
}

fn blob_of(index: &LayerIndex) -> WrittenBlob {
    WrittenBlob {
        digest: index.digest.clone(),
        size: index.compressed_bytes,
        diff_id: index.diff_id.clone(),
        bytes: index.bytes,
    }
}

fn in_manifest(layer: &StoredLayer) -> ManifestLayer {
    ManifestLayer {
        of: layer.of,
        media_type: layer.media_type.clone(),
        digest: layer.blob.digest.clone(),
        size: layer.blob.size,
    }
}

/// The history entry of the added layer.
fn history(decision: &SlimDecision, phase: &str) -> LayerHistory {
    let mut words = Vec::new();
    let patch = &decision.patch;
    if !patch.files.is_empty() {
        let release = patch.release_words();
        let soname = image_linkage::escape::escape_bytes(&patch.soname);
        let bytes = patch.files.iter().map(|file| file.facts.bytes).sum();
        words.push(match patch.source {
            None => format!("puts {soname} of {release} onto the search path"),
            Some(_) => format!(
                "brings {soname} of {release} ({} files, {})",
                patch.files.len(),
                format_size(bytes)
            ),
        });
    }
    let dropped = decision.removed_items().count();
    if dropped > 0 {
        let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
        for item in decision.removed_items() {
            *kinds.entry(item.kind).or_default() += item.bytes;
        }
        let sizes = kinds
            .iter()
            .map(|(kind, bytes)| format!("{kind} {}", format_size(*bytes)));
        words.push(format!(
            "leaves out {dropped} files of the layers below ({})",
            sizes.collect::<Vec<_>>().join(", ")
        ));
    }
    if let Some(gpu_code) = decision
        .gpu_code
        .as_ref()
        .filter(|gpu_code| !gpu_code.pruned.is_empty())
    {
        let saved: u64 = gpu_code.pruned.iter().map(PrunedObject::saved_bytes).sum();
        words.push(format!(
            "keeps GPU code for {} only ({} less)",
            gpu_code.gpus,
            format_size(saved)
        ));
    }
    if let Some(path) = &patch.library_path {
        words.push(format!("sets LD_LIBRARY_PATH={}", path.value));
    }
    if !decision.twins.is_empty() {
        let bytes = decision.twins.iter().map(TwinFiles::saved_bytes).sum();
        words.push(format!("stores copies once ({})", format_size(bytes)));
    }
    LayerHistory {
        created_by: match decision.gpu_label() {
            Some(gpus) => format!("cupti-audit slim --phase {phase} --gpu {gpus}"),
            None => format!("cupti-audit slim --phase {phase}"),
        },
        comment: format!("{}; see /{}", words.join("; "), crate::facts::PROVENANCE_PLACE),
    }
}
