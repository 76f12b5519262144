//! A library that an image is asked about (`profiles/libraries/<id>.yaml`): its names, headers, sonames and packages.

use std::collections::BTreeMap;

use crate::byte_search::contains_bytes;
use serde::Deserialize;

use super::catalog::ReplaceKey;
use super::library_release::LibraryRelease;
use super::release_table::ReleaseTable;

/// The library that an image is asked about where none is named.
pub const DEFAULT_LIBRARY: &str = "cupti";

/// All that is special about one library.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryProfile {
    /// The stem of its file, by which `--library` chooses it.
    #[serde(skip)]
    pub id: String,
    /// The name for people, such as `CUPTI`.
    pub name: String,
    /// What its file names and sonames begin with, such as `libcupti.so`; opened where nothing says a number.
    pub stem: String,
    /// What the names of its functions begin with; empty where its symbols are not looked at.
    #[serde(default)]
    pub symbols: String,
    /// The same of the libraries beside it.
    #[serde(default)]
    pub companion_symbols: Vec<String>,
    /// Functions that programs look up by name once they have opened it (dlsym(3)): an object with such a string opens
    /// it, whatever name it gives.
    #[serde(default)]
    pub functions: Vec<String>,
    /// The libraries of its packages, itself among them.
    #[serde(default)]
    pub family: Vec<FamilyLibrary>,
    /// Whether its version is that of CUDA.
    #[serde(default)]
    pub is_cuda: bool,
    /// The header that programs include.
    pub header: String,
    /// The header that says its version.
    #[serde(default)]
    pub header_version: Option<HeaderVersion>,
    /// Where a file of it says its version itself.
    #[serde(default)]
    pub own_version: Option<OwnVersion>,
    /// The soname by version, the newest rule first.
    pub soname: Vec<SonameRule>,
    /// Its Python packages, as pip and their metadata name them.
    #[serde(default)]
    pub wheels: WheelNames,
    /// The package of conda.
    #[serde(default)]
    pub conda: Option<CondaPackage>,
    /// The package of NVIDIA's repositories, with `{major}` and `{minor}` to fill in.
    #[serde(default)]
    pub package: Option<String>,
    /// A word in the name of a package whose version is the library's.
    pub package_word: String,
    /// What its files need beside the C library, by soname.
    #[serde(default)]
    pub needed: Vec<String>,
    /// Whether it is made for glibc alone, so that musl loads no copy of it.
    #[serde(default)]
    pub glibc: bool,
    /// Rules about another library that hold for this one, too; a final `*` stands for any rest.
    #[serde(default)]
    pub rules: Vec<String>,
    /// Where it is put; into a folder of the loader's own where nothing is said.
    #[serde(default)]
    pub install: InstallPlaces,
    /// Whether the APIs, the profiling tools and the phases are about it.
    #[serde(default)]
    pub has_apis: bool,
    /// Read by the catalog.
    #[serde(default)]
    pub replace: ReplaceKey,
}

/// A package of conda that holds the library.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CondaPackage {
    /// Its name, without the version.
    pub name: String,
    /// The first major version of CUDA that it has.
    #[serde(default)]
    pub from_major: u32,
}

/// Where a library is put, each the first that will do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstallPlaces {
    /// The folders, from the root on.
    pub folders: Vec<String>,
    /// The files that name the folder to `ldconfig`.
    pub confs: Vec<String>,
}

/// A library of the same packages, and what is done with it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilyLibrary {
    /// The name up to the number of its soname.
    pub stem: String,
    /// Whether it is copied and spared along with the library.
    #[serde(default)]
    pub companion: bool,
    /// Whether a stale entry of `ld.so.cache` for it is told.
    #[serde(default)]
    pub cached: bool,
    /// The beginning of the names of files that are hashed.
    #[serde(default)]
    pub hashed: Option<String>,
    /// A part of the strings that are kept of objects.
    #[serde(default)]
    pub mentioned: Option<String>,
}

/// How a header says the version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderVersion {
    /// The name of the header.
    pub file: String,
    /// The macros: one that holds a number for the whole version, or one for each part of it.
    pub defines: Vec<String>,
    /// The version by the number of the one macro.
    #[serde(default)]
    pub counted: BTreeMap<String, String>,
    /// From this number on it is `major * 10000 + minor * 100` and the rest.
    #[serde(default)]
    pub decimal_from: Option<u32>,
}

/// A text within the files of a library that holds the version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnVersion {
    /// What stands before the version.
    pub begin: String,
    /// What stands behind it.
    pub end: String,
}

/// The soname from a major version on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SonameRule {
    /// The first major version that it holds for.
    pub from: u32,
    /// The soname, with `{major}` and `{minor}` to fill in.
    pub name: String,
}

/// The Python packages of a library.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelNames {
    /// What their names begin with, in normal form: an exact requirement of one says the version that is meant.
    #[serde(default)]
    pub pin: Option<String>,
    /// The same of the package that brings a whole toolkit.
    #[serde(default)]
    pub toolkit: Option<String>,
    /// Which of them a file below `site-packages/nvidia` can be from; the first that fits counts.
    #[serde(default)]
    pub owners: Vec<WheelOwner>,
    /// Those that can be installed.
    #[serde(default)]
    pub install: Vec<WheelPackage>,
}

/// The packages that a path can be from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelOwner {
    /// A part of the path.
    pub path: String,
    /// What the names of their folders of metadata begin with.
    pub begins: Vec<String>,
}

/// A package that can be installed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelPackage {
    /// The major version of CUDA.
    pub major: u32,
    /// The name that pip takes.
    pub name: String,
    /// The folder of its libraries, below `site-packages`.
    pub folder: String,
    /// Whether other libraries lie in the folder, too.
    #[serde(default)]
    pub shared: bool,
}

impl LibraryProfile {
    /// The name of its file without `.so`, such as `libcupti`: what reports call its copies.
    pub fn file_stem(&self) -> &str {
        self.stem.split(".so").next().unwrap_or_default()
    }

    /// Whether a file or soname is that of the library: its stem, or its stem and a number.
    pub fn is_name(&self, name: &[u8]) -> bool {
        name.strip_prefix(self.stem.as_bytes())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
    }

    /// Whether a name is that of a copy which a wheel brings for itself: auditwheel puts eight digits of the file's hash
    /// behind the stem, `libcupti-d23892b9.so.2022.2.1`, and asks for it by that name (auditwheel, `copylib`).
    pub fn is_vendored_name(&self, name: &[u8]) -> bool {
        self.unvendored(name).is_some()
    }

    /// What follows the stem in the name of such a copy.
    fn unvendored<'n>(&self, name: &'n [u8]) -> Option<&'n [u8]> {
        // Every name of an image is asked, and nearly all begin with another letter.
        if self.stem.as_bytes().first() != name.first() {
            return None;
        }
        let (stem, ending) = self.stem.split_once(".so")?;
        let rest = name.strip_prefix(stem.as_bytes())?.strip_prefix(b"-")?;
        let (hash, rest) = rest.split_first_chunk::<8>()?;
        let rest = rest.strip_prefix(b".so")?.strip_prefix(ending.as_bytes())?;
        let is_end = rest.is_empty() || rest.starts_with(b".");
        (is_end && hash.iter().all(u8::is_ascii_hexdigit)).then_some(rest)
    }

    /// Whether a text is the name of one of its functions.
    pub fn is_function(&self, text: &[u8]) -> bool {
        self.functions.iter().any(|function| function.as_bytes() == text)
    }

    /// Whether a file is one of its family by its name.
    pub fn is_family(&self, name: &[u8]) -> bool {
        self.family
            .iter()
            .any(|member| name.starts_with(member.stem.as_bytes()))
    }

    /// Whether a text holds a name by which one of its family may be opened.
    pub fn names_family(&self, text: &[u8]) -> bool {
        let mut names = self.family.iter().filter_map(|member| member.mentioned.as_ref());
        names.any(|name| contains_bytes(text, name.as_bytes()))
    }

    /// Whether a `DT_NEEDED` entry is for the library: its soname, or a path that ends in it.
    pub fn is_request(&self, name: &[u8]) -> bool {
        // ld.so takes a name with a slash for a path; it asks for the library all the same.
        let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        self.is_name(name) || self.is_vendored_name(name)
    }

    /// The number behind the stem of a name: `12.4` of `libcupti.so.12.4`.
    pub fn number_of<'n>(&self, name: &'n [u8]) -> Option<&'n str> {
        let rest = name
            .strip_prefix(self.stem.as_bytes())
            .or_else(|| self.unvendored(name));
        let rest = rest?.strip_prefix(b".")?;
        // Names in an image are bytes, and no release has a number that is not text.
        std::str::from_utf8(rest).ok()
    }

    /// The release of a version, of CUDA or of its own.
    pub fn release(&self, version: (u32, u32), exact: Option<String>) -> LibraryRelease {
        let (major, _) = version;
        // The newest rule stands first. CUPTI's soname lost its minor version with CUDA 12.
        let rule = self.soname.iter().find(|rule| rule.from <= major);
        let soname = rule.map_or(self.stem.as_str(), |rule| rule.name.as_str());
        LibraryRelease {
            cuda: version,
            exact,
            soname: fill_version(soname, version),
        }
    }

    /// The soname of a version such as `12.4.127`; `None` for what has no two numbers.
    pub fn soname_of(&self, version: &str) -> Option<String> {
        // A lone major version is too little: up to CUDA 11 the soname has the minor version, too.
        let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
        let version = (parts.next()??, parts.next()??);
        Some(self.release(version, None).soname)
    }

    /// Whether a file with this soname cannot be of a version: the number in the soname is another one.
    pub fn contradicts(&self, version: &str, soname: Option<&[u8]>) -> bool {
        let of_version = self.soname_of(version);
        // A soname without a number, or a lone major version, says too little.
        let numbered = soname.filter(|name| self.is_name(name) && self.number_of(name).is_some());
        numbered
            .zip(of_version)
            .is_some_and(|(soname, of_version)| of_version.as_bytes() != soname)
    }

    /// The version that a text of the library itself says, as compilers put it into GPU code.
    pub fn version_by_text<'t>(&self, texts: impl IntoIterator<Item = &'t [u8]>) -> Option<String> {
        let (begin, end) = self.own_version.as_ref().map(|own| (&own.begin, &own.end))?;
        let mut found = texts.into_iter().filter_map(|text| {
            let text = std::str::from_utf8(text).ok()?;
            let (_, rest) = text.split_once(begin.as_str())?;
            Some(rest.split_once(end.as_str())?.0.to_owned())
        });
        let first = found.next()?;
        // Code of several releases in one file says nothing of the file.
        found.all(|other| other == first).then_some(first)
    }

    /// The version that a file name carries, as far as it says more than a soname.
    pub fn version_by_name(&self, releases: &ReleaseTable, name: &[u8]) -> Option<String> {
        releases.cuda_of_number(self.number_of(name)?)
    }

    /// The soname that a file name stands for: `libcupti.so.2024.1.1` for `libcupti.so.12`; nothing for a name
    /// without a version, or with one that no release had.
    pub fn soname_by_name(&self, releases: &ReleaseTable, name: &[u8]) -> Option<String> {
        let number = self.number_of(name)?;
        if let Ok(major) = number.parse::<u32>() {
            // A lone number is a soname of its own, where the rule of its version has no second one.
            let soname = self.release((major, 0), None).soname;
            return (soname.as_bytes() == name).then_some(soname);
        }
        self.soname_of(&self.version_by_name(releases, name)?)
    }

    /// The version that its header says.
    pub fn version_by_header(&self, text: &[u8]) -> Option<String> {
        self.header_version.as_ref()?.read(std::str::from_utf8(text).ok()?)
    }

    /// The name that the loader is asked for: the library goes by its soname, those beside it by their bare names.
    pub fn loaded_name<'n>(&self, stem: &'n str, soname: &'n str) -> &'n str {
        if stem == self.stem { soname } else { stem }
    }

    /// The stems of the libraries that every package of it has beside it.
    pub fn companions(&self) -> impl Iterator<Item = &str> {
        let companions = self.family.iter().filter(|library| library.companion);
        companions.map(|library| library.stem.as_str())
    }
}

impl HeaderVersion {
    fn read(&self, text: &str) -> Option<String> {
        let numbers: Option<Vec<u32>> = self.defines.iter().map(|name| defined_number(text, name)).collect();
        // One macro holds a number to be taken apart; several are the parts as they stand.
        let [number] = numbers.as_deref()? else {
            let parts: Vec<String> = numbers?.iter().map(u32::to_string).collect();
            return Some(parts.join("."));
        };
        match self.decimal_from {
            // CUPTI_API_VERSION counts the releases up to CUDA 12.9; 130001 is CUDA 13.0 Update 1.
            Some(from) if *number >= from => Some(format!("{}.{}", number / 10_000, number / 100 % 100)),
            _ => self.counted.get(&number.to_string()).cloned(),
        }
    }
}

/// The number that a macro stands for.
fn defined_number(text: &str, name: &str) -> Option<u32> {
    let mut after = text.split("#define ").skip(1);
    let rest = after.find_map(|rest| {
        // A longer name may begin with the same letters.
        let rest = rest.trim_start().strip_prefix(name)?;
        rest.starts_with([' ', '\t']).then_some(rest)
    })?;
    let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next();
    digits?.parse().ok()
}

/// A name with the version in the place of `{major}` and `{minor}`.
pub fn fill_version(name: &str, (major, minor): (u32, u32)) -> String {
    let name = name.replace("{major}", &major.to_string());
    name.replace("{minor}", &minor.to_string())
}

#[cfg(test)]
mod tests {
    use crate::knowledge::Knowledge;

    #[test]
    fn the_soname_lost_its_minor_version_with_cuda_12() {
        let library = Knowledge::built_in().library;
        assert_eq!(library.soname_of("12.4.1").as_deref(), Some("libcupti.so.12"));
        assert_eq!(library.soname_of("11.8.0").as_deref(), Some("libcupti.so.11.8"));
        assert_eq!(library.soname_of("13.0").as_deref(), Some("libcupti.so.13"));
        assert_eq!(library.soname_of("unknown"), None);
    }

    #[test]
    fn which_soname_a_file_name_stands_for() {
        let known = Knowledge::built_in();
        let says = |name: &str| known.library.soname_by_name(&known.tables.releases, name.as_bytes());
        for (name, soname) in [
            ("libcupti.so.12", Some("libcupti.so.12")),
            ("libcupti.so.13", Some("libcupti.so.13")),
            ("libcupti.so.2022.3.0", Some("libcupti.so.11.8")),
            ("libcupti.so.10.1.208", Some("libcupti.so.10.1")),
            ("libcupti.so.12.4", Some("libcupti.so.12")),
            ("libcupti.so", None),
            ("libcupti.so.11", None),
            ("libcupti.so.1999.1.1", None),
        ] {
            assert_eq!(says(name).as_deref(), soname, "{name}");
        }
    }

    #[test]
    fn a_wheels_copy_is_the_library_by_a_name_of_its_own() {
        let library = Knowledge::built_in().library;
        let name = b"libcupti-d23892b9.so.2022.2.1";
        assert!(library.is_vendored_name(name) && library.is_request(name) && !library.is_name(name));
        assert_eq!(library.number_of(name), Some("2022.2.1"));
        assert!(!library.contradicts("11.7", Some(name)));
        for other in [
            "libcupti.so.12",
            "libcupti-d23892b.so",
            "libcupti-d23892bx.so",
            "libcupti-d23892b9.sox",
            "libcuptj-d23892b9.so",
        ] {
            assert!(!library.is_vendored_name(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_header_says_the_version() {
        let library = Knowledge::built_in().library;
        let version = |text: &str| library.version_by_header(text.as_bytes());
        assert_eq!(version("#define CUPTI_API_VERSION 22\n").as_deref(), Some("12.4"));
        assert_eq!(version("#define CUPTI_API_VERSION 130001").as_deref(), Some("13.0"));
        assert_eq!(version("nothing"), None);
    }
}
