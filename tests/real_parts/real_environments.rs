//! Compares the audit of PyTorch, JAX and TensorFlow from `PyPI`, and of every file in their environments, with real
//! runs.
//!
//! The packages take gigabytes, so only `make test-all` downloads them and runs these tests; see
//! `tests/environments.sh`.

use cupti_audit::knowledge::file_interest::cupti_options;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::docker::Dockerd;
use crate::environment::{Environment, SITE, World};
use cupti_audit::facts::{self, GatherOptions, ImageFacts, ReadLayers, StartOverrides};
use cupti_audit::knowledge::Knowledge;
use image_linkage::loader::CpuLevel;
use image_source::{EngineEnvironment, EngineImage, EngineKind};
use image_source::{ImageSource, OpenRequest, OpenedLayers};
use serde_json::Value;

/// A request for CUPTI by a program.
struct Asks {
    /// The program's name in the audit.
    consumer: &'static str,
    /// The script for the real Python; `SITE` in it is the package folder.
    script: &'static str,
    /// The settings under which it runs.
    worlds: &'static [World],
}

/// A bare `import` suffices, because the module needs libcupti.
const TORCH: Asks = Asks {
    consumer: "PyTorch",
    script: "
try:
    import torch
except ImportError as error:
    failed(error)",
    worlds: &[World::Installed, World::WithoutCupti, World::OnLibraryPath],
};

/// proton replaces the loader's message about libcupti.so with its own; the script gets the original.
const PROTON: Asks = Asks {
    consumer: "Triton proton",
    script: "
import triton.profiler as proton
try:
    proton.start('/tmp/profile', backend='cupti')
except RuntimeError as error:
    # Its first call fails without a driver: by then it was opened.
    if not str(error).startswith('Failed to execute cuptiSubscribe'):
        assert str(error).startswith('Could not find `libcupti.so`'), error
        open_as('SITE/triton/_C/libproton.so', 'libcupti.so')",
    worlds: &[World::Installed, World::WithoutCupti],
};

/// Without a GPU the plug-in opens nothing by itself, so the script calls dlopen on its behalf.
const JAX: Asks = Asks {
    consumer: "JAX",
    script: "
import jax
jax.devices()
plugin = ctypes.CDLL('SITE/jax_plugins/xla_cuda12/xla_cuda_plugin.so')
open_as('SITE/jax_plugins/xla_cuda12/xla_cuda_plugin.so', 'libcupti.so.12')",
    worlds: &[World::Installed, World::WithoutCupti, World::OnLibraryPath],
};

/// The function that opens CUPTI is exported. It logs the loader's message for each name it tries.
const TENSORFLOW: Asks = Asks {
    consumer: "TensorFlow",
    script: "
import os, tempfile
os.environ['TF_CPP_VMODULE'] = 'dso_loader=1'
import tensorflow
library = ctypes.CDLL('SITE/tensorflow/libtensorflow_cc.so.2')
get = library._ZN3tsl8internal9DsoLoader17GetCuptiDsoHandleEv
get.argtypes, get.restype = [ctypes.c_void_p], None
status = (ctypes.c_uint64 * 8)()
with tempfile.TemporaryFile() as said:
    os.dup2(said.fileno(), 2)
    get(status)
    said.seek(0)
    words = said.read().decode().split('dlerror: ')
OK = (0, 1)
if status[0] not in OK:
    failed(words[1].splitlines()[0])",
    worlds: &[World::Installed, World::WithoutCupti, World::OnLibraryPath],
};

/// Linked with CUPTI, without a search path of its own, so it gets the copy that `import torch` mapped.
const RESILIENCY: Asks = Asks {
    consumer: "NVIDIA Resiliency Extension",
    script: "
import torch, nvrx_cupti_module",
    worlds: &[World::Installed],
};

/// It searches the driver before CUPTI.
const CUPTI_PYTHON: Asks = Asks {
    consumer: "CUPTI Python",
    script: "
ctypes.CDLL('/mnt/libcuda.so.1')
from cupti._internal import cupti
cupti._inspect_function_pointers()",
    worlds: &[World::Installed],
};

/// Its profiler opens CUPTI and aborts the process without it, so the script calls dlopen on its behalf.
const PADDLE: Asks = Asks {
    consumer: "PaddlePaddle",
    script: "
import paddle
open_as('SITE/paddle/base/libpaddle.so', 'libcupti.so')",
    worlds: &[World::Installed, World::Lent],
};

/// The same programs with pip's CUDA 13, which has all libraries in one folder.
const TORCH_13: Asks = Asks {
    worlds: &[World::Installed],
    ..TORCH
};
const JAX_13: Asks = Asks {
    script: "
import jax
jax.devices()
plugin = ctypes.CDLL('SITE/jax_plugins/xla_cuda13/xla_cuda_plugin.so')
open_as('SITE/jax_plugins/xla_cuda13/xla_cuda_plugin.so', 'libcupti.so.13')",
    worlds: &[World::Installed],
    ..JAX
};

/// Compares every file of an environment, and the results of its programs.
fn compare(name: &str, what: &str, asks: &[&Asks]) {
    let Some(root) = crate::support::environment(name) else {
        return;
    };
    if !crate::session::is_allowed() || !crate::support::have("gcc", "gcc") {
        return;
    }
    let environment = Environment::read(root);
    every_file(&environment, what);
    let cases = asks
        .iter()
        .flat_map(|asks| asks.worlds.iter().map(move |world| (asks, *world)));
    let mut agreed = 0;
    for (asks, world) in cases {
        let (real, call) = environment.real(world, &asks.script.replace("SITE", SITE));
        let ours = environment.ours(world, asks.consumer);
        assert_eq!(ours, real, "{} {world:?}", asks.consumer);
        println!("{} {world:?}: {real:?}, first call {call:?}", asks.consumer);
        agreed += 1;
    }
    println!("{agreed} of {agreed} requests for CUPTI agree with the real Python and {what}");
}

fn every_file(environment: &Environment, what: &str) {
    let facts = environment.facts(World::Installed);
    let context = &facts.contexts.as_is;
    let paths = crate::real_objects::elf_files(&environment.root, "/opt/venv");
    let real = crate::real_objects::real(&environment.root, context, &paths);
    let (agreed, different) = crate::real_objects::compare(&crate::real_objects::ours(context, &paths), &real);
    let all = paths.len();
    println!("tree and the real ld.so agree on {agreed} of {all} ELF files of {what}");
    assert!(different.is_empty(), "{different}");
}

#[test]
fn torch_gets_what_the_audit_says() {
    compare("torch", "PyTorch 2.5.1 with Triton", &[&TORCH, &PROTON]);
}

#[test]
fn jax_gets_what_the_audit_says() {
    compare("jax", "JAX 0.4.35", &[&JAX]);
}

#[test]
fn tensorflow_gets_what_the_audit_says() {
    compare("tensorflow", "TensorFlow 2.17.1", &[&TENSORFLOW]);
}

#[test]
fn torch_2_8_and_the_packages_of_nvidia_get_what_the_audit_says() {
    let asks = [&TORCH, &PROTON, &RESILIENCY, &CUPTI_PYTHON];
    compare("torch-2.8", "PyTorch 2.8.0 with NVIDIA's packages", &asks);
}

#[test]
fn torch_2_15_gets_what_the_audit_says() {
    // proton of Triton 3.9 checks for a GPU before it opens anything.
    compare(
        "torch-2.15",
        "PyTorch 2.15.0 with Triton 3.9",
        &[&TORCH_13, &CUPTI_PYTHON],
    );
}

#[test]
fn jax_for_cuda_12_gets_what_the_audit_says() {
    compare("jax-cuda12", "JAX 0.10.2 for CUDA 12", &[&JAX]);
}

#[test]
fn jax_for_cuda_13_gets_what_the_audit_says() {
    compare("jax-cuda13", "JAX 0.10.2 for CUDA 13", &[&JAX_13]);
}

#[test]
fn tensorflow_2_21_gets_what_the_audit_says() {
    compare("tensorflow-2.21", "TensorFlow 2.21.0", &[&TENSORFLOW]);
}

#[test]
fn paddle_gets_what_the_audit_says() {
    compare("paddle", "PaddlePaddle 2.6.2", &[&PADDLE]);
}

#[test]
fn torch_resolves_the_same_in_the_layers_of_a_real_engine() {
    let Some(root) = crate::support::environment("torch") else {
        return;
    };
    if !crate::session::is_allowed() {
        return;
    }
    let Some(engine) = Dockerd::start() else {
        return;
    };
    build(&engine, &root);
    let facts = facts_of(&engine, crate::real_objects::cpu(&root));
    let context = &facts.contexts.as_is;
    let paths = crate::real_objects::elf_files(&root, "/opt/venv");
    let real = crate::real_objects::real(&root, context, &paths);
    let (agreed, different) = crate::real_objects::compare(&crate::real_objects::ours(context, &paths), &real);
    println!(
        "tree of an image of a Docker Engine and the real ld.so agree on {agreed} of {} ELF files of PyTorch 2.5.1 in {} layers",
        paths.len(),
        facts.image.layers.len()
    );
    assert!(different.is_empty(), "{different}");
    let folder = format!("rootfs:{}", root.display());
    assert_eq!(
        report(&engine, &format!("docker-daemon:{IMAGE}")),
        report(&engine, &folder)
    );
}

const IMAGE: &str = "torch:2.5.1";

/// Layers above the environment; each undoes the one before.
const DOCKERFILE: &str = "FROM torch:base
RUN cp -a /opt/venv/lib/python3.11/site-packages/nvidia/cuda_cupti /opt/other && rm /opt/venv/pyvenv.cfg
RUN rm -r /opt/other
COPY pyvenv.cfg /opt/venv/
";

/// Imports the root file system as an image and builds on it. A build context would copy the environment twice.
fn build(engine: &Dockerd, root: &Path) {
    let mut tar = Command::new("tar")
        .arg("-C")
        .arg(root)
        .args(["-c", "."])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let imported = Command::new("docker")
        .args(["import", "-", "torch:base"])
        .env("DOCKER_HOST", engine.host())
        .stdin(tar.stdout.take().unwrap())
        .output()
        .unwrap();
    assert!(tar.wait().unwrap().success() && imported.status.success());
    let context = engine.dir().join("context");
    std::fs::create_dir(&context).unwrap();
    std::fs::write(context.join("Dockerfile"), DOCKERFILE).unwrap();
    std::fs::copy(root.join("opt/venv/pyvenv.cfg"), context.join("pyvenv.cfg")).unwrap();
    let context = context.display().to_string();
    engine.must(&["build", "--network=none", "-t", IMAGE, &context]);
}

fn facts_of(engine: &Dockerd, cpu: CpuLevel) -> ImageFacts {
    let source = EngineImage {
        reference: format!("docker-daemon:{IMAGE}"),
        name: IMAGE.to_owned(),
        brand: EngineKind::Docker,
        environment: EngineEnvironment {
            docker_host: Some(engine.host()),
            ..EngineEnvironment::default()
        },
    };
    let index = cupti_options();
    let request = OpenRequest {
        platform: None,
        index: &index,
        progress: &(),
        cache: None,
    };
    let opened = source.open(&request).unwrap();
    let OpenedLayers::Indexed(layers) = opened.layers else {
        panic!("an engine's layers are read while they pass");
    };
    let conditions = GatherOptions {
        environment: Vec::new(),
        cpu,
        limits: image_linkage::limits::Limits::default(),
        start: StartOverrides::default(),
    };
    let layers = layers.into_iter().map(Ok).collect();
    facts::gather_facts(opened.image, ReadLayers { layers }, &Knowledge::built_in(), &conditions)
}

/// The program's report without the fields that differ per image.
fn report(engine: &Dockerd, reference: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
        .args(["--format", "json", "--quiet", reference])
        .env("DOCKER_HOST", engine.host())
        .output()
        .unwrap();
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report.as_object_mut().unwrap().remove("image").unwrap();
    without_layers(&mut report);
    report
}

fn without_layers(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("layer");
            fields.values_mut().for_each(without_layers);
        }
        Value::Array(values) => values.iter_mut().for_each(without_layers),
        _ => {}
    }
}
