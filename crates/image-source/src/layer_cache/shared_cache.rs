//! The cache of a team: a place that all of them read from and write to, behind the folder of each.

use std::sync::OnceLock;

use crate::document_store::{DocumentStore, open_document_store};
use crate::image_error::ImageError;

/// Sealed files in a bucket or a folder that others write to, too. It is never needed: what cannot be had is made anew.
pub(super) struct SharedCache {
    /// As the user named it.
    place: String,
    store: Box<dyn DocumentStore>,
    /// Why it is not asked any more.
    pub(super) failure: OnceLock<String>,
}

impl SharedCache {
    /// The place that a user names.
    ///
    /// Errors: It is no place for documents, or there are no credentials for it.
    pub(super) fn open(place: &str) -> Result<Self, ImageError> {
        Ok(Self {
            place: place.to_owned(),
            store: open_document_store(place)?,
            failure: OnceLock::new(),
        })
    }

    /// A file as somebody wrote it, with its seal.
    pub(super) fn read(&self, name: &str) -> Option<Vec<u8>> {
        self.ask(|store| store.read(name)).flatten()
    }

    /// Puts a file there where nobody has.
    pub(super) fn write(&self, name: &str, sealed: &[u8]) {
        self.ask(|store| store.create(name, sealed));
    }

    /// One failure is told, and others would follow: who has no network waits for it once.
    fn ask<T>(&self, question: impl FnOnce(&dyn DocumentStore) -> Result<T, ImageError>) -> Option<T> {
        if self.failure.get().is_some() {
            return None;
        }
        let answer = question(&*self.store);
        answer
            .inspect_err(|error| {
                let failure = format!("the shared cache {} is not used from here on: {error}", self.place);
                self.failure.get_or_init(|| failure);
            })
            .ok()
    }
}
