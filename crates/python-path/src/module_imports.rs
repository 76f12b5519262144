//! What an import runs before it comes to an object: the modules of text on the way, the modules that these import, and
//! what of that is not in the image.

use crate::environment::PythonEnvironment;
use crate::file_names::is_source;
use crate::interpreter::{PythonInterpreter, has_module};

use crate::source_words::{OPENERS, SourceWords, read_words};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

/// The modules that are followed of one import.
const MODULES: usize = 64;
/// The import statements that are followed of one module; `torch/__init__.py` of 2.8 has some hundred.
const NAMED: usize = 2_000;
/// What a module does that makes others importable which are not on `sys.path`.
const ARRANGES: [&str; 4] = ["sys.path", "sys.modules", "meta_path", "__path__"];
/// What gives a process modules that lie nowhere, such as those of setuptools in the place of distutils.
const HOOKS: [&str; 4] = [
    "meta_path.insert",
    "meta_path.append",
    "sys.modules[\"",
    "sys.modules['",
];

/// The bytes of text that are followed of all imports of an image.
const TEXT: usize = 64 << 20;

/// The imports that were followed, each once.
#[derive(Debug, Default)]
pub struct KnownRuns {
    runs: BTreeMap<(RootPath, RootPath), ImportRun>,
    read: usize,
}

/// What an import comes to by the texts of its modules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportRun {
    /// The module that is not there, and who imports it, for sure.
    pub lacks: Option<(String, RootPath)>,
    /// A module that opens libraries.
    pub opens: Option<RootPath>,
}

/// A module in an import statement.
struct NamedModule<'t> {
    /// How many dots stand before its name: those of its package and of the ones above.
    level: usize,
    name: &'t str,
    /// Whether the statement runs whenever the module does, and means a module.
    is_sure: bool,
}

/// Follows the import of the file at `path` below a folder of `sys.path`.
pub fn follow_import(
    environment: &PythonEnvironment,
    interpreter: &PythonInterpreter,
    rootfs: &Rootfs,
    site: &RootPath,
    path: &RootPath,
) -> ImportRun {
    let is_text = path.name().ends_with(b".py");
    let key = (
        interpreter.path.clone(),
        if is_text { path.clone() } else { path.parent() },
    );
    // What was left half done by a panic elsewhere is as good as whole.
    let mut known = environment.runs.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(run) = known.runs.get(&key) {
        return run.clone();
    }
    let run = run_import(environment, interpreter, rootfs, (site, path), &mut known.read);
    known.runs.insert(key, run.clone());
    run
}

fn run_import(
    environment: &PythonEnvironment,
    interpreter: &PythonInterpreter,
    rootfs: &Rootfs,
    (site, path): (&RootPath, &RootPath),
    read: &mut usize,
) -> ImportRun {
    let mut run = ImportRun::default();
    let mut pending: Vec<(RootPath, bool)> = Vec::new();
    if path.name().ends_with(b".py") {
        pending.push((path.clone(), true));
    }
    let mut package = path.parent();
    while package != *site && package != RootPath::default() {
        pending.push((package.join(b"__init__.py"), true));
        package = package.parent();
    }
    let (mut seen, mut hooks) = (BTreeSet::new(), false);
    while let Some((file, is_sure)) = pending.pop() {
        let text = rootfs.content(&file.absolute()).filter(|_| is_source(file.name()));
        let Some(text) = text.filter(|_| seen.len() < MODULES && seen.insert(file.clone())) else {
            continue;
        };
        *read = read.saturating_add(text.len());
        if *read > TEXT {
            return ImportRun::default();
        }
        let text = String::from_utf8_lossy(text);
        let words = read_words(&text);
        if OPENERS.iter().any(|opener| words.code.contains(opener)) {
            run.opens.get_or_insert_with(|| file.clone());
        }
        hooks |= HOOKS.iter().any(|word| text.contains(word));
        let arranges = ARRANGES.iter().filter_map(|word| text.find(word)).min();
        for module in named_modules(&words, arranges.unwrap_or(text.len())) {
            let is_sure = is_sure && module.is_sure;
            match find_module(environment, interpreter, rootfs, &file, &module) {
                Ok(files) => pending.extend(files.into_iter().map(|file| (file, is_sure))),
                Err(part) if is_sure && interpreter.code.is_none() && interpreter.rearranges.is_none() => {
                    run.lacks
                        .get_or_insert_with(|| (module.shown(&file, part), file.clone()));
                }
                Err(_) => {}
            }
        }
    }
    run.lacks = run.lacks.filter(|_| !hooks);
    run
}

impl NamedModule<'_> {
    /// Its name up to the part that is missing, as Python says it.
    fn shown(&self, file: &RootPath, part: &str) -> String {
        let end = self.name.find(part).map_or(self.name.len(), |at| at + part.len());
        let name = self.name.get(..end).unwrap_or_default();
        if self.level == 0 {
            return name.to_owned();
        }
        let package = package_of(file, self.level);
        format!("{}.{name}", String::from_utf8_lossy(package.name()))
    }
}

/// The import statements of a module (The Python Language Reference, 7.11); from a byte on, others may be importable.
fn named_modules<'w>(words: &'w SourceWords<'_>, arranges: usize) -> Vec<NamedModule<'w>> {
    let mut modules = Vec::new();
    for (number, at) in words.lines.iter().enumerate() {
        let line = words.line(&words.code, number);
        // A line that is indented or has a colon may be part of a condition, of a function, or of a `try`.
        let is_sure = *at < arranges && !line.starts_with([' ', '\t']) && !line.contains(':');
        for statement in line.split(';').map(str::trim) {
            let named = |level, name, is_sure| NamedModule { level, name, is_sure };
            if let Some(names) = statement.strip_prefix("import ") {
                modules.extend(listed(names).map(|name| named(0, name, is_sure)));
            } else if let Some((module, names)) = statement
                .strip_prefix("from ")
                .and_then(|rest| rest.split_once(" import"))
            {
                let name = module.trim().trim_start_matches('.');
                let level = module.trim().len() - name.len();
                if name.is_empty() {
                    // It may be what its package defines itself.
                    modules.extend(listed(names).map(|name| named(level, name, false)));
                } else {
                    modules.push(named(level, name, is_sure));
                }
            }
        }
    }
    // What is no name was not understood.
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|sign| sign.is_alphanumeric() || "._".contains(sign));
    modules.retain(|module| is_name(module.name));
    modules.truncate(NAMED);
    modules
}

/// The names in a list, without what they are called afterwards.
fn listed(names: &str) -> impl Iterator<Item = &str> {
    names.split(',').filter_map(|part| {
        let part = part.trim_matches(|sign: char| sign.is_whitespace() || "\\()".contains(sign));
        part.split_whitespace().next()
    })
}

/// The folder of the package that a relative import begins at.
fn package_of(file: &RootPath, level: usize) -> RootPath {
    let mut package = file.parent();
    for _ in 1..level {
        package = package.parent();
    }
    package
}

/// The files of text that importing a module runs; the part of its name that is nowhere, where one is not.
fn find_module<'m>(
    environment: &PythonEnvironment,
    interpreter: &PythonInterpreter,
    rootfs: &Rootfs,
    file: &RootPath,
    module: &NamedModule<'m>,
) -> Result<Vec<RootPath>, &'m str> {
    let parts: Vec<&str> = module.name.split('.').collect();
    let top = parts.first().copied().unwrap_or_default();
    if module.level > 0 {
        let package = package_of(file, module.level);
        return if has_module(rootfs, &package, top.as_bytes()) {
            files_below(rootfs, &package, &parts)
        } else {
            Err(top)
        };
    }
    if !environment.is_importable(rootfs, interpreter, top.as_bytes()) {
        return Err(top);
    }
    let mut folders = environment.folders(interpreter).map(|folder| &folder.real_path);
    let first = folders.find(|folder| has_module(rootfs, folder, top.as_bytes()));
    first.map_or_else(|| Ok(Vec::new()), |folder| files_below(rootfs, folder, &parts))
}

/// The files of a module by its parts, as far as they are known; the part that a package has not.
fn files_below<'m>(rootfs: &Rootfs, folder: &RootPath, parts: &[&'m str]) -> Result<Vec<RootPath>, &'m str> {
    let (mut at, mut files) = (folder.clone(), Vec::new());
    for (number, part) in parts.iter().enumerate() {
        // Of a folder without text, others may have more, and a package may make modules of its own.
        let init = rootfs
            .content(&at.join(b"__init__.py").absolute())
            .map(String::from_utf8_lossy);
        let is_plain = init.is_some_and(|text| !ARRANGES.iter().any(|word| text.contains(word)));
        if number > 0 && is_plain && !has_module(rootfs, &at, part.as_bytes()) {
            return Err(part);
        }
        let package = at.join(part.as_bytes());
        files.push(at.join(format!("{part}.py").as_bytes()));
        files.push(package.join(b"__init__.py"));
        at = package;
    }
    files.retain(|file| rootfs.file(&file.absolute()).is_some());
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::named_modules;
    use crate::source_words::read_words;

    #[test]
    fn a_statement_that_is_not_indented_imports_for_sure() {
        let check = |text: &str, expected: &[(usize, &str, bool)]| {
            let words = read_words(text);
            let found = named_modules(&words, text.len());
            let found: Vec<_> = found.iter().map(|it| (it.level, it.name, it.is_sure)).collect();
            assert_eq!(found, expected, "{text}");
        };
        check(
            "import numpy as np, os.path",
            &[(0, "numpy", true), (0, "os.path", true)],
        );
        check("x = 1; import a", &[(0, "a", true)]);
        check("from . import a, b as c", &[(1, "a", false), (1, "b", false)]);
        check("from a.b import (c,\n  d)\n", &[(0, "a.b", true)]);
        check("from ..a import b", &[(2, "a", true)]);
        check("import a, \\\n  b", &[(0, "a", true), (0, "b", true)]);
        check(
            "try:\n    import a\nexcept ImportError:\n    a = None",
            &[(0, "a", false)],
        );
        check("if TYPE_CHECKING:\n    from a import b", &[(0, "a", false)]);
        check("if TYPE_CHECKING: x = 1; import a", &[(0, "a", false)]);
        for silent in [
            "'''\nimport a\n'''",
            "# import a",
            "try: import a\nexcept: pass",
            "importlib.x",
        ] {
            check(silent, &[]);
        }
    }
}
