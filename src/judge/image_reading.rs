//! Opens an image, reads its layers and gathers its facts. Only this module knows all of these stages.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::facts::{self, Gap, GatherOptions, HostFacts, ImageFacts, ReadLayers};
use crate::knowledge::Knowledge;
use image_linkage::layer::{IndexOptions, LayerEntry, LayerIndex};
use image_source::registry::RegistryOptions;
use image_source::{
    ImageConfig, ImageError, KnownLayers, OpenRequest, OpenedImage, OpenedLayers, Platform, ReadProgress,
};

/// How images are opened and read.
pub struct ReadOptions<'a> {
    /// The platform to choose; `None` means linux on the architecture of this machine.
    pub platform: Option<&'a Platform>,
    /// How to talk to registries.
    pub registry: RegistryOptions,
    /// The tables and profiles to read the image with.
    pub knowledge: &'a Knowledge,
    /// The conditions under which processes start.
    pub conditions: GatherOptions,
    /// The limits on reading, and what to look for in layers.
    pub index: IndexOptions,
    /// Receives the number of layer bytes read so far.
    pub progress: &'a dyn ReadProgress,
    /// Layers read earlier with the same `index`; `None` reads every layer.
    pub cache: Option<&'a dyn KnownLayers>,
}

impl ReadOptions<'_> {
    /// The request that the image source gets.
    pub(crate) fn open_request(&self) -> OpenRequest<'_> {
        OpenRequest {
            platform: self.platform,
            index: &self.index,
            progress: self.progress,
            cache: self.cache,
        }
    }
}

/// Reads the image at `reference` and gathers its facts.
///
/// Errors: [`ImageError`] if the image cannot be opened or read.
pub fn read_image(reference: &str, options: &ReadOptions<'_>) -> Result<ImageFacts, ImageError> {
    let opened = image_source::open_image(reference, &options.registry, &options.open_request())?;
    gather_opened(opened, options)
}

fn gather_opened(opened: OpenedImage, options: &ReadOptions<'_>) -> Result<ImageFacts, ImageError> {
    let layers: Vec<Result<LayerIndex, Gap>> = match opened.layers {
        // A host folder counts as one layer, without a blob to verify.
        OpenedLayers::Folder(_, index) => vec![Ok(*index)],
        // A stream can be read only once, so its layers were indexed as they arrived.
        OpenedLayers::Indexed(layers) => layers.into_iter().map(Ok).collect(),
        OpenedLayers::Blobs(blobs) => image_source::read_layers(&opened.image, &*blobs, &options.open_request())?
            .into_iter()
            .map(|layer| {
                // A layer that cannot be fetched, such as a foreign one, leaves the verdict open but does not fail the
                // run.
                layer.map_err(|unread| Gap {
                    what: unread.what,
                    why: unread.why,
                })
            })
            .collect(),
    };
    if opened.image.source.is_bare_root() {
        let checks = [
            (
                is_virtual_environment as fn(&LayerIndex) -> bool,
                "it is a virtual environment of Python; name the image or the root file system that has it",
            ),
            (
                is_no_root,
                "it has none of the folders of a root file system (bin, etc, lib, usr), and no program",
            ),
            (
                has_no_object,
                "it has folders of a root file system, but no program and no library in them; name the image that \
                 was built, or read its Dockerfile with the command check",
            ),
        ];
        for (is_wrong, why) in checks {
            if layers.iter().all(|layer| layer.as_ref().is_ok_and(is_wrong)) {
                return Err(ImageError::NotAnImage {
                    what: opened.image.reference,
                    reason: why.to_owned(),
                });
            }
        }
    }
    Ok(facts::gather_facts(
        opened.image,
        ReadLayers { layers },
        options.knowledge,
        &options.conditions,
    ))
}

/// A running container, as seen by one of its own processes.
pub struct RunningContainer {
    /// Its environment, working directory, command and user.
    pub config: ImageConfig,
    /// The mounted folders that are skipped.
    pub passed_over: BTreeSet<PathBuf>,
    /// The resources that its host grants.
    pub host: HostFacts,
}

/// Reads the container that this process runs in and gathers its facts.
///
/// Errors: [`ImageError`] if its root cannot be read.
pub fn read_running(container: &RunningContainer, options: &ReadOptions<'_>) -> Result<ImageFacts, ImageError> {
    let (config, passed_over) = (container.config.clone(), container.passed_over.clone());
    let opened = image_source::open_running_root(config, passed_over, &options.open_request())?;
    Ok(ImageFacts {
        host: Some(container.host.clone()),
        ..gather_opened(opened, options)?
    })
}

/// Whether a folder was made by `python -m venv` (PEP 405).
fn is_virtual_environment(layer: &LayerIndex) -> bool {
    layer.entries.get(b"pyvenv.cfg".as_slice()).is_some()
}

/// Whether a layer has no ELF object, such as a checkout that has `bin`, `etc` and `lib`.
fn has_no_object(layer: &LayerIndex) -> bool {
    let mut entries = layer.entries.values();
    // A partly read layer may have had one.
    layer.problems.is_empty() && !entries.any(|entry| matches!(entry, LayerEntry::File(file) if file.elf.is_some()))
}

/// Whether a layer has neither folders of hier(7) nor a program, such as a project folder read as if it were `/`.
fn is_no_root(layer: &LayerIndex) -> bool {
    let folders = ["bin", "etc", "lib", "lib64", "opt", "root", "sbin", "usr", "var"];
    let has_folder = folders
        .iter()
        .any(|folder| layer.entries.get(folder.as_bytes()).is_some());
    !has_folder && has_no_object(layer)
}
