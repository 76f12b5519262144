//! What is kept of images, by any number of processes at once.
//!
//! `layer_cache` keeps the indexes of layers between runs, `document_store` the results of fleets in a folder or a bucket,
//! `unfinished_output` holds what is half written until it is whole.

mod document_store;
mod layer_cache;
mod unfinished_output;

pub use document_store::{DocumentStore, open_document_store};
pub use layer_cache::{CacheContent, KEPT_BYTES, LayerCache, list_cache, prune_cache};
pub use unfinished_output::{UnfinishedFolder, create_unfinished_file, remove_on_interrupt};
