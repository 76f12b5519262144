//! Do the facts of this machine's libraries match another reader that sees whole files?

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use goblin::elf::Elf;
use goblin::elf::dynamic::{DT_RPATH, DT_RUNPATH};
use goblin::elf::{VerdefSection, VerneedSection};
use image_linkage::elf::{ElfFacts, ElfStream};

use super::{INTEREST, text};

const FOLDER: &str = "/usr/lib/x86_64-linux-gnu";

/// The facts that both readers provide, in one form.
#[derive(Debug, PartialEq)]
struct View {
    machine: u16,
    interp: Option<String>,
    soname: Option<String>,
    needed: Vec<String>,
    rpath: Option<String>,
    runpath: Option<String>,
    verneed: Vec<(String, Vec<(String, bool)>)>,
    verdef: Vec<String>,
}

fn ours(facts: &ElfFacts) -> View {
    let all = |list: &[Box<[u8]>]| list.iter().filter_map(|item| text(Some(item))).collect();
    let version = |need: &image_linkage::elf::VersionNeed| {
        let versions = need.versions.iter();
        let versions = versions.filter_map(|version| Some((text(Some(&version.name))?, version.weak)));
        (text(Some(&need.file)).unwrap_or_default(), versions.collect())
    };
    View {
        machine: facts.machine,
        interp: text(facts.interp.as_deref()),
        soname: text(facts.soname.as_deref()),
        needed: all(&facts.needed),
        rpath: text(facts.rpath.as_deref()),
        runpath: text(facts.runpath.as_deref()),
        verneed: facts.verneed.iter().map(version).collect(),
        verdef: all(&facts.verdef),
    }
}

fn theirs(elf: &Elf<'_>) -> View {
    let name = |at: usize| elf.dynstrtab.get_at(at).unwrap_or_default().to_owned();
    let entry = |tag: u64| {
        let dynamic = elf.dynamic.as_ref()?;
        let found = dynamic.dyns.iter().rfind(|entry| entry.d_tag == tag)?;
        Some(name(usize::try_from(found.d_val).ok()?))
    };
    let verneed = elf.verneed.iter().flat_map(VerneedSection::iter);
    let verdef = elf.verdef.iter().flat_map(VerdefSection::iter);
    View {
        machine: elf.header.e_machine,
        interp: elf.interpreter.map(str::to_owned),
        soname: elf.soname.map(str::to_owned),
        needed: elf.libraries.iter().map(ToString::to_string).collect(),
        rpath: entry(DT_RPATH),
        runpath: entry(DT_RUNPATH),
        verneed: verneed
            .map(|need| {
                let versions = need.iter();
                let versions = versions.map(|version| (name(version.vna_name), version.vna_flags & 2 != 0));
                (name(need.vn_file), versions.collect())
            })
            .collect(),
        verdef: verdef
            .filter_map(|definition| definition.iter().next().map(|first| name(first.vda_name)))
            .collect(),
    }
}

fn streamed(path: &Path) -> ElfFacts {
    let mut file = File::open(path).unwrap();
    let mut stream = ElfStream::new(&INTEREST, 24 << 20);
    let mut buffer = vec![0; 100_000];
    loop {
        match file.read(&mut buffer).unwrap() {
            0 => return stream.finish(),
            n => stream.push(&buffer[..n]),
        }
    }
}

/// The regular files below a directory.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

#[test]
fn libraries_of_this_machine_match_goblin() {
    if !Path::new(FOLDER).is_dir() {
        println!("skipped: {FOLDER} is missing on this machine");
        return;
    }
    let (mut agreed, mut relocatable) = (0, 0);
    for path in files(Path::new(FOLDER)) {
        let mut start = [0; 18];
        let read = File::open(&path).and_then(|mut file| file.read_exact(&mut start));
        if read.is_err() || !start.starts_with(b"\x7fELF") {
            continue;
        }
        // Relocatable objects have no program headers, so skip them.
        if start[16] == 1 {
            relocatable += 1;
            continue;
        }
        let facts = streamed(&path);
        assert_eq!(facts.problems, [], "{}", path.display());
        let bytes = fs::read(&path).unwrap();
        let elf = Elf::parse(&bytes).unwrap();
        assert_eq!(ours(&facts), theirs(&elf), "{}", path.display());
        agreed += 1;
    }
    println!("{agreed} objects agreed on; {relocatable} relocatable ones left out");
    assert!(agreed > 0);
}

/// Objects of other linkers and processors: the roots and wheels of the parts, or the directory named by the variable.
#[test]
fn real_objects_have_no_problems() {
    let asked = std::env::var_os("CUPTI_AUDIT_OBJECTS").map(PathBuf::from);
    let folder = asked.unwrap_or_else(testkit::parts::parts);
    if !folder.is_dir() {
        testkit::parts::missing(&folder.display().to_string());
        return;
    }
    let mut objects = 0;
    let mut amiss = Vec::new();
    for path in files(&folder) {
        let mut start = [0; 18];
        let read = File::open(&path).and_then(|mut file| file.read_exact(&mut start));
        // Loaders never see relocatable objects.
        if read.is_err() || !start.starts_with(b"\x7fELF") || start[16] == 1 {
            continue;
        }
        let problems = streamed(&path).problems;
        if !problems.is_empty() {
            amiss.push(format!("{}: {problems:?}", path.display()));
        }
        objects += 1;
    }
    println!("{objects} objects, {} with something amiss", amiss.len());
    assert_eq!(amiss, [] as [&str; 0]);
}

#[test]
fn tables_moved_by_patchelf_are_not_a_problem() {
    if !testkit::parts::have_all(&[("gcc", "gcc"), ("patchelf", "patchelf")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("one.c"), folder.path().join("libone.so"));
    fs::write(&source, "static int one;\n").unwrap();
    let run = |program: &str, words: &[&str]| {
        let status = Command::new(program).args(words).arg(&library).status().unwrap();
        assert!(status.success(), "{program} {words:?}");
    };
    run("gcc", &["-shared", "-nostdlib", source.to_str().unwrap(), "-o"]);
    // Its hash table is empty, and longer names move it to the end of the file.
    run("patchelf", &["--set-rpath", &format!("/opt/{}", "long/".repeat(40))]);
    run("patchelf", &["--add-needed", "libc.so.6"]);
    run("patchelf", &["--set-soname", "libone-of-a-longer-name.so.1"]);
    let facts = streamed(&library);
    assert_eq!(facts.problems, []);
    assert_eq!(
        text(facts.soname.as_deref()).as_deref(),
        Some("libone-of-a-longer-name.so.1")
    );
}
