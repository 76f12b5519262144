//! Does a library that is asked by itself get the answer of `ldd`, and does a program that needs it get the loader's?
//!
//! Each library has one odd program header. A Debian's `ld.so` maps it as its own argument and as a dependency.

use std::fs;

use image_linkage::loader::{LoadResolution, SimulatedProcess, StartMode};
use testkit::spec::{ElfSpec, KindSpec};

use crate::loader_case::Case;
use crate::loader_tree::Entry;
use crate::loader_world::{WORLD, World};
use crate::{loader_ours, loader_tree};

const LIBRARY: &str = "/opt/a/liba.so.1";
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// The offsets of fields in a 64-bit program header.
const OFFSET: usize = 8;
const STORED: usize = 32;
const ALIGN: usize = 48;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;

/// What is odd: the type of a program header and its number among those of the type, a field and its new value.
type Oddity = (&'static str, u32, usize, usize, u64);

const ODDITIES: [Oddity; 8] = [
    ("nothing", PT_LOAD, 0, ALIGN, 0x1000),
    ("the first segment is off its page", PT_LOAD, 0, OFFSET, 0x10),
    ("another segment is off its page", PT_LOAD, 1, OFFSET, 0x10),
    (
        "the first segment is aligned to less than a page",
        PT_LOAD,
        0,
        ALIGN,
        0x10,
    ),
    ("another segment is aligned to one byte", PT_LOAD, 1, ALIGN, 1),
    ("a segment is not aligned", PT_LOAD, 1, ALIGN, 0),
    ("the dynamic section is empty", PT_DYNAMIC, 0, STORED, 0),
    ("no dynamic section is there", PT_DYNAMIC, 0, 0, 0x0000_0004_0000_0000),
];

fn with_oddity(mut bytes: Vec<u8>, (_, kind, number, field, value): Oddity) -> Vec<u8> {
    let headers = usize::from(u16::from_le_bytes([bytes[56], bytes[57]]));
    let starts = (0..headers).map(|at| 64 + 56 * at);
    let is_kind = |at: &usize| bytes[*at..*at + 4] == kind.to_le_bytes();
    let at = starts.filter(is_kind).nth(number).unwrap() + field;
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    bytes
}

/// A program that needs the library.
fn needing() -> Case {
    let mut case = Case::default();
    let program = ElfSpec {
        kind: KindSpec::Executable,
        needed: vec!["liba.so.1".to_owned()],
        runpath: Some("/opt/a".to_owned()),
        ..ElfSpec::default()
    };
    case.files
        .add(case.program().to_owned().as_str(), Entry::Elf(Box::new(program)));
    case
}

#[test]
fn a_library_that_is_asked_by_itself_is_refused_as_by_the_real_loader() {
    let Some(world) = &*WORLD else { return };
    let library = ElfSpec {
        soname: Some("liba.so.1".to_owned()),
        // Then it has two segments.
        patched: true,
        ..ElfSpec::default()
    };
    let library = library.object().unwrap().build();
    let answers = ODDITIES.map(|oddity| (oddity.0, ask(world, &with_oddity(library.clone(), oddity))));
    let ours = answers.clone().map(|(what, (ours, _))| (what, ours));
    assert_eq!(ours, answers.map(|(what, (_, real))| (what, real)));
    println!(
        "{0} of {0} odd libraries are taken and refused as by the real loader",
        ours.len()
    );
}

/// The answers for the library by itself and for the program, ours and the real ones.
fn ask(world: &World, library: &[u8]) -> (Vec<String>, Vec<String>) {
    let case = needing();
    let root = world.judge.root(&case);
    let at = loader_tree::host_path(root.path(), LIBRARY).unwrap();
    loader_tree::write_file(&at, library);
    let rootfs = world.rootfs(&case, root.path());
    let machine = world.machine(&case);
    let linker = machine.linker(&rootfs);
    let objects = [LIBRARY, case.program()];
    let ours = objects.map(|object| {
        let start = |process: &mut SimulatedProcess<'_>| process.start(object.as_bytes(), StartMode::Listed);
        said(&machine.with_process(&rootfs, &linker, &case, start))
    });
    let real = objects.map(|object| {
        let trace = ["LD_TRACE_LOADED_OBJECTS=1".to_owned()];
        let ran = world.judge.run(root.path(), "/", &trace, &[LOADER, object]);
        let error = ran.err.trim().split_once("error while loading shared libraries: ");
        match error {
            Some((_, message)) => message.to_owned(),
            None => format!("status {}", ran.status),
        }
    });
    drop(fs::remove_file(at));
    (ours.to_vec(), real.to_vec())
}

fn said(resolution: &LoadResolution) -> String {
    let refused = loader_ours::refused(resolution).map(|refused| refused.message.clone());
    refused.unwrap_or_else(|| "status 0".to_owned())
}
