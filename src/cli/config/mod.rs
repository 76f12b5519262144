//! `cupti-audit.yaml`: the settings of a project for every run.
//!
//! It fills options that the command line and the environment leave open. It is validated before an image is read.

pub mod load;
pub mod locate;

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use chrono::NaiveDate;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use super::option_values::{FAIL_ON, OutputFile, PlatformArg, VIA, find_named};
use crate::judge::outcome::FailOn;
use crate::judge::rule::suppression::{GlobPattern, SUPPRESSION_RULES, Suppression, SuppressionTarget};
use crate::knowledge::Knowledge;
use crate::knowledge::mistake::{FileMistake, TextMistake, unknown_name};
use crate::knowledge::yaml_text::{YamlText, position};
use crate::make::choose::request::MethodKind;
use crate::report::{FINDING_FORMATS, ReportFormat};
use image_linkage::escape;
use image_linkage::loader::CpuLevel;

/// The file name that is searched for.
pub const FILE_NAME: &str = "cupti-audit.yaml";

/// A config that explains each key.
pub const TEMPLATE: &str = include_str!("template.yaml");

/// The values of a config. Missing values are `None` or empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ProjectConfig {
    #[serde(deserialize_with = "one")]
    pub fail_on: Option<FailOn>,
    #[serde(deserialize_with = "names")]
    pub phases: Vec<String>,
    /// The profiling tools that must work.
    #[serde(deserialize_with = "names")]
    pub tools: Vec<String>,
    #[serde(deserialize_with = "one")]
    pub platform: Option<PlatformArg>,
    #[serde(deserialize_with = "one")]
    pub format: Option<ReportFormat>,
    /// Paths relative to the config's folder.
    #[serde(deserialize_with = "each")]
    pub outputs: Vec<OutputFile>,
    #[serde(deserialize_with = "one")]
    pub cpu: Option<CpuLevel>,
    /// Sorted by name, because a YAML map has no order.
    pub env: BTreeMap<String, String>,
    pub insecure_registries: Vec<String>,
    /// A path relative to the config's folder.
    pub ca_cert: Option<PathBuf>,
    /// The install methods that `dockerfile` tries, in this order.
    #[serde(deserialize_with = "each")]
    pub via: Vec<MethodKind>,
    /// Paths relative to the config's folder.
    pub rules: Vec<PathBuf>,
    /// Paths relative to the config's folder.
    pub profiles: Vec<PathBuf>,
    #[serde(deserialize_with = "suppressions")]
    pub suppress: Vec<Suppression>,
    /// Accepted assumptions by id.
    #[serde(deserialize_with = "accepted")]
    pub accept: Vec<Suppression>,
    /// Whether a result that depends on an assumption counts as open.
    pub strict: bool,
}

/// A text value that is parsed like a flag's.
struct FlagText<T>(T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for FlagText<T> {
    fn deserialize<D: Deserializer<'de>>(yaml: D) -> Result<Self, D::Error> {
        let text = String::deserialize(yaml)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

fn one<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(yaml: D) -> Result<Option<T>, D::Error> {
    let read = Option::<FlagText<T>>::deserialize(yaml)?;
    Ok(read.map(|FlagText(value)| value))
}

/// Reads a list, or a comma-separated text like the flag's.
fn names<'de, D: Deserializer<'de>>(yaml: D) -> Result<Vec<String>, D::Error> {
    yaml.deserialize_any(NameList)
}

struct NameList;

impl<'de> Visitor<'de> for NameList {
    type Value = Vec<String>;

    fn expecting(&self, words: &mut fmt::Formatter<'_>) -> fmt::Result {
        words.write_str("a list")
    }

    fn visit_str<E>(self, text: &str) -> Result<Vec<String>, E> {
        Ok(text.split(',').map(|name| name.trim().to_owned()).collect())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<String>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list))
    }
}

fn each<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(yaml: D) -> Result<Vec<T>, D::Error> {
    let read = Vec::<FlagText<T>>::deserialize(yaml)?;
    Ok(read.into_iter().map(|FlagText(value)| value).collect())
}

impl FromStr for FailOn {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        find_named(&FAIL_ON, name)
    }
}

impl FromStr for ReportFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        find_named(&FINDING_FORMATS, name)
    }
}

impl FromStr for MethodKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        find_named(&VIA, name)
    }
}

/// An entry of `suppress`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuppressEntry {
    rule: Spanned<String>,
    #[serde(default, deserialize_with = "one")]
    image: Option<GlobPattern>,
    #[serde(default, deserialize_with = "one")]
    path: Option<GlobPattern>,
    reason: FlagText<EntryReason>,
    #[serde(default, deserialize_with = "one")]
    until: Option<LastDay>,
}

/// An entry of `accept`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceptEntry {
    id: Spanned<String>,
    #[serde(default, deserialize_with = "one")]
    image: Option<GlobPattern>,
    reason: FlagText<EntryReason>,
    #[serde(default, deserialize_with = "one")]
    until: Option<LastDay>,
}

struct EntryReason(String);

impl FromStr for EntryReason {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            // Without a reason, nobody would dare to remove the entry later.
            "" => Err("a suppression says why"),
            reason => Ok(Self(reason.to_owned())),
        }
    }
}

struct LastDay(NaiveDate);

impl FromStr for LastDay {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // chrono also accepts `2027-6-30` and `+2027-06-30`; one form allows sorting and grep.
        let date = text.parse().ok().filter(|date: &NaiveDate| date.to_string() == text);
        date.map(Self).ok_or("expected a date, such as 2027-06-30")
    }
}

impl SuppressEntry {
    fn suppression(self, target: SuppressionTarget) -> Suppression {
        Suppression {
            target,
            // Findings about the suppression refer to the line.
            line: position(self.rule.referenced).line,
            rule: self.rule.value,
            image: self.image,
            path: self.path,
            reason: self.reason.0.0,
            until: self.until.map(|LastDay(day)| day),
        }
    }
}

impl From<AcceptEntry> for SuppressEntry {
    /// An accepted assumption is stored as a suppression without a path.
    fn from(
        AcceptEntry {
            id,
            image,
            reason,
            until,
        }: AcceptEntry,
    ) -> Self {
        let (rule, path) = (id, None);
        Self {
            rule,
            image,
            path,
            reason,
            until,
        }
    }
}

fn suppressions<'de, D: Deserializer<'de>>(yaml: D) -> Result<Vec<Suppression>, D::Error> {
    let entries = Vec::<SuppressEntry>::deserialize(yaml)?.into_iter();
    Ok(entries
        .map(|entry| entry.suppression(SuppressionTarget::Finding))
        .collect())
}

fn accepted<'de, D: Deserializer<'de>>(yaml: D) -> Result<Vec<Suppression>, D::Error> {
    let entries = Vec::<AcceptEntry>::deserialize(yaml)?
        .into_iter()
        .map(SuppressEntry::from);
    Ok(entries
        .map(|entry| entry.suppression(SuppressionTarget::Assumption))
        .collect())
}

impl ProjectConfig {
    /// Makes the paths relative to the config's `folder`, so that they work from everywhere in the repository. A config
    /// that was found may only use paths `within` its repository.
    fn place(&mut self, text: YamlText<'_>, (folder, within): (&Path, Option<&Path>)) -> Result<(), TextMistake> {
        if within.is_some() {
            self.check_trust(text)?;
        }
        let outputs = self.outputs.iter_mut().map(|output| &mut output.file);
        for (key, paths) in [
            ("outputs", outputs.collect::<Vec<_>>()),
            ("rules", self.rules.iter_mut().collect()),
            ("profiles", self.profiles.iter_mut().collect()),
        ] {
            for (number, path) in paths.into_iter().enumerate() {
                // Standard output, not a file with that name in the config's folder.
                if key == "outputs" && path.as_os_str() == "-" {
                    continue;
                }
                let place = folder.join(&path);
                if within.is_some_and(|within| !locate::is_within(&place, within)) {
                    let shown = escape::escape_path(path);
                    let what = format!("{shown} leads out of the repository, which a config may that --config names");
                    return Err(text.mistake(&[key, &number.to_string()], what));
                }
                *path = place;
            }
        }
        self.ca_cert = self.ca_cert.take().map(|path| folder.join(path));
        Ok(())
    }

    /// Rejects keys that choose the trusted servers, because passwords are sent to them.
    fn check_trust(&self, text: YamlText<'_>) -> Result<(), TextMistake> {
        let key = match self {
            Self {
                insecure_registries, ..
            } if !insecure_registries.is_empty() => "insecure-registries",
            Self { ca_cert: Some(_), .. } => "ca-cert",
            _ => return Ok(()),
        };
        let what = format!("{key} is taken of the command line, or of a config that --config names");
        Err(text.mistake(&[key], what))
    }

    fn check_names(&self, text: YamlText<'_>, knowledge: &Knowledge) -> Result<(), TextMistake> {
        text.check_names(&["phases"], &self.phases, "phase", &knowledge.phase_names())?;
        let profilers = &knowledge.profilers;
        let mut tools = self.tools.iter().enumerate();
        if let Some((number, tool)) = tools.find(|(_, tool)| !profilers.iter().any(|known| known.answers_to(tool))) {
            let known: Vec<&str> = profilers.iter().map(|known| &*known.id).collect();
            return Err(text.mistake(&["tools", &number.to_string()], unknown_name("tool", tool, &known)));
        }
        let rules = knowledge.rule_ids();
        for (number, suppression) in self.suppress.iter().enumerate() {
            let rule = suppression.rule.as_str();
            // Such a suppression could silence the finding about itself.
            let what = if SUPPRESSION_RULES.contains(&rule) {
                "it is about suppressions: mend or remove the one it is about".to_owned()
            } else if rules.contains(&rule) {
                continue;
            } else {
                unknown_rule(rule, &rules)
            };
            return Err(text.mistake(&["suppress", &number.to_string(), "rule"], what));
        }
        Ok(())
    }
}

/// The error for an unknown rule with the nearest names; all names would fill the screen.
fn unknown_rule(name: &str, rules: &[&str]) -> String {
    let mut near: Vec<&str> = rules.to_vec();
    near.sort_by(|a, b| strsim::jaro_winkler(name, b).total_cmp(&strsim::jaro_winkler(name, a)));
    near.truncate(3);
    format!(
        "there is no rule \"{}\"; the nearest are {}; cupti-audit rules lists all",
        escape::escape_bytes(name.as_bytes()),
        near.join(", ")
    )
}

/// A config with the source positions of its values; empty if there is none.
#[derive(Debug, Clone, Default)]
pub struct ConfigFile {
    pub config: ProjectConfig,
    file: String,
    text: String,
}

impl ConfigFile {
    /// Reads the `text` of `file`; its paths are relative to `folder`. A config that was found must stay `within` its
    /// repository.
    ///
    /// Errors: The first mistake: an unknown key, an invalid value, or a path that leads outside.
    pub fn read(file: &str, folders: (&Path, Option<&Path>), text: &str) -> Result<Self, FileMistake> {
        let yaml = YamlText::of(text);
        let config = yaml.read().and_then(|mut config: ProjectConfig| {
            config.place(yaml, folders)?;
            Ok(config)
        });
        Ok(Self {
            config: config.map_err(|mistake| mistake.in_file(file))?,
            file: file.to_owned(),
            text: text.to_owned(),
        })
    }

    /// Checks the names against the rules and profiles.
    ///
    /// Errors: The first unknown name.
    pub fn check_names(&self, knowledge: &Knowledge) -> Result<(), FileMistake> {
        // Separate from parsing, because the config itself names the folders of rules and phases.
        let checked = self.config.check_names(YamlText::of(&self.text), knowledge);
        checked.map_err(|mistake| mistake.in_file(&self.file))
    }
}

#[cfg(test)]
mod tests;
