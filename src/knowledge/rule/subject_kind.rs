//! The kinds of subject that rules speak of, and the fields that each has.
//!
//! What an image says of them is filled in by `judge/rule/subject/`, which has a file per kind.

use serde::Deserialize;

use super::subject_fields::{self, SubjectField};

/// What is asked of an image: the rules of the other questions say nothing there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleQuestion {
    /// Whether it serves its phases.
    Image,
    /// Whether each of its objects finds what it needs.
    Links,
    /// Of a Dockerfile, whether its steps bring the library.
    BuildFile,
}

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
    /// A program that asks for libcupti and does not start, or a library that cannot be loaded, for want of something else.
    Start,
    /// The container's own command, where it does not start.
    Command,
    /// The programs of which only a run could tell by what name they open libcupti.
    Undecided,
    /// Something that a phase needs, wants or forbids, and that is not so.
    Need,
    /// A program that gets libcupti.
    Consumer,
    /// Entries of `ld.so.cache` that are not as a fresh `ldconfig` would make them.
    LdCache,
    /// A search path with an empty element.
    EmptyElement,
    /// Variables of the loader or the driver that the container's command sets, or may set.
    Environment,
    /// A library that a variable makes the driver or NVTX load, and that cannot be loaded.
    Injection,
    /// A stub of the driver's library that a search path leads to.
    Stub,
    /// Something of the GPU that the image tells the container runtime to leave out.
    Runtime,
    /// The CUDA version that the image needs a driver for.
    Cuda,
    /// The host of a container that runs.
    Host,
    /// A framework that brings a profiler.
    Framework,
    /// A process that gets libcupti and not the library behind its counters.
    Nvperf,
    /// Files of one kind of weight that nothing in the image is known to need.
    DeadWeight,
    /// A profiling tool that was asked for and would not work.
    Tool,
    /// A library that objects of the image need and do not get.
    Link,
    /// An instruction of a Dockerfile.
    BuildStep,
    /// A suppression of the config that is over or was for nothing.
    Suppression,
}

impl SubjectKind {
    /// All kinds, for who wants to see that each is in use.
    pub const ALL: [Self; 27] = [
        Self::Image,
        Self::Copy,
        Self::Copies,
        Self::DanglingLink,
        Self::Misnamed,
        Self::Failure,
        Self::Unserved,
        Self::Start,
        Self::Command,
        Self::Undecided,
        Self::Need,
        Self::Consumer,
        Self::LdCache,
        Self::EmptyElement,
        Self::Environment,
        Self::Injection,
        Self::Stub,
        Self::Runtime,
        Self::Cuda,
        Self::Host,
        Self::Framework,
        Self::Nvperf,
        Self::DeadWeight,
        Self::Tool,
        Self::Link,
        Self::BuildStep,
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
            Self::Start => "start",
            Self::Command => "command",
            Self::Undecided => "undecided",
            Self::Need => "need",
            Self::Consumer => "consumer",
            Self::LdCache => "ld-cache",
            Self::EmptyElement => "empty-element",
            Self::Environment => "environment",
            Self::Injection => "injection",
            Self::Stub => "stub",
            Self::Runtime => "runtime",
            Self::Cuda => "cuda",
            Self::Host => "host",
            Self::Framework => "framework",
            Self::Nvperf => "nvperf",
            Self::DeadWeight => "dead-weight",
            Self::Tool => "tool",
            Self::Link => "link",
            Self::BuildStep => "build-step",
            Self::Suppression => "suppression",
        }
    }

    /// The fields that a subject of this kind has, in the order in which a mistake lists them.
    pub fn fields(self) -> &'static [SubjectField] {
        match self {
            Self::Image => subject_fields::IMAGE,
            Self::Copy => subject_fields::COPY,
            Self::Copies => subject_fields::COPIES,
            Self::DanglingLink => subject_fields::DANGLING_LINK,
            Self::Misnamed => subject_fields::MISNAMED,
            Self::Failure => subject_fields::FAILURE,
            Self::Unserved => subject_fields::UNSERVED,
            Self::Start => subject_fields::START,
            Self::Command => subject_fields::COMMAND,
            Self::Undecided => subject_fields::UNDECIDED,
            Self::Need => subject_fields::NEED,
            Self::Consumer => subject_fields::CONSUMER,
            Self::LdCache => subject_fields::LD_CACHE,
            Self::EmptyElement => subject_fields::EMPTY_ELEMENT,
            Self::Environment => subject_fields::ENVIRONMENT,
            Self::Injection => subject_fields::INJECTION,
            Self::Stub => subject_fields::STUB,
            Self::Runtime => subject_fields::RUNTIME,
            Self::Cuda => subject_fields::CUDA,
            Self::Host => subject_fields::HOST,
            Self::Framework => subject_fields::FRAMEWORK,
            Self::Nvperf => subject_fields::NVPERF,
            Self::DeadWeight => subject_fields::DEAD_WEIGHT,
            Self::Tool => subject_fields::TOOL,
            Self::Link => subject_fields::LINK,
            Self::BuildStep => subject_fields::BUILD_STEP,
            Self::Suppression => subject_fields::SUPPRESSION,
        }
    }

    /// Whether a rule of this kind is applied where this is asked.
    pub fn answers(self, question: RuleQuestion) -> bool {
        match self {
            Self::Suppression => true,
            Self::Link => question == RuleQuestion::Links,
            Self::BuildStep => question == RuleQuestion::BuildFile,
            _ => question == RuleQuestion::Image,
        }
    }
}
