//! The image that the user would have CUPTI copied from.

use crate::judge::facts::ImageFacts;

/// An image to copy from.
#[derive(Clone, Copy)]
pub(crate) struct CopySource<'a> {
    /// Its name, as `FROM` takes it.
    pub name: &'a str,
    pub facts: &'a ImageFacts,
}
