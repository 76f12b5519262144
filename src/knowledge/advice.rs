//! Advice without an image: where to install CUPTI from, when it is needed, and what to try first.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::api::Certainty;

/// A source of CUPTI (`profiles/cupti/sources.yaml`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstallSource {
    /// The installation method.
    pub id: String,
    /// The repository or index that has it, as shown in reports.
    pub whose: String,
    /// The command. The head of the file explains its placeholders.
    pub command: String,
    /// The files that it installs, and where.
    pub brings: String,
    /// How certain the entry is.
    pub certainty: Certainty,
}

/// Advice that does not depend on the tool (`profiles/advice.yaml`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GeneralAdvice {
    /// When CUPTI is worth adding.
    pub need: Vec<String>,
    /// When CUPTI is not worth adding.
    pub no_need: Vec<String>,
    /// The programs that never run without it.
    pub linked: String,
    /// The steps of analysing a slow run, in order.
    pub order: Vec<String>,
    /// How long to record, and when.
    pub bursts: String,
    /// The tools of a phase, by ids.
    pub tools: BTreeMap<String, Vec<String>>,
}

impl InstallSource {
    /// The source with its placeholders replaced; `None` if one remains.
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
