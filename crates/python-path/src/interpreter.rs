//! One Python of an image, and the folders in which it looks for packages (`sys.path`).
//!
//! The search follows Python's own `Modules/getpath.py` and `Lib/site.py` of 3.11 to 3.14, and what Debian and Fedora
//! change in the latter.

use std::collections::BTreeSet;

use crate::editable::read_mapping;
use crate::file_names::{first_two_numbers, version_of_name};
use crate::settings::{PythonSettings, below};
use image_linkage::loader::Arch;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{FileCredentials, FileUse, NodeKind, Rootfs};
use memchr::memmem;

/// The folders of one `sys.path`, at most; real ones have some ten.
const FOLDERS: usize = 256;
/// The lines of one `.pth` file that are looked at, at most.
const LINES: usize = 1024;
/// What tells a line of code in a `.pth` file that adds no folder: those of setuptools, virtualenv and namespaces.
const HARMLESS_CODE: [&[u8]; 3] = [b"SETUPTOOLS_USE_DISTUTILS", b"_virtualenv", b"f_locals['sitedir']"];
/// What tells a line of code that changes `sys.path` otherwise than by a folder at its end.
const REARRANGING: [&[u8]; 5] = [
    b"sys.path.insert",
    b"sys.path.remove",
    b"sys.path.clear",
    b"sys.path[",
    b"sys.path =",
];
/// Modules that are part of CPython's programs, where their names do not begin with `_`: those of C, and those of text that
/// are kept in it as well (Python/frozen.c).
const BUILT_IN: [&[u8]; 34] = [
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
    b"binascii",
    b"builtins",
    b"cmath",
    b"errno",
    b"faulthandler",
    b"fcntl",
    b"gc",
    b"grp",
    b"itertools",
    b"marshal",
    b"math",
    b"posix",
    b"pwd",
    b"pyexpat",
    b"select",
    b"spwd",
    b"sys",
    b"syslog",
    b"time",
    b"zlib",
];
/// The prefixes that Pythons are built with, where one that finds no library beside itself looks last.
const BUILT_PREFIXES: [&str; 2] = ["usr/local", "usr"];

/// A Python that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonInterpreter {
    /// The path that it is called by; a virtual environment has its own.
    pub path: RootPath,
    /// The program without links.
    pub program: RootPath,
    /// Its version in the names of folders: `3.11`, or `3.13t` without the global lock.
    pub version: String,
    /// `sys.path`: the folders that are there, in order.
    pub search_path: Vec<SearchedFolder>,
    /// The first `.pth` file with a line of code that may add folders of its own.
    pub code: Option<RootPath>,
    /// A file that it runs as it starts and that changes `sys.path` otherwise.
    pub rearranges: Option<RootPath>,
}

/// A Python that cannot be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenPython {
    /// The virtual environment that it is of.
    pub environment: Option<RootPath>,
    /// Why, as the end of a sentence.
    pub why: String,
}

/// A folder in which packages are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchedFolder {
    /// The path as it stands in `sys.path`.
    pub path: RootPath,
    /// The same without links.
    pub real_path: RootPath,
    /// Whether it is one of `site.getsitepackages()`, or that of the user.
    pub is_site: bool,
    /// The only package that is found in it, where an import hook adds that alone.
    pub only: Option<RootPath>,
}

/// Where an interpreter is installed.
struct Installation {
    version: String,
    /// The folder that holds the standard library's `lib` or `lib64`.
    prefix: RootPath,
    /// `lib` or `lib64` (`sys.platlibdir`).
    library_folder: &'static str,
    /// The virtual environment that it belongs to.
    venv: Option<VirtualEnvironment>,
    /// What `site.py` is: Debian's looks into `dist-packages`.
    is_debian: bool,
    /// Fedora's looks into `/usr/local` too.
    is_fedora: bool,
}

/// What the file `pyvenv.cfg` says.
#[derive(Default)]
struct VirtualEnvironment {
    prefix: RootPath,
    /// The folder of the interpreter that it was made with.
    home: Option<RootPath>,
    with_system_packages: bool,
    version: Option<String>,
}

impl PythonInterpreter {
    /// The interpreter that is called by this path, or why that cannot start; `None` where no program is meant.
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
            // A virtual environment that was copied without the Python that it was made with.
            rootfs.lookup_link(&path.absolute()).ok()?;
            return Some(Err(broken(format!("{path} is a link that leads to no Python"))));
        };
        let NodeKind::File(facts) = &rootfs.node(found.node).kind else {
            return None;
        };
        // A shell script may be called python3, as with pyenv: only an object of a known processor can be started.
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
            // Import hooks are asked last (sys.meta_path).
            search_path: list.folders.into_iter().chain(list.hooked).collect(),
            code: list.code,
            rearranges: list.rearranges,
        }))
    }
}

impl Installation {
    /// Modules/getpath.py, from "READ pyvenv.cfg" to "CALCULATE prefix".
    ///
    /// Errors: Why a Python does not start: it ends without its standard library, and where site.py may not read the
    /// file that it goes by.
    fn find(rootfs: &Rootfs, path: &RootPath, program: &RootPath, settings: &PythonSettings) -> Result<Self, String> {
        let folder = path.parent();
        // The folder above comes first there, and last in site.py; one of the two is all that tools make.
        let venv = [folder.parent(), folder]
            .into_iter()
            .find_map(|prefix| VirtualEnvironment::read(rootfs, prefix));
        if let Some(venv) = &venv {
            let file = venv.prefix.join(b"pyvenv.cfg").absolute();
            // Who does not even get to its folder cannot start the interpreter: that is told when it is tried.
            let gets_there = rootfs.lookup_as(&file, &settings.user).is_ok();
            if gets_there && rootfs.open_as(&file, &settings.user, FileUse::Read).is_err() {
                return Err(format!("{} may not read the pyvenv.cfg of {path}", settings.user));
            }
        }
        let home = venv.as_ref().and_then(|venv| venv.home.clone());
        let is_gone = |folder: &RootPath| rootfs.lookup(&folder.absolute()).is_err();
        let lost = home.clone().filter(is_gone);
        let start = home.unwrap_or_else(|| program.parent());
        let named = version_of_name(program.name()).or_else(|| venv.as_ref()?.version.clone());
        let places = if let Some(home) = &settings.home {
            vec![home.clone()]
        } else {
            // Which of the two it is does not matter where a version is there once.
            let built = BUILT_PREFIXES.iter().filter(|_| named.is_some());
            let built = built.map(|prefix| RootPath::from(*prefix));
            ancestors(&start).into_iter().chain(built).collect()
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
        let says = |word: &str| text.map(|text| memmem::find(text, word.as_bytes()).is_some());
        // Without its text, the folder that only Debian's packages make tells.
        let dist_packages = || {
            rootfs
                .lookup(&prefix.join(b"lib/python3/dist-packages").absolute())
                .is_ok()
        };
        Ok(Self {
            is_debian: says("dist-packages").unwrap_or_else(dist_packages),
            is_fedora: says("RPM_BUILD_ROOT").unwrap_or(false),
            version,
            prefix,
            library_folder,
            venv,
        })
    }

    /// `sys.path` once `site` has run (Lib/site.py, `main`).
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

    /// The folders of packages below a prefix (Lib/site.py, `getsitepackages`).
    fn add_sites(&self, list: &mut FolderList<'_>, prefix: &RootPath) {
        let version = &self.version;
        let mut names = Vec::new();
        if self.is_debian {
            // "python%d.%d", without the letter of a build without the global lock.
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
        // "true" is what site.py begins with, before it has read a line.
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
                // `version_info` is uv's and virtualenv's word, `version` that of venv.
                "version" | "version_info" => venv.version = first_two_numbers(value),
                _ => {}
            }
        }
        Some(venv)
    }
}

/// The folders of a `sys.path` in the making.
struct FolderList<'r> {
    rootfs: &'r Rootfs,
    user: &'r FileCredentials,
    folders: Vec<SearchedFolder>,
    /// The folders of single packages.
    hooked: Vec<SearchedFolder>,
    /// The paths that are known, whether or not a folder is there.
    known: BTreeSet<RootPath>,
    code: Option<RootPath>,
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
            rearranges: None,
        }
    }

    fn add(&mut self, path: &RootPath) {
        if self.folders.len() < FOLDERS && self.known.insert(path.clone()) {
            self.folders.extend(self.folder(path, None));
            // What is in a zip archive is not known.
            if self.rootfs.file(&path.absolute()).is_some() {
                self.code.get_or_insert_with(|| path.clone());
            }
        }
    }

    fn folder(&self, path: &RootPath, only: Option<RootPath>) -> Option<SearchedFolder> {
        let found = self.rootfs.lookup(&path.absolute()).ok()?;
        // A zip archive may stand in a path too; no library can be loaded from it.
        let is_folder = matches!(self.rootfs.node(found.node).kind, NodeKind::Directory(_));
        (is_folder && may_list(self.rootfs, &found.path, self.user)).then(|| SearchedFolder {
            path: path.clone(),
            real_path: found.path,
            is_site: false,
            only,
        })
    }

    /// Adds a folder of packages and what its `.pth` files name (Lib/site.py, `addsitedir`).
    fn add_site(&mut self, site: &RootPath) {
        self.add(site);
        let mut folders = self.folders.iter_mut();
        if let Some(folder) = folders.find(|folder| folder.path == *site) {
            folder.is_site = true;
        }
        let Ok(found) = self.rootfs.open_as(&site.absolute(), self.user, FileUse::Read) else {
            return;
        };
        // Sorted by name, as site.py has them.
        let names = self.rootfs.children(found.node).map(|(name, _)| name);
        let names: Vec<&[u8]> = names.filter(|name| name.ends_with(b".pth")).take(FOLDERS).collect();
        for name in names {
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

    /// Takes a line of code: the import hook of setuptools finds single packages, behind all folders; of any other it is
    /// only known that it is there. Whether it goes on behind it.
    fn run_code(&mut self, site: &RootPath, file: &RootPath, line: &[u8]) -> bool {
        let module = line.get(b"import ".len()..).unwrap_or_default();
        let module = module.split(|byte| b"; ,".contains(byte)).next().unwrap_or_default();
        let hook = site.join(&[module, b".py"].concat()).absolute();
        let Some(text) = self
            .rootfs
            .content(&hook)
            .filter(|_| module.starts_with(b"__editable__"))
        else {
            let is_known = HARMLESS_CODE.iter().any(|word| memmem::find(line, word).is_some());
            self.code = self.code.take().or_else(|| (!is_known).then(|| file.clone()));
            if REARRANGING.iter().any(|word| memmem::find(line, word).is_some()) {
                self.rearranges.get_or_insert_with(|| file.clone());
            }
            return self.is_importable(module);
        };
        for (name, folder) in read_mapping(text).into_iter().take(FOLDERS) {
            let package = RootPath::from(folder.as_str());
            // A package by another name than its folder's has no place in a path.
            if package.name() == name.as_bytes() && self.hooked.len() < FOLDERS {
                self.hooked.extend(self.folder(&package.parent(), Some(package)));
            }
        }
        true
    }

    /// Whether a module that code imports may be there; those that are part of a Python have no file.
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

    /// Looks at what is imported behind all `.pth` files (Lib/site.py, `execsitecustomize`).
    fn read_customization(&mut self, settings: &PythonSettings) {
        let names: &[&[u8]] = match (settings.has_sites, &settings.user_base) {
            (false, _) => &[],
            (true, None) => &[b"sitecustomize.py"],
            (true, Some(_)) => &[b"sitecustomize.py", b"usercustomize.py"],
        };
        for name in names {
            let first = self.folders.iter().find(|folder| self.has(folder, name));
            let file = first.map(|folder| folder.real_path.join(name));
            let text = file.as_ref().and_then(|file| self.rootfs.content(&file.absolute()));
            let says =
                |words: &[&[u8]]| text.is_some_and(|text| words.iter().any(|word| memmem::find(text, word).is_some()));
            self.code = self
                .code
                .take()
                .or_else(|| file.clone().filter(|_| says(&[b"sys.path"])));
            self.rearranges = self.rearranges.take().or_else(|| file.filter(|_| says(&REARRANGING)));
        }
    }
}

/// Whether a module may be there for who looks into these folders; those that are part of a Python have no file.
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

/// Whether a folder has a package of this name, or a module of any kind.
pub fn has_module(rootfs: &Rootfs, folder: &RootPath, name: &[u8]) -> bool {
    let found = rootfs.lookup(&folder.absolute()).ok();
    let names = found.into_iter().flat_map(|found| rootfs.children(found.node));
    let mut rests = names.filter_map(|(child, _)| child.strip_prefix(name));
    rests.any(|rest| rest.is_empty() || rest.starts_with(b"."))
}

/// Whether somebody who gets to a folder also sees what is in it: import goes by the list (`FileFinder._fill_cache`).
pub fn may_list(rootfs: &Rootfs, folder: &RootPath, user: &FileCredentials) -> bool {
    let path = folder.absolute();
    // What lies in a folder that nobody gets to is refused by the loader, in its words.
    rootfs.lookup_as(&path, user).is_err() || rootfs.open_as(&path, user, FileUse::Read).is_ok()
}

/// The folder and those above it, up to the root.
fn ancestors(folder: &RootPath) -> Vec<RootPath> {
    let mut folders = vec![folder.clone()];
    while let Some(last) = folders.last().filter(|last| **last != RootPath::default()) {
        let parent = last.parent();
        folders.push(parent);
    }
    folders
}

/// The folder `lib` or `lib64` below a prefix that holds a standard library, and its version; only of `wanted` where
/// the version is known.
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
        // `lib64` is a link to `lib` in virtual environments and in some images: then `lib` is what Python says.
        let is_link = found.path != prefix.join(folder.as_bytes());
        (folder == "lib" || !is_link)
            .then(|| versions.filter(fits).max())
            .flatten()
            .map(|version| (folder, version))
    })
}
