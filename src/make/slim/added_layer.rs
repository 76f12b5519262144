//! The added layer: copied files, the search path, the loader's cache, and the provenance record.

use std::collections::BTreeMap;
use std::path::Path;

use super::SlimError;
use super::decision::SlimDecision;
use super::gpu_code::GpuDecision;
use super::original_image::OriginalImage;
use super::output::ReadImage;
use super::provenance::{
    AddedFile, ChangedVariable, ContentOrigin, DroppedFile, LinkedFile, RemovedGpuCode, RemovedKind, RewrittenObject,
    SlimProvenance, WrittenEntry,
};
use super::supplier::{CuptiSupplier, ExtractedFile};
use super::twin_files::TwinFiles;
use crate::facts::{ImageFacts, PROVENANCE_PLACE, SLIM_GPU_LABEL};
use crate::judge::image_reading::ReadOptions;
use crate::judge::plan::Plan;
use crate::knowledge::file_interest::LIBRARY_PATH;
use crate::make::patch::ImagePatch;
use crate::make::patch::apply::{add_cache, patch_layer};
use crate::make::patch::layer::{AddedLayer, AddedMember};
use gpu_code::CodeAmount;
use image_linkage::digest::Digest;
use image_linkage::escape;
use image_linkage::loader::Libc;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{self, Rootfs};

/// Why a CUPTI name is deleted.
pub(super) const MISLEADING: &str = "it has the name of a CUPTI, but leads to another one or to none";

/// An image to slim, and the changes to it.
pub(crate) struct SlimInput<'a> {
    pub original: &'a OriginalImage,
    /// The options for reading the original and the new image.
    pub options: &'a ReadOptions<'a>,
    pub facts: &'a ImageFacts,
    /// The plan of the unchanged image.
    pub plan: &'a Plan,
    pub decision: &'a SlimDecision,
    pub supplier: Option<&'a CuptiSupplier>,
    /// A folder for temporary files.
    pub folder: &'a Path,
}

/// The layer, and the extracted source files whose bytes it contains.
pub(crate) struct GatheredLayer {
    pub layer: AddedLayer,
    pub taken: BTreeMap<RootPath, ExtractedFile>,
}

/// Gathers the members of the layer.
///
/// Errors: An obstacle to a member, or why the cache cannot be created.
pub(crate) fn gather_added_layer(making: &SlimInput<'_>) -> Result<GatheredLayer, SlimError> {
    // Without the dropped files, because a new file may take the path of one.
    let (rootfs, _) = rootfs::merge_layers(making.decision.apply(&making.original.layers));
    let mut layer = plan_layer(making, &rootfs).map_err(SlimError::Cannot)?;
    let taken = extract_members(making, &layer)?;
    // Last, because it describes all other members. It does not describe itself.
    let proof = write_proof(making, &layer, &taken).text().into_bytes();
    let added = layer.write_file(&rootfs, &PROVENANCE_PLACE.into(), proof, "");
    added.map_err(SlimError::Cannot)?;
    Ok(GatheredLayer { layer, taken })
}

/// The layer without its provenance record: files, links, the search path line, and the loader's cache.
fn plan_layer(making: &SlimInput<'_>, rootfs: &Rootfs) -> Result<AddedLayer, String> {
    let patch = &making.decision.patch;
    let mut layer = patch_layer(patch, rootfs)?;
    let loader = making.facts.contexts.as_is.linker.as_ref();
    if let Some(loader) = loader.filter(|_| patch.rewrites_cache) {
        // As ldconfig would see the image, with this layer on top.
        let above = rootfs.with_layer(making.original.layers.len(), &layer.index());
        let version = match loader.libc {
            Libc::Glibc(Some((major, minor))) => format!(" of glibc {major}.{minor}"),
            _ => String::new(),
        };
        let generator = format!("cupti-audit {}, as ldconfig{version}", env!("CARGO_PKG_VERSION"));
        let problems = add_cache(&mut layer, &above, loader, &generator)?;
        // A library missing from the cache is hidden from every program.
        if let Some(problem) = problems.first() {
            return Err(format!("the loader's cache cannot be made: {problem}"));
        }
    }
    Ok(layer)
}

/// Extracts the layer's files from the source and checks that they have not changed since the first read.
fn extract_members(making: &SlimInput<'_>, layer: &AddedLayer) -> Result<BTreeMap<RootPath, ExtractedFile>, SlimError> {
    let Some(supplier) = making.supplier else {
        return Ok(BTreeMap::new());
    };
    let mut wanted = BTreeMap::new();
    for (_, member) in layer.members() {
        if let AddedMember::File {
            facts,
            from: Some(from),
            ..
        } = member
        {
            wanted.insert(from.clone(), facts);
        }
    }
    // All at once, so that each source layer is read once.
    let paths = wanted.keys().cloned().collect();
    let taken = supplier.extract_files(&paths, &making.options.index.limits, making.folder)?;
    for (from, facts) in wanted {
        // A folder or an engine's image may have changed since. Only files of a known release were hashed.
        let is_known = taken.get(&from).is_some_and(|one| {
            one.bytes == facts.bytes && facts.sha256.as_deref().is_none_or(|sha256| *sha256 == *one.sha256)
        });
        if !is_known {
            return Err(SlimError::Cannot(format!("{from} has changed while it was read")));
        }
    }
    Ok(taken)
}

/// Predicts how the written image will be read, from the indexes of its layers.
///
/// Errors: Those of [`gather_added_layer`].
pub(crate) fn predict_image(making: &SlimInput<'_>) -> Result<ReadImage, SlimError> {
    let mut image = making.facts.image.clone();
    let mut layers = making.decision.apply(&making.original.layers);
    if !making.decision.is_nothing() {
        let (rootfs, _) = rootfs::merge_layers(&layers);
        let layer = plan_layer(making, &rootfs).map_err(SlimError::Cannot)?;
        layers.push(layer.index());
    }
    if let Some(path) = &making.decision.patch.library_path {
        image.config.set_env(LIBRARY_PATH, path.value.clone());
    }
    if let Some(gpus) = making.decision.gpu_label() {
        image
            .config
            .settings
            .labels
            .insert(SLIM_GPU_LABEL.to_owned(), gpus.to_owned());
    }
    Ok(ReadImage { image, layers })
}

/// The provenance record of the removed files and of the layer.
fn write_proof(
    making: &SlimInput<'_>,
    layer: &AddedLayer,
    taken: &BTreeMap<RootPath, ExtractedFile>,
) -> SlimProvenance {
    let ImagePatch {
        title: _,
        soname: _,
        library: _,
        release: _,
        deletes,
        // A layer grants no rights and installs no package.
        rights: _,
        source: _,
        package: _,
        // These are members of the layer.
        files: _,
        links: _,
        search: _,
        rewrites_cache: _,
        library_path,
        // These are among the removed items.
        drops: _,
        leaves: _,
    } = &making.decision.patch;
    let mut dropped: Vec<DroppedFile> = Vec::new();
    for item in making.decision.removed_items() {
        let one = |path: &RootPath, bytes, because: String| DroppedFile {
            path: path.to_string(),
            bytes,
            layer: item.layer,
            kind: item.kind.to_owned(),
            because,
        };
        dropped.push(one(&item.path, item.bytes, item.because.clone()));
        let links = item.links.iter();
        dropped.extend(links.map(|link| one(link, 0, format!("a link to {}", item.path))));
    }
    dropped.extend(deletes.iter().map(|path| misleading_name(path, making.facts)));
    // Sorted by path, so that two records can be compared line by line.
    dropped.sort_by(|one, other| one.path.cmp(&other.path));
    let (added, written) = describe_members(making, layer, taken);
    SlimProvenance {
        proof_version: 1,
        made_by: concat!("cupti-audit ", env!("CARGO_PKG_VERSION")).to_owned(),
        phase: making.plan.phase.clone(),
        image: ContentOrigin::image(&making.facts.image),
        added,
        written,
        dropped,
        environment: library_path.as_ref().map(|path| ChangedVariable {
            name: "LD_LIBRARY_PATH".to_owned(),
            value: path.value.clone(),
            because: path.because.clone(),
        }),
        linked: making.decision.twins.iter().flat_map(linked).collect(),
        gpu_code: making.decision.gpu_code.as_ref().and_then(removed_gpu_code),
    }
}

/// The contents of the layer: the copied files, and the other written entries.
fn describe_members(
    making: &SlimInput<'_>,
    layer: &AddedLayer,
    taken: &BTreeMap<RootPath, ExtractedFile>,
) -> (Vec<AddedFile>, Vec<WrittenEntry>) {
    let (mut added, mut written) = (Vec::new(), Vec::new());
    for (path, member) in layer.members() {
        let path = path.to_string();
        match member {
            AddedMember::File {
                facts,
                from: Some(from),
                because,
            } => added.extend(making.supplier.map(|supplier| AddedFile {
                path,
                bytes: facts.bytes,
                sha256: taken.get(from).map(|one| one.sha256.clone()).unwrap_or_default(),
                mode: format!("{:o}", facts.mode),
                from: supplier.from.clone(),
                was: from.to_string(),
                because: because.clone(),
            })),
            AddedMember::File { facts, because, .. } => {
                let content = facts.kept.as_deref().unwrap_or_default();
                written.push(WrittenEntry {
                    path,
                    target: None,
                    sha256: Some(Digest::of(content).digest().to_owned()),
                    because: because.clone(),
                });
            }
            AddedMember::Symlink { to, because } => written.push(WrittenEntry {
                path,
                target: Some(escape::escape_bytes(to)),
                sha256: None,
                because: because.clone(),
            }),
            AddedMember::Deleted => {}
        }
    }
    (added, written)
}

/// A deleted name that is a dangling link or leads to another release.
fn misleading_name(path: &RootPath, facts: &ImageFacts) -> DroppedFile {
    let rootfs = &facts.contexts.as_is.rootfs;
    let layer = rootfs
        .lookup_link(&path.absolute())
        .map(|found| rootfs.node(found.node).layer);
    DroppedFile {
        path: path.to_string(),
        bytes: 0,
        layer: layer.unwrap_or_default(),
        kind: "misleading-name".to_owned(),
        because: MISLEADING.to_owned(),
    }
}

/// The record of the rewritten objects; `None` if there are none.
fn removed_gpu_code(gpu_code: &GpuDecision) -> Option<RemovedGpuCode> {
    let rewritten = gpu_code.pruned.iter().map(|object| RewrittenObject {
        path: object.path.to_string(),
        layer: object.layer,
        links: object.links.iter().map(ToString::to_string).collect(),
        package: object.package.clone(),
        bytes_before: object.bytes_before,
        bytes_after: object.bytes_after,
        sha256_before: object.sha256_before.clone(),
        sha256_after: object.sha256_after.clone(),
        removed: object.removed().into_iter().map(removed_kind).collect(),
    });
    let objects: Vec<RewrittenObject> = rewritten.collect();
    (!objects.is_empty()).then(|| RemovedGpuCode {
        kept_for: gpu_code.gpus.split(',').map(str::to_owned).collect(),
        objects,
    })
}

fn removed_kind(amount: CodeAmount) -> RemovedKind {
    RemovedKind {
        kind: amount.kind.to_string(),
        entries: amount.entries,
        bytes: amount.bytes,
    }
}

fn linked(twins: &TwinFiles) -> impl Iterator<Item = LinkedFile> {
    twins.links.iter().map(|path| LinkedFile {
        path: path.to_string(),
        to: twins.file.to_string(),
        bytes: twins.bytes,
    })
}
