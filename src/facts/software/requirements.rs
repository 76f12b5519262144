//! What installed distributions of Python require and the same environment does not have, as `pip check` compares it.

use std::collections::{BTreeMap, BTreeSet};

use crate::knowledge::packages::{CheckedPackage, CuptiPackages, PackageManager};
use crate::knowledge::{ConsumerProfile, Knowledge};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use python_path::{
    DistributionRequirement, MarkerValues, PythonDistribution, PythonEnvironment, PythonInterpreter, read_requirements,
};

/// The distributions that are followed for their extras from one, at most.
const FOLLOWED: usize = 64;

/// A requirement that an environment does not meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmetRequirement {
    /// The interpreter of the environment.
    pub interpreter: RootPath,
    /// The name of the distribution that requires it, in normal form, and its version.
    pub by: (String, String),
    /// The metadata that says so.
    pub metadata: RootPath,
    /// What is required.
    pub requirement: DistributionRequirement,
    /// The version that is installed; `None` where none is.
    pub installed: Option<String>,
    /// The beginnings of the names of libraries that what is required brings, as far as they are known.
    pub libraries: Vec<String>,
    /// Whether it is a package of libraries alone, which no import asks for by its name.
    pub is_libraries: bool,
}

/// The Python environments of an image, and what is in them.
pub(crate) struct InstalledPythons<'a> {
    pub rootfs: &'a Rootfs,
    pub python: &'a PythonEnvironment,
    pub distributions: &'a [PythonDistribution],
    /// The processor, as `uname -m` says it.
    pub machine: &'a str,
}

/// What the checked packages of `pythons` require and do not get. Each is asked in the first environment that finds it.
pub(crate) fn find_unmet(
    pythons: &InstalledPythons<'_>,
    knowledge: &Knowledge,
    profiles: &[ConsumerProfile],
) -> Vec<UnmetRequirement> {
    let packages = &knowledge.tables.packages;
    let mut judged = BTreeSet::new();
    let mut unmet = Vec::new();
    for interpreter in pythons.python.interpreters() {
        let Some(environment) = OneEnvironment::read(pythons, packages, interpreter) else {
            continue;
        };
        let roots: Vec<_> = environment
            .found
            .values()
            .filter_map(|dist| {
                let checked = packages.checked_package(PackageManager::Pip, &dist.name)?;
                (checked.requires && judged.insert(&dist.metadata)).then_some((*dist, checked))
            })
            .collect();
        // Code that changes `sys.path` may add folders that nobody knows.
        if interpreter.code.is_none() && interpreter.rearranges.is_none() {
            unmet.extend(environment.unmet(&roots));
        }
    }
    for one in &mut unmet {
        one.libraries = libraries_of(&one.requirement.name, knowledge, profiles);
    }
    unmet
}

/// The beginnings of the names of libraries that a wheel brings: programs look for `cuda_cupti/libcupti` in what
/// `nvidia-cuda-cupti-cu12` installs.
fn libraries_of(wheel: &str, knowledge: &Knowledge, profiles: &[ConsumerProfile]) -> Vec<String> {
    let pin = knowledge.library.wheels.pin.as_deref();
    let own = pin
        .filter(|pin| wheel.starts_with(pin))
        .map(|_| knowledge.library.file_stem().to_owned());
    let opened = profiles.iter().filter_map(|profile| profile.python.as_ref());
    let opened = opened.flat_map(|python| &python.libraries).filter_map(|library| {
        let (folder, name) = library.split_once('/')?;
        let word = format!("-{}-", folder.replace('_', "-"));
        format!("{wheel}-").contains(&word).then(|| format!("{name}.so"))
    });
    own.into_iter()
        .chain(opened)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// One environment: its interpreter, the values of its markers, and what it has.
struct OneEnvironment<'a> {
    pythons: &'a InstalledPythons<'a>,
    packages: &'a CuptiPackages,
    interpreter: &'a PythonInterpreter,
    values: MarkerValues,
    /// The distributions that it finds, by name.
    found: BTreeMap<&'a str, &'a PythonDistribution>,
    /// The versions of all that is installed in it, those without metadata of their own included.
    installed: BTreeMap<String, Option<String>>,
}

/// A requirement and the distribution that has it.
type RequiredBy<'a> = (&'a PythonDistribution, DistributionRequirement);

impl<'a> OneEnvironment<'a> {
    fn read(
        pythons: &'a InstalledPythons<'a>,
        packages: &'a CuptiPackages,
        interpreter: &'a PythonInterpreter,
    ) -> Option<Self> {
        let mut found = BTreeMap::new();
        for folder in pythons.python.folders(interpreter) {
            let inside = pythons
                .distributions
                .iter()
                .filter(|dist| dist.site == folder.real_path);
            for dist in inside {
                found.entry(dist.name.as_str()).or_insert(dist);
            }
        }
        Some(Self {
            pythons,
            packages,
            interpreter,
            values: MarkerValues::of_python(&interpreter.version, pythons.machine)?,
            found,
            installed: pythons.python.installed(pythons.rootfs, interpreter),
        })
    }

    fn unmet(&self, roots: &[(&'a PythonDistribution, &CheckedPackage)]) -> Vec<UnmetRequirement> {
        let mut required: Vec<RequiredBy<'a>> = Vec::new();
        for (dist, _) in roots {
            self.follow(dist, &[], &mut required);
        }
        // What is installed for another reason does not show that an extra was asked for.
        let explained: BTreeSet<String> = required.iter().map(|(_, one)| one.name.clone()).collect();
        for (dist, checked) in roots {
            for extra in &checked.extras {
                let own = self.requirements(dist, std::slice::from_ref(extra));
                let shows = |one: &DistributionRequirement| {
                    self.installed.contains_key(&one.name) && !explained.contains(&one.name)
                };
                if own.iter().any(shows) {
                    self.follow(dist, std::slice::from_ref(extra), &mut required);
                }
            }
        }
        let mut told = BTreeSet::new();
        required.retain(|(dist, one)| told.insert((dist.name.clone(), one.to_string())));
        required
            .into_iter()
            .filter_map(|(dist, one)| self.check(dist, one))
            .collect()
    }

    /// Adds what a distribution requires with these extras, and what it asks for of the extras of others.
    fn follow(&self, dist: &'a PythonDistribution, extras: &[String], required: &mut Vec<RequiredBy<'a>>) {
        let mut pending = vec![(dist, extras.to_vec())];
        let mut seen = BTreeSet::new();
        while let Some((dist, extras)) = pending.pop() {
            if seen.len() >= FOLLOWED || !seen.insert((&dist.name, extras.clone())) {
                continue;
            }
            for one in self.requirements(dist, &extras) {
                let asked = self.found.get(one.name.as_str()).filter(|_| !one.extras.is_empty());
                pending.extend(asked.map(|dist| (*dist, one.extras.clone())));
                required.push((dist, one));
            }
        }
    }

    fn requirements(&self, dist: &PythonDistribution, extras: &[String]) -> Vec<DistributionRequirement> {
        let metadata = self.pythons.rootfs.content(&dist.metadata.absolute());
        read_requirements(metadata.unwrap_or_default(), &self.values, extras)
    }

    /// The requirement, where the environment does not meet it.
    fn check(&self, dist: &PythonDistribution, requirement: DistributionRequirement) -> Option<UnmetRequirement> {
        let checked = self.packages.checked_package(PackageManager::Pip, &requirement.name);
        let is_libraries = checked.is_some_and(|checked| !checked.requires);
        let installed = match self.installed.get(&requirement.name) {
            Some(version) => Some(version.clone().filter(|version| !requirement.admits(version))?),
            None if !is_libraries && self.is_importable(&requirement.name) => return None,
            None => None,
        };
        Some(UnmetRequirement {
            interpreter: self.interpreter.path.clone(),
            by: (dist.name.clone(), dist.version.clone()),
            metadata: dist.metadata.clone(),
            requirement,
            installed,
            libraries: Vec::new(),
            is_libraries,
        })
    }

    /// Whether a module of this name is there, without the metadata of an installer.
    fn is_importable(&self, name: &str) -> bool {
        let module = name.replace('-', "_");
        let InstalledPythons { rootfs, python, .. } = *self.pythons;
        python.is_importable(rootfs, self.interpreter, module.as_bytes())
    }
}
