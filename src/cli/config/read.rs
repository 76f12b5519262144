//! From the text of a config to what it says, with all mistakes at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chrono::NaiveDate;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde::Deserialize;

use super::locate::is_within;
use super::{ConfigFile, ProjectConfig};
use crate::cli::option_values::{OutputFile, PlatformArg};
use crate::judge::rule::suppression::{GlobPattern, Suppression, SuppressionTarget};
use crate::knowledge::FileMistake;
use image_linkage::escape;
use image_linkage::loader::CpuLevel;
use yaml_mistakes::{YamlDocument, YamlMistake, unknown_name};

/// A config as written.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ConfigSource {
    // Texts, to be read by the parsers of the flags: a flag and its key take the same words.
    fail_on: Option<String>,
    #[serde(default)]
    phases: Vec<String>,
    #[serde(default)]
    tools: Vec<String>,
    platform: Option<String>,
    format: Option<String>,
    #[serde(default)]
    outputs: Vec<String>,
    cpu: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    insecure_registries: Vec<String>,
    ca_cert: Option<PathBuf>,
    #[serde(default)]
    via: Vec<String>,
    #[serde(default)]
    rules: Vec<String>,
    #[serde(default)]
    profiles: Vec<String>,
    #[serde(default)]
    suppress: Vec<SuppressionSource>,
    #[serde(default)]
    accept: Vec<AcceptSource>,
    #[serde(default)]
    strict: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct SuppressionSource {
    rule: String,
    image: Option<String>,
    path: Option<String>,
    reason: String,
    until: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct AcceptSource {
    id: String,
    image: Option<String>,
    reason: String,
    until: Option<String>,
}

impl From<AcceptSource> for SuppressionSource {
    /// An accepted assumption is kept as a suppression is; it has no path.
    fn from(source: AcceptSource) -> Self {
        Self {
            rule: source.id,
            image: source.image,
            path: None,
            reason: source.reason,
            until: source.until,
        }
    }
}

impl ConfigFile {
    /// Reads the `text` of `file`; the paths in it are relative to `folder`. One that nobody named writes and reads what
    /// lies `within` its repository alone.
    ///
    /// Errors: All mistakes in it: keys that a config has not, values that no flag would take, paths that lead out.
    pub fn read(file: &str, places: (&Path, Option<&Path>), text: &str) -> Result<Self, Vec<FileMistake>> {
        let (folder, within) = places;
        let read = |document: &YamlDocument| {
            document.read_and(|source: ConfigSource| {
                let mut checked = ConfigChecker {
                    document,
                    folder,
                    within,
                    mistakes: Vec::new(),
                };
                let config = checked.config(source);
                (config, checked.mistakes)
            })
        };
        let document = YamlDocument::parse(text).map_err(|mistake| FileMistake::in_file(file, vec![mistake]))?;
        let config = read(&document).map_err(|mistakes| FileMistake::in_file(file, mistakes))?;
        Ok(Self {
            config,
            file: file.to_owned(),
            document,
        })
    }
}

/// Collects what is wrong with values.
struct ConfigChecker<'a> {
    document: &'a YamlDocument,
    folder: &'a Path,
    within: Option<&'a Path>,
    mistakes: Vec<YamlMistake>,
}

impl ConfigChecker<'_> {
    fn config(&mut self, source: ConfigSource) -> ProjectConfig {
        let (folder, within) = (self.folder, self.within);
        // From the config's folder, so that it means the same from everywhere in the repository.
        let place = |path: &str| -> Result<PathBuf, String> {
            let place = folder.join(path);
            match within {
                Some(within) if !is_within(&place, within) => Err(format!(
                    "{} leads out of the repository, which a config may that --config names",
                    escape::escape_bytes(path.as_bytes())
                )),
                _ => Ok(place),
            }
        };
        let output = |text: &str| -> Result<OutputFile, String> {
            let output = OutputFile::parse(text)?;
            let file = match output.file.to_str() {
                // Standard output, not a file of that name in the config's folder.
                Some("-") => output.file,
                path => place(path.unwrap_or_default())?,
            };
            Ok(OutputFile { file, ..output })
        };
        let outputs = self.each("outputs", &source.outputs, output);
        let believed = [
            ("insecure-registries", !source.insecure_registries.is_empty()),
            ("ca-cert", source.ca_cert.is_some()),
        ];
        for (key, _) in believed
            .into_iter()
            .filter(|(_, is_given)| *is_given && within.is_some())
        {
            // Passwords go to whom it lets be believed.
            let what = format!("{key} is taken of the command line, or of a config that --config names");
            self.mistakes.push(self.document.mistake(&[key], what));
        }
        let suppressions = source.suppress.into_iter().enumerate();
        let accepted = source.accept.into_iter().enumerate();
        ProjectConfig {
            fail_on: self.one(&["fail-on"], source.fail_on.as_deref(), word),
            phases: source.phases,
            tools: source.tools,
            platform: self.one(&["platform"], source.platform.as_deref(), PlatformArg::parse),
            format: self.one(&["format"], source.format.as_deref(), word),
            outputs,
            cpu: self.one(&["cpu"], source.cpu.as_deref(), CpuLevel::parse),
            environment: source.env.into_iter().collect(),
            insecure_registries: source.insecure_registries,
            ca_cert: source.ca_cert.map(|path| folder.join(path)),
            via: self.each("via", &source.via, word),
            rules: self.each("rules", &source.rules, place),
            profiles: self.each("profiles", &source.profiles, place),
            suppressions: suppressions
                .filter_map(|(number, source)| self.suppression(SuppressionTarget::Finding, number, source))
                .collect(),
            accepted: accepted
                .filter_map(|(number, source)| self.suppression(SuppressionTarget::Assumption, number, source.into()))
                .collect(),
            strict: source.strict,
        }
    }

    fn suppression(
        &mut self,
        target: SuppressionTarget,
        number: usize,
        source: SuppressionSource,
    ) -> Option<Suppression> {
        let (list, named) = match target {
            SuppressionTarget::Finding => ("suppress", "rule"),
            SuppressionTarget::Assumption => ("accept", "id"),
        };
        let number = number.to_string();
        let at = |key| [list, &number, key];
        let image = self.one(&at("image"), source.image.as_deref(), GlobPattern::new);
        let path = self.one(&at("path"), source.path.as_deref(), GlobPattern::new);
        let until = self.one(&at("until"), source.until.as_deref(), date);
        let reason = self.one(&at("reason"), Some(&*source.reason), reason)?;
        // Findings on the suppression itself name the line.
        let place = self.document.mistake(&at(named), String::new()).place;
        Some(Suppression {
            target,
            rule: source.rule,
            image,
            path,
            reason,
            until,
            line: place.line,
        })
    }

    fn one<T>(&mut self, path: &[&str], text: Option<&str>, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        match parse(text?) {
            Ok(value) => Some(value),
            Err(what) => {
                self.mistakes.push(self.document.mistake(path, what));
                None
            }
        }
    }

    fn each<T>(&mut self, key: &str, texts: &[String], parse: impl Fn(&str) -> Result<T, String>) -> Vec<T> {
        let numbered = texts.iter().enumerate();
        numbered
            .filter_map(|(at, text)| self.one(&[key, &at.to_string()], Some(text), &parse))
            .collect()
    }
}

/// A word that a flag takes, too.
fn word<T: ValueEnum>(text: &str) -> Result<T, String> {
    // Upper and lower case differ, as they do for the flag.
    T::from_str(text, false).map_err(|_unknown| {
        let values = T::value_variants().iter();
        let values: Vec<_> = values.filter_map(ValueEnum::to_possible_value).collect();
        let known: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
        unknown_name("value", text, &known)
    })
}

fn date(text: &str) -> Result<NaiveDate, String> {
    // chrono takes `2027-6-30` and `+2027-06-30` as well; a file that sorts and greps holds one form.
    let date = text.parse().ok().filter(|date: &NaiveDate| date.to_string() == text);
    date.ok_or_else(|| "expected a date, such as 2027-06-30".to_owned())
}

fn reason(text: &str) -> Result<String, String> {
    match text.trim() {
        // Without a reason nobody would ever dare to take it out again.
        "" => Err("a suppression says why".to_owned()),
        reason => Ok(reason.to_owned()),
    }
}
