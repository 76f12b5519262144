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
    /// The command, with gaps as the head of the file explains them.
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

impl InstallSource {
    /// The same with the gaps filled in; `None` where a gap is left.
    pub fn filled(&self, gaps: &[(&str, &str)]) -> Option<Self> {
        let fill = |text: &str| {
            gaps.iter()
                .fold(text.to_owned(), |text, (gap, value)| text.replace(gap, value))
        };
        let source = Self {
            whose: fill(&self.whose),
            command: fill(&self.command),
            brings: fill(&self.brings),
            ..self.clone()
        };
        (!source.command.contains('{')).then_some(source)
    }
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
}
