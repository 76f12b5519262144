//! One target, the one that the binary is named after.
#![no_main]

#[path = "../tests/support/fuzz_targets.rs"]
mod fuzz_targets;
#[path = "../tests/support/plain_image.rs"]
mod plain_image;

use fuzz_targets::{FuzzTarget, TARGETS};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let is_named = |target: &&FuzzTarget| target.name == env!("CARGO_BIN_NAME");
    let target = TARGETS.iter().find(is_named).expect("each binary has its target");
    (target.run)(bytes);
});
