//! What is advised without an image: where CUPTI is had from, when it is needed, and what to do first.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::api::Certainty;
use super::mistake::{TextMistake, unknown_name};
use super::yaml_text::YamlText;

/// A place that CUPTI is had from (`profiles/cupti/sources.yaml`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstallSource {
    /// The way of installing.
    pub id: String,
    /// The repository or index that has it, in the words of reports.
    pub whose: String,
    /// The major version of CUDA that it has; all when left out.
    #[serde(default)]
    pub major: Option<u32>,
    /// The only version of CUDA that it has.
    #[serde(default)]
    pub cuda: Option<String>,
    /// The command, with `{major}`, `{minor}`, `{version}` and `{soname}` to fill in.
    pub command: String,
    /// What it brings, and where to.
    pub brings: String,
    /// How sure it is.
    pub certainty: Certainty,
}

/// What holds whatever the tool is (`profiles/advice.yaml`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GeneralAdvice {
    /// When CUPTI is worth adding.
    pub need: Vec<String>,
    /// When it is not.
    pub no_need: Vec<String>,
    /// Who cannot run without it, whatever is asked for.
    pub linked: String,
    /// The order of looking into a slow run.
    pub order: Vec<String>,
    /// How long to record, and when.
    pub bursts: String,
    /// The tools of a phase, by ids.
    pub tools: BTreeMap<String, Vec<String>>,
}

impl GeneralAdvice {
    /// Checks what its types cannot see.
    ///
    /// Errors: The first phase or tool that there is not.
    pub(super) fn check(&self, text: YamlText<'_>, phases: &[&str], tools: &[&str]) -> Result<(), TextMistake> {
        for (phase, ids) in &self.tools {
            if !phases.contains(&phase.as_str()) {
                let what = unknown_name("phase", phase, phases);
                return Err(text.mistake_in_key(&["tools", phase], what));
            }
            text.check_names(&["tools", phase], ids, "profiler", tools)?;
        }
        Ok(())
    }

    /// Adds what another file says; a phase that is in both gets the tools of both.
    pub(super) fn add(&mut self, more: Self) {
        self.need.extend(more.need);
        self.no_need.extend(more.no_need);
        self.order.extend(more.order);
        // One text answers one question: a user's stands in place of the program's, while lists grow.
        for (own, more) in [(&mut self.bursts, more.bursts), (&mut self.linked, more.linked)] {
            if !more.is_empty() {
                *own = more;
            }
        }
        for (phase, tools) in more.tools {
            self.tools.entry(phase).or_default().extend(tools);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::knowledge::Knowledge;

    #[test]
    fn every_phase_has_tools_that_are_known() {
        let Knowledge {
            phases,
            profilers,
            tables,
            ..
        } = Knowledge::built_in();
        for phase in phases {
            let tools = &tables.advice.tools[&phase.name];
            let known = |id: &String| profilers.iter().any(|profiler| profiler.id == *id);
            assert!(!tools.is_empty() && tools.iter().all(known), "{}", phase.name);
        }
    }

    #[test]
    fn every_source_has_a_command_without_other_gaps_than_the_known() {
        for source in &Knowledge::built_in().tables.sources {
            let filled = ["{major}", "{minor}", "{version}", "{soname}"]
                .iter()
                .fold(source.command.clone(), |text, gap| text.replace(gap, ""));
            assert!(!filled.contains(['{', '}']), "{}", source.command);
        }
    }
}
