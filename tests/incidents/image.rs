//! An image in two forms: layers mounted with overlayfs, and an OCI layout for the audit.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use testkit::layer::{Entry, Kind, Layer};

use crate::kit::{Kit, SharedLayer, digest};

/// Mounts in a private mount namespace, which ends with the program.
const MOUNTS: &str = "root=$1; lent=$2; options=$3; shift 3
mount -t overlay overlay -o \"$options\" \"$root\" || exit 125
mount -t proc proc \"$root/proc\" || exit 125
mount --bind \"$lent\" \"$root/mnt\" || exit 125
if [ -n \"$HOST\" ]; then
    mount --bind \"$HOST/dev\" \"$root/dev\" && mount --bind \"$HOST/proc/driver\" \"$root/proc/driver\" || exit 125
    for file in status net; do
        [ ! -e \"$HOST/proc/self/$file\" ] || mount --bind \"$HOST/proc/self/$file\" \"$root/proc/$$/$file\" || exit 125
    done
fi
exec \"$@\"";
/// COPY between two images: copies a file, or the content of a directory, to a path.
const COPY: &str = "set -e; to=$1/root; from=$2/root
mount -t overlay overlay -o \"$3\" \"$to\"
mount -t overlay overlay -o \"$4\" \"$from\"
place=$5; shift 5
case $place in */) mkdir -p \"$to$place\" ;; *) mkdir -p \"$to${place%/*}\" ;; esac
for path; do
    if [ -d \"$from$path\" ]; then mkdir -p \"$to$place\"; cp -a \"$from$path/.\" \"$to$place\"; else cp -a \"$from$path\" \"$to$place\"; fi
done";
/// The extended attribute of overlayfs for a directory that hides the lower ones.
const OPAQUE: &str = "trusted.overlay.opaque";

/// How to start a program in the image.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The numeric user and group.
    pub user: u32,
    /// A directory with kernel files, which replace this machine's.
    pub host: Option<PathBuf>,
}

/// An image in its own directory.
pub struct Image<'kit> {
    kit: &'kit Kit,
    folder: PathBuf,
    /// The layers, lowest first.
    layers: Vec<SharedLayer>,
    /// The reference of the layout, once it is written.
    written: Option<String>,
    /// How to start programs, as in the config.
    pub start: Start,
    /// The command in the config.
    pub command: Vec<String>,
}

impl<'kit> Image<'kit> {
    /// An image of shared layers.
    pub fn new(kit: &'kit Kit, folder: PathBuf, from: &[String], start: Start, command: &[String]) -> Self {
        std::fs::create_dir_all(&folder).unwrap();
        let layers = from.iter().map(|name| kit.layer(name)).collect();
        Self {
            kit,
            folder,
            layers,
            written: None,
            start,
            command: command.to_vec(),
        }
    }

    /// A new image with the same layers, to which more can be added.
    pub fn branch(&self, name: &str) -> Self {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let layers = self.layers.iter().map(|layer| SharedLayer {
            tree: layer.tree.clone(),
            tar: layer.tar.clone(),
            digest: layer.digest.clone(),
        });
        Self {
            kit: self.kit,
            folder,
            layers: layers.collect(),
            written: None,
            start: self.start.clone(),
            command: self.command.clone(),
        }
    }

    /// The image's directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The same image with other layers of the kit and an empty environment.
    pub fn of_layers(mut self, names: &[&str]) -> Self {
        self.layers = names.iter().map(|name| self.kit.layer(name)).collect();
        self.start.env.clear();
        self
    }

    /// Copies paths from another image; the last path is the destination.
    ///
    /// Errors: the reason for a failed copy.
    pub fn copy(&mut self, from: &Self, paths: &[String]) -> Result<(), String> {
        if self.layers.is_empty() && paths == ["/", "/"] {
            self.layers = from.branch("whole").layers;
            return Ok(());
        }
        let number = self.layers.len();
        let folders = [
            self.folder.join(format!("layer-{number}")),
            self.folder.join("copied-from"),
        ];
        let [to, source] = &folders;
        let output = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", COPY, "sh"])
            .args([to, source])
            .args([self.mount_options(to), from.mount_options(source)])
            .args([paths.last().unwrap()])
            .args(paths.split_last().unwrap().1)
            .output()
            .unwrap();
        self.push(number, to.join("upper"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            Ok(())
        } else {
            Err(format!("not applied: COPY: {said}"))
        }
    }

    /// The image in a layout that was made from this one.
    pub fn made(&self, layout: &Path) -> Self {
        let read = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap();
            layout.join("blobs").join(digest.replace(':', "/"))
        };
        let document = |path: PathBuf| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
        let manifest = document(read(&document(layout.join("index.json"))["manifests"][0]));
        let config = document(read(&manifest["config"]));
        let mut made = self.branch("made");
        made.written = Some(format!("oci:{}", layout.display()));
        made.layers.clear();
        for (number, descriptor) in manifest["layers"].as_array().unwrap().iter().enumerate() {
            let digest = descriptor["digest"].as_str().unwrap().trim_start_matches("sha256:");
            let layer = self.layers.iter().find(|layer| layer.digest == digest);
            let tree = layer.map_or_else(
                || unpack(&read(descriptor), &made.folder.join(format!("tree-{number}"))),
                |layer| layer.tree.clone(),
            );
            made.layers.push(SharedLayer {
                tree,
                tar: read(descriptor),
                digest: digest.to_owned(),
            });
        }
        let pairs = config["config"]["Env"].as_array().into_iter().flatten();
        let pairs = pairs.filter_map(|pair| pair.as_str()?.split_once('='));
        made.start.env = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        made
    }

    /// Runs a program in the image and discards the files that it writes.
    pub fn ask(&self, words: &[String]) -> Output {
        let upper = tempfile::tempdir_in(&self.folder).unwrap();
        self.program(upper.path(), &self.start, words)
    }

    /// Runs a program in the image, and adds the files that it writes as a layer.
    pub fn add(&mut self, start: &Start, words: &[String]) -> Output {
        let number = self.layers.len();
        let upper = self.folder.join(format!("layer-{number}"));
        let output = self.program(&upper, start, words);
        self.push(number, upper.join("upper"));
        output
    }

    fn push(&mut self, number: usize, tree: PathBuf) {
        let bytes = pack(&tree).tar();
        let tar = self.folder.join(format!("layer-{number}.tar"));
        std::fs::write(&tar, &bytes).unwrap();
        self.layers.push(SharedLayer {
            tree,
            tar,
            digest: digest(&bytes),
        });
    }

    fn program(&self, folder: &Path, start: &Start, words: &[String]) -> Output {
        let options = self.mount_options(folder);
        let root = folder.join("root");
        let user = start.user.to_string();
        Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", MOUNTS, "sh"])
            .env("HOST", start.host.as_deref().unwrap_or(Path::new("")))
            .args([&root, &self.kit.path("lent")])
            .arg(options)
            .arg(self.kit.path("lent/bin/enter"))
            .arg(&root)
            .args([&user, &user, "/"])
            .args(start.env.iter().map(|(name, value)| format!("{name}={value}")))
            .args(words)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// The mount options: the image as lower layers, and a writable layer in this directory.
    fn mount_options(&self, folder: &Path) -> String {
        let [upper, work, root] = ["upper", "work", "root"].map(|name| folder.join(name));
        for made in [&upper, &work, &root] {
            std::fs::create_dir_all(made).unwrap();
        }
        let lower = self.layers.iter().rev().map(|layer| layer.tree.display().to_string());
        let lower = lower.collect::<Vec<_>>().join(":");
        format!(
            "lowerdir={lower},upperdir={},workdir={}",
            upper.display(),
            work.display()
        )
    }

    /// Writes the image as an OCI layout and returns its reference.
    pub fn layout(&self) -> String {
        if let Some(written) = &self.written {
            return written.clone();
        }
        let folder = self.folder.join("layout");
        let blobs = folder.join("blobs/sha256");
        std::fs::create_dir_all(&blobs).unwrap();
        let document = |kind: &str, document: &Value| {
            let text = document.to_string();
            let digest = digest(text.as_bytes());
            std::fs::write(blobs.join(&digest), &text).unwrap();
            json!({"mediaType": format!("application/vnd.oci.image.{kind}.v1+json"),
                "digest": format!("sha256:{digest}"), "size": text.len()})
        };
        let mut layers = Vec::new();
        for layer in &self.layers {
            let blob = blobs.join(&layer.digest);
            if !blob.exists() {
                std::fs::hard_link(&layer.tar, &blob).unwrap();
            }
            layers.push(json!({"mediaType": "application/vnd.oci.image.layer.v1.tar",
                "digest": format!("sha256:{}", layer.digest), "size": blob.metadata().unwrap().len()}));
        }
        let config = document("config", &self.config());
        let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config, "layers": layers});
        let mut manifest = document("manifest", &manifest);
        manifest["annotations"] = json!({"org.opencontainers.image.ref.name": "case"});
        let index = json!({"schemaVersion": 2, "manifests": [manifest]});
        std::fs::write(folder.join("index.json"), index.to_string()).unwrap();
        std::fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        format!("oci:{}", folder.display())
    }

    fn config(&self) -> Value {
        let env: Vec<String> = self
            .start
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let user = if self.start.user == 0 {
            String::new()
        } else {
            self.start.user.to_string()
        };
        let diff_ids: Vec<String> = self
            .layers
            .iter()
            .map(|layer| format!("sha256:{}", layer.digest))
            .collect();
        json!({"architecture": "amd64", "os": "linux",
            "config": {"Env": env, "User": user, "Cmd": self.command},
            "rootfs": {"type": "layers", "diff_ids": diff_ids}})
    }
}

/// Unpacks a layer into a tree for overlayfs, and returns the tree.
fn unpack(tar: &Path, tree: &Path) -> PathBuf {
    std::fs::create_dir_all(tree).unwrap();
    // `slim` writes whiteouts of single paths only, never opaque ones.
    let script = r#"set -e; tar -C "$2" -xf "$1"; cd "$2"; find . -name '.wh.*' | while read -r mark; do
        rm "$mark"; name=${mark##*/.wh.}; [ "$name" != .wh..opq ]; mknod "${mark%/*}/$name" c 0 0
    done"#;
    let output = Command::new("sh")
        .args(["-c", script, "sh"])
        .args([tar, tree])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    tree.to_path_buf()
}

/// Packs a tree of overlayfs into a layer.
fn pack(tree: &Path) -> Layer {
    let mut layer = Layer::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(below) = pending.pop() {
        let mut names: Vec<_> = std::fs::read_dir(tree.join(&below))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        for name in names {
            let inside = below.join(name);
            let path = tree.join(&inside);
            let facts = path.symlink_metadata().unwrap();
            let kind = match facts.file_type() {
                kind if kind.is_dir() => Kind::Directory,
                kind if kind.is_symlink() => {
                    Kind::Symlink(std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes())
                }
                kind if kind.is_file() => Kind::File(std::fs::read(&path).unwrap()),
                kind if kind.is_char_device() && facts.rdev() == 0 => {
                    layer = layer.whiteout(inside.as_os_str().as_encoded_bytes());
                    continue;
                }
                _ => continue,
            };
            let is_folder = kind == Kind::Directory;
            let name = inside.as_os_str().as_encoded_bytes().to_vec();
            layer = layer.entry(Entry {
                name,
                mode: facts.mode() & 0o7777,
                kind,
            });
            if is_folder {
                if rustix::fs::getxattr(&path, OPAQUE, &mut [0_u8; 8]).is_ok_and(|length| length == 1) {
                    layer = layer.opaque(inside.as_os_str().as_encoded_bytes());
                }
                pending.push(inside);
            }
        }
    }
    layer
}
