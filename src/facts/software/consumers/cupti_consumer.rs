//! An object that asks for the library, and what it gets.

use crate::facts::objects::start_failure::StartFailure;
use crate::facts::objects::world::ByWorld;
use crate::facts::software::consumer_outcome::ConsumerOutcome;
use crate::facts::software::process_variants::AnswerBasis;
use crate::knowledge::{FailureImpact, RequestKind};
use image_linkage::elf::ByteString;
use image_linkage::loader::{RequestOutcome, UnresolvedRequest};
use image_linkage::path::RootPath;
use python_path::{PythonUse, is_source};

/// An object that asks for CUPTI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CuptiConsumer {
    /// The id of its profile, where one knows it.
    pub profile: Option<String>,
    /// The name of the program, from its profile, else the file's.
    pub name: String,
    /// The file that asks, without links.
    pub object: RootPath,
    /// Whether it needs CUPTI or opens it.
    pub asks: RequestKind,
    /// The name it asks for; the first of several.
    pub wants: ByteString,
    /// What breaks without it.
    pub required: FailureImpact,
    /// The program that loads the object, where it is known; the object itself, where that is a program.
    pub program: Option<RootPath>,
    /// The Python that imports it, or why none does; `None` for what is no part of a package.
    pub python: Option<PythonUse>,
    /// What becomes of its request in each world.
    pub outcome: ByWorld<ConsumerOutcome>,
    /// Why only a run could tell what becomes of it in the image as it is; the outcome is then that without what is not
    /// known.
    pub open: Option<String>,
    /// Why it may get another copy than that, where it gets one for sure.
    pub other_copies: Option<String>,
    /// What the outcome in the image as it is rests on.
    pub basis: AnswerBasis,
}

impl CuptiConsumer {
    /// Whether it gets the library in the image as it is, for sure.
    pub fn is_served(&self) -> bool {
        self.open.is_none() && self.outcome.as_is.outcome == RequestOutcome::Loaded
    }

    /// Whether it is code of Python, which may end before it asks.
    pub fn is_script(&self) -> bool {
        is_source(self.object.name())
    }

    /// Why only a run could tell what it gets, if so: what is not known of its process, or of a damaged file.
    pub fn undecided_words(&self) -> Option<&str> {
        self.open.as_deref().or(self.other_copies.as_deref())
    }

    /// Why no Python of the image imports it as that starts, where it is part of a package.
    pub fn unreachable(&self) -> Option<&str> {
        match &self.python {
            Some(PythonUse::Unreachable { why, .. }) => Some(why),
            _ => None,
        }
    }

    /// What ends its process in the image as it is before it can ask, for sure.
    pub fn start_failure(&self) -> Option<&StartFailure> {
        let failure = self.outcome.as_is.start_failure.as_ref();
        failure.filter(|_| self.open.is_none() && self.unreachable().is_none())
    }

    /// What it needs besides and gets only where another object has brought it into the process before.
    pub fn unmet_by_itself(&self) -> Option<&UnresolvedRequest> {
        let gets = &self.outcome.as_is;
        let others = gets.other_failures.first();
        others.filter(|_| gets.outcome == RequestOutcome::Loaded)
    }

    /// Whether it asks for the library and does not get it in the image as it is, for sure.
    pub fn misses_library(&self) -> bool {
        let gets = &self.outcome.as_is;
        let outcome = gets.outcome;
        let is_elsewhere = gets.start_failure.as_ref().is_some_and(|failure| failure.gets_library);
        // What no Python imports asks for nothing.
        self.unreachable().is_none()
            && self.open.is_none()
            && !is_elsewhere
            && matches!(outcome, RequestOutcome::NotFound | RequestOutcome::Refused)
    }

    /// Whether it does not get the library, or one that lacks functions which it imports.
    pub fn misses_functions(&self) -> bool {
        self.misses_library() || !self.outcome.as_is.missing_symbols.is_empty()
    }
}
