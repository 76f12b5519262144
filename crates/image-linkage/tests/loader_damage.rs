//! Do we know what the real loader makes of a damaged library?
//!
//! Real libraries are changed in one thing each that loaders look at. The real glibc and the real musl open each in a
//! process of its own. What they load, we load; what they refuse, we refuse in the same words; where the process
//! dies, or looks something up that is not there, we never say that the library loads. `CUPTI_AUDIT_MUTANT=WORDS`
//! shows both answers for the mutants whose name has these words.

#![allow(
    dead_code,
    reason = "the helpers are shared with the other judges, which use more of them"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "the judge is the real loader, run in a root; tests may panic"
)]

#[path = "support/damage_mutations.rs"]
mod damage_mutations;
#[path = "support/loader_tools.rs"]
mod loader_tools;
#[path = "support/loader_tree.rs"]
mod loader_tree;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use testkit::parts as support;

use damage_mutations::{Mutant, Subject, mutants};
use image_linkage::loader::{
    Arch, CpuLevel, DynamicLoader, LoaderEnvironment, ProcessSetup, SimulatedProcess, StartMode,
};
use image_linkage::rootfs::FileCredentials;
use loader_tools::Tools;
use testkit::elf::Elf;
use testkit::layer::Layer;

/// A system: its loader, its C library, and the program that opens.
struct System {
    /// What lies in its root, by path.
    files: Vec<(&'static str, Vec<u8>)>,
    subjects: Vec<Subject>,
}

const OPENER: &str = "usr/bin/open_each";
const GLIBC_LOADER: &str = "lib64/ld-linux-x86-64.so.2";
const GLIBC: &str = "lib/x86_64-linux-gnu/libc.so.6";
const MUSL_LOADER: &str = "lib/ld-musl-x86_64.so.1";

/// What shows in no table: functions that begin elsewhere, numbers of versions that are read one symbol further on,
/// and data that is closed to writing before it is written.
const UNSEEN: [&str; 6] = [
    "(tag 0xc) value",
    "(tag 0xd) value",
    "(tag 0x19) value",
    "(tag 0x1a) value",
    "(tag 0x6ffffff0) value",
    "(type 0x6474e552) p_memsz",
];

/// What came of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    /// Both load it.
    Loads,
    /// Both refuse it in the same words.
    SameWords,
    /// The process dies, and we say so or that it cannot be determined.
    Dies,
    /// It loads or is refused, and we say that it cannot be determined.
    Careful,
    /// Code runs at another place than it was made for, which no table tells.
    Unseen,
    /// We are wrong.
    Wrong,
}

fn library(tools: &Tools, name: &'static str, compiler: &str, flags: &[&str]) -> Subject {
    let all = [&["-shared", "-fPIC", "-Wno-error"], flags].concat();
    let bytes = fs::read(tools.compile(compiler, "damaged", &all)).unwrap();
    Subject { name, bytes }
}

/// Debian 12 with its compiler's libraries and two of its own.
fn glibc(tools: &Tools) -> Option<System> {
    let debian = support::part("bookworm")?;
    let read =
        |path: &str| fs::read(fs::canonicalize(loader_tree::host_path(&debian, path).unwrap()).unwrap()).unwrap();
    let script = concat!(
        "-Wl,--version-script=",
        env!("CARGO_MANIFEST_DIR"),
        "/testdata/loader/damaged.map"
    );
    let mut subjects = vec![
        library(tools, "usual", "gcc", &[script, "-Wl,-soname,libusual.so.1"]),
        library(
            tools,
            "older",
            "gcc",
            &["-Wl,--hash-style=sysv,-z,norelro,-z,lazy", "-DALONE", "-nostdlib"],
        ),
        library(
            tools,
            "packed",
            "gcc",
            &["-Wl,-z,noseparate-code,-z,max-page-size=0x200000,-z,now", "-DTHREADS"],
        ),
    ];
    let zlib = Subject {
        name: "libz",
        bytes: read("lib/x86_64-linux-gnu/libz.so.1"),
    };
    subjects.push(zlib);
    // All of it lies in one page, so that every cut leaves zeros in place of tables.
    subjects.push(Subject {
        name: "stub",
        bytes: Elf::library("libstub.so.1").build(),
    });
    let files = vec![
        (GLIBC_LOADER, read("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")),
        (GLIBC, read(GLIBC)),
        (OPENER, fs::read(tools.compile("gcc", "open_each", &[])).unwrap()),
    ];
    Some(System { files, subjects })
}

/// Debian's musl, with libraries of its compiler.
fn musl(tools: &Tools) -> Option<System> {
    if !support::have("musl-gcc", "musl-tools") {
        return None;
    }
    let loader = fs::read(format!("/{MUSL_LOADER}")).ok()?;
    let subjects = vec![
        library(tools, "musl", "musl-gcc", &["-Wl,-soname,libmusl.so.1"]),
        library(tools, "alone", "gcc", &["-DALONE", "-nostdlib"]),
    ];
    let opener = fs::read(tools.compile("musl-gcc", "open_each", &[])).unwrap();
    Some(System {
        files: vec![(MUSL_LOADER, loader), (OPENER, opener)],
        subjects,
    })
}

#[test]
fn damaged_libraries_meet_what_the_real_glibc_does_to_them() {
    let Some(tools) = Tools::new() else { return };
    let Some(system) = glibc(&tools) else { return };
    judge("glibc", &tools, &system);
}

#[test]
fn damaged_libraries_meet_what_the_real_musl_does_to_them() {
    let Some(tools) = Tools::new() else { return };
    let Some(system) = musl(&tools) else { return };
    judge("musl", &tools, &system);
}

fn judge(name: &str, tools: &Tools, system: &System) {
    let whole = |subject: &Subject| Mutant {
        name: format!("{}: as it is", subject.name),
        bytes: subject.bytes.clone(),
    };
    let all: Vec<Mutant> = system
        .subjects
        .iter()
        .enumerate()
        .flat_map(|(nth, subject)| {
            // musl looks at none of the header that says what the file is, nor do we follow it there.
            let kept = |mutant: &Mutant| name != "musl" || !mutant.name.contains(": e") && !mutant.name.contains(": E");
            // All of the first library, of each other a part that is its own.
            let some = mutants(subject).into_iter().filter(kept).enumerate();
            let some = some.filter(move |(number, _)| nth == 0 || number % 4 == nth % 4);
            [whole(subject)].into_iter().chain(some.map(|(_, mutant)| mutant))
        })
        .collect();
    let real = opened_by_the_real_one(tools, system, &all);
    let ours = opened_by_ours(system, &all);
    let shown = std::env::var("CUPTI_AUDIT_MUTANT").ok();
    let mut counts: BTreeMap<Answer, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for ((mutant, real), ours) in all.iter().zip(&real).zip(&ours) {
        let mut answer = compare(real, ours, name);
        if answer == Answer::Wrong && ours == "loaded" && UNSEEN.iter().any(|what| mutant.name.contains(what)) {
            answer = Answer::Unseen;
        }
        *counts.entry(answer).or_default() += 1;
        let text = format!("{}\n    real {real}\n    ours {ours}", mutant.name);
        if mutant.name.ends_with(": as it is") {
            assert_eq!(answer, Answer::Loads, "{text}");
        }
        if answer == Answer::Wrong {
            wrong.push(text);
        } else if shown.as_ref().is_some_and(|words| mutant.name.contains(words)) {
            println!("{answer:?} {text}");
        }
    }
    println!(
        "{name}: {} damaged libraries, {counts:?}",
        all.len() - system.subjects.len()
    );
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn compare(real: &str, ours: &str, name: &str) -> Answer {
    let careful = ours.ends_with("cannot be determined");
    let dies = careful || ours.ends_with("the process ends") || ours.ends_with("SIGBUS");
    match real.split_once(' ') {
        None if ours == "loaded" => Answer::Loads,
        Some(("refused", words)) if same_words(words, ours, name) => Answer::SameWords,
        None | Some(("refused", _)) if careful => Answer::Careful,
        Some(("signal" | "exit", _)) if dies => Answer::Dies,
        _ => Answer::Wrong,
    }
}

/// musl says before the reason what it did; it has no words for damage.
fn same_words(real: &str, ours: &str, name: &str) -> bool {
    match name {
        "musl" => real.split_once(": ").is_some_and(|(_, reason)| ours.ends_with(reason)),
        _ => real == ours,
    }
}

fn path(nth: usize) -> String {
    format!("m/{nth}.so")
}

fn opened_by_the_real_one(tools: &Tools, system: &System, all: &[Mutant]) -> Vec<String> {
    let root = tools.folder();
    let place = |path: &str, bytes: &[u8]| loader_tree::write_file(&host(root.path(), path), bytes);
    for (path, bytes) in &system.files {
        place(path, bytes);
    }
    for (nth, mutant) in all.iter().enumerate() {
        place(&path(nth), &mutant.bytes);
    }
    let names: Vec<String> = (0..all.len()).map(|nth| format!("/{}", path(nth))).collect();
    let opener = format!("/{OPENER}");
    let mut lines = Vec::new();
    for names in names.chunks(100) {
        let mut program = vec![opener.as_str()];
        program.extend(names.iter().map(String::as_str));
        let ran = tools.run(root.path(), "/", &[], &program);
        assert_eq!(
            (ran.status, ran.out.lines().count()),
            (0, names.len()),
            "{}{}",
            ran.err,
            ran.out
        );
        lines.extend(ran.out.lines().map(|line| line.trim_end().to_owned()));
    }
    lines
}

fn host(root: &Path, path: &str) -> PathBuf {
    loader_tree::host_path(root, path).unwrap()
}

fn opened_by_ours(system: &System, all: &[Mutant]) -> Vec<String> {
    let mut layer = Layer::new();
    for (path, bytes) in &system.files {
        layer = layer.executable(path, bytes.clone());
    }
    for (nth, mutant) in all.iter().enumerate() {
        layer = layer.executable(path(nth), mutant.bytes.clone());
    }
    let rootfs = loader_tree::merge([&loader_tree::index(&layer)]);
    let linker = DynamicLoader::find_default(&rootfs, Arch::of_platform("amd64").unwrap(), CpuLevel::V3).unwrap();
    let environment = LoaderEnvironment::default();
    let setup = ProcessSetup {
        rootfs: &rootfs,
        linker: &linker,
        environment: &environment,
        cpu: CpuLevel::V3,
        user: &FileCredentials::default(),
        from_driver: &|_| false,
    };
    let mut process = SimulatedProcess::new(&setup);
    let started = process.start(format!("/{OPENER}").as_bytes(), StartMode::Executed);
    assert!(started.loads(), "{:?}", started.unresolved);
    let open = |nth: usize| {
        let opened = process.clone().open(format!("/{}", path(nth)).as_bytes(), None);
        match opened.unresolved.first() {
            Some(first) => first.message.clone(),
            None if opened.unread.is_empty() => "loaded".to_owned(),
            None => format!("unread: {}", opened.unread.join("; ")),
        }
    };
    (0..all.len()).map(open).collect()
}
