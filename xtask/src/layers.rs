//! Checks the imports between modules: none leads from a lower layer to a higher one, and cycles stay small.
//!
//! Reads the `use` lines as text, and follows re-exports to the defining file. A full path without `use` counts if it
//! starts with `crate` or `super`.
#![expect(clippy::disallowed_methods, reason = "this chore reads the repository's own folder")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use crate::public_names;

/// The floors of a crate, lowest first. Modules in the same floor do not import each other either.
const FLOORS: [(&str, &[&[&str]]); 2] = [
    (
        "src",
        &[
            &["size", "shell_quote"],
            &["knowledge"],
            &["facts::objects"],
            &["facts::software"],
            &["facts::weight"],
            &["facts"],
            &["judge::image_reading"],
            &["judge::rule"],
            &["judge::build_file"],
            &["judge::plan"],
            &["judge::outcome"],
            &["judge::audit"],
            &["judge::image_diff"],
            &["fleet"],
            // `make` and `report` can each change independently.
            &["make", "report"],
            &["cli"],
        ],
    ),
    (
        "crates/image-linkage/src",
        &[
            &["escape"],
            &["limits", "digest"],
            &["path"],
            &["elf"],
            &["layer"],
            &["rootfs"],
            &["loader"],
        ],
    ),
];

/// Crates without floors, which must not have cycles either.
const OTHERS: [&str; 5] = [
    "crates/container-start/src",
    "crates/gpu-code/src",
    "crates/image-source/src",
    "crates/image-store/src",
    "crates/python-path/src",
];

/// The maximum number of files in a cycle: a module and one that only it uses.
const CIRCLE: usize = 2;

type ModulePath = Vec<String>;
type FileEdges<'f> = BTreeMap<&'f ModulePath, BTreeSet<&'f ModulePath>>;

/// Whether cycles are only printed, or fail like an upward import.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CircleCheck {
    Listed,
    Refused,
}

/// The imports and re-exports of one file.
#[derive(Default)]
struct FileImports {
    uses: BTreeSet<ModulePath>,
    /// The full paths of the names in `pub use`.
    passed_on: BTreeMap<String, ModulePath>,
}

/// Checks the imports of every crate against its floors. Returns lines to print.
///
/// Errors: The upward imports and, if they are refused, the cycles.
pub fn check(circles: CircleCheck) -> Result<String, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    let mut listed = Vec::new();
    let without_floors = OTHERS.map(|folder| (folder, [].as_slice()));
    for (folder, floors) in FLOORS.into_iter().chain(without_floors) {
        let files = read_crate(&root.join(folder))?;
        let edges = edges(&files);
        wrong.extend(upward_imports(folder, floors, &edges));
        listed.extend(find_circles(folder, &edges));
    }
    let refused = !wrong.is_empty() || (circles == CircleCheck::Refused && !listed.is_empty());
    // Cycles are always printed; only `--circles` makes them an error.
    wrong.append(&mut listed);
    let lines = wrong.join("\n");
    if refused {
        return Err(lines.into());
    }
    Ok(lines + "\nno import leads upwards\n" + &public_names::count()?)
}

fn read_crate(folder: &Path) -> Result<BTreeMap<ModulePath, FileImports>, Box<dyn Error>> {
    let mut texts = BTreeMap::new();
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            let module = path.strip_prefix(folder)?.with_extension("");
            let mut names: ModulePath = module.iter().map(|name| name.to_string_lossy().into()).collect();
            // A module's file is `name.rs` or `name/mod.rs`; the crate root is `lib.rs`.
            names.pop_if(|last| last == "mod" || last == "lib");
            match path.extension() {
                None if path.is_dir() => folders.push(path),
                // Tests are exempt.
                Some(ending) if ending == "rs" && names.last().is_none_or(|it| it != "tests") => {
                    texts.insert(names, code_of(&fs::read_to_string(&path)?));
                }
                _ => {}
            }
        }
    }
    let modules: BTreeSet<ModulePath> = texts.keys().cloned().collect();
    let read = |(module, text): (ModulePath, String)| {
        let imports = imports_of(&module, &text, &modules);
        (module, imports)
    };
    Ok(texts.into_iter().map(read).collect())
}

/// The source without comments and without the tests at its end.
pub fn code_of(text: &str) -> String {
    // Tests are at the end of a file, so everything before them is code.
    let before_tests = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    // Also cuts a URL in a string, which is not an import.
    let lines = before_tests
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn imports_of(module: &ModulePath, text: &str, modules: &BTreeSet<ModulePath>) -> FileImports {
    let mut imports = FileImports::default();
    let mut rest = String::new();
    // rustfmt normalizes `use`, so no Rust parser is needed.
    for statement in text.split(';') {
        // The text before `use` in its line gives the visibility.
        let (before, tree) = statement.rsplit_once("use ").unwrap_or((statement, ""));
        let visibility = before.rsplit(['\n', '}']).next().unwrap_or_default().trim();
        let public = visibility.starts_with("pub");
        if tree.is_empty() || !(public || visibility.is_empty()) {
            rest.push_str(statement);
            continue;
        }
        rest.push_str(before);
        for path in expand(tree) {
            let Some(path) = from_root(module, &path, modules) else {
                continue;
            };
            match path.last() {
                Some(name) if public => {
                    imports.passed_on.insert(name.clone(), path.clone());
                }
                _ => {
                    imports.uses.insert(path);
                }
            }
        }
    }
    // A path in an expression, such as `crate::size::format_size(…)`, is an import too.
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for word in rest.split(|c| !is_word(c)) {
        let path: ModulePath = word.split("::").map(str::to_owned).collect();
        let first = path.first().map(String::as_str);
        if path.len() > 1 && !matches!(first, Some("Self" | "self")) {
            imports.uses.extend(from_root(module, &path, modules));
        }
    }
    imports
}

/// The paths in a `use` tree: `a::{b, c::{d, e}}` is three.
fn expand(tree: &str) -> Vec<ModulePath> {
    let words = |text: &str| -> ModulePath {
        let name = text.split(" as ").next().unwrap_or_default();
        let parts = name.split("::").map(|part| part.trim().to_owned());
        parts.filter(|part| !part.is_empty() && part != "self").collect()
    };
    let Some((before, inner)) = tree.split_once('{') else {
        return vec![words(tree)];
    };
    let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
    let (mut depth, mut branches) = (0_i32, vec![String::new()]);
    for letter in inner.chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        match branches.last_mut() {
            // A comma inside inner braces belongs to the branch.
            Some(branch) if letter != ',' || depth > 0 => branch.push(letter),
            _ => branches.push(String::new()),
        }
    }
    let branches = branches.iter().filter(|branch| !branch.trim().is_empty());
    let below = branches.flat_map(|branch| expand(branch));
    below.map(|path| [words(before), path].concat()).collect()
}

/// A path relative to the crate root; `None` if it leads to another crate.
fn from_root(module: &ModulePath, path: &[String], modules: &BTreeSet<ModulePath>) -> Option<ModulePath> {
    let ups = path.iter().take_while(|part| *part == "super").count();
    let (first, rest) = path.split_first()?;
    // A `mod.rs` names its submodules without a prefix.
    let child = [module.as_slice(), std::slice::from_ref(first)].concat();
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "super" => {
            let above = module.get(..module.len().checked_sub(ups)?)?;
            Some([above, path.get(ups..)?].concat())
        }
        _ if modules.contains(&child) => Some([&child, rest].concat()),
        _ => None,
    }
}

/// The files that every file imports.
fn edges(files: &BTreeMap<ModulePath, FileImports>) -> FileEdges<'_> {
    let needed = |(module, imports): (_, &FileImports)| {
        let found = imports.uses.iter().filter_map(|path| file_of(files, path));
        (module, found.filter(|file| *file != module).collect())
    };
    files.iter().map(needed).collect()
}

/// The file that defines a path. Follows re-exports up to a limit.
fn file_of<'f>(files: &'f BTreeMap<ModulePath, FileImports>, path: &ModulePath) -> Option<&'f ModulePath> {
    let mut path = path.clone();
    // The limit stops two modules that re-export each other's name.
    for _ in 0..8 {
        // The longest prefix that is a file; the rest is an item in it.
        let known = (0..=path.len()).rev().find_map(|length| {
            let (module, rest) = path.split_at(length);
            Some((files.get_key_value(module)?, rest))
        });
        let ((module, imports), rest) = known?;
        let Some((name, rest)) = rest.split_first() else {
            return Some(module);
        };
        match imports.passed_on.get(name) {
            Some(on) => path = [on, rest].concat(),
            None => return Some(module),
        }
    }
    None
}

fn upward_imports(folder: &str, floors: &[&[&str]], edges: &FileEdges<'_>) -> Vec<String> {
    let place = |module: &ModulePath| {
        let name = module.join("::");
        let is_in = |part: &&&str| name == **part || name.starts_with(&format!("{part}::"));
        let mut numbered = floors.iter().enumerate();
        numbered.find_map(|(floor, parts)| Some((floor, *parts.iter().find(is_in)?)))
    };
    let mut upward = Vec::new();
    for (from, needed) in edges {
        for to in needed {
            if let Some((own, other)) = place(from).zip(place(to))
                && own != other
                // Includes the same floor: its modules are independent.
                && other.0 >= own.0
            {
                let (from, to) = (from.join("::"), to.join("::"));
                upward.push(format!("{folder}: {from} imports {to}, which is in a higher floor"));
            }
        }
    }
    upward
}

/// Finds cycles of files, longer than a pair.
fn find_circles(folder: &str, edges: &FileEdges<'_>) -> Vec<String> {
    let all: FileEdges<'_> = edges.keys().map(|file| (*file, reached_from(file, edges))).collect();
    let leads = |from: &ModulePath, to: &ModulePath| all.get(from).is_some_and(|reached| reached.contains(to));
    let circle = |file: &&ModulePath| -> Vec<String> {
        let both = |other: &&&ModulePath| leads(file, other) && leads(other, file);
        let members = edges.keys().filter(both);
        members.map(|member| member.join("::")).collect()
    };
    // All members of a cycle find the same one, and the set deduplicates it.
    let circles: BTreeSet<Vec<String>> = edges.keys().map(circle).collect();
    let words = |members: &Vec<String>| {
        let (count, names) = (members.len(), members.join(", "));
        format!("{folder}: {count} files in a circle: {names}")
    };
    let too_large = circles.iter().filter(|members| members.len() > CIRCLE);
    too_large.map(words).collect()
}

fn reached_from<'f>(file: &'f ModulePath, edges: &FileEdges<'f>) -> BTreeSet<&'f ModulePath> {
    let mut seen = BTreeSet::new();
    let mut next = vec![file];
    while let Some(file) = next.pop() {
        let needed = edges.get(file).into_iter().flatten();
        next.extend(needed.copied().filter(|file| seen.insert(*file)));
    }
    seen
}
