//! An incident: how to make the image, how it fails, and the expected findings.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

/// A file in `tests/incidents/cases`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The issue or forum thread: project and number. `None` if users met this kind of problem, but we know no thread.
    pub link: Option<String>,
    /// The section of the page, also for the counts.
    pub class: String,
    /// The heading of the entry: what a user would search for.
    pub title: String,
    /// The cause, in our own words.
    pub story: String,
    /// The conditions in the image, such as its package manager or a missing tool, for the counts of fixes.
    #[serde(default = "apt")]
    pub situations: Vec<String>,
    /// The layers of the kit below the image's own layers.
    #[serde(default = "debian")]
    pub from: Vec<String>,
    /// The image's own layers. Each is a shell script that root runs in the image, after `kit/steps.sh`.
    #[serde(default)]
    pub image: Vec<String>,
    /// The environment in the image's config.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The numeric user in the image's config.
    #[serde(default)]
    pub user: u32,
    /// The command in the image's config.
    #[serde(default)]
    pub command: Vec<String>,
    /// The phase that the image is for.
    pub phase: String,
    /// A profiling tool that must work.
    pub tool: Option<String>,
    /// The toolkit of the kit from which `slim` takes CUPTI.
    #[serde(default = "newest_toolkit")]
    pub cupti_from: String,
    /// The failing command, split into words as by a shell. Empty for a host incident.
    #[serde(default)]
    pub probe: String,
    /// The Dockerfile that `check` reads instead of an image.
    pub build_file: Option<BuildFile>,
    /// The kernel and driver files in the container. They replace the symptom.
    pub host: Option<Host>,
    /// The same after each fix of the host.
    #[serde(default)]
    pub fixed_hosts: Vec<Host>,
    /// A part of the probe's output.
    pub symptom: String,
    /// Users do not see the symptom, because it is text of the probe. The page then omits it.
    #[serde(default)]
    pub symptom_is_of_probe: bool,
    /// The rule of the first error.
    pub rule: String,
    /// Dockerfile instructions that carry out a fix, for fixes printed only as prose.
    #[serde(default)]
    pub by_hand: Vec<String>,
    /// A part of the expected commands, if other commands would also fix the problem but are not appropriate.
    pub cure: Option<String>,
    /// No printed command can fix it. The text says what does, for the page.
    pub not_cured: Option<String>,
    /// The printed commands should fix it but do not. The text says what does, for the page. The test fails once they do.
    pub known_wrong: Option<String>,
}

/// A Dockerfile, before and after the fix.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildFile {
    /// The text before the fix.
    pub text: String,
    /// The text after the fix.
    pub fixed: String,
}

/// Files of the kernel and the driver in a container.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Contents by path below `/proc`.
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

/// All incidents by file name.
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
