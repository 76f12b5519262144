//! What changed since an earlier run, by the names of images: a rebuilt one has another digest under the same name.

use std::collections::{BTreeMap, BTreeSet};

use super::image_result::ImageResult;

/// A name whose outcome or findings are no longer what they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangedImage {
    pub name: String,
    pub platform: String,
    /// The exit codes of both audits.
    pub exit_codes: (u8, u8),
    /// Rules that find something now, and did not.
    pub gained: Vec<String>,
    /// Rules that no longer find anything.
    pub lost: Vec<String>,
}

/// The difference of two runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FleetChange {
    /// By name and platform.
    pub images: Vec<ChangedImage>,
    /// Names that are in both runs, with another digest.
    pub rebuilt: usize,
    /// Names that only the later run has.
    pub added: usize,
    /// Names that only the earlier run has.
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
