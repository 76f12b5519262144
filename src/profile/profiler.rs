//! A profiling tool: whether it needs CUPTI in the image, what else, what it costs and what to take instead.

use std::collections::BTreeSet;

use serde::Deserialize;

/// A profiling tool (`profiles/profilers/<id>.yaml`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profiler {
    /// The stem of its file.
    pub id: String,
    /// What the file says.
    pub said: ProfilerFile,
}

/// The file of a profiling tool, as written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfilerFile {
    /// The name for people.
    pub name: String,
    /// Other names by which it is asked for.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// What it shows.
    pub gives: String,
    /// What is left without it.
    pub without: String,
    /// Whether it needs CUPTI in the image.
    pub cupti: CuptiNeed,
    /// The APIs of CUPTI that it cannot do without (`profiles/cupti/apis.yaml`).
    #[serde(default)]
    pub apis: Vec<String>,
    /// The APIs that some of its options need.
    #[serde(default)]
    pub optional_apis: Vec<String>,
    /// The program through which it gets CUPTI (`profiles/consumers`); without one it opens CUPTI itself.
    #[serde(default)]
    pub consumer: Option<String>,
    /// Programs that it runs in: where one of them is in the image and cannot start, neither can the tool.
    #[serde(default)]
    pub runs_in: Vec<String>,
    /// The tools whose traces it reads; one of them is enough.
    #[serde(default)]
    pub traces_of: Vec<String>,
    /// What makes it a question at all: all of them, else the tool is not applicable.
    #[serde(default)]
    pub applies: Vec<Condition>,
    /// What shows that it is not applicable.
    #[serde(default)]
    pub excludes: Vec<Exclusion>,
    /// What has to be in the image besides CUPTI: all of them.
    #[serde(default)]
    pub needs: Vec<Condition>,
    /// The driver capabilities that it needs (`NVIDIA_DRIVER_CAPABILITIES`).
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// What it costs.
    pub overhead: Overhead,
    /// What it needs that an image does not show, in words.
    #[serde(default)]
    pub besides: Vec<String>,
    /// The conditions of the host that bear on it (`profiles/cupti/host.yaml`).
    #[serde(default)]
    pub host: Vec<String>,
    /// What to take instead, the best first.
    #[serde(default)]
    pub fallbacks: Vec<String>,
}

/// Whether a tool needs CUPTI in the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CuptiNeed {
    /// It opens or links the copy that is in the image.
    InImage,
    /// It has a copy of its own.
    BringsItsOwn,
    /// It reads what another tool wrote.
    ReadsTraces,
    /// It does without.
    None,
}

impl CuptiNeed {
    /// The name used in profiles and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::InImage => "in-image",
            Self::BringsItsOwn => "brings-its-own",
            Self::ReadsTraces => "reads-traces",
            Self::None => "none",
        }
    }
}

/// Something that has to be there; one of the things named is enough.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// What is looked for.
    #[serde(flatten)]
    pub any: Things,
    /// What is the matter when none of it is there.
    pub otherwise: String,
}

/// Something that must not be there.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exclusion {
    /// Names of Python distributions.
    pub distributions: Vec<String>,
    /// What is the matter when one of them is there.
    pub because: String,
}

/// Things that are looked for in an image.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Things {
    /// File names of ELF objects; a final `*` stands for any rest.
    #[serde(default)]
    pub objects: Vec<String>,
    /// Names of Python distributions, in normal form.
    #[serde(default)]
    pub distributions: Vec<String>,
    /// Names of programs, looked for on `PATH` and in `folders`.
    #[serde(default)]
    pub executables: Vec<String>,
    /// Folders outside of `PATH`; `*` stands for any rest of a component.
    #[serde(default)]
    pub folders: Vec<String>,
    /// Variables that are set, to whatever value.
    #[serde(default)]
    pub environment: Vec<String>,
    /// Programs that ask for CUPTI (`profiles/consumers`).
    #[serde(default)]
    pub consumers: Vec<String>,
}

/// What a tool costs while it records.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overhead {
    /// The figure, in words.
    pub figure: String,
    /// How sure it is.
    pub certainty: Certainty,
    /// Where it is from.
    pub source: String,
}

/// How sure a fact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// Observed.
    Seen,
    /// Read in somebody else's text.
    Reported,
    /// Follows from what is seen or reported.
    Inferred,
    /// Nobody has checked it.
    Unverified,
}

impl Certainty {
    /// The name used in profiles and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seen => "seen",
            Self::Reported => "reported",
            Self::Inferred => "inferred",
            Self::Unverified => "unverified",
        }
    }
}

/// What the files of profilers may refer to.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The ids of `profiles/cupti/apis.yaml`.
    pub apis: &'a BTreeSet<&'a str>,
    /// The ids of `profiles/consumers`.
    pub consumers: &'a BTreeSet<&'a str>,
    /// The ids of `profiles/cupti/host.yaml`.
    pub host: &'a BTreeSet<&'a str>,
}

/// The mistakes in the files of profilers, each with the file's id.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct ProfilerError(pub Vec<String>);

/// Reads the files of profilers, ids and texts, and checks them together.
///
/// # Errors
/// All mistakes in all files: text that is no YAML or has a key that no profiler has, with line and column, and
/// ids that nothing has.
pub fn compile<'t>(
    files: impl IntoIterator<Item = (&'t str, &'t str)>,
    known: Known<'_>,
) -> Result<Vec<Profiler>, ProfilerError> {
    let mut profilers = Vec::new();
    let mut mistakes = Vec::new();
    for (id, text) in files {
        match serde_saphyr::from_str(text) {
            Ok(said) => profilers.push(Profiler {
                id: id.to_owned(),
                said,
            }),
            Err(error) => mistakes.push(format!("profiler {id}: {error}")),
        }
    }
    let ids: BTreeSet<&str> = profilers.iter().map(|profiler| &*profiler.id).collect();
    for profiler in &profilers {
        let wrong = mistakes_of(&profiler.said, known, &ids);
        mistakes.extend(wrong.map(|what| format!("profiler {}: {what}", profiler.id)));
    }
    if mistakes.is_empty() {
        Ok(profilers)
    } else {
        Err(ProfilerError(mistakes))
    }
}

fn mistakes_of<'a>(
    said: &'a ProfilerFile,
    known: Known<'a>,
    profilers: &'a BTreeSet<&str>,
) -> impl Iterator<Item = String> + 'a {
    let conditions = said.applies.iter().chain(&said.needs);
    let of_conditions = conditions.clone().flat_map(|condition| &condition.any.consumers);
    let references = [
        ("API", known.apis, said.apis.iter().chain(&said.optional_apis).collect::<Vec<_>>()),
        (
            "consumer",
            known.consumers,
            said.consumer.iter().chain(&said.runs_in).chain(of_conditions).collect(),
        ),
        ("profiler", profilers, said.fallbacks.iter().chain(&said.traces_of).collect()),
        ("condition of the host", known.host, said.host.iter().collect()),
    ];
    let unknown = references.into_iter().flat_map(|(kind, known, asked)| {
        let asked = asked.into_iter().filter(move |id| !known.contains(id.as_str()));
        asked.map(move |id| {
            let there: Vec<&str> = known.iter().copied().collect();
            format!("there is no {kind} {id:?}; there are {}", there.join(", "))
        })
    });
    let empty = conditions
        .filter(|condition| condition.any.is_empty())
        .map(|condition| format!("a condition names nothing to look for: {:?}", condition.otherwise));
    let apis = (said.cupti == CuptiNeed::InImage) == said.apis.is_empty();
    let apis = apis.then(|| {
        "a tool that needs CUPTI in the image names the APIs it needs, and no other tool does".to_owned()
    });
    unknown.chain(empty).chain(apis)
}

impl Things {
    /// Whether nothing is looked for.
    pub fn is_empty(&self) -> bool {
        let Self {
            objects,
            distributions,
            executables,
            folders: _,
            environment,
            consumers,
        } = self;
        [objects, distributions, executables, environment, consumers]
            .iter()
            .all(|things| things.is_empty())
    }
}

impl Profiler {
    /// Whether this is the tool that `name` stands for: its id or one of its aliases.
    pub fn answers_to(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.names().any(|own| own == name)
    }

    /// The names by which it can be asked for, its id first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.id).chain(self.said.aliases.iter().map(String::as_str))
    }
}
