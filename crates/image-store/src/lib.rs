//! Stores image data on disk, shared by any number of processes.
//!
//! `layer_cache` keeps layer indexes between runs. `document_store` keeps fleet results in a folder.
//! `unfinished_output` holds partial output until it is complete.

mod document_store;
mod layer_cache;
mod unfinished_output;

pub use document_store::DocumentStore;
pub use layer_cache::{CacheContent, KEPT_BYTES, LayerCache, is_cache, list_cache, prune_cache};
pub use unfinished_output::{UnfinishedFolder, create_unfinished_file, remove_on_interrupt};
