//! The image as a whole.

use super::evidence::plain_open_evidence;
use super::{Hit, StoppedWork};
use crate::facts::{CuptiStatus, ImageFacts};
use image_linkage::loader::Libc;

/// Checks whether the image has the library, and a C library that loads it.
pub(super) fn check(facts: &ImageFacts) -> Vec<Hit> {
    let status = facts.answers.status.as_is;
    // An unread part of the image may contain the missing library.
    if facts.layers.unread.is_some() && matches!(status, CuptiStatus::HeadersOnly | CuptiStatus::Absent) {
        return Vec::new();
    }
    let mut hits = Vec::new();
    // If it is part of a program, and no other asks for it.
    let is_built_in = facts.answers.consumers.is_empty() && facts.programs_with_library().next().is_some();
    if status == CuptiStatus::Absent && !is_built_in {
        hits.push(on_image("cupti-absent", facts));
    }
    if status == CuptiStatus::HeadersOnly && !facts.headers.is_empty() && !is_built_in {
        hits.push(on_image("headers-only-cupti", facts));
    }
    if facts.concerns_cupti() {
        match facts.contexts.as_is.linker.as_ref().map(|linker| linker.libc) {
            Some(Libc::Musl) => hits.push(on_image("musl-image", facts)),
            None => hits.push(on_image("no-dynamic-loader", facts)),
            Some(_) => {}
        }
    }
    hits
}

fn on_image(rule: &'static str, facts: &ImageFacts) -> Hit {
    let mut consumers = facts.answers.consumers.iter();
    let breaks_program = consumers.any(|consumer| consumer.required.breaks_program() && consumer.misses_library());
    let hit = Hit::new(rule)
        .raise_if("breaks-program", breaks_program)
        .stopping(if breaks_program {
            StoppedWork::Program
        } else {
            StoppedWork::Profiling
        })
        .shown_by(plain_open_evidence(&facts.answers.plain.as_is));
    // Headers next to a library do not matter; alone they look like CUPTI but are not.
    if facts.answers.status.as_is != CuptiStatus::HeadersOnly {
        return hit;
    }
    hit.at(facts.headers.iter().map(|(path, layer)| (path, Some(*layer))))
}
