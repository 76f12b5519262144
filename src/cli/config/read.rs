//! From the text of a config to what it says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chrono::NaiveDate;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::locate::is_within;
use super::{ConfigFile, ProjectConfig};
use crate::cli::option_values::{OutputFile, PlatformArg};
use crate::judge::rule::suppression::{GlobPattern, Suppression, SuppressionTarget};
use crate::knowledge::mistake::{FileMistake, TextMistake, unknown_name};
use crate::knowledge::yaml_text::{YamlText, position};
use image_linkage::escape;
use image_linkage::loader::CpuLevel;

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
    rule: Spanned<String>,
    image: Option<String>,
    path: Option<String>,
    reason: String,
    until: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct AcceptSource {
    id: Spanned<String>,
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
    /// Errors: The first mistake in it: a key that a config has not, a value that no flag would take, a path that leads
    /// out.
    pub fn read(file: &str, (folder, within): (&Path, Option<&Path>), text: &str) -> Result<Self, FileMistake> {
        let yaml = YamlText(text);
        let checker = ConfigChecker {
            text: yaml,
            folder,
            within,
        };
        let config = yaml.read().and_then(|source| checker.config(source));
        Ok(Self {
            config: config.map_err(|mistake| mistake.in_file(file))?,
            file: file.to_owned(),
            text: text.to_owned(),
        })
    }
}

/// What the values of a config depend on.
struct ConfigChecker<'a> {
    text: YamlText<'a>,
    folder: &'a Path,
    within: Option<&'a Path>,
}

impl ConfigChecker<'_> {
    fn config(&self, source: ConfigSource) -> Result<ProjectConfig, TextMistake> {
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
        self.check_trust(&source)?;
        let suppressions = source.suppress.into_iter().enumerate();
        let accepted = source.accept.into_iter().enumerate();
        Ok(ProjectConfig {
            fail_on: self.one(&["fail-on"], source.fail_on.as_deref(), word)?,
            phases: source.phases,
            tools: source.tools,
            platform: self.one(&["platform"], source.platform.as_deref(), PlatformArg::parse)?,
            format: self.one(&["format"], source.format.as_deref(), word)?,
            outputs: self.each("outputs", &source.outputs, output)?,
            cpu: self.one(&["cpu"], source.cpu.as_deref(), CpuLevel::parse)?,
            environment: source.env.into_iter().collect(),
            insecure_registries: source.insecure_registries,
            ca_cert: source.ca_cert.map(|path| folder.join(path)),
            via: self.each("via", &source.via, word)?,
            rules: self.each("rules", &source.rules, place)?,
            profiles: self.each("profiles", &source.profiles, place)?,
            suppressions: suppressions
                .map(|(number, source)| self.suppression(SuppressionTarget::Finding, number, source))
                .collect::<Result<_, _>>()?,
            accepted: accepted
                .map(|(number, source)| self.suppression(SuppressionTarget::Assumption, number, source.into()))
                .collect::<Result<_, _>>()?,
            strict: source.strict,
        })
    }

    /// Passwords go to whom these keys let be believed.
    fn check_trust(&self, source: &ConfigSource) -> Result<(), TextMistake> {
        let given = [
            ("insecure-registries", !source.insecure_registries.is_empty()),
            ("ca-cert", source.ca_cert.is_some()),
        ];
        let mut given = given.iter().filter(|_| self.within.is_some());
        given.find(|(_, is_given)| *is_given).map_or(Ok(()), |(key, _)| {
            let what = format!("{key} is taken of the command line, or of a config that --config names");
            Err(self.text.mistake(&[key], what))
        })
    }

    fn suppression(
        &self,
        target: SuppressionTarget,
        number: usize,
        source: SuppressionSource,
    ) -> Result<Suppression, TextMistake> {
        let list = match target {
            SuppressionTarget::Finding => "suppress",
            SuppressionTarget::Assumption => "accept",
        };
        let number = number.to_string();
        let at = |key| [list, &number, key];
        let reason = source.reason.trim();
        // Without a reason nobody would ever dare to take it out again.
        if reason.is_empty() {
            return Err(self.text.mistake(&at("reason"), "a suppression says why".to_owned()));
        }
        Ok(Suppression {
            target,
            // Findings on the suppression itself name the line.
            line: position(source.rule.referenced).line,
            rule: source.rule.value,
            image: self.one(&at("image"), source.image.as_deref(), GlobPattern::new)?,
            path: self.one(&at("path"), source.path.as_deref(), GlobPattern::new)?,
            reason: reason.to_owned(),
            until: self.one(&at("until"), source.until.as_deref(), date)?,
        })
    }

    fn one<T>(
        &self,
        path: &[&str],
        text: Option<&str>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, TextMistake> {
        let parsed = text.map(parse).transpose();
        parsed.map_err(|what| self.text.mistake(path, what))
    }

    fn each<T>(
        &self,
        key: &str,
        texts: &[String],
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, TextMistake> {
        let parsed = texts.iter().enumerate().map(|(number, text)| {
            let path = [key, &*number.to_string()];
            parse(text).map_err(|what| self.text.mistake(&path, what))
        });
        parsed.collect()
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
