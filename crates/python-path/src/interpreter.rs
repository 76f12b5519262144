//! One Python of an image, and its `sys.path`.
//!
//! Follows Python's own `Modules/getpath.py` and `Lib/site.py` of 3.11 to 3.14, with the changes of Debian and Fedora
//! to the latter.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::distributions::read_mapping;
use crate::file_names::{first_two_numbers, version_of_name};
use crate::settings::{PythonSettings, below};
use image_linkage::loader::Arch;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{FileCredentials, FileUse, NodeKind, Rootfs};
use memchr::memmem;
use pep440_rs::Version;

/// The maximum length of a `sys.path`; real ones have about ten folders.
const FOLDERS: usize = 256;
/// The maximum number of lines read from a `.pth` file.
const LINES: usize = 1024;
/// Code in `.pth` files that adds no folder: from setuptools, virtualenv and namespace packages.
const HARMLESS_CODE: [&[u8]; 3] = [b"SETUPTOOLS_USE_DISTUTILS", b"_virtualenv", b"f_locals['sitedir']"];
/// Code that adds a folder in front of others.
const INSERTING: [&[u8]; 1] = [b"sys.path.insert"];
/// Code that changes `sys.path` in other ways than adding a folder.
const REARRANGING: [&[u8]; 4] = [b"sys.path.remove", b"sys.path.clear", b"sys.path[", b"sys.path ="];
/// Modules compiled into CPython whose names do not start with `_`: C modules and frozen modules (Python/frozen.c).
const BUILT_IN: [&[u8]; 44] = [
    b"abc",
    b"codecs",
    b"genericpath",
    b"importlib",
    b"io",
    b"ntpath",
    b"os",
    b"posixpath",
    b"runpy",
    b"site",
    b"stat",
    b"zipimport",
    b"array",
    b"atexit",
    b"audioop",
    b"binascii",
    b"builtins",
    b"cmath",
    // In setuptools since Python 3.12.
    b"distutils",
    b"errno",
    b"faulthandler",
    b"fcntl",
    b"gc",
    b"grp",
    b"itertools",
    b"marshal",
    b"math",
    b"mmap",
    b"nis",
    b"ossaudiodev",
    b"posix",
    b"pwd",
    b"pyexpat",
    b"readline",
    b"resource",
    b"select",
    b"spwd",
    b"sys",
    b"syslog",
    b"termios",
    b"time",
    b"unicodedata",
    b"xxlimited",
    b"zlib",
];
/// The build-time prefixes, which an interpreter without a library next to it tries last.
const BUILT_PREFIXES: [&str; 2] = ["usr/local", "usr"];

/// A Python that can start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonInterpreter {
    /// The path as called; each virtual environment has its own.
    pub path: RootPath,
    /// The program, with links resolved.
    pub program: RootPath,
    /// The version in folder names: `3.11`, or `3.13t` for a free-threaded build.
    pub version: String,
    /// `sys.path`: the existing folders, in order.
    pub search_path: Vec<SearchedFolder>,
    /// The first `.pth` file with a line of code that may add folders.
    pub code: Option<RootPath>,
    /// A startup file that adds a folder in front of others.
    pub inserts: Option<RootPath>,
    /// A startup file that changes `sys.path` in other ways.
    pub rearranges: Option<RootPath>,
}

/// A Python that cannot start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenPython {
    /// The virtual environment that it belongs to.
    pub environment: Option<RootPath>,
    /// Why, as the end of a sentence.
    pub why: String,
}

/// A folder of `sys.path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchedFolder {
    /// The path as in `sys.path`.
    pub path: RootPath,
    /// The path with links resolved.
    pub real_path: RootPath,
    /// Whether it is one of `site.getsitepackages()`, or the user's.
    pub is_site: bool,
    /// The only package that is visible in it, if an import hook adds just that one.
    pub only: Option<RootPath>,
}

/// The installation of an interpreter.
struct Installation {
    version: String,
    /// The folder with the standard library's `lib` or `lib64`.
    prefix: RootPath,
    /// `lib` or `lib64` (`sys.platlibdir`).
    library_folder: &'static str,
    /// The virtual environment that it belongs to.
    venv: Option<VirtualEnvironment>,
    /// Whether `site.py` is Debian's, which searches `dist-packages`.
    is_debian: bool,
    /// Whether it is Fedora's, which also searches `/usr/local`.
    is_fedora: bool,
}

/// The contents of a `pyvenv.cfg`.
#[derive(Default)]
struct VirtualEnvironment {
    prefix: RootPath,
    /// The folder of the base interpreter.
    home: Option<RootPath>,
    with_system_packages: bool,
    version: Option<String>,
}

impl PythonInterpreter {
    /// Reads the interpreter at this path, or why it cannot start; `None` if the path is not a program.
    pub fn read(rootfs: &Rootfs, path: &RootPath, settings: &PythonSettings) -> Option<Result<Self, BrokenPython>> {
        let broken = |why| {
            let prefix = path.parent().parent();
            let is_venv = rootfs.file(&prefix.join(b"pyvenv.cfg").absolute()).is_some();
            BrokenPython {
                environment: is_venv.then_some(prefix),
                why,
            }
        };
        let Ok(found) = rootfs.lookup(&path.absolute()) else {
            // For example a virtual environment that was copied without its base Python.
            let target = rootfs.missing_target(&path.absolute())?;
            return Some(Err(broken(format!(
                "{path} is a link to {target}, which is not in the image"
            ))));
        };
        let NodeKind::File(facts) = &rootfs.node(found.node).kind else {
            return None;
        };
        // A shell script may be named python3, as with pyenv. Only an object for a known processor can start.
        let elf = facts.elf.as_ref().filter(|elf| elf.is_program())?;
        Arch::of_object(elf)?;
        let installation = match Installation::find(rootfs, path, &found.path, settings) {
            Ok(installation) => installation,
            Err(why) => return Some(Err(broken(why))),
        };
        let mut list = installation.search_path(rootfs, settings);
        list.read_customization(settings);
        Some(Ok(Self {
            path: path.clone(),
            program: found.path,
            version: installation.version,
            // Import hooks run last (sys.meta_path).
            search_path: list.folders.into_iter().chain(list.hooked).collect(),
            code: list.code,
            inserts: list.inserts,
            rearranges: list.rearranges,
        }))
    }
}

impl Installation {
    /// Follows Modules/getpath.py, from "READ pyvenv.cfg" to "CALCULATE prefix".
    ///
    /// Errors: Why the interpreter fails at startup: the standard library is missing, or site.py may not read
    /// `pyvenv.cfg`.
    fn find(rootfs: &Rootfs, path: &RootPath, program: &RootPath, settings: &PythonSettings) -> Result<Self, String> {
        let folder = path.parent();
        // The parent folder comes first here, and last in site.py. Tools create only one of the two.
        let venv = [folder.parent(), folder]
            .into_iter()
            .find_map(|prefix| VirtualEnvironment::read(rootfs, prefix));
        if let Some(venv) = &venv {
            let file = venv.prefix.join(b"pyvenv.cfg").absolute();
            // If the user cannot even enter the folder, the interpreter cannot start at all; that is reported when it
            // is tried.
            let gets_there = rootfs.lookup_as(&file, &settings.user).is_ok();
            if gets_there && rootfs.open_as(&file, &settings.user, FileUse::Read).is_err() {
                return Err(format!("{} may not read the pyvenv.cfg of {path}", settings.user));
            }
        }
        let home = venv.as_ref().and_then(|venv| venv.home.clone());
        let lost = home.clone().filter(|home| rootfs.lookup(&home.absolute()).is_err());
        let start = home.unwrap_or_else(|| program.parent());
        let named = version_of_name(program.name()).or_else(|| venv.as_ref()?.version.clone());
        let places = if let Some(home) = &settings.home {
            vec![home.clone()]
        } else {
            // If only one of them has the version, their order does not matter.
            let built: &[&str] = if named.is_some() { &BUILT_PREFIXES } else { &[] };
            let mut prefixes = ancestors(&start);
            prefixes.extend(built.iter().map(|prefix| RootPath::from(*prefix)));
            prefixes
        };
        let found = places.into_iter().find_map(|prefix| {
            let (library_folder, version) = standard_library(rootfs, &prefix, named.as_deref())?;
            Some((prefix, library_folder, version))
        });
        if let Some(home) = settings.home.as_ref().filter(|_| found.is_none()) {
            return Err(format!("PYTHONHOME is {home}, which holds no standard library"));
        }
        if let Some(home) = lost.filter(|_| found.is_none()) {
            return Err(format!(
                "{path} was made with the Python of {home}, which is not in the image"
            ));
        }
        let (prefix, library_folder, version) =
            found.unwrap_or_else(|| (start.parent(), "lib", named.unwrap_or_else(|| "3".to_owned())));
        let site = prefix.join(format!("{library_folder}/python{version}/site.py").as_bytes());
        let text = rootfs.content(&site.absolute());
        let is_debian = match text {
            Some(text) => memmem::find(text, b"dist-packages").is_some(),
            // If site.py was not read, the folder that only Debian's packages create decides.
            None => rootfs
                .lookup(&prefix.join(b"lib/python3/dist-packages").absolute())
                .is_ok(),
        };
        Ok(Self {
            is_debian,
            is_fedora: text.is_some_and(|text| memmem::find(text, b"RPM_BUILD_ROOT").is_some()),
            version,
            prefix,
            library_folder,
            venv,
        })
    }

    /// `sys.path` after `site` ran (Lib/site.py, `main`).
    fn search_path<'r>(&self, rootfs: &'r Rootfs, settings: &'r PythonSettings) -> FolderList<'r> {
        let mut list = FolderList::new(rootfs, &settings.user);
        settings.python_path.iter().for_each(|folder| list.add(folder));
        let library = self
            .prefix
            .join(format!("{}/python{}", self.library_folder, self.version).as_bytes());
        list.add(&library);
        list.add(&library.join(b"lib-dynload"));
        if !settings.has_sites {
            return list;
        }
        // "Doing this here ensures venv takes precedence over user-site"
        let own = self.venv.as_ref().map(|venv| &venv.prefix);
        if let Some(prefix) = own {
            self.add_sites(&mut list, prefix);
        }
        let alone = self.venv.as_ref().is_some_and(|venv| !venv.with_system_packages);
        if alone {
            return list;
        }
        if let Some(base) = &settings.user_base {
            let site = base.join(format!("lib/python{}/site-packages", self.version).as_bytes());
            list.add_site(&site);
        }
        if self.is_fedora && settings.user_base.is_some() {
            self.add_sites(&mut list, &"usr/local".into());
        }
        self.add_sites(&mut list, &self.prefix);
        list
    }

    /// Adds the package folders below a prefix (Lib/site.py, `getsitepackages`).
    fn add_sites(&self, list: &mut FolderList<'_>, prefix: &RootPath) {
        let version = &self.version;
        let mut names = Vec::new();
        if self.is_debian {
            // "python%d.%d", without the `t` of a free-threaded build.
            let version = version.trim_end_matches('t');
            if self.venv.is_some() {
                names.push(format!("lib/python{version}/site-packages"));
            }
            names.push(format!("local/lib/python{version}/dist-packages"));
            names.push("lib/python3/dist-packages".to_owned());
            names.push(format!("lib/python{version}/dist-packages"));
        } else {
            names.push(format!("{}/python{version}/site-packages", self.library_folder));
            names.push(format!("lib/python{version}/site-packages"));
        }
        for name in names {
            list.add_site(&prefix.join(name.as_bytes()));
        }
    }
}

impl VirtualEnvironment {
    fn read(rootfs: &Rootfs, prefix: RootPath) -> Option<Self> {
        let file = prefix.join(b"pyvenv.cfg").absolute();
        rootfs.file(&file)?;
        let text = String::from_utf8_lossy(rootfs.content(&file).unwrap_or_default()).into_owned();
        // The default of site.py is "true".
        let mut venv = Self {
            prefix,
            with_system_packages: true,
            ..Self::default()
        };
        for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
            let value = value.trim();
            match key.trim().to_lowercase().as_str() {
                "home" => venv.home = Some(value.into()),
                "include-system-site-packages" => venv.with_system_packages = value.to_lowercase() == "true",
                // uv and virtualenv write `version_info`, venv writes `version`.
                "version" | "version_info" => venv.version = first_two_numbers(value),
                _ => {}
            }
        }
        Some(venv)
    }
}

/// An unfinished `sys.path`.
struct FolderList<'r> {
    rootfs: &'r Rootfs,
    user: &'r FileCredentials,
    folders: Vec<SearchedFolder>,
    /// The folders of single packages.
    hooked: Vec<SearchedFolder>,
    /// All paths seen, even if the folder does not exist.
    known: BTreeSet<RootPath>,
    code: Option<RootPath>,
    inserts: Option<RootPath>,
    rearranges: Option<RootPath>,
}

impl<'r> FolderList<'r> {
    fn new(rootfs: &'r Rootfs, user: &'r FileCredentials) -> Self {
        Self {
            rootfs,
            user,
            folders: Vec::new(),
            hooked: Vec::new(),
            known: BTreeSet::new(),
            code: None,
            inserts: None,
            rearranges: None,
        }
    }

    fn add(&mut self, path: &RootPath) {
        if self.folders.len() < FOLDERS && self.known.insert(path.clone()) {
            self.folders.extend(self.folder(path, None));
            // The contents of a zip archive are unknown.
            if self.rootfs.file(&path.absolute()).is_some() {
                self.code.get_or_insert_with(|| path.clone());
            }
        }
    }

    fn folder(&self, path: &RootPath, only: Option<RootPath>) -> Option<SearchedFolder> {
        let found = self.rootfs.lookup(&path.absolute()).ok()?;
        // A path may contain zip archives; no library can be loaded from one.
        let is_folder = matches!(self.rootfs.node(found.node).kind, NodeKind::Directory(_));
        (is_folder && may_list(self.rootfs, &found.path, self.user)).then(|| SearchedFolder {
            path: path.clone(),
            real_path: found.path,
            is_site: false,
            only,
        })
    }

    /// Adds a package folder and the folders in its `.pth` files (Lib/site.py, `addsitedir`).
    fn add_site(&mut self, site: &RootPath) {
        self.add(site);
        let mut folders = self.folders.iter_mut();
        if let Some(folder) = folders.find(|folder| folder.path == *site) {
            folder.is_site = true;
        }
        let Ok(found) = self.rootfs.open_as(&site.absolute(), self.user, FileUse::Read) else {
            return;
        };
        // Sorted by name, as in site.py.
        let path_files: Vec<&[u8]> = self
            .rootfs
            .children(found.node)
            .map(|(name, _)| name)
            .filter(|name| name.ends_with(b".pth"))
            .take(FOLDERS)
            .collect();
        for name in path_files {
            self.add_path_file(site, name);
        }
    }

    fn add_path_file(&mut self, site: &RootPath, name: &[u8]) {
        let file = site.join(name);
        let found = self.rootfs.open_as(&file.absolute(), self.user, FileUse::Read);
        let text = found.ok().and_then(|_| self.rootfs.content(&file.absolute()));
        for line in text.unwrap_or_default().split(|&byte| byte == b'\n').take(LINES) {
            let line = line.trim_ascii_end();
            if line.starts_with(b"import ") || line.starts_with(b"import\t") {
                // "Remainder of file ignored"
                if !self.run_code(site, &file, line) {
                    break;
                }
            } else if !line.is_empty() && !line.starts_with(b"#") {
                self.add(&below(site, line));
            }
        }
    }

    /// Evaluates a line of code in a `.pth` file. The hook of setuptools adds single packages after all folders; any
    /// other code is only recorded. Returns false if Python would stop reading the file.
    fn run_code(&mut self, site: &RootPath, file: &RootPath, line: &[u8]) -> bool {
        let imported = line.get(b"import ".len()..).unwrap_or_default();
        let module = imported.split(|byte| b"; ,".contains(byte)).next().unwrap_or_default();
        let hook = site.join(&[module, b".py"].concat()).absolute();
        let Some(text) = self
            .rootfs
            .content(&hook)
            .filter(|_| module.starts_with(b"__editable__"))
        else {
            let is_known = HARMLESS_CODE.iter().any(|word| memmem::find(line, word).is_some());
            self.code = self.code.take().or_else(|| (!is_known).then(|| file.clone()));
            self.note_changes(file, line);
            return self.is_importable(module);
        };
        for (name, folder) in read_mapping(text).into_iter().take(FOLDERS) {
            let package = RootPath::from(folder.as_str());
            // A package whose name differs from its folder's cannot be expressed as a path.
            if package.name() == name.as_bytes() && self.hooked.len() < FOLDERS {
                self.hooked.extend(self.folder(&package.parent(), Some(package)));
            } else {
                self.code.get_or_insert_with(|| file.clone());
            }
        }
        true
    }

    /// Records how code changes `sys.path`.
    fn note_changes(&mut self, file: &RootPath, code: &[u8]) {
        if INSERTING.iter().any(|word| memmem::find(code, word).is_some()) {
            self.inserts.get_or_insert_with(|| file.clone());
        }
        if REARRANGING.iter().any(|word| memmem::find(code, word).is_some()) {
            self.rearranges.get_or_insert_with(|| file.clone());
        }
    }

    /// Whether a module imported by code may exist. Built-in modules have no file.
    fn is_importable(&self, module: &[u8]) -> bool {
        let top = module
            .split(|&byte| byte == b'.')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        is_importable(self.rootfs, self.folders.iter(), top)
    }

    fn has(&self, folder: &SearchedFolder, name: &[u8]) -> bool {
        self.rootfs.file(&folder.real_path.join(name).absolute()).is_some()
    }

    /// Reads the modules that are imported after all `.pth` files (Lib/site.py, `execsitecustomize`).
    fn read_customization(&mut self, settings: &PythonSettings) {
        let names: &[&[u8]] = match (settings.has_sites, &settings.user_base) {
            (false, _) => &[],
            (true, None) => &[b"sitecustomize.py"],
            (true, Some(_)) => &[b"sitecustomize.py", b"usercustomize.py"],
        };
        for name in names {
            let Some(first) = self.folders.iter().find(|folder| self.has(folder, name)) else {
                continue;
            };
            let file = first.real_path.join(name);
            let text = self.rootfs.content(&file.absolute()).unwrap_or_default();
            self.note_changes(&file, text);
            if memmem::find(text, b"sys.path").is_some() {
                self.code.get_or_insert(file);
            }
        }
    }
}

/// Whether a module may exist in these folders. Built-in modules have no file.
pub fn is_importable<'f>(
    rootfs: &Rootfs,
    folders: impl Iterator<Item = &'f SearchedFolder> + Clone,
    top: &[u8],
) -> bool {
    let mut libraries = folders.clone();
    let has_library = libraries.any(|folder| rootfs.file(&folder.real_path.join(b"os.py").absolute()).is_some());
    let mut folders = folders;
    BUILT_IN.contains(&top)
        || top.starts_with(b"_")
        || !has_library
        || folders.any(|folder| has_module(rootfs, &folder.real_path, top))
}

/// Whether a folder has a package or any kind of module with this name.
pub fn has_module(rootfs: &Rootfs, folder: &RootPath, name: &[u8]) -> bool {
    let found = rootfs.lookup(&folder.absolute()).ok();
    let mut names = found
        .into_iter()
        .flat_map(|found| rootfs.children_with(found.node, name));
    names.any(|(child, _)| matches!(child.get(name.len()), None | Some(b'.')))
}

/// Whether a user who can reach a folder can also list it; import needs the listing (`FileFinder._fill_cache`).
pub fn may_list(rootfs: &Rootfs, folder: &RootPath, user: &FileCredentials) -> bool {
    let path = folder.absolute();
    // The loader itself reports an object in a folder that the user cannot reach.
    rootfs.lookup_as(&path, user).is_err() || rootfs.open_as(&path, user, FileUse::Read).is_ok()
}

/// The folder and all its parents, up to the root.
fn ancestors(folder: &RootPath) -> Vec<RootPath> {
    let mut folders = vec![folder.clone()];
    while let Some(last) = folders.last().filter(|last| **last != RootPath::default()) {
        let parent = last.parent();
        folders.push(parent);
    }
    folders
}

/// The `lib` or `lib64` below a prefix that contains a standard library, and its version; only `wanted` if a version is
/// given.
fn standard_library(rootfs: &Rootfs, prefix: &RootPath, wanted: Option<&str>) -> Option<(&'static str, String)> {
    ["lib64", "lib"].into_iter().find_map(|folder| {
        let found = rootfs.lookup(&prefix.join(folder.as_bytes()).absolute()).ok()?;
        let versions = rootfs
            .children(found.node)
            .filter_map(|(name, _)| version_of_name(name));
        let fits = |version: &String| {
            let landmark = prefix
                .join(format!("{folder}/python{version}/os.py").as_bytes())
                .absolute();
            let compiled = [landmark.as_slice(), b"c"].concat();
            wanted.is_none_or(|wanted| wanted == version)
                && (rootfs.file(&landmark).is_some() || rootfs.file(&compiled).is_some())
        };
        // In virtual environments and some images `lib64` is a link to `lib`; then Python reports `lib`.
        let is_link = found.path != prefix.join(folder.as_bytes());
        (folder == "lib" || !is_link)
            .then(|| {
                versions
                    .filter(fits)
                    .max_by_key(|version| Version::from_str(version.trim_end_matches('t')).ok())
            })
            .flatten()
            .map(|version| (folder, version))
    })
}
