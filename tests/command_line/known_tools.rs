//! Each known program is detected by its file, and each tool applies only if its file is present. Builds that never
//! load CUPTI are not reported.

use std::fs;

use crate::support::run;
use serde_json::Value;
use testkit::elf::Elf;
use testkit::layer::Layer;

/// How a program's file requests the library.
enum Asks {
    Linked,
    Opens(&'static [&'static str]),
}

use Asks::{Linked, Opens};

/// Tools that use the image's CUPTI: their ids, and the file names in their own builds.
const USERS: [(&str, &str, Asks); 9] = [
    (
        "papi",
        "usr/lib/libpapi.so.7.2",
        Opens(&["libcupti.so", "libcupti.so.1"]),
    ),
    ("likwid", "usr/local/lib/liblikwid.so.5.5", Opens(&["libcupti.so"])),
    (
        "hpctoolkit",
        "opt/hpctoolkit/lib/hpctoolkit/libhpcrun.so",
        Opens(&["/lib64/libcupti.so", "libcupti.so"]),
    ),
    ("parcagpu", "opt/parca/libparcagpucupti.so", Opens(&[])),
    ("tau", "opt/tau/x86_64/lib/shared-cupti/libTAUsh-cupti.so", Linked),
    ("score-p", "opt/scorep/lib/libscorep_adapter_cuda_mgmt.so.5", Linked),
    ("extrae", "opt/extrae/lib/libcudampitrace-4.2.so", Linked),
    ("caliper", "usr/local/lib/libcaliper.so.2", Linked),
    ("nvbench", "usr/local/lib/libnvbench.so", Linked),
];

const INJECTED: &str = "CUDA_INJECTION64_PATH=/opt/parca/libparcagpucupti.so";

fn base() -> Layer {
    let loader = [
        "/lib/x86_64-linux-gnu/",
        "/usr/lib/x86_64-linux-gnu/",
        "/lib/",
        "/usr/lib/",
    ]
    .into_iter()
    .fold(Elf::library("ld-linux-x86-64.so.2"), Elf::string);
    Layer::new().executable("lib64/ld-linux-x86-64.so.2", loader.build())
}

/// CUPTI in a default directory, with the libraries for hardware counters.
fn with_cupti(layer: Layer) -> Layer {
    let functions = [
        "cuptiActivityEnable",
        "cuptiSubscribe",
        "cuptiProfilerInitialize",
        "cuptiPCSamplingEnable",
    ];
    let library = functions.into_iter().fold(Elf::library("libcupti.so.12"), Elf::export);
    let beside = ["libnvperf_host.so", "libnvperf_target.so", "libpcsamplingutil.so"];
    beside
        .into_iter()
        .fold(layer, |layer, name| {
            layer.file(format!("usr/lib/{name}"), Elf::library(name).build())
        })
        .file("usr/lib/libcupti.so.12", library.build())
        .symlink("usr/lib/libcupti.so", "libcupti.so.12")
}

/// The files of the tools. With `hold_names` they link or mention the library, as their CUPTI builds do.
fn with_tools(layer: Layer, hold_names: bool) -> Layer {
    USERS.iter().fold(layer, |layer, (_, path, asks)| {
        let library = Elf::library(path.rsplit('/').next().unwrap()).import_weak("dlopen");
        let library = match asks {
            Linked if hold_names => library.needed("libcupti.so.12"),
            Opens(names) if hold_names => names.iter().fold(library, Elf::string),
            _ => library,
        };
        layer.file(*path, library.build())
    })
}

fn with_distribution(layer: Layer, name: &str) -> Layer {
    let path = format!("usr/lib/python3/dist-packages/{name}-1.0.dist-info/METADATA");
    layer.file(path, format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"))
}

fn report(layer: &Layer) -> Value {
    run_on(layer, &["profilers", "--format", "json", "-e", INJECTED], 0)
}

fn run_on(layer: &Layer, arguments: &[&str], code: i32) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image.tar");
    fs::write(
        &path,
        crate::image_archive::classic(&["tools:1"], &[&layer.tar()]).tar(),
    )
    .unwrap();
    let image = format!("docker-archive:{}", path.display());
    let output = run(&[arguments, &[&*image]].concat());
    assert_eq!(
        output.status.code(),
        Some(code),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The state of a tool, and the reason.
fn state<'r>(report: &'r Value, tool: &str) -> (&'r str, String) {
    let tools = report["profilers"].as_array().unwrap();
    let here = &tools.iter().find(|entry| entry["id"] == tool).unwrap()["here"]["as-is"];
    (here["state"].as_str().unwrap(), here["because"].to_string())
}

#[test]
fn is_a_tool_ready_where_its_own_file_gets_cupti() {
    let report = report(&with_tools(with_cupti(base()), true));
    for (tool, path, _) in USERS {
        let (state, because) = state(&report, tool);
        assert_eq!(state, "ready", "{tool}: {because}");
        let file = path.rsplit('/').next().unwrap();
        assert!(because.contains(&format!("{file} gets ")), "{tool}: {because}");
    }
}

#[test]
fn is_a_tool_not_ready_where_its_own_file_gets_none() {
    let report = report(&with_tools(base(), true));
    for (tool, _, _) in USERS {
        let (state, because) = state(&report, tool);
        // These two search directories from an environment variable or computed by the process.
        let (expected, words) = match tool {
            "papi" | "hpctoolkit" => ("unknown", "is known only when it runs"),
            _ => ("not-ready", "cannot open shared object file"),
        };
        assert_eq!(state, expected, "{tool}: {because}");
        assert!(because.contains(words), "{tool}: {because}");
    }
}

#[test]
fn is_a_build_that_asks_for_nothing_no_matter() {
    // Such as libpapi7.0 and likwid in Debian 12, and libnvbench.so in the wheel cuda-bench 0.3.0.
    let report = report(&with_tools(base(), false));
    for (tool, _, _) in USERS.iter().filter(|(tool, _, _)| *tool != "parcagpu") {
        assert_eq!(state(&report, tool).0, "not-applicable", "{tool}");
    }
}

#[test]
fn do_tools_without_cupti_apply_only_where_they_are() {
    let tools = [
        ("py-spy", "ready"),
        ("scalene", "ready"),
        ("memray", "ready"),
        ("nvitop", "ready"),
        ("horovod", "ready"),
        ("oneflow", "ready"),
        ("nsight-python", "not-ready"),
    ];
    let absent = report(&base());
    let there = report(
        &tools
            .iter()
            .fold(base(), |layer, (tool, _)| with_distribution(layer, tool)),
    );
    for (tool, expected) in tools {
        assert_eq!(state(&absent, tool).0, "not-applicable", "{tool}");
        assert_eq!(state(&there, tool).0, expected, "{tool}");
    }
}

const LIBRARIES: &str = "usr/lib";

fn program() -> Elf {
    Elf::executable().interp("/lib64/ld-linux-x86-64.so.2")
}

fn with_library(layer: Layer, name: &str) -> Layer {
    let library = Elf::library(name).needed("libcupti.so.12");
    layer.file(format!("{LIBRARIES}/{name}"), library.build())
}

/// As in Debian: a wrapper script in `/usr/bin`, and the program in a private directory.
fn with_nvprof() -> Layer {
    with_cupti(base())
        .executable(
            "usr/bin/nvprof",
            "#!/bin/sh\nexec /usr/lib/nvidia-cuda-toolkit/bin/nvprof \"$@\"\n",
        )
        .executable(
            "usr/lib/nvidia-cuda-toolkit/bin/nvprof",
            program().needed("libcupti.so.12").build(),
        )
}

#[test]
fn is_nvprof_ready_only_with_both_libraries_that_it_injects() {
    let (cuda, acc) = ("libcuinj64.so.12.4", "libaccinj64.so.12.4");
    let both = [cuda, acc].into_iter().fold(with_nvprof(), with_library);
    assert_eq!(state(&report(&both), "nvprof").0, "ready");
    for (there, missing) in [
        (cuda, "libaccinj64.so: cannot open"),
        (acc, "libcuinj64.so: cannot open"),
    ] {
        let report = report(&with_library(with_nvprof(), there));
        let (state, because) = state(&report, "nvprof");
        assert_eq!(state, "not-ready", "{missing}");
        assert!(because.contains(missing), "{because}");
    }
}

#[test]
fn is_a_tool_ready_only_where_its_program_starts_and_all_of_its_package_is_there() {
    let folder = "opt/nvidia/nsight-systems/2024.1/target-linux-x64";
    let with_nsys = |nsys: Elf| base().executable(format!("{folder}/nsys"), nsys.build());
    let with_rest = |layer: Layer| {
        layer
            .executable(format!("{folder}/nsys-launcher"), program().build())
            .file(
                format!("{folder}/libToolsInjection64.so"),
                Elf::library("libToolsInjection64.so").build(),
            )
    };
    let script = || base().executable("opt/nvidia/nsight-compute/2024.1/ncu", "#!/bin/sh\n");
    let ncu = script().executable("opt/nvidia/nsight-compute/2024.1/target/x/ncu", program().build());
    for (layer, tool, expected, why) in [
        (with_rest(with_nsys(program())), "nsight-systems", "ready", "/nsys"),
        (
            with_nsys(program()),
            "nsight-systems",
            "not-ready",
            "nsys-launcher is missing",
        ),
        (
            with_rest(with_nsys(program().needed("libelf.so.1"))),
            "nsight-systems",
            "not-ready",
            "nsys does not start: libelf.so.1: cannot open",
        ),
        (ncu, "nsight-compute", "ready", "/ncu"),
        (
            script(),
            "nsight-compute",
            "not-ready",
            "the script ncu is there, but not the program",
        ),
    ] {
        let report = report(&layer);
        let (state, because) = state(&report, tool);
        assert_eq!(state, expected, "{because}");
        assert!(because.contains(why), "{because}");
    }
}

#[test]
fn is_cupti_python_ready_by_its_own_search_where_a_plain_dlopen_finds_nothing() {
    let site = "usr/lib/python3/dist-packages";
    let functions = ["cuptiActivityEnable", "cuptiSubscribe"];
    let library = functions.into_iter().fold(Elf::library("libcupti.so.13"), Elf::export);
    let python = base()
        .executable("usr/bin/python3.11", program().build())
        .file("usr/lib/python3.11/os.py", "");
    let module = Elf::library("cupti.cpython-311-x86_64-linux-gnu.so").import_weak("dlopen");
    let installed = with_distribution(python, "cupti-python")
        .file(format!("{site}/cupti/__init__.py"), "")
        .file(format!("{site}/cupti/_internal/__init__.py"), "")
        .file(
            format!("{site}/cupti/_internal/cupti.cpython-311-x86_64-linux-gnu.so"),
            module.build(),
        );
    let with_wheel = installed
        .clone()
        .file(format!("{site}/nvidia/cu13/lib/libcupti.so.13"), library.build());
    let report_of = report(&with_wheel);
    assert_eq!(
        state(&report_of, "cupti-python").0,
        "ready",
        "{:?}",
        state(&report_of, "cupti-python")
    );
    assert_eq!(state(&report_of, "own-tool").0, "not-ready");
    assert_eq!(state(&report(&installed), "cupti-python").0, "not-ready");
}

/// PyTorch that does not link CUPTI, with the given build flags, in an image in which every process finds a CUPTI.
fn with_torch(flags: &str, has_cuda: bool) -> Layer {
    let torch = "usr/lib/python3/dist-packages/torch/lib";
    let cpu = Elf::library("libtorch_cpu.so").string(format!("-fPIC {flags} -O2"));
    let layer = with_cupti(base()).file(format!("{torch}/libtorch_cpu.so"), cpu.build());
    if !has_cuda {
        return layer;
    }
    let cuda = Elf::library("libtorch_cuda.so");
    layer.file(format!("{torch}/libtorch_cuda.so"), cuda.build())
}

#[test]
fn does_training_fail_for_a_pytorch_that_was_built_without_cupti_and_for_no_other() {
    let always = "-DSYMBOLICATE_MOBILE_DEBUG_HANDLE";
    let absent = format!("-DUSE_KINETO -DLIBKINETO_NOCUPTI {always}");
    for (flags, has_cuda, tool, code) in [
        // PyPI wheels up to 1.13 link CUPTI statically.
        (&*format!("-DUSE_KINETO -DUSE_FBGEMM {always}"), true, "ready", 0),
        // conda-forge packages up to 2.6.
        (&*format!("-DUSE_FBGEMM {always}"), true, "not-ready", 1),
        (&*absent, true, "not-ready", 1),
        (&*absent, false, "not-applicable", 1),
        // Builds before 1.9 do not record it.
        ("-DUSE_FBGEMM", true, "unknown", 0),
    ] {
        let layer = with_torch(flags, has_cuda);
        assert_eq!(state(&report(&layer), "torch-profiler").0, tool, "{flags}");
        let audit = run_on(&layer, &["--phase", "training", "--format", "json"], code);
        let errors = audit["findings"].as_array().unwrap().iter();
        let errors: Vec<&Value> = errors.filter(|finding| finding["severity"] == "error").collect();
        let expected = if code == 1 { vec!["built-without-cupti"] } else { vec![] };
        let rules: Vec<&str> = errors.iter().map(|error| error["rule"].as_str().unwrap()).collect();
        assert_eq!(rules, expected, "{flags}");
        // Inference does not need CUPTI.
        run_on(&layer, &["--phase", "inference", "--format", "json"], 0);
    }
}

#[test]
fn is_the_driver_that_of_the_copy_which_a_program_gets() {
    let toolkit = Elf::library("libcupti.so.13").build();
    let own = Elf::library("libcupti.so.12").export("cuptiActivityEnable").build();
    let newer = base().file("usr/lib/libcupti.so.2025.3.1", toolkit);
    let program = program().needed("libcupti.so.12").rpath("/opt/app/lib");
    let with_program = newer
        .clone()
        .symlink("opt/app/lib/libcupti.so.12", "libcupti.so.2024.1.1")
        .file("opt/app/lib/libcupti.so.2024.1.1", own)
        .executable("opt/app/run", program.build());
    for (layer, cuda) in [(with_program, "CUDA 12.4 "), (newer, "CUDA 13.0 ")] {
        let report = run_on(&layer, &["--phase", "inference", "--format", "json"], 0);
        let findings = report["findings"].as_array().unwrap();
        let driver = findings
            .iter()
            .find(|finding| finding["rule"] == "minimum-driver")
            .unwrap();
        let said = driver["message"].as_str().unwrap();
        assert!(said.starts_with(cuda), "{said}");
    }
}

#[test]
fn are_two_tools_that_keep_each_other_out_told_only_where_both_are_asked_for_and_ready() {
    let (likwid, own) = (["--tool", "likwid"], ["--tool", "score-p"]);
    let told = |layer: &Layer, tools: &[&str], code: i32| {
        let report = run_on(layer, &[tools, &["--format", "json"]].concat(), code);
        let findings = report["findings"].as_array().unwrap().clone();
        let told = findings
            .into_iter()
            .find(|finding| finding["rule"] == "tools-exclude-each-other");
        told.map(|finding| finding["message"].as_str().unwrap().to_owned())
    };
    let there = with_tools(with_cupti(base()), true);
    let both = [&["--tool", "tau"][..], &own].concat();
    assert_eq!(
        told(&there, &both, 0).as_deref(),
        Some("only one of these tools can record a process at a time: Score-P; TAU")
    );
    assert_eq!(told(&there, &own, 0), None);
    // LIKWID reads counters without subscribing to callbacks.
    assert_eq!(told(&there, &[&likwid[..], &own].concat(), 0), None);
    assert_eq!(told(&with_tools(base(), true), &both, 1), None);
}
