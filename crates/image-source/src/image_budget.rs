//! What the layers of one image may come to together: each of a thousand small layers may be a bomb.

use std::sync::atomic::{AtomicU64, Ordering};

use image_linkage::layer::{IndexOptions, LayerIndex};
use image_linkage::limits::Limits;

use crate::image_error::ImageError;

/// The layers of one image, counted as they are read by several threads.
pub(crate) struct ImageBudget<'l> {
    limits: &'l Limits,
    room: AtomicU64,
    entries: AtomicU64,
    names: AtomicU64,
    object_names: AtomicU64,
    kept: AtomicU64,
}

impl<'l> ImageBudget<'l> {
    /// For layers that are `stored` bytes together; `None` where that shows at their end only.
    pub(crate) fn new(limits: &'l Limits, stored: Option<u64>) -> Self {
        let by_ratio = stored.map_or(u64::MAX, |stored| stored.saturating_mul(limits.layer_ratio));
        let by_ratio = by_ratio.max(limits.ratio_from.saturating_mul(2));
        Self {
            limits,
            room: AtomicU64::new(limits.image_bytes.min(by_ratio)),
            entries: AtomicU64::new(0),
            names: AtomicU64::new(0),
            object_names: AtomicU64::new(0),
            kept: AtomicU64::new(0),
        }
    }

    /// How the next layer is indexed: within the uncompressed bytes that are left for it.
    pub(crate) fn next_options(&self, index: &IndexOptions) -> IndexOptions {
        let mut options = index.clone();
        options.limits.layer_bytes = self.limits.layer_bytes.min(self.room.load(Ordering::Relaxed));
        options
    }

    /// Counts a layer of `image` that was read.
    ///
    /// Errors: [`ImageError::NotAnImage`], when the layers so far come to more than they may; with the name of the limit.
    pub(crate) fn count(&self, image: &str, layer: &LayerIndex) -> Result<(), ImageError> {
        let take = |room: u64| Some(room.saturating_sub(layer.bytes));
        let _ = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
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
