//! Signals at moments that lie evenly over a run.

use std::process::{Child, Command};
use std::time::Duration;

/// What ends a run: asked to, at the terminal, at once, and with its terminal.
pub const SIGNALS: [&str; 4] = ["TERM", "INT", "KILL", "HUP"];

/// How often runs are interrupted: `CUPTI_AUDIT_INTERRUPTS`, or so many times.
pub fn count(few: u64) -> u64 {
    let asked = std::env::var("CUPTI_AUDIT_INTERRUPTS").ok();
    asked.map_or(few, |asked| asked.parse().unwrap())
}

/// The moment of the interrupt of this number in a run that takes `longest`, each in another part of it.
pub fn moment(number: u64, longest: Duration) -> Duration {
    longest * u32::try_from(number * 37 % 100).unwrap() / 100
}

/// Sends a signal at a moment, whether somebody is left to get it or not.
pub fn send(signal: &str, at: Duration, child: &Child) {
    std::thread::sleep(at);
    let id = child.id().to_string();
    let _ = Command::new("kill").args(["-s", signal, &id]).output();
}
