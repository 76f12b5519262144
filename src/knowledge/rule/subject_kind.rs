//! The kinds of rule subjects and their fields, in one table.
//!
//! `judge/rule/subject/` fills in the values from an image, with a file per kind.

use serde::Deserialize;

use super::subject_field::{SubjectField, flag, number, phase, text, word};
use crate::knowledge::consumer_profile::{FailureImpact, RequestKind};
use crate::knowledge::dead_weight::WeightPurpose;

/// A question about an image or Dockerfile. Rules for other questions are not applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleQuestion {
    /// Whether an image serves its phases.
    Image,
    /// Whether each object of an image finds its dependencies.
    Links,
    /// Whether the steps of a Dockerfile install the library.
    BuildFile,
}

/// Turns the table of kinds into a type. A row has a doc line, the variant, the name in rules, and the fields in the
/// order that error messages list them.
macro_rules! subject_kinds {
    ($($(#[$doc:meta])+ $kind:ident $name:literal [$($field:expr),* $(,)?])+) => {
        /// The kinds of subject.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
        pub enum SubjectKind {
            $($(#[$doc])+ #[serde(rename = $name)] $kind,)+
        }

        impl SubjectKind {
            /// All kinds, in table order.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// The name used in rules.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            /// The fields of a subject of this kind.
            pub fn fields(self) -> &'static [SubjectField] {
                match self { $(Self::$kind => const { &[$($field),*] },)+ }
            }
        }
    };
}

subject_kinds! {
    /// The image as a whole.
    Image "image" [
        word("status", STATUS),
        word("status_nvidia", STATUS),
        flag("has_headers"),
        flag("import_broken"),
        // Whether it is part of a program, and no other asks for it.
        flag("built_in"),
        // Whether the image contains a copy, a broken link to one or a requesting program.
        flag("concerns_cupti"),
        // The C library of the dynamic loader, and whether the library requires glibc.
        word("libc", LIBC),
        flag("glibc_only"),
    ]
    /// A copy of libcupti.
    Copy "copy" [
        text("path"),
        text("directory"),
        text("soname"),
        text("version"),
        word("owner", OWNER),
        // Whether the copy is private to the tool that bundles it.
        flag("private"),
        flag("loadable"),
        flag("loadable_nvidia"),
        // Whether a program loads it.
        flag("used"),
        // Whether Python code may load it, which only a run can show.
        flag("may_be_used"),
        // Whether the search ended at it, but a dependency is missing.
        flag("reached"),
        flag("library"),
        flag("damaged"),
        text("damage"),
        // Whether a search stops at it because it is damaged.
        flag("stops_search"),
        // Whether the image's user cannot read it, and the reason.
        flag("denied"),
        text("denial"),
        text("machine"),
        text("image_machine"),
        flag("wrong_machine"),
        word("image_status", STATUS),
        // Whether the image provides CUPTI anyway, through dlopen or a requesting program.
        flag("image_serves"),
        // Whether the image has a dynamic loader.
        flag("has_loader"),
        // Whether the loader searches its folder only on some processors, without another copy of the same soname; and
        // on which.
        flag("some_processors"),
        text("processors"),
        // The version of the CUDA runtime next to it, and whether its release or even major version differs.
        text("cudart"),
        flag("other_cudart"),
        flag("other_cudart_major"),
    ]
    /// All copies of libcupti, if there are several.
    Copies "copies" [number("count"), text("versions")]
    /// A broken link with a name of libcupti.
    DanglingLink "dangling-link" [text("path"), text("target"), flag("dev_link")]
    /// A file or link whose name claims another soname than the file has.
    Misnamed "misnamed" [text("path"), text("says"), text("soname")]
    /// A failure to load libcupti, or a program that links it.
    Failure "failure" [
        text("object"),
        word("breaks", BREAKS),
        text("words"),
        // Whether only a newer glibc is missing, the required version, and the installed one.
        flag("glibc"),
        text("glibc_needed"),
        text("glibc_here"),
        // Whether the image's C library is musl.
        flag("musl"),
    ]
    /// A program that opens libcupti at run time but does not get it.
    Unserved "unserved" [
        text("name"),
        text("object"),
        text("wants"),
        text("words"),
        // That the library is not in the image, or the loader's message; and the program's reaction.
        text("cause"),
        text("fails"),
        word("breaks", IMPACT),
        // Whether another program in the same Python environment gets a copy.
        flag("others_served"),
        // Whether it is a package that is not on the path of any Python in the image.
        flag("unreachable"),
        // The fix, as far as the image shows it.
        text("cure"),
    ]
    /// A requesting program that does not start, or a library that cannot be loaded, because of another missing part.
    Start "start" [
        text("name"),
        text("object"),
        text("words"),
        // The fix, as far as the image shows it.
        text("cure"),
        word("asks", ASKS),
        // The effect on the program if the object cannot be loaded.
        word("breaks", IMPACT),
        // Whether a known process ends this way, and whether it runs the container's command.
        flag("process"),
        flag("own"),
    ]
    /// The container's own command, if it does not start.
    Command "command" [
        text("words"),
        text("cure"),
        // Whether it starts, but is a utility that starts nothing else.
        flag("idle"),
    ]
    /// Programs that open libcupti under a name known only at run time.
    Undecided "undecided" [
        // The first few objects.
        text("names"),
        // Whether one of them links the library.
        flag("linked"),
    ]
    /// Something that a phase needs, wants or forbids, but the image does not satisfy.
    Need "need" [
        phase("phase"),
        word("level", LEVEL),
        text("what"),
        text("why"),
        // Whether the program was built without it.
        flag("other_build"),
    ]
    /// A program that loads libcupti.
    Consumer "consumer" [
        text("name"),
        text("object"),
        word("asks", ASKS),
        text("wants"),
        word("required", IMPACT),
        text("path"),
        // Whether it imports symbols that the copy does not export, and their names.
        flag("lacks_symbols"),
        text("symbols"),
        // Whether it imports functions of removed APIs that its copy still exports, and the names of the APIs.
        flag("calls_ended"),
        text("ended"),
        // Whether it gets another release than it was made for, and which.
        flag("shadowed"),
        flag("older"),
        text("gets"),
        text("meant"),
        text("meant_by"),
    ]
    /// Entries of `ld.so.cache` that differ from a fresh `ldconfig` run.
    LdCache "ld-cache" [
        // The problem, as the end of a sentence.
        text("words"),
        // Whether running `ldconfig` makes the loader find the names.
        flag("repaired_by_ldconfig"),
    ]
    /// A search path with an empty element.
    EmptyElement "empty-element" [text("of"), text("value"), text("working_dir")]
    /// Loader or driver variables that the container's command sets, or may set.
    Environment "environment" [text("variables")]
    /// A library that a variable makes the driver or NVTX load, but that cannot be loaded.
    Injection "injection" [
        word("variable", INJECTION_VARIABLE),
        text("library"),
        // The loader's message.
        text("words"),
        // Whether the variable leads to no file.
        flag("missing"),
    ]
    /// A stub of the driver's library on a search path.
    Stub "stub" [
        text("path"),
        text("name"),
        word("by", STUB_BY),
        // Whether it has the soname of the driver's library, so that programs get it instead.
        flag("is_soname"),
    ]
    /// A part of the GPU driver that the image tells the container runtime to leave out.
    Runtime "runtime" [
        word("variable", RUNTIME_VARIABLE),
        text("value"),
        word("lacks", LACKS),
        // The consequence, as the end of a sentence.
        text("words"),
    ]
    /// The CUDA version that determines the driver requirement of the image.
    Cuda "cuda" [
        // The newest CUDA version in the image, and its source: a copy of CUPTI, a CUDA runtime, or the environment.
        text("version"),
        text("from"),
        // The driver released with it, or else the branch; that driver in words; and the branch for minor-version
        // compatibility.
        text("driver"),
        text("toolkit_driver"),
        text("branch"),
        // Whether the drivers for this version are known.
        flag("has_driver"),
        flag("has_cupti"),
        // The newest CUPTI and its file; the version in `NVIDIA_REQUIRE_CUDA`, and whether CUPTI is newer.
        text("cupti"),
        text("cupti_path"),
        text("required"),
        flag("newer_than_required"),
        // Whether `NVIDIA_VISIBLE_DEVICES` names a MIG instance.
        flag("mig"),
        // Whether this is a running container, whose host is known.
        flag("running"),
        // Whether a search path contains the directory where GKE mounts the driver.
        flag("names_nvidia_directory"),
    ]
    /// A known fault in the release of a CUPTI in use.
    ReleaseFault "release-fault" [
        text("path"),
        text("version"),
        // The failing part, and the workaround.
        text("what"),
        text("fix"),
        text("source"),
    ]
    /// A CUPTI in use or a framework that is newer than any release in the tables.
    NewRelease "new-release" [
        text("name"),
        text("version"),
        // The newest known release, and the date of the tables.
        text("newest"),
        text("date"),
    ]
    /// A CUPTI in use, and a requested GPU.
    Gpu "gpu" [
        text("path"),
        text("version"),
        // The user's name for it, its compute capability and its architecture.
        text("gpu"),
        text("capability"),
        text("architecture"),
        // Whether NVIDIA's toolkit for that CUDA version supports the GPU, and which releases do.
        flag("supported"),
        text("releases"),
    ]
    /// The code for a requested GPU in an object that a framework always needs, or in all other objects.
    GpuCode "gpu-code" [
        // The GPU in words.
        text("gpu"),
        word("state", GPU_CODE),
        // Whether a framework always needs the object, and its name.
        flag("needed"),
        text("framework"),
        // The object, or some of the objects.
        text("names"),
        number("count"),
        // The fix, as far as the image shows it.
        text("cure"),
    ]
    /// The host of a running container.
    Host "host" [
        // The container's newest CUDA, the host's driver, the driver released with that CUDA if known, and the first
        // branch that runs it.
        text("cuda"),
        text("driver"),
        text("least_driver"),
        text("needed_driver"),
        flag("has_driver"),
        // Whether the driver is as new as the CUDA version, or from a branch that runs any release of its major
        // version.
        flag("runs_cuda"),
        flag("older_than_cuda"),
        // Whether the image has a driver library for forward compatibility that is new enough, and its path.
        flag("has_compat"),
        text("compat"),
        flag("has_gpu"),
        // How the container toolkit gave the GPU.
        word("mode", INJECTION_MODE),
        word("counters", GRANTED),
        // The level of perf_event_paranoid, and whether it keeps this process from sampling CPUs.
        text("perf_level"),
        flag("refuses_perf"),
        // Whether the environment makes a framework register with a daemon, and whether one listens.
        flag("asks_daemon"),
        flag("has_daemon"),
    ]
    /// A framework that includes a profiler.
    Framework "framework" [
        // The distribution, such as `torch`.
        text("name"),
        text("version"),
        // Whether a program in the image requests CUPTI for the framework.
        flag("asks_for_cupti"),
        // Whether TensorBoard is in the same environment, and whether its profiler plugin is.
        flag("tensorboard"),
        flag("has_plugin"),
        text("plugin"),
        // Whether the environment lets a daemon start profiles.
        flag("daemon"),
    ]
    /// A process that loads libcupti but not the library for its counters.
    Nvperf "nvperf" [
        // The requester: a program, or any process that opens CUPTI by its soname.
        text("name"),
        // The location of the library, as the end of a sentence.
        text("words"),
        // Whether another process in the image gets it.
        flag("others_get_it"),
    ]
    /// An installed package with missing files.
    PackageFiles "package-files" [
        word("manager", MANAGER),
        text("name"),
        text("version"),
        text("list"),
        // The number of missing libraries and modules, of missing libraries alone, and of all listed files.
        number("missing"),
        number("libraries"),
        number("listed"),
        // Some of their names, and the reason for their absence, as the end of a sentence.
        text("names"),
        text("removed"),
        // Whether a program does not run without one of them.
        flag("needed"),
    ]
    /// A Python package whose libcupti a program gets, and some of whose other libraries another package replaced.
    ReplacedFiles "replaced-files" [text("name"), text("version"), text("names"), text("by")]
    /// Unmet requirements of packages in a Python environment.
    Requirements "requirements" [
        word("state", REQUIREMENT_STATE),
        text("by"),
        text("what"),
        text("environment"),
        // Whether a program does not run without it, and whether an import may request one of them by name.
        flag("breaks"),
        flag("modules"),
        // Whether the library itself is among them.
        flag("library"),
    ]
    /// Files of one weight category that nothing in the image is known to need.
    DeadWeight "dead-weight" [word("weight", WEIGHT), number("bytes"), number("count")]
    /// A requested profiling tool that would not work.
    Tool "tool" [
        text("tool"),
        word("state", LOST_TOOL),
        // The reason, as the end of a sentence.
        text("why"),
    ]
    /// Requested profiling tools that exclude each other.
    Rivals "rivals" [text("tools"), text("why")]
    /// A library that objects of the image need but do not get.
    Link "link" [
        // The requested name, and the symbol version that the found library lacks.
        text("name"),
        text("version"),
        // Whether a file was found but cannot be loaded.
        flag("refused"),
        // Whether a file of this name exists outside of the search path, and where.
        flag("in_image"),
        text("elsewhere"),
        // Whether a program does not start without it.
        flag("stops_program"),
        // The number of requesting objects, and of objects that fail to load, as a sentence.
        text("count"),
        // The loader's message.
        text("words"),
    ]
    /// An instruction of a Dockerfile.
    BuildStep "build-step" [
        // The package, the copied paths, what it removes, or the base image.
        text("what"),
        word("trap", STEP_TRAP),
        // The stage or image that it copies from, the index that it installs from, or the source of what it removes.
        text("from"),
        // The alternative that would install the library.
        text("instead"),
        // The CUDA version of the copied or installed files, and that of the stage.
        text("release"),
        text("cuda"),
        // The folder that is not on any search path, or where the library is instead.
        text("folder"),
        // Whether another step installs the library, and whether one may.
        flag("brought"),
        flag("open"),
        // Whether the file mentions CUPTI.
        flag("concerned"),
    ]
    /// An expired or unused suppression in the config.
    Suppression "suppression" [
        word("target", TARGET),
        text("rule"),
        text("reason"),
        text("until"),
        text("place"),
        number("line"),
        word("state", STATE),
    ]
}

impl SubjectKind {
    /// Whether rules for this kind apply to this question.
    pub fn answers(self, question: RuleQuestion) -> bool {
        match self {
            Self::Suppression => true,
            Self::Link => question == RuleQuestion::Links,
            Self::BuildStep => question == RuleQuestion::BuildFile,
            _ => question == RuleQuestion::Image,
        }
    }
}

const MANAGER: &[&str] = &["pip", "deb", "rpm", "conda"];
const REQUIREMENT_STATE: &[&str] = &["missing", "other-version"];
const STATUS: &[&str] = &["loadable", "unloadable", "headers-only", "absent"];
const LIBC: &[&str] = &["glibc", "musl", "none"];
const OWNER: &[&str] = &["pip", "deb", "rpm", "conda", "bundled", "unknown"];
const ASKS: &[&str] = &[RequestKind::Needed.name(), RequestKind::Dlopen.name()];
const IMPACT: &[&str] = &[
    FailureImpact::Import.name(),
    FailureImpact::Gpu.name(),
    FailureImpact::Profiling.name(),
];
/// The effect of a failure: on a copy for all programs, or on one program as its profile says.
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
const INJECTION_MODE: &[&str] = &["cdi", "legacy", "unknown"];
const GRANTED: &[&str] = &["granted", "refused", "unknown"];
/// The share of an object's containers with code for the GPU; or that only the driver's compiler can provide it.
const GPU_CODE: &[&str] = &["missing", "few", "only-ptx"];
const TARGET: &[&str] = &["finding", "assumption"];
const STATE: &[&str] = &["expired", "unused"];
const LOST_TOOL: &[&str] = &["not-ready", "not-applicable"];
const STEP_TRAP: &[&str] = &[
    "nothing",
    "left-out",
    "no-package",
    "stub",
    "headers",
    "missing",
    "other-release",
    "off-path",
    "removed",
    "no-source",
    "repeated-stage",
];
