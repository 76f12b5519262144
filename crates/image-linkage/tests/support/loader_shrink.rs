//! Makes a case smaller as long as the two loaders differ on it in the same step.

use testkit::spec::{ElfSpec, KindSpec, MachineSpec};

use super::loader_case::{Case, PROGRAM, Paths, Processor, Versions};
use super::loader_tree::{Entry, Tree};

/// How often a case is tried, at most.
const TRIES: usize = 1500;

/// The smallest case that is found on which `differs` holds.
pub fn shrink(mut case: Case, differs: impl Fn(&Case) -> bool) -> Case {
    let mut tries = 0;
    let mut at = 0;
    let mut since_last = 0;
    loop {
        let smaller = smaller(&case);
        if since_last >= smaller.len() || tries >= TRIES {
            return case;
        }
        at %= smaller.len();
        tries += 1;
        let candidate = smaller.into_iter().nth(at).unwrap();
        if differs(&candidate) {
            case = candidate;
            since_last = 0;
        } else {
            at += 1;
            since_last += 1;
        }
    }
}

/// The case with one thing less, for each thing; the larger ones first.
fn smaller(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    let mut push = |change: &dyn Fn(&mut Case)| {
        let mut changed = case.clone();
        change(&mut changed);
        if changed != *case {
            all.push(changed);
        }
    };
    for chunk in chunks(&case.files) {
        push(&|case| case.files.0.retain(|path, _| !chunk.contains(path)));
    }
    for change in wholes() {
        push(&change);
    }
    for chunk in chunks(&case.added) {
        push(&|case| case.added.0.retain(|path, _| !chunk.contains(path)));
    }
    for nth in 0..case.deleted.len() {
        push(&|case| drop(case.deleted.remove(nth)));
    }
    for path in parts(case.library_path.as_ref(), &[':', ';']) {
        push(&|case| case.library_path = Some(path.clone()));
    }
    for names in parts(case.preload.as_ref(), &[':', ' ']) {
        push(&|case| case.preload = Some(names.clone()));
    }
    for (path, entry) in &case.files.0 {
        for entry in entries(entry) {
            push(&|case| drop(case.files.0.insert(path.clone(), entry.clone())));
        }
    }
    for (path, entry) in &case.added.0 {
        for entry in entries(entry) {
            push(&|case| drop(case.added.0.insert(path.clone(), entry.clone())));
        }
    }
    for opens in opens(case) {
        push(&|case| case.opens.clone_from(&opens));
    }
    all
}

type Change = fn(&mut Case);

/// The fields that are left out as a whole.
fn wholes() -> [Change; 9] {
    [
        |case| {
            case.ldconfig = None;
            case.damage = None;
        },
        |case| case.added = Tree::default(),
        |case| case.deleted.clear(),
        |case| case.damage = None,
        |case| case.library_path = None,
        |case| case.preload = None,
        |case| case.working_dir.clear(),
        |case| case.started_as = None,
        |case| case.processor = Processor::Plain,
    ]
}

/// The paths of a tree in halves, quarters and so on down to single ones; the program stays.
fn chunks(tree: &Tree) -> Vec<Vec<String>> {
    let paths: Vec<&String> = tree.0.keys().filter(|path| *path != PROGRAM).collect();
    let mut all = Vec::new();
    let mut size = paths.len().div_ceil(2);
    while size > 0 {
        let owned = |chunk: &[&String]| chunk.iter().map(|path| (*path).clone()).collect();
        all.extend(paths.chunks(size).map(owned));
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    all
}

/// A list with one element less, for each element.
fn parts(list: Option<&String>, separators: &[char]) -> Vec<String> {
    let Some(list) = list else { return Vec::new() };
    let elements: Vec<&str> = list.split_inclusive(separators).collect();
    let without = |nth: usize| {
        let mut rest = elements.clone();
        rest.remove(nth);
        let rest = rest.concat();
        let was_last = nth + 1 == elements.len() && nth > 0;
        let cut = rest.strip_suffix(separators).filter(|_| was_last);
        cut.unwrap_or(&rest).to_owned()
    };
    (0..elements.len()).map(without).collect()
}

/// A file with less in it.
fn entries(entry: &Entry) -> Vec<Entry> {
    match entry {
        Entry::Text(text) => {
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            let without = |nth: usize| {
                let mut rest = lines.clone();
                rest.remove(nth);
                Entry::Text(rest.concat())
            };
            (0..lines.len()).map(without).collect()
        }
        Entry::Elf(elf) => objects(elf).into_iter().map(|elf| Entry::Elf(Box::new(elf))).collect(),
        Entry::Cut { bytes, elf } => objects(elf)
            .into_iter()
            .map(|elf| Entry::Cut {
                bytes: *bytes,
                elf: Box::new(elf),
            })
            .collect(),
        Entry::Dir | Entry::Link(_) | Entry::Hardlink(_) => Vec::new(),
    }
}

/// An object with less in it.
fn objects(elf: &ElfSpec) -> Vec<ElfSpec> {
    let mut all = Vec::new();
    let mut push = |change: &dyn Fn(&mut ElfSpec)| {
        let mut changed = elf.clone();
        change(&mut changed);
        if changed != *elf {
            all.push(changed);
        }
    };
    for nth in 0..elf.needed.len() {
        push(&|elf| {
            let name = elf.needed.remove(nth);
            // A need of a version without the need of its file makes the loader abort.
            if !elf.needed.contains(&name) {
                elf.verneed.shift_remove(&name);
                elf.weak_verneed.shift_remove(&name);
            }
        });
    }
    for path in parts(elf.rpath.as_ref(), &[':']) {
        push(&|elf| elf.rpath = Some(path.clone()));
    }
    for path in parts(elf.runpath.as_ref(), &[':']) {
        push(&|elf| elf.runpath = Some(path.clone()));
    }
    for change in features() {
        push(&change);
    }
    all
}

/// The fields of an object that are left out as a whole.
fn features() -> [fn(&mut ElfSpec); 16] {
    [
        |elf| elf.rpath = None,
        |elf| elf.runpath = None,
        |elf| elf.soname = None,
        |elf| elf.auxiliary.clear(),
        |elf| elf.filter.clear(),
        |elf| elf.verdef.clear(),
        |elf| elf.verneed = Versions::new(),
        |elf| elf.weak_verneed = Versions::new(),
        |elf| elf.isa_needed = None,
        |elf| elf.nodeflib = false,
        |elf| elf.patched = false,
        |elf| elf.late_headers = false,
        |elf| elf.gnu_hash = false,
        |elf| elf.pie = false,
        |elf| (elf.class, elf.machine) = (None, MachineSpec::default()),
        |elf| {
            if elf.kind != KindSpec::Executable {
                elf.kind = KindSpec::Library;
            }
        },
    ]
}

/// What is opened with one thing less.
fn opens(case: &Case) -> Vec<Option<super::loader_case::Opens>> {
    let Some(opens) = &case.opens else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for nth in 0..opens.names.len() {
        let mut less = opens.clone();
        less.names.remove(nth);
        all.push(Some(less));
    }
    let mut less = opens.clone();
    less.through = None;
    all.push(Some(less));
    let mut less = opens.clone();
    less.program = Paths::default();
    all.push(Some(less));
    if opens.through.is_some() {
        let mut less = opens.clone();
        less.through = Some(Paths::default());
        all.push(Some(less));
    }
    all
}
