//! Fixes for an image: the patch, as a Dockerfile, as a new image and as commands.

pub(crate) mod choose;
pub(crate) mod cure;
pub(crate) mod dockerfile;
pub(crate) mod patch;
pub(crate) mod quote;
pub(crate) mod repair;
pub(crate) mod shell;
pub(crate) mod slim;
pub(crate) mod still_works;
pub(crate) mod template;
pub(crate) mod whole_file;

#[cfg(test)]
mod tests;
