//! CUPTI as a library (`profiles/libraries/cupti.yaml`): its names, headers, sonames and packages.

use std::collections::BTreeMap;

use crate::byte_search::contains_bytes;
use serde::Deserialize;

use super::library_release::LibraryRelease;
use super::release_table::ReleaseTable;

/// The properties of CUPTI as a library.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryProfile {
    /// The display name, such as `CUPTI`.
    pub name: String,
    /// The prefix of its file names and sonames, such as `libcupti.so`; the name to open if no number is known.
    pub stem: String,
    /// The prefix of its functions; empty to ignore its symbols.
    #[serde(default)]
    pub symbols: String,
    /// The prefixes of its companions' functions.
    #[serde(default)]
    pub companion_symbols: Vec<String>,
    /// Functions that programs look up with dlsym(3). An object with such a string opens the library, under whatever
    /// name.
    #[serde(default)]
    pub functions: Vec<String>,
    /// The libraries of its packages, including itself.
    #[serde(default)]
    pub family: Vec<FamilyLibrary>,
    /// The header that programs include.
    pub header: String,
    /// The header that defines its version.
    #[serde(default)]
    pub header_version: Option<HeaderVersion>,
    /// The text in its files that contains the version.
    #[serde(default)]
    pub own_version: Option<OwnVersion>,
    /// The soname by version, newest rule first.
    pub soname: Vec<SonameRule>,
    /// Its Python packages, as named by pip and their metadata.
    #[serde(default)]
    pub wheels: WheelNames,
    /// The conda package.
    #[serde(default)]
    pub conda: Option<CondaPackage>,
    /// The package in NVIDIA's repositories, with `{major}` and `{minor}` as placeholders.
    #[serde(default)]
    pub package: Option<String>,
    /// A word in the names of packages that have the library's version.
    pub package_word: String,
    /// The sonames that its files need in addition to the C library.
    #[serde(default)]
    pub needed: Vec<String>,
    /// The version of glibc that its releases need, newest first.
    #[serde(default)]
    pub glibc_needs: Vec<GlibcNeed>,
    /// Where to install it; by default a folder of the loader.
    #[serde(default)]
    pub install: InstallPlaces,
}

/// A conda package with the library.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CondaPackage {
    /// Its name, without the version.
    pub name: String,
    /// The first CUDA major version that it supports.
    #[serde(default)]
    pub from_major: u32,
}

impl CondaPackage {
    /// Whether it exists for a major version of CUDA.
    pub fn is_of(&self, major: u32) -> bool {
        self.from_major <= major
    }
}

/// Where to install a library; the first usable entry wins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstallPlaces {
    /// The folders, as absolute paths.
    pub folders: Vec<String>,
    /// The files that register the folder with `ldconfig`.
    pub confs: Vec<String>,
}

/// A library from the same packages, and how to treat it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilyLibrary {
    /// The name without its soname number.
    pub stem: String,
    /// Whether it is copied and kept together with the library.
    #[serde(default)]
    pub companion: bool,
    /// Whether to report a stale `ld.so.cache` entry for it.
    #[serde(default)]
    pub cached: bool,
    /// The prefix of file names to hash.
    #[serde(default)]
    pub hashed: Option<String>,
    /// A substring of object strings to keep.
    #[serde(default)]
    pub mentioned: Option<String>,
}

/// How a header defines the version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderVersion {
    /// The file name of the header.
    pub file: String,
    /// The macros: one with a number for the whole version, or one per part.
    pub defines: Vec<String>,
    /// The version for each value of the single macro, or several, joined by ` or `.
    #[serde(default)]
    pub counted: BTreeMap<String, String>,
    /// From this value on, the number is `major * 10000 + minor * 100` plus a remainder.
    #[serde(default)]
    pub decimal_from: Option<u32>,
}

/// A text in a library's files that contains the version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnVersion {
    /// The text before the version.
    pub begin: String,
    /// The text after it.
    pub end: String,
}

/// The soname, starting with a major version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SonameRule {
    /// The first major version that the rule applies to.
    pub from: u32,
    /// The soname, with `{major}` and `{minor}` as placeholders.
    pub name: String,
}

/// The version of glibc that releases need.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GlibcNeed {
    /// The first CUDA version with this need.
    pub from: String,
    pub version: String,
}

/// The Python packages of a library.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelNames {
    /// The prefix of their normalized names. A pin of such a package states the intended version.
    #[serde(default)]
    pub pin: Option<String>,
    /// The prefix for the package with a whole toolkit.
    #[serde(default)]
    pub toolkit: Option<String>,
    /// The possible owners of a file below `site-packages/nvidia`; the first match applies.
    #[serde(default)]
    pub owners: Vec<WheelOwner>,
    /// The installable packages.
    #[serde(default)]
    pub install: Vec<WheelPackage>,
}

/// The possible owners of a path.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelOwner {
    /// A part of the path.
    pub path: String,
    /// The prefixes of their metadata folders.
    pub begins: Vec<String>,
}

/// An installable package.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelPackage {
    /// The CUDA major version.
    pub major: u32,
    /// The name for pip.
    pub name: String,
    /// The folder of its libraries, below `site-packages`.
    pub folder: String,
    /// Whether the folder also contains other libraries.
    #[serde(default)]
    pub shared: bool,
}

impl LibraryProfile {
    /// Its file name without `.so`, such as `libcupti`, as reports call its copies.
    pub fn file_stem(&self) -> &str {
        self.stem.split(".so").next().unwrap_or_default()
    }

    /// Whether a file name or soname is the library's: its stem, optionally with a number.
    pub fn is_name(&self, name: &[u8]) -> bool {
        name.strip_prefix(self.stem.as_bytes())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
    }

    /// Whether a name is that of a copy vendored into a wheel. auditwheel appends eight digits of the file's hash to
    /// the stem, as in `libcupti-d23892b9.so.2022.2.1`, and rewrites requests to that name (auditwheel, `copylib`).
    pub fn is_vendored_name(&self, name: &[u8]) -> bool {
        self.unvendored(name).is_some()
    }

    /// The part after the stem in such a name.
    fn unvendored<'n>(&self, name: &'n [u8]) -> Option<&'n [u8]> {
        // Every name in an image is checked, and almost all fail on the first letter.
        if self.stem.as_bytes().first() != name.first() {
            return None;
        }
        let (stem, ending) = self.stem.split_once(".so")?;
        let vendored = name.strip_prefix(stem.as_bytes())?.strip_prefix(b"-")?;
        let (hash, behind_hash) = vendored.split_first_chunk::<8>()?;
        let rest = behind_hash.strip_prefix(b".so")?.strip_prefix(ending.as_bytes())?;
        let is_end = rest.is_empty() || rest.starts_with(b".");
        (is_end && hash.iter().all(u8::is_ascii_hexdigit)).then_some(rest)
    }

    /// Whether a text is the name of one of its functions.
    pub fn is_function(&self, text: &[u8]) -> bool {
        self.functions.iter().any(|function| function.as_bytes() == text)
    }

    /// Whether a file belongs to its family, by name.
    pub fn is_family(&self, name: &[u8]) -> bool {
        self.family
            .iter()
            .any(|member| name.starts_with(member.stem.as_bytes()))
    }

    /// Whether a text contains a name that opens a family member.
    pub fn names_family(&self, text: &[u8]) -> bool {
        let mut names = self.family.iter().filter_map(|member| member.mentioned.as_ref());
        names.any(|name| contains_bytes(text, name.as_bytes()))
    }

    /// Whether a `DT_NEEDED` entry requests the library: its soname, or a path that ends in it.
    pub fn is_request(&self, name: &[u8]) -> bool {
        // ld.so treats a name with a slash as a path, but it still requests the library.
        let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        self.is_name(name) || self.is_vendored_name(name)
    }

    /// The number after the stem of a name: `12.4` in `libcupti.so.12.4`.
    pub fn number_of<'n>(&self, name: &'n [u8]) -> Option<&'n str> {
        let ending = name
            .strip_prefix(self.stem.as_bytes())
            .or_else(|| self.unvendored(name))?;
        // Names in an image are bytes, but version numbers are always text.
        std::str::from_utf8(ending.strip_prefix(b".")?).ok()
    }

    /// The release for a version, which is CUDA's or the library's own.
    pub fn release(&self, version: (u32, u32), exact: Option<String>) -> LibraryRelease {
        let (major, _) = version;
        // Rules are sorted newest first. CUPTI's soname has no minor version since CUDA 12.
        let rule = self.soname.iter().find(|rule| rule.from <= major);
        let soname = rule.map_or(self.stem.as_str(), |rule| rule.name.as_str());
        LibraryRelease {
            cuda: version,
            exact,
            soname: fill_version(soname, version),
        }
    }

    /// The soname of a version such as `12.4.127`; `None` without two numbers.
    pub fn soname_of(&self, version: &str) -> Option<String> {
        // A major version alone is not enough, because sonames up to CUDA 11 contain the minor version.
        let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
        let version = (parts.next()??, parts.next()??);
        Some(self.release(version, None).soname)
    }

    /// Whether a file with this soname cannot have this version, because their numbers differ.
    pub fn contradicts(&self, version: &str, soname: Option<&[u8]>) -> bool {
        let of_version = self.soname_of(version);
        // A soname without a number, or a major version alone, proves nothing.
        let numbered = soname.filter(|name| self.is_name(name) && self.number_of(name).is_some());
        numbered
            .zip(of_version)
            .is_some_and(|(soname, of_version)| of_version.as_bytes() != soname)
    }

    /// The version in a text of the library itself, as compilers embed it in GPU code.
    pub fn version_by_text<'t>(&self, texts: impl IntoIterator<Item = &'t [u8]>) -> Option<String> {
        let (begin, end) = self.own_version.as_ref().map(|own| (&own.begin, &own.end))?;
        let mut found = texts.into_iter().filter_map(|text| {
            let text = std::str::from_utf8(text).ok()?;
            let (_, rest) = text.split_once(begin.as_str())?;
            Some(rest.split_once(end.as_str())?.0.to_owned())
        });
        let first = found.next()?;
        // If a file has code from several releases, the text does not identify its version.
        found.all(|other| other == first).then_some(first)
    }

    /// The version in a file name, if it is more precise than a soname.
    pub fn version_by_name(&self, releases: &ReleaseTable, name: &[u8]) -> Option<String> {
        releases.cuda_of_number(self.number_of(name)?)
    }

    /// The soname that a file name stands for, such as `libcupti.so.12` for `libcupti.so.2024.1.1`; `None` without a
    /// known version.
    pub fn soname_by_name(&self, releases: &ReleaseTable, name: &[u8]) -> Option<String> {
        let number = self.number_of(name)?;
        if let Ok(major) = number.parse::<u32>() {
            // A single number is itself a soname, if the rule for its version uses only one.
            let soname = self.release((major, 0), None).soname;
            return (soname.as_bytes() == name).then_some(soname);
        }
        self.soname_of(&self.version_by_name(releases, name)?)
    }

    /// The version that its header defines.
    pub fn version_by_header(&self, text: &[u8]) -> Option<String> {
        self.header_version.as_ref()?.read(std::str::from_utf8(text).ok()?)
    }

    /// The wheel of the library for a major version of CUDA.
    pub fn wheel_of(&self, major: u32) -> Option<&WheelPackage> {
        self.wheels.install.iter().find(|wheel| wheel.major == major)
    }

    /// The version of glibc that the release of a CUDA version needs, if a system may lack it.
    pub fn needed_glibc(&self, cuda: (u32, u32)) -> Option<&str> {
        let mut needs = self.glibc_needs.iter();
        let need = needs.find(|need| super::version_numbers(&need.from).as_slice() <= [cuda.0, cuda.1].as_slice())?;
        Some(&need.version)
    }

    /// The name to request from the loader: the soname for the library, the bare name for its companions.
    pub fn loaded_name<'n>(&self, stem: &'n str, soname: &'n str) -> &'n str {
        if stem == self.stem { soname } else { stem }
    }

    /// The stems of the companions in each of its packages.
    pub fn companions(&self) -> impl Iterator<Item = &str> {
        let companions = self.family.iter().filter(|library| library.companion);
        companions.map(|library| library.stem.as_str())
    }
}

impl HeaderVersion {
    fn read(&self, text: &str) -> Option<String> {
        let numbers: Option<Vec<u32>> = self.defines.iter().map(|name| defined_number(text, name)).collect();
        // A single macro encodes the whole version; several contain its parts.
        let [number] = numbers.as_deref()? else {
            let parts: Vec<String> = numbers?.iter().map(u32::to_string).collect();
            return Some(parts.join("."));
        };
        match self.decimal_from {
            // CUPTI_API_VERSION counts releases up to CUDA 12.9; 130001 is CUDA 13.0 Update 1.
            Some(from) if *number >= from => Some(format!("{}.{}", number / 10_000, number / 100 % 100)),
            _ => self.counted.get(&number.to_string()).cloned(),
        }
    }
}

/// The numeric value of a macro.
fn defined_number(text: &str, name: &str) -> Option<u32> {
    let mut after = text.split("#define ").skip(1);
    let rest = after.find_map(|rest| {
        // A longer name may have this one as a prefix.
        let rest = rest.trim_start().strip_prefix(name)?;
        rest.starts_with([' ', '\t']).then_some(rest)
    })?;
    let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next();
    digits?.parse().ok()
}

/// Fills a version into the `{major}` and `{minor}` placeholders of a name.
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
        assert_eq!(
            version("#define CUPTI_API_VERSION 18\n").as_deref(),
            Some("11.8 or 12.0 or 12.1")
        );
        assert_eq!(version("#define CUPTI_API_VERSION 130001").as_deref(), Some("13.0"));
        assert_eq!(version("nothing"), None);
    }
}
