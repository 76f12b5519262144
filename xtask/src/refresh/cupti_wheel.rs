//! Reads what one CUPTI wheel contains: its libraries, and the facts in its headers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use cupti_audit::knowledge::{Knowledge, version_numbers};
use image_linkage::digest::to_hex;
use image_linkage::elf::{ElfFacts, NameMatcher, SymbolRole};
use sha2::{Digest as _, Sha256};
use zip::ZipArchive;

use super::{FILE_LIMIT, Outcome};

/// The contents of a wheel.
#[derive(Default)]
pub struct WheelFacts {
    /// The name, SHA-256 and size in bytes of each library.
    pub files: Vec<(String, String, u64)>,
    /// The functions that libcupti exports.
    pub functions: BTreeSet<String>,
    /// The soname of libcupti.
    pub soname: String,
    /// The newest version of glibc that a library needs.
    pub glibc: Vec<u32>,
    /// The compute capabilities in the options of the compiler that libcupti contains.
    pub targets: BTreeSet<Vec<u32>>,
    /// The names of the results, by number.
    pub results: BTreeMap<u32, String>,
    /// The functions that a header calls unsupported, by the CUDA release that ended them.
    pub ended: BTreeMap<String, BTreeSet<String>>,
}

/// Reads a wheel.
///
/// Errors: The wheel cannot be read, or holds no libcupti.
pub fn read(wheel: &Path) -> Outcome<WheelFacts> {
    let stem = &Knowledge::built_in().library.stem;
    let mut facts = WheelFacts::default();
    let mut archive = ZipArchive::new(File::open(wheel)?)?;
    for number in 0..archive.len() {
        let member = archive.by_index(number)?;
        let name = member.name()?.rsplit('/').next().unwrap_or_default().to_owned();
        let mut bytes = Vec::new();
        if name.starts_with("lib") && name.contains(".so") {
            member.take(FILE_LIMIT).read_to_end(&mut bytes)?;
            facts
                .files
                .push((name.clone(), to_hex(&Sha256::digest(&bytes)), bytes.len() as u64));
            facts.add_library(&bytes, name.starts_with(stem));
        } else if name
            .strip_suffix(".h")
            .is_some_and(|header| header.starts_with("cupti"))
        {
            member.take(FILE_LIMIT).read_to_end(&mut bytes)?;
            facts.add_header(&name, &String::from_utf8_lossy(&bytes));
        }
    }
    if facts.functions.is_empty() {
        return Err(format!("{} holds no {stem}", wheel.display()).into());
    }
    Ok(facts)
}

impl WheelFacts {
    fn add_library(&mut self, bytes: &[u8], is_cupti: bool) {
        let library = Knowledge::built_in().library;
        let elf = ElfFacts::of_bytes(bytes, &NameMatcher::new([], [&library.symbols]));
        let newest = elf
            .verneed
            .iter()
            .flat_map(|need| &need.versions)
            .filter_map(|version| version.name.strip_prefix(b"GLIBC_"))
            .map(|version| version_numbers(&String::from_utf8_lossy(version)))
            .max();
        self.glibc = newest.unwrap_or_default().max(self.glibc.clone());
        if is_cupti {
            let exports = elf.symbols.iter().filter(|symbol| symbol.role == SymbolRole::Export);
            self.functions = exports
                .map(|symbol| String::from_utf8_lossy(&symbol.name).into_owned())
                .collect();
            self.soname = elf
                .soname
                .map_or_else(String::new, |soname| String::from_utf8_lossy(&soname).into_owned());
            self.targets = targets(&String::from_utf8_lossy(bytes));
        }
    }

    fn add_header(&mut self, name: &str, text: &str) {
        if name == "cupti_result.h" {
            self.results = results(text);
        }
        for (cuda, functions) in ended(text) {
            self.ended.entry(cuda).or_default().extend(functions);
        }
    }
}

/// The capabilities of the options `-arch sm_90` in a text.
fn targets(text: &str) -> BTreeSet<Vec<u32>> {
    let digits = text.split("-arch sm_").skip(1).map(|rest| {
        let end = rest.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(rest.len());
        rest.split_at(end).0
    });
    let capability = |digits: &str| {
        let (major, minor) = digits.split_at_checked(digits.len().checked_sub(1)?)?;
        Some(vec![major.parse().ok()?, minor.parse().ok()?])
    };
    digits.filter_map(capability).collect()
}

/// The results that a header defines, without the one that only sets the size of the type.
fn results(text: &str) -> BTreeMap<u32, String> {
    let of_line = |line: &str| {
        let (name, number) = line.trim().strip_suffix(',')?.split_once('=')?;
        Some((number.trim().parse().ok()?, name.trim().to_owned()))
    };
    text.lines().filter_map(of_line).collect()
}

/// The functions that a header calls unsupported, by CUDA release: all of them, or those whose own comment says so.
fn ended(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let release = |rest: &str| {
        let end = rest
            .find(|sign: char| !sign.is_ascii_digit() && sign != '.')
            .unwrap_or(rest.len());
        rest.split_at(end).0.trim_end_matches('.').to_owned()
    };
    let declared = |text: &str| -> Vec<String> {
        let names = text
            .split("CUptiResult CUPTIAPI")
            .skip(1)
            .filter_map(|rest| rest.split_once('('));
        names.map(|(name, _)| name.trim().to_owned()).collect()
    };
    let mut ended: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    if let Some((_, rest)) = text.split_once("is unsupported in CUDA ") {
        ended.entry(release(rest)).or_default().extend(declared(text));
    }
    for part in text.split("Starting with CUDA ").skip(1) {
        if part
            .lines()
            .next()
            .is_some_and(|line| line.contains("this function is unsupported"))
        {
            ended
                .entry(release(part))
                .or_default()
                .extend(declared(part).into_iter().next());
        }
    }
    ended
}

/// The SHA-256 of what a source yields, in hexadecimal.
pub fn sha256_of(mut source: impl io::Read) -> Outcome<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = source.read(&mut buffer)?;
        if read == 0 {
            return Ok(to_hex(&hash.finalize()));
        }
        hash.update(buffer.get(..read).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::{ended, results, targets};

    #[test]
    fn a_header_and_a_library_say_results_ends_and_targets() {
        let header = "
  CUPTI_SUCCESS = 0,
  CUPTI_ERROR_UNKNOWN    = 999,
  CUPTI_ERROR_FORCE_INT  = 0x7fffffff
";
        let found: Vec<(u32, String)> = results(header).into_iter().collect();
        assert_eq!(
            found,
            [(0, "CUPTI_SUCCESS".to_owned()), (999, "CUPTI_ERROR_UNKNOWN".to_owned())]
        );
        let whole = "\\note was deprecated in CUDA 12.8 and is unsupported in CUDA 13.0.\nCUptiResult CUPTIAPI a(int x);\nCUptiResult CUPTIAPI\n  b(int y);";
        let one = "CUptiResult CUPTIAPI a();\n * Starting with CUDA 14.1, this function is unsupported.\nCUptiResult CUPTIAPI b();\nCUptiResult CUPTIAPI c();";
        let words = |text| -> Vec<String> {
            let lines = ended(text).into_iter();
            lines
                .map(|(cuda, names)| format!("{cuda}: {}", names.into_iter().collect::<Vec<_>>().join(" ")))
                .collect()
        };
        assert_eq!(words(whole), ["13.0: a b"]);
        assert_eq!(words(one), ["14.1: b"]);
        assert_eq!(
            words("Starting with CUDA 12.2, it is faster. CUptiResult CUPTIAPI a();"),
            [""; 0]
        );
        let capabilities: Vec<Vec<u32>> = targets("x -arch sm_90 -m 64\0-arch sm_120a -arch sm_x")
            .into_iter()
            .collect();
        assert_eq!(capabilities, [[9, 0], [12, 0]]);
    }
}
