//! Lists and downloads packages with pip, whose configuration gives the index.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use zip::ZipArchive;

use super::{FILE_LIMIT, Outcome};

/// The platform tags of wheels without the processor (PEP 600).
const SYSTEMS: [&str; 7] = [
    "manylinux1",
    "manylinux2014",
    "manylinux_2_17",
    "manylinux_2_25",
    "manylinux_2_27",
    "manylinux_2_28",
    "manylinux_2_34",
];
/// The versions of Python that are asked for, the first one with a wheel counts. Together they have every release of the
/// frameworks.
const PYTHONS: [&str; 2] = ["3.12", "3.10"];

/// The versions of a package with a wheel for a processor. `arch` does not matter for a pure Python package.
pub fn versions(package: &str, arch: &str) -> Outcome<BTreeSet<String>> {
    let mut versions = BTreeSet::new();
    let mut problem = String::new();
    for python in PYTHONS {
        let words = ["index", "versions", package].map(str::to_owned);
        match pip(&[&words[..], &flags(arch, python)].concat()) {
            Ok(said) => {
                let line = said.lines().find_map(|line| line.strip_prefix("Available versions: "));
                versions.extend(line.into_iter().flat_map(|line| line.split(", ")).map(str::to_owned));
            }
            Err(error) => problem = error.to_string(),
        }
    }
    if versions.is_empty() {
        return Err(format!("pip lists no version of {package}: {problem}").into());
    }
    Ok(versions)
}

/// Downloads the wheel of a version into `folder`.
pub fn download(folder: &Path, package: &str, version: &str, arch: &str) -> Outcome<PathBuf> {
    let words = ["download", "--quiet", "--no-deps", "--dest"].map(str::to_owned);
    let rest = [folder.display().to_string(), format!("{package}=={version}")];
    let mut tries = PYTHONS
        .map(|python| pip(&[&words[..], &rest, &flags(arch, python)].concat()))
        .into_iter();
    let mut first = tries.next().unwrap_or_else(|| Err("no Python to ask for".into()));
    if first.is_err() {
        first = tries.find(Result::is_ok).unwrap_or(first);
    }
    first?;
    let mut entries = fs::read_dir(folder)?;
    let entry = entries.next().ok_or("pip has downloaded nothing")??;
    Ok(entry.path())
}

/// The requirements of a wheel, as in its METADATA.
pub fn requirements(wheel: &Path) -> Outcome<Vec<String>> {
    let mut archive = ZipArchive::new(File::open(wheel)?)?;
    let mut text = String::new();
    for number in 0..archive.len() {
        let member = archive.by_index(number)?;
        if member.name()?.ends_with(".dist-info/METADATA") {
            member.take(FILE_LIMIT).read_to_string(&mut text)?;
        }
    }
    let required = text.lines().filter_map(|line| line.strip_prefix("Requires-Dist: "));
    Ok(required.map(str::to_owned).collect())
}

fn flags(arch: &str, python: &str) -> Vec<String> {
    let platforms = SYSTEMS.iter().map(|system| format!("--platform={system}_{arch}"));
    let rest = ["--only-binary=:all:".to_owned(), format!("--python-version={python}")];
    platforms.chain(rest).collect()
}

fn pip(words: &[String]) -> Outcome<String> {
    let output = Command::new("python3").args(["-m", "pip"]).args(words).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("pip {}: {}", words.join(" "), said.trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
