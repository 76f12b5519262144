//! An image of a case: the place of the library, and the statement that the script needs for it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use testkit::layer::{Compression, Layer};
use testkit::oci;

use super::base::{Base, PACKAGES, TORCH, TRAIN, place};
use super::case::{Case, File, HERE};

/// The place of an image's library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a default folder, or in a folder of the loader's cache.
    System,
    /// In a folder of the image's `LD_LIBRARY_PATH`.
    Environment,
    /// In a folder that only the script adds to `LD_LIBRARY_PATH`.
    Script,
    /// Nowhere.
    Absent,
    /// In a folder that is not searched, or that the script removes from the path.
    Lost,
}

/// The program that the command finally starts, always at the same path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// It opens the library by its name.
    Opens,
    /// It links the library, and does not start without it.
    Linked,
    /// A Python script that imports a package whose library links CUPTI.
    Python,
}

const PROGRAMS: [Program; 4] = [Program::Opens, Program::Linked, Program::Opens, Program::Python];

/// All places.
pub const PLACES: [Place; 5] = [
    Place::System,
    Place::Environment,
    Place::Script,
    Place::Absent,
    Place::Lost,
];

const SONAME: &str = "libcupti.so.12";
/// The folder in the image's own `LD_LIBRARY_PATH`.
const ENVIRONMENT: &str = "/opt/env/lib";
/// The statement that adds a folder, for scripts that add none.
const ADDS: &str = "export LD_LIBRARY_PATH=/opt/added/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}";
const ADDED: &str = "/opt/added/lib";
/// The ways in which scripts lose the image's own `LD_LIBRARY_PATH`.
const LOSES: [&str; 6] = [
    "unset LD_LIBRARY_PATH",
    "export LD_LIBRARY_PATH=/usr/local/lib",
    "LD_LIBRARY_PATH=",
    "export LD_LIBRARY_PATH=\"${LD_LIBRARY_PATH#/opt/env/lib}\"",
    "if [ -d /opt/env ]; then\n  unset -v LD_LIBRARY_PATH\nfi",
    "lose() {\n  LD_LIBRARY_PATH=$1\n}\nlose /opt/nothing",
];
const PATH: &str = "/opt/app/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An image, before it is written as a root or as a layout.
#[derive(Debug, Clone)]
pub struct Image {
    /// The name in messages.
    pub name: String,
    /// The entry point, with this image's files.
    pub case: Case,
    /// The folder of the library.
    pub library: Option<String>,
    /// The program that requests the library.
    pub program: Program,
    /// Whether the loader's cache contains that folder.
    is_cached: bool,
}

impl Image {
    /// The image of a case with the library at a place; `number` selects a variant.
    pub fn new(case: &Case, place: Place, number: usize) -> Self {
        let is_odd = number % 2 == 1;
        let mut statement = None;
        let library = match place {
            Place::System if is_odd => Some("/usr/local/cuda/targets/x86_64-linux/lib"),
            Place::System => Some("/usr/lib/x86_64-linux-gnu"),
            Place::Environment => Some(ENVIRONMENT),
            Place::Script => case.folder.as_deref().or_else(|| {
                statement = Some(ADDS);
                Some(ADDED)
            }),
            Place::Absent => None,
            Place::Lost if is_odd => {
                statement = LOSES.get(number / 2 % LOSES.len()).copied();
                Some(ENVIRONMENT)
            }
            Place::Lost => Some("/opt/vendor/cupti/lib64"),
        };
        let program = PROGRAMS[(number + place as usize) % PROGRAMS.len()];
        let mut image = Self {
            name: format!("{} {place:?} {program:?}", case.name),
            case: case.clone(),
            library: library.map(str::to_owned),
            program,
            is_cached: place == Place::System && is_odd,
        };
        for file in &mut image.case.files {
            file.text = with_statement(&file.text, statement);
        }
        if library == Some(ENVIRONMENT) {
            add_to_path(&mut image.case.env);
        }
        if !image.case.env.iter().any(|(name, _)| name == "PATH") {
            image.case.env.insert(0, ("PATH".to_owned(), PATH.to_owned()));
        }
        image
    }

    /// The object that requests the library.
    pub fn asker(&self) -> &'static str {
        if self.program == Program::Python { TORCH } else { TRAIN }
    }

    /// The command and its arguments.
    pub fn words(&self) -> impl Iterator<Item = &String> {
        self.case.entrypoint.iter().chain(&self.case.cmd)
    }

    /// A root file system with the image's files.
    pub fn root(&self, base: &Base) -> tempfile::TempDir {
        let root = base.root();
        for (path, (mode, bytes)) in self.files(base) {
            place(root.path(), &path, &bytes, mode);
        }
        for (path, mode) in self.folders() {
            let path = root.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(&path).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        if self.is_cached {
            let status = Command::new("chroot").arg(root.path()).arg("/sbin/ldconfig").status();
            assert!(status.unwrap().success(), "ldconfig");
        }
        root
    }

    /// The image as part of a layout; `root` is its root file system before the run.
    pub fn layout_image(&self, base: &Base, root: &Path) -> oci::Image {
        let mut layer = Layer::new();
        for (path, mode) in self.folders() {
            layer = layer.entry(entry(&path, mode, testkit::layer::Kind::Directory));
        }
        for (path, (mode, bytes)) in self.files(base) {
            layer = layer.entry(entry(&path, mode, testkit::layer::Kind::File(bytes)));
        }
        if self.is_cached {
            layer = layer.file("etc/ld.so.cache", fs::read(root.join("etc/ld.so.cache")).unwrap());
        }
        let mut image = oci::Image::new("linux/amd64")
            .blob("ADD base.tar /", base.blob.clone())
            .layer("COPY files /", &layer, Compression::None);
        for (name, value) in &self.case.env {
            image = image.env(name, value);
        }
        for (key, text) in [("User", &self.case.user), ("WorkingDir", &self.case.workdir)] {
            if let Some(text) = text {
                image = image.config(key, text.as_str());
            }
        }
        for (key, words) in [("Entrypoint", &self.case.entrypoint), ("Cmd", &self.case.cmd)] {
            if !words.is_empty() {
                image = image.config(key, words.clone());
            }
        }
        image
    }

    fn files(&self, base: &Base) -> BTreeMap<String, (u32, Vec<u8>)> {
        let files = self.case.files.iter();
        let mut files: BTreeMap<String, (u32, Vec<u8>)> = files
            .map(|File { path, mode, text }| (path.clone(), (*mode, text.clone().into_bytes())))
            .collect();
        if let Some(folder) = &self.library {
            files.insert(format!("{folder}/{SONAME}"), (0o644, base.library.clone()));
        }
        match self.program {
            Program::Opens => {}
            Program::Linked => {
                files.insert(format!("/{TRAIN}"), (0o755, base.linked.clone()));
            }
            Program::Python => {
                files.insert(format!("/{TRAIN}"), (0o755, include_bytes!("train.py").to_vec()));
                let package = base.package.iter();
                files.extend(package.map(|(path, bytes)| (format!("{PACKAGES}/{path}"), (0o644, bytes.clone()))));
            }
        }
        if self.is_cached {
            let text = format!("{}\n", self.library.as_deref().unwrap());
            files.insert("/etc/ld.so.conf.d/cuda.conf".to_owned(), (0o644, text.into_bytes()));
        }
        files
    }

    fn folders(&self) -> Vec<(String, u32)> {
        let mut folders = self.case.dirs.clone();
        let workdir = self.case.workdir.clone().filter(|dir| dir != "/home/app");
        folders.extend(workdir.map(|dir| (dir, 0o755)));
        folders
    }
}

fn entry(path: &str, mode: u32, kind: testkit::layer::Kind) -> testkit::layer::Entry {
    let name = path.trim_start_matches('/').as_bytes().to_vec();
    testkit::layer::Entry { name, mode, kind }
}

/// Replaces the mark in the text by the statement, or removes it.
fn with_statement(text: &str, statement: Option<&str>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.trim() == HERE {
            let (indent, _) = line.split_once(HERE).unwrap();
            let added = statement.into_iter().flat_map(str::lines);
            lines.extend(added.map(|added| format!("{indent}{added}")));
        } else {
            lines.push(line.to_owned());
        }
    }
    joined(&lines)
}

/// Joins lines into a text.
pub fn joined<T: AsRef<str>>(lines: &[T]) -> String {
    lines.iter().flat_map(|line| [line.as_ref(), "\n"]).collect()
}

fn add_to_path(env: &mut Vec<(String, String)>) {
    match env.iter_mut().find(|(name, _)| name == "LD_LIBRARY_PATH") {
        Some((_, value)) => *value = format!("{ENVIRONMENT}:{value}"),
        None => env.push(("LD_LIBRARY_PATH".to_owned(), ENVIRONMENT.to_owned())),
    }
}
