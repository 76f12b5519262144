//! Resources that the host of a running container does not grant.

use super::cuda_driver;
use super::rule_subject::{RuleSubject, escaped, flag, text};
use crate::facts::{HostFacts, ImageFacts};
use crate::knowledge::rule::SubjectKind;
use crate::knowledge::version_numbers;

/// One subject, for a running container.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    facts.host.iter().map(|host| subject(facts, host)).collect()
}

fn subject(facts: &ImageFacts, host: &HostFacts) -> RuleSubject {
    let (cuda, _) = cuda_driver::driven(facts).unwrap_or_default();
    let row = facts.tables.drivers_for(&cuda).next();
    let known = row.and_then(|row| row.known_driver());
    // All releases of one CUDA major version run on the driver branch of the first.
    let branch = facts.tables.driver_branch_of(&cuda);
    let driver = host.driver.as_deref().unwrap_or_default();
    let is_older_than = |least: Option<&str>| {
        !driver.is_empty() && least.is_some_and(|least| version_numbers(driver) < version_numbers(least))
    };
    let mut variables = facts
        .tables
        .frameworks
        .iter()
        .filter_map(|known| known.daemon.as_deref());
    let is_set = |name| {
        facts
            .image
            .config
            .env(name)
            .is_some_and(|value| !value.is_empty() && value != "0")
    };
    let counters = match host.counters {
        Some(true) => "granted",
        Some(false) => "refused",
        None => "unknown",
    };
    SubjectKind::Host.subject([
        ("cuda", escaped(&cuda)),
        ("driver", escaped(driver)),
        ("least_driver", text(known.or(branch).unwrap_or_default())),
        ("needed_driver", text(branch.or(known).unwrap_or_default())),
        ("has_driver", flag(host.driver.is_some() || host.has_other_driver)),
        ("runs_cuda", flag(!is_older_than(branch.or(known)))),
        ("older_than_cuda", flag(is_older_than(known))),
        ("has_gpu", flag(host.has_gpu)),
        ("counters", text(counters)),
        ("asks_daemon", flag(variables.any(is_set))),
        ("has_daemon", flag(host.has_daemon)),
    ])
}
