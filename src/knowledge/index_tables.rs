//! What `cargo xtask refresh` reads from the packages on Python's index: the build of each CUPTI, its results, the
//! functions that a CUDA release ended, and what the releases of frameworks ask for.

use super::csv_table::{FieldMistake, RowFields};

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

impl ReleaseBuild {
    /// Reads a row of the table.
    ///
    /// Errors: A mistake in a field.
    pub(super) fn read(row: [&str; 5]) -> Result<Self, FieldMistake> {
        let row = RowFields(row);
        Ok(Self {
            version: row.version(0, "a version of CUPTI, such as 12.4.127")?,
            arch: row.name(1, "a processor, such as x86_64")?,
            soname: row.name(2, "a soname, such as libcupti.so.12")?,
            glibc: row.version(3, "a version of glibc, such as 2.17")?,
            targets: row.versions(4, "compute capabilities with spaces between them, such as 9.0 10.0")?,
        })
    }
}

impl ResultCode {
    /// Reads a row of the table.
    ///
    /// Errors: A mistake in a field.
    pub(super) fn read(row: [&str; 3]) -> Result<Self, FieldMistake> {
        let row = RowFields(row);
        Ok(Self {
            number: row.number(0, "the number of a result")?,
            name: row.name(1, "a result, such as CUPTI_ERROR_UNKNOWN")?,
            first: row.version(2, "a version of CUPTI, such as 12.4.127")?,
        })
    }
}

impl EndedFunctions {
    /// Reads a row of the table.
    ///
    /// Errors: A mistake in a field.
    pub(super) fn read(row: [&str; 2]) -> Result<Self, FieldMistake> {
        let row = RowFields(row);
        Ok(Self {
            cuda: row.version(0, "a version of CUDA, such as 13.0")?,
            functions: row.names(1, "functions with spaces between them")?,
        })
    }
}

impl FrameworkRelease {
    /// Reads a row of the table.
    ///
    /// Errors: A mistake in a field.
    pub(super) fn read(row: [&str; 5]) -> Result<Self, FieldMistake> {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let [_, _, requires, names, search] = row;
        let row = RowFields(row);
        Ok(Self {
            package: row.name(0, "the name of a package")?,
            version: row.version(1, "a version, such as 2.15.0")?,
            requires: requires.to_owned(),
            names: words(names),
            search: words(search),
        })
    }
}
