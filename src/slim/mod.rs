//! Makes an image that serves a phase of one that does not, and of one that carries dead weight a smaller one: layers are
//! added and written again, the rest of the image stays as it is.

pub mod blob;
pub mod documents;
pub mod interrupt;
