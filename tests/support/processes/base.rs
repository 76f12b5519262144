//! The lowest layers of generated images: the parts of a Debian that start programs, without and with those of Python.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

use testkit::layer::{Blob, Compression, sha256};

use super::layers::{Member, MemberKind, tar, unpack};
use super::users::{GROUP, PASSWD};
use crate::support;

/// The files of the base without Python.
const FILES: [&str; 9] = [
    "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
    "usr/lib/x86_64-linux-gnu/libc.so.6",
    "usr/lib/x86_64-linux-gnu/libm.so.6",
    "usr/lib/x86_64-linux-gnu/libdl.so.2",
    "usr/lib/x86_64-linux-gnu/libgcc_s.so.1",
    "usr/bin/dash",
    "usr/bin/env",
    "usr/bin/setpriv",
    "usr/lib/x86_64-linux-gnu/libcap-ng.so.0",
];
/// The files that `import ctypes` needs; the rest is part of the interpreter.
const PYTHON: [&str; 17] = [
    "usr/bin/python3.11",
    "usr/lib/x86_64-linux-gnu/libz.so.1",
    "usr/lib/x86_64-linux-gnu/libexpat.so.1",
    "usr/lib/x86_64-linux-gnu/libffi.so.8",
    "usr/lib/python3.11/os.py",
    "usr/lib/python3.11/site.py",
    "usr/lib/python3.11/types.py",
    "usr/lib/python3.11/struct.py",
    "usr/lib/python3.11/warnings.py",
    "usr/lib/python3.11/encodings/__init__.py",
    "usr/lib/python3.11/encodings/aliases.py",
    "usr/lib/python3.11/encodings/utf_8.py",
    "usr/lib/python3.11/encodings/ascii.py",
    "usr/lib/python3.11/encodings/latin_1.py",
    "usr/lib/python3.11/ctypes/__init__.py",
    "usr/lib/python3.11/ctypes/_endian.py",
    "usr/lib/python3.11/lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so",
];
const FOLDERS: [(&str, u32, (u32, u32)); 12] = [
    ("dev", 0o755, (0, 0)),
    ("etc/ld.so.conf.d", 0o755, (0, 0)),
    ("home/app", 0o755, (1000, 1000)),
    ("home/svc", 0o700, (1001, 1001)),
    ("opt", 0o755, (0, 0)),
    ("proc", 0o755, (0, 0)),
    ("root", 0o700, (0, 0)),
    ("srv", 0o755, (0, 0)),
    ("sys", 0o755, (0, 0)),
    ("tmp", 0o1777, (0, 0)),
    ("usr/lib64", 0o755, (0, 0)),
    ("usr/local/lib", 0o755, (0, 0)),
];
const LINKS: [(&str, &str); 8] = [
    ("bin", "usr/bin"),
    ("lib", "usr/lib"),
    ("lib64", "usr/lib64"),
    ("usr/bin/sh", "dash"),
    (
        "usr/lib64/ld-linux-x86-64.so.2",
        "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
    ),
    ("usr/bin/python3", "python3.11"),
    ("usr/lib/python3/dist-packages/.keep", "nothing"),
    ("usr/local/lib/python3.11/dist-packages/.keep", "nothing"),
];

/// A lowest layer, in a folder and as a blob.
pub struct Base {
    folder: tempfile::TempDir,
    /// The blob, which is not compressed.
    pub blob: Blob,
}

impl Base {
    /// Copies the files from the Debian. Without a Debian, prints that and returns `None`.
    pub fn new(python: bool) -> Option<Self> {
        let debian = support::part("bookworm")?;
        let members = members(&debian, python);
        let folder = support::root_folder();
        // Users other than root must be able to search it.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        unpack(&members, folder.path());
        let bytes = tar(&members);
        let digest = sha256(&bytes);
        let blob = Blob {
            diff_id: digest.clone(),
            digest,
            bytes,
            compression: Compression::None,
        };
        Some(Self { folder, blob })
    }

    /// The path of a base file on this machine.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join(inside.trim_start_matches('/'))
    }

    /// A new root with hard links to the base's files.
    pub fn root(&self) -> tempfile::TempDir {
        let root = support::root_folder();
        link_tree(self.folder.path(), root.path());
        root
    }
}

fn link_tree(from: &Path, to: &Path) {
    let facts = fs::metadata(from).unwrap();
    lchown(to, Some(facts.uid()), Some(facts.gid())).unwrap();
    fs::set_permissions(to, facts.permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            fs::create_dir(&to).unwrap();
            link_tree(&from, &to);
        } else if kind.is_symlink() {
            symlink(fs::read_link(&from).unwrap(), &to).unwrap();
        } else {
            fs::hard_link(&from, &to).unwrap();
        }
    }
}

fn members(debian: &Path, python: bool) -> Vec<Member> {
    let mut made = Vec::new();
    let mut add = |path: &str, mode, owner, kind| {
        let mut folders: Vec<Member> = path
            .match_indices('/')
            .map(|(at, _)| member(&path[..at], 0o755, (0, 0), MemberKind::Dir))
            .collect();
        folders.retain(|folder| !made.iter().any(|member: &Member| member.path == folder.path));
        made.append(&mut folders);
        made.push(member(path, mode, owner, kind));
    };
    for (path, mode, owner) in FOLDERS {
        add(path, mode, owner, MemberKind::Dir);
    }
    for (path, target) in LINKS {
        if python || !path.contains("python") {
            add(path, 0o777, (0, 0), MemberKind::Symlink(target.to_owned()));
        }
    }
    let files = FILES.iter().chain(PYTHON.iter().filter(|_| python));
    for path in files {
        let bytes = fs::read(debian.join(path)).unwrap();
        let permissions = if path.starts_with("usr/lib/python3") {
            0o644
        } else {
            0o755
        };
        add(path, permissions, (0, 0), MemberKind::File(bytes));
    }
    for (path, text) in [("etc/passwd", PASSWD), ("etc/group", GROUP)] {
        add(path, 0o644, (0, 0), MemberKind::File(text.as_bytes().to_vec()));
    }
    made
}

fn member(path: &str, mode: u32, owner: (u32, u32), kind: MemberKind) -> Member {
    Member {
        path: path.to_owned(),
        mode,
        owner,
        capability: None,
        access_list: None,
        kind,
    }
}
