//! Reads small layers, each with one question: the files in `testdata/layers`. umoci, which reads tars with Go's
//! archive/tar as Docker, containerd and Podman do, unpacks the same layers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use image_linkage::layer::{LayerIndex, ProblemKind};
use image_linkage::limits::Limits;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{self, NodeKind, Rootfs};
use indexmap::IndexMap;
use serde::Deserialize;
use testkit::layer::{Blob, Compression, sha256};
use testkit::oci::{Image, Layout};
use testkit::parallel::in_parallel;
use testkit::parts;
use testkit::seeds::is_asked;
use testkit::spec::unescape;

use crate::raw::{Header, Tar, record};
use crate::{index_with, lines, tree};

/// Layers, and what they contain. In its texts, `\xNN` is a byte, `{COUNT*TEXT}` a repeated text, and `{N}` the N-th
/// value of `each`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The case is asked once for each of these lists of values.
    #[serde(default = "once")]
    each: Vec<Vec<String>>,
    /// Limits by their names.
    #[serde(default)]
    limits: BTreeMap<String, u64>,
    /// The members of each layer, lowest layer first.
    layers: Vec<Vec<Member>>,
    /// The zeros behind the last member, if they are not the two blocks of an end marker; a negative number cuts it.
    end: Option<String>,
    /// A part of the error of the last layer.
    error: Option<String>,
    /// The [`lines`] of the last layer.
    reads: Option<Vec<String>>,
    /// The [`tree`] of all layers, then the problems of merging them.
    merges: Option<Vec<String>>,
    /// Paths that are looked up: the links on the way and the file, each with its layer, or the error.
    #[serde(default)]
    finds: IndexMap<String, String>,
    /// Paths that are removed from the last layer, and its [`lines`] then.
    #[serde(default)]
    removes: Vec<Removal>,
    /// Why umoci unpacks other files, or none.
    engine: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Removal {
    paths: Vec<String>,
    leaves: Vec<String>,
}

/// A member of a tar. One of the first fields says which.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Member {
    /// The names of members with a header.
    file: Option<String>,
    directory: Option<String>,
    symlink: Option<String>,
    hardlink: Option<String>,
    /// `KEY=VALUE` of a header before a member.
    pax: Option<Vec<String>>,
    /// The same of a global header.
    global: Option<Vec<String>>,
    /// The texts of GNU headers before a member.
    long_name: Option<String>,
    long_target: Option<String>,
    /// Zeros without a header.
    zeros: Option<usize>,
    /// The target of a link.
    to: String,
    /// The content.
    holds: String,
    /// A content that is a tar itself.
    tar: Vec<Member>,
    /// Fields of the header by the names of [`FIELDS`], overwritten in this order.
    set: IndexMap<String, String>,
}

/// The offsets in a header.
const FIELDS: [(&str, usize); 17] = [
    ("mode", 100),
    ("uid", 108),
    ("gid", 116),
    ("size", 124),
    ("time", 136),
    ("checksum", 148),
    ("type", 156),
    ("magic", 257),
    ("version", 263),
    ("device", 329),
    ("prefix", 345),
    ("sparse-map", 386),
    ("star-time", 476),
    ("sparse-extended", 482),
    ("sparse-size", 483),
    ("signature", 508),
    ("name", 0),
];

fn once() -> Vec<Vec<String>> {
    vec![Vec::new()]
}

/// A text with the values of one variant and its repetitions, innermost first.
fn filled(text: &str, values: &[String]) -> String {
    let numbered = values.iter().enumerate();
    let mut text = numbered.fold(text.to_owned(), |text, (number, value)| {
        text.replace(&format!("{{{number}}}"), value)
    });
    while let Some(end) = text.find('}') {
        let start = text[..end].rfind('{').unwrap();
        let (count, repeated) = text[start + 1..end].split_once('*').unwrap();
        let repeated = repeated.repeat(count.parse().unwrap());
        text.replace_range(start..=end, &repeated);
    }
    text
}

fn tar(members: &[Member], values: &[String]) -> Tar {
    members.iter().fold(Tar::new(), |tar, member| member.add(tar, values))
}

impl Member {
    fn add(&self, tar: Tar, values: &[String]) -> Tar {
        let bytes = |text: &String| unescape(&filled(text, values)).unwrap();
        for (kind, records) in [(b'x', &self.pax), (b'g', &self.global)] {
            let Some(records) = records else { continue };
            let pairs = records.iter().map(|pair| {
                let pair = filled(pair, values);
                let (key, value) = pair.split_once('=').unwrap();
                record(&unescape(key).unwrap(), &unescape(value).unwrap())
            });
            return tar.member("PaxHeaders/x", kind, &pairs.collect::<Vec<_>>().concat());
        }
        for (kind, text) in [(b'L', &self.long_name), (b'K', &self.long_target)] {
            if let Some(text) = text {
                return tar.long(kind, &bytes(text));
            }
        }
        if let Some(count) = self.zeros {
            return tar.bytes(&vec![0; count]);
        }
        let kinds = [&self.file, &self.hardlink, &self.symlink, &self.directory].into_iter();
        let (kind, name) = kinds
            .zip(*b"0125")
            .find_map(|(name, kind)| Some((kind, name.as_ref()?)))
            .unwrap();
        let content = if self.tar.is_empty() {
            bytes(&self.holds)
        } else {
            self::tar(&self.tar, values).cut()
        };
        let header = Header::new(&bytes(name), kind, content.len()).link(&bytes(&self.to));
        let header = self.set.iter().fold(header, |header, (field, value)| {
            let field = filled(field, values);
            let offset = FIELDS.iter().find(|(known, _)| *known == field);
            header.set(offset.unwrap_or_else(|| panic!("{field}")).1, &bytes(value))
        });
        tar.raw(&header, &content)
    }
}

impl Case {
    /// The differences between expected and real results of a variant.
    fn differences(&self, values: &[String], engine: bool) -> Vec<String> {
        let end: isize = filled(self.end.as_deref().unwrap_or("1024"), values).parse().unwrap();
        let ended = |members: &Vec<Member>| {
            let mut tar = tar(members, values).cut();
            tar.resize(tar.len().strict_add_signed(end), 0);
            tar
        };
        let tars: Vec<Vec<u8>> = self.layers.iter().map(ended).collect();
        let mut limits = Limits::default();
        for (name, value) in &self.limits {
            assert!(limits.set(name, *value), "{name}");
        }
        let layers: Result<Vec<LayerIndex>, String> = tars.iter().map(|tar| index_with(tar, &limits)).collect();
        let mut found = Vec::new();
        let mut compare = |what: &str, expected: &[String], real: &[String]| {
            let expected: Vec<String> = expected.iter().map(|line| filled(line, values)).collect();
            if expected != real {
                found.push(format!("{what}: expected {expected:#?}, found {real:#?}"));
            }
        };
        let error = layers
            .as_ref()
            .err()
            .map(|error| error.strip_prefix("layer L: ").unwrap().to_owned());
        match (&error, &self.error) {
            (None, None) => {}
            (Some(error), Some(part)) if error.contains(part) => {}
            _ => compare("error", self.error.as_slice(), error.as_slice()),
        }
        let merged = layers.as_ref().ok().map(rootfs::merge_layers);
        if let (Ok(layers), Some((rootfs, problems))) = (&layers, &merged) {
            if let Some(expected) = &self.reads {
                compare("reads", expected, &lines(layers.last().unwrap()));
            }
            if let Some(expected) = &self.merges {
                let problems = problems
                    .iter()
                    .map(|problem| format!("? {}: {}", problem.path, problem.what));
                compare(
                    "merges",
                    expected,
                    &tree(rootfs).into_iter().chain(problems).collect::<Vec<_>>(),
                );
            }
            for (path, expected) in &self.finds {
                compare(
                    path,
                    std::slice::from_ref(expected),
                    &[looked_up(rootfs, &filled(path, values))],
                );
            }
            for Removal { paths, leaves } in &self.removes {
                let paths: Vec<String> = paths.iter().map(|path| filled(path, values)).collect();
                let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
                let left = crate::rewritten_layers::cut(tars.last().unwrap(), &paths);
                compare("leaves", leaves, &lines(&crate::index(&left).unwrap()));
            }
        }
        if engine && self.limits.is_empty() {
            let refused = |layer: &LayerIndex| {
                layer
                    .problems
                    .iter()
                    .any(|problem| problem.kind == ProblemKind::Refused)
            };
            let accepted = layers.is_ok_and(|layers| !layers.iter().any(refused));
            let ours = merged.filter(|_| accepted).map(|(rootfs, _)| files(&rootfs));
            found.extend(self.engine_difference(ours.as_deref(), unpacked(&tars).as_deref()));
        }
        found
    }

    /// Why two lists of files are not as equal or different as expected.
    fn engine_difference(&self, ours: Option<&[String]>, engine: Option<&[String]>) -> Option<String> {
        ((ours == engine) == self.engine.is_some()).then(|| format!("ours {ours:#?}, of umoci {engine:#?}"))
    }
}

/// The links on the way to a path and the file, each with its layer, or the error.
fn looked_up(rootfs: &Rootfs, path: &str) -> String {
    let found = match rootfs.lookup(path.as_bytes()) {
        Ok(found) => found,
        Err(error) => return error.to_string(),
    };
    let links = found
        .links
        .iter()
        .map(|link| (rootfs.lookup_link(link.as_bytes()).unwrap().node, link));
    let way = links.chain([(found.node, &found.path)]);
    let way: Vec<String> = way
        .map(|(node, path)| format!("{} {path}", rootfs.node(node).layer))
        .collect();
    way.join(", ")
}

/// The paths of a file system without directories.
fn files(rootfs: &Rootfs) -> Vec<String> {
    let mut files = Vec::new();
    rootfs.visit(|path, _, node| match &node.kind {
        NodeKind::Directory(_) => {}
        NodeKind::Symlink(target) => files.push(format!("{path} -> {}", target.escape_ascii())),
        _ => files.push(path.to_string()),
    });
    files.sort();
    files
}

/// The same from umoci; `None` if it refuses the image.
fn unpacked(tars: &[Vec<u8>]) -> Option<Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let image = tars.iter().fold(Image::new("linux/amd64"), |image, tar| {
        let digest = sha256(tar);
        image.blob(
            "",
            Blob {
                bytes: tar.clone(),
                diff_id: digest.clone(),
                digest,
                compression: Compression::None,
            },
        )
    });
    let mut layout = Layout::new();
    layout.add("t", &[image]);
    let at = |name: &str| dir.path().join(name);
    layout.write_to(&at("layout")).unwrap();
    let reference = format!("{}:t", at("layout").display());
    let unpack = Command::new("umoci")
        .args(["unpack", "--image", &reference])
        .arg(at("bundle"))
        .output();
    let root = at("bundle/rootfs");
    unpack.unwrap().status.success().then(|| {
        let shown = |path: PathBuf| {
            let name = RootPath::new(path.strip_prefix(&root).unwrap().as_os_str().as_encoded_bytes());
            let target = fs::read_link(&path);
            target.map_or(name.to_string(), |target| {
                format!("{name} -> {}", target.as_os_str().as_encoded_bytes().escape_ascii())
            })
        };
        let mut files: Vec<String> = files_below(&root).into_iter().map(shown).collect();
        files.sort();
        files
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

#[test]
fn each_layer_is_read_as_expected_and_as_by_an_engine() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/layers");
    let engine = parts::have("umoci", "umoci") && parts::is_root();
    let read = |path: &Path| -> IndexMap<String, Case> {
        serde_saphyr::from_str(&fs::read_to_string(path).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|file| read(&file.unwrap().path()))
        .collect();
    let cases = files
        .iter()
        .flatten()
        .filter(|(name, _)| is_asked(name))
        .flat_map(|(name, case)| case.each.iter().map(move |values| (name, case, values)));
    let cases: Vec<_> = cases.collect();
    let failures = in_parallel(cases.len(), |number| {
        let (name, case, values) = cases[number];
        let found = case.differences(values, engine).join("\n  ");
        (!found.is_empty()).then(|| format!("{name} {values:?}\n  {found}"))
    });
    let failures: Vec<String> = failures.into_iter().flatten().collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    if engine {
        println!("{} layers are read as by umoci", cases.len());
    }
}
