//! Shared by all images: a small real Debian with the program, made once, as a folder and as a layer.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::layer::{Blob, Compression, Entry, Kind, Layer};

use crate::support;

/// The program that the command finally starts.
pub const TRAIN: &str = "opt/app/bin/train";
/// The object that links the library if the program is a Python script.
pub const TORCH: &str = "usr/local/lib/python3.11/dist-packages/torch/lib/libtorch_cpu.so";
/// The package folder of Python.
pub const PACKAGES: &str = "/usr/local/lib/python3.11/dist-packages";
/// The folder in which the program writes its result.
pub const ANSWERS: &str = "var/log/train";

/// The programs of Debian's /usr/bin that scripts use.
const PROGRAMS: &str = "[ awk basename bash cat chgrp chmod chown cp cut dash date dirname dpkg echo egrep env expr \
    false find flock getent grep groups head hostname id ionice ln ls mawk mkdir mktemp mv nice nohup nproc printenv \
    printf pwd python3 python3.11 readlink realpath rm rmdir run-parts sed seq setpriv setsid sleep sort stat stdbuf \
    stty su tail taskset tee test timeout touch tr true tty uname uniq wc which whoami xargs";
/// Same for /usr/sbin.
const ADMIN: &str = "chroot ldconfig runuser usermod groupmod useradd service start-stop-daemon";
/// The configuration files of Debian's login programs and shells.
const SETTINGS: &str = "etc/alternatives etc/bash.bashrc etc/debian_version etc/environment etc/ld.so.conf \
    etc/ld.so.conf.d etc/login.defs etc/nsswitch.conf etc/pam.d etc/profile etc/profile.d etc/security etc/shells \
    etc/skel root usr/lib/os-release usr/lib/x86_64-linux-gnu/security usr/libexec/coreutils var/lib/dpkg/info \
    var/lib/dpkg/status";
/// The files that `import ctypes` needs; the rest of the standard library is part of the interpreter.
const PYTHON: &str = "usr/lib/python3.11/os.py usr/lib/python3.11/site.py \
    usr/lib/python3.11/types.py usr/lib/python3.11/struct.py usr/lib/python3.11/warnings.py \
    usr/lib/python3.11/encodings usr/lib/python3.11/ctypes \
    usr/lib/python3.11/lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so usr/lib/x86_64-linux-gnu/libffi.so.8";
/// The launchers that `launchers.c` replaces.
const LAUNCHERS: [&str; 6] = [
    "usr/bin/tini",
    "usr/bin/dumb-init",
    "usr/bin/numactl",
    "usr/local/bin/gosu",
    "usr/local/bin/su-exec",
    "usr/bin/s6-setuidgid",
];
const FOLDERS: [(&str, u32); 16] = [
    ("dev", 0o755),
    ("home/app", 0o755),
    ("home/svc", 0o755),
    ("media", 0o755),
    ("mnt", 0o755),
    ("opt", 0o755),
    ("proc", 0o555),
    ("root", 0o700),
    ("run", 0o755),
    ("srv", 0o755),
    ("sys", 0o755),
    ("tmp", 0o1777),
    ("usr/lib64", 0o755),
    ("usr/local/lib", 0o755),
    ("var/tmp", 0o1777),
    (ANSWERS, 0o1777),
];
const LINKS: [(&str, &str); 8] = [
    ("bin", "usr/bin"),
    ("sbin", "usr/sbin"),
    ("lib", "usr/lib"),
    ("lib64", "usr/lib64"),
    ("usr/bin/sh", "dash"),
    (
        "usr/lib64/ld-linux-x86-64.so.2",
        "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
    ),
    ("etc/os-release", "../usr/lib/os-release"),
    ("var/run", "/run"),
];
const ACCOUNTS: [(&str, u32, &str); 3] = [
    (
        "etc/passwd",
        0o644,
        "root:x:0:0:root:/root:/bin/bash\napp:x:1000:1000::/home/app:/bin/bash\nsvc:x:1001:1001::/home/svc:/bin/sh\n",
    ),
    (
        "etc/group",
        0o644,
        "root:x:0:\nusers:x:100:\napp:x:1000:\nsvc:x:1001:\n",
    ),
    (
        "etc/shadow",
        0o640,
        "root:*:19000:0:99999:7:::\napp:*:19000:0:99999:7:::\nsvc:*:19000:0:99999:7:::\n",
    ),
];

/// The lowest layer of every image, and files that only some images get.
pub struct Base {
    folder: tempfile::TempDir,
    /// The layer's blob.
    pub blob: Blob,
    /// The library.
    pub library: Vec<u8>,
    /// A variant of the program that links the library instead of opening it.
    pub linked: Vec<u8>,
    /// A Python package shaped like PyTorch, whose library links CUPTI. Paths are relative to the package folder.
    pub package: Vec<(&'static str, Vec<u8>)>,
}

impl Base {
    /// Makes the base. If a part is missing, prints that and returns `None`.
    pub fn new() -> Option<Self> {
        let debian = support::part("bookworm")?;
        let programs = [
            ("gcc", "gcc"),
            ("dash", "dash"),
            ("bash", "bash"),
            ("unshare", "util-linux"),
        ];
        if !support::have_all(&programs) || !crate::session::is_allowed() {
            return None;
        }
        let folder = support::root_folder();
        let root = folder.path();
        fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
        make_skeleton(root);
        copy_debian(&debian, root);
        let objects = Objects::new();
        let library = objects.shared("libcupti.so.12", "library.c", &[]);
        let linked = objects.compile("linked", "train.c", &["-DLINKED", library.to_str().unwrap()]);
        let opens = objects.compile("train", "train.c", &[]);
        place(root, TRAIN, &fs::read(opens).unwrap(), 0o755);
        let launchers = fs::read(objects.compile("launchers", "launchers.c", &[])).unwrap();
        for path in LAUNCHERS {
            place(root, path, &launchers, 0o755);
        }
        succeed(Command::new("chroot").arg(root).arg("/sbin/ldconfig"));
        let blob = tree_layer(root).blob(Compression::Gzip);
        make_devices(root);
        Some(Self {
            blob,
            linked: fs::read(linked).unwrap(),
            package: objects.package(&library),
            library: fs::read(library).unwrap(),
            folder,
        })
    }

    /// Maps a path in the base to this machine.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join(inside)
    }

    /// A new root with the base's files.
    pub fn root(&self) -> tempfile::TempDir {
        let root = support::root_folder();
        copy_tree(self.folder.path(), root.path(), true);
        root
    }
}

fn make_skeleton(root: &Path) {
    for (path, mode) in FOLDERS {
        fs::create_dir_all(root.join(path)).unwrap();
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir_all(root.join("usr/bin")).unwrap();
    fs::create_dir_all(root.join("etc")).unwrap();
    for (path, target) in LINKS {
        symlink(target, root.join(path)).unwrap();
    }
    for (path, mode, text) in ACCOUNTS {
        place(root, path, text.as_bytes(), mode);
    }
}

/// Copies programs, their libraries, and configuration files.
fn copy_debian(debian: &Path, root: &Path) {
    let mut programs: Vec<String> = PROGRAMS
        .split_whitespace()
        .map(|name| format!("usr/bin/{name}"))
        .collect();
    programs.extend(ADMIN.split_whitespace().map(|name| format!("usr/sbin/{name}")));
    programs.retain(|path| fs::symlink_metadata(debian.join(path)).is_ok());
    let mut list = Command::new("chroot");
    list.arg(debian).args([
        "/bin/sh",
        "-c",
        "for f; do /lib64/ld-linux-x86-64.so.2 --list \"$f\" 2>/dev/null; done; true",
        "sh",
    ]);
    let all = programs.iter().map(|path| format!("/{path}"));
    let security = "usr/lib/x86_64-linux-gnu/security";
    let modules = fs::read_dir(debian.join(security)).unwrap();
    let modules = modules.map(|entry| format!("/{security}/{}", entry.unwrap().file_name().to_str().unwrap()));
    let output = list.args(all).args(modules).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let libraries: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.split(" => /").nth(1)?.split(' ').next())
        .collect();
    let libraries = libraries
        .into_iter()
        .map(|path| format!("usr/lib/{}", path.split("lib/").last().unwrap()));
    let fixed = [
        "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
        "usr/lib/x86_64-linux-gnu/libdl.so.2",
    ];
    let settings = SETTINGS
        .split_whitespace()
        .chain(PYTHON.split_whitespace())
        .filter(|path| fs::symlink_metadata(debian.join(path)).is_ok());
    let all = programs
        .into_iter()
        .chain(libraries)
        .chain(fixed.map(str::to_owned))
        .chain(settings.map(str::to_owned));
    for path in all {
        copy_path(debian, root, &path);
    }
}

/// Copies a file, a tree, or a link and its target.
fn copy_path(debian: &Path, root: &Path, path: &str) {
    let (from, to) = (debian.join(path), root.join(path));
    let facts = fs::symlink_metadata(&from).unwrap();
    if facts.is_dir() {
        fs::create_dir_all(&to).unwrap();
        return copy_tree(&from, &to, false);
    }
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    if to.symlink_metadata().is_ok() {
        return;
    }
    if facts.is_symlink() {
        let target = fs::read_link(&from).unwrap();
        symlink(&target, &to).unwrap();
        // One step is enough, because the lists contain the targets of Debian's alternatives.
        if let Some(name) = target.to_str().filter(|target| !target.contains('/')) {
            let beside = Path::new(path).with_file_name(name);
            copy_path(debian, root, beside.to_str().unwrap());
        }
    } else {
        fs::copy(from, to).unwrap();
    }
}

/// Copies a tree. With `shared`, files of `/usr` become hard links, because scripts never change them in place.
fn copy_tree(from: &Path, to: &Path, shared: bool) {
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            let _ = fs::create_dir(&to);
            copy_tree(&from, &to, shared);
        } else if kind.is_symlink() {
            symlink(fs::read_link(&from).unwrap(), &to).unwrap();
        } else if shared
            && !from
                .components()
                .any(|part| part.as_os_str() == "etc" || part.as_os_str() == "root")
        {
            fs::hard_link(&from, &to).unwrap();
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

/// Creates the device nodes and links that an engine mounts at `/dev`.
fn make_devices(root: &Path) {
    for (name, minor) in [("null", "3"), ("zero", "5"), ("urandom", "9")] {
        let path = root.join("dev").join(name);
        succeed(
            Command::new("mknod")
                .args(["-m", "666"])
                .arg(path)
                .args(["c", "1", minor]),
        );
    }
    let links = [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ];
    for (name, target) in links {
        symlink(target, root.join("dev").join(name)).unwrap();
    }
}

/// The folder of the compiled objects.
struct Objects(tempfile::TempDir);

impl Objects {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn compile(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/commands");
        let to = self.0.path().join(name);
        let mut compiler = Command::new("gcc");
        succeed(compiler.arg("-o").arg(&to).arg(sources.join(source)).args(options));
        to
    }

    fn shared(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let soname = format!("-Wl,-soname,{name}");
        let usual = ["-shared", "-fPIC", "-Wl,--no-as-needed", &soname];
        self.compile(name, source, &[&usual, options].concat())
    }

    fn package(&self, library: &Path) -> Vec<(&'static str, Vec<u8>)> {
        let uses = self.shared("libtorch_cpu.so", "empty.c", &[library.to_str().unwrap()]);
        let options = [uses.to_str().unwrap(), "-Wl,-rpath,$ORIGIN/lib"];
        let extension = self.shared("_C.cpython-311-x86_64-linux-gnu.so", "empty.c", &options);
        let first = self.shared("libtorch_global_deps.so", "empty.c", &[]);
        vec![
            ("torch/__init__.py", include_bytes!("torch.py").to_vec()),
            ("torch/version.py", b"__version__ = '2.4.1'\n".to_vec()),
            ("torch/lib/libtorch_global_deps.so", fs::read(first).unwrap()),
            ("torch/lib/libtorch_cpu.so", fs::read(uses).unwrap()),
            ("torch/_C.cpython-311-x86_64-linux-gnu.so", fs::read(extension).unwrap()),
            (
                "torch-2.4.1.dist-info/METADATA",
                b"Metadata-Version: 2.1\nName: torch\nVersion: 2.4.1\n".to_vec(),
            ),
            (
                "torch-2.4.1.dist-info/RECORD",
                b"torch/__init__.py,,\ntorch/lib/libtorch_cpu.so,,\ntorch-2.4.1.dist-info/RECORD,,\n".to_vec(),
            ),
        ]
    }
}

/// Writes a file and creates its parent folders.
pub fn place(root: &Path, path: &str, bytes: &[u8], mode: u32) {
    let to = root.join(path.trim_start_matches('/'));
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    // An existing file may be a shared hard link.
    let _ = fs::remove_file(&to);
    fs::write(&to, bytes).unwrap();
    fs::set_permissions(&to, fs::Permissions::from_mode(mode)).unwrap();
}

fn tree_layer(root: &Path) -> Layer {
    let mut layer = Layer::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(below) = pending.pop() {
        let mut names: Vec<_> = fs::read_dir(root.join(&below))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        for name in names {
            let path = below.join(name);
            let at = root.join(&path);
            let facts = fs::symlink_metadata(&at).unwrap();
            let kind = if facts.is_dir() {
                pending.push(path.clone());
                Kind::Directory
            } else if facts.is_symlink() {
                Kind::Symlink(fs::read_link(&at).unwrap().into_os_string().into_encoded_bytes())
            } else {
                Kind::File(fs::read(&at).unwrap())
            };
            let name = path.into_os_string().into_encoded_bytes();
            layer = layer.entry(Entry {
                name,
                mode: facts.mode() & 0o7777,
                kind,
            });
        }
    }
    layer
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
