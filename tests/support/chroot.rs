//! An image in two forms: layers for the audit, and a root file system for the real loader.

use cupti_audit::knowledge::file_interest::cupti_options;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use image_linkage::layer::{self, ExpectedBlob, LayerIndex};
use tempfile::TempDir;
use testkit::layer::{Entry, Kind, Layer};

use crate::support;

/// A Debian 12 with layers on top of it.
pub struct Root {
    folder: TempDir,
    /// The indexes of the Debian and of the layers above it.
    pub layers: Vec<LayerIndex>,
}

/// The result of the real loader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It opened the object.
    Opened {
        /// The path of the object.
        path: String,
        /// The paths of the loaded objects in load order, without the program, its C library and the loader.
        objects: Vec<String>,
    },
    /// It refused with this message.
    Failed(String),
    /// The process died from this signal.
    Died(i32),
}

/// The lowest layer, indexed once for all images.
static DEBIAN: LazyLock<LayerIndex> = LazyLock::new(|| {
    let tar = File::open(support::parts().join("bookworm.tar")).unwrap();
    layer::index_layer("debian", tar, &ExpectedBlob::default(), &cupti_options()).unwrap()
});

/// The folders that the loader, ldconfig, dpkg and Python need; copying the rest would take time.
const COPIED: [&str; 15] = [
    "bin",
    "dev",
    "etc",
    "lib",
    "lib64",
    "proc",
    "sbin",
    "tmp",
    "usr/bin",
    "usr/lib",
    "usr/lib64",
    "usr/sbin",
    "usr/share/dpkg",
    "var/cache/ldconfig",
    "var/lib/dpkg",
];

impl Root {
    /// The plain Debian with the program `probe`, which is in no layer.
    pub fn new(probe: &[u8]) -> Self {
        let folder = support::root_folder();
        let root = Self {
            folder,
            layers: vec![DEBIAN.clone()],
        };
        // Hard links are as fast as a listing. Files are replaced, never written in place, so the original stays
        // intact.
        std::fs::create_dir(root.path("")).unwrap();
        let mut copy = Command::new("cp");
        copy.current_dir(support::debian()).args(["-al", "--parents"]);
        succeed(copy.args(COPIED).arg(root.path("")));
        // A hard-linked lock would be shared by all copies.
        for lock in ["lock", "lock-frontend", "triggers/Lock"] {
            let _ = std::fs::remove_file(root.path("var/lib/dpkg").join(lock));
        }
        let probe = Layer::new().executable("probe", probe);
        root.unpack(&probe);
        root
    }

    /// Maps a path in the root file system to this machine.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join("root").join(inside.trim_start_matches('/'))
    }

    /// Adds a layer.
    pub fn add(&mut self, layer: &Layer) {
        self.unpack(layer);
        self.index(layer);
    }

    /// Runs a program of the root file system, and adds its changes as a layer.
    pub fn run(&mut self, words: &[&str]) {
        let before = snapshot(&self.path(""));
        succeed(&mut self.command(words));
        let after = snapshot(&self.path(""));
        self.index(&self.difference(&before, &after));
    }

    /// A command for a program of the root file system, with an empty environment.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("chroot");
        command
            .arg(self.path(""))
            .args(["/usr/bin/env", "-i"])
            .args(words)
            .stdin(Stdio::null());
        command
    }

    /// A command for a program whose loader the test examines. The loader resolves a program's `$ORIGIN` from
    /// `/proc/self/exe`; /proc is not mounted, so a plain link replaces it.
    pub fn asked(&self, program: &str, words: &[&str]) -> Command {
        let own = self.path("proc/self");
        std::fs::create_dir_all(&own).unwrap();
        let exe = own.join("exe");
        let _ = std::fs::remove_file(&exe);
        std::os::unix::fs::symlink(program, exe).unwrap();
        self.command(words)
    }

    /// Copies a file of this machine into the root file system but into no layer, like a mount.
    pub fn lend(&self, file: &Path, inside: &str) {
        std::fs::copy(file, self.path(inside)).unwrap();
    }

    fn index(&mut self, layer: &Layer) {
        let tar = layer.tar();
        let index = layer::index_layer("added", &*tar, &ExpectedBlob::default(), &cupti_options()).unwrap();
        self.layers.push(index);
    }

    /// Applies a layer with tar and rm.
    fn unpack(&self, layer: &Layer) {
        let gone = layer.entries().iter().filter_map(|entry| {
            let name = std::str::from_utf8(&entry.name).unwrap();
            let (folder, base) = name.rsplit_once('/').unwrap_or(("", name));
            match base.strip_prefix(".wh.")? {
                ".wh..opq" => Some(folder.to_owned()),
                base => Some(format!("{folder}/{base}")),
            }
        });
        for path in gone {
            succeed(Command::new("rm").arg("-r").arg(self.path(&path)));
        }
        let mut tar = Command::new("tar")
            .arg("-C")
            .arg(self.path(""))
            .args(["-x", "--keep-directory-symlink", "--exclude=.wh.*", "-f-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        tar.stdin.take().unwrap().write_all(&layer.tar()).unwrap();
        assert!(tar.wait().unwrap().success(), "tar unpacks the layer");
    }

    fn difference(&self, before: &Snapshot, after: &Snapshot) -> Layer {
        let mut layer = Layer::new();
        for path in before.keys().filter(|path| !after.contains_key(*path)) {
            layer = layer.whiteout(path.as_os_str().as_encoded_bytes());
        }
        for path in after.keys().filter(|path| before.get(*path) != after.get(*path)) {
            layer = layer.entry(entry(&self.path(""), path));
        }
        layer
    }
}

/// Parses a probe's output.
pub fn answer(output: &Output) -> Answer {
    if let Some(signal) = output.status.signal() {
        return Answer::Died(signal);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines().map(str::to_owned);
    let first = lines.next().unwrap_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        // The loader prefixes errors before the program starts with the program's name.
        let said = said.trim_end().lines().last().unwrap_or_default();
        let words = said.split_once("error while loading shared libraries: ");
        words.map_or(said, |(_, words)| words).to_owned()
    });
    if output.status.success() {
        let objects = lines.filter(|path| !is_of_every_process(path)).collect();
        Answer::Opened { path: first, objects }
    } else {
        Answer::Failed(first)
    }
}

/// Whether every process has the object: the C library, the loader, the vDSO, the program.
pub fn is_of_every_process(path: &str) -> bool {
    path.is_empty()
        || ["linux-vdso.so.1", "/libc.so.6", "/ld-linux-x86-64.so.2"]
            .iter()
            .any(|name| path.ends_with(name))
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
}

/// The attributes that show a change of a path. Only the existence of a folder counts.
type Snapshot = BTreeMap<PathBuf, Option<(u64, i64, i64, u64)>>;

fn snapshot(root: &Path) -> Snapshot {
    let mut found = Snapshot::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(below) = pending.pop() {
        for entry in std::fs::read_dir(root.join(&below)).unwrap() {
            let entry = entry.unwrap();
            let path = below.join(entry.file_name());
            let facts = entry.metadata().unwrap();
            if facts.is_dir() {
                pending.push(path.clone());
                found.insert(path, None);
            } else {
                let mark = (facts.ino(), facts.mtime(), facts.mtime_nsec(), facts.size());
                found.insert(path, Some(mark));
            }
        }
    }
    found
}

fn entry(root: &Path, path: &Path) -> Entry {
    let at = root.join(path);
    let facts = std::fs::symlink_metadata(&at).unwrap();
    let kind = match () {
        () if facts.is_dir() => Kind::Directory,
        () if facts.is_symlink() => {
            let target = std::fs::read_link(&at).unwrap();
            Kind::Symlink(target.into_os_string().into_encoded_bytes())
        }
        () => Kind::File(std::fs::read(&at).unwrap()),
    };
    Entry {
        name: path.as_os_str().as_encoded_bytes().to_vec(),
        mode: facts.mode() & 0o7777,
        kind,
    }
}
