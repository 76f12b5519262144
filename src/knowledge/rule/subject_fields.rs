//! The fields of each kind of subject, in the order in which a mistake in a rule lists them.

pub(super) const IMAGE: &[&str] = &[
    "status",
    "status_nvidia",
    "has_headers",
    "import_broken",
    // Whether a copy, a link to none or a program that asks is there.
    "concerns_cupti",
    // `glibc`, `musl` or `none`: the dynamic loader.
    "libc",
];

pub(super) const COPY: &[&str] = &[
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
    // Whether a module of Python may get it by what its code opens, which only a run could tell.
    "may_be_used",
    // Whether the search ended at it, and what it needs is missing.
    "reached",
    "library",
    "damaged",
    "damage",
    // Whether a search ends at it because it is damaged.
    "stops_search",
    // Whether the user of the image may not read it, and what keeps him from it.
    "denied",
    "denial",
    "machine",
    "image_machine",
    "wrong_machine",
    "image_status",
    // Whether CUPTI can be had in the image all the same, by dlopen or by a program that asks.
    "image_serves",
    // Whether the image has a dynamic loader.
    "has_loader",
    // Whether the loader searches its folder on some processors alone, where no other copy has its soname; and on which.
    "some_processors",
    "processors",
    // The version of the CUDA runtime beside it, and whether it is of another release or even major version.
    "cudart",
    "other_cudart",
    "other_cudart_major",
];

pub(super) const COPIES: &[&str] = &["count", "versions"];

pub(super) const DANGLING_LINK: &[&str] = &["path", "target", "dev_link"];

pub(super) const MISNAMED: &[&str] = &["path", "says", "soname"];

pub(super) const FAILURE: &[&str] = &[
    "object",
    // What that breaks: `cupti`, or `import`, `gpu` or `profiling` of a program.
    "breaks",
    "words",
    // Whether all that is missing is a newer glibc, which one is needed and which one is there.
    "glibc",
    "glibc_needed",
    "glibc_here",
    // Whether the C library of the image is musl.
    "musl",
];

pub(super) const UNSERVED: &[&str] = &[
    "name",
    "object",
    "wants",
    "words",
    // What breaks without it: `gpu` or `profiling`.
    "breaks",
    // Whether another program of the same Python environment gets one.
    "others_served",
    // Whether it is a package that no Python of the image has on its path.
    "unreachable",
];

pub(super) const START: &[&str] = &[
    "name", "object", "words", // What is to be done about it, as far as the image shows it.
    "cure",  // `needed` or `dlopen`.
    "asks",
    // Whether a process is known that ends so; and whether it is that of the container's command.
    "process", "own",
];

pub(super) const COMMAND: &[&str] = &[
    "words", "cure", // Whether it is so for sure: what is not in the image may be mounted.
    "sure",
];

pub(super) const UNDECIDED: &[&str] = &[
    // The objects, a few of many.
    "names", // Whether one of them is linked with the library.
    "linked",
];

pub(super) const NEED: &[&str] = &["phase", "level", "what", "why"];

pub(super) const CONSUMER: &[&str] = &[
    "name",
    "object",
    // `needed` or `dlopen`.
    "asks",
    "wants",
    // What breaks without it: `import`, `gpu` or `profiling`.
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
];

pub(super) const LD_CACHE: &[&str] = &[
    // What is wrong, as the end of a sentence.
    "words",
    // Whether a fresh run of `ldconfig` makes the names found.
    "repaired_by_ldconfig",
];

pub(super) const EMPTY_ELEMENT: &[&str] = &["of", "value", "working_dir"];

pub(super) const ENVIRONMENT: &[&str] = &[
    "variables",
    // The command or script that sets them.
    "by",
    // Whether their values can be told without running it.
    "known",
];

pub(super) const INJECTION: &[&str] = &[
    "variable", "library", // The loader's words.
    "words",   // Whether nothing lies where the variable leads.
    "missing",
];

pub(super) const STUB: &[&str] = &[
    "path",
    "name",
    // `LD_LIBRARY_PATH` or `ld.so.cache`.
    "by",
    // Whether it has the soname of the driver's library: then programs get it instead.
    "is_soname",
];

pub(super) const RUNTIME: &[&str] = &[
    "variable", "value", // `devices`, `compute` or `utility`.
    "lacks", // What that means, as the end of a sentence.
    "words",
];

pub(super) const CUDA: &[&str] = &[
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
];

pub(super) const FRAMEWORK: &[&str] = &[
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
];

pub(super) const NVPERF: &[&str] = &[
    // Who asks: a program, or any process that opens CUPTI by its soname.
    "name",
    // Where the library is, as the end of a sentence.
    "words",
    // Whether another process of the image gets it.
    "others_get_it",
];

pub(super) const BAGGAGE: &[&str] = &[
    // `profiling` or `toolkit`.
    "weight", "bytes", "count",
];

pub(super) const TOOL: &[&str] = &[
    "tool",  // `not-ready` or `not-applicable`.
    "state", // As the end of a sentence.
    "why",
];

pub(super) const LINK: &[&str] = &[
    // The name that is asked for, and the version of symbols that the library which was found has not.
    "name",
    "version",
    // Whether something was found and cannot be loaded.
    "refused",
    // Whether a file of its name lies where the search does not come to, and where.
    "in_image",
    "elsewhere",
    // Whether a program does not start for want of it.
    "stops_program",
    // How many ask for it, and how many do not load, as a sentence.
    "count",
    // The loader's words.
    "words",
];

pub(super) const BUILD_STEP: &[&str] = &[
    // The package, or the paths that are copied.
    "what",
    // `nothing`, `no-package`, `headers`, `missing`, `other-release` or `off-path`.
    "brings",
    // The stage or image that is copied from.
    "from",
    // What would bring the library.
    "instead",
    // The CUDA of what is brought, and that of the stage.
    "release",
    "cuda",
    // The folder that no search path leads to.
    "folder",
    // Whether a search path leads to where the library would lie, were it among what is copied.
    "searched",
    // Whether another step brings the library, and whether one may.
    "brought",
    "open",
    // Whether the file speaks of CUPTI.
    "concerned",
];

pub(super) const SUPPRESSION: &[&str] = &["rule", "reason", "until", "line", "state"];
