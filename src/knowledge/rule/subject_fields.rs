//! The fields of each kind of subject, in the order in which a mistake in a rule lists them, and what each can have.

use crate::knowledge::mistake::unknown_name;
use image_linkage::escape;

use super::field_value::{FieldComparison, FieldCondition, FieldValue};
use crate::knowledge::consumer_profile::{FailureImpact, RequestKind};
use crate::knowledge::dead_weight::WeightPurpose;

/// A field of a kind of subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubjectField {
    /// The name by which a rule asks for it, and a message shows it.
    pub name: &'static str,
    values: FieldDomain,
}

/// The values that a field can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldDomain {
    Flag,
    /// A number, which a rule may compare with.
    Number,
    Word(&'static [&'static str]),
    /// A phase: one of the program's, or the user's.
    Phase,
    /// What an image says: no list of it is whole.
    Text,
}

impl SubjectField {
    /// The condition that a rule's file writes; `phases` are those that there are.
    ///
    /// Errors: That the field never has it, and what it can have.
    pub(super) fn read(self, written: &str, phases: &[&str]) -> Result<FieldCondition, String> {
        let condition = |comparison, value| FieldCondition {
            field: self.name,
            comparison,
            value,
        };
        let known = match self.values {
            // YAML takes `True` for the flag as well.
            FieldDomain::Flag => match written.to_ascii_lowercase().parse() {
                Ok(flag) => return Ok(condition(FieldComparison::Is, FieldValue::Flag(flag))),
                Err(_) => &["true", "false"],
            },
            FieldDomain::Number => {
                let (comparison, number) = self.read_number(written)?;
                return Ok(condition(comparison, FieldValue::Number(number)));
            }
            FieldDomain::Word(words) => words,
            FieldDomain::Phase => phases,
            FieldDomain::Text => &[written],
        };
        if known.contains(&written) {
            return Ok(condition(FieldComparison::Is, FieldValue::Text(written.to_owned())));
        }
        Err(format!(
            "field {}: {}",
            self.name,
            unknown_name("value", written, known)
        ))
    }

    fn read_number(self, written: &str) -> Result<(FieldComparison, u64), String> {
        let signs = FieldComparison::SIGNS;
        let signed = signs.iter().find_map(|(sign, comparison)| {
            let number = written.strip_prefix(sign)?;
            Some((*comparison, number))
        });
        let (comparison, number) = signed.unwrap_or((FieldComparison::Is, written));
        let number = number.trim().parse().map_err(|_| {
            let signs = signs.map(|(sign, _)| format!("\"{sign} 3\""));
            let (name, signs) = (self.name, signs.join(", "));
            let written = escape::escape_bytes(written.as_bytes());
            format!("field {name}: expected a number, such as 3, or a comparison, {signs}; found \"{written}\"")
        })?;
        Ok((comparison, number))
    }

    /// Whether a subject may have this value: what it may not, no rule can ask for.
    pub fn allows(self, value: &FieldValue) -> bool {
        match (self.values, value) {
            (FieldDomain::Flag, FieldValue::Flag(_))
            | (FieldDomain::Number, FieldValue::Number(_) | FieldValue::Bytes(_))
            | (FieldDomain::Phase | FieldDomain::Text, FieldValue::Text(_)) => true,
            (FieldDomain::Word(words), FieldValue::Text(text)) => words.contains(&text.as_str()),
            _ => false,
        }
    }
}

const fn flag(name: &'static str) -> SubjectField {
    field(name, FieldDomain::Flag)
}

const fn number(name: &'static str) -> SubjectField {
    field(name, FieldDomain::Number)
}

const fn word(name: &'static str, words: &'static [&'static str]) -> SubjectField {
    field(name, FieldDomain::Word(words))
}

const fn phase(name: &'static str) -> SubjectField {
    field(name, FieldDomain::Phase)
}

const fn text(name: &'static str) -> SubjectField {
    field(name, FieldDomain::Text)
}

const fn field(name: &'static str, values: FieldDomain) -> SubjectField {
    SubjectField { name, values }
}

const STATUS: &[&str] = &["loadable", "unloadable", "headers-only", "absent"];
const LIBC: &[&str] = &["glibc", "musl", "none"];
const OWNER: &[&str] = &["pip", "deb", "conda", "bundled", "unknown"];
const ASKS: &[&str] = &[RequestKind::Needed.name(), RequestKind::Dlopen.name()];
const IMPACT: &[&str] = &[
    FailureImpact::Import.name(),
    FailureImpact::Gpu.name(),
    FailureImpact::Profiling.name(),
];
/// What a failure breaks: a copy for everybody, or a program as its profile says.
const BREAKS: &[&str] = &[
    "cupti",
    FailureImpact::Import.name(),
    FailureImpact::Gpu.name(),
    FailureImpact::Profiling.name(),
];
const LEVEL: &[&str] = &["needs", "wants", "forbids"];
const STUB_BY: &[&str] = &["LD_LIBRARY_PATH", "ld.so.cache"];
const RUNTIME_VARIABLE: &[&str] = &["NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"];
const LACKS: &[&str] = &["devices", "compute", "utility"];
const INJECTION_VARIABLE: &[&str] = &["CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"];
const WEIGHT: &[&str] = &[WeightPurpose::Profiling.name(), WeightPurpose::Toolkit.name()];
const GRANTED: &[&str] = &["granted", "refused", "unknown"];
const TARGET: &[&str] = &["finding", "assumption"];
const STATE: &[&str] = &["expired", "unused"];
const LOST_TOOL: &[&str] = &["not-ready", "not-applicable"];
const STEP_BRINGS: &[&str] = &[
    "nothing",
    "no-package",
    "headers",
    "missing",
    "other-release",
    "off-path",
];

pub(super) const IMAGE: &[SubjectField] = &[
    word("status", STATUS),
    word("status_nvidia", STATUS),
    flag("has_headers"),
    flag("import_broken"),
    // Whether a copy, a link to none or a program that asks is there.
    flag("concerns_cupti"),
    // That of the dynamic loader, and whether the library is made for glibc alone.
    word("libc", LIBC),
    flag("glibc_only"),
    // The packages that bring the library of the image's CUDA, as a sentence names them.
    text("matching_package"),
];

pub(super) const COPY: &[SubjectField] = &[
    text("path"),
    text("directory"),
    text("soname"),
    text("version"),
    word("owner", OWNER),
    // Whether it serves only the tool that brings it.
    flag("decoy"),
    flag("loadable"),
    flag("loadable_nvidia"),
    // Whether a program gets it.
    flag("used"),
    // Whether a module of Python may get it by what its code opens, which only a run could tell.
    flag("may_be_used"),
    // Whether the search ended at it, and what it needs is missing.
    flag("reached"),
    flag("library"),
    flag("damaged"),
    text("damage"),
    // Whether a search ends at it because it is damaged.
    flag("stops_search"),
    // Whether the user of the image may not read it, and what keeps him from it.
    flag("denied"),
    text("denial"),
    text("machine"),
    text("image_machine"),
    flag("wrong_machine"),
    word("image_status", STATUS),
    // Whether CUPTI can be had in the image all the same, by dlopen or by a program that asks.
    flag("image_serves"),
    // Whether the image has a dynamic loader.
    flag("has_loader"),
    // Whether the loader searches its folder on some processors alone, where no other copy has its soname; and on which.
    flag("some_processors"),
    text("processors"),
    // The version of the CUDA runtime beside it, and whether it is of another release or even major version.
    text("cudart"),
    flag("other_cudart"),
    flag("other_cudart_major"),
];

pub(super) const COPIES: &[SubjectField] = &[number("count"), text("versions")];

pub(super) const DANGLING_LINK: &[SubjectField] = &[text("path"), text("target"), flag("dev_link")];

pub(super) const MISNAMED: &[SubjectField] = &[text("path"), text("says"), text("soname")];

pub(super) const FAILURE: &[SubjectField] = &[
    text("object"),
    word("breaks", BREAKS),
    text("words"),
    // Whether all that is missing is a newer glibc, which one is needed and which one is there.
    flag("glibc"),
    text("glibc_needed"),
    text("glibc_here"),
    // Whether the C library of the image is musl.
    flag("musl"),
    // As of an image.
    text("matching_package"),
];

pub(super) const UNSERVED: &[SubjectField] = &[
    text("name"),
    text("object"),
    text("wants"),
    text("words"),
    word("breaks", IMPACT),
    // Whether another program of the same Python environment gets one.
    flag("others_served"),
    // Whether it is a package that no Python of the image has on its path.
    flag("unreachable"),
];

pub(super) const START: &[SubjectField] = &[
    text("name"),
    text("object"),
    text("words"),
    // What is to be done about it, as far as the image shows it.
    text("cure"),
    word("asks", ASKS),
    // Whether a process is known that ends so; and whether it is that of the container's command.
    flag("process"),
    flag("own"),
];

pub(super) const COMMAND: &[SubjectField] = &[
    text("words"),
    text("cure"),
    // Whether it starts, and is a tool that starts nothing.
    flag("idle"),
];

pub(super) const UNDECIDED: &[SubjectField] = &[
    // The objects, a few of many.
    text("names"),
    // Whether one of them is linked with the library.
    flag("linked"),
];

pub(super) const NEED: &[SubjectField] = &[phase("phase"), word("level", LEVEL), text("what"), text("why")];

pub(super) const CONSUMER: &[SubjectField] = &[
    text("name"),
    text("object"),
    word("asks", ASKS),
    text("wants"),
    word("required", IMPACT),
    text("path"),
    // Whether it imports symbols that the copy does not export, and which.
    flag("lacks_symbols"),
    text("symbols"),
    // Whether it gets another release than it was made for, and which.
    flag("shadowed"),
    flag("older"),
    text("gets"),
    text("meant"),
    text("meant_by"),
];

pub(super) const LD_CACHE: &[SubjectField] = &[
    // What is wrong, as the end of a sentence.
    text("words"),
    // Whether a fresh run of `ldconfig` makes the names found.
    flag("repaired_by_ldconfig"),
];

pub(super) const EMPTY_ELEMENT: &[SubjectField] = &[text("of"), text("value"), text("working_dir")];

pub(super) const ENVIRONMENT: &[SubjectField] = &[text("variables")];

pub(super) const INJECTION: &[SubjectField] = &[
    word("variable", INJECTION_VARIABLE),
    text("library"),
    // The loader's words.
    text("words"),
    // Whether nothing lies where the variable leads.
    flag("missing"),
];

pub(super) const STUB: &[SubjectField] = &[
    text("path"),
    text("name"),
    word("by", STUB_BY),
    // Whether it has the soname of the driver's library: then programs get it instead.
    flag("is_soname"),
];

pub(super) const RUNTIME: &[SubjectField] = &[
    word("variable", RUNTIME_VARIABLE),
    text("value"),
    word("lacks", LACKS),
    // What that means, as the end of a sentence.
    text("words"),
];

pub(super) const CUDA: &[SubjectField] = &[
    // The newest of the image, and what says it: a copy of CUPTI, a CUDA runtime, or the environment.
    text("version"),
    text("from"),
    // The driver that came with it, where none is known the branch; the former in words; the branch that minor-version
    // compatibility asks for.
    text("driver"),
    text("toolkit_driver"),
    text("branch"),
    // Whether anything is known of the drivers for this version.
    flag("has_driver"),
    flag("has_cupti"),
    // The newest CUPTI and the file; what `NVIDIA_REQUIRE_CUDA` promises, and whether CUPTI is newer than that.
    text("cupti"),
    text("cupti_path"),
    text("required"),
    flag("newer_than_required"),
    // Whether it is a container that runs, whose host is known.
    flag("running"),
    // Whether a search path names the directory into which GKE mounts the driver.
    flag("names_nvidia_directory"),
];

pub(super) const HOST: &[SubjectField] = &[
    // The newest CUDA of the container, the driver of the host, the one that came with that CUDA, where that is known, and
    // the branch from which on it runs.
    text("cuda"),
    text("driver"),
    text("least_driver"),
    text("needed_driver"),
    flag("has_driver"),
    // Whether the driver is as new as the CUDA, or of the branch on which any of its major version runs.
    flag("runs_cuda"),
    flag("older_than_cuda"),
    flag("has_gpu"),
    word("counters", GRANTED),
    // Whether the environment tells a framework to register with a daemon, and whether one listens.
    flag("asks_daemon"),
    flag("has_daemon"),
];

pub(super) const FRAMEWORK: &[SubjectField] = &[
    // The distribution, such as `torch`.
    text("name"),
    text("version"),
    // Whether a program of the image asks for CUPTI under the framework's name.
    flag("asks_for_cupti"),
    // Whether TensorBoard is in the same environment, and whether the plugin that shows profiles is.
    flag("tensorboard"),
    flag("has_plugin"),
    text("plugin"),
    // Whether the environment lets a daemon start profiles.
    flag("daemon"),
];

pub(super) const NVPERF: &[SubjectField] = &[
    // Who asks: a program, or any process that opens CUPTI by its soname.
    text("name"),
    // Where the library is, as the end of a sentence.
    text("words"),
    // Whether another process of the image gets it.
    flag("others_get_it"),
];

pub(super) const DEAD_WEIGHT: &[SubjectField] = &[word("weight", WEIGHT), number("bytes"), number("count")];

pub(super) const TOOL: &[SubjectField] = &[
    text("tool"),
    word("state", LOST_TOOL),
    // As the end of a sentence.
    text("why"),
];

pub(super) const LINK: &[SubjectField] = &[
    // The name that is asked for, and the version of symbols that the library which was found has not.
    text("name"),
    text("version"),
    // Whether something was found and cannot be loaded.
    flag("refused"),
    // Whether a file of its name lies where the search does not come to, and where.
    flag("in_image"),
    text("elsewhere"),
    // Whether a program does not start for want of it.
    flag("stops_program"),
    // How many ask for it, and how many do not load, as a sentence.
    text("count"),
    // The loader's words.
    text("words"),
];

pub(super) const BUILD_STEP: &[SubjectField] = &[
    // The package, or the paths that are copied.
    text("what"),
    word("brings", STEP_BRINGS),
    // The stage or image that is copied from.
    text("from"),
    // What would bring the library.
    text("instead"),
    // The CUDA of what is brought, and that of the stage.
    text("release"),
    text("cuda"),
    // The folder that no search path leads to.
    text("folder"),
    // Whether a search path leads to where the library would lie, were it among what is copied.
    flag("searched"),
    // Whether another step brings the library, and whether one may.
    flag("brought"),
    flag("open"),
    // Whether the file speaks of CUPTI.
    flag("concerned"),
];

pub(super) const SUPPRESSION: &[SubjectField] = &[
    word("target", TARGET),
    text("rule"),
    text("reason"),
    text("until"),
    text("place"),
    number("line"),
    word("state", STATE),
];
