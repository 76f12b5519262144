//! Puts the stages together: the only place that knows all of them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::judge::facts::{self, Gap, GatherOptions, ImageFacts, ReadLayers};
use crate::knowledge::Knowledge;
use image_linkage::layer::{self, ExpectedBlob, IndexOptions, LayerIndex};
use image_source::docker_archive::{DockerArchive, StdinArchive};
use image_source::engine::{EngineEnvironment, EngineImage, EngineKind};
use image_source::oci_archive::OciArchive;
use image_source::oci_layout::OciLayout;
use image_source::reference::{self, ImageReference};
use image_source::registry::{RegistryOptions, RegistrySource};
use image_source::rootfs_dir::RootfsDir;
use image_source::{
    BlobStore, Image, ImageError, ImageSource, LayerDescriptor, OpenRequest, OpenedImage,
    OpenedLayers, Platform, ReadProgress, host_path_kind,
};

/// How images are had and read.
pub struct ReadOptions<'a> {
    /// The platform to choose.
    pub platform: Option<&'a Platform>,
    /// How registries are spoken to.
    pub registry: RegistryOptions,
    /// By what they are read.
    pub knowledge: &'a Knowledge,
    /// What processes start with.
    pub conditions: GatherOptions,
    /// The bounds on what is read, and what is looked for in layers.
    pub index: IndexOptions,
    /// Told of what has been read.
    pub progress: &'a dyn ReadProgress,
}

/// The layers that are read at a time. Each takes three threads, of which one decompresses.
const WORKERS: usize = 2;

/// Reads the image that `reference` names and gathers its facts.
///
/// Errors: [`ImageError`], when the image cannot be had or read.
pub fn read_image(reference: &str, options: &ReadOptions<'_>) -> Result<ImageFacts, ImageError> {
    let target = reference::parse_reference(reference, host_path_kind::path_kind)?;
    let opened = open_image(target, reference, options)?;
    let layers = match opened.layers {
        OpenedLayers::Indexed(layers) => layers.into_iter().map(Ok).collect(),
        OpenedLayers::Blobs(blobs) => read_blobs(&opened.image, &*blobs, options)?,
    };
    Ok(facts::gather_facts(
        opened.image,
        ReadLayers { layers },
        options.knowledge,
        &options.conditions,
    ))
}

/// Opens the image that `target` names, which the user wrote as `written`.
///
/// Errors: As the source says.
pub(crate) fn open_image(
    target: ImageReference,
    written: &str,
    options: &ReadOptions<'_>,
) -> Result<OpenedImage, ImageError> {
    select_source(target, written, options).open(&open_request(options))
}

/// What a source is asked with.
pub(crate) fn open_request<'o>(options: &'o ReadOptions<'_>) -> OpenRequest<'o> {
    OpenRequest {
        platform: options.platform,
        index: &options.index,
        progress: options.progress,
    }
}

/// The platforms that the image `reference` is for, in the order of its index; none where the source does not
/// know, as a folder.
///
/// A source is asked for a platform that no image is for: what it offers in its place is what it would choose
/// from, by the same code and at the same cost.
///
/// Errors: As [`read_image`], and for standard input, which can be read only once.
pub fn list_platforms(
    reference: &str,
    options: &ReadOptions<'_>,
) -> Result<Vec<Platform>, ImageError> {
    let target = reference::parse_reference(reference, host_path_kind::path_kind)?;
    match target {
        ImageReference::Rootfs(_) => return Ok(Vec::new()),
        ImageReference::Stdin => {
            return Err(ImageError::Reference {
                reference: reference.to_owned(),
                reason: "standard input can be read only once; to audit all platforms, save it to a file"
                    .to_owned(),
            });
        }
        _ => {}
    }
    let nobodys = Platform {
        os: "none".to_owned(),
        architecture: "none".to_owned(),
        variant: None,
    };
    let request = OpenRequest {
        platform: Some(&nobodys),
        index: &options.index,
        progress: options.progress,
    };
    match select_source(target, reference, options).open(&request) {
        Ok(_) => Ok(Vec::new()),
        Err(ImageError::Platform { offered, .. }) => {
            let mut platforms: Vec<Platform> = Vec::new();
            for platform in offered.iter().filter_map(|text| Platform::parse(text).ok()) {
                if !platforms.contains(&platform) {
                    platforms.push(platform);
                }
            }
            Ok(platforms)
        }
        Err(error) => Err(error),
    }
}

fn select_source(
    target: ImageReference,
    written: &str,
    options: &ReadOptions<'_>,
) -> Box<dyn ImageSource> {
    let reference = written.to_owned();
    let engine = |brand, name| EngineImage {
        reference: written.to_owned(),
        name,
        brand,
        environment: EngineEnvironment::from_env(),
    };
    match target {
        ImageReference::Registry(name) => Box::new(RegistrySource::new(
            name,
            reference,
            options.registry.clone(),
        )),
        ImageReference::DockerDaemon(name) => Box::new(engine(EngineKind::Docker, name)),
        ImageReference::Podman(name) => Box::new(engine(EngineKind::Podman, name)),
        ImageReference::DockerArchive {
            file,
            reference: name,
        } => Box::new(DockerArchive {
            reference,
            file,
            name,
        }),
        ImageReference::Stdin => Box::new(StdinArchive),
        ImageReference::Oci { dir, tag } => Box::new(OciLayout {
            reference,
            dir,
            tag,
        }),
        ImageReference::OciArchive { file, tag } => Box::new(OciArchive {
            reference,
            file,
            tag,
        }),
        ImageReference::Rootfs(dir) => Box::new(RootfsDir { reference, dir }),
    }
}

/// A layer as read, or why it was not.
pub(crate) type ReadLayer = Result<LayerIndex, Gap>;

/// Reads the layers, several at a time, in the order of the image. The first failure ends the run.
///
/// Errors: What is wrong with a blob, or why it cannot be had.
pub(crate) fn read_blobs(
    image: &Image,
    blobs: &dyn BlobStore,
    options: &ReadOptions<'_>,
) -> Result<Vec<ReadLayer>, ImageError> {
    let queue: Mutex<VecDeque<(usize, &LayerDescriptor)>> =
        Mutex::new(image.layers.iter().enumerate().collect());
    let results: Mutex<Vec<(usize, Result<ReadLayer, ImageError>)>> = Mutex::new(Vec::new());
    // The guard is gone before the layer is read: a `while let` would hold it through its body.
    let next = || lock(&queue).pop_front();
    let work = || {
        while let Some((number, layer)) = next() {
            let result = read_blob(number, layer, blobs, options);
            if result.is_err() {
                lock(&queue).clear();
            }
            lock(&results).push((number, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..WORKERS.min(image.layers.len()) {
            scope.spawn(work);
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_blob(
    number: usize,
    layer: &LayerDescriptor,
    blobs: &dyn BlobStore,
    options: &ReadOptions<'_>,
) -> Result<ReadLayer, ImageError> {
    let name = layer
        .digest
        .as_ref()
        .or(layer.diff_id.as_ref())
        .map_or_else(|| number.to_string(), ToString::to_string);
    if layer.is_foreign() {
        let why =
            "a foreign layer: its bytes are not in the registry, and where they are was not asked"
                .to_owned();
        return Ok(Err(Gap {
            what: format!("layer {name}"),
            why,
        }));
    }
    options.progress.start(number, layer.size);
    let blob = blobs.open(layer)?;
    let counted = ProgressReader {
        inner: blob,
        number,
        progress: options.progress,
    };
    let expected = ExpectedBlob {
        digest: layer.digest.as_ref(),
        size: layer.size,
        diff_id: layer.diff_id.as_ref(),
    };
    let index = layer::index_layer(&name, counted, &expected, &options.index)?;
    options.progress.finish(number);
    Ok(Ok(index))
}

/// Tells of the bytes that are read.
struct ProgressReader<'a, R> {
    inner: R,
    number: usize,
    progress: &'a dyn ReadProgress,
}

impl<R: std::io::Read> std::io::Read for ProgressReader<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.progress.advance(self.number, n as u64);
        Ok(n)
    }
}
