//! The documents of a fleet: its settings, a result per image, and failures.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::worklist::WorkEntry;

/// The folder of the results.
pub(crate) const RESULTS: &str = "results";
pub(super) const RESULT_SCHEMA: &str = "cupti-audit/fleet-result/v1";
const FAILURE_SCHEMA: &str = "cupti-audit/fleet-failure/v1";
const SETTINGS_SCHEMA: &str = "cupti-audit/fleet/v1";

/// The settings of a fleet's audits. Workers with different settings must not share a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FleetSettings {
    schema: String,
    /// The version of the program, because versions differ in their findings.
    pub version: String,
    /// The requested phases.
    pub phases: Vec<String>,
    /// The ids of the requested tools.
    pub tools: Vec<String>,
    /// The lowest severity that fails an image.
    pub fail_on: String,
    /// `--env`, `--cpu`, `--limit`, `--command`, `--args`, `--user`, `--workdir` and `--strict`, as given.
    pub conditions: Vec<String>,
    /// The digest of the user's rules, profiles and suppressions; equal for all users without any.
    pub own_files: String,
}

impl FleetSettings {
    /// Empty settings of this program version.
    pub(crate) fn new() -> Self {
        Self {
            schema: SETTINGS_SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            phases: Vec::new(),
            tools: Vec::new(),
            fail_on: String::new(),
            conditions: Vec::new(),
            own_files: String::new(),
        }
    }

    /// The name of their document.
    pub(crate) const NAME: &'static str = "fleet.json";

    /// The bytes of their document.
    pub(crate) fn document(&self) -> Vec<u8> {
        document(self)
    }

    /// Checks that the stored settings `kept` equal these.
    ///
    /// Errors: The difference, with both values.
    pub(crate) fn compare(&self, kept: &[u8]) -> Result<(), String> {
        let kept = serde_json::from_slice::<Self>(kept)
            .map_err(|error| format!("{} is not a fleet's settings: {error}", Self::NAME))?;
        let list = |values: &[String]| format!("[{}]", values.join(", "));
        let fields = [
            ("schema", kept.schema.clone(), self.schema.clone()),
            ("version", kept.version.clone(), self.version.clone()),
            ("--phase", list(&kept.phases), list(&self.phases)),
            ("--tool", list(&kept.tools), list(&self.tools)),
            ("--fail-on", kept.fail_on.clone(), self.fail_on.clone()),
            ("what images start with", list(&kept.conditions), list(&self.conditions)),
            ("own rules and profiles", kept.own_files.clone(), self.own_files.clone()),
        ];
        let differing = fields.into_iter().filter(|(_, there, here)| there != here);
        let words: Vec<String> = differing
            .map(|(what, there, here)| format!("{what} {there} there, {here} here"))
            .collect();
        if words.is_empty() {
            Ok(())
        } else {
            Err(words.join("; "))
        }
    }
}

/// The document name of an image below `folder`: by digest and platform, because a manifest may stand for two
/// platforms.
pub(crate) fn document_name(folder: &str, digest: &str, platform: &str) -> String {
    let digest = digest.replace(':', "-");
    // 256 subfolders: a million files in one folder are slow on every file system.
    let hex = digest.split_once('-').map_or("", |(_, hex)| hex);
    let part = hex.get(..2).unwrap_or("00");
    format!("{folder}/{part}/{digest}_{}.json", platform.replace('/', "-"))
}

/// Errors: The document's schema is not `expected`.
pub(super) fn check_schema(schema: &str, expected: &str) -> Result<(), String> {
    let is_it = (schema == expected).then_some(());
    is_it.ok_or_else(|| format!("its schema is {schema:?}, and {expected} is expected"))
}

/// Why an image has no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FleetFailure {
    schema: String,
    /// The digest of the image.
    pub digest: String,
    /// The audited platform, such as `linux/amd64`.
    pub platform: String,
    /// The references that lead to it, by the worklist: a tag may have moved on since the audit.
    #[serde(skip)]
    pub names: Vec<String>,
    /// The error message.
    pub error: String,
}

impl FleetFailure {
    /// The folder of the failures.
    pub(crate) const FOLDER: &'static str = "failures";

    /// Parses a failure document.
    ///
    /// Errors: The problem with it.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let read: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        check_schema(&read.schema, FAILURE_SCHEMA)?;
        Ok(read)
    }
}

/// The document of a failure.
pub(crate) fn failure_document(entry: &WorkEntry, error: &str) -> Vec<u8> {
    document(&FleetFailure {
        schema: FAILURE_SCHEMA.to_owned(),
        digest: entry.digest.clone(),
        platform: entry.platform.clone(),
        names: Vec::new(),
        error: error.to_owned(),
    })
}

#[derive(Serialize)]
struct ResultDocument<'a> {
    schema: &'static str,
    digest: &'a str,
    platform: &'a str,
    report: &'a RawValue,
}

/// The document of an image with the JSON report `report`. All workers produce the same bytes.
///
/// Errors: The report is not JSON.
pub(crate) fn result_document(entry: &WorkEntry, report: &str) -> Result<Vec<u8>, String> {
    let report: &RawValue = serde_json::from_str(report).map_err(|error| error.to_string())?;
    Ok(document(&ResultDocument {
        schema: RESULT_SCHEMA,
        digest: &entry.digest,
        platform: &entry.platform,
        report,
    }))
}

fn document(of: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(of).expect("texts, lists and JSON are always written");
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::FleetSettings;

    #[test]
    fn workers_with_other_settings_get_the_difference() {
        let mut here = FleetSettings::new();
        here.phases = vec!["training".to_owned()];
        assert_eq!(here.compare(&here.document()), Ok(()));
        let there = FleetSettings::new();
        assert_eq!(
            here.compare(&there.document()),
            Err("--phase [] there, [training] here".to_owned())
        );
        assert!(
            here.compare(b"{}")
                .unwrap_err()
                .starts_with("fleet.json is not a fleet's settings")
        );
    }
}
