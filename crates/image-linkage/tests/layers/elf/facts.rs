//! Well-formed objects, common and unusual (rows E-05 to E-07, E-14, E-24).

use image_linkage::elf::{DynamicSymbol, ElfFacts, FilterKind, NeededVersion, SymbolRole, VersionNeed};
use testkit::elf::{Class, Elf, Endian, Hash, IsaLevel, Kind, Machine, df, df_1};

use super::{facts, streamed};

/// An object that uses every supported part.
pub fn rich() -> Elf {
    Elf::library("libtorch_cuda.so")
        .interp("/lib64/ld-linux-x86-64.so.2")
        .needed("libcupti.so.12")
        .needed("libc.so.6")
        .rpath("$ORIGIN")
        .runpath("$ORIGIN/../../nvidia/cuda_cupti/lib:")
        .flags(df::ORIGIN | df::BIND_NOW)
        .flags_1(df_1::ORIGIN | df_1::NODEFLIB)
        .dynamic_name(0x7fff_ffff, "libfilter.so")
        .dynamic_name(0x7fff_fffd, "libauxiliary.so")
        .verdef("TORCH_1")
        .export_at("cuptiExported", "TORCH_1")
        .export("notWanted")
        .import_at("cuptiSubscribe", "libcupti.so.12", "libcupti.so.12")
        .import("NVPW_InitializeHost")
        .import_weak("cuptiMaybe")
        .verneed("libc.so.6", "GLIBC_2.34")
        .verneed_weak("libc.so.6", "GLIBC_2.99")
        .isa_needed(IsaLevel::V3)
        .dlopen_note(r#"[{"soname":["libcupti.so.12"]}]"#)
        .string("could not open libcupti.so.%d")
        .string("libnvperf_host.so")
}

fn bytes(text: &str) -> Box<[u8]> {
    text.as_bytes().into()
}

fn symbol(name: &str, version: Option<&str>, role: SymbolRole) -> DynamicSymbol {
    DynamicSymbol {
        name: bytes(name),
        version: version.map(bytes),
        role,
    }
}

fn need(file: &str, versions: &[(&str, bool)]) -> VersionNeed {
    let versions = versions.iter().map(|&(name, weak)| NeededVersion {
        hash_fits: true,
        name: bytes(name),
        weak,
    });
    VersionNeed {
        file: bytes(file),
        versions: versions.collect(),
    }
}

/// The facts of [`rich`], except for machine-dependent ones.
fn expected() -> ElfFacts {
    ElfFacts {
        device_code: None,
        ident: *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0",
        kind: 3,
        machine: 62,
        version: 1,
        phentsize: 56,
        loads: 1,
        dynamic: true,
        interp: Some(bytes("/lib64/ld-linux-x86-64.so.2")),
        soname: Some(bytes("libtorch_cuda.so")),
        needed: vec![bytes("libcupti.so.12"), bytes("libc.so.6")],
        filters: vec![
            (bytes("libfilter.so"), FilterKind::Standard),
            (bytes("libauxiliary.so"), FilterKind::Auxiliary),
        ],
        rpath: Some(bytes("$ORIGIN")),
        runpath: Some(bytes("$ORIGIN/../../nvidia/cuda_cupti/lib:")),
        flags_1: 0x880,
        verneed: vec![
            need("libcupti.so.12", &[("libcupti.so.12", false)]),
            need("libc.so.6", &[("GLIBC_2.34", false), ("GLIBC_2.99", true)]),
        ],
        verdef: vec![bytes("libtorch_cuda.so"), bytes("TORCH_1")],
        has_verdef: true,
        executable_stack: false,
        static_tls: 0,
        isa_needed: 0b111,
        link_symbols: None,
        dlopen_notes: vec![bytes(r#"[{"soname":["libcupti.so.12"]}]"#)],
        symbols: vec![
            symbol("NVPW_InitializeHost", None, SymbolRole::Import),
            symbol("cuptiExported", Some("TORCH_1"), SymbolRole::Export),
            symbol("cuptiMaybe", None, SymbolRole::WeakImport),
            symbol("cuptiSubscribe", Some("libcupti.so.12"), SymbolRole::Import),
        ],
        mentions: vec![
            bytes(r#"[{"soname":["libcupti.so.12"]}]"#),
            bytes("could not open libcupti.so.%d"),
            bytes("libnvperf_host.so"),
        ],
        whole_paths: vec![],
        fragments: vec![],
        problems: vec![],
    }
}

/// The facts without hashed symbols, after checking that those are the ones of [`rich`].
fn but_for_hashes(mut facts: ElfFacts) -> ElfFacts {
    let symbols = facts.link_symbols.take().expect("both tables are held");
    let defined = ["cuptiExported", "notWanted", "cuptiSubscribe", "cuptiMaybe"];
    assert_eq!(
        defined.map(|name| symbols.defines(name.as_bytes())),
        [true, true, false, false]
    );
    let imported = ["NVPW_InitializeHost", "cuptiSubscribe", "cuptiMaybe", "notWanted"];
    assert_eq!(
        imported.map(|name| symbols.imports(name.as_bytes())),
        [true, true, false, false]
    );
    assert!(symbols.binds_now);
    facts
}

#[test]
fn facts_match_the_built_object() {
    assert_eq!(but_for_hashes(facts(&rich().build())), expected());
}

/// Undefined for ld.so: a name that nobody defines, a different version, or a hidden definition for an unversioned
/// reference.
#[test]
fn symbols_match_by_name_and_version() {
    let symbols = |elf: Elf| *facts(&elf.build()).link_symbols.unwrap();
    let has = |wanted: Elf, given: Elf| {
        let given = symbols(given);
        symbols(wanted).count_unbound(&std::iter::once(&given), false) == 0
    };
    let plain = || Elf::library("a").import("f");
    let versioned = || Elf::library("a").needed("b").import_at("f", "b", "V2");
    let export = |version: &str| Elf::library("b").export_at("f", version);
    assert!(has(plain(), Elf::library("b").export("f")));
    assert!(!has(plain(), Elf::library("b").export("g")));
    assert!(has(Elf::library("a").import_weak("f"), Elf::library("b")));
    assert!(has(versioned(), export("V2")) && has(plain(), export("V2")));
    assert!(!has(versioned(), export("V1")));
    // An object without version definitions counts as defining all.
    assert!(has(versioned(), Elf::library("b").export("f")));
}

#[test]
fn the_facts_of_a_patched_object_are_the_same() {
    let found = but_for_hashes(facts(&rich().patched().build()));
    assert_eq!(found, ElfFacts { loads: 2, ..expected() });
    let late = but_for_hashes(facts(&rich().late_headers().build()));
    assert_eq!(late, expected());
    let gnu_hash = but_for_hashes(facts(&rich().hash(Hash::Gnu).build()));
    assert_eq!(gnu_hash, expected());
    let both = but_for_hashes(facts(&rich().patched().late_headers().padding(300_000).build()));
    assert_eq!(both, ElfFacts { loads: 2, ..expected() });
}

#[test]
fn every_class_and_byte_order_is_read() {
    for (class, endian, machine, ident, number) in [
        (Class::Elf32, Endian::Little, Machine::I386, [1, 1], 3),
        (Class::Elf32, Endian::Big, Machine::Other(20), [1, 2], 20),
        (Class::Elf64, Endian::Big, Machine::S390, [2, 2], 22),
        (Class::Elf64, Endian::Little, Machine::Aarch64, [2, 1], 183),
        (Class::Elf64, Endian::Little, Machine::Other(243), [2, 1], 243),
    ] {
        let mut found = facts(&rich().class(class).endian(endian).machine(machine).build());
        // The hash table of s390x has 8-byte words.
        found.link_symbols = None;
        let mut expected = expected();
        expected.ident[4..6].copy_from_slice(&ident);
        expected.machine = number;
        expected.phentsize = if class == Class::Elf32 { 32 } else { 56 };
        assert_eq!(found, expected, "{machine:?}");
    }
}

#[test]
fn the_size_of_the_chunks_changes_nothing() {
    for object in [
        rich(),
        rich().patched(),
        rich().late_headers(),
        rich().padding(400_000),
        rich().padding(400_000).patched().late_headers(),
    ] {
        let bytes = object.build();
        let whole = facts(&bytes);
        for chunk in [7, 100, 4096, 65_536, 65_537, 262_144, bytes.len()] {
            assert_eq!(streamed(&bytes, chunk, bytes.len()), whole, "{chunk}");
        }
    }
    let bytes = rich().build();
    assert_eq!(streamed(&bytes, 1, bytes.len()), facts(&bytes));
}

#[test]
fn an_executable_and_a_static_program_are_told_apart() {
    let program = facts(&Elf::executable().needed("libc.so.6").build());
    assert_eq!((program.kind, program.flags_1), (3, df_1::PIE));
    let fixed = facts(&Elf::new().kind(Kind::Exec).build());
    assert_eq!((fixed.kind, fixed.dynamic), (2, true));
    let lone = facts(&Elf::new().kind(Kind::Exec).statically_linked().build());
    assert_eq!((lone.dynamic, lone.interp, lone.problems), (false, None, vec![]));
}

#[test]
fn e06_section_headers_are_never_read() {
    let plain = rich().build();
    let mut lies = plain.clone();
    // e_shoff, e_shentsize, e_shnum and e_shstrndx.
    lies[40..48].fill(0xff);
    lies[58..64].fill(0xff);
    assert_eq!(facts(&lies), facts(&plain));
}

#[test]
fn e14_the_soname_is_the_one_inside() {
    let found = facts(&Elf::library("libcupti.so.11.6").build());
    assert_eq!(found.soname.as_deref(), Some(&b"libcupti.so.11.6"[..]));
    assert_eq!(facts(&Elf::new().build()).soname, None);
    let empty = facts(&Elf::library("").rpath("").build());
    assert_eq!(empty.soname.as_deref(), Some(&b""[..]));
    assert_eq!((empty.rpath.as_deref(), empty.problems), (Some(&b""[..]), vec![]));
}

#[test]
fn e24_dlopen_notes_are_kept_in_order_once_each() {
    let object = Elf::new()
        .dlopen_note("[2]")
        .isa_needed(IsaLevel::V2)
        .dlopen_note("[1]")
        .dlopen_note("[2]");
    let found = facts(&object.build());
    assert_eq!(found.dlopen_notes, [bytes("[2]"), bytes("[1]")]);
    assert_eq!(found.isa_needed, 0b11);
}
