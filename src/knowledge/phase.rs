//! A phase of a project: the purpose of an image, and what it needs, wants, allows and forbids.

use serde::Deserialize;

use super::api::CuptiApi;
use super::catalog::ReplaceKey;
use super::mistake::{TextMistake, unknown_name};
use super::tables::KnowledgeTables;
use super::yaml_text::YamlText;

/// The phases that rules define severities for.
pub const SEVERITY_PHASES: [&str; 3] = ["inference", "training", "profiling"];

/// A purpose of images (`profiles/phases/<name>.yaml`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// The stem of its file.
    pub name: String,
    /// A one-line summary.
    pub summary: String,
    /// The phase whose severities apply to it.
    pub like: String,
    /// Its position in a project's life, lowest first. It becomes a target of the Dockerfile for all phases, or none
    /// without a position.
    pub stage: Option<u32>,
    /// The APIs of CUPTI, by ids in `profiles/cupti/apis.yaml`.
    pub apis: PhaseRequirements,
    /// The tools that use the APIs, by ids in `profiles/profilers`. Each one in the image must get the APIs that it
    /// uses. Without any, it suffices that some process gets them.
    pub serves: Vec<String>,
    /// The profiling tools, by ids in `profiles/profilers`.
    pub profilers: PhaseRequirements,
    /// The file kinds in `profiles/cupti/dead-weight.yaml`.
    pub dead_weight: DeadWeightPolicy,
}

/// The requirements of a phase for APIs or tools.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseRequirements {
    /// Without these the image does not serve the phase.
    #[serde(default)]
    pub needs: Vec<IdChoice>,
    /// Without these a feature is missing.
    #[serde(default)]
    pub wants: Vec<IdChoice>,
    /// Their files stay, but they may be missing.
    #[serde(default)]
    pub allows: Vec<String>,
    /// These must not be in the image.
    #[serde(default)]
    pub forbids: Vec<String>,
}

/// One id, or several alternatives of which the first available one counts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
// A nested list: `needs: [activity, [range-profiling, profiling]]`.
#[serde(untagged)]
pub enum IdChoice {
    /// A single id.
    One(String),
    /// Alternatives, most preferred first.
    Any(Vec<String>),
}

/// The policy of a phase for files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadWeightPolicy {
    /// Kinds that always stay.
    #[serde(default)]
    pub allows: Vec<String>,
    /// Kinds that are dead weight unless needed; includes those in `removes`.
    #[serde(default)]
    pub forbids: Vec<String>,
    /// Kinds whose removable files a Dockerfile for the phase removes even without `--drop`.
    #[serde(default)]
    pub removes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PhaseSource {
    summary: String,
    #[serde(default)]
    like: Option<String>,
    #[serde(default)]
    stage: Option<u32>,
    #[serde(default)]
    apis: PhaseRequirements,
    #[serde(default)]
    serves: Vec<String>,
    #[serde(default)]
    profilers: PhaseRequirements,
    #[serde(default)]
    dead_weight: DeadWeightPolicy,
    /// Read by the catalog.
    #[serde(default, rename = "replace")]
    _replace: ReplaceKey,
}

impl IdChoice {
    /// The ids, in order.
    pub fn ids(&self) -> &[String] {
        match self {
            Self::One(id) => std::slice::from_ref(id),
            Self::Any(ids) => ids,
        }
    }
}

impl PhaseRequirements {
    /// The ids that the phase wants or allows in the image.
    pub fn accepted_ids(&self) -> impl Iterator<Item = &str> {
        let wished = self.needs.iter().chain(&self.wants).flat_map(IdChoice::ids);
        wished.chain(&self.allows).map(String::as_str)
    }
}

impl Phase {
    /// The phase without `--drop`.
    #[must_use]
    pub fn without_drop(&self) -> Self {
        let mut phase = self.clone();
        phase.dead_weight.forbids.clone_from(&self.dead_weight.removes);
        phase
    }

    /// The APIs that it needs or wants, each with its alternatives.
    pub fn wished_apis<'t>(&self, tables: &'t KnowledgeTables) -> impl Iterator<Item = Vec<&'t CuptiApi>> {
        let wishes = self.apis.needs.iter().chain(&self.apis.wants);
        wishes.map(move |wish| wish.ids().iter().filter_map(|id| tables.find_api(id)).collect())
    }

    /// Reads the phase `name` from its file. `profilers` are the known tool ids.
    ///
    /// Errors: The first mistake in the file, such as an unknown key or id.
    pub fn read(
        name: &str,
        text: YamlText<'_>,
        profilers: &[&str],
        tables: &KnowledgeTables,
    ) -> Result<Self, TextMistake> {
        let source: PhaseSource = text.read()?;
        check_ids(text, &source, profilers, tables)?;
        // Rules define severities only for these three, so every phase must be like one of them.
        let like = source.like.as_deref().unwrap_or(name);
        if !SEVERITY_PHASES.contains(&like) {
            let what = match source.like {
                Some(_) => unknown_name("phase", like, &SEVERITY_PHASES),
                None => format!(
                    "the key \"like\" is missing: the phase whose severities count; there is {}",
                    SEVERITY_PHASES.join(", ")
                ),
            };
            return Err(text.mistake(&["like"], what));
        }
        let mut phase = Self {
            name: name.to_owned(),
            like: like.to_owned(),
            summary: source.summary,
            stage: source.stage,
            apis: source.apis,
            serves: source.serves,
            profilers: source.profilers,
            dead_weight: source.dead_weight,
        };
        let weight = &mut phase.dead_weight;
        weight.forbids.extend(weight.removes.iter().cloned());
        Ok(phase)
    }
}

fn check_ids(
    text: YamlText<'_>,
    source: &PhaseSource,
    profilers: &[&str],
    tables: &KnowledgeTables,
) -> Result<(), TextMistake> {
    let apis: Vec<&str> = tables.apis.iter().map(|api| &*api.id).collect();
    let kinds: Vec<&str> = tables.dead_weight.kinds.iter().map(|kind| &*kind.id).collect();
    check_wishes(text, "apis", &source.apis, ("API", &apis))?;
    text.check_names(&["serves"], &source.serves, "profiler", profilers)?;
    check_wishes(text, "profilers", &source.profilers, ("profiler", profilers))?;
    let DeadWeightPolicy {
        allows,
        forbids,
        removes,
    } = &source.dead_weight;
    for (key, ids) in [("allows", allows), ("forbids", forbids), ("removes", removes)] {
        text.check_names(&["dead_weight", key], ids, "kind of dead weight", &kinds)?;
    }
    Ok(())
}

fn check_wishes(
    text: YamlText<'_>,
    part: &str,
    wishes: &PhaseRequirements,
    (kind, known): (&str, &[&str]),
) -> Result<(), TextMistake> {
    for (key, list) in [("needs", &wishes.needs), ("wants", &wishes.wants)] {
        for (number, wish) in list.iter().enumerate() {
            text.check_names(&[part, key, &number.to_string()], wish.ids(), kind, known)?;
        }
    }
    for (key, list) in [("allows", &wishes.allows), ("forbids", &wishes.forbids)] {
        text.check_names(&[part, key], list, kind, known)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{IdChoice, Phase};
    use crate::knowledge::Knowledge;
    use crate::knowledge::yaml_text::YamlText;

    fn read(text: &str) -> Result<Phase, String> {
        let tables = Knowledge::built_in().tables;
        let read = Phase::read("nightly", YamlText::of(text), &["nsight-systems"], tables);
        read.map_err(|mistake| mistake.to_string())
    }

    #[test]
    fn a_users_phase_names_apis_tools_and_the_column_of_severities() {
        let phase = read(
            "summary: s\nlike: training\napis: {needs: [activity, [range-profiling, profiling]]}\n\
             profilers: {wants: [nsight-systems]}\ndead_weight: {forbids: [stubs]}\n",
        )
        .unwrap();
        assert_eq!((&*phase.name, &*phase.like), ("nightly", "training"));
        assert_eq!(phase.apis.needs.len(), 2);
        assert_eq!(
            phase.apis.needs.last().map(IdChoice::ids),
            Some(["range-profiling".to_owned(), "profiling".to_owned()].as_slice())
        );
        assert_eq!(phase.profilers.accepted_ids().collect::<Vec<_>>(), ["nsight-systems"]);
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        for (text, said) in [
            (
                "stage: 3",
                "1:1: the key \"like\" is missing: the phase whose severities count",
            ),
            ("like: nightly", "2:7: there is no phase \"nightly\""),
            ("apis: {needs: [activty]}", "2:16: there is no API \"activty\""),
            (
                "apis: {needs: [[profiling, x-rays]]}",
                "2:28: there is no API \"x-rays\"",
            ),
            ("profilers: {allows: [nsight]}", "2:22: there is no profiler \"nsight\""),
            (
                "dead_weight: {forbids: [lead]}",
                "2:25: there is no kind of dead weight \"lead\"",
            ),
            ("salary: 3", "2:1: there is no key \"salary\""),
        ] {
            let mistake = read(&format!("summary: s\n{text}\n")).unwrap_err();
            assert_eq!(mistake.split("; ").next(), Some(said), "{text}");
        }
    }
}
