//! One Python of an image, and the folders in which it looks for packages (`sys.path`).
//!
//! The search follows Python's own `Modules/getpath.py` and `Lib/site.py` of 3.11 to 3.14, and what Debian and Fedora
//! change in the latter.

use std::collections::BTreeSet;

use super::settings::{PythonSettings, below};
use image_linkage::loader::Arch;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};

/// The folders of one `sys.path`, at most; real ones have some ten.
const FOLDERS: usize = 256;
/// The lines of one `.pth` file that are looked at, at most.
const LINES: usize = 1024;

/// A Python that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PythonInterpreter {
    /// The path that it is called by; a virtual environment has its own.
    pub path: RootPath,
    /// The program without links.
    pub program: RootPath,
    /// Its version in the names of folders: `3.11`, or `3.13t` without the global lock.
    pub version: String,
    /// `sys.path`: the folders that are there, in order.
    pub search_path: Vec<SearchedFolder>,
}

/// A folder in which packages are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SearchedFolder {
    /// The path as it stands in `sys.path`.
    pub path: RootPath,
    /// The same without links.
    pub real_path: RootPath,
    /// Whether it is one of `site.getsitepackages()`, or that of the user.
    pub is_site: bool,
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
    /// The interpreter that is called by this path; `None` where no program is there.
    pub(super) fn read(rootfs: &Rootfs, path: &RootPath, settings: &PythonSettings) -> Option<Self> {
        let found = rootfs.lookup(&path.absolute()).ok()?;
        let NodeKind::File(facts) = &rootfs.node(found.node).kind else {
            return None;
        };
        // A shell script may be called python3, as with pyenv: only an object of a known processor can be started.
        let elf = facts.elf.as_ref().filter(|elf| elf.is_program())?;
        Arch::of_object(elf)?;
        let installation = Installation::find(rootfs, path, &found.path, settings);
        let search_path = installation.search_path(rootfs, settings);
        Some(Self {
            path: path.clone(),
            program: found.path,
            version: installation.version,
            search_path,
        })
    }
}

impl Installation {
    /// Modules/getpath.py, from "READ pyvenv.cfg" to "CALCULATE prefix".
    fn find(rootfs: &Rootfs, path: &RootPath, program: &RootPath, settings: &PythonSettings) -> Self {
        let folder = path.parent();
        // The folder above comes first there, and last in site.py; one of the two is all that tools make.
        let venv = [folder.parent(), folder]
            .into_iter()
            .find_map(|prefix| VirtualEnvironment::read(rootfs, prefix));
        let home = venv.as_ref().and_then(|venv| venv.home.clone());
        let start = home.unwrap_or_else(|| program.parent());
        let named = version_of_name(program.name()).or_else(|| venv.as_ref()?.version.clone());
        let above = settings.home.clone().into_iter().chain(ancestors(&start));
        let found = above.into_iter().find_map(|prefix| {
            let (library_folder, version) = standard_library(rootfs, &prefix, named.as_deref())?;
            Some((prefix, library_folder, version))
        });
        let (prefix, library_folder, version) =
            found.unwrap_or_else(|| (start.parent(), "lib", named.unwrap_or_else(|| "3".to_owned())));
        let site = prefix.join(format!("{library_folder}/python{version}/site.py").as_bytes());
        let text = rootfs.content(&site.absolute());
        let says = |word: &str| text.map(|text| text.windows(word.len()).any(|part| part == word.as_bytes()));
        // Without its text, the folder that only Debian's packages make tells.
        let dist_packages = || {
            rootfs
                .lookup(&prefix.join(b"lib/python3/dist-packages").absolute())
                .is_ok()
        };
        Self {
            is_debian: says("dist-packages").unwrap_or_else(dist_packages),
            is_fedora: says("RPM_BUILD_ROOT").unwrap_or(false),
            version,
            prefix,
            library_folder,
            venv,
        }
    }

    /// `sys.path` once `site` has run (Lib/site.py, `main`).
    fn search_path(&self, rootfs: &Rootfs, settings: &PythonSettings) -> Vec<SearchedFolder> {
        let mut list = FolderList::new(rootfs);
        settings.python_path.iter().for_each(|folder| list.add(folder));
        let library = self
            .prefix
            .join(format!("{}/python{}", self.library_folder, self.version).as_bytes());
        list.add(&library);
        list.add(&library.join(b"lib-dynload"));
        // "Doing this here ensures venv takes precedence over user-site"
        let own = self.venv.as_ref().map(|venv| &venv.prefix);
        if let Some(prefix) = own {
            self.add_sites(&mut list, prefix);
        }
        let alone = self.venv.as_ref().is_some_and(|venv| !venv.with_system_packages);
        if alone {
            return list.folders;
        }
        if let Some(base) = &settings.user_base {
            let site = base.join(format!("lib/python{}/site-packages", self.version).as_bytes());
            list.add_site(&site);
        }
        if self.is_fedora && settings.user_base.is_some() {
            self.add_sites(&mut list, &"usr/local".into());
        }
        self.add_sites(&mut list, &self.prefix);
        list.folders
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
    folders: Vec<SearchedFolder>,
    /// The paths that are known, whether or not a folder is there.
    known: BTreeSet<RootPath>,
}

impl<'r> FolderList<'r> {
    fn new(rootfs: &'r Rootfs) -> Self {
        Self {
            rootfs,
            folders: Vec::new(),
            known: BTreeSet::new(),
        }
    }

    fn add(&mut self, path: &RootPath) {
        if self.folders.len() >= FOLDERS {
            return;
        }
        let found = self.rootfs.lookup(&path.absolute()).ok();
        let is_folder = |node| matches!(self.rootfs.node(node).kind, NodeKind::Directory(_));
        // A zip archive may stand in a path too; no library can be loaded from it.
        let Some(found) = found.filter(|found| is_folder(found.node)) else {
            return;
        };
        if self.known.insert(path.clone()) {
            self.folders.push(SearchedFolder {
                path: path.clone(),
                real_path: found.path,
                is_site: false,
            });
        }
    }

    /// Adds a folder of packages and what its `.pth` files name (Lib/site.py, `addsitedir`).
    fn add_site(&mut self, site: &RootPath) {
        self.add(site);
        let mut folders = self.folders.iter_mut();
        if let Some(folder) = folders.find(|folder| folder.path == *site) {
            folder.is_site = true;
        }
        let Ok(found) = self.rootfs.lookup(&site.absolute()) else {
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
        let file = site.join(name).absolute();
        let text = self.rootfs.content(&file).unwrap_or_default();
        for line in text.split(|&byte| byte == b'\n').take(LINES) {
            let line = line.trim_ascii_end();
            // A line of code is run; what that adds is not known, and most add finders for editable packages.
            let is_code = line.starts_with(b"import ") || line.starts_with(b"import\t");
            if !line.is_empty() && !line.starts_with(b"#") && !is_code {
                self.add(&below(site, line));
            }
        }
    }
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

/// The version in a name, such as `3.11` of `python3.11`.
pub(super) fn version_of_name(name: &[u8]) -> Option<String> {
    let version = std::str::from_utf8(name.strip_prefix(b"python")?).ok()?;
    let numbers = version.strip_suffix('t').unwrap_or(version);
    let (major, minor) = numbers.split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.len() < 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(major) && is_number(minor)).then(|| version.to_owned())
}

/// The minor version, such as `3.11` of `3.11.2.final.0`.
fn first_two_numbers(version: &str) -> Option<String> {
    let mut parts = version.split('.');
    let short = format!("{}.{}", parts.next()?, parts.next()?);
    version_of_name(format!("python{short}").as_bytes())
}
