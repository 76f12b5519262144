//! Updates `profiles/cupti` from Python's package index: the wheels of CUPTI with what they contain, the CUPTI of each
//! toolkit, and what the releases of frameworks ask for. It runs pip, whose configuration gives the index. A published
//! wheel never changes, so only unlisted ones are read.
#![expect(
    clippy::disallowed_methods,
    reason = "this chore runs pip and writes the repository's own folder"
)]

mod cupti_wheel;
mod frameworks;
mod pip;
mod tables;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs::{self, File};

use cupti_audit::knowledge::{Knowledge, KnowledgeTables, ListedWheel, ReleaseFile, ReleaseTable, version_numbers};

use cupti_wheel::WheelFacts;
use frameworks::{FRAMEWORKS, Framework};
use tables::ExportsByRelease;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The processors whose wheels are listed.
const ARCHES: [&str; 2] = ["aarch64", "x86_64"];
/// The package that requires the wheels of each toolkit.
const TOOLKIT: &str = "cuda-toolkit";
/// The size limit of a file in a wheel, in bytes; `libnvperf_host`, the largest of CUPTI, has 34 MB.
const FILE_LIMIT: u64 = 1 << 28;

/// The contents of the index.
struct IndexListing {
    /// Package, version and processor of each wheel.
    wheels: BTreeSet<[String; 3]>,
    toolkits: BTreeSet<String>,
    /// The package of each framework, and its versions.
    frameworks: BTreeSet<[String; 2]>,
}

/// The tables that are written.
#[derive(Default)]
struct MadeTables {
    wheels: BTreeSet<ListedWheel>,
    releases: ReleaseTable,
    exports: ExportsByRelease,
    /// The soname, glibc and targets of each version and processor.
    builds: BTreeMap<(Vec<u32>, String), Vec<String>>,
    /// The name of each result, and the first release that has it.
    results: BTreeMap<u32, [String; 2]>,
    /// The functions that each CUDA release ended.
    ended: BTreeMap<String, BTreeSet<String>>,
    /// The CUPTI of each toolkit.
    toolkits: BTreeMap<Vec<u32>, [String; 2]>,
    frameworks: BTreeMap<(String, Vec<u32>), Vec<String>>,
}

/// Adds what the tables lack. With `again`, reads everything that the index has. Returns a line to print.
///
/// Errors: Errors of pip, of a wheel or of the system.
pub fn write(again: bool) -> Outcome<String> {
    let index = ask_index()?;
    let mut made = if again {
        MadeTables::without(&index)
    } else {
        MadeTables::known()?
    };
    let added = missing_wheels(&index, &made.wheels);
    for wheel in &added {
        made.add_wheel(wheel)?;
    }
    for toolkit in &index.toolkits {
        made.add_toolkit(toolkit)?;
    }
    let mut unread = Vec::new();
    for [package, version] in &index.frameworks {
        let framework = FRAMEWORKS.iter().find(|framework| framework.package == package);
        let read = made.add_framework(framework.ok_or("no such framework")?, version);
        // One broken package must not lose what the others took minutes to read.
        unread.extend(read.err().map(|error| format!("{package} {version}: {error}")));
    }
    let counts = (made.wheels.len(), made.toolkits.len(), made.frameworks.len());
    made.write()?;
    let packages = tables::table("packages.yaml");
    let known_ref = Knowledge::built_in().tables.packages.pytorch.reference.as_str();
    let text = fs::read_to_string(&packages)?.replace(known_ref, &newest_pytorch(&index));
    fs::write(packages, text)?;
    if !unread.is_empty() {
        return Err(format!("the tables are written, but without these:\n{}", unread.join("\n")).into());
    }
    Ok(format!(
        "{} wheels, {} of them new; {} toolkits; {} releases of frameworks; PyTorch {}\n",
        counts.0,
        added.len(),
        counts.1,
        counts.2,
        newest_pytorch(&index)
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
            "{} wheels, {} toolkits and {} releases of frameworks, as the index has them\n",
            index.wheels.len(),
            known.toolkits.len(),
            index.frameworks.len()
        ));
    }
    Err(format!("{}\nrun `cargo xtask refresh` to add what is new", lines.join("\n")).into())
}

/// The differences between the tables and the index.
fn stale_lines(known: &KnowledgeTables, index: &IndexListing) -> Vec<String> {
    let lacks = |table: &str, rows: Vec<String>| -> Vec<String> {
        rows.into_iter()
            .map(|row| format!("profiles/cupti/{table} lacks {row}"))
            .collect()
    };
    let wheels = missing_wheels(index, &known.wheels.wheels)
        .iter()
        .map(|wheel| wheel.join(" "))
        .collect();
    let mut lines = lacks("wheels.csv", wheels);
    let is_gone = |wheel: &&ListedWheel| !index.wheels.contains(&key(wheel));
    let gone = known.wheels.wheels.iter().filter(is_gone);
    lines.extend(gone.map(|wheel| format!("{} is no longer on the index", key(wheel).join(" "))));
    let toolkits: BTreeSet<&str> = known.toolkits.iter().map(|toolkit| toolkit.cuda.as_str()).collect();
    let on_index = index.toolkits.iter().map(|version| toolkit_of(version));
    lines.extend(lacks(
        "toolkits.csv",
        on_index
            .filter(|version| !toolkits.contains(version.as_str()))
            .collect(),
    ));
    let releases: BTreeSet<[String; 2]> = known
        .framework_releases
        .iter()
        .map(|it| [it.package.clone(), it.version.clone()])
        .collect();
    let new = index.frameworks.difference(&releases).map(|release| release.join(" "));
    lines.extend(lacks("framework-releases.csv", new.collect()));
    let (own, newest) = (&known.packages.pytorch.reference, newest_pytorch(index));
    if *own != newest {
        lines.push(format!(
            "profiles/cupti/packages.yaml has PyTorch {own}, and {newest} is there"
        ));
    }
    lines
}

/// The git tag of the newest PyTorch.
fn newest_pytorch(index: &IndexListing) -> String {
    let versions = index.frameworks.iter().filter(|[package, _]| package == "torch");
    let newest = versions.max_by_key(|[_, version]| version_numbers(version));
    newest.map_or_else(String::new, |[_, version]| format!("v{version}"))
}

fn ask_index() -> Outcome<IndexListing> {
    let mut wheels = BTreeSet::new();
    for wheel in &Knowledge::built_in().library.wheels.install {
        for arch in ARCHES {
            let versions = pip::versions(&wheel.name, arch)?.into_iter();
            // A name that NVIDIA reserved has one release without files.
            let real = versions.filter(|version| !version_numbers(version).is_empty());
            wheels.extend(real.map(|version| [wheel.name.clone(), version, arch.to_owned()]));
        }
    }
    let mut releases = BTreeSet::new();
    for Framework { package, program, .. } in FRAMEWORKS {
        let mut versions = pip::versions(package, frameworks::ARCH)?;
        if program != package {
            let others = pip::versions(program, frameworks::ARCH)?;
            versions.retain(|version| others.contains(version));
        }
        // A post release has the program of the release.
        versions.retain(|version| !version_numbers(version).is_empty());
        releases.extend(versions.into_iter().map(|version| [package.to_owned(), version]));
    }
    Ok(IndexListing {
        wheels,
        toolkits: pip::versions(TOOLKIT, frameworks::ARCH)?,
        frameworks: releases,
    })
}

fn missing_wheels(index: &IndexListing, listed: &BTreeSet<ListedWheel>) -> Vec<[String; 3]> {
    let listed: BTreeSet<[String; 3]> = listed.iter().map(key).collect();
    index.wheels.difference(&listed).cloned().collect()
}

fn key(wheel: &ListedWheel) -> [String; 3] {
    [wheel.package.clone(), wheel.version.clone(), wheel.arch.clone()]
}

impl MadeTables {
    /// The tables as they are.
    fn known() -> Outcome<Self> {
        let known = Knowledge::built_in().tables;
        let mut made = Self {
            wheels: known.wheels.wheels.clone(),
            releases: known.releases.clone(),
            exports: tables::known_exports(known),
            ..Self::default()
        };
        for row in tables::read_rows("builds.csv")? {
            if let [version, arch, rest @ ..] = row.as_slice() {
                made.builds.insert(
                    (version_numbers(version), arch.clone()),
                    [&[version.clone(), arch.clone()], rest].concat(),
                );
            }
        }
        for row in tables::read_rows("result-codes.csv")? {
            if let [number, name, first] = row.as_slice() {
                made.results.insert(number.parse()?, [name.clone(), first.clone()]);
            }
        }
        for row in tables::read_rows("ended-functions.csv")? {
            if let [cuda, functions] = row.as_slice() {
                made.ended
                    .insert(cuda.clone(), functions.split(' ').map(str::to_owned).collect());
            }
        }
        for toolkit in &known.toolkits {
            let row = [toolkit.cuda.clone(), toolkit.cupti.clone()];
            made.toolkits.insert(version_numbers(&toolkit.cuda), row);
        }
        for row in tables::read_rows("framework-releases.csv")? {
            if let [package, version, ..] = row.as_slice() {
                made.frameworks.insert((package.clone(), version_numbers(version)), row);
            }
        }
        Ok(made)
    }

    /// The tables without what the index has: the files of other tools and of distributions.
    fn without(index: &IndexListing) -> Self {
        let mut releases = Knowledge::built_in().tables.releases.clone();
        for file in releases.by_hash.values_mut() {
            let is_listed = |version: &String| {
                index
                    .wheels
                    .iter()
                    .any(|[_, listed, arch]| listed == version && *arch == file.arch)
            };
            file.versions.retain(|version| !is_listed(version));
        }
        releases
            .by_hash
            .retain(|_, file| file.bundle.is_some() || !file.versions.is_empty());
        Self {
            releases,
            ..Self::default()
        }
    }

    fn add_wheel(&mut self, wheel: &[String; 3]) -> Outcome<()> {
        let [package, version, arch] = wheel;
        println!("{package} {version} for {arch}");
        let folder = tempfile::tempdir()?;
        let path = pip::download(folder.path(), package, version, arch)?;
        let facts = cupti_wheel::read(&path)?;
        let before = self
            .exports
            .insert(version_numbers(version), (version.clone(), facts.functions.clone()));
        if before.is_some_and(|(_, before)| before != facts.functions) {
            return Err(format!("the wheels of {version} export different functions").into());
        }
        self.wheels.insert(ListedWheel {
            package: package.clone(),
            version: version.clone(),
            arch: arch.clone(),
            sha256: cupti_wheel::sha256_of(File::open(&path)?)?,
        });
        self.add_facts(facts, version, arch);
        Ok(())
    }

    fn add_facts(&mut self, facts: WheelFacts, version: &str, arch: &str) {
        // Removes old rows of this version first.
        for file in self.releases.by_hash.values_mut().filter(|file| file.arch == arch) {
            file.versions.retain(|other| other != version);
        }
        for (name, hash, bytes) in facts.files {
            let (versions, arch) = (Vec::new(), arch.to_owned());
            let new = ReleaseFile {
                versions,
                bundle: None,
                arch,
                file: name,
                bytes,
            };
            let listed = self.releases.by_hash.entry(hash).or_insert(new);
            listed.versions.push(version.to_owned());
            listed.versions.sort_by_key(|version| version_numbers(version));
        }
        self.releases
            .by_hash
            .retain(|_, file| file.bundle.is_some() || !file.versions.is_empty());
        let dotted = |numbers: &Vec<u32>| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
        let targets: Vec<String> = facts.targets.iter().map(dotted).collect();
        let row = [version, arch, &facts.soname, &dotted(&facts.glibc), &targets.join(" ")].map(str::to_owned);
        self.builds
            .insert((version_numbers(version), arch.to_owned()), row.to_vec());
        for (number, name) in facts.results {
            let row = self.results.entry(number).or_insert_with(|| [name, version.to_owned()]);
            if version_numbers(version) < version_numbers(&row[1]) {
                version.clone_into(&mut row[1]);
            }
        }
        for (cuda, functions) in facts.ended {
            self.ended.entry(cuda).or_default().extend(functions);
        }
    }

    fn add_toolkit(&mut self, package: &str) -> Outcome<()> {
        let toolkit = toolkit_of(package);
        let numbers = version_numbers(&toolkit);
        if let Entry::Vacant(missing) = self.toolkits.entry(numbers) {
            let cupti = cupti_of_toolkit(package)?;
            missing.insert([toolkit, cupti]);
        }
        Ok(())
    }

    fn add_framework(&mut self, framework: &Framework, version: &str) -> Outcome<()> {
        let key = (framework.package.to_owned(), version_numbers(version));
        if let Entry::Vacant(missing) = self.frameworks.entry(key) {
            println!("{} {version}", framework.package);
            missing.insert(frameworks::read(framework, version)?.to_vec());
        }
        Ok(())
    }

    fn write(self) -> Outcome<()> {
        let words = |functions: BTreeSet<String>| functions.into_iter().collect::<Vec<_>>().join(" ");
        let rows = |rows: Vec<Vec<String>>| rows.into_iter().map(|row| row.join(",")).collect::<Vec<_>>();
        let results = self
            .results
            .into_iter()
            .map(|(number, [name, first])| vec![number.to_string(), name, first]);
        let ended = self
            .ended
            .into_iter()
            .map(|(cuda, functions)| vec![cuda, words(functions)]);
        let toolkits = self.toolkits.into_values().map(|row| row.to_vec());
        for (table, rows) in [
            ("wheels.csv", tables::wheel_rows(self.wheels)),
            ("releases.csv", tables::release_rows(&self.releases)),
            ("functions.csv", tables::function_rows(&self.exports)),
            ("builds.csv", rows(self.builds.into_values().collect())),
            ("result-codes.csv", rows(results.collect())),
            ("ended-functions.csv", rows(ended.collect())),
            ("toolkits.csv", rows(toolkits.collect())),
            ("framework-releases.csv", rows(self.frameworks.into_values().collect())),
        ] {
            tables::write_rows(table, &rows)?;
        }
        Ok(())
    }
}

/// `13.0.3` of `13.0.3.0`: the fourth number counts package revisions.
fn toolkit_of(version: &str) -> String {
    version.split('.').take(3).collect::<Vec<_>>().join(".")
}

/// The CUPTI version that a toolkit's package requires: 13.0.85 in `Requires-Dist: nvidia-cuda-cupti==13.0.85.*; …`.
fn cupti_of_toolkit(version: &str) -> Outcome<String> {
    let folder = tempfile::tempdir()?;
    let lines = pip::requirements(&pip::download(folder.path(), TOOLKIT, version, frameworks::ARCH)?)?;
    let pin = Knowledge::built_in().library.wheels.pin.clone().unwrap_or_default();
    let mut required = lines.iter().filter_map(|line| line.strip_prefix(pin.as_str()));
    let (cupti, _) = required
        .find_map(|rest| rest.split_once("==")?.1.split_once(".*"))
        .ok_or_else(|| format!("{TOOLKIT} {version} requires no CUPTI"))?;
    Ok(cupti.to_owned())
}

#[cfg(test)]
mod tests {
    use super::tables::{ExportsByRelease, function_rows, known_exports};
    use super::{IndexListing, key, stale_lines};
    use cupti_audit::knowledge::{Knowledge, version_numbers};

    #[test]
    fn functions_are_written_as_they_were_read() {
        let known = Knowledge::built_in().tables;
        let rows: Vec<String> = function_rows(&known_exports(known));
        let table = include_str!("../../../profiles/cupti/functions.csv").lines();
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
        let rows: Vec<String> = function_rows(&exports);
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
            frameworks: (known.framework_releases.iter())
                .map(|release| [release.package.clone(), release.version.clone()])
                .collect(),
        };
        assert_eq!(stale_lines(known, &index), [""; 0]);
        index.wheels.pop_first();
        index
            .wheels
            .insert(["nvidia-cuda-cupti", "99.1.2", "x86_64"].map(str::to_owned));
        index.toolkits.insert("99.1.0".to_owned());
        index.frameworks.insert(["torch", "99.0.0"].map(str::to_owned));
        assert_eq!(
            stale_lines(known, &index),
            [
                "profiles/cupti/wheels.csv lacks nvidia-cuda-cupti 99.1.2 x86_64".to_owned(),
                "nvidia-cuda-cupti 13.0.48 aarch64 is no longer on the index".to_owned(),
                "profiles/cupti/toolkits.csv lacks 99.1.0".to_owned(),
                "profiles/cupti/framework-releases.csv lacks torch 99.0.0".to_owned(),
                format!("profiles/cupti/packages.yaml has PyTorch v{version}, and v99.0.0 is there"),
            ]
        );
    }
}
