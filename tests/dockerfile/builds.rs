//! A real Docker Engine builds our Dockerfiles. The resulting images load CUPTI with their own loader and pass the
//! audit. The images and the cases are in `builds.yaml`.

use std::cell::RefCell;
use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::IgnoredAny;
use testkit::seeds::is_asked;

use crate::builder::{BuildEngine, Builder};
use crate::cupti_parts::{cupti_11, cupti_12, object, program, wheel};
use crate::project_targets;

const LIB: &str = "usr/local/cuda-12.4/targets/x86_64-linux/lib";
const RPATH: &str = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../../nvidia/cuda_cupti/lib";
/// The source of a library that links CUPTI.
pub const TORCH: &str =
    "unsigned cuptiGetVersion(unsigned *); unsigned torch(void) { unsigned v; return cuptiGetVersion(&v); }";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    files: IndexMap<String, String>,
    images: IndexMap<String, String>,
    #[serde(rename = "shared")]
    _shared: IgnoredAny,
    cases: IndexMap<String, Case>,
}

/// A Dockerfile that is written for an image, and what is expected of it and of the built image.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    image: String,
    phase: String,
    /// More arguments.
    #[serde(default)]
    options: Vec<String>,
    /// It takes long, and is tested with `CUPTI_AUDIT_ALL` alone.
    #[serde(default)]
    all: bool,
    /// Both builders build it, not only the classic one.
    #[serde(default)]
    both: bool,
    /// Texts in the Dockerfile.
    #[serde(default)]
    says: Vec<String>,
    /// Texts that are not in it.
    #[serde(default)]
    never: Vec<String>,
    /// A text of the Dockerfile and its replacement, for a build that fails.
    #[serde(default)]
    edit: [String; 2],
    /// A part of the error of this build.
    fails: Option<String>,
    /// Libraries that a program in the built image opens.
    #[serde(default)]
    opens: Vec<String>,
    /// Libraries that it does not find.
    #[serde(default)]
    lacks: Vec<String>,
    /// The limits of the added bytes.
    adds: Option<[i64; 2]>,
    /// What is the same in the config of both images, as a template of Docker.
    config: Option<String>,
    /// A shell command that prints the same in both images.
    same: Option<String>,
    /// Whether the audit of the built image may have warnings.
    #[serde(default = "yes")]
    warns: bool,
}

fn yes() -> bool {
    true
}

/// An engine with the images, each built when it is needed.
pub struct Images {
    /// The engine.
    pub builder: Builder,
    texts: IndexMap<String, String>,
    built: RefCell<BTreeSet<String>>,
}

impl Images {
    /// Starts an engine; `None` if a part is missing.
    pub fn start() -> Option<Self> {
        let builder = crate::cupti_parts::are_there().then(Builder::start)??;
        let file = file();
        for (name, text) in &file.files {
            builder.put(name, text);
        }
        builder.put("probe", program(include_str!("../support/probe.c"), &[]));
        let others = ["libpcsamplingutil.so", "libcheckpoint.so"];
        for name in ["libnvperf_host.so", "libnvperf_target.so"].iter().chain(&others) {
            builder.put(&format!("devel/{LIB}/{name}"), cupti_12(name));
        }
        builder.put(&format!("devel/{LIB}/libcupti.so.2024.1.1"), cupti_12("libcupti.so.12"));
        for header in ["cupti.h", "cupti_version.h"] {
            let from = wheel("nvidia-cuda-cupti-cu12-12.4.127/nvidia/cuda_cupti/include").join(header);
            builder.lend(
                &from,
                &format!("devel/usr/local/cuda-12.4/extras/CUPTI/include/{header}"),
            );
        }
        let runtime = wheel("nvidia-cuda-runtime-cu12-12.4.127/nvidia/cuda_runtime/lib/libcudart.so.12");
        builder.lend(&runtime, &format!("cuda/{LIB}/libcudart.so.12.4.127"));
        builder.put("old/libcupti.so.11.8", cupti_11());
        builder.put("torch/lib/libtorch_cpu.so", object(TORCH, &[RPATH, "LIB12"]));
        Some(Self {
            builder,
            texts: file.images,
            built: RefCell::default(),
        })
    }

    /// Builds an image, after those that its Dockerfile names.
    pub fn need(&self, name: &str) {
        if !self.built.borrow_mut().insert(name.to_owned()) {
            return;
        }
        if name == "musl:1" {
            return self.import_musl();
        }
        let Some(text) = self.texts.get(name) else { return };
        for word in text.split([' ', '=', '\n']).filter(|word| word.ends_with(":1")) {
            self.need(word);
        }
        let more = if name == "python:1" {
            self.pip_environment()
        } else {
            String::new()
        };
        self.builder.must_build(name, &format!("{text}{more}"));
    }

    /// The environment that pip needs on this machine: certificates, proxies and a package index.
    fn pip_environment(&self) -> String {
        let certificates = std::env::var("PIP_CERT");
        let certificates = certificates.unwrap_or_else(|_| "/etc/ssl/certs/ca-certificates.crt".to_owned());
        self.builder.lend(certificates.as_ref(), "ca.crt");
        let names = "PIP_INDEX_URL PIP_EXTRA_INDEX_URL http_proxy https_proxy no_proxy".split(' ');
        names
            .filter_map(|name| Some(format!("ENV {name}=\"{}\"\n", std::env::var(name).ok()?)))
            .collect()
    }

    fn import_musl(&self) {
        let root = self.builder.at("root");
        std::fs::create_dir_all(root.join("bin")).unwrap();
        let busybox = crate::support::part("launchers").unwrap().join("bin/busybox");
        std::fs::copy(busybox, root.join("bin/busybox")).unwrap();
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", EASILY_LOST]).current_dir(&root).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let tar = self.builder.at("root.tar");
        self.builder.engine.must(&["import", tar.to_str().unwrap(), "musl:1"]);
    }

    fn check(&self, case: &Case) {
        let options: Vec<&str> = case.options.iter().map(String::as_str).collect();
        let sources = options
            .iter()
            .filter_map(|option| option.strip_prefix("docker-daemon:"));
        std::iter::once(&*case.image)
            .chain(sources)
            .for_each(|name| self.need(name));
        let text = self.builder.dockerfile(&case.image, &case.phase, &options);
        assert!(case.phase == "inference" || !text.contains("before: pass"), "{text}");
        for (texts, is_there) in [(&case.says, true), (&case.never, false)] {
            for part in texts {
                assert_eq!(text.contains(part), is_there, "{part}: {text}");
            }
        }
        if let Some(why) = &case.fails {
            let broken = text.replace(&case.edit[0], &case.edit[1]);
            assert_ne!(broken, text);
            let output = self.builder.build("broken:1", &broken, &[]);
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            return assert!(!output.status.success() && said.contains(why), "{said}");
        }
        let builders = self.builder.builders();
        for by in builders
            .into_iter()
            .filter(|by| case.both || *by == BuildEngine::Classic)
        {
            self.build(case, by, &text);
        }
    }

    /// Builds the Dockerfile of a case, and compares the result with the expected and the predicted one.
    fn build(&self, case: &Case, by: BuildEngine, text: &str) {
        let builder = &self.builder;
        let output = builder.build_by(by, "made:1", text, &[]);
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{by:?}: {text}\n{said}");
        for (names, is_there) in [(&case.opens, true), (&case.lacks, false)] {
            for name in names {
                let output = builder.run("made:1", &["/probe", "lazy", name]);
                let is_opened = output.status.success() && String::from_utf8_lossy(&output.stdout).contains(name);
                assert_eq!(is_opened, is_there, "{name}: {output:?}\n{text}");
            }
        }
        let audited = builder.audit("made:1", &case.phase);
        assert_eq!(audited.said_verdict(), "pass", "{text}");
        assert_eq!(Builder::predicted(text, &case.phase), "pass", "{text}");
        let gate = ["--phase", &case.phase, "--fail-on", "warning", "docker-daemon:made:1"];
        assert!(case.warns || builder.cupti_audit(&gate).status.success(), "{text}");
        let [before, after] = [&case.image, "made:1"].map(|image| i64::try_from(builder.size(image)).unwrap());
        let added = after - before;
        println!("  {added} bytes more by {by:?}");
        if let Some([least, most]) = case.adds {
            assert!((least..most).contains(&added), "{added}");
        }
        let is_near = |predicted: f64, real: f64, limit: f64| {
            assert!(
                (real - predicted).abs() <= limit,
                "{predicted} predicted, {real} real: {text}"
            );
        };
        #[expect(clippy::cast_precision_loss, reason = "megabytes, to one part in a hundred")]
        if let Some(predicted) = Builder::predicted_bytes(text) {
            // A package manager writes files of its own.
            is_near(predicted, added as f64, added as f64 / 50.0 + 20_000.0);
        }
        if case.phase == "inference" && added < 0 {
            assert_eq!(audited.report["phases"]["inference"]["drop_bytes"], 0);
            let layers = audited.report["image"]["layers"].as_array().unwrap().iter();
            let megabytes = layers.map(|layer| layer["bytes"].as_f64().unwrap()).sum::<f64>() / 1e6;
            let predicted = text.split("after: about ").nth(1).unwrap().split(' ').next().unwrap();
            is_near(predicted.parse().unwrap(), megabytes, (megabytes / 100.0).max(0.1));
        }
        let both = |ask: &dyn Fn(&str) -> String| assert_eq!(ask("made:1"), ask(&case.image), "{text}");
        if let Some(what) = &case.config {
            both(&|image| builder.engine.must(&["image", "inspect", "--format", what, image]));
        }
        if let Some(command) = &case.same {
            both(&|image| String::from_utf8(builder.run(image, &["/bin/sh", "-c", command]).stdout).unwrap());
        }
    }
}

fn file() -> File {
    serde_saphyr::from_str(include_str!("builds.yaml")).unwrap()
}

/// One engine for all cases, because filling it takes longer than most builds.
#[test]
#[ignore = "it builds images for minutes: make test-builds"]
fn what_is_built_is_loaded_by_its_own_loader_and_passes_the_audit() {
    let Some(images) = Images::start() else { return };
    let run = |name: &str, check: &dyn Fn()| {
        if is_asked(name) {
            println!("{name}");
            let begun = std::time::Instant::now();
            check();
            println!("{name}: {} s", begun.elapsed().as_secs());
        }
    };
    for (name, case) in &file().cases {
        if !case.all || std::env::var_os("CUPTI_AUDIT_ALL").is_some() {
            run(name, &|| images.check(case));
        }
    }
    let others: [(&str, OtherCase); 4] = [
        ("a target for each phase", project_targets::without_pytorch),
        ("a target for each phase, with PyTorch", project_targets::with_pytorch),
        (
            "a PyTorch that is not what the phase needs",
            project_targets::unlike_pytorch,
        ),
        ("files that a builder loses", lost),
    ];
    for (name, check) in others {
        run(name, &|| check(&images));
    }
}

/// A case in Rust.
type OtherCase = fn(&Images);

/// A small image with musl, and files and settings that builders lose.
const EASILY_LOST: &str = r#"set -eu
mkdir -p bin lib srv opt/bin etc tmp usr/local/cuda/lib64
for name in sh ln mkdir rm cat stat; do ln -s busybox bin/$name; done
cp -L /lib/ld-musl-x86_64.so.1 lib/
head -c 3000000 /dev/zero > usr/local/cuda/lib64/libcublas_static.a
ln usr/local/cuda/lib64/libcublas_static.a usr/local/cuda/lib64/libcurand_static.a
head -c 2000000 /dev/zero > srv/1
ln srv/1 srv/2
mkfifo srv/fifo
mknod srv/null c 1 3
echo mine > srv/guarded
python3 - << 'END'
import os, struct
rows = [(1, 6, -1), (2, 4, 1000), (4, 4, -1), (16, 4, -1), (32, 4, -1)]
rows = b"".join(struct.pack("<HHi", *row) for row in rows)
os.setxattr("srv/guarded", "system.posix_acl_access", struct.pack("<I", 2) + rows)
END
tar --xattrs --xattrs-include='*' -cf ../root.tar .
"#;

/// A `BuildKit` before 24 loses what docs/dockerfile.md says; the classic builder does not.
fn lost(images: &Images) {
    images.need("lost:1");
    let builder = &images.builder;
    let version = builder.engine.must(&["version", "--format", "{{.Server.Version}}"]);
    let is_before_24 = version.split('.').next().unwrap().parse::<u32>().unwrap() < 24;
    let text = builder.dockerfile("lost:1", "inference", &[]);
    for by in builder.builders() {
        assert!(builder.build_by(by, "made:1", &text, &[]).status.success(), "{text}");
        let words = ["/bin/stat", "-c", "%n %F", "/srv/fifo", "/srv/null"];
        let kinds = String::from_utf8(builder.run("made:1", &words).stdout).unwrap();
        let expected = if by == BuildEngine::BuildKit && is_before_24 {
            "/srv/null regular empty file\n"
        } else {
            "/srv/fifo fifo\n/srv/null character special file\n"
        };
        assert_eq!(kinds, expected, "{by:?}");
    }
}
