//! Builds valid and invalid image archives in memory, member by member.

use image_linkage::digest::to_hex;
use sha2::{Digest as _, Sha256};

/// A tar archive under construction.
#[derive(Clone, Default)]
pub struct Archive {
    members: Vec<(String, Member)>,
}

#[derive(Clone)]
enum Member {
    File(Vec<u8>),
    Symlink(String),
    Hardlink(String),
}

impl Archive {
    pub fn file(mut self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let content = Member::File(content.as_ref().to_vec());
        self.members.push((name.to_owned(), content));
        self
    }

    pub fn symlink(mut self, name: &str, target: &str) -> Self {
        let link = Member::Symlink(target.to_owned());
        self.members.push((name.to_owned(), link));
        self
    }

    pub fn hardlink(mut self, name: &str, target: &str) -> Self {
        let link = Member::Hardlink(target.to_owned());
        self.members.push((name.to_owned(), link));
        self
    }

    /// The members of both archives.
    pub fn join(mut self, other: Self) -> Self {
        self.members.extend(other.members);
        self
    }

    /// The same members, the last one first.
    pub fn reversed(mut self) -> Self {
        self.members.reverse();
        self
    }

    /// The bytes of the tar.
    pub fn tar(&self) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, member) in &self.members {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            match member {
                Member::File(content) => {
                    header.set_size(content.len() as u64);
                    builder.append_data(&mut header, name, content.as_slice()).unwrap();
                }
                Member::Symlink(target) | Member::Hardlink(target) => {
                    let symlink = matches!(member, Member::Symlink(_));
                    header.set_entry_type(if symlink {
                        tar::EntryType::Symlink
                    } else {
                        tar::EntryType::Link
                    });
                    header.set_size(0);
                    builder.append_link(&mut header, name, target).unwrap();
                }
            }
        }
        builder.into_inner().unwrap()
    }
}

/// A layer with one file per name; the content is the name. Whiteouts are empty, because engines require that.
pub fn layer(names: &[&str]) -> Vec<u8> {
    let content = |name: &str| {
        if name.contains(".wh.") {
            String::new()
        } else {
            name.to_owned()
        }
    };
    names
        .iter()
        .fold(Archive::default(), |archive, name| archive.file(name, content(name)))
        .tar()
}

/// SHA-256 in hexadecimal.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    to_hex(&Sha256::digest(bytes.as_ref()))
}

/// An image config for uncompressed `layers`.
pub fn config(architecture: &str, layers: &[&[u8]]) -> String {
    let diff_ids: Vec<String> = layers
        .iter()
        .map(|layer| format!("\"sha256:{}\"", sha256(layer)))
        .collect();
    format!(
        r#"{{"architecture":"{architecture}","os":"linux","rootfs":{{"type":"layers","diff_ids":[{}]}}}}"#,
        diff_ids.join(",")
    )
}

/// One entry of a `manifest.json`.
pub fn entry(config: &str, tags: &[&str], layers: &[&str]) -> String {
    let list = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        format!("[{}]", words.join(","))
    };
    format!(
        r#"{{"Config":"{config}","RepoTags":{},"Layers":{}}}"#,
        list(tags),
        list(layers)
    )
}

/// An archive in the format of Docker before 25: `layers` uncompressed, the manifest last.
pub fn classic(tags: &[&str], layers: &[&[u8]]) -> Archive {
    let config = config("amd64", layers);
    let config_name = format!("{}.json", sha256(&config));
    let mut archive = Archive::default().file(&config_name, &config);
    let mut names = Vec::new();
    for (at, layer) in layers.iter().enumerate() {
        let name = format!("{at}/layer.tar");
        archive = archive.file(&name, layer).file(&format!("{at}/VERSION"), "1.0");
        names.push(name);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    archive.file("manifest.json", format!("[{}]", entry(&config_name, tags, &names)))
}

/// The blobs of one image, and its manifest.
pub struct Oci {
    pub archive: Archive,
    /// The manifest's digest in hexadecimal.
    pub manifest: String,
    pub manifest_bytes: usize,
    /// The config's digest in hexadecimal.
    pub config: String,
    /// The blobs' names as in `manifest.json`.
    pub layers: Vec<String>,
}

/// The blobs of an image for `architecture`, from pairs of stored and uncompressed layers.
pub fn blobs(architecture: &str, layers: &[(&[u8], &[u8])]) -> Oci {
    let plain: Vec<&[u8]> = layers.iter().map(|(_, plain)| *plain).collect();
    let config = config(architecture, &plain);
    let mut archive = Archive::default();
    let mut descriptors = Vec::new();
    let mut names = Vec::new();
    for (stored, _) in layers {
        let digest = sha256(stored);
        let name = format!("blobs/sha256/{digest}");
        archive = archive.file(&name, stored);
        descriptors.push(format!(
            r#"{{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:{digest}","size":{}}}"#,
            stored.len()
        ));
        names.push(name);
    }
    let manifest = format!(
        r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:{}","size":{}}},"layers":[{}]}}"#,
        sha256(&config),
        config.len(),
        descriptors.join(",")
    );
    Oci {
        archive: archive
            .file(&format!("blobs/sha256/{}", sha256(&config)), &config)
            .file(&format!("blobs/sha256/{}", sha256(&manifest)), &manifest),
        manifest: sha256(&manifest),
        manifest_bytes: manifest.len(),
        config: sha256(&config),
        layers: names,
    }
}

impl Oci {
    /// The manifest's descriptor, with additional JSON members `more`, each with a leading comma.
    pub fn descriptor(&self, more: &str) -> String {
        format!(
            r#"{{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:{}","size":{}{more}}}"#,
            self.manifest, self.manifest_bytes
        )
    }
}

/// An `index.json` of descriptors.
pub fn index(descriptors: &[String]) -> String {
    format!(r#"{{"schemaVersion":2,"manifests":[{}]}}"#, descriptors.join(","))
}

/// The annotation with an image's name, for [`Oci::descriptor`].
pub fn named(name: &str) -> String {
    format!(r#","annotations":{{"org.opencontainers.image.ref.name":"{name}"}}"#)
}

/// Adds the files that make an archive an OCI layout.
pub fn layout(archive: Archive, index: &str) -> Archive {
    archive
        .file("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#)
        .file("index.json", index)
}
