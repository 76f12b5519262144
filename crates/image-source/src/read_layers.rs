//! Reads the layers of an opened image in parallel.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use image_linkage::layer::{self, ExpectedBlob, LayerIndex};

use crate::image::{Image, LayerDescriptor};
use crate::image_budget::ImageBudget;
use crate::image_error::ImageError;
use crate::source::{BlobStore, OpenRequest, ProgressReader};

/// How many layers are read at a time. Each takes three threads, one of which decompresses.
const WORKERS: usize = 2;

/// A layer that was skipped on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadLayer {
    /// The layer's digest.
    pub what: String,
    /// Why it was not downloaded.
    pub why: String,
}

type ReadLayer = Result<LayerIndex, UnreadLayer>;

/// Reads the layers in parallel and returns them in image order. Stops at the first failure.
///
/// Errors: What is wrong with a blob, or why it cannot be read.
pub fn read_layers(
    image: &Image,
    blobs: &dyn BlobStore,
    request: &OpenRequest<'_>,
) -> Result<Vec<ReadLayer>, ImageError> {
    let stored = image.layers.iter().map(|layer| layer.size).sum();
    let budget = ImageBudget::new(request.limits(), stored);
    let has_failed = AtomicBool::new(false);
    let read = |&(number, layer): &(usize, &LayerDescriptor)| -> Option<Result<ReadLayer, ImageError>> {
        // The other worker finishes its layer and takes no new one.
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
    // If two layers fail, the lower one is reported, as in a sequential read.
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
        let why = "a foreign layer: its bytes are not in the registry, and no other host was contacted";
        return Ok(Err(UnreadLayer {
            what: format!("layer {name}"),
            why: why.to_owned(),
        }));
    }
    if let Some(index) = request.cache.and_then(|cache| cache.find(layer)) {
        blobs.find(layer)?;
        return Ok(Ok(index));
    }
    // Reported before opening: a registry may answer slowly, and the user should see which layer it is.
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

/// Applies `work` to each item with `at_a_time` threads; returns the results in the order of the items.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], at_a_time: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = Mutex::new(items.iter().enumerate());
    let done = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..at_a_time.min(items.len()) {
            scope.spawn(|| {
                // The lock is released before the work starts; `while let` on the guard itself would hold it.
                let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some((number, item)) = take() {
                    let made = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, made));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, made)| made).collect()
}
