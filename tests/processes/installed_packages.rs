//! Tests the findings about packages with missing files or missing requirements, and the commands that fix them.

use crate::plain_image::image_of;
use cupti_audit::facts::{GatherOptions, ReadLayers, StartOverrides, gather_facts};
use cupti_audit::judge::audit::judge_image;
use cupti_audit::knowledge::Knowledge;
use cupti_audit::knowledge::file_interest::cupti_options;
use image_linkage::layer::{self, ExpectedBlob};
use image_linkage::loader::CpuLevel;
use image_source::ImageConfig;
use testkit::elf::Elf;
use testkit::layer::Layer;

const SITE: &str = "usr/local/lib/python3.11/site-packages";
const RULES: [&str; 3] = [
    "package-files-missing",
    "required-package-missing",
    "required-version-differs",
];

/// A Python and a loader without packages.
fn base() -> Layer {
    let loader = Elf::library("ld-linux-x86-64.so.2")
        .string("/lib/x86_64-linux-gnu/")
        .string("/usr/lib/x86_64-linux-gnu/")
        .string("/lib/")
        .string("/usr/lib/");
    Layer::new()
        .executable("lib64/ld-linux-x86-64.so.2", loader.build())
        .executable("usr/local/bin/python3.11", Elf::executable().build())
        .file("usr/local/lib/python3.11/os.py", "")
}

/// The findings about packages, each as `severity rule: message | packages to install`.
fn found(layers: &[Layer], phase: &str) -> Vec<String> {
    let base = base();
    let layers = [&base].into_iter().chain(layers).map(|layer| {
        let tar = layer.tar();
        Ok(layer::index_layer("x", &*tar, &ExpectedBlob::default(), &cupti_options()).unwrap())
    });
    let layers: Vec<_> = layers.collect();
    let options = GatherOptions {
        environment: Vec::new(),
        cpu: CpuLevel::V3,
        limits: image_linkage::limits::Limits::default(),
        start: StartOverrides::default(),
    };
    let knowledge = Knowledge::built_in();
    let image = image_of("packages", layers.len(), ImageConfig::default());
    let facts = gather_facts(image, ReadLayers { layers }, &knowledge, &options);
    let phases: Vec<String> = [phase]
        .iter()
        .filter(|phase| !phase.is_empty())
        .map(ToString::to_string)
        .collect();
    let audit = judge_image(facts, &knowledge, &phases, &[]);
    let findings = audit
        .findings
        .iter()
        .filter(|finding| RULES.contains(&finding.rule.as_str()));
    let said = findings.map(|found| {
        let repair = found.repair.as_ref().unwrap();
        let (manager, how) = (repair.manager.name(), if repair.is_listed { " again" } else { "" });
        let (severity, packages) = (found.severity.name(), repair.packages.join(" "));
        format!(
            "{severity} {}: {} | {manager}{how} {packages} in {}",
            found.rule, found.message, repair.environment
        )
    });
    said.collect()
}

fn lines_of(begin: &str, lines: &[&str], end: &str) -> String {
    let whole: Vec<String> = lines.iter().map(|line| format!("{begin}{line}{end}")).collect();
    whole.concat()
}

/// A distribution with these lines of metadata and these files. Files in `gone` are listed but not in the layer.
fn wheel(mut layer: Layer, name: &str, version: &str, requires: &[&str], files: &[&str], gone: &[&str]) -> Layer {
    let info = format!("{SITE}/{}-{version}.dist-info", name.replace('-', "_"));
    let lines = lines_of("Requires-Dist: ", requires, "\n");
    let record = lines_of("", files, ",sha256=x,1\n");
    for file in files.iter().filter(|file| !gone.contains(file)) {
        let name = file.rsplit('/').next().unwrap();
        let library = Elf::library(name).build();
        let content: &[u8] = if name.contains(".so") { &library } else { b"#" };
        layer = layer.file(format!("{SITE}/{file}"), content);
    }
    layer
        .file(
            format!("{info}/METADATA"),
            format!("Name: {name}\nVersion: {version}\n{lines}\n"),
        )
        .file(format!("{info}/RECORD"), record)
}

const CUPTI: &str = "nvidia/cuda_cupti/lib/libcupti.so.12";
const CUPTI_FILES: [&str; 3] = [
    CUPTI,
    "nvidia/cuda_cupti/lib/libnvperf_host.so",
    "nvidia/cuda_cupti/include/cupti.h",
];

/// A torch that links CUPTI and finds it in the adjacent wheel.
fn torch(layer: Layer, requires: &[&str]) -> Layer {
    let object = Elf::library("libtorch_cpu.so")
        .needed("libcupti.so.12")
        .rpath("$ORIGIN/../../nvidia/cuda_cupti/lib")
        .build();
    let record = "torch/__init__.py,,\ntorch/lib/libtorch_cpu.so,,\ntorch/include/a.h,,\ntorch/test/test_a.py,,\n\
                  torch/__pycache__/__init__.cpython-311.pyc,,\n../../../bin/torchrun,,\n";
    let lines = lines_of("Requires-Dist: ", requires, "\n");
    layer
        .file(format!("{SITE}/torch/__init__.py"), "#")
        .file(format!("{SITE}/torch/lib/libtorch_cpu.so"), object)
        .file(
            format!("{SITE}/torch-2.8.0.dist-info/METADATA"),
            format!("Name: torch\nVersion: 2.8.0\n{lines}"),
        )
        .file(format!("{SITE}/torch-2.8.0.dist-info/RECORD"), record)
}

fn cupti_wheel(layer: Layer, gone: &[&str]) -> Layer {
    wheel(layer, "nvidia-cuda-cupti-cu12", "12.8.90", &[], &CUPTI_FILES, gone)
}

#[test]
fn a_library_that_a_program_misses_is_an_error_and_the_layer_that_removed_it_is_named() {
    let whole = torch(cupti_wheel(Layer::new(), &[]), &[]);
    assert_eq!(found(std::slice::from_ref(&whole), "inference"), [""; 0]);
    let removed = Layer::new().whiteout(format!("{SITE}/nvidia"));
    let said = |removed: &str, count: &str| {
        format!(
            "error package-files-missing: nvidia-cuda-cupti-cu12 12.8.90 is installed, but {count} of its 2 libraries and \
             modules are not in the image (libcupti.so.12{}); {removed} | pip again nvidia-cuda-cupti-cu12==12.8.90 in /{SITE}",
            if count == "2" { ", libnvperf_host.so" } else { "" }
        )
    };
    assert_eq!(
        found(&[whole.clone(), removed], "inference"),
        [said("layer 3 removes them", "2")]
    );
    let opaque = Layer::new().opaque(format!("{SITE}/nvidia/cuda_cupti"));
    assert_eq!(found(&[whole, opaque], "training"), [said("layer 3 removes them", "2")]);
    let never = torch(cupti_wheel(Layer::new(), &[CUPTI]), &[]);
    let never_there =
        "no layer has them: they were removed in the step that installed the package, or not copied with it";
    assert_eq!(found(&[never], ""), [said(never_there, "1")]);
}

#[test]
fn files_that_people_remove_to_save_space_are_not_missed() {
    // Nothing requests CUPTI. Torch's tests, headers, bytecode and scripts may be missing.
    let nobody = cupti_wheel(Layer::new(), &CUPTI_FILES);
    assert_eq!(found(&[nobody], "profiling"), [""; 0]);
    let files = ["triton/a.py", "triton/b.py", "triton/tests/c.py", "triton/include/d.h"];
    let compiled = wheel(Layer::new(), "triton", "3.4.0", &[], &files, &files[1..]);
    let compiled = compiled.file(format!("{SITE}/triton/b.pyc"), "");
    assert_eq!(found(&[compiled], ""), [""; 0]);
    let unchecked = wheel(Layer::new(), "mine", "1", &[], &["mine/a.so"], &["mine/a.so"]);
    assert_eq!(found(&[unchecked], ""), [""; 0]);
}

#[test]
fn a_package_without_its_modules_is_a_warning_and_without_a_programs_object_an_error() {
    let files = ["triton/a.py", "triton/_C/libtriton.so", "triton/b.py"];
    let partly = wheel(Layer::new(), "triton", "3.4.0", &[], &files, &files[1..]);
    assert_eq!(
        found(&[partly], ""),
        [
            "warning package-files-missing: triton 3.4.0 is installed, but 2 of its 3 libraries and modules are not in the \
             image (libtriton.so, b.py); no layer has them: they were removed in the step that installed the package, or \
             not copied with it | pip again triton==3.4.0 in /usr/local/lib/python3.11/site-packages"
        ]
    );
    let torch = torch(Layer::new(), &[]);
    let gone = Layer::new().whiteout(format!("{SITE}/torch"));
    let found = found(&[torch, gone], "");
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("error package-files-missing: torch 2.8.0 is installed, but 3 of its 3"),
        "{found:?}"
    );
}

#[test]
fn metadata_that_an_upgrade_left_in_a_lower_layer_is_no_package() {
    let files = ["triton/old.py"];
    let old = wheel(Layer::new(), "triton", "3.1.0", &[], &files, &[]);
    let new = wheel(Layer::new(), "triton", "3.4.0", &[], &["triton/new.py"], &[]);
    let removed = Layer::new().whiteout(format!("{SITE}/triton/old.py"));
    assert_eq!(found(&[old, removed, new], ""), [""; 0]);
    let leftover = wheel(Layer::new(), "triton", "3.1.0", &[], &files, &files);
    let name = |entry: &testkit::layer::Entry| String::from_utf8_lossy(&entry.name).replace("triton-", "~riton-");
    let renamed = leftover.entries().iter().fold(Layer::new(), |layer, entry| {
        let mut renamed = entry.clone();
        renamed.name = name(entry).into_bytes();
        layer.entry(renamed)
    });
    assert_eq!(found(&[renamed], ""), [""; 0]);
}

#[test]
fn the_lists_of_dpkg_and_conda_tell_it_too() {
    let library = |name: &str| Elf::library(name).build();
    let dpkg = |list: &str, status: &str| {
        Layer::new()
            .dir("usr/lib/x86_64-linux-gnu")
            .symlink("lib", "usr/lib")
            .file("usr/lib/x86_64-linux-gnu/libcublas.so.12", library("libcublas.so.12"))
            .file("usr/lib/x86_64-linux-gnu/libmoved.so.1", library("libmoved.so.1"))
            .file("var/lib/dpkg/info/libcublas-12-4:amd64.list", list)
            .file(
                "var/lib/dpkg/diversions",
                "/usr/lib/libdiverted.so.1\n/usr/lib/x86_64-linux-gnu/libmoved.so.1\nother\n",
            )
            .file(
                "var/lib/dpkg/status",
                format!("Package: libcublas-12-4\nStatus: {status}\nArchitecture: amd64\nVersion: 12.4.5.8-1\n"),
            )
    };
    let there = "/.\n/lib\n/usr/share/doc/x\n/lib/x86_64-linux-gnu/libcublas.so.12\n/usr/lib/libdiverted.so.1\n";
    assert_eq!(found(&[dpkg(there, "install ok installed")], ""), [""; 0]);
    let gone = format!("{there}/usr/lib/x86_64-linux-gnu/libcublasLt.so.12\n");
    assert_eq!(found(&[dpkg(&gone, "deinstall ok config-files")], ""), [""; 0]);
    let tail = "no layer has them: they were removed in the step that installed the package, or not copied with it";
    assert_eq!(
        found(&[dpkg(&gone, "install ok installed")], ""),
        [format!(
            "warning package-files-missing: libcublas-12-4 12.4.5.8-1 is installed, but 1 of its 3 libraries and modules are \
             not in the image (libcublasLt.so.12); {tail} | deb again libcublas-12-4=12.4.5.8-1 in /"
        )]
    );
    let meta = r#"{"name": "libcublas", "version": "12.4.5.8", "files": ["lib/libcublas.so.12", "include/x.h"]}"#;
    let conda = |layer: Layer| layer.file("opt/conda/conda-meta/libcublas-12.4.5.8-0.json", meta);
    let whole = conda(Layer::new()).file("opt/conda/lib/libcublas.so.12", library("libcublas.so.12"));
    assert_eq!(found(&[whole], ""), [""; 0]);
    assert_eq!(
        found(&[conda(Layer::new())], ""),
        [format!(
            "warning package-files-missing: libcublas 12.4.5.8 is installed, but 1 of its 1 libraries and modules are not in \
             the image (libcublas.so.12); {tail} | conda again libcublas=12.4.5.8 in /opt/conda"
        )]
    );
}

/// The CUPTI requirement of PyTorch's wheel.
const PIN: &str = "nvidia-cuda-cupti-cu12==12.8.90; platform_system == \"Linux\" and platform_machine == \"x86_64\"";

#[test]
fn what_a_wheel_requires_and_the_environment_lacks_is_told_in_one_finding() {
    let requires = [
        PIN,
        "typing-extensions>=4.10.0",
        "sympy; python_version < \"3.9\"",
        "optree>=1; extra == 'optree'",
    ];
    let typing = |layer: Layer| {
        wheel(
            layer,
            "typing-extensions",
            "4.12.2",
            &[],
            &["typing_extensions.py"],
            &[],
        )
    };
    let whole = typing(torch(cupti_wheel(Layer::new(), &[]), &requires));
    assert_eq!(found(&[whole], "profiling"), [""; 0]);
    assert_eq!(
        found(&[torch(Layer::new(), &requires)], "inference"),
        [
            "error required-package-missing: torch 2.8.0 requires nvidia-cuda-cupti-cu12==12.8.90, typing-extensions>=4.10.0, \
          which the environment of /usr/local/bin/python3.11 does not have | pip nvidia-cuda-cupti-cu12==12.8.90 typing-extensions>=4.10.0 in /usr/local/lib/python3.11/site-packages"
        ]
    );
    // Python imports a module without metadata too, and the loader does not read metadata.
    let bare = torch(Layer::new(), &requires)
        .file(format!("{SITE}/typing_extensions.py"), "#")
        .file(format!("{SITE}/{CUPTI}"), Elf::library("libcupti.so.12").build());
    let note = found(&[bare], "");
    assert_eq!(note.len(), 1);
    assert!(
        note[0]
            .starts_with("note required-package-missing: torch 2.8.0 requires nvidia-cuda-cupti-cu12==12.8.90, which")
    );
    let without = torch(cupti_wheel(Layer::new(), &[]), &requires);
    assert!(found(&[without], "")[0].starts_with("warning required-package-missing: torch 2.8.0 requires typing-ext"));
}

#[test]
fn a_version_that_is_not_the_required_one_is_a_warning_where_it_is_cupti() {
    let other = wheel(
        Layer::new(),
        "nvidia-cuda-cupti-cu12",
        "12.6.80",
        &[],
        &CUPTI_FILES,
        &[],
    );
    let nccl = wheel(
        other,
        "nvidia-nccl-cu12",
        "2.28.3",
        &[],
        &["nvidia/nccl/lib/libnccl.so.2"],
        &[],
    );
    let image = torch(nccl.clone(), &[PIN, "nvidia-nccl-cu12==2.27.3"]);
    assert_eq!(
        found(&[image], "profiling"),
        [
            "warning required-version-differs: torch 2.8.0 requires nvidia-cuda-cupti-cu12==12.8.90 (12.6.80 is installed), \
          nvidia-nccl-cu12==2.27.3 (2.28.3 is installed) in the environment of /usr/local/bin/python3.11 | pip nvidia-cuda-cupti-cu12==12.8.90 nvidia-nccl-cu12==2.27.3 in /usr/local/lib/python3.11/site-packages"
        ]
    );
    let image = torch(nccl, &["nvidia-nccl-cu12==2.27.3", "nvidia-cuda-cupti-cu12>=12.1.105"]);
    assert!(found(&[image], "profiling")[0].starts_with("note required-version-differs"));
}

#[test]
fn an_extra_counts_where_a_package_that_it_alone_requires_is_installed() {
    let extra = |name: &str| format!("{name}; extra == \"and-cuda\"");
    let requires = [
        extra("nvidia-cuda-cupti-cu12==12.3.101"),
        extra("nvidia-cublas-cu12==12.3.4.1"),
    ];
    let requires: Vec<&str> = requires.iter().map(String::as_str).collect();
    let tensorflow = |layer: Layer| wheel(layer, "tensorflow", "2.17.1", &requires, &["tensorflow/a.py"], &[]);
    let cublas = |layer: Layer| {
        wheel(
            layer,
            "nvidia-cublas-cu12",
            "12.3.4.1",
            &[],
            &["nvidia/cublas/lib/libcublas.so.12"],
            &[],
        )
    };
    assert_eq!(found(&[tensorflow(Layer::new())], ""), [""; 0]);
    let partly = found(&[tensorflow(cublas(Layer::new()))], "");
    assert_eq!(partly.len(), 1);
    assert!(
        partly[0].starts_with(
            "note required-package-missing: tensorflow 2.17.1 requires nvidia-cuda-cupti-cu12==12.3.101, "
        )
    );
    // torch also requires it, so nothing shows that TensorFlow's extra was requested.
    let beside = torch(tensorflow(cublas(Layer::new())), &["nvidia-cublas-cu12==12.3.4.1"]);
    assert_eq!(found(&[beside], ""), [""; 0]);
    // PyTorch 2.15 certainly requests an extra of another package.
    let toolkit = wheel(
        Layer::new(),
        "cuda-toolkit",
        "13.2.2",
        &["nvidia-cuda-cupti==13.2.86.*; extra == \"cupti\""],
        &[],
        &[],
    );
    let asked = found(&[torch(toolkit, &["cuda-toolkit[cupti]==13.2.2"])], "");
    assert!(
        asked[0]
            .starts_with("error required-package-missing: cuda-toolkit 13.2.2 requires nvidia-cuda-cupti==13.2.86.*, ")
    );
}
