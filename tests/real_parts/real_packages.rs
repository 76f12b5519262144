//! Compares the missing files and unmet requirements that the audit finds with those of the real dpkg, rpm
//! and pip.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use cupti_audit::facts::{CuptiCopy, ImageFacts};
use testkit::elf::Elf;
use testkit::layer::Layer;

use crate::chroot::Root;
use testkit::random::Random;

const DPKG: [&str; 3] = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "/usr/bin/dpkg", "--log=/dev/null"];
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// The libraries missing according to dpkg, and according to the audit.
fn compare_dpkg(root: &Root) -> BTreeSet<String> {
    let output = root
        .command(&[&DPKG[..], &["--verify", "libcupti11.8"]].concat())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let missing = text.lines().filter_map(|line| line.strip_prefix("missing "));
    let of_dpkg: BTreeSet<String> = missing
        .filter_map(|line| line.split_whitespace().next_back())
        .filter(|path| path.contains(".so"))
        .map(str::to_owned)
        .collect();
    let facts = crate::facts_of_root::facts(root, "/", &[], &["/bin/sh"]);
    let missing = facts.related.incomplete.iter().flat_map(|package| &package.missing);
    let ours: BTreeSet<String> = missing.map(|file| file.path.to_string()).collect();
    assert_eq!(ours, of_dpkg);
    of_dpkg
}

#[test]
fn the_real_dpkg_misses_the_same_files() {
    if !crate::cupti_parts::are_there() {
        return;
    }
    let mut root = Root::new(b"");
    let install = |root: &mut Root| {
        root.lend(&crate::cupti_parts::deb(), "libcupti.deb");
        root.run(&[&DPKG[..], &["-i", "/libcupti.deb"]].concat());
        std::fs::remove_file(root.path("libcupti.deb")).unwrap();
    };
    install(&mut root);
    assert_eq!(compare_dpkg(&root).len(), 0);
    root.run(&[
        "/bin/rm",
        &format!("{LIBRARIES}/libcupti.so.11.8"),
        &format!("{LIBRARIES}/libcheckpoint.so"),
    ]);
    assert_eq!(compare_dpkg(&root).len(), 2);
    install(&mut root);
    assert_eq!(compare_dpkg(&root).len(), 0);
    let place = format!("{LIBRARIES}/libcheckpoint.so");
    root.run(&[
        "PATH=/usr/bin:/bin",
        "/usr/bin/dpkg-divert",
        "--local",
        "--rename",
        "--add",
        &place,
    ]);
    assert_eq!(compare_dpkg(&root).len(), 0);
    root.run(&["/bin/rm", &format!("{place}.distrib")]);
    let facts = crate::facts_of_root::facts(&root, "/", &[], &["/bin/sh"]);
    assert_eq!(facts.related.incomplete.len(), 1);
}

const SITE: &str = "usr/local/lib/python3.11/dist-packages";
/// The installed packages and their versions.
const INSTALLED: [(&str, &str); 7] = [
    ("a-one", "1.0"),
    ("a-two", "2.0.1"),
    ("a-rc", "1.5rc1"),
    ("a-cuda", "12.8.90"),
    ("a-local", "2.8.0+cu128"),
    ("a-post", "1.0.post2"),
    ("a-epoch", "1!0.5"),
];

/// A random requirement, usually of an installed package.
fn requirement(random: &mut Random) -> String {
    let names = INSTALLED.map(|(name, _)| name);
    let name = if random.chance(20) {
        "a-nothing"
    } else {
        random.pick(&names)
    };
    let versions = "1 1.0 2.0 2.0.1 1.5 1.5rc1 1.5rc2 12.8.90 12.9 2.8.0 2.8.0+cu128 2.8.0+cu126 1.0.post1 1!0.5 0.5";
    let versions: Vec<&str> = versions.split(' ').collect();
    let specifier = |random: &mut Random| {
        let operator = random.pick(&["==", "!=", ">=", "<=", "<", ">", "~=", "*"]);
        let version = random.pick(&versions);
        let plain = version.split('+').next().unwrap_or_default();
        let release = ["rc1", "rc2", ".post1"]
            .iter()
            .fold(plain.to_owned(), |text, end| text.replace(end, ""));
        match operator {
            "==" | "!=" => format!("{operator}{version}"),
            "~=" => format!("~={release}.0"),
            "*" => format!("=={release}.*"),
            _ => format!("{operator}{plain}"),
        }
    };
    let specifiers: Vec<String> = (0..random.below(3)).map(|_| specifier(random)).collect();
    let marker = if random.chance(60) {
        format!("; {}", marker(random, 2))
    } else {
        String::new()
    };
    format!("{name}{}{marker}", specifiers.join(","))
}

fn marker(random: &mut Random, depth: usize) -> String {
    if depth > 0 && random.chance(50) {
        let (left, right) = (marker(random, depth - 1), marker(random, depth - 1));
        return format!("({left}) {} {right}", random.pick(&["and", "or"]));
    }
    let operator = random.pick(&["==", "!=", ">=", "<=", "<", ">"]).to_owned();
    let equality = random.pick(&["==", "!="]).to_owned();
    match random.below(8) {
        0 => format!(
            "python_version {operator} '{}'",
            random.pick(&["3.9", "3.11", "3.12", "3"])
        ),
        1 => format!("'{}' {operator} python_version", random.pick(&["3.10", "3.11", "3.13"])),
        2 => format!(
            "python_full_version {operator} '{}'",
            random.pick(&["3.11", "3.10.4", "3.12.1"])
        ),
        3 => format!("platform_system {equality} '{}'", random.pick(&["Linux", "Windows"])),
        4 => format!("sys_platform {equality} \"{}\"", random.pick(&["linux", "darwin"])),
        5 => format!("platform_machine {equality} '{}'", random.pick(&["x86_64", "aarch64"])),
        6 => format!("extra == '{}'", random.pick(&["with-cuda", "cuda"])),
        _ => format!("implementation_name {equality} '{}'", random.pick(&["cpython", "pypy"])),
    }
}

/// The output of `pip check` on a Debian with these requirements: each distribution and its requirement.
fn pip_check(root: &Root) -> BTreeSet<String> {
    let mut pip = root.command(&["PYTHONPATH=/pip", "/usr/bin/python3", "-m", "pip", "check"]);
    let output = pip.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = |line: &str| {
        let (who, rest) = line.split_once(" 1 ")?;
        let name = |text: &str| {
            text.split(|c: char| "=<>!~,; ".contains(c))
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        if let Some(missing) = rest.strip_prefix("requires ") {
            return Some(format!("{who} lacks {}", name(missing)));
        }
        Some(format!(
            "{who} has another {}",
            name(rest.strip_prefix("has requirement ")?)
        ))
    };
    text.lines().filter_map(line).collect()
}

fn audited(facts: &ImageFacts) -> BTreeSet<String> {
    let unmet = facts.related.unmet.iter().map(|unmet| {
        let lacks = if unmet.installed.is_none() {
            "lacks"
        } else {
            "has another"
        };
        format!("{} {lacks} {}", unmet.by.0, unmet.requirement.name)
    });
    unmet.collect()
}

#[test]
fn the_real_pip_finds_the_same_requirements_unmet() {
    let Some(pip) = pip_for_root() else { return };
    let mut root = Root::new(b"");
    let random = &mut Random::new(1);
    let mut layer = Layer::new();
    for (name, version) in INSTALLED {
        layer = distribution(layer, name, version, "");
    }
    // All checked distributions, by one name each.
    let mut asked = Vec::new();
    for number in 0..400 {
        let line = requirement(random);
        layer = distribution(
            layer,
            &format!("jax-cuda{number}"),
            "1",
            &format!("Requires-Dist: {line}\n"),
        );
        asked.push(format!("jax-cuda{number}: {line}"));
    }
    root.add(&layer);
    std::fs::create_dir(root.path("pip")).unwrap();
    let copied = Command::new("cp")
        .arg("-r")
        .arg(&pip)
        .arg(root.path("pip/pip"))
        .status()
        .unwrap();
    assert!(copied.success());
    let facts = crate::facts_of_root::facts(&root, "/", &[], &["/usr/bin/python3"]);
    let (real, ours) = (pip_check(&root), audited(&facts));
    let differs: Vec<String> = real
        .symmetric_difference(&ours)
        .map(|line| {
            let who = line.split(' ').next().unwrap();
            let asked = asked.iter().find(|asked| asked.starts_with(&format!("{who}: ")));
            let by = if real.contains(line) { "pip" } else { "audit" };
            format!("{by} alone: {line} ({})", asked.map_or("?", String::as_str))
        })
        .collect();
    println!("{} of 400 distributions lack something", real.len());
    assert!(differs.is_empty(), "{}", differs.join("\n"));
    assert!(real.len() > 50 && real.len() < 350, "{}", real.len());
}

/// The folder of this machine's pip modules; `None` if no root file system can be made to run them.
fn pip_for_root() -> Option<PathBuf> {
    let parts = ["bookworm", "bookworm.tar"];
    if !parts.iter().all(|part| crate::support::part(part).is_some()) || !crate::support::is_root() {
        return None;
    }
    let pip = pip_package();
    if pip.is_none() {
        println!("not run: the python3 of this machine has no pip");
    }
    pip
}

fn pip_package() -> Option<PathBuf> {
    let script = "import os, pip; print(os.path.dirname(pip.__file__))";
    let output = Command::new("python3").args(["-c", script]).output().ok()?;
    let path = String::from_utf8(output.stdout)
        .ok()
        .filter(|_| output.status.success())?;
    Some(PathBuf::from(path.trim()))
}

fn distribution(layer: Layer, name: &str, version: &str, requires: &str) -> Layer {
    let info = format!("{SITE}/{}-{version}.dist-info", name.replace('-', "_"));
    layer.file(
        format!("{info}/METADATA"),
        format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}"),
    )
}

/// The owners of the copies in a root file system, by path; empty if unknown.
fn rpm_owners(root: &Root) -> BTreeMap<String, String> {
    let facts = crate::facts_of_root::facts(root, "/", &[], &["/bin/sh"]);
    let owner = |copy: &CuptiCopy| {
        let version = copy.owner.version.clone().unwrap_or_default();
        format!("{} {version}", copy.owner.name).trim().to_owned()
    };
    let copies = facts.answers.copies.iter();
    copies.map(|copy| (copy.real_path.to_string(), owner(copy))).collect()
}

/// A package with these files, which all have the content of `/library`, installed by the real rpm.
fn install_rpm(root: &mut Root, name: &str, version: &str, files: &[&str]) {
    let files = files.join("\n");
    let spec = format!(
        "Name: {name}\nVersion: {version}\nRelease: 1\nSummary: a test\nLicense: none\nAutoReqProv: no\n%description\n\
         A test.\n%install\nfor file in $(echo '{files}'); do install -D /library %{{buildroot}}$file; done\n%files\n\
         {files}\n"
    );
    std::fs::write(root.path("package.spec"), spec).unwrap();
    let script = "mkdir -p /var/tmp && rpmbuild -bb --quiet --nodebuginfo --target x86_64 --define '_topdir /rpmbuild' \
                  --define '_rpmdir /' --define '_rpmfilename package.rpm' --define '_build_id_links none' \
                  --define '__os_install_post %{nil}' /package.spec && \
                  rpm --dbpath /var/lib/rpm -i --nodeps --replacefiles /package.rpm && rm -r /package.* /rpmbuild";
    root.run(&[RPM_PATH, "/bin/sh", "-c", script]);
}

const RPM_PATH: &str = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";

#[test]
fn the_real_rpm_names_the_same_owners_and_missing_files() {
    let Some(parts) = crate::support::part("dnf") else {
        return;
    };
    let mut root = Root::new(b"");
    let copied = Command::new("cp")
        .args(["-a", "--remove-destination"])
        .arg(parts.join("."))
        .arg(root.path(""))
        .status();
    assert!(copied.unwrap().success());
    root.run(&[RPM_PATH, "/sbin/ldconfig"]);
    std::fs::write(root.path("library"), Elf::library("libcupti.so.12").build()).unwrap();
    let toolkit = "/usr/local/cuda-12.4/targets/x86_64-linux/lib";
    let (own, profiler) = (
        format!("{toolkit}/libcupti.so.2024.1.1"),
        format!("{toolkit}/libnvperf_host.so"),
    );
    let (by_hand, replaced) = ("/opt/own/libcupti.so.12", "/opt/other/libcupti.so.12");
    install_rpm(&mut root, "cuda-cupti-12-4", "12.4.127", &[&own, &profiler, replaced]);
    std::fs::write(
        root.path("library"),
        Elf::library("libcupti.so.12").string("other").build(),
    )
    .unwrap();
    install_rpm(&mut root, "other", "2", &[replaced]);
    root.run(&[
        "/bin/sh",
        "-c",
        &format!("mkdir -p /opt/own && cp /library {by_hand} && rm {profiler}"),
    ]);
    let owners = rpm_owners(&root);
    assert_eq!(owners.len(), 3);
    for (path, owner) in &owners {
        let query = [
            "/usr/bin/rpm",
            "--dbpath",
            "/var/lib/rpm",
            "-qf",
            "--qf",
            "%{NAME} %{EVR}",
            path,
        ];
        let output = root.command(&[&[RPM_PATH][..], &query].concat()).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let of_rpm = if output.status.success() { said.as_str() } else { "" };
        assert_eq!(owner, of_rpm, "{path}");
    }
    assert_eq!(owners[by_hand], "");
    let facts = crate::facts_of_root::facts(&root, "/", &[], &["/bin/sh"]);
    let missing = facts.related.incomplete.iter().flat_map(|package| &package.missing);
    let ours: BTreeSet<String> = missing.map(|file| format!("missing     {}", file.path)).collect();
    let verify = [
        "/usr/bin/rpm",
        "--dbpath",
        "/var/lib/rpm",
        "-Va",
        "--nodeps",
        "--nodigest",
    ];
    let output = root.command(&[&[RPM_PATH][..], &verify].concat()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let of_rpm: BTreeSet<String> = said
        .lines()
        .filter(|line| line.starts_with("missing"))
        .map(str::to_owned)
        .collect();
    assert_eq!(ours, of_rpm);
    assert_eq!(ours.len(), 1);
}
