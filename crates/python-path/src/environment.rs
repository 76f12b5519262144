//! The Pythons of an image, and which of them imports an object.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::distributions::{PythonDistribution, named_distribution};
use crate::file_names::{fits_version, is_source, module_tag};
use crate::interpreter::{BrokenPython, PythonInterpreter, SearchedFolder, has_module, is_importable, may_list};
use crate::module_imports::KnownRuns;
use crate::settings::PythonSettings;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{FileCredentials, FileUse, Rootfs};

/// The maximum number of interpreters per image.
const INTERPRETERS: usize = 64;
/// The maximum depth below a site folder at which links are tried.
const DEPTH: usize = 8;

/// The Pythons of an image.
#[derive(Debug, Default)]
pub struct PythonEnvironment {
    /// The first on `PATH`, then the others by path. Two names of the same interpreter count once.
    interpreters: Vec<PythonInterpreter>,
    /// The interpreters that cannot start.
    broken: Vec<BrokenPython>,
    /// The folder of the started script, or the working directory.
    start: Option<SearchedFolder>,
    /// The version of each distribution, by its site and name.
    distributions: BTreeMap<(RootPath, String), String>,
    /// The user whose permissions apply.
    user: FileCredentials,
    /// The environment, for packages that read it.
    variables: BTreeMap<String, String>,
    /// The imports followed so far.
    pub runs: Mutex<KnownRuns>,
}

/// Which Python imports an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PythonUse {
    /// A Python of the image does, in its default configuration.
    Imported {
        /// The path of the interpreter, as called.
        interpreter: RootPath,
        /// The folder of `sys.path` that contains the package.
        site: RootPath,
    },
    /// None does, in its default configuration.
    Unreachable {
        /// The package folder.
        site: RootPath,
        /// The reason, as the end of a sentence.
        why: String,
        /// Whether its own environment is at fault: its Python cannot start, or the user cannot list its packages.
        is_broken: bool,
    },
}

/// An object on an interpreter's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundObject {
    /// The folder of `sys.path` that contains the object.
    pub site: RootPath,
    /// The absolute path that Python opens.
    pub path: Vec<u8>,
}

/// The result of a search on one interpreter's path.
enum ObjectSearch {
    Found(FoundObject),
    /// Why the interpreter skips it.
    PassedOver(String),
    NotThere,
}

/// The source of the module ctypes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CtypesSource {
    /// The standard library.
    Own,
    /// Another file, without links, that comes earlier on the path.
    Other(RootPath),
    /// The standard library lacks it.
    Nowhere,
}

impl PythonEnvironment {
    /// Reads the interpreters among `candidates`, which are files and links with the name of a Python.
    pub fn read(
        rootfs: &Rootfs,
        candidates: &[RootPath],
        settings: &PythonSettings,
        distributions: &[PythonDistribution],
    ) -> Self {
        let on_path = [&b"python3"[..], b"python"].into_iter().flat_map(|name| {
            let folders = settings.path.iter();
            folders.map(move |folder| folder.join(name))
        });
        let (mut interpreters, mut broken) = (Vec::<PythonInterpreter>::new(), Vec::new());
        for path in on_path.chain(candidates.iter().cloned()) {
            if interpreters.len() + broken.len() >= INTERPRETERS {
                break;
            }
            let found = match PythonInterpreter::read(rootfs, &path, settings) {
                Some(Ok(found)) => found,
                other => {
                    broken.extend(other.and_then(Result::err));
                    continue;
                }
            };
            let is_same =
                |other: &PythonInterpreter| other.program == found.program && other.search_path == found.search_path;
            if !interpreters.iter().any(is_same) {
                interpreters.push(found);
            }
        }
        let start = settings.start.as_ref().and_then(|path| {
            Some(SearchedFolder {
                path: path.clone(),
                real_path: rootfs.lookup(&path.absolute()).ok()?.path,
                is_site: false,
                only: None,
            })
        });
        let versions = distributions
            .iter()
            .map(|dist| ((dist.site.clone(), dist.name.clone()), dist.version.clone()));
        Self {
            interpreters,
            broken,
            start,
            distributions: versions.collect(),
            user: settings.user.clone(),
            variables: settings.variables.clone(),
            runs: Mutex::default(),
        }
    }

    /// The interpreter that imports an object, and the path it uses; `None` if the object is not part of a package.
    pub fn find(
        &self,
        rootfs: &Rootfs,
        object: &RootPath,
    ) -> Option<Result<(&PythonInterpreter, FoundObject), PythonUse>> {
        let mut passed_over = None;
        for interpreter in &self.interpreters {
            match self.search(rootfs, interpreter, object) {
                ObjectSearch::Found(found) => return Some(Ok((interpreter, found))),
                ObjectSearch::PassedOver(why) => {
                    passed_over.get_or_insert(why);
                }
                ObjectSearch::NotThere => {}
            }
        }
        let site = match self.site_of(object).or_else(|| folder_of_module(rootfs, object)) {
            Some(site) => site,
            None if !is_source(object.name()) || is_package(rootfs, &object.parent()) => return None,
            None => {
                let site = object.parent();
                if let Some(first) = self.interpreters.first() {
                    // A script is started by its path, in any folder.
                    let path = object.absolute();
                    return Some(Ok((first, FoundObject { site, path })));
                }
                site
            }
        };
        let for_it = self.broken.iter().find(|broken| {
            let environment = broken.environment.as_ref();
            environment.is_some_and(|folder| below(folder, object).is_some())
        });
        let denied = (!may_list(rootfs, &site, &self.user)).then(|| format!("{} may not list {site}", self.user));
        let is_broken = denied.is_some() || (passed_over.is_none() && for_it.is_some());
        let why = denied.or(passed_over).unwrap_or_else(|| self.reason(for_it, &site));
        Some(Err(PythonUse::Unreachable { site, why, is_broken }))
    }

    /// Why no Python finds an object in a package folder. `for_it` is the broken Python of its environment.
    fn reason(&self, for_it: Option<&BrokenPython>, site: &RootPath) -> String {
        let only = self.broken.first().filter(|_| self.interpreters.is_empty());
        let mut code = self.interpreters.iter().filter_map(|python| python.code.as_ref());
        match (for_it.or(only), code.next()) {
            (Some(broken), _) => broken.why.clone(),
            (None, _) if self.interpreters.is_empty() => "the image has no Python that could import it".to_owned(),
            (None, Some(file)) => {
                format!("no Python of the image has {site} on its path, but what the code in {file} adds is not known")
            }
            (None, None) => format!("no Python of the image has {site} on its path"),
        }
    }

    /// Whether a folder that the interpreter is not known to search has the package or module of an object, too. If code
    /// adds that folder in front, Python imports it from there.
    pub fn is_elsewhere(&self, rootfs: &Rootfs, interpreter: &PythonInterpreter, found: &FoundObject) -> bool {
        let Some(rest) = below(&found.site, &RootPath::new(&found.path)) else {
            return true;
        };
        let first = rest.split_components().next().unwrap_or_default();
        let top = first.split(|&byte| byte == b'.').next().unwrap_or_default();
        let mut is_elsewhere = false;
        rootfs.visit(|path, _, _| {
            let name = path.name();
            if is_elsewhere || !name.starts_with(top) {
                return;
            }
            let folder = path.parent();
            let is_module = name.get(top.len()) == Some(&b'.') && (is_source(name) || name.ends_with(b".so"));
            is_elsewhere = (is_module || name == top && is_package(rootfs, path))
                && !is_package(rootfs, &folder)
                && self.folders(interpreter).all(|known| known.real_path != folder);
        });
        is_elsewhere
    }

    /// The source of an interpreter's ctypes. Without a standard library the answer is `Own`.
    pub fn ctypes(&self, rootfs: &Rootfs, interpreter: &PythonInterpreter) -> CtypesSource {
        let mut has_library = false;
        for folder in self.folders(interpreter) {
            let is_library = rootfs.file(&folder.real_path.join(b"os.py").absolute()).is_some();
            has_library |= is_library;
            let names = [&b"ctypes/__init__.py"[..], b"ctypes.py"];
            let mut files = names.iter().map(|name| folder.real_path.join(name));
            if let Some(file) = files.find(|file| rootfs.file(&file.absolute()).is_some()) {
                return if is_library {
                    CtypesSource::Own
                } else {
                    CtypesSource::Other(file)
                };
            }
        }
        if has_library {
            CtypesSource::Nowhere
        } else {
            CtypesSource::Own
        }
    }

    /// A nonempty environment variable.
    pub fn variable(&self, name: &str) -> Option<&str> {
        let value = self.variables.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// The version of the first distribution on the path whose name satisfies `is_it`.
    pub fn version(&self, interpreter: &PythonInterpreter, is_it: impl Fn(&str) -> bool) -> Option<&str> {
        let mut folders = self.folders(interpreter);
        folders.find_map(|folder| {
            let of_site = self.distributions.iter();
            let mut fits = of_site.filter(|((site, name), _)| *site == folder.real_path && is_it(name));
            fits.next().map(|(_, version)| version.as_str())
        })
    }

    /// The working interpreters: the first on `PATH`, then the others by path.
    pub fn interpreters(&self) -> &[PythonInterpreter] {
        &self.interpreters
    }

    /// The distributions that an interpreter finds, by name. The first of each name gives the version, if its
    /// metadata's name contains one.
    pub fn installed(&self, rootfs: &Rootfs, interpreter: &PythonInterpreter) -> BTreeMap<String, Option<String>> {
        let mut installed = BTreeMap::new();
        for folder in self.folders(interpreter) {
            let Ok(found) = rootfs.lookup(&folder.real_path.absolute()) else {
                continue;
            };
            for (name, version) in rootfs
                .children(found.node)
                .filter_map(|(name, _)| named_distribution(name))
            {
                installed.entry(name).or_insert(version);
            }
        }
        installed
    }

    /// The folders that an interpreter searches, in order.
    pub fn folders<'e>(&'e self, interpreter: &'e PythonInterpreter) -> impl Iterator<Item = &'e SearchedFolder> {
        self.start.iter().chain(&interpreter.search_path)
    }

    /// Whether an interpreter may find a module or package of this name.
    pub fn is_importable(&self, rootfs: &Rootfs, interpreter: &PythonInterpreter, top: &[u8]) -> bool {
        is_importable(rootfs, self.start.iter().chain(&interpreter.search_path), top)
    }

    /// A package folder that has this module and that the user may not list.
    pub(crate) fn closed_site(&self, rootfs: &Rootfs, top: &[u8]) -> Option<RootPath> {
        let mut sites = self.distributions.keys().map(|(site, _)| site);
        let site = sites.find(|site| !may_list(rootfs, site, &self.user) && has_module(rootfs, site, top));
        site.cloned()
    }

    fn search(&self, rootfs: &Rootfs, interpreter: &PythonInterpreter, object: &RootPath) -> ObjectSearch {
        let folders: Vec<&SearchedFolder> = self.folders(interpreter).collect();
        let site = self.site_of(object);
        let found = folders.iter().enumerate().find_map(|(number, folder)| {
            // No module name reaches into a package folder nested in this one.
            let inner = site.as_ref().filter(|site| **site != folder.real_path);
            if inner.is_some_and(|site| below(&folder.real_path, site).is_some()) {
                return None;
            }
            let rest = below_folder(rootfs, folder, object)?;
            if folder
                .only
                .as_ref()
                .is_some_and(|package| below(package, object).is_none())
            {
                return None;
            }
            // Many objects are in folders that no Python imports from.
            let may_be = folder.is_site || self.is_package(rootfs, folder, &rest);
            may_be.then_some((number, *folder, rest))
        });
        let Some((number, folder, rest)) = found else {
            return ObjectSearch::NotThere;
        };
        if !fits_version(rest.name(), &interpreter.version) {
            let version = &interpreter.version;
            return ObjectSearch::PassedOver(format!("{object} is of another Python than {version}"));
        }
        if let Some(why) = self.unreadable(rootfs, folder, &rest) {
            return ObjectSearch::PassedOver(why);
        }
        if let Some(other) = hidden_by(rootfs, folder, &rest, interpreter) {
            return ObjectSearch::PassedOver(format!("Python imports {other} in its place"));
        }
        let earlier = folders.iter().take(number);
        if let Some(other) = shadow(rootfs, earlier.copied(), folder, &rest) {
            return ObjectSearch::PassedOver(format!("Python imports {other} in its place"));
        }
        ObjectSearch::Found(FoundObject {
            site: folder.path.clone(),
            path: folder.path.join(rest.as_bytes()).absolute(),
        })
    }

    /// Whether an object below a folder is installed there, or is part of a package or module.
    fn is_package(&self, rootfs: &Rootfs, folder: &SearchedFolder, rest: &RootPath) -> bool {
        let mut parts = rest.split_components();
        let first = parts.next().unwrap_or_default();
        let package = folder.real_path.join(first).join(b"__init__.py").absolute();
        let is_module = parts.next().is_none() || rootfs.file(&package).is_some();
        // In a working directory the object's name must also look like a module, because the command may not be a
        // Python. Elsewhere a module name suffices: a folder without `__init__.py` is a package too (PEP 420). But
        // nobody means the folders of the root.
        let is_named = module_tag(rest.name()).is_some() || is_source(rest.name());
        let is_on_path = self.start.as_ref() != Some(folder);
        let is_part = if is_on_path {
            let is_namespace = folder.real_path != RootPath::default() && has_importable_folders(rest);
            is_module || is_named && is_namespace
        } else {
            is_module && is_named
        };
        self.has_distributions(&folder.real_path) || is_part
    }

    /// The first file or folder on the way to a module that the user may not read.
    fn unreadable(&self, rootfs: &Rootfs, folder: &SearchedFolder, rest: &RootPath) -> Option<String> {
        let mut package = folder.real_path.clone();
        let parts: Vec<&[u8]> = rest.split_components().collect();
        let (name, folders) = parts.split_last()?;
        let is_module = module_tag(name).is_some() || is_source(name);
        folders.iter().find_map(|part| {
            package = package.join(part);
            let init = package.join(b"__init__.py").absolute();
            let has_init = rootfs.lookup(&init).is_ok();
            // Libraries for the loader next to modules are never listed.
            if !has_init && !is_module {
                return None;
            }
            if !may_list(rootfs, &package, &self.user) {
                return Some(format!("{} may not list {package}", self.user));
            }
            // If the user cannot enter the parent folders, loading the object reports that.
            let gets_there = rootfs.lookup_as(&init, &self.user).is_ok();
            let is_denied = gets_there && rootfs.open_as(&init, &self.user, FileUse::Read).is_err();
            is_denied.then(|| format!("{} may not read {}", self.user, RootPath::new(&init)))
        })
    }

    fn has_distributions(&self, folder: &RootPath) -> bool {
        let from = (folder.clone(), String::new());
        self.distributions
            .range(from..)
            .next()
            .is_some_and(|((site, _), _)| site == folder)
    }

    /// The package folder that contains an object, even if no Python searches it.
    fn site_of(&self, object: &RootPath) -> Option<RootPath> {
        let mut folder = object.parent();
        while folder != RootPath::default() {
            let is_site = matches!(folder.name(), b"site-packages" | b"dist-packages");
            if is_site || self.has_distributions(&folder) {
                return Some(folder);
            }
            folder = folder.parent();
        }
        None
    }
}

/// Whether an import statement can name every folder on the way to an object.
fn has_importable_folders(path: &RootPath) -> bool {
    let parts: Vec<&[u8]> = path.split_components().collect();
    let (_, folders) = parts.split_last().unwrap_or((&&b""[..], &[]));
    let mut letters = folders.iter().copied().flatten();
    letters.all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii())
}

/// The folder that Python would have to search for a file with a module's name.
fn folder_of_module(rootfs: &Rootfs, object: &RootPath) -> Option<RootPath> {
    let mut folder = object.parent();
    let is_module = module_tag(object.name()).is_some() || is_source(object.name()) && is_package(rootfs, &folder);
    while is_package(rootfs, &folder) && folder != RootPath::default() {
        folder = folder.parent();
    }
    is_module.then_some(folder)
}

/// Whether a folder is a regular package.
fn is_package(rootfs: &Rootfs, folder: &RootPath) -> bool {
    rootfs.file(&folder.join(b"__init__.py").absolute()).is_some()
}

/// The rest of a path below a folder.
fn below(folder: &RootPath, path: &RootPath) -> Option<RootPath> {
    let rest = path.as_bytes().strip_prefix(folder.as_bytes())?;
    rest.starts_with(b"/").then(|| RootPath::new(rest))
}

/// The path of an object below a folder, also through links in the folder, such as those to uv's cache.
fn below_folder(rootfs: &Rootfs, folder: &SearchedFolder, object: &RootPath) -> Option<RootPath> {
    if let Some(rest) = below(&folder.real_path, object) {
        return Some(rest);
    }
    let parts: Vec<&[u8]> = object.split_components().collect();
    let deepest = parts.len().saturating_sub(DEPTH);
    (deepest..parts.len()).find_map(|from| {
        let rest = RootPath::new(&parts.get(from..)?.join(&b'/'));
        let found = rootfs.lookup(&folder.real_path.join(rest.as_bytes()).absolute());
        found.is_ok_and(|found| found.path == *object).then_some(rest)
    })
}

/// The package or module that hides the module at `rest` in the same folder. Packages come first, then extension
/// modules, version-specific ones before others, then source modules (`FileFinder.find_spec`,
/// `_get_supported_file_loaders`).
fn hidden_by(
    rootfs: &Rootfs,
    folder: &SearchedFolder,
    rest: &RootPath,
    interpreter: &PythonInterpreter,
) -> Option<RootPath> {
    let file = folder.real_path.join(rest.as_bytes());
    let name = rest.name();
    let (module, suffix) = name.split_at_checked(name.iter().position(|&byte| byte == b'.')?)?;
    let suffixes = extension_suffixes(&interpreter.version);
    let own = suffixes.iter().position(|(known, is_begin)| match is_begin {
        true => suffix.starts_with(known.as_bytes()) && suffix.ends_with(b".so"),
        false => suffix == known.as_bytes(),
    })?;
    let beside = file.parent();
    let package = beside.join(module).join(b"__init__.py");
    if module != b"__init__" && rootfs.file(&package.absolute()).is_some() {
        return Some(package);
    }
    let found = rootfs.lookup(&beside.absolute()).ok()?;
    let names = rootfs.children_with(found.node, module).map(|(name, _)| name);
    let endings: Vec<&[u8]> = names.filter_map(|name| name.strip_prefix(module)).collect();
    suffixes.iter().take(own).find_map(|(known, is_begin)| {
        let ending = endings.iter().find(|ending| match is_begin {
            true => ending.starts_with(known.as_bytes()) && ending.ends_with(b".so"),
            false => **ending == known.as_bytes(),
        })?;
        Some(beside.join(&[module, ending].concat()))
    })
}

/// The suffixes of extension modules in search order, and whether more may precede `.so`.
fn extension_suffixes(version: &str) -> [(String, bool); 4] {
    let tag = format!(".cpython-{}-", version.replace('.', ""));
    [
        (tag, true),
        (".abi3.so".to_owned(), false),
        (".so".to_owned(), false),
        (".py".to_owned(), false),
    ]
}

/// The package or module of the same name that Python finds before the one at `rest` in `folder`.
fn shadow<'f>(
    rootfs: &Rootfs,
    mut earlier: impl Iterator<Item = &'f SearchedFolder>,
    folder: &SearchedFolder,
    rest: &RootPath,
) -> Option<RootPath> {
    let first = rest.split_components().next()?;
    let is_file = |path: &RootPath| rootfs.file(&path.absolute()).is_some();
    let is_module = rest.split_components().nth(1).is_none();
    // A folder without `__init__.py` is part of a namespace package, which may span every folder of the path.
    if !is_module && !is_file(&folder.real_path.join(first).join(b"__init__.py")) {
        return None;
    }
    let name = first.split(|&byte| byte == b'.').next()?;
    earlier.find_map(|other| {
        let folder = &other.real_path;
        let package = folder.join(name).join(b"__init__.py");
        let module = folder.join(&[name, b".py"].concat());
        [package, module, folder.join(first)].into_iter().find(is_file)
    })
}
