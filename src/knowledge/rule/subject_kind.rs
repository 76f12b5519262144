//! The kinds of subject that rules speak of, and the fields that each has.
//!
//! What an image says of them is filled in by `judge/rule/subject/`, which has a file per kind.

use std::fmt;

use serde::Deserialize;

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

    /// The fields that a subject of this kind has, in the order in which a mistake lists them.
    #[expect(clippy::too_many_lines, reason = "one arm per kind")]
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Image => &[
                "status",
                "status_nvidia",
                "import_broken",
                // Whether a copy, a link to none or a program that asks is there.
                "concerns_cupti",
                // `glibc`, `musl` or `none`: the dynamic loader.
                "libc",
            ],
            Self::Copy => &[
                "path",
                "directory",
                "soname",
                "version",
                "owner",
                // Whether it serves only the tool that brings it.
                "decoy",
                "loadable",
                "loadable_nvidia",
                // Whether a program gets it.
                "used",
                // Whether the search ended at it, and what it needs is missing.
                "reached",
                "library",
                "damaged",
                "damage",
                // Whether a search ends at it because it is damaged.
                "stops_search",
                "machine",
                "image_machine",
                "wrong_machine",
                "image_status",
                // Whether CUPTI can be had in the image all the same, by dlopen or by a program that asks.
                "image_serves",
                // Whether the image has a dynamic loader.
                "has_loader",
                // The version of the CUDA runtime beside it, and whether it is of another release or even major version.
                "cudart",
                "other_cudart",
                "other_cudart_major",
            ],
            Self::Copies => &["count", "versions"],
            Self::DanglingLink => &["path", "target", "dev_link"],
            Self::Misnamed => &["path", "says", "soname"],
            Self::Failure => &[
                "object",
                // What that breaks: `cupti`, or `import` or `profiling` of a program.
                "breaks",
                "words",
                // Whether all that is missing is a newer glibc, which one is needed and which one is there.
                "glibc",
                "glibc_needed",
                "glibc_here",
                // Whether the C library of the image is musl.
                "musl",
            ],
            Self::Unserved => &[
                "name",
                "object",
                "wants",
                "words",
                // Whether another program of the same Python environment gets one.
                "others_served",
            ],
            Self::Need => &["phase", "level", "what", "why"],
            Self::Consumer => &[
                "name",
                "object",
                // `needed` or `dlopen`.
                "asks",
                "wants",
                // What breaks without it: `import` or `profiling`.
                "required",
                "path",
                // Whether it imports symbols that the copy does not export, and which.
                "lacks_symbols",
                "symbols",
                // Whether it gets another release than it was made for, and which.
                "shadowed",
                "older",
                "gets",
                "meant",
                "meant_by",
            ],
            Self::LdCache => &[
                // What is wrong, as the end of a sentence.
                "words",
                // Whether a fresh run of `ldconfig` makes the names found.
                "repaired_by_ldconfig",
            ],
            Self::EmptyElement => &["of", "value", "working_dir"],
            Self::Stub => &[
                "path",
                "name",
                // `LD_LIBRARY_PATH` or `ld.so.cache`.
                "by",
                // Whether it has the soname of the driver's library: then programs get it instead.
                "is_soname",
            ],
            Self::Runtime => &[
                "variable", "value", // `devices`, `compute` or `utility`.
                "lacks", // What that means, as the end of a sentence.
                "words",
            ],
            Self::Cuda => &[
                // The newest of the image, and what says it: a copy of CUPTI, a CUDA runtime, or the environment.
                "version",
                "from",
                // The oldest driver that came with it, and the branch that minor-version compatibility asks for.
                "driver",
                "branch",
                // Whether the driver for this version is known.
                "has_driver",
                "has_cupti",
                // The newest CUPTI and the file; what `NVIDIA_REQUIRE_CUDA` promises, and whether CUPTI is newer than that.
                "cupti",
                "cupti_path",
                "required",
                "newer_than_required",
                // Whether a search path names the directory into which GKE mounts the driver.
                "names_nvidia_directory",
            ],
            Self::Framework => &[
                // The distribution: `torch` or `tensorflow`.
                "name",
                "version",
                // Whether a program of the image asks for CUPTI under the framework's name.
                "asks_for_cupti",
                // Whether TensorBoard is in the same environment, and whether the plugin that shows profiles is.
                "tensorboard",
                "has_plugin",
                "plugin",
                // Whether the environment lets a daemon start profiles.
                "daemon",
            ],
            Self::Nvperf => &[
                // Who asks: a program, or any process that opens CUPTI by its soname.
                "name",
                // Where the library is, as the end of a sentence.
                "words",
                // Whether another process of the image gets it.
                "others_get_it",
            ],
            Self::Baggage => &[
                // `profiling` or `toolkit`.
                "weight", "bytes", "count",
            ],
            Self::Suppression => &["rule", "reason", "until", "line", "state"],
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
