//! Cases saved in `testdata/loader/<question>/`: past differences to the real loader, each with its answer. New ones
//! are saved there, too.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use image_linkage::layer::LayerIndex;
use image_linkage::loader::{StartMode, run_ldconfig};
use testkit::elf::Elf;

use super::loader_case::{Answer, Case};
use super::loader_compare::{
    self, Difference, compare, ignored, links, own_errors, printed, real_cache, traced, warnings,
};
use super::loader_judge::LOADER;
use super::loader_tools::Ran;
use super::loader_world::{Machine, WORLD, World};
use super::{loader_judge, loader_ours, loader_tree};

/// A fake loader with the right strings, for machines without a Debian root.
static LOOK_ALIKE: LazyLock<LayerIndex> = LazyLock::new(|| {
    let loader = Elf::library("ld-linux-x86-64.so.2")
        .string("ld.so (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.")
        .string("")
        .string("/lib/x86_64-linux-gnu/")
        .string("/usr/lib/x86_64-linux-gnu/")
        .string("/lib/")
        .string("/usr/lib/");
    let link = format!("/{LOADER}");
    let layer = testkit::layer::Layer::new().executable(LOADER, loader.build());
    let layer = layer.symlink("lib64/ld-linux-x86-64.so.2", &link);
    loader_tree::index(&layer.symlink("usr/lib64/ld-linux-x86-64.so.2", link))
});

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/loader")
}

/// The saved cases, by question and file.
fn kept() -> BTreeMap<String, Case> {
    let mut cases = BTreeMap::new();
    for question in fs::read_dir(folder()).unwrap() {
        let question = question.unwrap().path();
        if !question.is_dir() {
            continue;
        }
        for file in fs::read_dir(&question).unwrap() {
            let file = file.unwrap().path();
            let name = file.strip_prefix(folder()).unwrap().display().to_string();
            let case = Case::read(&fs::read_to_string(&file).unwrap());
            cases.insert(name, case.with_program());
        }
    }
    cases
}

/// Saves a differing case with the real answer. Returns its path.
pub fn keep(world: &World, case: &Case, difference: &Difference) -> String {
    let mut kept = case.clone();
    kept.about = format!("seed {} differed in the step {:?}", case.seed, difference.step);
    kept.answer = real_answer(world, case);
    let name = format!("seed-{}-{:?}", case.seed, difference.step).to_lowercase();
    let file = folder().join(&name).join("case.yaml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, kept.to_string()).unwrap();
    format!("{kept}{}kept as {}", difference.text, file.display())
}

/// The answer of the real programs.
fn real_answer(world: &World, case: &Case) -> Answer {
    let root = world.judge.root(case);
    let root = root.path();
    let mut answer = Answer::default();
    if let Some(format) = case.ldconfig {
        world.judge.ldconfig(root, &["-c", format.name()]);
        let mut lines = real_cache(world, root);
        lines.extend(links(&world.rootfs(case, root)));
        answer.ldconfig = Some(own(lines));
        loader_judge::change(case, root);
    }
    if case.opens.is_some() {
        answer.opens = Some(loader_compare::real_opened(&world.judge.open(case, root)));
        return answer;
    }
    let ran = world.judge.start(case, root, None);
    let mut lines = warnings(&ran);
    match ran.status {
        -7 => lines.push("SIGBUS".to_owned()),
        0 => {
            let trace = Some("LD_TRACE_LOADED_OBJECTS=1");
            let ran = world.judge.start(case, root, trace);
            lines.extend(ran.out.lines().filter_map(traced));
            // Only this list contains a missing auxiliary object.
            lines.retain(|line| !(case.has_filters() && line.ends_with(" => not found")));
        }
        _ => lines.extend(said(&ran, case)),
    }
    answer.start = Some(lines);
    answer
}

fn said(ran: &Ran, case: &Case) -> Vec<String> {
    let fatal = "error while loading shared libraries: ";
    let errors = own_errors(ran, case).into_iter();
    errors.map(|line| line.replace(fatal, "")).collect()
}

/// Our answer, without the parts that need a real one.
fn our_answer(case: &Case) -> Answer {
    let machine = Machine::plain();
    let files = loader_tree::index(&case.files.layer());
    let mut rootfs = loader_tree::merge([&*LOOK_ALIKE, &files]);
    let mut linker = machine.linker(&rootfs);
    let mut answer = Answer::default();
    if case.ldconfig.is_some() {
        let made = run_ldconfig(&rootfs, &linker, Vec::new());
        rootfs = made.apply(&rootfs, 2);
        let mut lines = printed(&made.cache);
        lines.extend(links(&rootfs));
        answer.ldconfig = Some(own(lines));
        linker.cache = Some(made.cache.into());
    }
    if case.opens.is_some() || !case.deleted.is_empty() || !case.added.0.is_empty() {
        return answer;
    }
    let resolution = machine.start(&rootfs, &linker, case, StartMode::Executed);
    let mut lines: Vec<String> = resolution.preload_warnings.iter().map(ignored).collect();
    match loader_ours::fatal(&resolution) {
        Some(fatal) if fatal.message.ends_with("SIGBUS") => lines.push("SIGBUS".to_owned()),
        Some(fatal) => lines.push(fatal.message.clone()),
        None => {
            let mut last = loader_ours::versions(&resolution);
            if last.is_empty() {
                last.extend(loader_ours::level(&resolution));
            }
            if last.is_empty() {
                last = if case.has_filters() {
                    loader_ours::in_order(&resolution)
                } else {
                    loader_ours::trace(&resolution)
                };
            }
            lines.extend(last);
        }
    }
    answer.start = Some(lines);
    answer
}

/// The lines except those about the loader, which is in every root.
fn own(mut lines: Vec<String>) -> Vec<String> {
    lines.retain(|line| !line.contains("ld-linux-x86-64.so.2"));
    lines
}

/// The parts of an answer that the case expects.
fn asked(answer: Answer, case: &Case) -> Answer {
    Answer {
        start: answer.start.filter(|_| case.answer.start.is_some()),
        opens: answer.opens.filter(|_| case.answer.opens.is_some()),
        ldconfig: answer.ldconfig.filter(|_| case.answer.ldconfig.is_some()),
    }
}

/// Records the answer to a new question, for review.
fn answer(name: &str, case: &Case) -> String {
    let Some(world) = &*WORLD else {
        return format!("{name} has no answer");
    };
    let mut case = case.clone();
    case.answer = real_answer(world, &case);
    fs::write(folder().join(name), case.to_string()).unwrap();
    format!("{name} had no answer, and has that of the real loader now")
}

#[test]
fn kept_cases_have_the_answers_of_the_real_loader() {
    let cases = kept();
    let mut failures = Vec::new();
    for (name, case) in &cases {
        if case.answer == Answer::default() {
            failures.push(answer(name, case));
            continue;
        }
        let ours = asked(our_answer(case), case);
        let known = Answer {
            start: case.answer.start.clone().filter(|_| ours.start.is_some()),
            opens: None,
            ldconfig: case.answer.ldconfig.clone(),
        };
        if ours != known {
            failures.push(format!("{name}\nours {ours:#?}\nkept {known:#?}"));
        }
        let Some(world) = &*WORLD else { continue };
        let real = asked(real_answer(world, case), case);
        if real != case.answer {
            failures.push(format!("{name}\nreal {real:#?}\nkept {:#?}", case.answer));
        }
        if let Err(difference) = compare(world, case) {
            failures.push(format!("{name}\n{}", difference.text));
        }
    }
    assert!(!cases.is_empty());
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    if WORLD.is_some() {
        println!("{0} of {0} kept cases agree", cases.len());
    }
}
