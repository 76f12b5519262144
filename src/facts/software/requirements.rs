//! Finds requirements of installed Python distributions that their environment does not satisfy, as in `pip check`.

use std::collections::{BTreeMap, BTreeSet};

use crate::knowledge::packages::{CheckedPackage, CuptiPackages, PackageManager};
use crate::knowledge::{ConsumerProfile, Knowledge};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use python_path::{
    DistributionRequirement, MarkerValues, PythonDistribution, PythonEnvironment, PythonInterpreter, read_requirements,
};

/// The maximum number of distributions to follow for the extras of one.
const FOLLOWED: usize = 64;

/// A requirement that an environment does not satisfy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmetRequirement {
    /// The interpreter of the environment.
    pub interpreter: RootPath,
    /// The normalized name and the version of the distribution that requires it.
    pub by: (String, String),
    /// The metadata with the requirement.
    pub metadata: RootPath,
    /// The requirement.
    pub requirement: DistributionRequirement,
    /// The installed version, if any.
    pub installed: Option<String>,
    /// The name prefixes of the libraries in the required distribution, as far as known.
    pub libraries: Vec<String>,
    /// Whether the distribution only contains libraries, so that no code imports it by name.
    pub is_libraries: bool,
}

/// The Python environments of an image, with their distributions.
pub(crate) struct InstalledPythons<'a> {
    pub rootfs: &'a Rootfs,
    pub python: &'a PythonEnvironment,
    pub distributions: &'a [PythonDistribution],
    /// The processor, as in `uname -m`.
    pub machine: &'a str,
}

/// The unsatisfied requirements of the checked packages in `pythons`. Each package is checked in the first environment
/// that finds it.
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
        // Code that changes `sys.path` may add unknown directories.
        if interpreter.code.is_none() && interpreter.rearranges.is_none() {
            unmet.extend(environment.unmet(&roots));
        }
    }
    for one in &mut unmet {
        one.libraries = libraries_of(&one.requirement.name, knowledge, profiles);
    }
    unmet
}

/// The name prefixes of the libraries in a wheel: programs look for `cuda_cupti/libcupti`, which
/// `nvidia-cuda-cupti-cu12` installs.
fn libraries_of(wheel: &str, knowledge: &Knowledge, profiles: &[ConsumerProfile]) -> Vec<String> {
    let mut found = BTreeSet::new();
    let pin = knowledge.library.wheels.pin.as_deref();
    if pin.is_some_and(|pin| wheel.starts_with(pin)) {
        found.insert(knowledge.library.file_stem().to_owned());
    }
    let pythons = profiles.iter().filter_map(|profile| profile.python.as_ref());
    for (folder, name) in pythons
        .flat_map(|python| &python.libraries)
        .filter_map(|library| library.split_once('/'))
    {
        let word = format!("-{}-", folder.replace('_', "-"));
        if format!("{wheel}-").contains(&word) {
            found.insert(format!("{name}.so"));
        }
    }
    found.into_iter().collect()
}

/// One environment: its interpreter, marker values and distributions.
struct OneEnvironment<'a> {
    pythons: &'a InstalledPythons<'a>,
    packages: &'a CuptiPackages,
    interpreter: &'a PythonInterpreter,
    values: MarkerValues,
    /// The distributions that it finds, by name.
    found: BTreeMap<&'a str, &'a PythonDistribution>,
    /// The versions of everything installed in it, including packages without their own metadata.
    installed: BTreeMap<String, Option<String>>,
}

/// A requirement and the distribution that declares it.
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
        // A package that another requirement explains does not prove that an extra was installed.
        let explained: BTreeSet<String> = required.iter().map(|(_, one)| one.name.clone()).collect();
        for (dist, checked) in roots {
            for extra in &checked.extras {
                let own = self.requirements(dist, std::slice::from_ref(extra));
                let mut names = own.iter().map(|one| &one.name);
                if names.any(|name| self.installed.contains_key(name) && !explained.contains(name)) {
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

    /// Adds the requirements of a distribution with these extras, and those of other distributions' extras that it
    /// requests.
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

    /// Returns the requirement if the environment does not satisfy it.
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

    /// Whether a module with this name exists, even without installer metadata.
    fn is_importable(&self, name: &str) -> bool {
        let module = name.replace('-', "_");
        let InstalledPythons { rootfs, python, .. } = *self.pythons;
        python.is_importable(rootfs, self.interpreter, module.as_bytes())
    }
}
