//! Objects that are truncated, changed or hostile (rows E-01 to E-04, E-09, E-10).

use image_linkage::elf::{ElfFacts, ElfProblem};
use proptest::prelude::*;
use testkit::elf::{Class, Elf, Endian, Machine};

use super::facts::rich;
use super::{facts, streamed, text};

fn small() -> Elf {
    Elf::library("libx.so.1")
        .needed("libc.so.6")
        .runpath("/lib")
        .import_at("cuptiA", "libcupti.so.12", "V1")
        .export_at("cuptiB", "X_1")
        .dlopen_note("[]")
}

/// The size of the facts, which an object must not inflate.
fn weight(facts: &ElfFacts) -> usize {
    let texts = [&facts.mentions, &facts.fragments];
    let lists = [&facts.needed, &facts.verdef, &facts.dlopen_notes]
        .into_iter()
        .chain(texts);
    let filters = facts.filters.iter().map(|(name, _)| name);
    let names = lists.flatten().chain(filters).map(|text| text.len());
    let needs = facts
        .verneed
        .iter()
        .map(|need| need.file.len() + need.versions.iter().map(|version| version.name.len()).sum::<usize>());
    let symbols = facts
        .symbols
        .iter()
        .map(|symbol| symbol.name.len() + symbol.version.as_ref().map_or(0, |name| name.len()));
    names.chain(needs).chain(symbols).sum()
}

#[test]
fn e10_an_object_cut_anywhere_is_a_problem_and_no_panic() {
    let bytes = rich().build();
    for end in 0..bytes.len() {
        let found = facts(&bytes[..end]);
        let cut = |problem: &ElfProblem| matches!(problem, ElfProblem::Truncated { .. });
        assert!(found.problems.iter().any(cut), "{end}: {:?}", found.problems);
    }
    assert_eq!(facts(&bytes).problems, []);
}

#[test]
fn e10_a_truncation_names_the_part_and_its_end() {
    let bytes = small().build();
    let problems = |end: usize| {
        let problems = facts(&bytes[..end]).problems;
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(problems(10), ["truncated: the header ends at byte 64, the file at 10"]);
    assert_eq!(
        problems(100)[0],
        "truncated: the program headers ends at byte 288, the file at 100"
    );
    let end = bytes.len();
    assert_eq!(
        problems(end - 1),
        [format!(
            "truncated: a loaded segment ends at byte {end}, the file at {}",
            end - 1
        )]
    );
}

#[test]
fn e09_files_with_only_the_elf_magic_are_malformed() {
    for bytes in [
        &b"\x7fELF"[..],
        b"\x7fELF\n/* GNU ld script */ INPUT(libcupti.so.12) and more text, so that a header fits",
    ] {
        assert_eq!(facts(bytes).problems.len(), 1, "{bytes:?}");
    }
    let bytes = small().build();
    for (at, value, what) in [
        (4, 3, "malformed ELF header"),
        (5, 0, "malformed ELF header"),
        (54, 32, "malformed ELF header"),
    ] {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        assert_eq!(facts(&bytes).problems[0].to_string(), what);
    }
}

#[test]
fn any_single_byte_may_change_without_a_panic() {
    for object in [
        small(),
        small().patched().late_headers(),
        small()
            .class(Class::Elf32)
            .endian(Endian::Big)
            .machine(Machine::Other(20)),
    ] {
        let bytes = object.build();
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] ^= flip;
                let found = facts(&bytes);
                assert!(weight(&found) < 100_000, "byte {at} ^ {flip:#x}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn damaged_objects_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        words in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(vec![0, 1, 0xffff, u64::MAX, 1 << 63, 1 << 31])),
            0..4,
        ),
        end in any::<prop::sample::Index>(),
        (chunk, limit) in (1..9000_usize, 0..9000_usize),
    ) {
        let mut bytes = small().build();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        for (at, value) in words {
            let at = at.index(bytes.len() - 8) & !7;
            bytes[at..at + 8].copy_from_slice(&u64::to_le_bytes(value));
        }
        bytes.truncate(bytes.len() / 2 + end.index(bytes.len()));
        let found = streamed(&bytes, chunk, limit);
        prop_assert!(weight(&found) < 100_000);
    }

    #[test]
    fn random_bytes_behind_the_magic_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        class in 1..3_u8,
        endian in 1..3_u8,
    ) {
        let start = [b"\x7fELF".as_slice(), &[class, endian, 1], &bytes].concat();
        let _ = facts(&start);
    }
}

/// Replaces the value of every dynamic entry of `tag`.
fn set_dynamic(bytes: &mut [u8], tag: u64, value: u64) {
    let place = bytes
        .windows(8)
        .enumerate()
        .filter(|(at, window)| at % 8 == 0 && *window == tag.to_le_bytes())
        .map(|(at, _)| at)
        .next_back()
        .unwrap();
    bytes[place + 8..place + 16].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn e03_declared_sizes_and_counts_are_not_trusted() {
    // DT_STRSZ, DT_VERNEEDNUM, DT_VERDEFNUM: the loader ignores all three.
    let whole = facts(&small().build());
    for tag in [10, 0x6fff_ffff, 0x6fff_fffd] {
        for value in [u64::MAX, 1 << 62, 100_000] {
            let mut bytes = small().build();
            set_dynamic(&mut bytes, tag, value);
            assert_eq!(facts(&bytes), whole, "{tag:#x} {value:#x}");
        }
    }
    for offset in [u64::MAX, u64::MAX - 100, 1 << 63] {
        let mut bytes = small().build();
        bytes[32..40].copy_from_slice(&offset.to_le_bytes());
        let found = facts(&bytes);
        assert_eq!((found.problems.len(), found.needed.len()), (1, 0), "{found:?}");
    }
}

#[test]
fn e05_version_chains_are_read_to_their_end_despite_the_count() {
    let whole = facts(&small().build());
    assert_eq!((whole.verneed.len(), whole.verdef.len()), (1, 2));
    for tag in [0x6fff_ffff, 0x6fff_fffd] {
        let mut bytes = small().build();
        set_dynamic(&mut bytes, tag, 0);
        assert_eq!(facts(&bytes), whole, "{tag:#x}");
    }
}

#[test]
fn e03_one_long_string_named_a_thousand_times_is_held_in_bounds() {
    let long = "n".repeat(60_000);
    let mut object = Elf::library("libx.so.1");
    for _ in 0..8000 {
        object = object.needed(&long);
    }
    let found = facts(&object.build());
    assert!(weight(&found) <= 1 << 20, "{}", weight(&found));
    let told: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
    assert!(
        told.iter().any(|told| told.contains("larger than the limit")),
        "{told:?}"
    );
    assert_eq!(text(found.soname.as_deref()).as_deref(), Some("libx.so.1"));
}

#[test]
fn e03_symbols_with_one_long_name_are_held_in_bounds() {
    let name = format!("cupti{}", "x".repeat(60_000));
    let object = (0..5000).fold(Elf::library("libx.so.1"), |object, _| object.export(&name));
    let found = facts(&object.build());
    assert!(weight(&found) <= 1 << 20, "{}", weight(&found));
}

#[test]
fn e04_notes_that_overlap_a_thousand_times_are_held_in_bounds() {
    let mut object = Elf::library("libx.so.1");
    for nth in 0..2000 {
        object = object.dlopen_note(format!("[{nth}{}]", " ".repeat(40_000)));
    }
    let bytes = object.build();
    for limit in [4096, bytes.len()] {
        let found = streamed(&bytes, 65_536, limit);
        assert!(weight(&found) <= 1 << 20, "{}", weight(&found));
        assert!(!found.problems.is_empty());
    }
}

#[test]
fn e04_a_note_longer_than_its_segment_is_no_note() {
    let bytes = Elf::new().dlopen_note("[1]").build();
    let at = bytes.windows(4).position(|window| window == b"FDO\0").unwrap();
    for size in [u32::MAX, 0x7fff_ffff, 1000] {
        let mut bytes = bytes.clone();
        bytes[at - 8..at - 4].copy_from_slice(&size.to_le_bytes());
        assert_eq!(facts(&bytes).dlopen_notes.len(), 0, "{size}");
    }
    assert_eq!(facts(&bytes).dlopen_notes.len(), 1);
}

#[test]
fn e01_and_e02_sections_are_never_inflated() {
    // A compressed section that claims a terabyte. Its header is never read.
    let mut bytes = small().build();
    let at = bytes.len() as u64;
    bytes.extend([0; 64]);
    let mut section = [0_u8; 64];
    section[8..16].copy_from_slice(&0x800_u64.to_le_bytes());
    section[24..32].copy_from_slice(&at.to_le_bytes());
    section[32..40].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    bytes.extend(section);
    bytes[40..48].copy_from_slice(&(at + 64).to_le_bytes());
    bytes[58..62].copy_from_slice(&[64, 0, 1, 0]);
    assert_eq!(facts(&bytes), facts(&small().build()));
}

#[test]
fn a_string_table_with_an_endless_size_is_read_to_the_end_of_the_file() {
    const DT_STRSZ: u64 = 10;
    let library = Elf::library("libcupti.so.12").export("cuptiSubscribe");
    let mut bytes = library.dynamic_number(DT_STRSZ, u64::MAX).build();
    let headers = 64..64 + 56 * usize::from(bytes[56]);
    for at in headers.step_by(56).filter(|&at| bytes[at] == 1).collect::<Vec<_>>() {
        bytes[at + 32..at + 40].copy_from_slice(&(1_u64 << 62).to_le_bytes());
    }
    let found = facts(&bytes);
    assert_eq!(found.soname.as_deref(), Some(b"libcupti.so.12".as_slice()));
    assert_eq!(found.symbols.len(), 1);
    assert!(
        found
            .problems
            .iter()
            .any(|problem| matches!(problem, ElfProblem::Truncated { .. }))
    );
}
