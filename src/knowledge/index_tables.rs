//! What `cargo xtask refresh` reads from the packages on Python's index: the build of each CUPTI, its results, the
//! functions that a CUDA release ended, and what the releases of frameworks ask for.

use super::data_files::csv_words;
use super::library_release::version_numbers;

/// The libcupti of a wheel (`profiles/cupti/builds.csv`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseBuild {
    /// The version, such as `12.4.127`.
    pub version: String,
    /// The processor, such as `x86_64`.
    pub arch: String,
    /// Its soname.
    pub soname: String,
    /// The oldest glibc that has what the libraries of the wheel need.
    pub glibc: String,
    /// The compute capabilities that its options of the compiler name. Releases before 13.0 compress most of them.
    pub targets: Vec<String>,
}

/// A `CUptiResult` (`profiles/cupti/result-codes.csv`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultCode {
    /// Its number.
    pub number: u32,
    /// Its name in `cupti_result.h`.
    pub name: String,
    /// The first release whose header has it.
    pub first: String,
}

/// The functions that a CUDA release ended (`profiles/cupti/ended-functions.csv`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedFunctions {
    /// The CUDA release, such as `13.0`.
    pub cuda: String,
    /// The functions whose headers say so.
    pub functions: Vec<String>,
}

/// A release of a framework (`profiles/cupti/framework-releases.csv`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameworkRelease {
    /// The package that requires CUPTI.
    pub package: String,
    /// Its version.
    pub version: String,
    /// What it requires: `nvidia-cuda-cupti-cu12==12.8.90`, or nothing.
    pub requires: String,
    /// The names of libcupti in its program.
    pub names: Vec<String>,
    /// The folders of CUPTI in the program's search path.
    pub search: Vec<String>,
}

impl FrameworkRelease {
    /// The CUDA version of the CUPTI that it requires.
    pub fn required_cuda(&self) -> Option<(u32, u32)> {
        let numbers = version_numbers(self.requires.rsplit_once('=')?.1);
        Some((*numbers.first()?, *numbers.get(1)?))
    }
}

impl ReleaseBuild {
    /// Reads a row of the table.
    pub(super) fn read([version, arch, soname, glibc, targets]: [&str; 5]) -> Self {
        Self {
            version: version.to_owned(),
            arch: arch.to_owned(),
            soname: soname.to_owned(),
            glibc: glibc.to_owned(),
            targets: csv_words(targets),
        }
    }
}

impl ResultCode {
    /// Reads a row of the table.
    pub(super) fn read([number, name, first]: [&str; 3]) -> Self {
        Self {
            number: number.parse().expect("a test reads the tables of the program"),
            name: name.to_owned(),
            first: first.to_owned(),
        }
    }
}

impl EndedFunctions {
    /// Reads a row of the table.
    pub(super) fn read([cuda, functions]: [&str; 2]) -> Self {
        Self {
            cuda: cuda.to_owned(),
            functions: csv_words(functions),
        }
    }
}

impl FrameworkRelease {
    /// Reads a row of the table.
    pub(super) fn read([package, version, requires, names, search]: [&str; 5]) -> Self {
        Self {
            package: package.to_owned(),
            version: version.to_owned(),
            requires: requires.to_owned(),
            names: csv_words(names),
            search: csv_words(search),
        }
    }
}
