//! Objects larger than the kept ranges: either complete facts or a problem that names the missing ones (row E-08).

use image_linkage::elf::{ElfFacts, ElfProblem};
use testkit::elf::Elf;

use super::facts::rich;
use super::{facts, streamed};

const LIMIT: usize = 64 << 10;

fn out_of_reach(facts: &ElfFacts) -> Vec<&'static str> {
    let parts = facts.problems.iter().filter_map(|problem| match problem {
        ElfProblem::OutOfReach { what, .. } => Some(*what),
        _ => None,
    });
    parts.collect()
}

#[test]
fn tables_at_the_start_and_the_dynamic_section_at_the_end_are_read() {
    for object in [rich(), rich().patched(), rich().padding(1_000_000).patched()] {
        let bytes = object.padding(1_000_000).build();
        let whole = facts(&bytes);
        assert_eq!(whole.problems, []);
        for (chunk, limit) in [(4096, LIMIT), (100_000, LIMIT), (bytes.len(), LIMIT), (7, 200_000)] {
            assert_eq!(streamed(&bytes, chunk, limit), whole, "{chunk} {limit}");
        }
    }
}

/// An object whose tables are far behind its start and far before its dynamic section.
fn far() -> Vec<u8> {
    // The note in front of the tables pushes them beyond the limit.
    rich().dlopen_note(" ".repeat(500_000)).padding(2_000_000).build()
}

#[test]
fn tables_out_of_reach_are_a_problem_and_never_wrong_facts() {
    let bytes = far();
    let whole = facts(&bytes);
    for (chunk, limit) in [
        (4096, LIMIT),
        (100_000, LIMIT),
        (bytes.len(), LIMIT),
        (1 << 20, 300_000),
    ] {
        let found = streamed(&bytes, chunk, limit);
        assert!(
            out_of_reach(&found).contains(&"the dynamic string table"),
            "{chunk} {limit} {:?}",
            found.problems
        );
        assert_eq!(
            (
                &found.soname,
                &found.rpath,
                &found.runpath,
                found.needed.len(),
                found.symbols.len()
            ),
            (&None, &None, &None, 0, 0)
        );
        assert_eq!((found.verneed.len(), found.verdef.len()), (0, 0));
        assert_eq!(
            (
                &found.ident,
                found.loads,
                &found.interp,
                found.flags_1,
                found.isa_needed
            ),
            (
                &whole.ident,
                whole.loads,
                &whole.interp,
                whole.flags_1,
                whole.isa_needed
            )
        );
    }
}

/// cuSPARSELt in the wheel of PyTorch 2.5.1: patchelf put 2.4 MB of strings before the dynamic section, at the end of
/// 212 MB.
#[test]
fn tables_behind_the_start_and_near_the_dynamic_section_are_read() {
    let bytes = rich().dlopen_note(" ".repeat(500_000)).padding(200_000).build();
    let whole = facts(&bytes);
    for chunk in [7, 4096, 1 << 20] {
        assert_eq!(streamed(&bytes, chunk, 300_000), whole, "{chunk}");
    }
}

/// The start is kept up to the code (and at least 16 MiB). Tables behind it are caught, and tables before it are kept.
#[test]
fn tables_before_and_behind_the_code_of_a_large_library_are_read() {
    let library = || Elf::library("libx.so.1").needed("libc.so.6");
    for object in [
        library().padding(18 << 20),
        library().dlopen_note(" ".repeat(18 << 20)).padding(1 << 20),
    ] {
        let mut bytes = object.build();
        let without = facts(&bytes);
        assert_eq!(without.problems, []);
        bytes[24..32].copy_from_slice(&0x1000_u64.to_le_bytes());
        assert_eq!(streamed(&bytes, 1 << 20, 24 << 20), without);
    }
}

#[test]
fn any_bound_gives_the_facts_or_a_problem() {
    for object in [rich(), rich().patched(), rich().late_headers()] {
        let bytes = object.padding(150_000).build();
        let whole = facts(&bytes);
        for limit in (4096..bytes.len() + 10_000).step_by(3000) {
            let found = streamed(&bytes, 1000, limit);
            if found.problems.is_empty() {
                assert_eq!(found, whole, "{limit}");
            }
        }
    }
}

#[test]
fn late_program_headers_are_read_but_not_ranges_far_before_them() {
    for object in [rich(), rich().padding(1_000_000)] {
        let bytes = object.late_headers().build();
        assert_eq!(streamed(&bytes, 4096, LIMIT), facts(&bytes));
    }
    let mut bytes = rich().padding(1_000_000).build();
    let headers = bytes[64..64 + 56 * usize::from(bytes[56])].to_vec();
    bytes.resize(bytes.len() + 300_000, 0);
    let moved = bytes.len() as u64;
    bytes.extend(headers);
    bytes[32..40].copy_from_slice(&moved.to_le_bytes());
    let found = streamed(&bytes, 4096, LIMIT);
    assert_eq!(out_of_reach(&found), ["the dynamic section"]);
    assert_eq!((found.soname, found.needed.len()), (None, 0));
}

#[test]
fn a_plain_library_needs_no_more_than_a_page() {
    let bytes = Elf::library("libx.so.1").needed("libc.so.6").build();
    assert_eq!(streamed(&bytes, 64, 0), facts(&bytes));
}
