//! Sends signals at moments spread evenly over a run.

use std::process::{Child, Command};
use std::time::Duration;

/// The signals: a polite request, Ctrl-C, an immediate end, and a closed terminal.
pub const SIGNALS: [&str; 4] = ["TERM", "INT", "KILL", "HUP"];

/// The number of interrupted runs: `CUPTI_AUDIT_INTERRUPTS`, or `few`.
pub fn count(few: u64) -> u64 {
    let asked = std::env::var("CUPTI_AUDIT_INTERRUPTS").ok();
    asked.map_or(few, |asked| asked.parse().unwrap())
}

/// The moment for this interrupt in a run that takes `longest`. Each number falls into another part of the run.
pub fn moment(number: u64, longest: Duration) -> Duration {
    longest * u32::try_from(number * 37 % 100).unwrap() / 100
}

/// Sends a signal at a moment, even if the process has already ended.
pub fn send(signal: &str, at: Duration, child: &Child) {
    std::thread::sleep(at);
    let id = child.id().to_string();
    let _ = Command::new("kill").args(["-s", signal, &id]).output();
}
