//! The wheel has the same program as the archive, and installs with the Pythons of Debian 11, 12 and 13, with uvx and with
//! pre-commit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::site::{repository, static_program};
use crate::support::{is_root, missing, part};

/// The wheel of `make static`. If it is missing, prints that and returns `None`.
fn wheel() -> Option<PathBuf> {
    let file = std::env::var_os("CUPTI_AUDIT_WHEEL").filter(|path| !path.is_empty());
    if file.is_none() {
        missing("the wheel that `make static` makes");
    }
    file.map(PathBuf::from)
}

/// The output of a command that must not fail.
fn output(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{command:?}: {errors}");
    String::from_utf8(ran.stdout).unwrap()
}

/// A copy of the wheel and of pip in a fresh folder of a root file system, which is `/` for this machine.
struct Bench<'a> {
    root: &'a Path,
    folder: tempfile::TempDir,
    wheel: String,
}

impl<'a> Bench<'a> {
    fn new(root: &'a Path, wheel: &Path, pip: &Path) -> Self {
        let folder = tempfile::tempdir_in(root.join("tmp")).unwrap();
        let name = wheel.file_name().unwrap();
        fs::copy(wheel, folder.path().join(name)).unwrap();
        output(Command::new("cp").arg("-r").arg(pip).arg(folder.path().join("pip")));
        let bench = Self {
            root,
            folder,
            wheel: String::new(),
        };
        let wheel = bench.inside(name.to_str().unwrap());
        Self { wheel, ..bench }
    }

    /// A path of the folder, as programs in the root see it.
    fn inside(&self, name: &str) -> String {
        let folder = self.folder.path().strip_prefix(self.root).unwrap();
        Path::new("/").join(folder).join(name).display().to_string()
    }

    fn run(&self, words: &[&str]) -> String {
        output(
            Command::new("/usr/sbin/chroot")
                .arg(self.root)
                .args(words)
                .env_clear()
                .env("PYTHONPATH", self.inside("pip")),
        )
    }
}

#[test]
fn pip_installs_the_program_into_a_fresh_environment_of_each_debian() {
    let (Some(wheel), Some(program), true) = (wheel(), static_program(), is_root()) else {
        return;
    };
    let (Some(eleven), Some(thirteen)) = (part("bullseye"), part("trixie")) else {
        return;
    };
    let Some(pip) = part("wheels/pip-24.3.1") else {
        return;
    };
    let version = output(Command::new(&program).arg("--version"));
    for (root, python) in [(eleven.as_path(), "3.9"), (Path::new("/"), "3.11"), (&thirteen, "3.13")] {
        let bench = Bench::new(root, &wheel, &pip);
        assert!(
            bench
                .run(&["/usr/bin/python3", "-V"])
                .starts_with(&format!("Python {python}.")),
            "{}",
            root.display()
        );
        let environment = bench.inside("environment");
        bench.run(&["/usr/bin/python3", "-m", "venv", "--without-pip", &environment]);
        bench.run(&[
            &format!("{environment}/bin/python"),
            "-m",
            "pip",
            "install",
            "--no-index",
            &bench.wheel,
        ]);
        let installed = format!("{environment}/bin/cupti-audit");
        assert_eq!(bench.run(&[&installed, "--version"]), version, "{python}");
        let on_host = root.join(&installed[1..]);
        assert_eq!(
            fs::read(on_host).unwrap(),
            fs::read(&program).unwrap(),
            "the program of the archive, {python}"
        );
    }
    println!("the wheel runs on 3 Debians with Python 3.9, 3.11 and 3.13");
}

#[test]
fn the_other_pythons_take_the_wheel_with_glibc_and_musl_on_its_own_processor() {
    let (Some(wheel), Some(pip)) = (wheel(), part("wheels/pip-24.3.1")) else {
        return;
    };
    for (python, platform, expected) in [
        ("3.10", "musllinux_1_1_x86_64", true),
        ("3.12", "manylinux2014_x86_64", true),
        ("3.12", "manylinux2014_aarch64", false),
    ] {
        let mut command = Command::new("python3");
        let only = ["--target", "/nowhere", "--only-binary", ":all:"];
        command
            .args(["-m", "pip", "install", "--dry-run", "--no-index"])
            .args(only);
        command
            .args(["--python-version", python, "--platform", platform])
            .arg(&wheel);
        let took = command.env("PYTHONPATH", &pip).output().unwrap().status.success();
        assert_eq!(took, expected, "{python} {platform}");
    }
}

/// The first command of the README for people who have uv: nothing is left behind.
#[test]
fn uvx_runs_an_audit_from_the_wheel() {
    let (Some(wheel), Some(uv)) = (wheel(), part("uv/uv/uv")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let image = format!("oci:{}", repository("testdata/images/devel").display());
    let mut command = Command::new(uv);
    command
        .args(["tool", "run", "--offline", "--from"])
        .arg(&wheel)
        .args(["cupti-audit", "--no-config", &image]);
    command
        .env("HOME", folder.path())
        .env("UV_CACHE_DIR", folder.path().join("cache"));
    let said = output(command.env("CUPTI_AUDIT_NO_CACHE", "1"));
    assert!(said.starts_with("✓ "), "{said}");
}

/// PyTorch in a lock, with a wheel for Linux that lacks its packages, and with one for macOS alone.
const LINUX: &str = "version = \"2.0.1\"\nfiles = [{file = \"torch-2.0.1-cp310-cp310-manylinux1_x86_64.whl\"}]\n[package.dependencies]\nfilelock = \"*\"";
const MAC: &str = "version = \"2.0.1\"\nfiles = [{file = \"torch-2.0.1-cp310-none-macosx_11_0_arm64.whl\"}]";

/// The hooks of docs/ci.md, by the real pre-commit.
#[test]
fn the_hooks_pass_good_files_and_refuse_bad_ones() {
    let (Some(wheel), Some(hooks)) = (wheel(), part("pre-commit")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = fs::read_to_string(repository("docs/ci.md")).unwrap();
    let config = page
        .split("```yaml\n")
        .find(|block| block.starts_with("repos:"))
        .unwrap();
    let config = config
        .split("```")
        .next()
        .unwrap()
        .replace("cupti-audit==0.1.0", &wheel.display().to_string());
    fs::write(folder.path().join(".pre-commit-config.yaml"), config).unwrap();
    output(Command::new("git").args(["init", "-q"]).current_dir(&folder));
    let run = |dockerfile: &str, lock: &str, settings: &str| {
        fs::write(folder.path().join("Dockerfile"), dockerfile).unwrap();
        let lock = format!("[[package]]\nname = \"torch\"\n{lock}\n");
        fs::write(folder.path().join("poetry.lock"), lock).unwrap();
        fs::write(folder.path().join("cupti-audit.yaml"), settings).unwrap();
        output(Command::new("git").args(["add", "-A"]).current_dir(&folder));
        let mut command = Command::new("python3");
        command
            .args(["-m", "pre_commit", "run", "--all-files"])
            .current_dir(&folder);
        command
            .env("PYTHONPATH", hooks.join("packages"))
            .env("PRE_COMMIT_HOME", folder.path().join(".git/home"));
        command
            .env("PIP_NO_INDEX", "1")
            .env("PIP_FIND_LINKS", hooks.join("wheels"));
        let ran = command.output().unwrap();
        let said = String::from_utf8(ran.stdout).unwrap();
        let ends: Vec<_> = said
            .lines()
            .filter_map(|line| line.rsplit_once("...."))
            .map(|(_, end)| end.trim_matches('.'))
            .collect();
        (ran.status.code(), ends.join(" "), said.clone())
    };
    let (code, ends, said) = run("FROM nvidia/cuda:12.4.0-devel-ubuntu22.04\n", MAC, "fail-on: warning\n");
    assert_eq!((code, ends.as_str()), (Some(0), "Passed Passed Passed"), "{said}");
    let bad = "FROM nvidia/cuda:12.4.0-devel-ubuntu22.04\nRUN pip install nvidia-cuda-cupti-cu13\n";
    let (code, ends, said) = run(bad, LINUX, "fail-on: error\n");
    assert_eq!((code, ends.as_str()), (Some(1), "Failed Failed Passed"), "{said}");
    assert!(said.contains("placeholder-package"), "{said}");
    assert!(
        said.contains("poetry.lock:2: torch 2.0.1 links libcupti.so.11.7"),
        "{said}"
    );
    let (code, ends, said) = run("FROM scratch\n", MAC, "fail-on: sometimes\n");
    assert_eq!((code, ends.as_str()), (Some(1), "Failed Failed Failed"), "{said}");
}
