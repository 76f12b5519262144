//! Objects from `testkit::elf` before the readelf of this machine.
//!
//! Runs where binutils is; elsewhere each test says that it was skipped.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "these tests run readelf on files they have written"
)]

use std::fs;
use std::process::Command;

use testkit::elf::{Class, Elf, Endian, Hash, IsaLevel, Machine, df, df_1};

/// What readelf prints, runs of spaces made one; `None` where there is no readelf.
fn readelf(elf: &Elf, options: &[&str]) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("object");
    fs::write(&path, elf.build()).unwrap();
    let output = Command::new("readelf")
        .args(options)
        .arg(&path)
        .env("LC_ALL", "C")
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: this machine has no readelf");
        return None;
    };
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    Some(lines.collect::<Vec<_>>().join("\n"))
}

/// Asserts that each line is among those that readelf prints.
#[track_caller]
fn check(elf: &Elf, options: &[&str], expected: &[&str]) {
    if let Some(text) = readelf(elf, options) {
        for line in expected {
            assert!(text.lines().any(|found| found.contains(line)), "{line} in:\n{text}");
        }
    }
}

/// Objects of each kind, with what readelf calls their class, byte order and machine.
const KINDS: [(Class, Endian, Machine, [&str; 3]); 7] = {
    use Class::{Elf32, Elf64};
    use Endian::{Big, Little};
    [
        (Elf64, Little, Machine::X86_64, ["ELF64", "little endian", "X86-64"]),
        (Elf64, Little, Machine::Aarch64, ["ELF64", "little endian", "AArch64"]),
        (Elf64, Big, Machine::Ppc64, ["ELF64", "big endian", "PowerPC64"]),
        (Elf64, Big, Machine::S390, ["ELF64", "big endian", "IBM S/390"]),
        (Elf32, Little, Machine::I386, ["ELF32", "little endian", "Intel 80386"]),
        (Elf32, Little, Machine::Arm, ["ELF32", "little endian", "ARM"]),
        (Elf32, Big, Machine::Other(20), ["ELF32", "big endian", "PowerPC"]),
    ]
};

#[test]
fn every_class_and_byte_order_is_read_back() {
    for (class, endian, machine, words) in KINDS {
        let elf = Elf::library("libone.so.1")
            .class(class)
            .endian(endian)
            .machine(machine)
            .needed("libtwo.so.2")
            .runpath("$ORIGIN")
            .export_at("one", "ONE_1")
            .import_at("two", "libtwo.so.2", "TWO_2");
        let names = [
            "(NEEDED) Shared library: [libtwo.so.2]",
            "(SONAME) Library soname: [libone.so.1]",
            "(RUNPATH) Library runpath: [$ORIGIN]",
            "(VERDEFNUM) 2",
            "(VERNEEDNUM) 1",
        ];
        for elf in [&elf, &elf.clone().late_headers(), &elf.clone().patched()] {
            check(elf, &["-h", "-d"], &[words.as_slice(), &names].concat());
            check(
                elf,
                &["-D", "-s", "-W"],
                &["FUNC GLOBAL DEFAULT UND two@TWO_2", "FUNC GLOBAL DEFAULT 1 one@@ONE_1"],
            );
        }
    }
}

#[test]
fn flags_and_search_paths_are_read_back() {
    let elf = Elf::new()
        .rpath("/one:/two")
        .flags(df::ORIGIN | df::SYMBOLIC | df::BIND_NOW)
        .flags_1(df_1::NODEFLIB | df_1::ORIGIN)
        .dynamic_name(0x7fff_fffd, "libaux.so");
    check(
        &elf,
        &["-d"],
        &[
            "(RPATH) Library rpath: [/one:/two]",
            "(FLAGS) ORIGIN SYMBOLIC BIND_NOW",
            "(FLAGS_1) Flags: ORIGIN NODEFLIB",
            "(AUXILIARY) Auxiliary library: [libaux.so]",
        ],
    );
}

#[test]
fn notes_are_read_back() {
    let elf = Elf::new().isa_needed(IsaLevel::V3).dlopen_note("[]").hash(Hash::Gnu);
    check(
        &elf,
        &["-n"],
        &[
            "GNU 0x00000010 NT_GNU_PROPERTY_TYPE_0",
            "x86 ISA needed: x86-64-baseline, x86-64-v2, x86-64-v3",
            "FDO 0x00000003",
        ],
    );
}
