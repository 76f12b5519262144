//! `cupti-audit.yaml`: what a project wants of every run, beside its build.
//!
//! It fills what the command line and the environment leave open; it is checked whole before an image is read.

pub mod locate;
mod read;

use std::path::PathBuf;

use crate::cli::dockerfile::ViaArg;
use crate::cli::option_values::{FailOnArg, OutputFile, PlatformArg, ReportFormat};
use crate::knowledge::Knowledge;
use crate::knowledge::mistake::{FileMistake, TextMistake, unknown_name};
use crate::knowledge::yaml_text::YamlText;
use image_linkage::loader::CpuLevel;

use crate::judge::rule::suppression::{SUPPRESSION_RULES, Suppression};

/// The name under which it is looked for.
pub const FILE_NAME: &str = "cupti-audit.yaml";

/// A config that says what each key is for.
pub const TEMPLATE: &str = include_str!("template.yaml");

/// What a config says. What it does not say is `None` or empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectConfig {
    pub fail_on: Option<FailOnArg>,
    pub phases: Vec<String>,
    /// The profiling tools that have to work.
    pub tools: Vec<String>,
    pub platform: Option<PlatformArg>,
    pub format: Option<ReportFormat>,
    /// `outputs`, each from the config's folder.
    pub outputs: Vec<OutputFile>,
    pub cpu: Option<CpuLevel>,
    /// By name: the order of a map in YAML means nothing.
    pub environment: Vec<(String, String)>,
    pub insecure_registries: Vec<String>,
    /// `ca-cert`, from the config's folder.
    pub ca_cert: Option<PathBuf>,
    /// The ways that `dockerfile` tries, in this order.
    pub via: Vec<ViaArg>,
    /// `rules`, each from the config's folder.
    pub rules: Vec<PathBuf>,
    /// `profiles`, each from the config's folder.
    pub profiles: Vec<PathBuf>,
    pub suppressions: Vec<Suppression>,
    /// `accept`: assumptions that hold, by their ids.
    pub accepted: Vec<Suppression>,
    /// Whether an answer that rests on an assumption counts as open.
    pub strict: bool,
}

/// A config with the places of what it says.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    pub config: ProjectConfig,
    file: String,
    text: String,
}

impl ConfigFile {
    /// Checks the names that only the rules and profiles know.
    ///
    /// Errors: The first that is not known.
    pub fn check_names(&self, knowledge: &Knowledge) -> Result<(), FileMistake> {
        // Apart from reading the text: the config itself says where rules and phases are read from.
        let checked = self.check_text(YamlText(&self.text), knowledge);
        checked.map_err(|mistake| mistake.in_file(&self.file))
    }

    fn check_text(&self, text: YamlText<'_>, knowledge: &Knowledge) -> Result<(), TextMistake> {
        let ProjectConfig { phases, tools, .. } = &self.config;
        text.check_names(&["phases"], phases, "phase", &knowledge.phase_names())?;
        let profilers = &knowledge.profilers;
        let is_strange = |tool: &String| !profilers.iter().any(|known| known.answers_to(tool));
        if let Some((number, tool)) = tools.iter().enumerate().find(|(_, tool)| is_strange(tool)) {
            let known: Vec<&str> = profilers.iter().map(|known| &*known.id).collect();
            return Err(text.mistake(&["tools", &number.to_string()], unknown_name("tool", tool, &known)));
        }
        let rules = knowledge.rule_ids();
        for (number, suppression) in self.config.suppressions.iter().enumerate() {
            let rule = suppression.rule.as_str();
            let what = match () {
                // Such a suppression could silence the finding that is about it.
                () if SUPPRESSION_RULES.contains(&rule) => {
                    "it is about suppressions: mend or remove the one it is about".to_owned()
                }
                () if !rules.contains(&rule) => unknown_name("rule", rule, &rules),
                () => continue,
            };
            return Err(text.mistake(&["suppress", &number.to_string(), "rule"], what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
