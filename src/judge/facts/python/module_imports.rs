//! What an import runs before it comes to an object: the modules of text on the way, the modules that these import, and
//! what of that is not in the image.

use super::environment::{PythonEnvironment, extension_suffixes};
use super::file_names::is_source;
use super::interpreter::{PythonInterpreter, has_module};
use super::source_flow::ENDS;
use super::source_text::OPENERS;
use super::source_words::{SourceWords, read_words};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use std::cell::LazyCell;
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
pub(super) struct KnownRuns {
    runs: BTreeMap<(RootPath, RootPath), ImportRun>,
    read: usize,
}

/// What an import comes to by the texts of its modules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ImportRun {
    /// The module that is not there, and who imports it, for sure.
    pub lacks: Option<(String, RootPath)>,
    /// Whether a module gives the process others that lie nowhere.
    pub hooks: bool,
    /// A module that opens libraries.
    pub opens: Option<RootPath>,
    /// The extensions that are loaded for sure, in the order in which they are found.
    pub extensions: Vec<RootPath>,
}

/// A module in an import statement.
struct NamedModule<'t> {
    /// How many dots stand before its name: those of its package and of the ones above.
    level: usize,
    name: &'t str,
    /// Whether the statement runs whenever the module does.
    is_sure: bool,
    /// Whether it may mean what its package defines itself: `from . import NAME`.
    is_any: bool,
}

/// Follows the import of the file at `path` below a folder of `sys.path`.
pub(super) fn follow_import(
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

/// What the code of a command imports, for sure, and its Python does not find, in the words of Python.
pub(super) fn missing_import(text: &str, lacks: impl Fn(&str) -> bool) -> Option<String> {
    if ARRANGES.iter().any(|word| text.contains(word)) {
        return None;
    }
    let words = read_words(text);
    // The code of a command is of no package.
    if words.code.lines().any(|line| line.starts_with("from .")) {
        return Some("attempted relative import with no known parent package".to_owned());
    }
    let modules = named_modules(&words).into_iter().map(|(_, module)| module);
    let missing = modules
        .filter(|module| module.is_sure && module.level == 0)
        .find(|module| lacks(module.name))?;
    Some(format!("No module named '{}'", missing.name))
}

/// Whether a module opens libraries before it has imported what it does for sure.
pub(super) fn opens_before_imports(text: &str) -> bool {
    let words = read_words(text);
    let modules = named_modules(&words).into_iter().filter(|(_, module)| module.is_sure);
    let opened = OPENERS.iter().filter_map(|opener| words.code.find(opener)).min();
    opened.is_some_and(|opened| modules.map(|(at, _)| at).max() > Some(opened))
}

/// Whether a Python finds a module for sure not.
pub(super) fn is_nowhere(
    environment: &PythonEnvironment,
    interpreter: &PythonInterpreter,
    rootfs: &Rootfs,
    name: &str,
) -> bool {
    let module = NamedModule {
        level: 0,
        name,
        is_sure: true,
        is_any: false,
    };
    find_module(environment, interpreter, rootfs, &RootPath::default(), &module).is_err()
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
    let mut seen = BTreeSet::new();
    while let Some((file, is_sure)) = pending.pop() {
        if is_sure && file.name().ends_with(b".so") && run.extensions.len() < MODULES {
            run.extensions.push(file);
            continue;
        }
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
        run.hooks |= HOOKS.iter().any(|word| text.contains(word));
        let arranges = ARRANGES.iter().filter_map(|word| text.find(word)).min();
        for (at, module) in named_modules(&words) {
            let found = find_module(environment, interpreter, rootfs, &file, &module);
            // What stands under the name already is no module.
            let is_own = module.is_any && words.repeats(module.name);
            let is_sure = is_sure && module.is_sure && !is_own && arranges.is_none_or(|arranges| at < arranges);
            match found {
                Ok(files) => pending.extend(files.into_iter().map(|file| (file, is_sure))),
                Err(part)
                    if is_sure && !module.is_any && interpreter.code.is_none() && interpreter.rearranges.is_none() =>
                {
                    run.lacks
                        .get_or_insert_with(|| (module.shown(&file, part), file.clone()));
                }
                Err(_) => {}
            }
        }
    }
    run.lacks = run.lacks.filter(|_| !run.hooks);
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

/// The import statements of a module, with where their lines begin (The Python Language Reference, 7.11).
fn named_modules<'w>(words: &'w SourceWords<'_>) -> Vec<(usize, NamedModule<'w>)> {
    let mut modules = Vec::new();
    for number in 0..words.lines.len() {
        let line = words.line(&words.code, number);
        let at = words.lines.get(number).copied().unwrap_or_default();
        // What is indented is part of a condition, a function, or what catches its failure and may go on.
        let is_sure = LazyCell::new(|| !line.starts_with([' ', '\t']) || is_demanded(words, number));
        for statement in line.split(';').map(str::trim) {
            if let Some(names) = statement.strip_prefix("import ") {
                modules.extend(listed(names).map(|name| (at, (0, name, *is_sure, false))));
            } else if let Some((module, names)) = statement
                .strip_prefix("from ")
                .and_then(|rest| rest.split_once(" import"))
            {
                let name = module.trim().trim_start_matches('.');
                let level = module.trim().len() - name.len();
                if name.is_empty() {
                    modules.extend(listed(names).map(|name| (at, (level, name, *is_sure, true))));
                } else {
                    modules.push((at, (level, name, *is_sure, false)));
                }
            }
        }
    }
    // What is no name was not understood.
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|sign| sign.is_alphanumeric() || "._".contains(sign));
    let named = modules
        .into_iter()
        .filter(|(_, (_, name, ..))| is_name(name))
        .take(NAMED);
    let module = |(at, (level, name, is_sure, is_any))| {
        (
            at,
            NamedModule {
                level,
                name,
                is_sure,
                is_any,
            },
        )
    };
    named.map(module).collect()
}

/// The names in a list, without what they are called afterwards.
fn listed(names: &str) -> impl Iterator<Item = &str> {
    names.split(',').filter_map(|part| {
        let part = part.trim_matches(|sign: char| sign.is_whitespace() || "\\()".contains(sign));
        part.split_whitespace().next()
    })
}

/// Whether a line stands in a `try` whose failure ends the module.
fn is_demanded(words: &SourceWords<'_>, number: usize) -> bool {
    let line = |number: usize| words.line(&words.code, number);
    let is_top = |line: &str| !line.trim().is_empty() && !line.starts_with([' ', '\t']);
    let mut heads = words.heads(number);
    let is_alone = heads.next().is_some_and(|head| line(head) == "try:") && heads.next().is_none();
    let mut rest = words
        .numbers_from(number + 1)
        .map(line)
        .skip_while(|line| !is_top(line));
    let catches = |head: &str| {
        let names = ["ImportError", "ModuleNotFoundError", "Exception", "except:"];
        head.starts_with("except") && names.iter().any(|name| head.contains(name))
    };
    let is_caught = is_alone && rest.next().is_some_and(catches);
    let mut body = rest
        .take_while(|line| !is_top(line))
        .map(str::trim)
        .filter(|line| !line.is_empty());
    is_caught && body.any(|line| ENDS.iter().any(|end| format!("{line}\n").starts_with(end)))
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
            files_below(interpreter, rootfs, &package, &parts)
        } else {
            Err(top)
        };
    }
    if !environment.is_importable(rootfs, interpreter, top.as_bytes()) {
        return Err(top);
    }
    let mut folders = environment.folders(interpreter).map(|folder| &folder.real_path);
    let first = folders.find(|folder| has_module(rootfs, folder, top.as_bytes()));
    first.map_or_else(
        || Ok(Vec::new()),
        |folder| files_below(interpreter, rootfs, folder, &parts),
    )
}

/// The files of a module by its parts, as far as they are known; the part that a package has not.
fn files_below<'m>(
    interpreter: &PythonInterpreter,
    rootfs: &Rootfs,
    folder: &RootPath,
    parts: &[&'m str],
) -> Result<Vec<RootPath>, &'m str> {
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
        let init = package.join(b"__init__.py");
        // A package that imports an extension of its own name is that extension.
        let text = rootfs.content(&init.absolute()).map(String::from_utf8_lossy);
        let imports = |text: &str| text.lines().any(|line| line.contains("import") && line.contains(part));
        let folder = match text {
            Some(text) => Some(&package).filter(|_| imports(&text)),
            None => Some(&at).filter(|_| rootfs.file(&init.absolute()).is_none()),
        };
        files.extend(folder.and_then(|folder| extension(interpreter, rootfs, folder, part)));
        files.push(at.join(format!("{part}.py").as_bytes()));
        files.push(init);
        at = package;
    }
    files.retain(|file| rootfs.file(&file.absolute()).is_some());
    Ok(files)
}

/// The extension of this name that a Python loads from a folder.
fn extension(interpreter: &PythonInterpreter, rootfs: &Rootfs, folder: &RootPath, name: &str) -> Option<RootPath> {
    let node = rootfs.lookup(&folder.absolute()).ok()?.node;
    let names: Vec<&[u8]> = rootfs.children(node).map(|(name, _)| name).collect();
    let suffixes = extension_suffixes(&interpreter.version);
    suffixes
        .iter()
        .filter(|(suffix, _)| suffix != ".py")
        .find_map(|(suffix, is_begin)| {
            let begin = format!("{name}{suffix}");
            let fits = |file: &&&[u8]| {
                let rest = file.strip_prefix(begin.as_bytes());
                rest.is_some_and(|rest| rest.is_empty() || *is_begin && rest.ends_with(b".so"))
            };
            names.iter().find(fits).map(|file| folder.join(file))
        })
}

#[cfg(test)]
mod tests {
    use super::named_modules;
    use crate::judge::facts::python::source_words::read_words;

    #[test]
    fn a_statement_that_is_not_indented_imports_for_sure() {
        let check = |text: &str, expected: &[(usize, &str, bool)]| {
            let words = read_words(text);
            let found = named_modules(&words);
            let found: Vec<_> = found.iter().map(|(_, it)| (it.level, it.name, it.is_sure)).collect();
            assert_eq!(found, expected, "{text}");
        };
        check(
            "import numpy as np, os.path",
            &[(0, "numpy", true), (0, "os.path", true)],
        );
        check("x = 1; import a", &[(0, "a", true)]);
        check("from . import a, b as c", &[(1, "a", true), (1, "b", true)]);
        check("from a.b import (c,\n  d)\n", &[(0, "a.b", true)]);
        check("from ..a import b", &[(2, "a", true)]);
        check("import a, \\\n  b", &[(0, "a", true), (0, "b", true)]);
        check(
            "try:\n    import a\nexcept ImportError:\n    a = None",
            &[(0, "a", false)],
        );
        check("if TYPE_CHECKING:\n    from a import b", &[(0, "a", false)]);
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
