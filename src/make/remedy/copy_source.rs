//! The image that the user would have CUPTI copied from.

use crate::facts::ImageFacts;

#[derive(Clone, Copy)]
pub(crate) struct CopySource<'a> {
    /// Its name, as `FROM` takes it.
    pub name: &'a str,
    pub facts: &'a ImageFacts,
}
