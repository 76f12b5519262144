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
use crate::facts_of_root::conditions;
use cupti_audit::facts::{self, ImageFacts, ReadLayers};
use cupti_audit::knowledge::Knowledge;
use image_linkage::loader::CpuLevel;
use image_source::{EngineEnvironment, EngineImage, EngineKind};
use image_source::{ImageSource, OpenRequest, OpenedLayers};
use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use testkit::parallel::in_parallel;
use testkit::seeds::is_asked;

/// The file `real_environments.yaml`, which explains its fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Environments {
    #[serde(rename = "shared")]
    _shared: IgnoredAny,
    environments: IndexMap<String, Packages>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Packages {
    what: String,
    asks: Vec<Asks>,
}

/// A request for CUPTI by a program.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asks {
    /// The program's name in the audit.
    consumer: String,
    script: String,
    worlds: Vec<World>,
}

/// Compares every file of an environment, and the results of its programs.
fn compare(name: &str, Packages { what, asks }: &Packages) {
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
        let ours = environment.ours(world, &asks.consumer);
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

/// `CUPTI_AUDIT_CASE=WORDS` compares the environments with these words in their name.
#[test]
fn programs_of_real_packages_get_what_the_audit_says() {
    let file: Environments = serde_saphyr::from_str(include_str!("real_environments.yaml")).unwrap();
    let environments: Vec<_> = file.environments.iter().filter(|(name, _)| is_asked(name)).collect();
    in_parallel(environments.len(), |number| {
        let (name, packages) = environments[number];
        compare(name, packages);
    });
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
    let conditions = conditions(Vec::new(), cpu);
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
