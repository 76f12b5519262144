//! What a load came to: the objects in their order, and what is missing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::trace::{SearchStage, SearchStep};
use crate::elf::ByteString;
use crate::path::RootPath;

/// What the loader did for one start or one dlopen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadResolution {
    /// The objects in the order in which they were loaded, those loaded before included.
    pub objects: Vec<LoadedObject>,
    /// The object that was started or opened, by its number in [`LoadResolution::objects`].
    pub root: Option<usize>,
    /// What was asked for and is not there, or cannot be loaded.
    pub unresolved: Vec<UnresolvedRequest>,
    /// Libraries of `LD_PRELOAD` and `/etc/ld.so.preload` that the loader passes over with a warning.
    pub preload_warnings: Vec<UnresolvedRequest>,
    /// Objects whose tables could not be read, and why: what they need is not known.
    pub unread: Vec<String>,
}

impl LoadResolution {
    /// Whether the start or the dlopen succeeds, with the driver's libraries taken as present.
    pub fn loads(&self) -> bool {
        self.root.is_some()
            && self
                .unresolved
                .iter()
                .all(|missing| missing.outcome == RequestOutcome::ProvidedAtRuntime)
    }

    /// Leaves out how each object was found, and what others than the root need.
    pub(super) fn drop_searches(&mut self) {
        for (number, object) in self.objects.iter_mut().enumerate() {
            object.trace = Vec::new();
            if Some(number) != self.root {
                object.needs = Vec::new();
            }
        }
    }

    /// The object that a name led to.
    pub fn object_for(&self, name: &[u8]) -> Option<&LoadedObject> {
        // A need leads to a file that another name, such as a path in LD_PRELOAD, has mapped already.
        let mut needs = self.objects.iter().flat_map(|object| &object.needs);
        let needed = needs.find_map(|(need, answer)| answer.filter(|_| **need == *name));
        let needed = needed.and_then(|number| self.objects.get(number));
        needed.or_else(|| self.objects.iter().find(|object| object.answers_to(name)))
    }
}

/// The paths of the objects whose search paths a trace tells of, by their numbers: what is left of a process once its
/// report is made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectNames(Arc<BTreeMap<usize, ByteString>>);

impl ObjectNames {
    /// The objects that the steps of a search, and the part of it that ended it, have in them.
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

/// Objects that the steps of a search have by their numbers.
pub trait NumberedObjects {
    /// The path by which the object with this number was opened.
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

/// An object that the loader has mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedObject {
    /// The path by which the loader opened it.
    pub path: ByteString,
    /// The path without links.
    pub real_path: RootPath,
    /// Its `DT_SONAME`, if it has one.
    pub soname: Option<ByteString>,
    /// The object that asked for it first, by its number in [`LoadResolution::objects`].
    pub requested_by: Option<usize>,
    /// The name it was asked for by.
    pub name: ByteString,
    /// How it was found.
    pub how: SearchStage,
    /// The steps from the object that was started.
    pub depth: usize,
    /// The search that led to it.
    pub trace: Vec<SearchStep>,
    /// The names it needs, in order, each with the number of the object that answers, if one does.
    pub needs: Vec<(ByteString, Option<usize>)>,
}

impl LoadedObject {
    /// Whether the object is what `name` means once it is loaded.
    pub(crate) fn answers_to(&self, name: &[u8]) -> bool {
        *self.name == *name || *self.path == *name || self.soname.as_deref() == Some(name)
    }
}

/// A request that no object answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnresolvedRequest {
    /// The name that was asked for.
    pub name: ByteString,
    /// The object that asked, by its number in [`LoadResolution::objects`].
    pub requested_by: Option<usize>,
    /// What became of the request.
    pub outcome: RequestOutcome,
    /// The loader's own words.
    pub message: String,
    /// The version that the object `name` was found without, such as `GLIBC_2.25`, where that is what is missing.
    pub missing_version: Option<ByteString>,
    /// The steps of the search, in order.
    pub trace: Vec<SearchStep>,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestOutcome {
    /// An object answers to it.
    Loaded,
    /// A library of the driver, which is on the host and never in an image.
    ProvidedAtRuntime,
    /// Nothing of that name is where the loader looks.
    NotFound,
    /// What the loader found cannot be loaded, and it does not look further.
    Refused,
}

impl RequestOutcome {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loaded => "loaded",
            Self::ProvidedAtRuntime => "provided-at-runtime",
            Self::NotFound => "not-found",
            Self::Refused => "refused",
        }
    }
}
