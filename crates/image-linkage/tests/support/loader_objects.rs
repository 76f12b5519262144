//! The objects of generated cases: libraries, programs and lookalikes.

use testkit::spec::{ElfSpec, EndianSpec, KindSpec, MachineSpec};

use super::loader_generate::{DIRECTORIES, NAMES};
use super::loader_tree::Entry;
use testkit::random::Random;

/// Search path elements other than the directories.
const ELEMENTS: &[&str] = &[
    "$ORIGIN",
    "${ORIGIN}",
    "$ORIGIN/../a",
    "${ORIGIN}/../../opt/b",
    "$ORIGIN/sub",
    "$ORIGIN/../lib",
    "/opt/$LIB",
    "/opt/${LIB}",
    "/srv/$PLATFORM",
    "/srv/${PLATFORM}/",
    "/opt/$UNKNOWN",
    "$ORIGINAL/a",
    "${ORIGIN",
    "/opt/a/",
    "/opt/b///",
    "",
    ".",
    "opt/a",
    "a",
    "../opt/b",
    "/",
    "/opt/missing",
    "/opt/link",
    "/opt/link/sub",
    "/opt/loop",
    "/opt/dangling",
    "/app/bin/prog",
];

/// A library or a lookalike.
pub fn content(random: &mut Random, soname: Option<&str>) -> Entry {
    let text = |text: &str| Entry::Text(text.to_owned());
    let mut elf = library(random, soname);
    match random.below(110) {
        0 => return text(""),
        1 => return text("INPUT(liba.so.1)\n"),
        2 => return text(&"GROUP ( /opt/a/liba.so.1 )".repeat(9)),
        3 => return cut(elf, 7),
        4 => (elf.class, elf.machine) = (Some(32), MachineSpec::I386),
        5 => elf.class = Some(32),
        6 => elf.machine = MachineSpec::Aarch64,
        7 => (elf.endian, elf.machine) = (EndianSpec::Big, MachineSpec::Ppc64),
        8 => elf.kind = KindSpec::FixedExecutable,
        9 => elf.pie = true,
        10 => elf.kind = KindSpec::StaticLibrary,
        // Its dynamic section is behind the end of the file.
        11 => {
            elf.padding = 0x4000;
            return cut(elf, 0x2000);
        }
        12 => elf.patched = true,
        13 => elf.late_headers = true,
        14 => (elf.class, elf.machine) = (Some(32), MachineSpec::Arm),
        15 => elf.isa_needed = Some(5),
        16 | 17 => elf.isa_needed = Some(*random.one_of(&[1, 2, 3, 4])),
        18 => elf.gnu_hash = true,
        _ => {}
    }
    Entry::Elf(Box::new(elf))
}

fn cut(elf: ElfSpec, bytes: usize) -> Entry {
    let elf = Box::new(elf);
    Entry::Cut { bytes, elf }
}

/// A valid library.
pub fn library(random: &mut Random, soname: Option<&str>) -> ElfSpec {
    let mut elf = ElfSpec {
        soname: soname.map(ToOwned::to_owned),
        ..ElfSpec::default()
    };
    if random.chance(40) {
        elf.verdef.push(random.pick(&["V_1", "V_2"]).to_owned());
    }
    let count = random.weighted(&[(4, 0), (3, 1), (2, 2), (1, 3)]);
    needs(random, &mut elf, count);
    paths(random, &mut elf, 45);
    elf.nodeflib = random.chance(5);
    if random.chance(4) {
        let name = needed_name(random);
        let names = if random.chance(60) {
            &mut elf.auxiliary
        } else {
            &mut elf.filter
        };
        names.push(name);
    }
    elf
}

/// A program that exits with 0 if all its dependencies exist.
pub fn program(random: &mut Random) -> ElfSpec {
    let mut elf = ElfSpec {
        kind: KindSpec::Executable,
        ..ElfSpec::default()
    };
    let count = random.below(4) + 1;
    needs(random, &mut elf, count);
    paths(random, &mut elf, 60);
    elf.nodeflib = random.chance(4);
    if random.chance(3) {
        elf.isa_needed = Some(*random.one_of(&[1, 2, 5]));
    }
    elf
}

fn needs(random: &mut Random, elf: &mut ElfSpec, count: usize) {
    for _ in 0..count {
        let name = needed_name(random);
        elf.needed.push(name.clone());
        if !name.contains(['/', '$']) && random.chance(15) {
            let version = random.pick(&["V_1", "V_2", "V_9"]).to_owned();
            let of = if random.chance(20) {
                &mut elf.weak_verneed
            } else {
                &mut elf.verneed
            };
            of.entry(name).or_default().push(version);
        }
    }
}

fn paths(random: &mut Random, elf: &mut ElfSpec, percent: usize) {
    if !random.chance(percent) {
        return;
    }
    let (rpath, runpath) = random.weighted(&[(4, (true, false)), (4, (false, true)), (1, (true, true))]);
    elf.rpath = rpath.then(|| search_path(random, ":"));
    elf.runpath = runpath.then(|| search_path(random, ":"));
}

/// A name for `DT_NEEDED` or dlopen.
pub fn needed_name(random: &mut Random) -> String {
    let name = random.pick(NAMES);
    match random.below(100) {
        0 => "libmissing.so.1".to_owned(),
        1 => format!("{}/{name}", random.pick(DIRECTORIES)),
        2 => format!("./{name}"),
        3 => format!("a/{name}"),
        4 => format!("$ORIGIN/{name}"),
        5 => format!("${{ORIGIN}}/../a/{name}"),
        6 => format!("/opt/$LIB/{name}"),
        7 => format!("$NOTHING{name}"),
        8 => "libz.so.9".to_owned(),
        9 => format!("/opt/link/{name}"),
        10 => format!("/opt/a/../b//{name}"),
        11 => "ld-linux-x86-64.so.2".to_owned(),
        12 => "liba.so.01".to_owned(),
        _ => name.to_owned(),
    }
}

/// A random search path.
pub fn search_path(random: &mut Random, separators: &str) -> String {
    let mut path = String::new();
    for nth in 0..random.weighted(&[(1, 0), (4, 1), (4, 2), (2, 3), (1, 5)]) {
        if nth > 0 {
            let at = random.below(separators.len() * 3).min(separators.len() - 1);
            path.push(char::from(separators.as_bytes()[separators.len() - 1 - at]));
        }
        let plain = random.chance(60);
        path.push_str(random.pick(if plain { DIRECTORIES } else { ELEMENTS }));
    }
    path
}
