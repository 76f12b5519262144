//! Limits the total size and entry count of all layers of one image. A limit per layer alone does not stop a thousand
//! small decompression bombs.

use std::sync::atomic::{AtomicU64, Ordering};

use image_linkage::layer::{IndexOptions, LayerIndex};
use image_linkage::limits::Limits;

use crate::image_error::ImageError;

/// The running totals of one image's layers, shared by the threads that read them.
pub(crate) struct ImageBudget<'l> {
    limits: &'l Limits,
    room: AtomicU64,
    entries: AtomicU64,
    names: AtomicU64,
    object_names: AtomicU64,
    kept: AtomicU64,
}

impl<'l> ImageBudget<'l> {
    /// `stored` is the compressed size of all layers together, or `None` if the source knows it only at the end.
    pub(crate) fn new(limits: &'l Limits, stored: Option<u64>) -> Self {
        let by_ratio = stored.map_or(u64::MAX, |stored| stored.saturating_mul(limits.layer_ratio));
        let bytes = by_ratio.max(limits.ratio_from.saturating_mul(2));
        Self {
            limits,
            room: AtomicU64::new(limits.image_bytes.min(bytes)),
            entries: AtomicU64::new(0),
            names: AtomicU64::new(0),
            object_names: AtomicU64::new(0),
            kept: AtomicU64::new(0),
        }
    }

    /// The options for the next layer, with its size limit lowered to what the image has left.
    pub(crate) fn next_options(&self, index: &IndexOptions) -> IndexOptions {
        let mut options = index.clone();
        options.limits.layer_bytes = self.limits.layer_bytes.min(self.room.load(Ordering::Relaxed));
        options
    }

    /// Adds a layer of `image` to the totals.
    ///
    /// Errors: [`ImageError::NotAnImage`] with the name of the limit that the layers so far exceed.
    pub(crate) fn count(&self, image: &str, layer: &LayerIndex) -> Result<(), ImageError> {
        let _ = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| {
            Some(room.saturating_sub(layer.bytes))
        });
        let limits = self.limits;
        let counted = [
            (
                &self.entries,
                layer.entries.len() as u64,
                limits.image_entries as u64,
                "entries",
                "image-entries",
            ),
            (
                &self.names,
                layer.name_bytes(),
                limits.image_names,
                "bytes of names",
                "image-names",
            ),
            (
                &self.object_names,
                layer.object_bytes(),
                limits.object_names,
                "bytes of what libraries name",
                "object-names",
            ),
            (
                &self.kept,
                layer.kept_bytes(),
                limits.image_kept,
                "bytes of files to be read",
                "image-kept",
            ),
        ];
        for (sum, own, limit, what, name) in counted {
            if sum.fetch_add(own, Ordering::Relaxed) + own > limit {
                let why = format!("its layers have more than the limit of {limit} {what} together ({name})");
                return Err(ImageError::not_an_image(image, why));
            }
        }
        Ok(())
    }
}
