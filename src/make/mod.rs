//! Fixes for an image: the recipe, as a Dockerfile and as a new image.

pub(crate) mod added_layer;
pub(crate) mod cure;
pub(crate) mod dockerfile;
pub(crate) mod quote;
pub(crate) mod remedy;
pub(crate) mod repair;
pub(crate) mod slim;
pub(crate) mod still_works;
pub(crate) mod whole_file;

#[cfg(test)]
mod tests;
