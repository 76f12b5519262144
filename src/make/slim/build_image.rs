//! Makes the new image beside its place: layers that are written again, the one that is added, config and manifest.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use super::SlimError;
use super::added_layer::{self, AddedLayer, SlimInput};
use super::added_members::AddedMembers;
use super::blob_writer::{BlobWriter, WrittenBlob};
use super::decision::SlimDecision;
use super::new_documents::{self, LayerHistory, ManifestLayer, MediaFamily};
use super::new_image::{LayerOrigin, LayerStorage, NewImage, StoredLayer, sha256_digest};
use super::original_image::OriginalImage;
use super::provenance::SlimProvenance;
use super::staging_files::{create_staging_file, io_error};
use crate::size::format_size;
use image_linkage::layer::decompress::{Compression, detect_compression};
use image_linkage::layer::rewrite::{LayerCut, rewrite_layer};
use image_linkage::layer::{self as layers, ExpectedBlob, IndexOptions, LayerIndex};
use image_source::Digest;

/// Makes the image that `making` describes, of which the layers below the new one are still to be written.
///
/// Errors: Why a layer cannot be read, or not be written.
pub(crate) fn build_new_image<'a>(
    original: &'a OriginalImage,
    making: &SlimInput<'a>,
    form: LayerStorage,
) -> Result<NewImage<'a>, SlimError> {
    let mut work = ImageBuilder {
        original,
        index: making.index,
        folder: making.folder,
        form,
        layers: Vec::new(),
        indexes: Vec::new(),
    };
    for number in 0..original.layers.len() {
        work.layer(number, making.decision.cuts.get(&number))?;
    }
    if making.decision.is_nothing() {
        // The image stays byte for byte what it is: not even the proof is put into it.
        return work.finish(making, None, added_layer::record_dropped_files(making));
    }
    let AddedLayer { members, proof } = added_layer::gather_added_layer(making)?;
    work.add(&members)?;
    work.finish(making, Some(members), proof)
}

struct ImageBuilder<'a> {
    original: &'a OriginalImage,
    index: &'a IndexOptions,
    folder: &'a Path,
    form: LayerStorage,
    layers: Vec<StoredLayer>,
    indexes: Vec<LayerIndex>,
}

impl<'a> ImageBuilder<'a> {
    /// Takes over a layer, or writes it again.
    fn layer(&mut self, number: usize, cut: Option<&LayerCut>) -> Result<(), SlimError> {
        let (Some(index), Some(described)) = (self.original.layers.get(number), self.original.image.layers.get(number))
        else {
            return Ok(());
        };
        // image-spec, layer.md, "Non-Distributable Layers": an archive does not hold such a blob.
        if described.is_foreign() {
            let text = format!("layer {} is foreign: its bytes are elsewhere", index.digest);
            return Err(SlimError::Cannot(text));
        }
        let stored = self.compression(number, index, &described.media_type)?;
        let family = self.family();
        // What an engine saved as a plain tar was compressed in its registry, and is to be again.
        let squeeze = self.form == LayerStorage::Blobs
            && stored == Compression::None
            && self.original.image.source.saves_plain_layers();
        let media_type = match (stored, self.original.documents.manifest.as_ref()) {
            _ if squeeze => family.gzip_layer_type(),
            (_, Some(_)) => described.media_type.clone(),
            (stored, None) => new_documents::oci_layer_type(stored),
        };
        let compression = if squeeze { Compression::Gzip } else { stored };
        let (blob, origin, index) = match (cut, self.form) {
            (None, _) if !squeeze => (blob_of(index), LayerOrigin::Kept(number), index.clone()),
            (Some(cut), LayerStorage::Tars) => {
                let index = self.index_again(number, cut)?;
                (blob_of(&index), LayerOrigin::Again(number, cut.clone()), index)
            }
            (cut, _) => {
                let empty = LayerCut::default();
                self.stage(number, cut.unwrap_or(&empty), compression)?
            }
        };
        self.indexes.push(index);
        self.layers.push(StoredLayer {
            blob,
            media_type,
            origin,
        });
        Ok(())
    }

    fn family(&self) -> MediaFamily {
        MediaFamily::of_manifest(self.original.documents.manifest.as_deref())
    }

    /// How a layer is stored: as its media type says, or, where nothing says it, by its first bytes.
    fn compression(&self, number: usize, index: &LayerIndex, media_type: &str) -> Result<Compression, SlimError> {
        // One digest for both: the blob is the tar.
        if index.digest == index.diff_id {
            return Ok(Compression::None);
        }
        if self.original.documents.manifest.is_some() {
            // By the media type, as clients do: what is not the tar itself is zstd or gzip (image-spec, layer.md).
            let is_zstd = media_type.ends_with("zstd");
            return Ok(if is_zstd { Compression::Zstd } else { Compression::Gzip });
        }
        let mut start = Vec::new();
        // The longest magic number is that of zstd, with four bytes (RFC 8878, 3.1.1).
        let read = self.original.blob(number)?.take(4).read_to_end(&mut start);
        read.map_err(|error| SlimError::Cannot(format!("layer {}: {error}", number + 1)))?;
        Ok(detect_compression(&start))
    }

    /// Writes a layer again into a file.
    fn stage(
        &self,
        number: usize,
        cut: &LayerCut,
        compression: Compression,
    ) -> Result<(WrittenBlob, LayerOrigin, LayerIndex), SlimError> {
        let path = self.folder.join(format!("layer-{number}"));
        let writer = BlobWriter::new(create_staging_file(&path)?, compression);
        let mut writer = writer.map_err(|error| io_error(&path, error))?;
        let written = rewrite_layer(self.original.tar(number)?, cut, &self.index.limits, &mut writer);
        written.map_err(|why| self.failed(number, &why))?;
        let blob = writer.finish()?;
        let index = added_layer::index_written_tar(&path, self.index)?;
        Ok((blob, LayerOrigin::Staged(path), index))
    }

    /// What a layer is once it is written again; nothing is kept of its bytes.
    fn index_again(&self, number: usize, cut: &LayerCut) -> Result<LayerIndex, SlimError> {
        let tar = self.original.tar(number)?;
        let (reader, mut writer) = io::pipe().map_err(|error| SlimError::Cannot(format!("a pipe: {error}")))?;
        // One thread writes, this one reads: no copy of the layer lies on the disk.
        let (written, index) = std::thread::scope(|scope| {
            let writing = scope.spawn(move || rewrite_layer(tar, cut, &self.index.limits, &mut writer));
            let index = layers::index_layer("that is written again", reader, &ExpectedBlob::default(), self.index);
            (writing.join(), index)
        });
        let written = written.unwrap_or_else(|_panic| Err("the writer failed".to_owned()));
        written.map_err(|why| self.failed(number, &why))?;
        index.map_err(|error| SlimError::Image(error.into()))
    }

    fn failed(&self, number: usize, why: &str) -> SlimError {
        let digest = self.original.layers.get(number).map(|index| index.digest.to_string());
        SlimError::Cannot(format!("layer {}: {why}", digest.unwrap_or_default()))
    }

    fn add(&mut self, added: &AddedMembers) -> Result<(), SlimError> {
        let compression = match self.form {
            LayerStorage::Blobs => Compression::Gzip,
            LayerStorage::Tars => Compression::None,
        };
        let path = self.folder.join("layer-added");
        let write = || {
            let mut writer =
                BlobWriter::new(create_staging_file(&path)?, compression).map_err(|error| io_error(&path, error))?;
            let written = added.write(&mut writer);
            written.map_err(|error| io_error(&path, error))?;
            Ok::<_, SlimError>(writer.finish()?)
        };
        let blob = write()?;
        self.indexes.push(added_layer::index_written_tar(&path, self.index)?);
        self.layers.push(StoredLayer {
            blob,
            // For a plain tar too: an archive of Docker says no media type of a layer.
            media_type: self.family().gzip_layer_type(),
            origin: LayerOrigin::Staged(path),
        });
        Ok(())
    }

    fn finish(
        self,
        making: &SlimInput<'a>,
        added: Option<AddedMembers>,
        proof: SlimProvenance,
    ) -> Result<NewImage<'a>, SlimError> {
        let original = self.original;
        let diff_ids: Vec<Digest> = self.layers.iter().map(|it| it.blob.diff_id.clone()).collect();
        let history = added.as_ref().map(|_| history(making.decision, making.phase));
        // With no new layer nothing in the config has changed, and its bytes stay.
        let config = match &history {
            None => original.documents.config.clone(),
            history => new_documents::write_config(&original.documents.config, &diff_ids, history.as_ref())
                .map_err(SlimError::Cannot)?,
        };
        let config_digest = sha256_digest(&config)?;
        let described = original.documents.manifest.as_deref();
        let layers: Vec<ManifestLayer> = self.layers.iter().map(in_manifest).collect();
        let written = new_documents::write_manifest(described, (&config_digest, config.len()), &layers);
        let manifest = written.map_err(SlimError::Cannot)?;
        let mut image = original.image.clone();
        // Read back from the bytes: the audit is of what was written, not of what was meant.
        let (platform, read) = image_source::read_image_config("the new image", &config)?;
        image.platform = platform;
        image.digest = Some(sha256_digest(&manifest)?);
        image.layers = descriptors(&self.layers, &read);
        image.config = read;
        Ok(NewImage {
            original,
            image,
            indexes: self.indexes,
            layers: self.layers,
            config,
            manifest,
            manifest_type: MediaFamily::of_manifest(described).manifest_type(),
            form: self.form,
            added,
            proof,
            limits: &self.index.limits,
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
        kept: match layer.origin {
            LayerOrigin::Kept(number) => Some(number),
            LayerOrigin::Staged(_) | LayerOrigin::Again(..) => None,
        },
        media_type: layer.media_type.clone(),
        digest: layer.blob.digest.clone(),
        size: layer.blob.size,
    }
}

fn descriptors(layers: &[StoredLayer], config: &image_source::ImageConfig) -> Vec<image_source::LayerDescriptor> {
    let describe = |(number, layer): (usize, &StoredLayer)| image_source::LayerDescriptor {
        digest: Some(layer.blob.digest.clone()),
        diff_id: Some(layer.blob.diff_id.clone()),
        media_type: layer.media_type.clone(),
        size: Some(layer.blob.size),
        created_by: config.created_by.get(number).cloned(),
    };
    layers.iter().enumerate().map(describe).collect()
}

/// What the history says of the layer that is added.
fn history(decision: &SlimDecision, phase: &str) -> LayerHistory {
    let mut words = Vec::new();
    if let Some(bring) = &decision.bring {
        let release = bring.release.as_deref().unwrap_or("an unknown release");
        let soname = image_linkage::escape::escape_bytes(&bring.soname);
        let bytes = bring.files.iter().map(|file| file.bytes).sum();
        words.push(format!(
            "brings {soname} of {release} ({} files, {})",
            bring.files.len(),
            format_size(bytes)
        ));
    }
    if !decision.drop.is_empty() {
        let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
        for item in &decision.drop {
            *kinds.entry(item.kind).or_default() += item.bytes;
        }
        let kinds = kinds
            .iter()
            .map(|(kind, bytes)| format!("{kind} {}", format_size(*bytes)));
        let kinds: Vec<String> = kinds.collect();
        words.push(format!(
            "leaves out {} files of the layers below ({})",
            decision.drop.len(),
            kinds.join(", ")
        ));
    }
    LayerHistory {
        created_by: format!("cupti-audit slim --phase {phase}"),
        comment: format!("{}; see /{}", words.join("; "), super::provenance::PLACE),
    }
}
