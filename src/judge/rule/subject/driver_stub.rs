//! A stub of the driver's library on a search path.

use super::rule_subject::{RuleSubject, flag, text};
use crate::facts::ImageFacts;
use crate::facts::software::search_path::{self, DriverStub, StubSource};
use crate::knowledge::rule::SubjectKind;
use image_linkage::escape;

/// The stubs that the loader finds.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let stubs = search_path::find_driver_stubs(&facts.contexts);
    stubs.iter().map(subject).collect()
}

fn subject(stub: &DriverStub) -> RuleSubject {
    let by = match stub.by {
        StubSource::LdLibraryPath => "LD_LIBRARY_PATH",
        StubSource::Cache => "ld.so.cache",
    };
    SubjectKind::Stub
        .subject([
            ("path", text(stub.path.to_string())),
            ("name", text(escape::escape_bytes(stub.path.name()))),
            ("by", text(by)),
            // A toolkit names its stub libcuda.so, for linkers. Programs request the soname and skip it.
            ("is_soname", flag(stub.path.name() == b"libcuda.so.1")),
        ])
        .at([(&stub.path, None)])
}
