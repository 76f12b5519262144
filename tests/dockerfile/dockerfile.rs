//! The text of `dockerfile`: it matches the intent, passes a linter, and is written completely or not at all.

#[allow(dead_code, reason = "shared with the faults that tests choose")]
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::LazyLock;

use crate::hadolint::lint;
use crate::small_engine::engine_with;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::elf::Elf;
use testkit::layer::{Compression, Layer};
use testkit::oci::{Image, Layout};
use testkit::spec::Sources;

const SITE: &str = "opt/venv/lib/python3.11/site-packages";

/// The name of the devel image in the engine.
const DEVEL: &str = "docker-daemon:devel:1";

/// An engine with the fixture of a devel image, also under NVIDIA's name, and a variant with a shell.
static ENGINE: LazyLock<String> = LazyLock::new(|| {
    let devel = fixture_image("devel");
    let with_shell = devel.clone().layer("more", &system(), Compression::Gzip);
    engine_with([
        ("devel:1", devel.clone()),
        ("nvidia/cuda:12.4.1-devel-ubuntu22.04", devel),
        ("devel-with-shell:1", with_shell),
    ])
});

fn fixture_image(name: &str) -> Image {
    let sources = Sources::of_repository().unwrap();
    sources.images(&sources.fixtures()[name]).unwrap().remove(0)
}

pub fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("DOCKER_HOST", &*ENGINE)
        .output()
        .unwrap()
}

/// A fixture with more files, as the layout `image` in a directory.
pub fn fixture(name: &str, more: &Layer, config: &[(&str, &str)]) -> TempDir {
    let config = config.iter().map(|(key, value)| (*key, Value::from(*value)));
    fixture_with(name, more, config.collect())
}

/// The same, with JSON values in the config.
pub fn fixture_with(name: &str, more: &Layer, config: Vec<(&str, Value)>) -> TempDir {
    let mut image = fixture_image(name).layer("more", more, Compression::Gzip);
    for (key, value) in config {
        image = match value.as_object().filter(|_| key == "Env") {
            Some(variables) => variables
                .iter()
                .fold(image, |image, (key, value)| image.env(key, value.as_str().unwrap())),
            None => image.config(key, value),
        };
    }
    let mut layout = Layout::new();
    layout.add("1", &[image]);
    let folder = TempDir::new().unwrap();
    layout.write_to(&folder.path().join("image")).unwrap();
    folder
}

/// The files of a system that can run build steps.
pub fn system() -> Layer {
    let programs = [
        "usr/bin/sh",
        "usr/bin/ln",
        "usr/bin/mkdir",
        "usr/bin/rm",
        "usr/bin/cat",
        "usr/sbin/ldconfig",
    ];
    programs
        .iter()
        .fold(Layer::new(), |layer, program| layer.executable(program, "a program"))
}

/// An engine starts no container of an image without an entry for its user.
fn with_user(layer: Layer) -> Layer {
    layer.file("etc/passwd", "app:x:1000:1000::/:/bin/sh\n")
}

fn apt() -> Layer {
    system().executable("usr/bin/apt-get", "a program")
}

/// The Dockerfile for the image in the directory. A linter must accept it.
pub fn written(folder: &TempDir, arguments: &[&str]) -> String {
    let all = [&["dockerfile", "oci:image", "--base", "base:1"], arguments].concat();
    let output = run(folder.path(), &all);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*said), (Some(0), ""), "{arguments:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lint(&text), Vec::<String>::new(), "{text}");
    text
}

/// The error if no Dockerfile is written.
fn refused(folder: &TempDir, arguments: &[&str]) -> String {
    let all = [&["dockerfile", "oci:image", "--base", "base:1"], arguments].concat();
    let output = run(folder.path(), &all);
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(2), 0),
        "{arguments:?}"
    );
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn nvidias_package_is_taken_where_its_toolkit_is_and_the_repository_is_set_up_only_if_it_is_absent() {
    let without = fixture("no-cupti", &with_user(apt()), &[("User", "app")]);
    insta::assert_snapshot!("apt_repository", written(&without, &["--phase", "training"]));
    let list = "etc/apt/sources.list.d/cuda-ubuntu2204-x86_64.list";
    let with = fixture(
        "no-cupti",
        &apt().file(list, "deb https://example.org/compute/cuda/repos/ubuntu2204/x86_64 /\n"),
        &[],
    );
    insta::assert_snapshot!("apt", written(&with, &["--phase", "profiling"]));
}

#[test]
fn the_distributions_own_package_is_taken_where_it_is_of_the_wanted_cuda() {
    let sources = "Types: deb\nURIs: http://example.org/debian\nSuites: bookworm\nComponents: main\n";
    let image = fixture(
        "pip-torch",
        &apt()
            .file("etc/apt/sources.list.d/debian.sources", sources)
            .whiteout(format!("{SITE}/torch"))
            .whiteout(format!("{SITE}/nvidia")),
        &[],
    );
    let other = ["--phase", "training", "--via", "apt", "--cuda", "12.4"];
    let text = written(&image, &other);
    let why = "libcupti11.8 is for CUDA 11.8, but 12.4 is needed: you asked for it";
    assert!(
        text.contains(why) && text.contains("'cuda-cupti-12-4=12.4.*'"),
        "{text}"
    );
    insta::assert_snapshot!(
        "own",
        written(&image, &["--phase", "training", "--via", "apt", "--cuda", "11.8"])
    );
}

#[test]
fn dnf_installs_it_on_red_hats_systems() {
    let gone = "usr/local/cuda-12.4/targets/x86_64-linux/lib";
    let layer = system().executable("usr/bin/dnf", "a program");
    let layer = ["libcupti.so", "libcupti.so.12", "libcupti.so.2024.1.1"]
        .iter()
        .fold(layer, |layer, name| layer.whiteout(format!("{gone}/{name}")));
    let image = fixture("rhel-devel", &layer, &[]);
    insta::assert_snapshot!(
        "dnf",
        written(&image, &["--phase", "profiling", "--via", "dnf", "--cuda", "12.4"])
    );
}

#[test]
fn no_wheel_is_pinned_that_the_package_index_does_not_have() {
    let pip = system().file(format!("{SITE}/pip/__init__.py"), "");
    let image = fixture("pip-torch-broken", &pip, &[]);
    let listed = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/profiles/cupti/wheels.csv")).unwrap();
    let via_pip = |cuda| ["--phase", "inference", "--via", "pip", "--cuda", cuda];
    for cuda in ["12.0", "12.1", "12.3", "12.4", "12.5", "12.6", "12.8", "12.9"] {
        let text = written(&image, &via_pip(cuda));
        let words = text.split_whitespace().map(|word| word.trim_matches(['\'', ';']));
        let pins: Vec<_> = words.filter_map(|word| word.split_once("==")).collect();
        let [(package, version)] = pins[..] else {
            panic!("{cuda}: {pins:?}");
        };
        assert!(version.starts_with(&format!("{cuda}.")), "{cuda}: {version}");
        assert!(
            listed.contains(&format!("\n{package},{version},x86_64,")),
            "{cuda}: {version}"
        );
    }
    // Debian and Ubuntu have two of these releases; NVIDIA's wheels start with 11.7.
    for cuda in ["11.2", "11.5", "11.6"] {
        let words = format!("the package index has no nvidia-cuda-cupti-cu11 of CUDA {cuda} for x86_64");
        let said = refused(&image, &via_pip(cuda));
        assert!(said.contains(&words), "{said}");
    }
    let said = refused(&image, &via_pip("12.7"));
    assert!(said.contains("CUDA 12.7 does not exist"), "{said}");
}

#[test]
fn pip_installs_into_the_environment_that_asks() {
    let pip = system().file(format!("{SITE}/pip/__init__.py"), "");
    let image = fixture("pip-torch-broken", &pip, &[]);
    insta::assert_snapshot!("pip_inference", written(&image, &["--phase", "inference"]));
    insta::assert_snapshot!("pip", written(&image, &["--phase", "profiling"]));
}

#[test]
fn conda_installs_into_its_environment_and_its_other_libraries_stay_off_the_search_path() {
    let conda = system()
        .file("opt/conda/conda-meta/history", "")
        .executable("opt/conda/bin/conda", "a program");
    let image = fixture("no-cupti", &conda, &[]);
    insta::assert_snapshot!("conda", written(&image, &["--phase", "profiling", "--via", "conda"]));
}

#[test]
fn conda_installs_into_the_environment_of_the_program_that_asks_and_the_release_that_it_is_held_to() {
    let environment = "opt/conda/envs/train";
    let asks = system()
        .file("opt/conda/conda-meta/history", "")
        .executable("opt/conda/bin/conda", "a program")
        .file(
            format!("{environment}/conda-meta/cuda-version-12.6-h7480c83_3.json"),
            "{}",
        )
        .executable(
            format!("{environment}/bin/train"),
            Elf::executable()
                .needed("libcupti.so.12")
                .runpath("$ORIGIN/../lib")
                .build(),
        );
    let training = ["--phase", "training", "--via", "conda"];
    let text = written(&fixture("no-cupti", &asks, &[]), &training);
    let command = "/opt/conda/bin/conda install -y -p /opt/conda/envs/train -c conda-forge --override-channels 'cuda-cupti=12.6.*'";
    assert!(text.contains(command), "{text}");
    let because = "# release 12.6.80: cuda-version of /opt/conda/envs/train is 12.6\n";
    assert!(text.contains(because), "{text}");
    // micromamba is installed outside its environments.
    let outside = system()
        .executable("usr/local/bin/micromamba", "a program")
        .file(format!("{environment}/conda-meta/history"), "")
        .executable(
            format!("{environment}/bin/train"),
            Elf::executable()
                .needed("libcupti.so.12")
                .runpath("$ORIGIN/../lib")
                .build(),
        );
    let text = written(&fixture("no-cupti", &outside, &[]), &training);
    assert!(
        text.contains("/usr/local/bin/micromamba install -y -p /opt/conda/envs/train -c"),
        "{text}"
    );
}

#[test]
fn a_build_lists_no_program_that_links_the_driver_because_no_build_has_it() {
    let linked = || Elf::executable().needed("libcupti.so.12");
    let image = apt()
        .executable("usr/bin/plain", linked().build())
        .executable("usr/bin/driver", linked().needed("libcuda.so.1").build());
    let text = written(&fixture("no-cupti", &image, &[]), &["--phase", "training"]);
    let lists = |program: &str| text.contains(&format!("--list {program} 2>&1"));
    assert_eq!(
        (lists("/usr/bin/plain"), lists("/usr/bin/driver")),
        (true, false),
        "{text}"
    );
}

#[test]
fn files_are_copied_from_an_image_that_was_read_or_from_nvidias_devel_image() {
    let image = fixture("no-cupti", &system(), &[("User", "1000:1000")]);
    let copy = ["--phase", "profiling", "--from", DEVEL];
    insta::assert_snapshot!("copy", written(&image, &copy));
    insta::assert_snapshot!("devel", written(&image, &["--phase", "training", "--via", "copy"]));
}

#[test]
fn an_image_without_a_shell_is_proven_in_a_copy_of_it() {
    let image = fixture("missing-libgcc", &Layer::new(), &[]);
    let copy = ["--phase", "profiling", "--from", "docker-daemon:devel-with-shell:1"];
    insta::assert_snapshot!("shellless", written(&image, &copy));
    // If neither image has a shell, a third image provides one.
    let copy = ["--phase", "training", "--from", DEVEL];
    let text = written(&image, &copy);
    let proven = "FROM busybox:1.37 AS proof-training";
    assert!(text.contains(proven) && text.contains("COPY --from=cupti"), "{text}");
    // COPY would write through the link into the user's file, and without a shell nothing can remove the link.
    let link = Layer::new().symlink("usr/lib/libcupti.so.12", "/opt/mine/libcupti.so.12");
    let said = refused(&fixture("missing-libgcc", &link, &[]), &copy);
    assert!(
        said.contains("libcupti.so.12 is a link, and the image has no shell"),
        "{said}"
    );
    // The image has a shell but no rm, and the error says so.
    let some = ["sh", "ln", "mkdir", "cat"]
        .iter()
        .fold(Layer::new(), |layer, program| {
            layer.executable(format!("usr/bin/{program}"), "a program")
        });
    let some = some.symlink("usr/lib/libcupti.so.12", "/opt/mine/libcupti.so.12");
    let some = fixture("missing-libgcc", &some, &[]);
    let said = refused(&some, &copy);
    assert!(said.contains("the image has no rm to remove it;"), "{said}");
    // A CUPTI in the image only gets a name that the loader finds.
    let image = fixture("extras-only", &Layer::new(), &[]);
    insta::assert_snapshot!("shellless_place", written(&image, &["--phase", "training"]));
}

#[test]
fn files_in_the_image_are_led_to_and_an_empty_element_goes() {
    let image = fixture("extras-only", &system(), &[]);
    insta::assert_snapshot!("place", written(&image, &["--phase", "training"]));
    let colon = fixture("trailing-colon", &system(), &[]);
    let text = written(&colon, &["--phase", "training"]);
    assert!(
        text.contains("\nENV LD_LIBRARY_PATH=\"") && !text.contains(":\"\n"),
        "{text}"
    );
}

#[test]
fn for_inference_what_nothing_needs_is_left_behind() {
    let image = fixture("torch-with-triton", &with_user(system()), &[("User", "app")]);
    let text = written(&image, &["--phase", "inference"]);
    assert!(!text.contains("dpkg"), "{text}");
    insta::assert_snapshot!("inference", text);
    // A RUN cannot know which entries were valid before: Debian's small images list files that were never unpacked.
    let list = system().file("var/lib/dpkg/info/x.list", "/.\n");
    let text = written(&fixture("torch-with-triton", &list, &[]), &["--phase", "inference"]);
    assert!(text.contains("\n# dpkg's lists may still name these files;"), "{text}");
}

#[test]
fn an_image_that_serves_the_phase_gets_the_proof_alone() {
    let image = fixture("devel", &system(), &[]);
    insta::assert_snapshot!("nothing", written(&image, &["--phase", "profiling"]));
}

#[test]
fn one_file_has_a_target_for_each_phase_and_cloud_build_builds_and_audits_them() {
    let image = fixture("no-cupti", &apt(), &[]);
    let more = ["--all-phases", "--with-builder", "--from", DEVEL];
    let said = refused(&image, &more);
    assert!(said.contains("no apt-get"), "{said}");
    let said = refused(&image, &["--all-phases", "--with-builder"]);
    assert!(said.contains("no python3 on its PATH"), "{said}");
    let image = fixture("no-cupti", &apt().executable("usr/bin/python3", "a program"), &[]);
    insta::assert_snapshot!(
        "all_installed",
        written(&image, &["--all-phases", "--with-builder", "--cloudbuild"])
    );
    let yaml = fs::read_to_string(image.path().join("cloudbuild.yaml")).unwrap();
    insta::assert_snapshot!("cloudbuild", yaml);
    // Steps run on another machine, in the directory of the configuration.
    let place = image.path().join("Dockerfile.all");
    let absolute = ["--all-phases", "--cloudbuild", "--force", "-o", place.to_str().unwrap()];
    written(&image, &absolute);
    let yaml = fs::read_to_string(image.path().join("cloudbuild.yaml")).unwrap();
    assert!(yaml.contains("--file, \"Dockerfile.all\", ."), "{yaml}");
    let without: Vec<&str> = more.iter().filter(|word| **word != "--with-builder").copied().collect();
    insta::assert_snapshot!("all_copied", written(&image, &without));
}

#[test]
fn a_built_pytorch_finds_the_cupti_that_only_the_one_in_the_image_found() {
    let layer = apt().file("etc/os-release", "ID=ubuntu\nVERSION_ID=\"22.04\"\n");
    let image = fixture_with("pip-torch", &layer, vec![("Env", json!({"CUDA_VERSION": "12.4.1"}))]);
    let in_place = "#   in place: used, the files are in the image, but off the search path\n";
    let hidden = "of the image, which Python no longer imports";
    let text = written(&image, &["--all-phases", "--with-builder", "--cloudbuild", "--force"]);
    assert!(text.contains(in_place) && text.contains(hidden), "{text}");
    assert!(text.contains("# audit of the result for training: warn\n"), "{text}");
    let yaml = fs::read_to_string(image.path().join("cloudbuild.yaml")).unwrap();
    assert!(
        yaml.contains("--fail-on, error") && !yaml.contains("--fail-on, warning"),
        "{yaml}"
    );
    let text = written(&image, &["--all-phases"]);
    assert!(!text.contains(in_place) && !text.contains(hidden), "{text}");
    assert!(text.contains("# audit of the result for training: pass\n"), "{text}");
}

#[test]
fn names_from_an_image_mean_nothing_to_docker_and_the_shell() {
    let include = "usr/local/cuda-12.4/extras/CUPTI/include";
    let hostile = ["it's $(reboot) `x`", "a b", "line\nRUN reboot", "-rf"];
    let more = |folder: &str| {
        let file = |layer: Layer, name: &&str| layer.file(format!("{folder}/{name}"), "// header");
        hostile.iter().fold(system(), file)
    };
    let image = fixture("devel", &more(include), &[]);
    let text = written(&image, &["--phase", "inference"]);
    assert!(!text.contains("RUN reboot"), "{text}");
    // The directory above is removed as a whole. This one stays, so the names of the removed files are quoted.
    let stays = more(include).file(format!("{include}/../../../kept"), "");
    let image = fixture("devel", &stays.file(format!("{include}/kept.so"), ""), &[]);
    let text = written(&image, &["--phase", "inference"]);
    assert!(!text.contains("\nRUN reboot"), "{text}");

    for phase in ["inference", "training", "profiling"] {
        let image = fixture("hostile-names", &system(), &[]);
        let output = run(
            image.path(),
            &["dockerfile", "oci:image", "--base", "base:1", "--phase", phase],
        );
        let text = String::from_utf8(output.stdout).unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            text.chars().chain(said.chars()).all(|c| c == '\n' || !c.is_control()),
            "{text}{said}"
        );
        if output.status.success() {
            assert_eq!(lint(&text), Vec::<String>::new(), "{text}");
        } else {
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
    let image = fixture("no-cupti", &system(), &[("User", "app\nRUN reboot")]);
    let said = refused(&image, &["--phase", "training", "--via", "copy"]);
    assert!(
        said.contains("the user of the image cannot be written into a Dockerfile"),
        "{said}"
    );
}

#[test]
fn bad_input_is_one_sentence() {
    let image = fixture("no-cupti", &apt(), &[]);
    for (arguments, says) in [
        (&["--phase", "dreaming"][..], "no phase"),
        (&["--phase", "training", "--via", "dnf"], "the image has no dnf"),
        (&["--phase", "training", "--via", "pip"], "no Python environment"),
        (&["--phase", "training", "--cuda", "twelve"], "no version of CUDA"),
        (&["--phase", "training", "--cuda", "9.7", "--via", "conda"], "no conda"),
        (
            &["--phase", "training", "--from", "oci:image"],
            "oci:image has no name that FROM could take; name an image of a registry or an engine",
        ),
        (
            &["--phase", "training", "-o", "nowhere/Dockerfile"],
            "nowhere is no folder",
        ),
        (
            &["--phase", "training", "--base", "a b"],
            "cannot be written into a Dockerfile",
        ),
    ] {
        let named: &[&str] = if arguments.contains(&"--base") {
            &[]
        } else {
            &["--base", "base:1"]
        };
        let all = [&["dockerfile", "oci:image"], named, arguments].concat();
        let output = run(image.path(), &all);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says) && said.lines().count() == 1, "{said}");
    }
    for all in ["--cloudbuild", "--with-builder"] {
        let words = [
            "dockerfile",
            "oci:image",
            "--base",
            "base:1",
            "--phase",
            "training",
            all,
        ];
        let output = run(image.path(), &words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(2) && said.contains("cannot be used with"),
            "{said}"
        );
    }
    let other = ["--phase", "training", "--from", DEVEL, "--cuda", "11.8"];
    let said = refused(&image, &other);
    let why = "devel:1 has CUPTI of CUDA 12.4, but you asked for 11.8";
    assert!(said.contains(why), "{said}");
    let musl = fixture("musl", &Layer::new(), &[]);
    let said = refused(&musl, &["--phase", "training"]);
    let why = "oci:image is built on musl, and NVIDIA's libraries need glibc: choose a base image with glibc";
    assert_eq!(said, format!("error: {why}\n"));
}

#[test]
fn a_file_that_is_there_stays_unless_it_is_forced_and_none_is_left_by_halves() {
    let image = fixture("no-cupti", &apt(), &[]);
    let file = image.path().join("Dockerfile");
    fs::write(&file, "mine\n").unwrap();
    let said = refused(&image, &["--phase", "training", "-o", "Dockerfile"]);
    assert!(said.contains("is there already"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine\n");
    let said = refused(
        &image,
        &["--phase", "profiling", "--via", "pip", "-o", "Dockerfile", "--force"],
    );
    assert!(said.contains("no Python"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine\n");
    written(&image, &["--phase", "training", "-o", "Dockerfile", "--force"]);
    assert_eq!(lint(&fs::read_to_string(&file).unwrap()), Vec::<String>::new());
    let mut left: Vec<_> = fs::read_dir(image.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["Dockerfile", "image"]);
}

/// The header's prediction for an audit of the result.
fn predicted(text: &str) -> &str {
    let line = text.lines().find(|line| line.starts_with("# audit of the result for "));
    line.and_then(|line| line.split_once(": ")).unwrap().1
}

#[test]
fn inference_brings_nothing_that_nothing_links_and_what_is_lacking_is_named() {
    let image = fixture("missing-libgcc", &apt(), &[]);
    let text = written(&image, &["--phase", "inference"]);
    assert!(
        !text.contains("install") && !text.contains("COPY --from=cupti"),
        "{text}"
    );
    assert_eq!(predicted(&text), "pass", "the copy that nothing links goes: {text}");
    let said = refused(&image, &["--phase", "training"]);
    assert!(
        said.contains("libcupti needs libgcc_s.so.1, which the image lacks"),
        "{said}"
    );
}

#[test]
fn the_remains_of_a_cupti_say_of_which_release_it_was() {
    let gone = "usr/local/cuda-12.4/targets/x86_64-linux/lib/libcudart.so.12.4.127";
    let release = |fixture: &TempDir| {
        let text = written(fixture, &["--phase", "training", "--via", "apt"]);
        let line = text.lines().find(|line| line.starts_with("# release "));
        line.unwrap().to_owned()
    };
    let without =
        |name, more: Layer| fixture_with(name, &more.whiteout(gone), vec![("Env", json!({"CUDA_VERSION": ""}))]);
    insta::assert_snapshot!(
        [
            release(&without("dangling-link", apt())),
            release(&without("headers-only", apt())),
            release(&without("extras-only", apt())),
            release(&without(
                "no-cupti",
                apt().file("usr/local/cuda-12.2/extras/CUPTI/include/cupti.h", "// header")
            )),
        ]
        .join("\n")
    );
}

#[test]
fn names_that_lead_nowhere_or_to_another_release_go_and_no_folder_is_named_twice() {
    let copy = ["--phase", "profiling", "--from", DEVEL];
    let image = fixture("dangling-link", &system(), &[]);
    let text = written(&image, &copy);
    assert_eq!(predicted(&text), "pass");
    let gone = "rm -f /usr/local/cuda-12.4/targets/x86_64-linux/lib/libcupti.so.12\n";
    assert!(text.contains(gone) && !text.contains("lib/libcupti.so\n"), "{text}");
    // The source has another CUDA version than the image, so none of its files fit.
    let image = fixture("link-across-majors", &system(), &[]);
    let said = refused(&image, &copy);
    assert!(
        said.contains("would not pass its own audit: cupti-cudart-mismatch"),
        "{said}"
    );
    let hidden = system().file("opt/cupti/lib/libcupti.so.12", "no library");
    let image = fixture_with(
        "no-cupti",
        &hidden,
        vec![("Env", json!({"LD_LIBRARY_PATH": "/opt/cupti/lib:/opt/cupti"}))],
    );
    let text = written(&image, &copy);
    assert_eq!(text.matches("/opt/cupti/lib:").count(), 0, "{text}");
}

#[test]
fn what_is_the_users_stays_as_it_is() {
    let copy = ["--phase", "training", "--from", DEVEL];
    let mine = |more: Layer, config| written(&fixture_with("no-cupti", &more, config), &copy);
    let own_file = mine(
        system().file("etc/ld.so.conf.d/000-cupti.conf", "/opt/mine\n"),
        Vec::new(),
    );
    assert!(
        own_file.contains("echo /opt/cupti/lib > /etc/ld.so.conf.d/000-cupti-audit.conf;"),
        "{own_file}"
    );
    let no_include = mine(system().file("etc/ld.so.conf", "/opt/mine"), Vec::new());
    assert!(
        no_include.contains("{ echo /opt/cupti/lib; cat /etc/ld.so.conf || true; }"),
        "{no_include}"
    );
    let bare_path = mine(system(), vec![("Env", json!({"PATH": "/usr/bin:/bin"}))]);
    assert!(bare_path.contains("export PATH=\"$PATH:/usr/sbin\";"), "{bare_path}");
    let volume = mine(system(), vec![("Volumes", json!({"/opt": {}}))]);
    assert!(
        volume.contains("\"/usr/local/lib/cupti/\"]") && !volume.contains("/opt"),
        "{volume}"
    );
    let etc = mine(system(), vec![("Volumes", json!({"/etc/": {}}))]);
    assert!(
        !etc.contains("ldconfig;") && etc.contains("/etc is a volume of the image"),
        "{etc}"
    );
    let triggers = mine(system(), vec![("OnBuild", json!(["RUN make"]))]);
    assert!(triggers.contains("#   ONBUILD RUN make\n"), "{triggers}");
    for text in [&own_file, &no_include, &bare_path, &volume, &etc, &triggers] {
        assert_eq!(predicted(text), "pass", "{text}");
    }
    let with_space = system().file("opt/my tools/x", "");
    let spaces = fixture_with("extras-only", &with_space, vec![("WorkingDir", json!("/my work"))]);
    written(&spaces, &["--phase", "training"]);
}

#[test]
fn what_cannot_be_made_or_run_is_gone_around() {
    let copy = ["--phase", "training", "--from", DEVEL];
    let made = |more: Layer, config| {
        let text = written(&fixture_with("no-cupti", &more, config), &copy);
        assert_eq!(predicted(&text), "pass", "{text}");
        text
    };
    let file = made(system().file("opt/cupti", "mine"), Vec::new());
    assert!(file.contains("\"/usr/local/lib/cupti/\"]"), "{file}");
    // The user's own copy stays in its place.
    let own = Elf::library("libcupti.so.12").needed("libc.so.6").build();
    let own = made(system().file("opt/cupti/lib/libcupti.so.12", own), Vec::new());
    assert!(own.contains("\"/usr/local/lib/cupti/\"]"), "{own}");
    let nowhere = system()
        .symlink("opt/cupti", "/nowhere")
        .symlink("usr/local/lib/cupti", "..");
    let link = made(nowhere, Vec::new());
    assert!(
        link.contains("\"/usr/local/lib/cupti/\"]"),
        "a link to a folder is one: {link}"
    );
    let no_folder = Layer::new()
        .whiteout("etc/ld.so.conf.d")
        .file("etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n");
    let conf = made(
        system().entries().iter().cloned().fold(no_folder, Layer::entry),
        Vec::new(),
    );
    assert!(conf.contains("> /etc/ld.so.conf; "), "{conf}");
    let shell = made(system(), vec![("Shell", json!(["/bin/nowhere", "-c"]))]);
    let usual = shell.find("SHELL [\"/bin/sh\", \"-c\"]").unwrap();
    assert!(usual < shell.find("\nRUN").unwrap(), "{shell}");
    assert!(shell.ends_with("\nSHELL [\"/bin/nowhere\", \"-c\"]\n"), "{shell}");
    let script = "#!/bin/sh\nunset LD_LIBRARY_PATH\nexec \"$@\"\n";
    let unset = vec![
        ("Env", json!({"LD_LIBRARY_PATH": "/a"})),
        ("Entrypoint", json!(["/start.sh"])),
        ("Cmd", json!(["true"])),
    ];
    let wrapper = system()
        .executable("start.sh", script)
        .executable("usr/bin/true", Elf::executable().build());
    let wrapper = made(wrapper, unset);
    assert!(wrapper.contains("export LD_LIBRARY_PATH='';"), "{wrapper}");
    // The script changes directory, so the relative search path is below the new one.
    let script = "#!/bin/sh\ncd /srv\nexport LD_LIBRARY_PATH=lib\nexec \"$@\"\n";
    let gone = system()
        .executable("start.sh", script)
        .executable("usr/bin/true", Elf::executable().build());
    let command = vec![("Entrypoint", json!(["/start.sh"])), ("Cmd", json!(["true"]))];
    let gone = made(gone.dir("srv"), command);
    assert!(gone.contains("export LD_LIBRARY_PATH=/srv/lib;"), "{gone}");
}

#[test]
fn a_library_that_is_preloaded_is_proven_as_it_is_found() {
    let list = system().file(
        "etc/ld.so.preload",
        "/usr/local/cuda-12.4/extras/CUPTI/lib64/libcupti.so.12",
    );
    let by_file = written(&fixture("extras-only", &list, &[]), &["--phase", "training"]);
    let variable = vec![(
        "Env",
        json!({"LD_PRELOAD": "/usr/local/cuda-12.4/extras/CUPTI/lib64/libcupti.so.12"}),
    )];
    let by_variable = written(
        &fixture_with("extras-only", &system(), variable),
        &["--phase", "training"],
    );
    for text in [by_file, by_variable] {
        assert!(text.contains("before: pass"), "{text}");
        let asks = "LD_PRELOAD='/usr/local/cuda-12.4/extras/CUPTI/lib64/libcupti.so.12 '\"$name\"";
        assert!(text.contains(asks) && text.contains("object '$name' from"), "{text}");
    }
}

#[test]
fn files_of_the_source_that_the_image_has_are_not_copied_again() {
    let copy = ["--phase", "training", "--from", DEVEL];
    let image = fixture("extras-only", &system(), &[]);
    let text = written(&image, &copy);
    assert!(text.contains("#   in place: used") && !text.contains("COPY"), "{text}");
    // With `--via copy`, the user gets a copy.
    let text = written(&image, &[&copy[..], &["--via", "copy"]].concat());
    assert!(text.contains("COPY --from=cupti"), "{text}");
}

#[test]
fn a_name_that_holds_another_cupti_is_cured_before_it_stops_a_build() {
    let copy = ["--phase", "training", "--from", DEVEL];
    let old = Elf::library("libcupti.so.11.8").export("cuptiActivityEnable").build();
    let wrong = system().file("opt/a/libcupti.so.12", old);
    let env = vec![("Env", json!({"LD_LIBRARY_PATH": "/opt/a", "CUDA_VERSION": "12.4.1"}))];
    let text = written(&fixture_with("no-cupti", &wrong, env), &copy);
    assert_eq!(predicted(&text), "pass", "{text}");
}

#[test]
fn what_a_phase_has_no_use_for_goes_in_every_phase_where_that_is_asked_for() {
    let image = fixture(
        "torch-with-triton",
        &with_user(system()),
        &[("User", "app"), ("WorkingDir", "/my work")],
    );
    let text = written(&image, &["--phase", "training", "--drop"]);
    assert!(
        text.contains("COPY --from=full-training / /") && text.contains("WORKDIR \"/my work\""),
        "{text}"
    );
    let text = written(&image, &["--phase", "training"]);
    assert!(!text.contains("full-training"), "{text}");
}

#[test]
fn compilers_and_stubs_go_for_inference_only_where_that_is_asked_for() {
    let files = [
        "bin/nvcc",
        "lib64/stubs/libcuda.so",
        "bin/cuda-gdb",
        "bin/own",
        "lib64/own",
    ];
    let toolkit = files.iter().fold(system(), |layer, name| {
        layer.file(format!("usr/local/cuda-12.4/{name}"), "of the toolkit")
    });
    let image = fixture("no-cupti", &toolkit, &[]);
    let removed = |arguments: &[&str]| {
        let text = written(&image, &[&["--phase", "inference"], arguments].concat());
        let names = ["/bin/nvcc", "/lib64/stubs", "/bin/cuda-gdb", "/bin/own"];
        (
            names.map(|name| text.contains(&format!("cuda-12.4{name}"))),
            text.contains("--drop removes them"),
        )
    };
    assert_eq!(removed(&[]), ([false, false, true, false], true));
    assert_eq!(removed(&["--drop"]), ([true, true, true, false], false));
}

#[test]
fn ways_are_tried_in_the_order_in_which_they_are_asked_for() {
    let image = fixture("no-cupti", &apt(), &[]);
    let order = ["--phase", "training", "--via", "pip,copy,apt"];
    let text = written(&image, &order);
    assert!(
        text.contains("FROM nvidia/cuda:12.4.1-devel-ubuntu22.04 AS cupti"),
        "{text}"
    );
    let config = "via: [conda, copy]\n";
    fs::write(image.path().join("cupti-audit.yaml"), config).unwrap();
    let text = written(&image, &["--phase", "training"]);
    assert!(
        text.contains("#   conda: no, the image has no conda\n") && text.contains("-devel-"),
        "{text}"
    );
    let text = written(&image, &["--phase", "training", "--via", "apt"]);
    assert!(text.contains("cuda-cupti-12-4"), "{text}");
}

#[test]
fn the_sample_of_the_documentation_is_what_is_written() {
    let image = fixture("no-cupti", &system(), &[]);
    let devel = "docker-daemon:nvidia/cuda:12.4.1-devel-ubuntu22.04";
    let arguments = ["--phase", "training", "--from", devel];
    let text = written(&image, &arguments).replace("base:1", "trainer:1");
    // Skip the header: it has the sizes of the fixture's small files.
    let (_, text) = text.split_once("\n\n").unwrap();
    let page = include_str!("../../docs/dockerfile.md");
    assert!(page.contains(&format!("```dockerfile\n{text}```")), "{text}");
}

#[test]
fn a_bare_name_that_no_registry_gives_is_the_image_of_the_engine() {
    let audit = |image: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
            .args(["--no-cache", image])
            .env_clear()
            .env("DOCKER_HOST", &*ENGINE)
            .env("HTTPS_PROXY", "http://user:secret@127.0.0.1:9")
            .output()
            .unwrap();
        let lines = |bytes: Vec<u8>| {
            String::from_utf8(bytes)
                .unwrap()
                .lines()
                .take(2)
                .collect::<Vec<_>>()
                .join("\n")
        };
        (
            output.status.code().unwrap(),
            lines(output.stdout),
            lines(output.stderr),
        )
    };
    let (code, said, error) = audit("devel:1");
    assert_eq!((code, error.as_str()), (0, ""));
    assert!(
        said.starts_with("✓ CUPTI loads\ndocker-daemon:devel:1  linux/amd64  "),
        "{said}"
    );
    // With a scheme, only the registry is tried. The error names the failing proxy without its password.
    let refused = "error: docker://devel:1: cannot reach docker.io by the proxy 127.0.0.1:9 of HTTPS_PROXY: Connection refused \
                   (os error 111); check the proxy, or name docker.io in NO_PROXY";
    assert_eq!(audit("docker://devel:1"), (2, String::new(), refused.to_owned()));
}
