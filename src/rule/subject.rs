//! What rules speak of: the facts of an image as flat subjects with named fields.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::Location;
use crate::config::Suppression;
use crate::escape;
use crate::facts::{self, Asks, Consumer, ImageFacts, PlainOpen, Required, Status};
use crate::loader::words::{self, Line};
use crate::loader::{Outcome, Resolution, Unresolved};

/// The kinds of subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The image as a whole.
    Image,
    /// A copy of libcupti.
    Copy,
    /// A link named as libcupti that leads nowhere.
    DanglingLink,
    /// Something that keeps libcupti, or a program that links it, from being loaded.
    Failure,
    /// A program that opens libcupti at run time and does not get it.
    Unserved,
    /// A suppression of the config that is over or was for nothing.
    Suppression,
}

impl Kind {
    /// The name used in rules.
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Copy => "copy",
            Self::DanglingLink => "dangling-link",
            Self::Failure => "failure",
            Self::Unserved => "unserved",
            Self::Suppression => "suppression",
        }
    }

    /// The fields that a subject of this kind has.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Image => &["status", "status_nvidia", "import_broken"],
            Self::Copy => &[
                "path",
                "directory",
                "soname",
                "version",
                "owner",
                "decoy",
                "loadable",
                "loadable_nvidia",
                "used",
                "reached",
                "library",
                "damaged",
                "damage",
                "image_status",
            ],
            Self::DanglingLink => &["path", "target", "dev_link"],
            Self::Failure => &["object", "breaks", "words"],
            Self::Unserved => &["name", "object", "wants", "words"],
            Self::Suppression => &["rule", "reason", "until", "line", "state"],
        }
    }
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// A word.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// What shows that a finding is true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// A sentence, such as the loader's own words.
    Words(String),
    /// A step of the loader's search.
    Searched(Line),
}

impl Evidence {
    /// The evidence as one line.
    pub fn text(&self) -> String {
        match self {
            Self::Words(words) => words.clone(),
            Self::Searched(line) => line.text(),
        }
    }
}

/// Something a rule can speak of.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Its kind.
    pub kind: Kind,
    /// Its fields.
    pub fields: BTreeMap<&'static str, Value>,
    /// Where it is.
    pub locations: Vec<Location>,
    /// What shows it.
    pub evidence: Vec<Evidence>,
}

impl Subject {
    /// A suppression of which there is something to say: its `state`.
    pub fn of_suppression(suppression: &Suppression, state: &str) -> Self {
        let until = suppression.until.as_ref();
        Self {
            kind: Kind::Suppression,
            fields: BTreeMap::from([
                ("rule", text(suppression.rule.clone())),
                ("reason", text(suppression.reason.clone())),
                (
                    "until",
                    text(until.map_or_else(String::new, ToString::to_string)),
                ),
                ("line", text(suppression.line.to_string())),
                ("state", text(state)),
            ]),
            locations: Vec::new(),
            evidence: Vec::new(),
        }
    }
}

/// The subjects of an image.
pub fn subjects(facts: &ImageFacts) -> Vec<Subject> {
    let mut subjects = vec![image(facts)];
    subjects.extend(facts.copies.iter().map(|copy| self::copy(facts, copy)));
    subjects.extend(facts.dangling.iter().map(|link| dangling(facts, link)));
    subjects.extend(failures(facts));
    subjects
}

fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

fn image(facts: &ImageFacts) -> Subject {
    let broken = facts
        .consumers
        .iter()
        .any(|consumer| consumer.required == Required::Import && fails(consumer));
    let headers = if facts.status.as_is == Status::HeadersOnly {
        facts.headers.as_slice()
    } else {
        &[]
    };
    Subject {
        kind: Kind::Image,
        fields: BTreeMap::from([
            ("status", text(facts.status.as_is.name())),
            ("status_nvidia", text(facts.status.nvidia.name())),
            ("import_broken", Value::Flag(broken)),
        ]),
        locations: headers
            .iter()
            .map(|(path, layer)| Location {
                path: path.clone(),
                layer: Some(*layer),
            })
            .collect(),
        evidence: of_plain(&facts.plain.as_is),
    }
}

fn fails(consumer: &Consumer) -> bool {
    matches!(
        consumer.outcome.as_is.outcome,
        Outcome::NotFound | Outcome::Refused
    )
}

fn copy(facts: &ImageFacts, copy: &facts::Copy) -> Subject {
    let own_name = || copy.real_path.name().into();
    let soname = copy.soname.clone().unwrap_or_else(own_name);
    // The search did end at it, but what it needs is missing: that is another finding.
    let reached = copy.how.is_some() && !copy.loadable.as_is && !copy.by_path.as_is.loads();
    Subject {
        kind: Kind::Copy,
        fields: BTreeMap::from([
            ("path", text(copy.real_path.to_string())),
            ("directory", text(copy.real_path.parent().to_string())),
            ("soname", text(escape::text(&soname))),
            (
                "version",
                text(
                    copy.version
                        .as_ref()
                        .map(|(version, _)| version.clone())
                        .unwrap_or_default(),
                ),
            ),
            ("owner", text(copy.owner.kind.name())),
            ("decoy", Value::Flag(copy.decoy)),
            ("loadable", Value::Flag(copy.loadable.as_is)),
            ("loadable_nvidia", Value::Flag(copy.loadable.nvidia)),
            ("used", Value::Flag(!copy.used_by.is_empty())),
            ("reached", Value::Flag(reached)),
            ("library", Value::Flag(copy.soname.is_some())),
            ("damaged", Value::Flag(!copy.problems.is_empty())),
            ("damage", text(copy.problems.join("; "))),
            ("image_status", text(facts.status.as_is.name())),
        ]),
        locations: vec![Location {
            path: copy.real_path.clone(),
            layer: Some(copy.layer),
        }],
        evidence: of_plain(&facts.plain.as_is),
    }
}

fn dangling(facts: &ImageFacts, link: &facts::DanglingLink) -> Subject {
    Subject {
        kind: Kind::DanglingLink,
        fields: BTreeMap::from([
            ("path", text(link.path.to_string())),
            ("target", text(escape::text(&link.target))),
            // The name that compilers look for; no program opens it where the soname is there.
            (
                "dev_link",
                Value::Flag(
                    link.path.name() == b"libcupti.so" && facts.status.as_is == Status::Loadable,
                ),
            ),
        ]),
        locations: vec![Location {
            path: link.path.clone(),
            layer: Some(link.layer),
        }],
        evidence: vec![Evidence::Words(format!("{}: {}", link.path, link.why))],
    }
}

/// What keeps the copies that somebody would get, and the programs that ask, from being loaded.
fn failures(facts: &ImageFacts) -> Vec<Subject> {
    let idle = |copy: &&facts::Copy| facts.status.as_is == Status::Loadable && copy.how.is_none();
    let copies = facts
        .copies
        .iter()
        .filter(|copy| !copy.decoy && !idle(copy))
        .filter_map(of_copy);
    let consumers = facts
        .consumers
        .iter()
        .filter(|consumer| fails(consumer))
        .map(of_consumer);
    copies.chain(consumers).collect()
}

/// What a copy needs and does not get; nothing for one that the loader does not even map.
fn of_copy(copy: &facts::Copy) -> Option<Subject> {
    let resolution = &copy.by_path.as_is;
    resolution.root?;
    let failures: Vec<&Unresolved> = facts::failures(resolution).collect();
    let words: Vec<&str> = failures
        .iter()
        .map(|failure| failure.message.as_str())
        .collect();
    (!failures.is_empty()).then(|| Subject {
        kind: Kind::Failure,
        fields: BTreeMap::from([
            ("object", text(copy.real_path.to_string())),
            ("breaks", text("cupti")),
            ("words", text(words.join("; "))),
        ]),
        locations: vec![Location {
            path: copy.real_path.clone(),
            layer: Some(copy.layer),
        }],
        evidence: failures
            .iter()
            .flat_map(|failure| of_search(failure, resolution))
            .collect(),
    })
}

/// What a program that links or opens libcupti does not get.
fn of_consumer(consumer: &Consumer) -> Subject {
    let gets = &consumer.outcome.as_is;
    let words = text(gets.message.clone());
    let (kind, fields) = match consumer.asks {
        Asks::Needed => (
            Kind::Failure,
            BTreeMap::from([
                (
                    "object",
                    text(format!("{} ({})", consumer.name, consumer.object)),
                ),
                ("breaks", text(consumer.required.name())),
                ("words", words),
            ]),
        ),
        Asks::Dlopen => (
            Kind::Unserved,
            BTreeMap::from([
                ("name", text(consumer.name.clone())),
                ("object", text(consumer.object.to_string())),
                ("wants", text(escape::text(&consumer.wants))),
                ("words", words),
            ]),
        ),
    };
    let lines = words::lines(&gets.trace, &gets.objects);
    Subject {
        kind,
        fields,
        locations: vec![Location {
            path: consumer.object.clone(),
            layer: None,
        }],
        evidence: lines.into_iter().map(Evidence::Searched).collect(),
    }
}

/// What a plain dlopen is told, and the search before it.
fn of_plain(plain: &PlainOpen) -> Vec<Evidence> {
    match facts::failures(&plain.resolution).next() {
        Some(failure) => {
            let words = Evidence::Words(format!(
                "dlopen(\"{}\"): {}",
                escape::text(&plain.name),
                failure.message
            ));
            std::iter::once(words)
                .chain(of_search(failure, &plain.resolution))
                .collect()
        }
        None if plain.resolution.root.is_none() => {
            vec![Evidence::Words(
                "the image has no dynamic loader: no linked program can start in it".to_owned(),
            )]
        }
        None => Vec::new(),
    }
}

fn of_search(failure: &Unresolved, resolution: &Resolution) -> Vec<Evidence> {
    words::lines(&failure.trace, &resolution.objects)
        .into_iter()
        .map(Evidence::Searched)
        .collect()
}
