//! The result of a load: objects in order, and failed requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::trace::{SearchStage, SearchStep};
use crate::elf::ByteString;
use crate::path::RootPath;

/// The result of one program start or dlopen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadResolution {
    /// The objects in load order, including those loaded before.
    pub objects: Vec<LoadedObject>,
    /// The number of the started or opened object in [`LoadResolution::objects`].
    pub root: Option<usize>,
    /// Requests that failed.
    pub unresolved: Vec<UnresolvedRequest>,
    /// Preloads from `LD_PRELOAD` and `/etc/ld.so.preload` that the loader skips with a warning.
    pub preload_warnings: Vec<UnresolvedRequest>,
    /// Objects with unreadable tables, and why. Their dependencies are unknown.
    pub unread: Vec<String>,
}

impl LoadResolution {
    /// Whether the start or dlopen succeeds, assuming the driver's libraries.
    pub fn loads(&self) -> bool {
        self.root.is_some()
            && self
                .unresolved
                .iter()
                .all(|missing| missing.outcome == RequestOutcome::ProvidedAtRuntime)
    }

    /// Drops search traces, and dependencies of all objects except the root.
    pub(super) fn drop_searches(&mut self) {
        for (number, object) in self.objects.iter_mut().enumerate() {
            object.trace = Vec::new();
            if Some(number) != self.root {
                object.needs = Vec::new();
            }
        }
    }

    /// The object that a name resolved to.
    pub fn object_for(&self, name: &[u8]) -> Option<&LoadedObject> {
        // A dependency may resolve to a file that is mapped under another name, such as a path in LD_PRELOAD.
        let mut needs = self.objects.iter().flat_map(|object| &object.needs);
        needs
            .find_map(|(need, answer)| answer.filter(|_| **need == *name))
            .and_then(|number| self.objects.get(number))
            .or_else(|| self.objects.iter().find(|object| object.answers_to(name)))
    }
}

/// The paths of objects mentioned in a trace, by number. They outlive the process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectNames(Arc<BTreeMap<usize, ByteString>>);

impl ObjectNames {
    /// The objects mentioned in the steps of a search or in its final stage.
    pub fn of_trace(objects: &[LoadedObject], trace: &[SearchStep], how: Option<SearchStage>) -> Self {
        let stages = trace.iter().filter_map(SearchStep::stage).chain(how);
        let numbers = stages.filter_map(|stage| match stage {
            SearchStage::Rpath(number) | SearchStage::Runpath(number) => Some(number),
            _ => None,
        });
        let named = numbers.filter_map(|number| Some((number, objects.get(number)?.path.clone())));
        Self(Arc::new(named.collect()))
    }
}

/// Maps object numbers in search steps to paths.
pub trait NumberedObjects {
    /// The path used to open the object with this number.
    fn path_of(&self, number: usize) -> Option<&[u8]>;
}

impl NumberedObjects for ObjectNames {
    fn path_of(&self, number: usize) -> Option<&[u8]> {
        self.0.get(&number).map(|path| &**path)
    }
}

impl NumberedObjects for Vec<LoadedObject> {
    fn path_of(&self, number: usize) -> Option<&[u8]> {
        self.get(number).map(|object| &*object.path)
    }
}

/// A mapped object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedObject {
    /// The path used to open it.
    pub path: ByteString,
    /// The canonical path.
    pub real_path: RootPath,
    /// Its `DT_SONAME`.
    pub soname: Option<ByteString>,
    /// The number of the first requester in [`LoadResolution::objects`].
    pub requested_by: Option<usize>,
    /// The name of the first request.
    pub name: ByteString,
    /// How it was found.
    pub how: SearchStage,
    /// The distance from the started object.
    pub depth: usize,
    /// The search that found it.
    pub trace: Vec<SearchStep>,
    /// The names it needs, in order, each with the number of the resolved object.
    pub needs: Vec<(ByteString, Option<usize>)>,
}

impl LoadedObject {
    /// Whether `name` refers to this object once it is loaded.
    pub(crate) fn answers_to(&self, name: &[u8]) -> bool {
        *self.name == *name || *self.path == *name || self.soname.as_deref() == Some(name)
    }
}

/// A failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnresolvedRequest {
    /// The requested name.
    pub name: ByteString,
    /// The number of the requester in [`LoadResolution::objects`].
    pub requested_by: Option<usize>,
    /// The outcome.
    pub outcome: RequestOutcome,
    /// The loader's message.
    pub message: String,
    /// The version that the object `name` lacks, such as `GLIBC_2.25`, if that is the failure.
    pub missing_version: Option<ByteString>,
    /// The steps of the search.
    pub trace: Vec<SearchStep>,
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestOutcome {
    /// Resolved to an object.
    Loaded,
    /// A driver library. It is on the host, never in an image.
    ProvidedAtRuntime,
    /// Not in any searched place.
    NotFound,
    /// The loader found a file that it cannot load, and stopped.
    Refused,
}

impl RequestOutcome {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loaded => "loaded",
            Self::ProvidedAtRuntime => "provided-at-runtime",
            Self::NotFound => "not-found",
            Self::Refused => "refused",
        }
    }
}
