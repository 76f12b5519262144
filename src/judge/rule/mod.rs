//! Turns the facts of an image into findings.
//!
//! A check is a function that finds one problem and gives a [`Hit`]: the rule's id, the values for its texts, and which
//! conditions for a higher severity hold. [`judge_hits`] adds the words and severities of the rules, which are data
//! ([`crate::knowledge::rule`]). [`suppression`] marks the findings that a project already knows.

mod command;
mod companions;
mod consumers;
mod copies;
mod driver;
mod evidence;
mod failures;
mod finding;
mod gpu_code;
mod hit;
mod host;
mod image;
mod judge;
mod package_files;
mod python;
mod release;
mod release_mismatch;
pub mod suppression;
mod weight;

use crate::facts::ImageFacts;

pub use crate::knowledge::rule::{Explains, Rule, RuleCure, RuleQuestion, Severity};
pub use evidence::Evidence;
pub use finding::{Finding, FindingLocation, PackageRepair, SuppressionMark};
pub use gpu_code::{find_gpu_code, gpu_code_gaps};
pub use hit::{Hit, Shown, StoppedWork, Value};
pub use judge::{judge_hits, sort_findings};
pub use package_files::incomplete_packages;
pub use release::find_gpu;

/// What the checks find in an image. The order is free, because findings are sorted later.
pub fn find_hits(facts: &ImageFacts) -> Vec<Hit> {
    let checks = [
        command::check,
        companions::check,
        consumers::check,
        copies::check,
        driver::check,
        failures::check,
        host::check,
        image::check,
        package_files::check,
        python::check,
        release::check,
        weight::check,
    ];
    checks.iter().flat_map(|check| check(facts)).collect()
}
