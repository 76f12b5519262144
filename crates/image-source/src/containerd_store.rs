//! Images of containerd on this machine, from its own folder: the names of all namespaces (`metadata/buckets.go`), and
//! the blobs that they stand for (`content/local/store.go`), which are read as those of an OCI layout.
//!
//! Its socket would have to be asked by gRPC, and what it answers comes from the same two places.
#![expect(clippy::disallowed_methods, reason = "an image source reads the host")]

mod bolt_file;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use bolt_file::{BoltBucket, BoltFile, BoltValue};
use image_linkage::escape::escape_bytes;
use serde_json::json;

use crate::archive::{PreferredDocument, WantedImage, name_not_found, same_name};
use crate::image_error::ImageError;
use crate::oci_layout::LayoutFolder;
use crate::platform::Platform;
use crate::registry_reference::RegistryReference;
use crate::source::{ImageSource, KeepFile, OpenRequest, OpenedImage};
use crate::source_kind::SourceKind;

/// Where containerd keeps its files by itself, as root: its own default, k3s, RKE2, `MicroK8s`, and Docker's own.
const ROOTS: [&str; 5] = [
    "/var/lib/containerd",
    "/var/lib/rancher/k3s/agent/containerd",
    "/var/lib/rancher/rke2/agent/containerd",
    "/var/snap/microk8s/common/var/lib/containerd",
    "/var/lib/docker/containerd/daemon",
];

/// How often names are read anew because containerd wrote to them meanwhile.
const TRIES: usize = 20;

/// An image of containerd, by its name.
#[derive(Debug, Clone)]
pub(crate) struct ContainerdImage {
    /// The reference as the user wrote it.
    pub reference: String,
    /// The image's name; Docker Hub's defaults may be left out.
    pub name: String,
}

impl ImageSource for ContainerdImage {
    fn open(&self, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError> {
        self.find()?.open_image(&self.wanted(), SourceKind::Containerd, request)
    }

    fn list_platforms(&self, request: &OpenRequest<'_>) -> Result<Vec<Platform>, ImageError> {
        self.find()?.list_platforms(&self.wanted(), request)
    }

    fn open_reopenable(&self, request: &OpenRequest<'_>, _keep: KeepFile<'_>) -> Result<OpenedImage, ImageError> {
        self.open(request)
    }
}

/// An image as containerd lists it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ListedImage {
    name: String,
    namespace: String,
    digest: String,
    media_type: String,
    size: u64,
}

impl ContainerdImage {
    fn wanted(&self) -> WantedImage<'_> {
        WantedImage {
            reference: &self.reference,
            // The index holds this one image only.
            name: None,
            docker: SourceKind::Containerd,
            first: PreferredDocument::OciIndex,
        }
    }

    /// The folder of the first containerd on this machine that has the image.
    fn find(&self) -> Result<LayoutFolder, ImageError> {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let roots = match text("CONTAINERD_ROOT") {
            Some(root) => vec![PathBuf::from(root)],
            None => default_roots(text("XDG_DATA_HOME"), text("HOME")),
        };
        // The same variable that `ctr` and `nerdctl` read.
        let namespace = text("CONTAINERD_NAMESPACE");
        let mut there = BTreeSet::new();
        for root in &roots {
            let names = root.join("io.containerd.metadata.v1.bolt/meta.db");
            let listed = match list_images(&names, namespace.as_deref()) {
                Ok(listed) => listed,
                Err(error) if error.kind() == io::ErrorKind::NotFound && roots.len() > 1 => continue,
                Err(error) => return Err(self.unreadable(&names, error)),
            };
            if let Some(image) = self.choose(&listed)? {
                return Ok(image.folder(root));
            }
            there.extend(listed.into_iter().map(|image| image.name));
        }
        if there.is_empty() {
            let within = namespace.unwrap_or_else(|| "any namespace".to_owned());
            let whole = self.name.parse::<RegistryReference>();
            let name = whole.map_or_else(|_| self.name.clone(), |name| name.to_string());
            return Err(ImageError::NotFound(format!(
                "containerd has no image in {within} on this machine; fetch it with: ctr images pull {name}, or leave \
                 out containerd: to ask the registry (CONTAINERD_ROOT names another folder than the usual ones)"
            )));
        }
        Err(name_not_found(
            "containerd",
            &self.name,
            there.iter().map(String::as_str),
        ))
    }

    fn unreadable(&self, names: &Path, error: io::Error) -> ImageError {
        if error.kind() != io::ErrorKind::PermissionDenied {
            return ImageError::io(names.display())(error);
        }
        let name = &self.name;
        ImageError::io(format!(
            "containerd's folder is root's ({}); run this with sudo, or ctr images export - {name} | cupti-audit -",
            names.display()
        ))(error)
    }

    /// The image of that name; none where there is none.
    fn choose<'a>(&self, listed: &'a BTreeSet<ListedImage>) -> Result<Option<&'a ListedImage>, ImageError> {
        let named = |fits: &dyn Fn(&str) -> bool| -> Vec<&ListedImage> {
            listed.iter().filter(|image| fits(&image.name)).collect()
        };
        let mut found = named(&|name| name == self.name);
        if found.is_empty() {
            found = named(&|name| same_name(name, &self.name));
        }
        let digests: BTreeSet<&str> = found.iter().map(|image| image.digest.as_str()).collect();
        if digests.len() > 1 {
            let namespaces: Vec<String> = found.iter().map(|it| escape_bytes(it.namespace.as_bytes())).collect();
            return Err(ImageError::reference(
                &self.reference,
                format!(
                    "namespaces have different images of that name, choose one with CONTAINERD_NAMESPACE: {}",
                    namespaces.join(", ")
                ),
            ));
        }
        Ok(found.first().copied())
    }
}

fn default_roots(data: Option<String>, home: Option<String>) -> Vec<PathBuf> {
    // A user's own, of containerd without root, comes first: root's cannot be read by its user.
    let own = data
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(home?).join(".local/share")));
    let own = own.map(|data| data.join("containerd"));
    let exists = own.filter(|dir| dir.join("io.containerd.metadata.v1.bolt/meta.db").is_file());
    exists.into_iter().chain(ROOTS.map(PathBuf::from)).collect()
}

impl ListedImage {
    /// The blobs of containerd at `root`, with an index that names this image.
    fn folder(&self, root: &Path) -> LayoutFolder {
        let index = json!({"schemaVersion": 2, "manifests": [{
            "mediaType": self.media_type, "digest": self.digest, "size": self.size,
            "annotations": {"io.containerd.image.name": self.name},
        }]});
        LayoutFolder {
            what: format!("containerd ({})", root.display()),
            dir: root.join("io.containerd.content.v1.content"),
            index: Some(index.to_string().into_bytes()),
        }
    }
}

/// The images that the file `names` lists, of one namespace or of all.
fn list_images(names: &Path, namespace: Option<&str>) -> io::Result<BTreeSet<ListedImage>> {
    for _ in 0..TRIES {
        let file = BoltFile::open(names)?;
        let listed = read_images(&file, namespace);
        // What was read while containerd wrote may be anything, damage included.
        if file.is_unchanged() {
            return listed;
        }
    }
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
        "containerd writes to it all the time; try again",
    ))
}

fn read_images(file: &BoltFile, wanted: Option<&str>) -> io::Result<BTreeSet<ListedImage>> {
    let mut listed = BTreeSet::new();
    // The schema's version; a later one may hold them otherwise.
    let Some(version) = bucket(file, &file.root(), b"v1")? else {
        return Ok(listed);
    };
    for (namespace, value) in file.entries(&version)? {
        let BoltValue::Bucket(within) = value else { continue };
        let namespace = String::from_utf8_lossy(&namespace).into_owned();
        if wanted.is_some_and(|wanted| wanted != namespace) {
            continue;
        }
        let Some(images) = bucket(file, &within, b"images")? else {
            continue;
        };
        for (name, value) in file.entries(&images)? {
            let BoltValue::Bucket(image) = value else { continue };
            let Some(target) = bucket(file, &image, b"target")? else {
                continue;
            };
            listed.extend(read_target(&name, &namespace, &file.entries(&target)?));
        }
    }
    Ok(listed)
}

fn bucket(file: &BoltFile, parent: &BoltBucket, name: &[u8]) -> io::Result<Option<BoltBucket>> {
    Ok(match file.entries(parent)?.remove(name) {
        Some(BoltValue::Bucket(bucket)) => Some(bucket),
        _ => None,
    })
}

fn read_target(name: &[u8], namespace: &str, target: &BTreeMap<Vec<u8>, BoltValue>) -> Option<ListedImage> {
    let value = |key: &[u8]| match target.get(key) {
        Some(BoltValue::Bytes(bytes)) => Some(bytes.as_slice()),
        _ => None,
    };
    let text = |key: &[u8]| Some(String::from_utf8_lossy(value(key)?).into_owned());
    Some(ListedImage {
        name: String::from_utf8_lossy(name).into_owned(),
        namespace: namespace.to_owned(),
        digest: text(b"digest")?,
        media_type: text(b"mediatype")?,
        size: signed_varint(value(b"size")?)?,
    })
}

/// A number as Go's `binary.PutVarint` writes it: seven bits a byte, the lowest bit of all is the sign.
fn signed_varint(bytes: &[u8]) -> Option<u64> {
    let bits = bytes.iter().enumerate().take(9);
    let number = bits.fold(0, |number, (at, byte)| number | (u64::from(byte & 0x7f) << (7 * at)));
    (number & 1 == 0 && !bytes.is_empty()).then_some(number >> 1)
}
