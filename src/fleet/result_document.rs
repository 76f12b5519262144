//! The documents that a fleet keeps: what it was run with, a result for each image, and why some have none.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::worklist::WorkEntry;

/// The folder of the results.
pub(crate) const RESULTS: &str = "results";
pub(super) const RESULT_SCHEMA: &str = "cupti-audit/fleet-result/v1";
const FAILURE_SCHEMA: &str = "cupti-audit/fleet-failure/v1";
const SETTINGS_SCHEMA: &str = "cupti-audit/fleet/v1";

/// What the images of a fleet are asked; workers that differ in it do not write into one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FleetSettings {
    schema: String,
    /// The version of the program: another one may find something else.
    pub version: String,
    /// The library that is asked about.
    pub library: String,
    /// The phases that were asked for.
    pub phases: Vec<String>,
    /// The tools that were asked for, by their ids.
    pub tools: Vec<String>,
    /// From which severity on findings fail an image.
    pub fail_on: String,
    /// `--env`, `--cpu`, `--limit`, `--command`, `--args`, `--user`, `--workdir` and `--strict`, as they were given.
    pub conditions: Vec<String>,
    /// The digest of the user's rules, profiles and suppressions; the same for all who have none.
    pub own_files: String,
}

impl FleetSettings {
    /// Settings of this version of the program, to be filled.
    pub(crate) fn new() -> Self {
        Self {
            schema: SETTINGS_SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            library: String::new(),
            phases: Vec::new(),
            tools: Vec::new(),
            fail_on: String::new(),
            conditions: Vec::new(),
            own_files: String::new(),
        }
    }

    /// The name of their document.
    pub(crate) const NAME: &'static str = "fleet.json";

    /// The bytes that a store keeps of them.
    pub(crate) fn document(&self) -> Vec<u8> {
        document(self)
    }

    /// Whether the settings in `kept` are these.
    ///
    /// Errors: Which part differs, with both sides.
    pub(crate) fn compare(&self, kept: &[u8]) -> Result<(), String> {
        let read = serde_json::from_slice::<Self>(kept);
        let kept = read.map_err(|error| format!("{} there is of no fleet: {error}", Self::NAME))?;
        let list = |values: &[String]| format!("[{}]", values.join(", "));
        let fields = [
            ("schema", kept.schema.clone(), self.schema.clone()),
            ("version", kept.version.clone(), self.version.clone()),
            ("--library", kept.library.clone(), self.library.clone()),
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

/// The document of an image below `folder`: by its digest, and by its platform, as one manifest may stand for two.
pub(crate) fn document_name(folder: &str, digest: &str, platform: &str) -> String {
    let digest = digest.replace(':', "-");
    // A folder for each 256th part: a million files in one are slow on every file system.
    let hex = digest.split_once('-').map_or("", |(_, hex)| hex);
    let part = hex.get(..2).unwrap_or("00");
    format!("{folder}/{part}/{digest}_{}.json", platform.replace('/', "-"))
}

/// Errors: A document is of another contract than the `expected` one.
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
    /// The platform that was audited, such as `linux/amd64`.
    pub platform: String,
    /// The references that lead to it, by the worklist: a tag may have moved on since the audit.
    #[serde(skip)]
    pub names: Vec<String>,
    /// The error, in a sentence.
    pub error: String,
}

impl FleetFailure {
    /// The folder of the failures.
    pub(crate) const FOLDER: &'static str = "failures";

    /// Reads the document of a failure.
    ///
    /// Errors: What is wrong with it, in words.
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

/// The document of an image whose report in JSON is `report`: the same bytes, whichever worker makes it.
///
/// Errors: The report is no JSON.
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
    fn workers_with_other_settings_are_told_what_differs() {
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
                .starts_with("fleet.json there is of no fleet")
        );
    }
}
