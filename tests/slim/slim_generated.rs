//! Programs that start in an image also start in the result of `slim`.
//!
//! The images are those of `processes_generated`. Each goes through `slim` for a phase. The program itself, skopeo and
//! umoci read the result, and umoci unpacks it. Each program then runs in that root, as it did in the original image.
//! `CUPTI_AUDIT_CASES=FIRST-LAST` selects other seeds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

use crate::processes::generate;
use crate::processes::runner::{Outcome, Root};
use crate::processes::spec::{Build, ImageSpec, ObjectSpec};
use crate::processes::world::{WORLD, World};
use crate::processes::{audit, layers};
use serde_json::Value;
use testkit::oci::Layout;
use testkit::parallel::in_parallel;
use testkit::seeds;

/// The number of images whose outputs share a layout, as a user's may.
const CHUNK: usize = 6;
const PHASES: [&str; 3] = ["inference", "training", "profiling"];

/// The results of the runs.
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
    if !crate::support::have_all(&[("skopeo", "skopeo"), ("umoci", "umoci")]) {
        return;
    }
    let seeds = seeds::chosen(20_001, 24, 66);
    let chunks: Vec<&[u64]> = seeds.chunks(CHUNK).collect();
    let tally = Mutex::new(Tally::default());
    in_parallel(chunks.len(), |number| Chunk::new(world, chunks[number]).run(&tally));
    let tally = tally.into_inner().unwrap();
    let made: usize = tally.made.values().sum();
    println!(
        "{made} images are made by slim of generated ones, and skopeo and umoci read them: {:?}",
        tally.made
    );
    println!("  not made, as they would not serve the phase: {:?}", tally.refused);
    println!(
        "{} of {} programs that started in an image start in what slim made of it ({} run)",
        tally.started.saturating_sub(tally.differences.len()),
        tally.started,
        tally.programs
    );
    assert!(tally.differences.is_empty(), "{}", tally.differences.join("\n"));
    // New seeds may give none.
    let fixed = seeds
        .iter()
        .filter(|seed| seeds::drawn().is_none_or(|new| **seed < new));
    assert!(
        seeds::asked().is_some() || made * 66 >= 150 * fixed.count(),
        "{made} images"
    );
}

/// The options of `slim` for an image.
#[derive(Debug, Clone)]
struct Way {
    /// The number of the image in the chunk.
    number: usize,
    phase: &'static str,
    drop: bool,
    bring: bool,
}

impl Way {
    fn kind(&self) -> String {
        let drop = if self.drop { " --drop" } else { "" };
        let bring = if self.bring { " --cupti-from" } else { "" };
        format!("{}{drop}{bring}", self.phase)
    }

    fn tag(&self) -> String {
        format!("n{}{}", self.number, self.kind().replace(' ', ""))
    }
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
        let folder = crate::support::root_folder();
        let mut layout = Layout::new();
        for (number, image) in images.iter().enumerate() {
            layout.add(&format!("n{number}"), std::slice::from_ref(image));
        }
        layout.write_to(&folder.path().join("from")).unwrap();
        // A CUPTI to add, which loads wherever the generated ones do.
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
        let mut found = Tally::default();
        let mut made = Vec::new();
        for (number, spec) in self.specs.iter().enumerate() {
            let root = Root::new(self.world.base(spec), &self.members[number], &[]);
            let before = self.start(spec, &root);
            for way in self.ways(number) {
                let known = found.differences.len();
                if let Some(said) = self.make(&way, &mut found) {
                    self.unpack(&way, &before, &mut found);
                    made.push((way.clone(), said));
                }
                for text in found.differences.iter_mut().skip(known) {
                    *text = format!("{} {:?} {way:?}: {text}", spec.seed, spec.features);
                }
            }
        }
        let outputs: Vec<String> = made.iter().map(|(way, _)| self.output(way)).collect();
        let mut reports = audit::audit(&outputs, self.folder.path());
        for ((way, said), output) in made.iter().zip(&outputs) {
            let report = reports.remove(output).unwrap();
            for difference in self.documents(way, said, &report) {
                found
                    .differences
                    .push(format!("{} {way:?}: {difference}", self.specs[way.number].seed));
            }
        }
        tally.lock().unwrap().add(found);
    }

    fn start(&self, spec: &ImageSpec, root: &Root) -> Vec<Outcome> {
        let commands: Vec<_> = spec.processes.iter().map(|process| process.command.clone()).collect();
        root.run(&self.world.runner, spec, &commands)
    }

    /// The runs of `slim` for an image. For each phase that it serves: with and without `--drop`. For some other
    /// phases: with or without a CUPTI to add.
    fn ways(&self, number: usize) -> Vec<Way> {
        let seed = self.specs[number].seed;
        let mut ways = Vec::new();
        for (at, phase) in (0..).zip(PHASES) {
            let serves = self.reports[number]["phases"][phase]["verdict"] != "fail";
            let bring = !serves && (seed + at) % 4 < 2;
            for drop in [false, true] {
                if serves || bring && drop == seed.is_multiple_of(2) || (seed + at) % 16 == 2 {
                    ways.push(Way {
                        number,
                        phase,
                        drop,
                        bring,
                    });
                }
            }
        }
        ways
    }

    fn output(&self, way: &Way) -> String {
        format!("oci:{}:{}", self.at("out"), way.tag())
    }

    /// Makes one image and returns the output.
    fn make(&self, way: &Way, tally: &mut Tally) -> Option<String> {
        let (from, out) = (format!("oci:{}:n{}", self.at("from"), way.number), self.output(way));
        let (cupti, mut words) = (
            self.at("cupti"),
            vec!["slim", "--no-config", &from, "--phase", way.phase, "-o", &out],
        );
        words.extend(way.drop.then_some("--drop"));
        words.extend(way.bring.then_some(["--cupti-from", &cupti]).into_iter().flatten());
        let slim = program(&words);
        let said = String::from_utf8_lossy(&[&slim.stdout[..], &slim.stderr].concat()).into_owned();
        if slim.status.success() {
            *tally.made.entry(way.kind()).or_default() += 1;
            return Some(said);
        }
        // If an image cannot serve the phase, nothing is written, and the error says why.
        let is_reason = said.contains("nothing was written: the audit of the new image") || way.bring;
        if is_reason && !said.contains("no longer load") && slim.status.code() == Some(2) {
            *tally.refused.entry(way.kind()).or_default() += 1;
        } else {
            tally.differences.push(said);
        }
        None
    }

    /// Compares slim's prediction with the program's report, skopeo and the blobs.
    fn documents(&self, way: &Way, said: &str, report: &Value) -> Vec<String> {
        let (mut differences, phase) = (Vec::new(), way.phase);
        let verdict = report["phases"][phase]["verdict"].as_str().unwrap();
        let expected = if verdict == "fail" { "not ready" } else { "ready" };
        if !said.contains(&format!("audit of the new image: {expected} for {phase}")) {
            differences.push(format!("the audit says {verdict}: {said}"));
        }
        let sum = |report: &Value| -> u64 {
            let layers = report["image"]["layers"].as_array().unwrap().iter();
            layers.map(|layer| layer["bytes"].as_u64().unwrap()).sum()
        };
        let (before, after) = (sum(&self.reports[way.number]), sum(report));
        let sense = if after < before { "less" } else { "more" };
        let [before, after, change] = [before, after, after.abs_diff(before)].map(short_size);
        if !said.contains(&format!("  size: {before} before, {after} after, {change} {sense}\n")) {
            differences.push(format!("{before} before, {after} after, not as said: {said}"));
        }
        differences
    }

    /// Reads an image with skopeo and umoci, and runs the programs in the root that umoci unpacks.
    fn unpack(&self, way: &Way, before: &[Outcome], tally: &mut Tally) {
        let (copy, bundle) = (self.at("skopeo"), self.at("bundle"));
        let image = format!("{}:{}", self.at("out"), way.tag());
        let reads = [
            tool(
                "skopeo",
                &[
                    "--insecure-policy",
                    "copy",
                    "--quiet",
                    &self.output(way),
                    &format!("dir:{copy}"),
                ],
            ),
            tool("umoci", &["unpack", "--image", &image, &bundle]),
        ];
        for read in reads.iter().filter(|read| !read.status.success()) {
            tally
                .differences
                .push(String::from_utf8_lossy(&read.stderr).into_owned());
        }
        let _ = fs::remove_dir_all(copy);
        if !reads[1].status.success() {
            return;
        }
        let spec = &self.specs[way.number];
        let root = Root::unpacked(&Path::new(&bundle).join("rootfs"));
        fs::remove_dir_all(&bundle).unwrap();
        let after = self.start(spec, &root);
        for ((process, before), after) in spec.processes.iter().zip(before).zip(&after) {
            tally.programs += 1;
            let Outcome::Gets(_) = before else { continue };
            tally.started += 1;
            // An added CUPTI may replace a copy that no program needs at its path.
            let is_same = before == after || way.bring && matches!(after, Outcome::Gets(_));
            if !is_same {
                tally
                    .differences
                    .push(format!("{:?}: {before:?}, and now {after:?}", process.command));
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

/// A size as slim writes it.
fn short_size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{}.{} kB", bytes / 1_000, bytes / 100 % 10),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}
