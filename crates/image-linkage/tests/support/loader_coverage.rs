//! How often the generated cases have each feature that the loader's search knows.

use std::collections::BTreeMap;

use testkit::spec::{ElfSpec, EndianSpec, KindSpec, MachineSpec};

use super::loader_case::{CacheFormat, Case, Processor};
use super::loader_tree::Entry;

/// The number of cases by feature.
pub struct Coverage(BTreeMap<&'static str, usize>);

impl Coverage {
    /// That of cases which start a program.
    pub fn of(cases: &[Case]) -> Self {
        Self::count(cases, |case| {
            let mut all = environment(case);
            all.extend(configuration(case));
            all.extend(links(case));
            all.extend(objects(case));
            all
        })
    }

    /// That of cases which open.
    pub fn of_opens(cases: &[Case]) -> Self {
        Self::count(cases, opens)
    }

    fn count(cases: &[Case], features: fn(&Case) -> Vec<Feature>) -> Self {
        let mut counts = BTreeMap::new();
        for case in cases {
            for (name, is_there) in features(case) {
                *counts.entry(name).or_default() += usize::from(is_there);
            }
        }
        Self(counts)
    }

    /// Prints the table, and fails where a feature is in less than `least` cases.
    pub fn check(&self, of_what: &str, least: usize) {
        for (name, count) in &self.0 {
            println!("  {count:5} {of_what} have: {name}");
        }
        let rare: Vec<_> = self.0.iter().filter(|(_, count)| **count < least).collect();
        assert!(rare.is_empty(), "less than {least} cases: {rare:?}");
    }
}

/// A feature, and whether a case has it.
type Feature = (&'static str, bool);

fn environment(case: &Case) -> Vec<Feature> {
    let path = case.library_path.as_deref();
    let has = |part: &str| path.is_some_and(|path| path.contains(part));
    let mut elements = path.unwrap_or_default().split([':', ';']);
    let preload_file = case.files.0.contains_key("/etc/ld.so.preload");
    vec![
        ("LD_LIBRARY_PATH", path.is_some()),
        ("LD_LIBRARY_PATH, empty", path == Some("")),
        (
            "LD_LIBRARY_PATH with an empty element",
            path.is_some_and(|path| !path.is_empty()) && elements.any(str::is_empty),
        ),
        ("LD_LIBRARY_PATH with a missing directory", has("/opt/missing")),
        ("LD_LIBRARY_PATH with ;", has(";")),
        ("LD_LIBRARY_PATH with a token", has("$")),
        ("LD_PRELOAD", case.preload.is_some()),
        ("/etc/ld.so.preload", preload_file),
        (
            "LD_PRELOAD and /etc/ld.so.preload",
            case.preload.is_some() && preload_file,
        ),
        ("a working directory", !case.working_dir.is_empty()),
        ("started by a link", case.started_as.is_some()),
        ("the plain processor", case.processor == Processor::Plain),
        ("this machine's processor", case.processor == Processor::Native),
        ("no AVX-512", case.processor == Processor::NoAvx512),
        ("no AVX2", case.processor == Processor::NoAvx2),
        ("no SSE4.2", case.processor == Processor::NoSse4),
    ]
}

fn configuration(case: &Case) -> Vec<Feature> {
    let texts: Vec<&str> = case
        .files
        .0
        .iter()
        .filter(|(path, _)| path.starts_with("/etc/ld.so.conf"))
        .filter_map(|(_, entry)| match entry {
            Entry::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let has = |part: &str| texts.iter().any(|text| text.contains(part));
    let ran = case.ldconfig.is_some();
    vec![
        ("ld.so.conf without ldconfig", !texts.is_empty() && !ran),
        ("a cache", case.ldconfig == Some(CacheFormat::New)),
        ("a cache in both formats", case.ldconfig == Some(CacheFormat::Compat)),
        ("a cache in the old format", case.ldconfig == Some(CacheFormat::Old)),
        ("a damaged cache", case.damage.is_some()),
        ("a file deleted after ldconfig", !case.deleted.is_empty()),
        ("a file added after ldconfig", !case.added.0.is_empty()),
        ("includes in a circle", has("loop.conf")),
        ("an include with classes", has("[!0]")),
        ("a directory that is configured twice", has("/opt/link")),
        ("a level as a directory", has("glibc-hwcaps")),
        ("a relative directory", has("\nopt/b") || has("opt/b\n")),
    ]
}

fn links(case: &Case) -> Vec<Feature> {
    let files = &case.files.0;
    let at = |path: &str| matches!(files.get(path), Some(Entry::Link(_)));
    let library_links: Vec<(&String, &String)> = files
        .iter()
        .filter_map(|(path, entry)| match entry {
            Entry::Link(target) if path.contains(".so") => Some((path, target)),
            _ => None,
        })
        .collect();
    let to = |part: &str| library_links.iter().any(|(_, target)| target.contains(part));
    let below = |part: &str| files.keys().any(|path| path.contains(part));
    vec![
        ("a link to a longer file name", to(".so.1.")),
        ("a link to another directory", to("/")),
        ("a chain of links over directories", to("/hop0-") && to("/hop1-")),
        ("a chain with .. in it", to("../../../..")),
        ("a dangling link", to("nowhere")),
        (
            "a link to itself",
            library_links
                .iter()
                .any(|(path, target)| path.ends_with(&format!("/{target}"))),
        ),
        ("a merged /usr/lib", at("/lib")),
        ("a merged /usr/lib64", at("/lib64")),
        ("a link to a directory", at("/opt/link")),
        (
            "a hard link",
            files.values().any(|entry| matches!(entry, Entry::Hardlink(_))),
        ),
        ("glibc-hwcaps/x86-64-v2", below("glibc-hwcaps/x86-64-v2/")),
        ("glibc-hwcaps/x86-64-v3", below("glibc-hwcaps/x86-64-v3/")),
        ("glibc-hwcaps/x86-64-v4", below("glibc-hwcaps/x86-64-v4/")),
        ("a level of another processor", below("glibc-hwcaps/z13/")),
        ("the subdirectory tls", below("/tls/")),
        ("the subdirectory haswell", below("/haswell/lib")),
        ("the subdirectory avx512_1", below("/avx512_1/lib")),
        ("the subdirectory x86_64", below("/x86_64/lib")),
        (
            "a directory in the place of a library",
            files
                .iter()
                .any(|(path, entry)| path.contains(".so") && *entry == Entry::Dir),
        ),
    ]
}

fn objects(case: &Case) -> Vec<Feature> {
    let mut copy = case.clone();
    let elves: Vec<(String, ElfSpec)> = copy
        .objects_mut()
        .map(|(path, elf)| (path.clone(), elf.clone()))
        .collect();
    let any = |is: &dyn Fn(&ElfSpec) -> bool| elves.iter().any(|(_, elf)| is(elf));
    let paths: Vec<&String> = elves
        .iter()
        .flat_map(|(_, elf)| elf.rpath.iter().chain(&elf.runpath))
        .collect();
    let path_has = |part: &str| paths.iter().any(|path| path.contains(part));
    let element = |is: &dyn Fn(&str) -> bool| {
        let full = paths.iter().filter(|path| !path.is_empty());
        full.flat_map(|path| path.split(':')).any(is)
    };
    let needs = |is: &dyn Fn(&str) -> bool| any(&|elf| elf.needed.iter().any(|name| is(name)));
    let mut features = vec![
        ("DT_RPATH", any(&|elf| elf.rpath.is_some() && elf.runpath.is_none())),
        ("DT_RUNPATH", any(&|elf| elf.runpath.is_some() && elf.rpath.is_none())),
        (
            "DT_RPATH and DT_RUNPATH",
            any(&|elf| elf.rpath.is_some() && elf.runpath.is_some()),
        ),
        ("$ORIGIN", path_has("$ORIGIN")),
        ("${ORIGIN}", path_has("${ORIGIN}")),
        ("$LIB", path_has("$LIB") || path_has("${LIB}")),
        ("$PLATFORM", path_has("$PLATFORM") || path_has("${PLATFORM}")),
        ("an unknown token", path_has("$UNKNOWN") || path_has("$ORIGINAL")),
        ("a token that is not closed", element(&|element| element == "${ORIGIN")),
        (
            "a trailing slash",
            element(&|element| element.len() > 1 && element.ends_with('/')),
        ),
        ("an empty element", element(&str::is_empty)),
        (
            "a relative element",
            element(&|element| !element.is_empty() && !element.starts_with(['/', '$'])),
        ),
        ("NEEDED with a slash", needs(&|name| name.contains('/'))),
        ("NEEDED with a token", needs(&|name| name.contains('$'))),
        ("NEEDED of the loader", needs(&|name| name.starts_with("ld-linux"))),
        ("DF_1_NODEFLIB", any(&|elf| elf.nodeflib)),
        ("a version that is needed", any(&|elf| !elf.verneed.is_empty())),
        (
            "a version that is needed weakly",
            any(&|elf| !elf.weak_verneed.is_empty()),
        ),
        ("a level that is needed", any(&|elf| elf.isa_needed.is_some())),
        ("a level beyond all processors", any(&|elf| elf.isa_needed == Some(5))),
        ("DT_AUXILIARY", any(&|elf| !elf.auxiliary.is_empty())),
        ("DT_FILTER", any(&|elf| !elf.filter.is_empty())),
        (
            "no soname",
            any(&|elf| elf.soname.is_none() && elf.kind == KindSpec::Library),
        ),
        ("needs in a circle", has_circle(&elves)),
    ];
    features.extend(odd(case, &elves));
    features.extend(sonames(&elves));
    features
}

/// Objects that are not what their names say.
fn odd(case: &Case, elves: &[(String, ElfSpec)]) -> Vec<Feature> {
    let any = |is: &dyn Fn(&ElfSpec) -> bool| elves.iter().any(|(_, elf)| is(elf));
    let mut texts = case.files.0.iter().filter_map(|(path, entry)| match entry {
        Entry::Text(text) if path.contains("lib") && !path.starts_with("/etc/") => Some(text.len()),
        _ => None,
    });
    let cut = |length: usize| {
        let files = case.files.0.values();
        let mut cut = files.filter_map(|entry| match entry {
            Entry::Cut { bytes, .. } => Some(*bytes),
            _ => None,
        });
        cut.any(|bytes| bytes == length)
    };
    vec![
        ("a 32-bit object", any(&|elf| elf.class == Some(32))),
        ("an object for aarch64", any(&|elf| elf.machine == MachineSpec::Aarch64)),
        (
            "an object of the other byte order",
            any(&|elf| elf.endian == EndianSpec::Big),
        ),
        (
            "an executable as a library",
            any(&|elf| elf.kind == KindSpec::FixedExecutable),
        ),
        ("a program as a library", any(&|elf| elf.pie)),
        ("no dynamic section", any(&|elf| elf.kind == KindSpec::StaticLibrary)),
        ("late headers", any(&|elf| elf.late_headers)),
        ("a moved string table", any(&|elf| elf.patched)),
        ("a text as a library", texts.clone().any(|length| length > 64)),
        ("a short file as a library", texts.any(|length| length < 64) || cut(7)),
        ("a cut library", cut(0x2000)),
    ]
}

fn sonames(elves: &[(String, ElfSpec)]) -> Vec<Feature> {
    let sonames = || elves.iter().filter_map(|(_, elf)| elf.soname.as_ref());
    let copies = |soname: &String| sonames().filter(|other| *other == soname).count();
    let differs = |(path, elf): &(String, ElfSpec)| {
        let name = path.rsplit('/').next().unwrap_or_default();
        elf.soname.as_ref().is_some_and(|soname| soname != name)
    };
    vec![
        ("several copies of a soname", sonames().any(|soname| copies(soname) > 2)),
        ("a soname that is not the file's name", elves.iter().any(differs)),
    ]
}

/// Whether an object needs, over others, what has its own soname.
fn has_circle(elves: &[(String, ElfSpec)]) -> bool {
    let needs = |soname: &str| -> Vec<&String> {
        let of = elves.iter().filter(|(_, elf)| elf.soname.as_deref() == Some(soname));
        of.flat_map(|(_, elf)| &elf.needed).collect()
    };
    let sonames = elves.iter().filter_map(|(_, elf)| elf.soname.as_ref());
    sonames.into_iter().any(|start| {
        let mut seen: Vec<&String> = needs(start);
        let mut next = 0;
        while let Some(name) = seen.get(next).copied() {
            next += 1;
            if name == start {
                return true;
            }
            for more in needs(name) {
                if !seen.contains(&more) {
                    seen.push(more);
                }
            }
        }
        false
    })
}

fn opens(case: &Case) -> Vec<Feature> {
    let opens = case.opens.as_ref().unwrap();
    let name = |is: &dyn Fn(&str) -> bool| opens.names.iter().any(|name| is(name));
    let through = opens.through.as_ref();
    vec![
        ("opened by soname", name(&|name| !name.contains(['/', '$']))),
        ("opened by path", name(&|name| name.starts_with('/'))),
        (
            "opened by a relative path",
            name(&|name| name.starts_with("./") || name.starts_with("a/")),
        ),
        ("opened with a token", name(&|name| name.contains('$'))),
        ("several names", opens.names.len() > 1),
        ("the program opens itself", through.is_none()),
        (
            "the program has a DT_RPATH and another opens",
            through.is_some() && opens.program.rpath.is_some(),
        ),
        (
            "the caller has a DT_RPATH",
            through.is_some_and(|paths| paths.rpath.is_some()),
        ),
        (
            "the caller has a DT_RUNPATH",
            through.is_some_and(|paths| paths.runpath.is_some()),
        ),
        (
            "the caller has DF_1_NODEFLIB",
            through.is_some_and(|paths| paths.nodeflib),
        ),
        (
            "two names of one file",
            case.files.0.values().any(|entry| matches!(entry, Entry::Hardlink(_))),
        ),
        ("a cache", case.ldconfig.is_some()),
        ("LD_LIBRARY_PATH", case.library_path.is_some()),
    ]
}
