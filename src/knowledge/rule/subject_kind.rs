//! The kinds of subject that rules speak of, and the fields that each has: one table.
//!
//! What an image says of them is filled in by `judge/rule/subject/`, which has a file per kind.

use serde::Deserialize;

use super::subject_field::{SubjectField, flag, number, phase, text, word};
use crate::knowledge::consumer_profile::{FailureImpact, RequestKind};
use crate::knowledge::dead_weight::WeightPurpose;

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

/// The table of kinds as a type. A row is a doc line, the variant, the name that rules use, and the fields in the order in
/// which a mistake in a rule lists them.
macro_rules! subject_kinds {
    ($($(#[$doc:meta])+ $kind:ident $name:literal [$($field:expr),* $(,)?])+) => {
        /// The kinds of subject.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
        pub enum SubjectKind {
            $($(#[$doc])+ #[serde(rename = $name)] $kind,)+
        }

        impl SubjectKind {
            /// All kinds, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// The name used in rules.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            /// The fields that a subject of this kind has.
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
        // Whether a copy, a link to none or a program that asks is there.
        flag("concerns_cupti"),
        // That of the dynamic loader, and whether the library is made for glibc alone.
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
    ]
    /// The copies of libcupti together, where there are several.
    Copies "copies" [number("count"), text("versions")]
    /// A link named as libcupti that leads nowhere.
    DanglingLink "dangling-link" [text("path"), text("target"), flag("dev_link")]
    /// A file or link whose name says another soname than the file has.
    Misnamed "misnamed" [text("path"), text("says"), text("soname")]
    /// Something that keeps libcupti, or a program that links it, from being loaded.
    Failure "failure" [
        text("object"),
        word("breaks", BREAKS),
        text("words"),
        // Whether all that is missing is a newer glibc, which one is needed and which one is there.
        flag("glibc"),
        text("glibc_needed"),
        text("glibc_here"),
        // Whether the C library of the image is musl.
        flag("musl"),
    ]
    /// A program that opens libcupti at run time and does not get it.
    Unserved "unserved" [
        text("name"),
        text("object"),
        text("wants"),
        text("words"),
        // That the library is nowhere in the image, or the loader's words; and what the program then does.
        text("cause"),
        text("fails"),
        word("breaks", IMPACT),
        // Whether another program of the same Python environment gets one.
        flag("others_served"),
        // Whether it is a package that no Python of the image has on its path.
        flag("unreachable"),
        // What is to be done about it, as far as the image shows it.
        text("cure"),
    ]
    /// A program that asks for libcupti and does not start, or a library that cannot be loaded, for want of something else.
    Start "start" [
        text("name"),
        text("object"),
        text("words"),
        // What is to be done about it, as far as the image shows it.
        text("cure"),
        word("asks", ASKS),
        // Whether a process is known that ends so; and whether it is that of the container's command.
        flag("process"),
        flag("own"),
    ]
    /// The container's own command, where it does not start.
    Command "command" [
        text("words"),
        text("cure"),
        // Whether it starts, and is a tool that starts nothing.
        flag("idle"),
    ]
    /// The programs of which only a run could tell by what name they open libcupti.
    Undecided "undecided" [
        // The objects, a few of many.
        text("names"),
        // Whether one of them is linked with the library.
        flag("linked"),
    ]
    /// Something that a phase needs, wants or forbids, and that is not so.
    Need "need" [
        phase("phase"),
        word("level", LEVEL),
        text("what"),
        text("why"),
        // Whether the program was built without it.
        flag("other_build"),
    ]
    /// A program that gets libcupti.
    Consumer "consumer" [
        text("name"),
        text("object"),
        word("asks", ASKS),
        text("wants"),
        word("required", IMPACT),
        text("path"),
        // Whether it imports symbols that the copy does not export, and which.
        flag("lacks_symbols"),
        text("symbols"),
        // Whether it imports functions of APIs that its copy exports and no longer has, and which these are.
        flag("calls_ended"),
        text("ended"),
        // Whether it gets another release than it was made for, and which.
        flag("shadowed"),
        flag("older"),
        text("gets"),
        text("meant"),
        text("meant_by"),
    ]
    /// Entries of `ld.so.cache` that are not as a fresh `ldconfig` would make them.
    LdCache "ld-cache" [
        // What is wrong, as the end of a sentence.
        text("words"),
        // Whether a fresh run of `ldconfig` makes the names found.
        flag("repaired_by_ldconfig"),
    ]
    /// A search path with an empty element.
    EmptyElement "empty-element" [text("of"), text("value"), text("working_dir")]
    /// Variables of the loader or the driver that the container's command sets, or may set.
    Environment "environment" [text("variables")]
    /// A library that a variable makes the driver or NVTX load, and that cannot be loaded.
    Injection "injection" [
        word("variable", INJECTION_VARIABLE),
        text("library"),
        // The loader's words.
        text("words"),
        // Whether nothing lies where the variable leads.
        flag("missing"),
    ]
    /// A stub of the driver's library that a search path leads to.
    Stub "stub" [
        text("path"),
        text("name"),
        word("by", STUB_BY),
        // Whether it has the soname of the driver's library: then programs get it instead.
        flag("is_soname"),
    ]
    /// Something of the GPU that the image tells the container runtime to leave out.
    Runtime "runtime" [
        word("variable", RUNTIME_VARIABLE),
        text("value"),
        word("lacks", LACKS),
        // What that means, as the end of a sentence.
        text("words"),
    ]
    /// The CUDA version that the image needs a driver for.
    Cuda "cuda" [
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
        // Whether `NVIDIA_VISIBLE_DEVICES` names an instance of a GPU that MIG has split.
        flag("mig"),
        // Whether it is a container that runs, whose host is known.
        flag("running"),
        // Whether a search path names the directory into which GKE mounts the driver.
        flag("names_nvidia_directory"),
    ]
    /// A known fault of the release of a CUPTI that may be used.
    ReleaseFault "release-fault" [
        text("path"),
        text("version"),
        // What fails, and what helps.
        text("what"),
        text("fix"),
        text("source"),
    ]
    /// A CUPTI that may be used, and a GPU that the run was asked about.
    Gpu "gpu" [
        text("path"),
        text("version"),
        // Its name or number as the user gave it, its compute capability and architecture.
        text("gpu"),
        text("capability"),
        text("architecture"),
        // Whether NVIDIA's toolkit of that CUDA supports the GPU, and which do.
        flag("supported"),
        text("releases"),
    ]
    /// The host of a container that runs.
    Host "host" [
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
    ]
    /// A framework that brings a profiler.
    Framework "framework" [
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
    ]
    /// A process that gets libcupti and not the library behind its counters.
    Nvperf "nvperf" [
        // Who asks: a program, or any process that opens CUPTI by its soname.
        text("name"),
        // Where the library is, as the end of a sentence.
        text("words"),
        // Whether another process of the image gets it.
        flag("others_get_it"),
    ]
    /// An installed package of which files are gone.
    PackageFiles "package-files" [
        word("manager", MANAGER),
        text("name"),
        text("version"),
        text("list"),
        // Those among its libraries and modules that are gone, those of them that are libraries, and all that it lists.
        number("missing"),
        number("libraries"),
        number("listed"),
        // Some of them, and what took them away, as the end of a sentence.
        text("names"),
        text("removed"),
        // Whether a program does not run for want of one.
        flag("needed"),
    ]
    /// What packages of a Python environment require and it does not have.
    Requirements "requirements" [
        word("state", REQUIREMENT_STATE),
        text("by"),
        text("what"),
        text("environment"),
        // Whether a program does not run for want of it, and whether an import may ask for one of them by its name.
        flag("breaks"),
        flag("modules"),
        // Whether the library itself is among them.
        flag("library"),
    ]
    /// Files of one kind of weight that nothing in the image is known to need.
    DeadWeight "dead-weight" [word("weight", WEIGHT), number("bytes"), number("count")]
    /// A profiling tool that was asked for and would not work.
    Tool "tool" [
        text("tool"),
        word("state", LOST_TOOL),
        // As the end of a sentence.
        text("why"),
    ]
    /// Profiling tools that were asked for together and keep each other out.
    Rivals "rivals" [text("tools"), text("why")]
    /// A library that objects of the image need and do not get.
    Link "link" [
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
    ]
    /// An instruction of a Dockerfile.
    BuildStep "build-step" [
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
    ]
    /// A suppression of the config that is over or was for nothing.
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

const MANAGER: &[&str] = &["pip", "deb", "conda"];
const REQUIREMENT_STATE: &[&str] = &["missing", "other-version"];
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
