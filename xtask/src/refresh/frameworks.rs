//! The releases of the frameworks that ask for CUPTI: the CUPTI that pip installs with each, the names that its program
//! asks for, and where it looks for them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use cupti_audit::knowledge::{ConsumerProfile, Knowledge, matches_name_pattern};
use image_linkage::elf::{ElfFacts, NameMatcher};
use zip::ZipArchive;

use super::pip::{download, requirements};
use super::{FILE_LIMIT, Outcome, TOOLKIT};

/// The processor whose wheels are read.
pub const ARCH: &str = "x86_64";

/// A framework on the index.
pub struct Framework {
    /// The package that requires CUPTI, and whose versions are listed.
    pub package: &'static str,
    /// The package that contains the program.
    pub program: &'static str,
    /// The program's profile in `profiles/consumers`.
    consumer: &'static str,
}

/// The frameworks whose releases are read.
pub const FRAMEWORKS: [Framework; 5] = [
    Framework {
        package: "torch",
        program: "torch",
        consumer: "pytorch",
    },
    Framework {
        package: "jax-cuda12-plugin",
        program: "jax-cuda12-pjrt",
        consumer: "jax",
    },
    Framework {
        package: "jax-cuda13-plugin",
        program: "jax-cuda13-pjrt",
        consumer: "jax",
    },
    Framework {
        package: "tensorflow",
        program: "tensorflow",
        consumer: "tensorflow",
    },
    Framework {
        package: "triton",
        program: "triton",
        consumer: "triton-proton",
    },
];

/// Downloads a release. Returns its row: package, version, requirement, names and search path.
///
/// Errors: Errors of pip or of a wheel.
pub fn read(framework: &Framework, version: &str) -> Outcome<[String; 5]> {
    let folder = tempfile::tempdir()?;
    let wheel = download(folder.path(), framework.package, version, ARCH)?;
    let requires = requirements(&wheel)?
        .iter()
        .find_map(|line| cupti_requirement(line))
        .unwrap_or_default();
    let program = if framework.program == framework.package {
        wheel
    } else {
        let other = folder.path().join("program");
        std::fs::create_dir(&other)?;
        download(&other, framework.program, version, ARCH)?
    };
    let known = Knowledge::built_in();
    let profile = known
        .consumers
        .iter()
        .find(|consumer| consumer.id == framework.consumer)
        .ok_or_else(|| format!("there is no profile {}", framework.consumer))?;
    let (names, search) = read_program(&program, profile)?;
    Ok([
        framework.package.to_owned(),
        version.to_owned(),
        requires,
        names,
        search,
    ])
}

/// The requirement of CUPTI in a line of METADATA, without spaces and conditions: `nvidia-cuda-cupti-cu12==12.8.90`, or
/// `cuda-toolkit[cupti]==13.0.2`.
fn cupti_requirement(line: &str) -> Option<String> {
    let pin = Knowledge::built_in().library.wheels.pin.as_deref()?;
    let plain: String = line
        .split(';')
        .next()?
        .chars()
        .filter(|sign| !" ()".contains(*sign))
        .map(|sign| if sign == ',' { ' ' } else { sign })
        .collect();
    if plain.starts_with(pin) {
        return Some(plain);
    }
    let (extras, rest) = plain.strip_prefix(TOOLKIT)?.strip_prefix('[')?.split_once(']')?;
    extras
        .split(' ')
        .any(|extra| extra == "cupti")
        .then(|| format!("{TOOLKIT}[cupti]{rest}"))
}

/// The names of libcupti that the program asks for, and the folders of its search path that are CUPTI's.
fn read_program(wheel: &Path, profile: &ConsumerProfile) -> Outcome<(String, String)> {
    let stem = Knowledge::built_in().library.stem.as_str();
    let through = profile.through.as_deref().unwrap_or(&profile.object);
    let (mut names, mut search) = (BTreeSet::new(), BTreeSet::new());
    let mut archive = ZipArchive::new(File::open(wheel)?)?;
    for number in 0..archive.len() {
        let member = archive.by_index(number)?;
        let file = member.name()?.rsplit('/').next().unwrap_or_default().to_owned();
        let is = |pattern: &str| matches_name_pattern(file.as_bytes(), pattern);
        if !is(&profile.object) && !is(through) {
            continue;
        }
        let mut bytes = Vec::new();
        member.take(8 * FILE_LIMIT).read_to_end(&mut bytes)?;
        let elf = ElfFacts::of_bytes(&bytes, &NameMatcher::new([stem], []));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if is(&profile.object) {
            let is_name = |name: &String| name.rsplit('/').next().is_some_and(|file| file.starts_with(stem));
            names = elf.needed.iter().map(|name| text(name)).filter(is_name).collect();
            // The strings of a program that links it contain the name in the versions of its symbols, too.
            if names.is_empty() {
                names = elf.mentions.iter().map(|name| text(name)).filter(is_name).collect();
            }
        }
        if is(through) {
            let path = elf.runpath.or(elf.rpath).map(|path| text(&path)).unwrap_or_default();
            let folders = path
                .split(':')
                .filter(|folder| folder.contains("cupti") || folder.contains("/cu1"));
            search = folders.map(str::to_owned).collect::<BTreeSet<_>>();
        }
    }
    let joined = |words: BTreeSet<String>| words.into_iter().collect::<Vec<_>>().join(" ");
    Ok((joined(names), joined(search)))
}

#[cfg(test)]
mod tests {
    use super::cupti_requirement;

    #[test]
    fn a_requirement_is_of_cupti_or_of_a_toolkit_with_it() {
        let of = |line| cupti_requirement(line).unwrap_or_default();
        assert_eq!(
            of("nvidia-cuda-cupti-cu12 (==12.1.105) ; platform_system == \"Linux\""),
            "nvidia-cuda-cupti-cu12==12.1.105"
        );
        assert_eq!(
            of("nvidia-cuda-cupti-cu12<13.0,>=12.5.82; extra == \"and-cuda\""),
            "nvidia-cuda-cupti-cu12<13.0 >=12.5.82"
        );
        assert_eq!(
            of("cuda-toolkit[cublas,cupti,nvtx]==13.2.2; platform_system == \"Linux\""),
            "cuda-toolkit[cupti]==13.2.2"
        );
        assert_eq!(
            ["cuda-toolkit[cublas]==13.0.2", "cuda-toolkit==13.0.2", "numpy"].map(of),
            [""; 3]
        );
    }
}
