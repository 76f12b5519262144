//! Updates `profiles/cupti` from Python's package index: the wheels, the hashes of their files, the functions of each
//! release, the CUPTI of each toolkit, and the newest PyTorch. It runs pip, whose configuration gives the index. A
//! published wheel never changes, so only unlisted ones are read.
#![expect(
    clippy::disallowed_methods,
    reason = "this chore runs pip and writes the repository's own folder"
)]

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use cupti_audit::knowledge::{
    FunctionTable, Knowledge, KnowledgeTables, ListedWheel, ReleaseFile, ReleaseTable, version_numbers,
};
use image_linkage::digest::to_hex;
use image_linkage::elf::{ElfFacts, NameMatcher, SymbolRole};
use sha2::{Digest as _, Sha256};
use zip::ZipArchive;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The processors whose wheels are listed.
const ARCHES: [&str; 2] = ["aarch64", "x86_64"];
/// The platform tags of wheels without the processor (PEP 600).
const SYSTEMS: [&str; 5] = [
    "manylinux1",
    "manylinux2014",
    "manylinux_2_25",
    "manylinux_2_28",
    "manylinux_2_34",
];
/// The package that requires the wheels of each toolkit.
const TOOLKIT: &str = "cuda-toolkit";
/// The size limit of a file in a wheel, in bytes; `libnvperf_host`, the largest, has 34 MB.
const FILE_LIMIT: u64 = 1 << 28;

/// The contents of the index.
struct IndexListing {
    /// Package, version and processor of each wheel.
    wheels: BTreeSet<[String; 3]>,
    toolkits: Vec<String>,
    pytorch: String,
}

/// Adds what the tables lack. Returns a line to print.
///
/// Errors: Errors of pip, of a wheel or of the system.
pub fn write() -> Outcome<String> {
    let (known, index) = (Knowledge::built_in().tables, ask_index()?);
    let mut wheels = known.wheels.wheels.clone();
    let mut releases = known.releases.clone();
    let mut exports = known_exports(known);
    let mut files = 0;
    let added = missing_wheels(&index, &wheels);
    for [package, version, arch] in &added {
        println!("{package} {version} for {arch}");
        let folder = tempfile::tempdir()?;
        let wheel = download(folder.path(), package, version, arch)?;
        files += list_files(&mut releases, &wheel, version, arch)?;
        let functions = exported_functions(&wheel)?;
        let before = exports.insert(version_numbers(version), (version.clone(), functions.clone()));
        if before.is_some_and(|(_, before)| before != functions) {
            return Err(format!("the wheels of {version} export different functions").into());
        }
        wheels.insert(ListedWheel {
            package: package.clone(),
            version: version.clone(),
            arch: arch.clone(),
            sha256: sha256_of(File::open(&wheel)?)?.0,
        });
    }
    let mut toolkits: BTreeMap<Vec<u32>, (String, String)> = BTreeMap::new();
    for toolkit in &known.toolkits {
        let row = (toolkit.cuda.clone(), toolkit.cupti.clone());
        toolkits.insert(version_numbers(&toolkit.cuda), row);
    }
    for version in &index.toolkits {
        let toolkit = toolkit_of(version);
        if let Entry::Vacant(missing) = toolkits.entry(version_numbers(&toolkit)) {
            missing.insert((toolkit, cupti_of_toolkit(version)?));
        }
    }
    let counts = (wheels.len(), toolkits.len());
    write_rows("wheels.csv", wheel_rows(wheels))?;
    write_rows("releases.csv", release_rows(&releases))?;
    write_rows("functions.csv", function_rows(&exports))?;
    write_rows(
        "toolkits.csv",
        toolkits.into_values().map(|(cuda, cupti)| format!("{cuda},{cupti}")),
    )?;
    let packages = table("packages.yaml");
    let known_reference = known.packages.pytorch.reference.as_str();
    let text = fs::read_to_string(&packages)?.replace(known_reference, &format!("v{}", index.pytorch));
    fs::write(packages, text)?;
    Ok(format!(
        "{} wheels, {} of them new with {files} files; {} toolkits; {} hashes; PyTorch {}\n",
        counts.0,
        added.len(),
        counts.1,
        releases.by_hash.len(),
        index.pytorch
    ))
}

/// Compares the tables with the index. Returns a line to print.
///
/// Errors: All differences; errors of pip.
pub fn check() -> Outcome<String> {
    let (known, index) = (Knowledge::built_in().tables, ask_index()?);
    let lines = stale_lines(known, &index);
    if lines.is_empty() {
        return Ok(format!(
            "{} wheels and {} toolkits, as the index has them\n",
            index.wheels.len(),
            known.toolkits.len()
        ));
    }
    Err(format!("{}\nrun `cargo xtask refresh` to add what is new", lines.join("\n")).into())
}

/// The differences between the tables and the index.
fn stale_lines(known: &KnowledgeTables, index: &IndexListing) -> Vec<String> {
    let mut lines: Vec<String> = missing_wheels(index, &known.wheels.wheels)
        .iter()
        .map(|wheel| format!("profiles/cupti/wheels.csv lacks {}", wheel.join(" ")))
        .collect();
    let is_gone = |wheel: &&ListedWheel| !index.wheels.contains(&key(wheel));
    let gone = known.wheels.wheels.iter().filter(is_gone);
    lines.extend(gone.map(|wheel| format!("{} is no longer on the index", key(wheel).join(" "))));
    let toolkits: BTreeSet<&str> = known.toolkits.iter().map(|toolkit| toolkit.cuda.as_str()).collect();
    let new = index.toolkits.iter().map(|version| toolkit_of(version));
    let new = new.filter(|version| !toolkits.contains(version.as_str()));
    lines.extend(new.map(|version| format!("profiles/cupti/toolkits.csv lacks {version}")));
    let (own, newest) = (&known.packages.pytorch.reference, &index.pytorch);
    if *own != format!("v{newest}") {
        lines.push(format!(
            "profiles/cupti/packages.yaml has PyTorch {own}, and {newest} is there"
        ));
    }
    lines
}

fn ask_index() -> Outcome<IndexListing> {
    let mut wheels = BTreeSet::new();
    for wheel in &Knowledge::built_in().library.wheels.install {
        for arch in ARCHES {
            for version in versions(&wheel.name, &platform_flags(arch))? {
                wheels.insert([wheel.name.clone(), version, arch.to_owned()]);
            }
        }
    }
    Ok(IndexListing {
        wheels,
        toolkits: versions(TOOLKIT, &[])?,
        // The newest comes first.
        pytorch: versions("torch", &[])?.swap_remove(0),
    })
}

fn missing_wheels(index: &IndexListing, listed: &BTreeSet<ListedWheel>) -> Vec<[String; 3]> {
    let listed: BTreeSet<[String; 3]> = listed.iter().map(key).collect();
    index.wheels.difference(&listed).cloned().collect()
}

fn key(wheel: &ListedWheel) -> [String; 3] {
    [wheel.package.clone(), wheel.version.clone(), wheel.arch.clone()]
}

/// The versions of a package as listed by pip, newest first.
fn versions(package: &str, flags: &[String]) -> Outcome<Vec<String>> {
    let said = pip(&[&["index".to_owned(), "versions".to_owned(), package.to_owned()], flags].concat())?;
    let line = said.lines().find_map(|line| line.strip_prefix("Available versions: "));
    let line = line.ok_or_else(|| format!("pip lists no version of {package}: {said}"))?;
    Ok(line.split(", ").map(str::to_owned).collect())
}

fn platform_flags(arch: &str) -> Vec<String> {
    let platforms = SYSTEMS.iter().map(|system| format!("--platform={system}_{arch}"));
    platforms.chain(["--only-binary=:all:".to_owned()]).collect()
}

/// Downloads the wheel of a version into `folder`. `arch` does not matter for a pure Python package.
fn download(folder: &Path, package: &str, version: &str, arch: &str) -> Outcome<PathBuf> {
    let words = ["download", "--quiet", "--no-deps", "--dest"].map(str::to_owned);
    let rest = [folder.display().to_string(), format!("{package}=={version}")];
    pip(&[&words[..], &rest, &platform_flags(arch)].concat())?;
    let mut entries = fs::read_dir(folder)?;
    let entry = entries.next().ok_or("pip has downloaded nothing")??;
    Ok(entry.path())
}

fn pip(words: &[String]) -> Outcome<String> {
    let output = Command::new("python3").args(["-m", "pip"]).args(words).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("pip {}: {}", words.join(" "), said.trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Adds the libraries of a wheel to the table. Returns their number.
fn list_files(releases: &mut ReleaseTable, wheel: &Path, version: &str, arch: &str) -> Outcome<usize> {
    // Removes old rows of this version first.
    for file in releases.by_hash.values_mut().filter(|file| file.arch == arch) {
        file.versions.retain(|other| other != version);
    }
    releases
        .by_hash
        .retain(|_, file| file.bundle.is_some() || !file.versions.is_empty());
    let mut archive = ZipArchive::new(File::open(wheel)?)?;
    let mut files = 0;
    for number in 0..archive.len() {
        let member = archive.by_index(number)?;
        let name = member.name()?.rsplit('/').next().unwrap_or_default().to_owned();
        if !name.starts_with("lib") || !name.contains(".so") {
            continue;
        }
        let (hash, bytes) = sha256_of(member.take(FILE_LIMIT))?;
        let file = releases.by_hash.entry(hash).or_insert_with(|| ReleaseFile {
            versions: Vec::new(),
            bundle: None,
            arch: arch.to_owned(),
            file: name,
            bytes,
        });
        file.versions.push(version.to_owned());
        file.versions.sort_by_key(|version| version_numbers(version));
        files += 1;
    }
    if files == 0 {
        return Err(format!("{} holds no library", wheel.display()).into());
    }
    Ok(files)
}

/// The releases whose functions are known, the oldest first: the version, and what it exports.
type ExportsByRelease = BTreeMap<Vec<u32>, (String, BTreeSet<String>)>;

fn known_exports(known: &KnowledgeTables) -> ExportsByRelease {
    let FunctionTable { spans } = &known.functions;
    let versions = ARCHES.iter().flat_map(|arch| known.releases.versions_for(arch));
    let mut exports = ExportsByRelease::new();
    for version in versions {
        let covering = spans.iter().filter(|span| span.covers(version));
        let functions: BTreeSet<String> = covering.flat_map(|span| span.functions.clone()).collect();
        if !functions.is_empty() {
            exports.insert(version_numbers(version), (version.to_owned(), functions));
        }
    }
    exports
}

/// The functions that the library of a wheel exports.
fn exported_functions(wheel: &Path) -> Outcome<BTreeSet<String>> {
    let library = Knowledge::built_in().library;
    let mut archive = ZipArchive::new(File::open(wheel)?)?;
    let mut bytes = Vec::new();
    for number in 0..archive.len() {
        let member = archive.by_index(number)?;
        let is_own = member
            .name()?
            .rsplit('/')
            .next()
            .is_some_and(|file| file.starts_with(&library.stem));
        if is_own && bytes.is_empty() {
            member.take(FILE_LIMIT).read_to_end(&mut bytes)?;
        }
    }
    let elf = ElfFacts::of_bytes(&bytes, &NameMatcher::new([], [&library.symbols]));
    let exports = elf.symbols.iter().filter(|symbol| symbol.role == SymbolRole::Export);
    Ok(exports
        .map(|symbol| String::from_utf8_lossy(&symbol.name).into_owned())
        .collect())
}

/// A row for the functions that came with one release and went with another.
fn function_rows(exports: &ExportsByRelease) -> impl Iterator<Item = String> {
    let mut spans: BTreeMap<(&Vec<u32>, &Vec<u32>), BTreeSet<&str>> = BTreeMap::new();
    let all: BTreeSet<&String> = exports.values().flat_map(|(_, functions)| functions).collect();
    for function in all {
        let releases: Vec<_> = exports.iter().collect();
        let in_turn =
            releases.chunk_by(|(_, (_, one)), (_, (_, next))| one.contains(function) == next.contains(function));
        for run in in_turn {
            if let [(first, (_, functions)), ..] = run
                && let [.., (last, _)] = run
                && functions.contains(function)
            {
                spans.entry((first, last)).or_default().insert(function);
            }
        }
    }
    let version = |numbers: &Vec<u32>| exports.get(numbers).map_or("", |(version, _)| version);
    let rows = spans.into_iter().map(move |((first, last), functions)| {
        let functions: Vec<&str> = functions.into_iter().collect();
        format!("{},{},{}", version(first), version(last), functions.join(" "))
    });
    rows.collect::<Vec<_>>().into_iter()
}

fn sha256_of(mut source: impl io::Read) -> Outcome<(String, u64)> {
    let mut hash = Sha256::new();
    let (mut buffer, mut bytes) = (vec![0; 1 << 16], 0);
    loop {
        let read = source.read(&mut buffer)?;
        if read == 0 {
            return Ok((to_hex(&hash.finalize()), bytes));
        }
        hash.update(buffer.get(..read).unwrap_or_default());
        bytes += read as u64;
    }
}

/// `13.0.3` of `13.0.3.0`: the fourth number counts package revisions.
fn toolkit_of(version: &str) -> String {
    version.split('.').take(3).collect::<Vec<_>>().join(".")
}

/// The CUPTI version that a toolkit's package requires: 13.0.85 in `Requires-Dist: nvidia-cuda-cupti==13.0.85.*; …`.
fn cupti_of_toolkit(version: &str) -> Outcome<String> {
    let folder = tempfile::tempdir()?;
    let mut archive = ZipArchive::new(File::open(download(folder.path(), TOOLKIT, version, "x86_64")?)?)?;
    let mut text = String::new();
    for number in 0..archive.len() {
        let member = archive.by_index(number)?;
        if member.name()?.ends_with("/METADATA") {
            member.take(FILE_LIMIT).read_to_string(&mut text)?;
        }
    }
    let pin = Knowledge::built_in().library.wheels.pin.clone().unwrap_or_default();
    let begin = format!("Requires-Dist: {pin}");
    let mut required = text.lines().filter_map(|line| line.strip_prefix(begin.as_str()));
    let cupti = required.find_map(|rest| rest.split_once("==")?.1.split_once(".*"));
    Ok(cupti
        .ok_or_else(|| format!("{TOOLKIT} {version} requires no CUPTI"))?
        .0
        .to_owned())
}

fn wheel_rows(wheels: BTreeSet<ListedWheel>) -> impl Iterator<Item = String> {
    let mut wheels: Vec<ListedWheel> = wheels.into_iter().collect();
    wheels.sort_by_key(|wheel| (version_numbers(&wheel.version), wheel.arch.clone()));
    wheels.into_iter().map(|wheel| {
        let [package, version, arch] = key(&wheel);
        format!("{package},{version},{arch},{}", wheel.sha256)
    })
}

fn release_rows(releases: &ReleaseTable) -> impl Iterator<Item = String> {
    let mut rows: Vec<(&String, &ReleaseFile)> = releases.by_hash.iter().collect();
    // Files bundled by other tools come last.
    rows.sort_by_cached_key(|(hash, file)| {
        let first = file.versions.first().map(|version| version_numbers(version));
        (
            file.bundle.clone(),
            first,
            file.file.clone(),
            file.arch.clone(),
            (*hash).clone(),
        )
    });
    rows.into_iter().map(|(hash, file)| {
        let (versions, bundle) = (file.versions.join(" "), file.bundle.as_deref().unwrap_or_default());
        format!("{hash},{versions},{bundle},{},{},{}", file.arch, file.file, file.bytes)
    })
}

fn table(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../profiles/cupti")
        .join(name)
}

/// Writes the rows of a table below its comments and column names.
fn write_rows(name: &str, rows: impl Iterator<Item = String>) -> io::Result<()> {
    let path = table(name);
    let text = fs::read_to_string(&path)?;
    let comments = text.lines().take_while(|line| line.starts_with('#')).count();
    let head = text.lines().take(comments + 1).map(str::to_owned);
    let lines: Vec<String> = head.chain(rows).collect();
    fs::write(path, lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::{ExportsByRelease, IndexListing, function_rows, key, known_exports, stale_lines};
    use cupti_audit::knowledge::{Knowledge, version_numbers};

    #[test]
    fn functions_are_written_as_they_were_read() {
        let known = Knowledge::built_in().tables;
        let rows: Vec<String> = function_rows(&known_exports(known)).collect();
        let table = include_str!("../../profiles/cupti/functions.csv").lines();
        let table: Vec<&str> = table.skip_while(|line| !line.starts_with("first,")).skip(1).collect();
        assert_eq!(rows, table);
    }

    #[test]
    fn a_function_has_a_row_for_each_span_of_releases() {
        let releases = [("1.0.1", "a b"), ("1.1.1", "a"), ("1.2.1", "a b"), ("1.10.1", "a b c")];
        let exports: ExportsByRelease = releases
            .iter()
            .map(|(version, functions)| {
                let functions = functions.split(' ').map(str::to_owned).collect();
                (version_numbers(version), ((*version).to_owned(), functions))
            })
            .collect();
        let rows: Vec<String> = function_rows(&exports).collect();
        assert_eq!(
            rows,
            ["1.0.1,1.0.1,b", "1.0.1,1.10.1,a", "1.2.1,1.10.1,b", "1.10.1,1.10.1,c"]
        );
    }

    #[test]
    fn every_difference_between_tables_and_index_is_listed() {
        let known = Knowledge::built_in().tables;
        let version = known.packages.pytorch.reference.trim_start_matches('v');
        let mut index = IndexListing {
            wheels: known.wheels.wheels.iter().map(key).collect(),
            toolkits: known
                .toolkits
                .iter()
                .map(|toolkit| format!("{}.0", toolkit.cuda))
                .collect(),
            pytorch: version.to_owned(),
        };
        assert_eq!(stale_lines(known, &index), [""; 0]);
        index.wheels.pop_first();
        index
            .wheels
            .insert(["nvidia-cuda-cupti", "99.1.2", "x86_64"].map(str::to_owned));
        index.toolkits.push("99.1.0".to_owned());
        index.pytorch = "99.0.0".to_owned();
        assert_eq!(
            stale_lines(known, &index),
            [
                "profiles/cupti/wheels.csv lacks nvidia-cuda-cupti 99.1.2 x86_64".to_owned(),
                "nvidia-cuda-cupti 13.0.48 aarch64 is no longer on the index".to_owned(),
                "profiles/cupti/toolkits.csv lacks 99.1.0".to_owned(),
                format!("profiles/cupti/packages.yaml has PyTorch v{version}, and 99.0.0 is there"),
            ]
        );
    }
}
