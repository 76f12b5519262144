//! Compares a fleet with an earlier run. Images are matched by name, because a rebuilt one has a new digest.

use std::collections::{BTreeMap, BTreeSet};

use super::image_result::ImageResult;

/// A name whose exit code or findings changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangedImage {
    pub name: String,
    pub platform: String,
    /// The exit codes of both audits.
    pub exit_codes: (u8, u8),
    /// Rules with a finding only in the later run.
    pub gained: Vec<String>,
    /// Rules with a finding only in the earlier run.
    pub lost: Vec<String>,
}

/// The difference between two runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FleetChange {
    /// Sorted by name and platform.
    pub images: Vec<ChangedImage>,
    /// Names in both runs, with different digests.
    pub rebuilt: usize,
    /// Names only in the later run.
    pub added: usize,
    /// Names only in the earlier run.
    pub removed: usize,
}

impl FleetChange {
    /// Compares the results of two runs.
    pub(crate) fn between(earlier: &[ImageResult], later: &[ImageResult]) -> Self {
        let (before, after) = (by_name(earlier), by_name(later));
        let mut change = Self::default();
        for (key, now) in &after {
            let Some(then) = before.get(key) else {
                change.added += 1;
                continue;
            };
            change.rebuilt += usize::from(then.digest != now.digest);
            let (old, new) = (rules(then), rules(now));
            let only =
                |a: &BTreeSet<&str>, b: &BTreeSet<&str>| a.difference(b).map(|rule| (*rule).to_owned()).collect();
            let (gained, lost): (Vec<String>, Vec<String>) = (only(&new, &old), only(&old, &new));
            let exit_codes = (then.exit_code, now.exit_code);
            if exit_codes.0 != exit_codes.1 || !gained.is_empty() || !lost.is_empty() {
                let (name, platform) = ((*key.0).to_owned(), (*key.1).to_owned());
                change.images.push(ChangedImage {
                    name,
                    platform,
                    exit_codes,
                    gained,
                    lost,
                });
            }
        }
        change.removed = before.keys().filter(|key| !after.contains_key(*key)).count();
        change
    }
}

fn by_name(results: &[ImageResult]) -> BTreeMap<(&str, &str), &ImageResult> {
    let named = results.iter().flat_map(|result| {
        let names = result.names.iter();
        names.map(move |name| ((name.as_str(), result.platform.as_str()), result))
    });
    named.collect()
}

fn rules(result: &ImageResult) -> BTreeSet<&str> {
    result.findings.iter().map(|finding| finding.rule.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::FleetChange;
    use crate::fleet::image_result::ImageResult;
    use crate::fleet::{FleetFailure, FleetSummary, WorkEntry, failure_document, result_document};
    use image_source::{Digest, Platform};
    use serde_json::json;

    fn entry(name: &str, build: &str) -> WorkEntry {
        let platform = Platform::parse("linux/amd64").unwrap();
        let digest = Digest::of(format!("{name} {build}").as_bytes());
        WorkEntry::new("r.io/x".to_owned(), &digest, &platform, name, &[])
    }

    /// An audit of one build of the image; each rule has an error in the last layer.
    fn result(name: &str, build: &str, rules: &[&str], layers: &[&str]) -> ImageResult {
        let findings = rules.iter().map(
            |rule| json!({"rule": rule, "severity": "error", "locations": [{"path": "/x", "layer": layers.len() - 1}]}),
        );
        let drop = |bytes: u64, path: &str| json!({"path": path, "decision": "drop", "bytes": bytes, "layer": 0});
        let keep = json!({"path": "/b", "decision": "keep", "bytes": 7, "layer": 0});
        let report = json!({
            "verdict": "v", "exit_code": u8::from(!rules.is_empty()), "asked_phases": ["training", "inference"],
            "asked_tools": [{"id": "nsys", "state": "ready"}], "findings": findings.collect::<Vec<_>>(),
            "image": {"layers": layers.iter().map(|id| json!({"diff_id": id})).collect::<Vec<_>>()},
            "phases": {
                "training": {"verdict": "pass", "items": [drop(5, "/a"), keep]},
                "inference": {"verdict": "warn", "items": [drop(5, "/a"), drop(7, "/b")]},
                "profiling": {"verdict": "fail", "items": []},
            },
        });
        let document = result_document(&entry(name, build), &report.to_string()).unwrap();
        let mut result = ImageResult::read(&document).unwrap();
        result.names = vec![name.to_owned()];
        result
    }

    #[test]
    fn a_rebuilt_image_is_compared_by_its_name() {
        let before = [
            result("r.io/a:1", "old", &["one"], &["x"]),
            result("r.io/b:1", "old", &[], &["x"]),
            result("r.io/gone:1", "old", &[], &["x"]),
        ];
        let after = [
            result("r.io/a:1", "new", &["two"], &["x"]),
            result("r.io/b:1", "old", &[], &["x"]),
            result("r.io/new:1", "old", &[], &["x"]),
        ];
        let change = FleetChange::between(&before, &after);
        assert_eq!(
            (change.rebuilt, change.added, change.removed, change.images.len()),
            (1, 1, 1, 1)
        );
        let image = &change.images[0];
        assert_eq!((image.name.as_str(), image.exit_codes), ("r.io/a:1", (1, 1)));
        assert_eq!(
            (image.gained.as_slice(), image.lost.as_slice()),
            (&["two".to_owned()][..], &["one".to_owned()][..])
        );
        assert_eq!(FleetChange::between(&after, &after), FleetChange::default());
    }

    #[test]
    fn a_fleet_counts_images_bases_and_dead_weight_once() {
        let results = vec![
            result("r.io/base:1", "", &["rule"], &["x"]),
            result("r.io/team/a:1", "", &["rule"], &["x"]),
            result("r.io/team/a:2", "", &[], &["x", "y"]),
        ];
        let mut inherited = result("r.io/team/b:1", "", &["rule", "rule"], &["x"]);
        inherited.chain.push(7);
        let failed = |name: &str| FleetFailure::read(&failure_document(&entry(name, ""), "gone")).unwrap();
        // The second image now has a result.
        let failures = vec![failed("r.io/c:1"), failed("r.io/base:1")];
        let summary = FleetSummary::of([results, vec![inherited]].concat(), failures, 7);
        let counts = summary.outcomes;
        assert_eq!(
            (counts.findings, counts.open, counts.failed, counts.missing),
            (3, 0, 1, 2)
        );
        assert_eq!(summary.rules["rule"].images, 3);
        let bases: Vec<_> = summary.bases.iter().collect();
        assert_eq!(bases, [(&("r.io/base:1".to_owned(), "rule".to_owned()), &1)]);
        // The same file of the same layer in two images, in both requested phases.
        let team = &summary.repositories["r.io/team/a"];
        assert_eq!((team.images, team.failing, team.dead_bytes), (2, 1, 5));
        let phases: Vec<_> = summary.phases.keys().collect();
        assert_eq!(phases, ["inference", "training"]);
        assert_eq!(summary.tools["nsys"]["ready"], 4);
    }
}
