//! The fuzz target with the name of the binary.
#![no_main]

#[path = "../tests/support/fuzz_targets.rs"]
mod fuzz_targets;
#[path = "../tests/support/plain_image.rs"]
mod plain_image;

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use fuzz_targets::{FuzzTarget, TARGETS};

static TARGET: LazyLock<&FuzzTarget> = LazyLock::new(|| {
    let is_named = |target: &&FuzzTarget| target.name == env!("CARGO_BIN_NAME");
    TARGETS.iter().find(is_named).expect("each binary has its target")
});

/// Writes the seeds that a test builds into the corpus, before libFuzzer reads it.
fn write_seeds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(TARGET.name);
    fs::create_dir_all(&corpus).expect("it is beside this file");
    for (number, seed) in (TARGET.seeds)().iter().enumerate() {
        fs::write(corpus.join(format!("seed-{number}")), seed).expect("the folder was made");
    }
}

libfuzzer_sys::fuzz_target!(init: write_seeds(), |bytes: &[u8]| (TARGET.run)(bytes));
