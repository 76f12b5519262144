//! A case: how the image is made, what fails in it, and what the audit has to say.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

/// A file of `tests/incidents/cases`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The thread: project and number. Without one, users met this class of trouble, in no thread that is known here.
    pub link: Option<String>,
    /// The class, by which cases are counted.
    pub class: String,
    /// What happened, in our own words.
    pub story: String,
    /// What installs in the image, and what it lacks, by which fixes are counted.
    #[serde(default = "apt")]
    pub situations: Vec<String>,
    /// Layers of the kit that the image is made from.
    #[serde(default = "debian")]
    pub from: Vec<String>,
    /// A layer for each: lines of shell that root runs in the image, with `kit/steps.sh` before them.
    #[serde(default)]
    pub image: Vec<String>,
    /// The environment of the image's config.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The user of the image's config, by number.
    #[serde(default)]
    pub user: u32,
    /// The command of the image's config.
    #[serde(default)]
    pub command: Vec<String>,
    /// What the image is for.
    pub phase: String,
    /// A profiling tool that has to work.
    pub tool: Option<String>,
    /// The toolkit of the kit that `slim` takes CUPTI from.
    #[serde(default = "newest_toolkit")]
    pub cupti_from: String,
    /// What fails: words as a shell splits them. A case of the host has none.
    #[serde(default)]
    pub probe: String,
    /// The Dockerfile that `check` reads, in place of an image.
    pub build_file: Option<BuildFile>,
    /// What the kernel says in the container, in place of the symptom.
    pub host: Option<Host>,
    /// The same after what the fix says.
    pub fixed_host: Option<Host>,
    /// A part of what the probe says.
    pub symptom: String,
    /// The rule whose finding comes first among the errors.
    pub rule: String,
    /// What somebody does who follows a fix that is printed as words alone, as instructions of a Dockerfile.
    #[serde(default)]
    pub by_hand: Vec<String>,
    /// A part of the commands that cure it, where others that cure it are not what is called for.
    pub cure: Option<String>,
    /// Why nothing that can be printed as a command cures it.
    pub not_cured: Option<String>,
    /// What the program says wrongly at present. The test fails when it no longer does.
    pub known_wrong: Option<String>,
}

/// A Dockerfile, before and after what the fix says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildFile {
    /// Its text.
    pub text: String,
    /// Its text with the fix.
    pub fixed: String,
}

/// Files that the kernel and the driver have in a container.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Texts by their places below `/proc`.
    #[serde(default)]
    pub proc: BTreeMap<String, String>,
    /// Names in `/dev`.
    #[serde(default)]
    pub dev: Vec<String>,
}

fn debian() -> Vec<String> {
    vec!["debian".to_owned()]
}

fn apt() -> Vec<String> {
    vec!["apt".to_owned()]
}

fn newest_toolkit() -> String {
    "12.8".to_owned()
}

/// All cases by the names of their files.
pub fn cases() -> BTreeMap<String, Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/incidents/cases");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let case = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, case)
    };
    files.map(read).collect()
}
