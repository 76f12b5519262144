//! Follows the imports that run before an object is loaded: the source modules on the way, the modules that these
//! import, and which of them are missing in the image.

use crate::environment::PythonEnvironment;
use crate::file_names::is_source;
use crate::interpreter::{PythonInterpreter, has_module};

use crate::source_words::{OPENERS, SourceWords, read_words};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

/// The maximum number of modules followed per import.
const MODULES: usize = 64;
/// The maximum number of import statements per module; `torch/__init__.py` of 2.8 has about a hundred.
const STATEMENTS: usize = 2_000;
/// Code that makes modules outside `sys.path` importable.
const PATH_CHANGES: [&str; 4] = ["sys.path", "sys.modules", "meta_path", "__path__"];
/// Code that provides modules without files, such as setuptools' replacement for distutils.
const MODULE_HOOKS: [&str; 4] = [
    "meta_path.insert",
    "meta_path.append",
    "sys.modules[\"",
    "sys.modules['",
];

/// The maximum size of source text read for all imports of an image, in bytes.
const TEXT: usize = 64 << 20;

/// A cache of followed imports.
#[derive(Debug, Default)]
pub struct KnownRuns {
    runs: BTreeMap<(RootPath, RootPath), ImportRun>,
    /// Many imports run the same modules, such as `torch/__init__.py`.
    sources: BTreeMap<RootPath, Arc<ModuleSource>>,
    read: usize,
}

impl KnownRuns {
    /// The source of a module; `None` if the image has none.
    fn source(&mut self, rootfs: &Rootfs, file: &RootPath) -> Option<Arc<ModuleSource>> {
        if let Some(source) = self.sources.get(file) {
            return Some(Arc::clone(source));
        }
        let text = rootfs.content(&file.absolute()).filter(|_| is_source(file.name()))?;
        self.read = self.read.saturating_add(text.len());
        let source = Arc::new(ModuleSource::read(&String::from_utf8_lossy(text)));
        self.sources.insert(file.clone(), Arc::clone(&source));
        Some(source)
    }
}

/// The parts of a module's source that matter for an import.
#[derive(Debug)]
struct ModuleSource {
    /// Whether it opens libraries.
    opens: bool,
    /// Whether it provides modules without files.
    has_hooks: bool,
    imports: Vec<NamedModule>,
}

impl ModuleSource {
    fn read(text: &str) -> Self {
        let words = read_words(text);
        let first_change = PATH_CHANGES.iter().filter_map(|word| text.find(word)).min();
        Self {
            opens: OPENERS.iter().any(|opener| words.code.contains(opener)),
            has_hooks: MODULE_HOOKS.iter().any(|word| text.contains(word)),
            imports: named_modules(&words, first_change.unwrap_or(text.len())),
        }
    }
}

/// The result of an import, from the source of its modules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportRun {
    /// The missing module and its importer, if the import certainly fails.
    pub lacks: Option<(String, RootPath)>,
    /// A module that opens libraries.
    pub opens: Option<RootPath>,
}

/// A module in an import statement.
#[derive(Debug)]
struct NamedModule {
    /// The number of dots before its name: 1 is its own package, 2 the parent.
    level: usize,
    name: String,
    /// Whether the statement always runs with the module, and names a module.
    is_sure: bool,
}

/// The package folder that the user may not list, so that a script ends at an import when `interpreter` runs it; and why,
/// in Python's words.
// A module that is nowhere may still be found: a script can change `sys.path`, make modules or exit before the import.
pub fn closed_to_import(
    environment: &PythonEnvironment,
    interpreter: &PythonInterpreter,
    rootfs: &Rootfs,
    script: &RootPath,
) -> Option<(RootPath, String)> {
    let run = follow_import(environment, interpreter, rootfs, &script.parent(), script);
    let (module, by) = run.lacks?;
    let top = module.split('.').next().unwrap_or_default();
    let closed = environment.closed_site(rootfs, top.as_bytes())?;
    Some((closed, format!("No module named '{module}', which {by} imports")))
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
    // A panic in another thread leaves the cache usable.
    let mut known = environment.runs.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(run) = known.runs.get(&key) {
        return run.clone();
    }
    let run = run_import(environment, interpreter, rootfs, (site, path), &mut known);
    known.runs.insert(key, run.clone());
    run
}

fn run_import(
    environment: &PythonEnvironment,
    interpreter: &PythonInterpreter,
    rootfs: &Rootfs,
    (site, path): (&RootPath, &RootPath),
    known: &mut KnownRuns,
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
        let Some(source) = known.source(rootfs, &file) else {
            continue;
        };
        if seen.len() >= MODULES || !seen.insert(file.clone()) {
            continue;
        }
        if known.read > TEXT {
            return ImportRun::default();
        }
        if source.opens {
            run.opens.get_or_insert_with(|| file.clone());
        }
        hooks |= source.has_hooks;
        for module in &source.imports {
            let is_sure = is_sure && module.is_sure;
            match find_module(environment, interpreter, rootfs, &file, module) {
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

impl NamedModule {
    /// The name up to the missing part, as in Python's error.
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

/// The import statements of a module (The Python Language Reference, 7.11). After byte `first_change`, missing modules may
/// still be importable.
fn named_modules(words: &SourceWords<'_>, first_change: usize) -> Vec<NamedModule> {
    let mut modules = Vec::new();
    for (number, at) in words.lines.iter().enumerate() {
        let line = words.line(&words.code, number);
        // An indented line or one with a colon may belong to a condition, a function or a `try`.
        let is_sure = *at < first_change && !line.starts_with([' ', '\t']) && !line.contains(':');
        for statement in line.split(';').map(str::trim) {
            let named = |level, name: &str, is_sure| NamedModule {
                level,
                name: name.to_owned(),
                is_sure,
            };
            if let Some(names) = statement.strip_prefix("import ") {
                modules.extend(listed(names).map(|name| named(0, name, is_sure)));
            } else if let Some((module, names)) = statement
                .strip_prefix("from ")
                .and_then(|rest| rest.split_once(" import"))
            {
                let name = module.trim().trim_start_matches('.');
                let level = module.trim().len() - name.len();
                if name.is_empty() {
                    // The name may be defined by the package itself.
                    modules.extend(listed(names).map(|name| named(level, name, false)));
                } else {
                    modules.push(named(level, name, is_sure));
                }
            }
        }
    }
    // Drops statements that were not understood.
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|sign| sign.is_alphanumeric() || "._".contains(sign));
    modules.retain(|module| is_name(&module.name));
    modules.truncate(STATEMENTS);
    modules
}

/// The names in a list, without their `as` names.
fn listed(names: &str) -> impl Iterator<Item = &str> {
    names.split(',').filter_map(|part| {
        let part = part.trim_matches(|sign: char| sign.is_whitespace() || "\\()".contains(sign));
        part.split_whitespace().next()
    })
}

/// The package folder where a relative import starts.
fn package_of(file: &RootPath, level: usize) -> RootPath {
    let mut package = file.parent();
    for _ in 1..level {
        package = package.parent();
    }
    package
}

/// The source files that run when a module is imported; or the part of its name that does not exist.
fn find_module<'m>(
    environment: &PythonEnvironment,
    interpreter: &PythonInterpreter,
    rootfs: &Rootfs,
    file: &RootPath,
    module: &'m NamedModule,
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

/// The known files of a module, by the parts of its name; or the part that its package lacks.
fn files_below<'m>(rootfs: &Rootfs, folder: &RootPath, parts: &[&'m str]) -> Result<Vec<RootPath>, &'m str> {
    let (mut at, mut files) = (folder.clone(), Vec::new());
    for (number, part) in parts.iter().enumerate() {
        // A folder without source may have more parts elsewhere, and a package may create modules itself.
        let is_plain = || {
            let init = rootfs.content(&at.join(b"__init__.py").absolute());
            let text = init.map(String::from_utf8_lossy);
            text.is_some_and(|text| !PATH_CHANGES.iter().any(|word| text.contains(word)))
        };
        if number > 0 && !has_module(rootfs, &at, part.as_bytes()) && is_plain() {
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
    fn only_an_unindented_import_certainly_runs() {
        let check = |text: &str, expected: &[(usize, &str, bool)]| {
            let words = read_words(text);
            let found = named_modules(&words, text.len());
            let found: Vec<_> = found
                .iter()
                .map(|it| (it.level, it.name.as_str(), it.is_sure))
                .collect();
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
