//! Which files' contents were counted already.

use std::collections::BTreeSet;
use std::sync::Arc;

use image_linkage::layer::FileFacts;

/// The contents that were counted: hard links share their facts and their content. So do plain files that are alike
/// share their facts, and each has its own content.
#[derive(Debug, Default)]
pub struct CountedContents(BTreeSet<usize>);

impl CountedContents {
    /// Whether the content of a file is counted for the first time.
    pub fn is_new(&mut self, facts: &Arc<FileFacts>) -> bool {
        facts.is_plain() || self.0.insert(Arc::as_ptr(facts).addr())
    }
}
