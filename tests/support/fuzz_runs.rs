//! Runs each fuzz target on its seeds and on mutations of them, with bounded time and memory.
//! `CUPTI_AUDIT_FUZZ_SECONDS` increases the time per target. With the same time and seed, the number of executions
//! depends on the machine, but the result of each execution does not.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use super::fuzz_targets::{FuzzTarget, TARGETS};
use testkit::random::Random;

/// The variable with the target that a memory-bounded child process runs.
const BOUNDED: &str = "CUPTI_AUDIT_FUZZED";
/// The address space limit of a child in KiB: libc, two threads with stacks, and some hundred MiB.
const MEMORY: &str = "2000000";
/// The maximum length of a mutated input in bytes; longer ones are truncated.
const LONGEST: usize = 64 << 10;

/// Boundary values for sizes and counts.
const ODD: [u64; 8] = [0, 1, 7, 0x7f, 0xff, 0x7fff_ffff, u64::MAX >> 1, u64::MAX];

/// Mutates an input once: flips bits, writes numbers, or removes, repeats or inserts pieces.
fn change(random: &mut Random, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    if bytes.is_empty() {
        bytes.push(0);
    }
    let at = random.below(bytes.len());
    let end = at + 1 + random.below((bytes.len() - at).min(64));
    match random.below(8) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
        2 => {
            let number = random.one_of(&ODD).to_le_bytes();
            let width = (1 << random.below(4)).min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&number[..width]);
        }
        3 => drop(bytes.drain(at..end.min(bytes.len()))),
        4 => {
            let piece = bytes[at..end.min(bytes.len())].to_vec();
            let times = 1 + random.below(16);
            bytes.splice(at..at, piece.repeat(times));
        }
        5 => bytes.truncate(at),
        6 => {
            let other = random.one_of(seeds);
            let from = random.below(other.len().max(1)).min(other.len());
            let piece = &other[from..(from + 1 + random.below(64)).min(other.len())];
            bytes.splice(at..at, piece.iter().copied());
        }
        _ => {
            let word = random.pick(&[
                "..",
                "/",
                "*",
                "{",
                "${",
                "\n",
                "\0",
                "'",
                "\"",
                "%s",
                "\u{1b}[0m",
                ".wh.",
                "sha256:",
            ]);
            bytes.splice(at..at, word.bytes());
        }
    }
    bytes.truncate(LONGEST);
}

/// Runs a target until the time is over, and returns the number of executions.
fn execute(target: &FuzzTarget, time: Duration) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    let files = fs::read_dir(folder.join(target.name)).into_iter().flatten().flatten();
    let mut files: Vec<_> = files.map(|file| file.path()).collect();
    files.sort();
    let mut seeds: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    seeds.extend((target.seeds)());
    assert!(!seeds.is_empty(), "{} has no seeds", target.name);
    let mut random = Random::new(env::var("CUPTI_AUDIT_FUZZ_SEED").map_or(1, |seed| seed.parse().unwrap()));
    let begun = Instant::now();
    let mut count = 0;
    while count < seeds.len() || begun.elapsed() < time {
        let mut bytes = match seeds.get(count) {
            Some(seed) => seed.clone(),
            None => random.one_of(&seeds).clone(),
        };
        if count >= seeds.len() {
            (0..=random.below(6)).for_each(|_| change(&mut random, &mut bytes, &seeds));
        }
        let asked = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(&bytes)));
        let is_slow = asked.elapsed() > Duration::from_secs(30);
        if outcome.is_err() || is_slow {
            let file = env::temp_dir().join(format!("fuzz-{}-{count}", target.name));
            fs::write(&file, &bytes).unwrap();
            panic!("{} of {} bytes: {}", target.name, bytes.len(), file.display());
        }
        count += 1;
    }
    count
}

/// Runs a target in a child process with bounded memory; an allocation beyond it aborts the process.
fn execute_bounded(target: &FuzzTarget) -> usize {
    let ended = Command::new("sh")
        .args(["-c", "ulimit -v \"$0\" && exec \"$@\"", MEMORY])
        .arg(env::current_exe().unwrap())
        .args([
            "--exact",
            "fuzz_runs::each_target_takes_whatever_it_is_given",
            "--nocapture",
        ])
        .env(BOUNDED, target.name)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    let count = said
        .lines()
        .find_map(|line| line.strip_prefix("executed ")?.parse().ok());
    count.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&ended.stderr)))
}

#[test]
fn each_target_takes_whatever_it_is_given() {
    let seconds = env::var("CUPTI_AUDIT_FUZZ_SECONDS").map_or(1.2, |seconds| seconds.parse().unwrap());
    if let Ok(name) = env::var(BOUNDED) {
        let target = TARGETS.iter().find(|target| target.name == name).unwrap();
        // A whole image takes fifty times as long as any other input, so this target runs in parallel with all others.
        let share = if name == "image" { 11.0 } else { 1.0 };
        let time = Duration::from_secs_f64(seconds * share);
        println!("\nexecuted {}", execute(target, time));
        return;
    }
    let only = env::var("CUPTI_AUDIT_FUZZ").unwrap_or_default();
    let wanted = TARGETS.iter().filter(|target| target.name.starts_with(&only));
    let (images, others): (Vec<_>, Vec<_>) = wanted.partition(|target| target.name == "image");
    let counted = std::thread::scope(|scope| {
        let count = |targets: &Vec<&FuzzTarget>| -> Vec<_> {
            let counts = targets.iter().map(|target| (target.name, execute_bounded(target)));
            counts.collect()
        };
        let beside = scope.spawn(move || count(&images));
        [count(&others), beside.join().unwrap()].concat()
    });
    for (name, count) in counted {
        println!("fuzz: {name}: {count} executions, no fault");
    }
}
