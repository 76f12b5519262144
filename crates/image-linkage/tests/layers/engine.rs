//! Does an engine unpack the same files from odd headers, and refuse the same layers?
//!
//! The judge is umoci, which reads tars with Go's archive/tar as Docker, containerd and Podman do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use image_linkage::layer::{LayerEntry, ProblemKind};
use testkit::layer::{Blob, Compression, sha256};
use testkit::oci::{Image, Layout};
use testkit::parts;

use crate::index;
use crate::raw::{Header, Tar, record};

/// A layer with a file `a` after extension headers.
fn before_file(extensions: Tar) -> Vec<u8> {
    extensions.file("a", b"x").end()
}

fn pax(key: &str, value: &str) -> Vec<u8> {
    before_file(Tar::new().pax(&[(key, value)]))
}

/// A layer with a GNU header for the file `x` after long names.
fn gnu(long: &[(u8, &[u8])], kind: u8) -> Vec<u8> {
    let names = long.iter().fold(Tar::new(), |tar, (kind, name)| tar.long(*kind, name));
    names.raw(&Header::new(b"x", kind, 0).gnu().link(b"y"), b"").end()
}

fn layers() -> Vec<(&'static str, Vec<u8>)> {
    let file = || Tar::new().file("a", b"x");
    let both = Tar::new().pax(&[("path", "one")]).long(b'L', b"two");
    let prefix = Header::new(b"name", b'0', 0).gnu().set(345, b"the/prefix");
    let global = Tar::new().member("g", b'g', &record(b"path", b"a\0"));
    vec![
        ("a prefix in GNU format", Tar::new().raw(&prefix, b"").end()),
        ("a NUL in a long name", gnu(&[(b'L', b"one\0two")], b'0')),
        ("a NUL in a long link target", gnu(&[(b'K', b"one\0two")], b'2')),
        ("an empty long name", gnu(&[(b'L', b"")], b'0')),
        ("two long names", gnu(&[(b'L', b"one"), (b'L', b"two")], b'0')),
        (
            "two PAX headers",
            before_file(Tar::new().pax(&[("path", "one")]).pax(&[("gname", "b")])),
        ),
        ("a PAX path and a long name", before_file(both)),
        ("an empty PAX path", pax("path", "")),
        ("a last PAX header", file().pax(&[("path", "b")]).end()),
        ("a last long name", file().long(b'L', b"b").end()),
        ("a time before 1970", pax("mtime", "-1.5")),
        ("a time that is no number", pax("mtime", "yesterday")),
        ("an owner that is no number", pax("uid", "nobody")),
        ("an owner of more than 32 bits", pax("uid", "99999999999")),
        ("a NUL in a PAX path", pax("path", "b\0c")),
        ("a NUL in a PAX link target", pax("linkpath", "b\0c")),
        ("a NUL in a user name", pax("uname", "b\0c")),
        ("a NUL in a group name", pax("gname", "b\0c")),
        ("a NUL in a comment", pax("comment", "b\0c")),
        ("a NUL in a key", pax("com\0ment", "b")),
        ("a NUL in a global record", before_file(global)),
        ("a file below a file", file().file("a/x", b"").end()),
        ("a directory below a file", file().member("a/x/", b'5', b"").end()),
        (
            "a directory in place of a file",
            file().member("a/", b'5', b"").file("a/x", b"").end(),
        ),
        (
            "a file in place of a directory",
            Tar::new().file("a/x", b"").file("a", b"").end(),
        ),
        ("a name for a directory on a file", pax("path", "d/")),
    ]
}

#[test]
fn odd_headers_are_read_and_refused_as_by_an_engine() {
    if !parts::have("umoci", "umoci") || !parts::is_root() {
        return;
    }
    let all = layers();
    let ours: Vec<_> = all.iter().map(|(what, tar)| (what, ours(tar))).collect();
    let real: Vec<_> = all.iter().map(|(what, tar)| (what, unpacked(tar))).collect();
    assert_eq!(ours, real);
    let refused = real.iter().filter(|(_, paths)| paths.is_none()).count();
    println!(
        "{} layers with odd headers are read as by umoci, {refused} of them refused",
        real.len()
    );
}

/// The paths of a layer without implicit directories; `None` if no engine takes it.
fn ours(tar: &[u8]) -> Option<Vec<String>> {
    let layer = index(tar).ok()?;
    let is_refused = layer
        .problems
        .iter()
        .any(|problem| problem.kind == ProblemKind::Refused);
    let name = |(path, entry): (_, &LayerEntry)| match entry {
        LayerEntry::Directory(..) => None,
        LayerEntry::Symlink(target) => Some(format!("{path} -> {}", target.escape_ascii())),
        _ => Some(format!("{path}")),
    };
    let mut paths: Vec<String> = layer.entries.iter().filter_map(name).collect();
    paths.sort();
    (!is_refused).then_some(paths)
}

/// The same from umoci.
fn unpacked(tar: &[u8]) -> Option<Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let blob = Blob {
        bytes: tar.to_vec(),
        digest: sha256(tar),
        diff_id: sha256(tar),
        compression: Compression::None,
    };
    let mut layout = Layout::new();
    layout.add("t", &[Image::new("linux/amd64").blob("", blob)]);
    let at = |name: &str| dir.path().join(name);
    layout.write_to(&at("layout")).unwrap();
    let image = format!("{}:t", at("layout").display());
    let unpack = Command::new("umoci")
        .args(["unpack", "--image", &image])
        .arg(at("bundle"))
        .output();
    let root = at("bundle/rootfs");
    unpack.unwrap().status.success().then(|| {
        let mut paths = files_below(&root);
        paths.sort();
        let shown = |path: PathBuf| {
            let name = format!("/{}", path.strip_prefix(&root).unwrap().display());
            fs::read_link(&path).map_or(name.clone(), |target| format!("{name} -> {}", target.display()))
        };
        paths.into_iter().map(shown).collect()
    })
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let below = |entry: fs::DirEntry| {
        if entry.file_type().unwrap().is_dir() {
            files_below(&entry.path())
        } else {
            vec![entry.path()]
        }
    };
    entries.flat_map(below).collect()
}
