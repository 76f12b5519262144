//! An object that requests the library, and the result.

use crate::facts::objects::start_failure::StartFailure;
use crate::facts::objects::world::ByWorld;
use crate::facts::software::consumer_outcome::ConsumerOutcome;
use crate::facts::software::process_variants::AnswerBasis;
use crate::knowledge::{FailureImpact, RequestKind};
use image_linkage::elf::ByteString;
use image_linkage::loader::{RequestOutcome, UnresolvedRequest};
use image_linkage::path::RootPath;
use python_path::{PythonUse, is_source};

/// An object that requests CUPTI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CuptiConsumer {
    /// The id of its profile, if any.
    pub profile: Option<String>,
    /// The name of the program from its profile, else of the file.
    pub name: String,
    /// The requesting file, with links resolved.
    pub object: RootPath,
    /// Whether it has a `DT_NEEDED` entry or calls dlopen.
    pub request_kind: RequestKind,
    /// The requested name; the first if there are several.
    pub requested_name: ByteString,
    /// The impact if the request fails.
    pub required: FailureImpact,
    /// The impact if the object cannot be loaded.
    pub unloaded: FailureImpact,
    /// The program that loads the object, if known; the object itself if it is a program.
    pub program: Option<RootPath>,
    /// The Python that imports it, or why none does; `None` if it is not part of a package.
    pub python: Option<PythonUse>,
    /// The result of its request in each world.
    pub outcome: ByWorld<ConsumerOutcome>,
    /// Why the result in the image as it is cannot be determined statically. The outcome then ignores the unknown part.
    pub open: Option<String>,
    /// Why it may get a different copy, if it certainly gets one.
    pub other_copies: Option<String>,
    /// The assumptions behind the outcome in the image as it is.
    pub basis: AnswerBasis,
}

impl CuptiConsumer {
    /// Whether it certainly gets the library in the image as it is.
    pub fn is_served(&self) -> bool {
        self.open.is_none() && self.outcome.as_is.answer.is_loaded()
    }

    /// Whether it is Python code, which may exit before its request.
    pub fn is_script(&self) -> bool {
        is_source(self.object.name())
    }

    /// Why its result cannot be determined statically, if so: an unknown part of its process, or a damaged file.
    pub fn undecided_words(&self) -> Option<&str> {
        self.open.as_deref().or(self.other_copies.as_deref())
    }

    /// Why no Python in the image imports it by default, if it is part of a package.
    pub fn unreachable(&self) -> Option<&str> {
        match &self.python {
            Some(PythonUse::Unreachable {
                why, is_broken: false, ..
            }) => Some(why),
            _ => None,
        }
    }

    /// Whether no Python in the image imports it by default.
    pub fn has_no_python(&self) -> bool {
        matches!(self.python, Some(PythonUse::Unreachable { .. }))
    }

    /// The failure that certainly ends its process before the request, in the image as it is.
    pub fn start_failure(&self) -> Option<&StartFailure> {
        if self.open.is_some() || self.unreachable().is_some() {
            return None;
        }
        self.outcome.as_is.start_failure.as_ref()
    }

    /// A further dependency that resolves only if another object loaded it into the process before.
    pub fn unmet_by_itself(&self) -> Option<&UnresolvedRequest> {
        let outcome = &self.outcome.as_is;
        if !outcome.answer.is_loaded() {
            return None;
        }
        outcome.other_failures.first()
    }

    /// Whether it requests the library and certainly does not get it in the image as it is.
    pub fn misses_library(&self) -> bool {
        let outcome = &self.outcome.as_is;
        let is_elsewhere = outcome
            .start_failure
            .as_ref()
            .is_some_and(|failure| failure.finds_library);
        // An object that no Python imports makes no request.
        self.unreachable().is_none()
            && self.open.is_none()
            && !is_elsewhere
            && matches!(
                outcome.answer.outcome(),
                RequestOutcome::NotFound | RequestOutcome::Refused
            )
    }

    /// Whether it does not get the library, or gets one without functions that it imports.
    pub fn misses_functions(&self) -> bool {
        self.misses_library() || !self.outcome.as_is.missing_symbols.is_empty()
    }
}
