//! What rules speak of: the facts of an image as flat subjects with named fields.
//!
//! One file per kind of subject: it lists the fields and fills them from the facts.

mod consumer;
mod container_runtime;
mod copies;
mod copy;
mod cuda_driver;
mod dangling;
mod dead_weight;
mod driver_stub;
mod empty_element;
mod evidence;
mod failure;
mod framework;
mod image;
mod ld_cache;
mod misnamed;
mod nvperf;
mod suppression;

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

pub use evidence::Evidence;

use super::FindingLocation;
use crate::judge::facts::ImageFacts;
use image_linkage::escape;

/// The kinds of subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubjectKind {
    /// The image as a whole.
    Image,
    /// A copy of libcupti.
    Copy,
    /// The copies of libcupti together, where there are several.
    Copies,
    /// A link named as libcupti that leads nowhere.
    DanglingLink,
    /// A file or link whose name says another soname than the file has.
    Misnamed,
    /// Something that keeps libcupti, or a program that links it, from being loaded.
    Failure,
    /// A program that opens libcupti at run time and does not get it.
    Unserved,
    /// Something that a phase needs, wants or forbids, and that is not so.
    Need,
    /// A program that gets libcupti.
    Consumer,
    /// Entries of `ld.so.cache` that are not as a fresh `ldconfig` would make them.
    LdCache,
    /// A search path with an empty element.
    EmptyElement,
    /// A stub of the driver's library that a search path leads to.
    Stub,
    /// Something of the GPU that the image tells the container runtime to leave out.
    Runtime,
    /// The CUDA version that the image needs a driver for.
    Cuda,
    /// A framework that brings a profiler.
    Framework,
    /// A process that gets libcupti and not the library behind its counters.
    Nvperf,
    /// Files of one kind of weight that nothing in the image is known to need.
    Baggage,
    /// A suppression of the config that is over or was for nothing.
    Suppression,
}

impl SubjectKind {
    /// All kinds.
    pub const ALL: [Self; 18] = [
        Self::Image,
        Self::Copy,
        Self::Copies,
        Self::DanglingLink,
        Self::Misnamed,
        Self::Failure,
        Self::Unserved,
        Self::Need,
        Self::Consumer,
        Self::LdCache,
        Self::EmptyElement,
        Self::Stub,
        Self::Runtime,
        Self::Cuda,
        Self::Framework,
        Self::Nvperf,
        Self::Baggage,
        Self::Suppression,
    ];

    /// The name used in rules.
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Copy => "copy",
            Self::Copies => "copies",
            Self::DanglingLink => "dangling-link",
            Self::Misnamed => "misnamed",
            Self::Failure => "failure",
            Self::Unserved => "unserved",
            Self::Need => "need",
            Self::Consumer => "consumer",
            Self::LdCache => "ld-cache",
            Self::EmptyElement => "empty-element",
            Self::Stub => "stub",
            Self::Runtime => "runtime",
            Self::Cuda => "cuda",
            Self::Framework => "framework",
            Self::Nvperf => "nvperf",
            Self::Baggage => "baggage",
            Self::Suppression => "suppression",
        }
    }

    /// The fields that a subject of this kind has.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Image => image::FIELDS,
            Self::Copy => copy::FIELDS,
            Self::Copies => copies::FIELDS,
            Self::DanglingLink => dangling::FIELDS,
            Self::Misnamed => misnamed::FIELDS,
            Self::Failure => failure::FIELDS,
            Self::Unserved => failure::UNSERVED,
            Self::Need => crate::judge::plan::unmet_need::FIELDS,
            Self::Consumer => consumer::FIELDS,
            Self::LdCache => ld_cache::FIELDS,
            Self::EmptyElement => empty_element::FIELDS,
            Self::Stub => driver_stub::FIELDS,
            Self::Runtime => container_runtime::FIELDS,
            Self::Cuda => cuda_driver::FIELDS,
            Self::Framework => framework::FIELDS,
            Self::Nvperf => nvperf::FIELDS,
            Self::Baggage => dead_weight::FIELDS,
            Self::Suppression => suppression::FIELDS,
        }
    }
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum FieldValue {
    /// Yes or no.
    Flag(bool),
    /// A word.
    Text(String),
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// Something a rule can speak of.
#[derive(Debug, Clone)]
pub struct RuleSubject {
    /// Its kind.
    pub kind: SubjectKind,
    /// Its fields.
    pub fields: BTreeMap<&'static str, FieldValue>,
    /// Where it is.
    pub locations: Vec<FindingLocation>,
    /// What shows it.
    pub evidence: Vec<Evidence>,
}

/// The subjects of an image.
pub fn image_subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let of = [
        image::subjects,
        copy::subjects,
        copies::subjects,
        dangling::subjects,
        misnamed::subjects,
        failure::subjects,
        consumer::subjects,
        ld_cache::subjects,
        empty_element::subjects,
        driver_stub::subjects,
        container_runtime::subjects,
        cuda_driver::subjects,
        framework::subjects,
        nvperf::subjects,
        dead_weight::subjects,
    ];
    of.iter().flat_map(|subjects| subjects(facts)).collect()
}

fn text(value: impl Into<String>) -> FieldValue {
    FieldValue::Text(value.into())
}

/// Text from a file or the environment of the image.
fn escaped(value: &str) -> FieldValue {
    FieldValue::Text(escape::escape_bytes(value.as_bytes()))
}

fn flag(value: bool) -> FieldValue {
    FieldValue::Flag(value)
}

/// The fields by name.
fn fields<const N: usize>(
    pairs: [(&'static str, FieldValue); N],
) -> BTreeMap<&'static str, FieldValue> {
    BTreeMap::from(pairs)
}
