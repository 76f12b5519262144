//! Compares the audit of real CUPTI files, in the layouts of real images, with the real `ld.so`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::chroot::Root;
use crate::cupti_parts::{cupti_12, object, patched, pip, program, wheel};
use crate::judge::{Judge, Verdict};
use cupti_audit::facts::{ImageFacts, World};
use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::IgnoredAny;
use testkit::layer::{Entry, Kind, Layer};
use testkit::parallel::in_parallel;
use testkit::spec::{EntrySpec, Sources};

/// The source of a probe: a program that opens its argument.
pub const PROBE: &str = include_str!("../support/probe.c");

/// The file `testdata/cupti-layouts.yaml`, which explains its fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Layouts {
    #[serde(rename = "shared")]
    _shared: IgnoredAny,
    layouts: IndexMap<String, Layout>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Layout {
    #[serde(default)]
    env: IndexMap<String, String>,
    #[serde(default = "top")]
    working_dir: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Step {
    Ldconfig,
    InstallDeb,
    #[serde(untagged)]
    Add(IndexMap<String, Content>),
}

/// What lies at a path.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Content {
    Pip(String),
    File(String),
    Cut(usize),
    Patched(Vec<String>),
    Object(Object),
    Probe(Vec<String>),
    #[serde(untagged)]
    Made(EntrySpec),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    c: String,
    #[serde(default)]
    link: Vec<String>,
    #[serde(default)]
    patchelf: Vec<String>,
}

fn top() -> String {
    "/".to_owned()
}

impl Content {
    fn add_to(&self, layer: Layer, name: &str, sources: &Sources) -> Layer {
        match self {
            Self::Pip(name_of_wheel) => pip(layer, name_of_wheel, name),
            Self::File(path) => layer.file(name, std::fs::read(wheel(path)).unwrap()),
            Self::Cut(bytes) => layer.file(name, cupti_12(CUPTI).split_at(*bytes).0),
            Self::Patched(words) => layer.file(name, patched(&cupti_12(CUPTI), &texts(words))),
            Self::Object(made) => {
                let linked = object(&made.c, &texts(&made.link));
                let is_changed = !made.patchelf.is_empty();
                let changed = is_changed.then(|| patched(&linked, &texts(&made.patchelf)));
                layer.file(name, changed.unwrap_or(linked))
            }
            Self::Probe(words) => layer.executable(name, program(PROBE, &texts(words))),
            Self::Made(entry) => sources.add_entry(layer, name, entry).unwrap(),
        }
    }
}

const CUPTI: &str = "libcupti.so.12";

fn texts(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn the_audit_agrees_with_the_real_loader_in_every_layout() {
    if !crate::cupti_parts::are_there() {
        return;
    }
    let probe = program(PROBE, &[]);
    let Layouts { layouts, .. } = serde_saphyr::from_str(include_str!("../../testdata/cupti-layouts.yaml")).unwrap();
    let sources = Sources::of_repository().unwrap();
    let compared = in_parallel(layouts.len(), |number| compare(&layouts[number], &probe, &sources));
    let compared: BTreeMap<_, _> = layouts.keys().zip(compared).collect();
    let (mut agreed, mut questions, mut wrong) = (0, 0, Vec::new());
    let mut said = String::new();
    for (name, (verdict, says)) in &compared {
        questions += verdict.questions;
        agreed += usize::from(verdict.differences.is_empty());
        let differs = |difference| format!("{name}: {difference}");
        wrong.extend(verdict.differences.iter().map(differs));
        writeln!(said, "{name}\n{says}\n").unwrap();
    }
    println!(
        "{agreed} of {} layouts agree with the real loader, in {questions} questions",
        layouts.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    insta::assert_snapshot!(said);
}

fn compare(layout: &Layout, probe: &[u8], sources: &Sources) -> (Verdict, String) {
    let mut root = Root::new(probe);
    for step in &layout.steps {
        match step {
            Step::Add(contents) => {
                let add = |layer, (path, content): (&String, &Content)| content.add_to(layer, &path[1..], sources);
                root.add(&contents.iter().fold(Layer::new(), add));
            }
            Step::Ldconfig => root.run(&["/sbin/ldconfig"]),
            Step::InstallDeb => install(&mut root),
        }
    }
    // Some layouts fill this environment's package folder. Without `pyvenv.cfg` no Python searches it.
    let venv = "home = /usr/bin\ninclude-system-site-packages = false\n";
    root.add(
        &Layer::new()
            .file("opt/venv/pyvenv.cfg", venv)
            .symlink("opt/venv/bin/python3", "/usr/bin/python3"),
    );
    let mut verdict = Verdict::default();
    let env: Vec<_> = layout.env.iter().map(|(key, value)| (&**key, &**value)).collect();
    let facts = crate::facts_of_root::facts(&root, &layout.working_dir, &env, &[]);
    let compare = |root: &Root, world: World, verdict: &mut Verdict| {
        Judge {
            root,
            env: &env,
            working_dir: &layout.working_dir,
        }
        .compare(&facts, world, verdict);
    };
    compare(&root, World::AsIs, &mut verdict);
    root.run(&["/sbin/ldconfig"]);
    compare(&root, World::Nvidia, &mut verdict);
    (verdict, said(&facts))
}

fn install(root: &mut Root) {
    root.lend(&crate::cupti_parts::deb(), "libcupti.deb");
    root.run(&[
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
        "/usr/bin/dpkg",
        "--log=/dev/null",
        "-i",
        "/libcupti.deb",
    ]);
    std::fs::remove_file(root.path("libcupti.deb")).unwrap();
}

/// A summary of the facts: the verdict of a plain dlopen, then each copy and each consumer.
fn said(facts: &ImageFacts) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut lines = vec![format!(
        "{} / {}",
        facts.answers.status.as_is.name(),
        facts.answers.status.nvidia.name()
    )];
    for copy in &facts.answers.copies {
        let version = copy.version.as_ref().map_or("?", |(version, _)| version);
        let owner = [copy.owner.kind.name(), " ", &copy.owner.name].concat();
        lines.push(format!(
            "{} {version}, {}, layer {}",
            copy.real_path,
            owner.trim_end(),
            copy.layer
        ));
    }
    for consumer in &facts.answers.consumers {
        let gets = |world| {
            let answer = &consumer.outcome.get(world).answer;
            match answer.file() {
                Some(file) => format!("{} by {}", text(&file.path), file.how.name()),
                None => answer.outcome().name().to_owned(),
            }
        };
        let (as_is, nvidia) = (gets(World::AsIs), gets(World::Nvidia));
        let both = if as_is == nvidia {
            as_is
        } else {
            format!("{as_is} / {nvidia}")
        };
        lines.push(format!("{}: {both}", consumer.name));
    }
    lines.join("\n")
}

/// Runs its arguments in the root file system `$ROOT`, in a new mount namespace. If set, `$DRIVER` is the host's driver
/// version, which the kernel module shows in `/proc/driver`, and `$GPU` is the device.
const CONTAINER: &str = r#"
set -e
mkdir -p "$ROOT/proc" "$ROOT/dev" "$ROOT/mnt/data"
mount -t proc proc "$ROOT/proc"
if [ -n "$DRIVER" ]; then
  mount -t tmpfs driver "$ROOT/proc/driver"
  mkdir "$ROOT/proc/driver/nvidia"
  echo "NVRM version: NVIDIA UNIX x86_64 Kernel Module  $DRIVER  Release Build" > "$ROOT/proc/driver/nvidia/version"
  echo 'RmProfilingAdminOnly: 1' > "$ROOT/proc/driver/nvidia/params"
fi
mount -t tmpfs dev "$ROOT/dev"
mknod -m 666 "$ROOT/dev/null" c 1 3
if [ -n "$GPU" ]; then touch "$ROOT/dev/nvidia0"; fi
mount --bind "$ROOT/srv/library" "$ROOT/mnt/data"
exec chroot "$ROOT" /usr/bin/env -i "$@"
"#;

/// A container of `running_containers.yaml`, which explains the fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct VerifiedContainer {
    driver: String,
    gpu: String,
    environment: String,
    user: Vec<String>,
    phase: String,
    errors: Vec<String>,
    probe: String,
}

impl Default for VerifiedContainer {
    fn default() -> Self {
        Self {
            driver: "570.86.15".to_owned(),
            gpu: "0".to_owned(),
            environment: "LD_LIBRARY_PATH=/opt/cupti".to_owned(),
            user: Vec::new(),
            phase: "training".to_owned(),
            errors: Vec::new(),
            probe: "/opt/cupti/libcupti.so.12".to_owned(),
        }
    }
}

/// The exit code, the rules with errors, and the output of the probe that `verify` started.
fn verified(root: &Root, container: &VerifiedContainer) -> (i32, Vec<String>, String) {
    let mut words = vec![&*container.environment];
    words.extend(texts(&container.user));
    words.extend(["/cupti-audit", "verify", "-q", "--phase", &container.phase, "--anyway"]);
    words.extend(["--format", "json", "--", "/probe", "now", "libcupti.so.12"]);
    let mut command = std::process::Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "bash", "-c", CONTAINER, "bash"])
        .args(words)
        .env("ROOT", root.path(""))
        .env("DRIVER", &container.driver)
        .env("GPU", &container.gpu);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let (report, probe) = said.split_once('\n').unwrap();
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let errors = findings.filter(|finding| finding["severity"] == "error");
    let rules = errors.map(|finding| finding["rule"].as_str().unwrap().to_owned());
    let code = i32::try_from(report["exit_code"].as_i64().unwrap()).unwrap();
    (
        code,
        rules.collect(),
        probe.lines().next().unwrap_or_default().to_owned(),
    )
}

#[test]
fn a_running_container_is_told_what_its_own_loader_and_host_give_it() {
    if !crate::cupti_parts::are_there() {
        return;
    }
    let mut root = Root::new(&program(PROBE, &[]));
    let library = cupti_12(CUPTI);
    root.add(
        &Layer::new()
            .file("opt/cupti/libcupti.so.12", &library)
            .file("srv/library/libcupti.so.12", &library)
            .entry(Entry {
                name: b"home/closed".to_vec(),
                mode: 0o700,
                kind: Kind::Directory,
            })
            .file("home/closed/libcupti.so.12", &library),
    );
    root.lend(std::path::Path::new(env!("CARGO_BIN_EXE_cupti-audit")), "cupti-audit");
    let containers: IndexMap<String, VerifiedContainer> =
        serde_saphyr::from_str(include_str!("running_containers.yaml")).unwrap();
    for (name, container) in &containers {
        let (errors, probe) = (container.errors.clone(), container.probe.clone());
        let expected = (i32::from(!errors.is_empty()), errors, probe);
        assert_eq!(verified(&root, container), expected, "{name}");
    }
    // Nothing is mounted in the plain root, not even /proc.
    let without_proc = |options: &[&str]| {
        let words = [&["/cupti-audit", "verify"], options, &["--", "echo", "started"]].concat();
        let output = root.command(&words).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(text(&output.stderr).starts_with("error: /proc/self/status cannot be read"));
        (output.status.code(), text(&output.stdout))
    };
    assert_eq!(without_proc(&[]), (Some(2), String::new()));
    assert_eq!(without_proc(&["--anyway"]), (Some(0), "started\n".to_owned()));
}
