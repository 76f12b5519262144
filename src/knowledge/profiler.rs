//! A profiling tool: its need for CUPTI and other parts, its overhead, and its fallbacks.

use serde::Deserialize;

use super::api::Certainty;
use super::catalog::ReplaceKey;
use super::consumer_profile::ProfileEvidence;
use super::mistake::TextMistake;
use super::names::names;
use super::yaml_text::YamlText;

/// A profiling tool (`profiles/profilers/<id>.yaml`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profiler {
    /// The stem of its file.
    pub id: String,
    /// The content of its file.
    pub profile: ProfilerFile,
}

/// The file of a profiling tool, as written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfilerFile {
    /// The display name.
    pub name: String,
    /// Alternative names that users may enter.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The information that it provides about a run, as the end of a sentence.
    pub gives: String,
    /// The capability that remains without it.
    pub without: String,
    /// Whether it needs CUPTI in the image.
    pub cupti: CuptiNeed,
    /// The CUPTI APIs that it requires (`profiles/cupti/apis.yaml`).
    #[serde(default)]
    pub apis: Vec<String>,
    /// The APIs that only some of its options need.
    #[serde(default)]
    pub optional_apis: Vec<String>,
    /// The program through which it gets CUPTI (`profiles/consumers`); without one it opens CUPTI itself.
    #[serde(default)]
    pub consumer: Option<String>,
    /// Programs that it runs in. If one of them is in the image but cannot start, neither can the tool.
    #[serde(default)]
    pub runs_in: Vec<String>,
    /// The tools whose traces it reads; one is enough.
    #[serde(default)]
    pub traces_of: Vec<String>,
    /// The conditions for it to be applicable; all must hold.
    #[serde(default)]
    pub applies: Vec<ToolCondition>,
    /// Evidence that it is not applicable.
    #[serde(default)]
    pub excludes: Vec<ToolExclusion>,
    /// The conditions on the image in addition to CUPTI; all must hold.
    #[serde(default)]
    pub needs: Vec<ToolCondition>,
    /// The driver capabilities that it needs (`NVIDIA_DRIVER_CAPABILITIES`).
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// The overhead of recording.
    pub overhead: ToolOverhead,
    /// Needs that an image does not show, in words.
    #[serde(default)]
    pub besides: Vec<String>,
    /// The host conditions that affect it (`profiles/cupti/host.yaml`).
    #[serde(default)]
    pub host: Vec<String>,
    /// The fallbacks, best first.
    #[serde(default)]
    pub fallbacks: Vec<String>,
    /// Evidence for its CUPTI need, if its program has none.
    #[serde(default)]
    pub evidence: Option<ProfileEvidence>,
    /// Read by the catalog.
    #[serde(default)]
    pub replace: ReplaceKey,
}

names! {
    /// Whether a tool needs CUPTI in the image.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    pub enum CuptiNeed {
        /// It opens or links the copy in the image.
        InImage = "in-image",
        /// It bundles its own copy.
        BringsItsOwn = "brings-its-own",
        /// It reads the output of another tool.
        ReadsTraces = "reads-traces",
        /// It works without CUPTI, for example by sampling the CPU.
        None = "none",
    }
}

/// A condition; one of the listed items is enough.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCondition {
    /// File names of ELF objects; a final `*` matches any suffix.
    #[serde(default)]
    pub objects: Vec<String>,
    /// Normalized names of Python distributions.
    #[serde(default)]
    pub distributions: Vec<String>,
    /// The name or pattern of an object that is in the same folder as one of `objects`, or in a folder next to it.
    #[serde(default)]
    pub beside: Option<String>,
    /// Program names, searched on `PATH` and then in all folders.
    #[serde(default)]
    pub executables: Vec<String>,
    /// Variables that are set to any value.
    #[serde(default)]
    pub environment: Vec<String>,
    /// Programs that request CUPTI (`profiles/consumers`).
    #[serde(default)]
    pub consumers: Vec<String>,
    /// The message if nothing matches.
    pub otherwise: String,
}

/// Something that must not be in the image.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolExclusion {
    /// Normalized names of Python distributions.
    pub distributions: Vec<String>,
    /// The message if one of them is installed.
    pub because: String,
}

/// The overhead of a tool while it records.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolOverhead {
    /// The figure, as text.
    pub figure: String,
    /// How certain it is.
    pub certainty: Certainty,
    /// The source of the figure.
    pub source: String,
}

/// The ids that profiler files may refer to.
#[derive(Debug, Clone, Copy)]
pub struct KnownIds<'a> {
    /// The ids in `profiles/cupti/apis.yaml`.
    pub apis: &'a [&'a str],
    /// The ids in `profiles/consumers`.
    pub consumers: &'a [&'a str],
    /// The ids in `profiles/cupti/host.yaml`.
    pub host: &'a [&'a str],
    /// The ids in `profiles/profilers`.
    pub profilers: &'a [&'a str],
    /// The capabilities in `profiles/cupti/driver-libraries.yaml`.
    pub capabilities: &'a [&'a str],
}

impl Profiler {
    /// Reads the profiler `id` from its file.
    ///
    /// Errors: The first mistake in the file, such as an unknown key or id.
    pub fn read(id: &str, text: YamlText<'_>, known: KnownIds<'_>) -> Result<Self, TextMistake> {
        let profile: ProfilerFile = text.read()?;
        check_ids(text, &profile, known)?;
        for (key, conditions) in [("applies", &profile.applies), ("needs", &profile.needs)] {
            for (number, condition) in conditions.iter().enumerate() {
                let number = number.to_string();
                // One match is enough, so a condition without items would never hold.
                if condition.names_nothing() {
                    let what = "the condition names nothing to look for".to_owned();
                    return Err(text.mistake(&[key, &number], what));
                }
                let path = [key, &number, "consumers"];
                text.check_names(&path, &condition.consumers, "consumer", known.consumers)?;
            }
        }
        // APIs are checked in the image's copy, which no other tool uses.
        if (profile.cupti == CuptiNeed::InImage) == profile.apis.is_empty() {
            let what = "a tool that needs CUPTI in the image names its apis, and no other tool does".to_owned();
            return Err(text.mistake(&["cupti"], what));
        }
        let id = id.to_owned();
        Ok(Self { id, profile })
    }
}

fn check_ids(text: YamlText<'_>, profile: &ProfilerFile, known: KnownIds<'_>) -> Result<(), TextMistake> {
    let consumer: Vec<String> = profile.consumer.iter().cloned().collect();
    for (key, asked, kind, known) in [
        ("apis", &profile.apis, "API", known.apis),
        ("optional_apis", &profile.optional_apis, "API", known.apis),
        ("consumer", &consumer, "consumer", known.consumers),
        ("runs_in", &profile.runs_in, "consumer", known.consumers),
        ("traces_of", &profile.traces_of, "profiler", known.profilers),
        ("host", &profile.host, "condition of the host", known.host),
        ("fallbacks", &profile.fallbacks, "profiler", known.profilers),
        (
            "capabilities",
            &profile.capabilities,
            "driver capability",
            known.capabilities,
        ),
    ] {
        text.check_names(&[key], asked, kind, known)?;
    }
    Ok(())
}

impl ToolCondition {
    fn names_nothing(&self) -> bool {
        [
            // `beside` alone matches nothing; it only limits the search for objects.
            &self.objects,
            &self.distributions,
            &self.executables,
            &self.environment,
            &self.consumers,
        ]
        .iter()
        .all(|things| things.is_empty())
    }
}

impl Profiler {
    /// Whether `name` is the id or an alias of this tool.
    pub fn answers_to(&self, name: &str) -> bool {
        // Users write PyTorch or Nsys, but ids and aliases are lower case.
        let name = name.to_lowercase();
        self.names().any(|own| own == name)
    }

    /// The names that users may enter, the id first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.id).chain(self.profile.aliases.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::{KnownIds, Profiler};
    use crate::knowledge::yaml_text::YamlText;

    const KNOWN: KnownIds<'_> = KnownIds {
        apis: &["activity"],
        consumers: &["pytorch"],
        host: &["driver"],
        profilers: &["mine", "other"],
        capabilities: &["compute"],
    };

    const RIGHT: &str = "name: n\ngives: g\nwithout: w\ncupti: in-image\napis: [activity]\nconsumer: pytorch\n\
                         needs:\n  - {objects: [x], otherwise: o}\n\
                         overhead: {figure: f, certainty: seen, source: s}\nhost: [driver]\nfallbacks: [other]\n";

    fn read(text: &str) -> Result<Profiler, String> {
        Profiler::read("mine", YamlText::of(text), KNOWN).map_err(|mistake| mistake.to_string())
    }

    #[test]
    fn a_right_file_is_read_and_answers_to_its_names() {
        let profiler = read(&RIGHT.replace("name: n", "name: n\naliases: [else]")).unwrap();
        assert!(profiler.answers_to("MINE") && profiler.answers_to("else"));
        assert!(!profiler.answers_to("other"));
    }

    #[test]
    fn a_mistake_is_reported_with_its_place() {
        for (right, wrong, said) in [
            (
                "gives: g",
                "give: g",
                "2:1: there is no key \"give\"; did you mean \"gives\"?; there is name, \
                 aliases, gives, without, cupti, apis, optional_apis, consumer, runs_in, traces_of, applies, excludes, needs, \
                 capabilities, overhead, besides, host, fallbacks, evidence, replace",
            ),
            (
                "apis: [activity]",
                "apis: [activty]",
                "5:8: there is no API \"activty\"; did you mean \"activity\"?; there is activity",
            ),
            (
                "consumer: pytorch",
                "consumer: torch",
                "6:11: there is no consumer \"torch\"; did you mean \"pytorch\"?; there is pytorch",
            ),
            (
                "{objects: [x], otherwise: o}",
                "{beside: x, otherwise: o}",
                "8:5: the condition names nothing to look for",
            ),
            (
                "fallbacks: [other]",
                "fallbacks: [third]",
                "11:13: there is no profiler \"third\"; there is mine, other",
            ),
            (
                "in-image",
                "maybe",
                "4:8: there is no value \"maybe\"; there is in-image, brings-its-own, reads-traces, none",
            ),
        ] {
            assert_eq!(read(&RIGHT.replace(right, wrong)).unwrap_err(), said, "{wrong}");
        }
    }

    #[test]
    fn only_a_tool_that_needs_cupti_in_the_image_names_apis() {
        let none = RIGHT.replace("cupti: in-image", "cupti: none");
        assert!(read(&none).is_err());
        assert!(read(&none.replace("apis: [activity]\n", "")).is_ok());
        assert!(read(&RIGHT.replace("apis: [activity]\n", "")).is_err());
    }
}
