//! Both builders build every target of `--all-phases`, with and without PyTorch from source.
//!
//! A stand-in replaces PyTorch's sources: its build packs `torch` with or without libcupti, as PyTorch's own would.

use crate::builder::{BuildEngine, Builder};
use crate::builds::{Images, TORCH};
use crate::cupti_parts::object;

const LIB: &str = "usr/local/cuda-12.4/targets/x86_64-linux/lib";
const PROFILED: [&str; 2] = ["libcupti.so.12", "libnvperf_host.so"];

/// Files are copied, or installed in a separate stage, or in the image. Inference has nothing of CUPTI.
pub fn without_pytorch(images: &Images) {
    let builder = &images.builder;
    for name in ["has:1", "nvidia:1"] {
        images.need(name);
    }
    let from = ["--from", "docker-daemon:devel:1"];
    let all = ["builder", "training", "profiling", "inference"];
    for (image, arguments, expected) in [
        ("runtime:1", &from[..], &all[..]),
        // NVIDIA has no devel image for Debian.
        ("nvidia:1", &["--via", "apt"], &all[1..]),
        ("has:1", &from, &all),
    ] {
        let text = project_file(builder, image, arguments);
        assert_eq!(targets(&text), expected);
        for by in builder.builders() {
            for (target, names, lacks) in [
                ("training", &PROFILED[..1], &[][..]),
                ("profiling", &PROFILED, &[]),
                ("inference", &[], &PROFILED),
            ] {
                build(builder, by, &text, target);
                for (names, is_there) in [(names, true), (lacks, false)] {
                    for name in names {
                        let output = builder.run("made:1", &["/probe", "lazy", name]);
                        assert_eq!(output.status.success(), is_there, "{image} {name}: {output:?}");
                    }
                }
                assert_eq!(builder.audit("made:1", target).verdict, "pass", "{image} {target}");
                let (before, after) = (builder.size(image), builder.size("made:1"));
                let most = before + if target == "training" { 8_000_000 } else { 42_000_000 };
                assert!(after < most, "{image} {target} by {by:?}: {before} {after}");
                assert!(
                    target != "inference" || after <= before,
                    "{image} by {by:?}: {before} {after}"
                );
            }
            if expected.contains(&"builder") {
                build(builder, by, &text, "builder");
            }
        }
    }
}

/// Each phase imports the PyTorch that was built for it, and passes its audit.
pub fn with_pytorch(images: &Images) {
    let builder = &images.builder;
    sources(images);
    own_pytorch(builder);
    for name in ["has:1", "shellless:1", "own:1"] {
        images.need(name);
    }
    for (image, verdict, python_path) in [
        ("runtime:1", "pass", "/opt/pytorch"),
        ("has:1", "pass", "/opt/pytorch:/srv/my code"),
        ("shellless:1", "pass", "/opt/pytorch"),
        // Its PyTorch finds CUPTI by a search path of its own, and the built one does not.
        ("own:1", "warn", "/opt/pytorch"),
    ] {
        let text = project_file(builder, image, &["--with-builder", "--from", "docker-daemon:sources:1"]);
        let all = ["builder", "training", "profiling", "builder-without-cupti", "inference"];
        assert_eq!(targets(&text), all, "{text}");
        for by in builder.builders() {
            for target in all {
                // The build imports PyTorch.
                build(builder, by, &text, target);
                if target.starts_with("builder") {
                    continue;
                }
                assert_eq!(
                    config(builder, "made:1"),
                    with_path(config(builder, image), python_path),
                    "{text}"
                );
                if by == BuildEngine::Classic {
                    continue;
                }
                assert!(Builder::predicted(&text, target).starts_with(verdict), "{text}");
                assert_eq!(builder.audit("made:1", target).verdict, verdict, "{image} {target}");
            }
            if image == "has:1" {
                let file = format!("/{LIB}/libcupti.so.2024.1.1");
                let output = builder.run("made:1", &["/bin/ls", &file]);
                assert!(!output.status.success(), "inference keeps CUPTI: {output:?}");
            }
        }
    }
}

/// A build whose PyTorch is not what the phase needs fails.
pub fn unlike_pytorch(images: &Images) {
    let builder = &images.builder;
    sources(images);
    let text = project_file(
        builder,
        "runtime:1",
        &["--with-builder", "--from", "docker-daemon:sources:1"],
    );
    for (target, from, to, says) in [
        (
            "builder",
            "USE_KINETO=1",
            "USE_KINETO=0",
            "PyTorch was built without CUPTI",
        ),
        (
            "builder-without-cupti",
            "build/CMakeCache.txt",
            "",
            "PyTorch links CUPTI",
        ),
    ] {
        let broken = text.replace(from, to);
        assert_ne!(broken, text);
        let output = builder.build_by(BuildEngine::Classic, "broken:1", &broken, &["--target", target]);
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!output.status.success() && said.contains(says), "{says}: {said}");
    }
}

fn project_file(builder: &Builder, image: &str, arguments: &[&str]) -> String {
    let name = format!("docker-daemon:{image}");
    let output = builder.cupti_audit(&[&["dockerfile", &name, "--all-phases"], arguments].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{image}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The targets that the header lists.
fn targets(text: &str) -> Vec<&str> {
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("#   docker build --target "));
    lines.map(|rest| rest.split(' ').next().unwrap()).collect()
}

fn build(builder: &Builder, by: BuildEngine, text: &str, target: &str) {
    let output = builder.build_by(by, "made:1", text, &["--target", target]);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{target} by {by:?}: {text}\n{said}");
}

/// The variables, and the rest of the config.
fn config(builder: &Builder, image: &str) -> (Vec<String>, String) {
    let rest = "{{json .Config.Cmd}} {{.Config.User}} {{or .Config.WorkingDir \"/\"}} {{json .Config.Labels}} \
                {{json .Config.Env}}";
    let said = builder.engine.must(&["image", "inspect", "--format", rest, image]);
    let (rest, environment) = said.rsplit_once(" [").unwrap();
    let mut environment: Vec<String> = serde_json::from_str(&format!("[{environment}")).unwrap();
    environment.sort();
    (environment, rest.to_owned())
}

fn with_path((mut environment, rest): (Vec<String>, String), python_path: &str) -> (Vec<String>, String) {
    environment.retain(|variable| !variable.starts_with("PYTHONPATH="));
    environment.push(format!("PYTHONPATH={python_path}"));
    environment.sort();
    (environment, rest)
}

/// The devel image with stand-ins for apt-get, git, ensurepip and PyTorch's sources.
fn sources(images: &Images) {
    let builder = &images.builder;
    let sources = "standin/stand-in/sources";
    for (name, text) in [
        ("usr/local/bin/apt-get", "#!/bin/sh\n"),
        ("usr/local/bin/git", include_str!("pytorch/git")),
        ("usr/lib/python3.11/ensurepip/__init__.py", ""),
        (
            "usr/lib/python3.11/ensurepip/__main__.py",
            include_str!("pytorch/ensurepip.py"),
        ),
        (
            "stand-in/sources/pyproject.toml",
            include_str!("pytorch/pyproject.toml"),
        ),
        ("stand-in/sources/requirements.txt", ""),
        ("stand-in/sources/backend.py", include_str!("pytorch/backend.py")),
        ("stand-in/sources/init.py", include_str!("pytorch/init.py")),
    ] {
        builder.put(&format!("standin/{name}"), text);
    }
    builder.put(&format!("{sources}/with-cupti.so"), object(TORCH, &["LIB12"]));
    builder.put(
        &format!("{sources}/without-cupti.so"),
        object("int torch(void) { return 0; }", &[]),
    );
    lend_wheel(builder, "pip-24.3.1", "standin/stand-in/pip");
    images.need("sources:1");
}

/// The files of an image with pip's PyTorch of the same release, and its CUPTI.
fn own_pytorch(builder: &Builder) {
    let rpath = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../../nvidia/cuda_cupti/lib";
    builder.put("own/torch/lib/libtorch_cpu.so", object(TORCH, &[rpath, "LIB12"]));
    builder.put("own/torch/__init__.py", include_str!("pytorch/init.py"));
    let metadata =
        "Metadata-Version: 2.1\nName: torch\nVersion: 2.15.0\nRequires-Dist: nvidia-cuda-cupti-cu12 (==12.4.127)\n";
    builder.put("own/torch-2.15.0.dist-info/METADATA", metadata);
    lend_wheel(builder, "nvidia-cuda-cupti-cu12-12.4.127", "own");
}

fn lend_wheel(builder: &Builder, wheel: &str, folder: &str) {
    let to = builder.context().join(folder);
    std::fs::create_dir_all(&to).unwrap();
    let mut copy = std::process::Command::new("cp");
    copy.arg("-rT").arg(crate::cupti_parts::wheel(wheel)).arg(to);
    assert!(copy.status().unwrap().success());
}
