//! Does what started in an image start in what `slim` makes of it?
//!
//! The images are those of `processes_generated`. Each goes through `slim` for a phase, and what comes out is read again by
//! the program itself, by skopeo and by umoci, which unpacks it; in that root each program is really run, as before in the
//! image that it was made of. `CUPTI_AUDIT_CASES=FIRST-LAST` takes other seeds than the usual.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "the judge is real programs, run in a root; tests may panic"
)]

#[path = "support/engine.rs"]
mod docker;
#[path = "support/processes/mod.rs"]
mod processes;
#[path = "support/session.rs"]
mod session;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

use processes::generate;
use processes::runner::{Outcome, Root};
use processes::spec::{Build, ImageSpec, ObjectSpec};
use processes::world::{WORLD, World};
use processes::{audit, layers};
use serde_json::Value;
use testkit::oci::Layout;

/// The seeds of the images.
const SEEDS: (u64, u64) = (20_001, 20_210);
/// The images whose outputs share a layout, as a user's do.
const CHUNK: usize = 6;
const PHASES: [&str; 3] = ["inference", "training", "profiling"];

/// What came of the runs.
#[derive(Debug, Default)]
struct Tally {
    made: BTreeMap<String, usize>,
    refused: BTreeMap<String, usize>,
    programs: usize,
    started: usize,
    differences: Vec<String>,
}

#[test]
fn what_started_in_a_generated_image_starts_in_what_slim_makes_of_it() {
    let Some(world) = &*WORLD else { return };
    if !support::have_all(&[("skopeo", "skopeo"), ("umoci", "umoci")]) {
        return;
    }
    let asked = std::env::var("CUPTI_AUDIT_CASES").ok();
    let asked = asked.as_deref().and_then(|text| text.split_once('-'));
    let (first, last) = asked.map_or(SEEDS, |(first, last)| (first.parse().unwrap(), last.parse().unwrap()));
    let seeds: Vec<u64> = (first..=last).collect();
    let chunks: Mutex<Vec<&[u64]>> = Mutex::new(seeds.chunks(CHUNK).collect());
    let tally = Mutex::new(Tally::default());
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some(seeds) = chunks.lock().unwrap().pop() else {
                        break;
                    };
                    Chunk::new(world, seeds).run(&tally);
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    let made: usize = tally.made.values().sum();
    println!(
        "{made} images are made by slim of generated ones, and skopeo and umoci read them: {:?}",
        tally.made
    );
    println!("  not made, as they would not serve the phase: {:?}", tally.refused);
    println!(
        "{} of {} programs that started in an image start in what slim made of it ({} run)",
        tally.started - tally.differences.len().min(tally.started),
        tally.started,
        tally.programs
    );
    assert!(tally.differences.is_empty(), "{}", tally.differences.join("\n"));
    assert!(asked.is_some() || made >= 200, "{made} images");
}

/// Some images in one layout.
struct Chunk<'w> {
    world: &'w World,
    folder: tempfile::TempDir,
    specs: Vec<ImageSpec>,
    members: Vec<Vec<Vec<layers::Member>>>,
    reports: Vec<Value>,
}

impl<'w> Chunk<'w> {
    fn new(world: &'w World, seeds: &[u64]) -> Self {
        let specs: Vec<ImageSpec> = seeds.iter().map(|seed| generate::make(*seed)).collect();
        let member = |spec: &ImageSpec| layers::members(spec, &world.compiler, world.base(spec));
        let members: Vec<_> = specs.iter().map(member).collect();
        let pairs = specs.iter().zip(&members);
        let images: Vec<_> = pairs
            .map(|(spec, members)| audit::image(world, spec, members))
            .collect();
        let folder = tempfile::Builder::new()
            .prefix("root-slim")
            .tempdir_in(support::parts())
            .unwrap();
        let mut layout = Layout::new();
        for (number, image) in images.iter().enumerate() {
            layout.add(&format!("n{number}"), std::slice::from_ref(image));
        }
        layout.write_to(&folder.path().join("from")).unwrap();
        // A CUPTI to bring, which starts where the generated ones do.
        let cupti = ObjectSpec {
            build: Build::Cupti,
            name: "libcupti.so.12".to_owned(),
            ..ObjectSpec::default()
        };
        fs::create_dir(folder.path().join("cupti")).unwrap();
        fs::write(
            folder.path().join("cupti/libcupti.so.12"),
            world.compiler.object(&cupti),
        )
        .unwrap();
        let reports = audit::reports(&images);
        Self {
            world,
            folder,
            specs,
            members,
            reports,
        }
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn run(&self, tally: &Mutex<Tally>) {
        for (number, spec) in self.specs.iter().enumerate() {
            let root = Root::new(self.world.base(spec), &self.members[number], &[]);
            let commands: Vec<_> = spec.processes.iter().map(|process| process.command.clone()).collect();
            let before = root.run(&self.world.runner, spec, &commands);
            drop(root);
            // Every phase, and every image in one of the ways.
            let way = usize::try_from(spec.seed).unwrap();
            for (at, phase) in PHASES.iter().enumerate() {
                let drop = (way + at) % 2 == 0;
                let bring = (way / 2 + at) % 3 == 0;
                let mut found = self.one(number, phase, drop, bring, &before);
                for text in &mut found.differences {
                    *text = format!(
                        "{} {:?} {phase} drop {drop} bring {bring}: {text}",
                        spec.seed, spec.features
                    );
                }
                tally.lock().unwrap().add(found);
            }
        }
    }

    /// Makes one image and has it judged.
    fn one(&self, number: usize, phase: &str, drop: bool, bring: bool, before: &[Outcome]) -> Tally {
        let mut tally = Tally::default();
        let what = format!(
            "{phase}{}{}",
            if drop { " --drop" } else { "" },
            if bring { " --cupti-from" } else { "" }
        );
        let tag = format!("n{number}-{phase}");
        let (from, out) = (
            format!("oci:{}:n{number}", self.at("from")),
            format!("oci:{}:{tag}", self.at("out")),
        );
        let (cupti, mut words) = (
            self.at("cupti"),
            vec!["slim", "--no-config", &from, "--phase", phase, "-o", &out],
        );
        words.extend(drop.then_some("--drop"));
        words.extend(bring.then_some(["--cupti-from", &cupti]).into_iter().flatten());
        let slim = program(&words);
        let said = String::from_utf8_lossy(&[&slim.stdout[..], &slim.stderr].concat()).into_owned();
        if !slim.status.success() {
            // An image that cannot serve the phase is not made, and the reason is said.
            let is_reason = said.contains("nothing was written: the audit of the new image")
                || bring && slim.status.code() == Some(2);
            if is_reason && !said.contains("no longer load") {
                tally.refused.insert(what, 1);
            } else {
                tally.differences.push(said);
            }
            return tally;
        }
        tally.made.insert(what, 1);
        self.documents(number, phase, &out, &said, &mut tally);
        self.programs(number, &tag, before, &mut tally);
        tally
    }

    /// Compares what slim foretold with what the program, skopeo and the blobs say.
    fn documents(&self, number: usize, phase: &str, out: &str, said: &str, tally: &mut Tally) {
        let report = program(&[
            "--no-config",
            "--format",
            "json",
            "--fail-on",
            "never",
            "--phase",
            phase,
            out,
        ]);
        let Ok(report) = serde_json::from_slice::<Value>(&report.stdout) else {
            tally.differences.push(format!(
                "it cannot be read: {}",
                String::from_utf8_lossy(&report.stderr)
            ));
            return;
        };
        let verdict = report["phases"][phase]["verdict"].as_str().unwrap();
        if !said.contains(&format!("audit of the new image for {phase}: {verdict}")) {
            tally.differences.push(format!("the audit says {verdict}: {said}"));
        }
        let sum = |report: &Value, key: &str| -> i128 {
            let layers = report["image"]["layers"].as_array().unwrap().iter();
            layers.map(|layer| i128::from(layer[key].as_u64().unwrap())).sum()
        };
        for (what, key) in [("unpacked", "bytes"), ("stored", "compressed_bytes")] {
            let line = said.lines().find(|line| line.trim_start().starts_with(what)).unwrap();
            let mut words = line.rsplit(' ');
            let (sense, _, change) = (words.next().unwrap(), words.next(), words.next().unwrap());
            let change: i128 = change.parse().unwrap();
            let change = if sense == "less" { -change } else { change };
            if sum(&report, key) - sum(&self.reports[number], key) != change {
                tally.differences.push(format!("{what}: {line}"));
            }
        }
        let copy = format!("dir:{}", self.at("skopeo"));
        let copied = tool("skopeo", &["--insecure-policy", "copy", "--quiet", out, &copy]);
        if !copied.status.success() {
            tally
                .differences
                .push(format!("skopeo: {}", String::from_utf8_lossy(&copied.stderr)));
        }
        let _ = fs::remove_dir_all(self.at("skopeo"));
    }

    /// Runs the programs in what umoci unpacks.
    fn programs(&self, number: usize, tag: &str, before: &[Outcome], tally: &mut Tally) {
        let spec = &self.specs[number];
        let (image, bundle) = (format!("{}:{tag}", self.at("out")), self.at(&format!("bundle-{tag}")));
        let unpacked = tool("umoci", &["unpack", "--image", &image, &bundle]);
        if !unpacked.status.success() {
            tally
                .differences
                .push(format!("umoci: {}", String::from_utf8_lossy(&unpacked.stderr)));
            return;
        }
        let root = Root::unpacked(&Path::new(&bundle).join("rootfs"));
        fs::remove_dir_all(&bundle).unwrap();
        let commands: Vec<_> = spec.processes.iter().map(|process| process.command.clone()).collect();
        let after = root.run(&self.world.runner, spec, &commands);
        for ((command, before), after) in commands.iter().zip(before).zip(&after) {
            tally.programs += 1;
            let Outcome::Gets(_) = before else { continue };
            tally.started += 1;
            if before != after {
                tally
                    .differences
                    .push(format!("{command:?}: {before:?}, and now {after:?}"));
            }
        }
    }
}

impl Tally {
    fn add(&mut self, other: Self) {
        for (all, more) in [(&mut self.made, other.made), (&mut self.refused, other.refused)] {
            for (what, count) in more {
                *all.entry(what).or_default() += count;
            }
        }
        self.programs += other.programs;
        self.started += other.started;
        self.differences.extend(other.differences);
    }
}

fn program(words: &[&str]) -> Output {
    tool(env!("CARGO_BIN_EXE_cupti-audit"), words)
}

fn tool(program: &str, words: &[&str]) -> Output {
    Command::new(program).args(words).stdin(Stdio::null()).output().unwrap()
}
