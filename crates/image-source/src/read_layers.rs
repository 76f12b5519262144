//! The layers of an opened image, read several at a time.

use std::sync::atomic::{AtomicBool, Ordering};

use image_linkage::layer::{self, ExpectedBlob, LayerIndex};

use crate::image::{Image, LayerDescriptor};
use crate::image_budget::ImageBudget;
use crate::image_error::ImageError;
use crate::source::{BlobStore, OpenRequest, ProgressReader};
use crate::work_pool::in_parallel;

/// The layers that are read at a time. Each takes three threads, of which one decompresses.
const WORKERS: usize = 2;

/// A layer that was not read, and why that is no error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadLayer {
    /// The layer by its digest.
    pub what: String,
    /// Why its bytes were not asked for.
    pub why: String,
}

type ReadLayer = Result<LayerIndex, UnreadLayer>;

/// Reads the layers, several at a time, in the order of the image. The first failure ends the run.
///
/// Errors: What is wrong with a blob, or why it cannot be had.
pub fn read_layers(
    image: &Image,
    blobs: &dyn BlobStore,
    request: &OpenRequest<'_>,
) -> Result<Vec<ReadLayer>, ImageError> {
    let stored = image.layers.iter().map(|layer| layer.size).sum();
    let budget = ImageBudget::new(request.limits(), stored);
    let has_failed = AtomicBool::new(false);
    let read = |&(number, layer): &(usize, &LayerDescriptor)| -> Option<Result<ReadLayer, ImageError>> {
        // The other worker ends the layer it has begun, and takes no further one.
        if has_failed.load(Ordering::Relaxed) {
            return None;
        }
        let result = read_layer(number, layer, blobs, request, &budget).and_then(|layer| {
            if let Ok(index) = &layer {
                budget.count(image.reference.as_str(), index)?;
            }
            Ok(layer)
        });
        has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
        Some(result)
    };
    let numbered: Vec<_> = image.layers.iter().enumerate().collect();
    // Of two failures that of the lower layer is told, as if they were read one by one.
    in_parallel(&numbered, WORKERS, read).into_iter().flatten().collect()
}

fn read_layer(
    number: usize,
    layer: &LayerDescriptor,
    blobs: &dyn BlobStore,
    request: &OpenRequest<'_>,
    budget: &ImageBudget<'_>,
) -> Result<ReadLayer, ImageError> {
    let name = layer
        .digest
        .as_ref()
        .or(layer.diff_id.as_ref())
        .map_or_else(|| number.to_string(), ToString::to_string);
    if layer.is_foreign() {
        let why = "a foreign layer: its bytes are not in the registry, and where they are was not asked";
        return Ok(Err(UnreadLayer {
            what: format!("layer {name}"),
            why: why.to_owned(),
        }));
    }
    if let Some(index) = request.cache.and_then(|cache| cache.find(layer)) {
        blobs.find(layer)?;
        return Ok(Ok(index));
    }
    // Before the blob is opened: a registry may take long to answer, and the user sees which layer is waited for.
    request.progress.start(number, layer.size);
    let counted = ProgressReader {
        inner: blobs.open(layer)?,
        number,
        progress: request.progress,
    };
    let expected = ExpectedBlob {
        digest: layer.digest.as_ref(),
        size: layer.size,
        diff_id: layer.diff_id.as_ref(),
    };
    let index = layer::index_layer(&name, counted, &expected, &budget.next_options(request.index))?;
    request.progress.finish(number);
    if let Some(cache) = request.cache {
        cache.keep(&index);
    }
    Ok(Ok(index))
}
