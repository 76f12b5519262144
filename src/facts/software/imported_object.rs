//! Simulates the process of a Python import: start the interpreter, open what packages open first, then load the
//! object.

use crate::byte_search::contains_bytes;
use crate::facts::objects::resolved_objects::unresolved_objects;
use crate::knowledge::{ConsumerProfile, ImportStep, LibraryRow, PythonImport, matches_name_pattern};
use image_linkage::elf::ByteString;
use image_linkage::loader::expand_pattern;
use image_linkage::loader::{LoadResolution, RequestOutcome, SimulatedProcess, StartMode, UnresolvedRequest};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use python_path::{
    CtypesSource, FoundObject, ImportRun, PythonEnvironment, PythonInterpreter, PythonUse, fits_version, follow_import,
    is_source,
};

/// The maximum number of files per pattern.
const FILES: usize = 64;
/// The maximum depth of packages that import each other.
const PACKAGES: usize = 4;

/// An object that a Python in the image imports.
pub(crate) struct ImportedObject<'e> {
    environment: &'e PythonEnvironment,
    rootfs: &'e Rootfs,
    interpreter: &'e PythonInterpreter,
    found: FoundObject,
}

/// The result of opening the first file that matches some patterns.
enum Opening {
    Opened,
    Missing,
    Refused(LoadResolution),
}

/// A failed import: the loader's result for the object that fails.
type ImportFailure = LoadResolution;

/// Finds the Python that imports an object. `None` if the object is not part of a package; an error with the reason if
/// no Python finds it.
pub(crate) fn import_object<'e>(
    environment: &'e PythonEnvironment,
    rootfs: &'e Rootfs,
    object: &RootPath,
) -> Option<Result<ImportedObject<'e>, PythonUse>> {
    Some(
        environment
            .find(rootfs, object)?
            .map(|(interpreter, found)| ImportedObject {
                environment,
                rootfs,
                interpreter,
                found,
            }),
    )
}

impl ImportedObject<'_> {
    /// The program of the interpreter, with links resolved.
    pub fn program(&self) -> &RootPath {
        &self.interpreter.program
    }

    /// The interpreter that imports it, and the path entry.
    pub fn used_by(&self) -> PythonUse {
        PythonUse::Imported {
            interpreter: self.interpreter.path.clone(),
            site: self.found.site.clone(),
        }
    }

    /// A file that makes the import uncertain: it changes `sys.path`, or shadows ctypes.
    pub fn doubt(&self) -> Option<String> {
        if let Some(file) = &self.interpreter.rearranges {
            return Some(format!("{file} changes sys.path"));
        }
        if let Some(file) = &self.interpreter.inserts
            && self
                .environment
                .is_elsewhere(self.rootfs, self.interpreter, &self.found)
        {
            return Some(format!("{file} adds a folder in front of sys.path"));
        }
        match self.environment.ctypes(self.rootfs, self.interpreter) {
            CtypesSource::Other(file) if is_source(&self.found.path) => {
                Some(format!("{file} is imported in the place of ctypes"))
            }
            _ => None,
        }
    }

    /// Starts the interpreter, opens what the packages in `profile` open first, and loads the object.
    pub fn load(
        &self,
        process: &mut SimulatedProcess<'_>,
        profile: Option<&ConsumerProfile>,
        profiles: &[ConsumerProfile],
    ) -> LoadResolution {
        let started = process.start(&self.program().absolute(), StartMode::Executed);
        if !started.loads() {
            return started;
        }
        if let Some((module, by)) = self.run().lacks {
            let words = format!("No module named '{module}', which {by} imports");
            return failed_import(&module, words);
        }
        let imported = profile.map(|profile| self.import(process, profile, profiles, PACKAGES));
        if let Some(Err(failure)) = imported {
            return failure;
        }
        if !is_source(&self.found.path) {
            // An interpreter opens an extension by path, without a search.
            return process.open_now(&self.found.path, None);
        }
        if self.environment.ctypes(self.rootfs, self.interpreter) == CtypesSource::Nowhere {
            return not_importable("ctypes");
        }
        // Source code opens libraries through ctypes, which may be built into the interpreter.
        match self.first_file(&["_ctypes.*so".to_owned()]) {
            Some(file) => process.open_now(&file, None),
            None if process.lacks_symbol(b"PyInit__ctypes") => not_importable("_ctypes"),
            None => started,
        }
    }

    /// The modules that the import runs before the object.
    fn run(&self) -> ImportRun {
        let path = RootPath::new(&self.found.path);
        follow_import(self.environment, self.interpreter, self.rootfs, &self.found.site, &path)
    }

    /// A module that the import runs before the object and that opens libraries under any name.
    pub fn opening_module(&self) -> Option<RootPath> {
        self.run().opens
    }

    /// Whether the interpreter has one of these packages on its path.
    pub fn finds_package(&self, packages: &[String]) -> bool {
        self.first_file(packages).is_some()
    }

    /// The files that match the patterns a program opens as the library, in order. A pattern is relative to one of:
    ///
    /// - `$A|B/`: the first environment variable that is set
    /// - `@A|B/`: the toolkit of the first library that is found
    /// - otherwise: the package directories
    pub fn opened_files(
        &self,
        patterns: &[String],
        finder: Option<&str>,
        find: &dyn Fn(&[u8]) -> Option<RootPath>,
    ) -> Vec<ByteString> {
        let has_finder = finder.is_none_or(|name| self.version(name).is_some());
        let mut files = Vec::new();
        for pattern in patterns {
            let root = match (
                pattern.get(..1),
                pattern.get(1..).and_then(|pattern| pattern.split_once('/')),
            ) {
                (Some("$" | "@"), Some(_)) if !has_finder => None,
                (Some("$"), Some((names, rest))) => {
                    let folder = names.split('|').find_map(|name| self.environment.variable(name));
                    folder.map(|folder| (RootPath::from(folder), rest))
                }
                (Some("@"), Some((names, rest))) => {
                    let found = names.split('|').find_map(|name| find(name.as_bytes()));
                    found.and_then(|path| Some((toolkit_of(&path)?, rest)))
                }
                _ => {
                    for folder in self.environment.folders(self.interpreter) {
                        if folder.is_site {
                            files.extend(self.files(&folder.path, pattern));
                        }
                    }
                    None
                }
            };
            files.extend(root.into_iter().flat_map(|(root, rest)| self.files(&root, rest)));
        }
        files.into_iter().map(ByteString::from).collect()
    }

    /// The version of a distribution on the path; a trailing `*` in the name matches any rest.
    fn version(&self, name: &str) -> Option<&str> {
        self.environment
            .version(self.interpreter, |known| matches_name_pattern(known.as_bytes(), name))
    }

    fn import(
        &self,
        process: &mut SimulatedProcess<'_>,
        profile: &ConsumerProfile,
        profiles: &[ConsumerProfile],
        depth: usize,
    ) -> Result<(), ImportFailure> {
        let Some((python, depth)) = profile.python.as_ref().zip(depth.checked_sub(1)) else {
            return Ok(());
        };
        let before = python.after.iter();
        for other in before.filter_map(|id| profiles.iter().find(|other| other.id == *id)) {
            self.import(process, other, profiles, depth)?;
        }
        let distribution = python.distribution.as_deref();
        let python = python.of_version(distribution.and_then(|name| self.version(name)));
        for step in &python.steps {
            let mapped = step.mapped.as_ref();
            if mapped.is_none_or(|part| process.has_mapped(|path| contains_bytes(path.as_bytes(), part.as_bytes()))) {
                self.take_step(process, &python, step)?;
            }
        }
        Ok(())
    }

    fn take_step(
        &self,
        process: &mut SimulatedProcess<'_>,
        python: &PythonImport,
        step: &ImportStep,
    ) -> Result<(), ImportFailure> {
        if let Some(row) = step.libraries {
            self.open_libraries(process, python, row);
        }
        let Some(pattern) = &step.open else {
            return Ok(());
        };
        let patterns = std::slice::from_ref(pattern);
        match self.open_first(process, patterns) {
            Opening::Refused(failure) if step.else_libraries && names_library(&failure, python) => {
                self.open_all_libraries(process, python, failure)?;
            }
            Opening::Refused(failure) => return Err(failure),
            // If the file does not exist, the profile does not apply to this package.
            Opening::Opened | Opening::Missing => return Ok(()),
        }
        match self.open_first(process, patterns) {
            Opening::Refused(failure) => Err(failure),
            Opening::Opened | Opening::Missing => Ok(()),
        }
    }

    fn open_libraries(&self, process: &mut SimulatedProcess<'_>, python: &PythonImport, row: LibraryRow) {
        for library in &python.libraries {
            let ends = match self.open_first(process, &python.places_of(library)) {
                Opening::Opened => false,
                Opening::Missing => row == LibraryRow::UntilMissing,
                Opening::Refused(_) => row != LibraryRow::All,
            };
            if ends {
                return;
            }
        }
    }

    /// Opens all libraries because of a failed load; one that is missing ends the import.
    fn open_all_libraries(
        &self,
        process: &mut SimulatedProcess<'_>,
        python: &PythonImport,
        mut because: LoadResolution,
    ) -> Result<(), ImportFailure> {
        for library in &python.libraries {
            match self.open_first(process, &python.places_of(library)) {
                Opening::Missing => {
                    because.unresolved.insert(0, not_in_path(library));
                    return Err(because);
                }
                Opening::Refused(failure) => return Err(failure),
                Opening::Opened => {}
            }
        }
        Ok(())
    }

    /// Opens the first file that matches the patterns, in the first `sys.path` directory that has one.
    fn open_first(&self, process: &mut SimulatedProcess<'_>, patterns: &[String]) -> Opening {
        let Some(file) = self.first_file(patterns) else {
            return Opening::Missing;
        };
        // A failed dlopen leaves nothing mapped (elf/dl-open.c, `_dl_open`).
        let before = process.clone();
        let resolution = process.open_now(&file, None);
        if resolution.loads() {
            return Opening::Opened;
        }
        *process = before;
        Opening::Refused(resolution)
    }

    fn first_file(&self, patterns: &[String]) -> Option<Vec<u8>> {
        let mut folders = self.environment.folders(self.interpreter);
        folders.find_map(|folder| {
            let mut patterns = patterns.iter();
            patterns.find_map(|pattern| self.files(&folder.path, pattern).into_iter().next())
        })
    }

    /// The files that match a pattern below a directory and that this Python can load, by name.
    fn files(&self, folder: &RootPath, pattern: &str) -> Vec<Vec<u8>> {
        let mut absolute = Vec::new();
        // A directory name may contain wildcards; escape them.
        for byte in folder.absolute() {
            if b"*?[\\".contains(&byte) {
                absolute.push(b'\\');
            }
            absolute.push(byte);
        }
        absolute.push(b'/');
        absolute.extend_from_slice(pattern.as_bytes());
        let mut files = expand_pattern(self.rootfs, &absolute, FILES);
        files.retain(|file| fits_version(RootPath::new(file).name(), &self.interpreter.version));
        files
    }
}

/// The directory of a library's toolkit. The library is in `lib` or `lib64` below it, or below its `targets/TRIPLE`
/// (cuda.pathfinder, `_derive_ctk_root_linux`).
fn toolkit_of(library: &RootPath) -> Option<RootPath> {
    let folder = library.parent();
    let above = folder.parent();
    let is_library = matches!(folder.name(), b"lib" | b"lib64");
    let is_target = above.parent().name() == b"targets";
    is_library.then(|| if is_target { above.parent().parent() } else { above })
}

/// Whether the first error of the loader names one of the libraries. A package raises any other error unchanged.
fn names_library(failure: &LoadResolution, python: &PythonImport) -> bool {
    let said = unresolved_objects(failure)
        .next()
        .map(|missing| missing.message.as_str());
    let mut names = python.libraries.iter().filter_map(|library| library.rsplit('/').next());
    said.is_some_and(|said| names.any(|name| said.contains(name)))
}

/// A failed import because of a missing module.
fn not_importable(module: &str) -> ImportFailure {
    failed_import(module, format!("No module named '{module}'"))
}

/// The failure that no `sys.path` directory has a library.
fn not_in_path(library: &str) -> UnresolvedRequest {
    let name = library.rsplit('/').next().unwrap_or(library);
    failed_request(name, format!("{name}.so: not found in the folders of sys.path"))
}

fn failed_import(name: &str, message: String) -> ImportFailure {
    LoadResolution {
        unresolved: vec![failed_request(name, message)],
        ..LoadResolution::default()
    }
}

fn failed_request(name: &str, message: String) -> UnresolvedRequest {
    UnresolvedRequest {
        name: name.as_bytes().into(),
        requested_by: None,
        outcome: RequestOutcome::NotFound,
        message,
        missing_version: None,
        trace: Vec::new(),
    }
}
