//! What the user wrote, read into the source that it names.

use std::path::PathBuf;

use crate::archive::PreferredDocument;
use crate::engine::EngineKind;
use crate::image_error::ImageError;
use crate::registry_reference::RegistryReference;
use crate::source_kind::SourceKind;

/// The hexadecimal digits of a SHA-256 (image-spec, descriptor.md, "Digests").
const SHA256_DIGITS: usize = 64;

/// The source that a reference names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ImageReference {
    /// An image in a registry, with Docker Hub's defaults filled in.
    Registry(RegistryReference),
    /// An image of an engine, by name or id.
    Engine(EngineKind, String),
    /// The output of `docker save`, or an OCI image layout in a tar archive.
    Archive {
        /// A path of the host.
        file: PathBuf,
        /// The image in it, by a name or a tag; needed only when there are several.
        name: Option<String>,
        /// Which of the two is meant where a file is both.
        first: PreferredDocument,
    },
    /// The output of `docker save` on standard input.
    Stdin,
    /// An OCI image layout in a folder.
    Oci {
        /// A path of the host, where `oci-layout` lies.
        dir: PathBuf,
        /// The tag (`org.opencontainers.image.ref.name`) in `index.json`.
        tag: Option<String>,
    },
    /// An unpacked root file system.
    Rootfs(PathBuf),
    /// A root file system in a tar archive.
    RootfsArchive(PathBuf),
    /// An image of Apptainer.
    Sif(PathBuf),
}

/// What a path on the host turned out to be, by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// A folder with an `oci-layout` file.
    OciLayout,
    /// A folder without one, read as a root file system.
    Folder,
    /// A tar archive with a `manifest.json`.
    DockerArchive,
    /// A tar archive with an `oci-layout` and no `manifest.json`.
    OciArchive,
    /// A tar archive with the folders of a root file system.
    RootfsArchive,
    /// An image of Apptainer or Singularity.
    Sif,
    /// A file that is none of them.
    Other,
}

/// Reads a reference. `look` says what lies at a path of the host, `None` where nothing does.
///
/// Errors: [`ImageError::Reference`] with what is wrong and what would do.
pub(crate) fn parse_reference(
    text: &str,
    look: impl Fn(&str) -> Option<PathKind>,
) -> Result<ImageReference, ImageError> {
    let invalid = |reason: &str| ImageError::reference(text, reason);
    if text.is_empty() {
        return Err(invalid("it is empty; name an image, such as ubuntu:22.04 or oci:DIR"));
    }
    if text == "-" {
        return Ok(ImageReference::Stdin);
    }
    if text.trim() != text {
        return Err(invalid("a space stands before or behind it"));
    }
    // Before the schemes with a colon alone, as `docker` is one of them and may be a host's name, too.
    if let Some(name) = text.strip_prefix("docker://") {
        return registry(text, name);
    }
    if let Some((scheme, rest)) = text.split_once(':')
        // A scheme comes before a file of that name; `./oci:x` means the file.
        && let Some(target) = schemed(scheme, rest, &look)
    {
        return match rest.strip_prefix(scheme) {
            _ if rest.is_empty() => Err(invalid("nothing stands after the scheme")),
            Some(path) if path.starts_with(':') && look(rest).is_none() => {
                Err(invalid(&format!("the scheme stands twice; is {rest} meant?")))
            }
            // Else the system would say that it is no folder.
            _ if matches!(target, ImageReference::Oci { .. }) && look(rest) == Some(PathKind::Other) => {
                Err(invalid(why_no_image(rest)))
            }
            _ => Ok(target),
        };
    }
    let archive = |first| {
        Ok(ImageReference::Archive {
            file: text.into(),
            name: None,
            first,
        })
    };
    // What lies on the disk comes before what a registry may have; `docker://` asks for the latter.
    match look(text) {
        Some(PathKind::OciLayout) => Ok(ImageReference::Oci {
            dir: text.into(),
            tag: None,
        }),
        Some(PathKind::Folder) => Ok(ImageReference::Rootfs(text.into())),
        Some(PathKind::DockerArchive) => archive(PreferredDocument::DockerManifest),
        Some(PathKind::OciArchive) => archive(PreferredDocument::OciIndex),
        Some(PathKind::RootfsArchive) => Ok(ImageReference::RootfsArchive(text.into())),
        Some(PathKind::Sif) => Ok(ImageReference::Sif(text.into())),
        Some(PathKind::Other) => Err(invalid(why_no_image(text))),
        // A mistyped path must not become a question to Docker Hub, which would learn of it.
        None if is_path(text) => Err(invalid("no such file or folder")),
        None if is_of_containerd(text) => Err(invalid(
            "containerd's images are read from standard input: ctr images export - NAME | cupti-audit -",
        )),
        None if let Some(meant) = meant_scheme(text) => Err(invalid(&format!(
            "there is no such scheme; is {meant} meant? (docker://{text} is the image of that name in Docker Hub)"
        ))),
        None => registry(text, text),
    }
}

/// Why a file of the host is no image, by its name where that tells.
fn why_no_image(file: &str) -> &'static str {
    let name = file.rsplit('/').next().unwrap_or_default();
    if ["Dockerfile", "Containerfile"].iter().any(|of| name.contains(of)) {
        return "a Dockerfile is no image yet: the command check reads it, and an image is named that was built of it";
    }
    if ["index.json", "oci-layout", "manifest.json"].contains(&name) {
        return "the file is a part of an image: name the folder or archive that holds it";
    }
    "the file is neither an archive of docker save, OCI or a root file system, nor a SIF; docker://… names a registry's image"
}

fn schemed(scheme: &str, rest: &str, look: &impl Fn(&str) -> Option<PathKind>) -> Option<ImageReference> {
    let archive = |first| {
        let (file, name) = split_tag(rest, look);
        let file = file.into();
        Some(ImageReference::Archive { file, name, first })
    };
    match SourceKind::from_scheme(scheme)? {
        // Without slashes it is a host with a port, or a name with a tag.
        SourceKind::Docker => None,
        SourceKind::DockerDaemon => Some(ImageReference::Engine(EngineKind::Docker, rest.to_owned())),
        SourceKind::Podman => Some(ImageReference::Engine(EngineKind::Podman, rest.to_owned())),
        SourceKind::DockerArchive => archive(PreferredDocument::DockerManifest),
        SourceKind::Oci => {
            let (dir, tag) = split_tag(rest, look);
            Some(ImageReference::Oci { dir: dir.into(), tag })
        }
        SourceKind::OciArchive => archive(PreferredDocument::OciIndex),
        SourceKind::Rootfs => Some(ImageReference::Rootfs(rest.into())),
        SourceKind::RootfsArchive => Some(ImageReference::RootfsArchive(rest.into())),
        SourceKind::Sif => Some(ImageReference::Sif(rest.into())),
    }
}

/// Whether the scheme names containerd or one of its command lines.
fn is_of_containerd(text: &str) -> bool {
    let scheme = text.split_once(':').map(|(scheme, _)| scheme);
    matches!(scheme, Some("containerd" | "ctr" | "nerdctl"))
}

/// What is meant by what stands before the colon, where that is not the name of an image with its tag.
fn meant_scheme(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once(':')?;
    // `docker:24-dind` is an official image, and `docker:5000/x` one on a host of that name.
    let is_tag = rest.starts_with(|first: char| first.is_ascii_digit());
    SourceKind::meant_by(scheme).filter(|_| !is_tag)
}

/// Splits `PATH[:TAG]` at the first colon, as skopeo does; a path that exists as a whole, colons and all, is a path.
fn split_tag<'a>(rest: &'a str, look: &impl Fn(&str) -> Option<PathKind>) -> (&'a str, Option<String>) {
    if look(rest).is_some() {
        return (rest, None);
    }
    match rest.split_once(':') {
        Some((path, tag)) if !tag.is_empty() => (path, Some(tag.to_owned())),
        // `oci:DIR:` is what a script writes whose variable for the tag is empty.
        Some((path, _)) => (path, None),
        None => (rest, None),
    }
}

/// Whether a text can only be meant as a path.
fn is_path(text: &str) -> bool {
    text.starts_with('/')
        || text.starts_with("./")
        || text.starts_with("../")
        // A shell leaves it as it is within quotes; no registry's name begins so.
        || text.starts_with('~')
}

fn registry(text: &str, name: &str) -> Result<ImageReference, ImageError> {
    if let Some(meant) = ["https://", "http://"]
        .iter()
        .find_map(|scheme| name.strip_prefix(scheme))
    {
        let reason = format!("names in registries begin with the host; is {meant} meant?");
        return Err(ImageError::reference(text, reason));
    }
    if let Some((_, hex)) = name.rsplit_once("@sha256:")
        && hex.len() != SHA256_DIGITS
    {
        let reason = format!("its digest has {} digits and not {SHA256_DIGITS}", hex.chars().count());
        return Err(ImageError::reference(text, reason));
    }
    let lower = name.to_lowercase();
    if lower != name && name.parse::<RegistryReference>().is_err() && lower.parse::<RegistryReference>().is_ok() {
        let reason = format!("names in registries are in lower case; is {lower} meant?");
        return Err(ImageError::reference(text, reason));
    }
    name.parse::<RegistryReference>()
        .map(ImageReference::Registry)
        .map_err(|error| {
            ImageError::reference(
                text,
                format!(
                    "{error}; expected [REGISTRY/]NAME[:TAG][@DIGEST] in lower case, a path, or SCHEME:… (see --help)"
                ),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::{ImageReference, PathKind, parse_reference};

    fn look(path: &str) -> Option<PathKind> {
        match path {
            "layout" | "a:b" => Some(PathKind::OciLayout),
            "/rootfs" => Some(PathKind::Folder),
            "saved.tar" => Some(PathKind::DockerArchive),
            "oci.tar" => Some(PathKind::OciArchive),
            "notes.txt" | "src/Dockerfile" | "layout/index.json" => Some(PathKind::Other),
            _ => None,
        }
    }

    fn check(text: &str, expected: &str) {
        let found = match parse_reference(text, look) {
            Ok(ImageReference::Registry(reference)) => format!("registry {reference}"),
            Ok(target) => format!("{target:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn bare_names_get_docker_hubs_defaults() {
        check("ubuntu", "registry docker.io/library/ubuntu:latest");
        check(
            "nvidia/cuda:12.4.0-runtime-ubuntu22.04",
            "registry docker.io/nvidia/cuda:12.4.0-runtime-ubuntu22.04",
        );
        check("docker://ghcr.io/a/b", "registry ghcr.io/a/b:latest");
        check("localhost:5000/x:1", "registry localhost:5000/x:1");
        let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        check(
            &format!("x@{digest}"),
            &format!("registry docker.io/library/x@{digest}"),
        );
    }

    #[test]
    fn schemes_name_sources_and_existing_paths_are_recognised() {
        check("-", "Stdin");
        check("docker-daemon:app:1", "Engine(Docker, \"app:1\")");
        check("podman:app", "Engine(Podman, \"app\")");
        check("oci:layout:v1", "Oci { dir: \"layout\", tag: Some(\"v1\") }");
        check("oci:a:b", "Oci { dir: \"a:b\", tag: None }");
        check(
            "docker-archive:saved.tar:app:1",
            "Archive { file: \"saved.tar\", name: Some(\"app:1\"), first: DockerManifest }",
        );
        check("layout", "Oci { dir: \"layout\", tag: None }");
        check(
            "saved.tar",
            "Archive { file: \"saved.tar\", name: None, first: DockerManifest }",
        );
        check("oci.tar", "Archive { file: \"oci.tar\", name: None, first: OciIndex }");
        check("/rootfs", "Rootfs(\"/rootfs\")");
    }

    #[test]
    fn what_cannot_be_meant_is_one_sentence() {
        check(
            "",
            "invalid reference \"\": it is empty; name an image, such as ubuntu:22.04 or oci:DIR",
        );
        check("./missing", "invalid reference \"./missing\": no such file or folder");
        check("oci:", "invalid reference \"oci:\": nothing stands after the scheme");
        check(
            "docker:app",
            "invalid reference \"docker:app\": there is no such scheme; is docker-daemon:NAME for the engine's image, docker://NAME for a registry's meant? (docker://docker:app is the image of that name in Docker Hub)",
        );
        check(
            "dockerdaemon:app",
            "invalid reference \"dockerdaemon:app\": there is no such scheme; is docker-daemon:… meant? (docker://dockerdaemon:app is the image of that name in Docker Hub)",
        );
        check(
            "containerd:app",
            "invalid reference \"containerd:app\": containerd's images are read from standard input: ctr images export - NAME | cupti-audit -",
        );
        check("docker:24-dind", "registry docker.io/library/docker:24-dind");
        check("redis:alpine", "registry docker.io/library/redis:alpine");
        check(
            "Ubuntu",
            "invalid reference \"Ubuntu\": names in registries are in lower case; is ubuntu meant?",
        );
    }

    #[test]
    fn what_is_said_of_a_slip_in_a_name() {
        for (text, why) in [
            (" ubuntu", "a space stands before or behind it"),
            ("oci:oci:there", "the scheme stands twice; is oci:there meant?"),
            (
                "https://ghcr.io/x/y:1",
                "names in registries begin with the host; is ghcr.io/x/y:1 meant?",
            ),
            ("ubuntu@sha256:abc", "its digest has 3 digits and not 64"),
            (
                "src/Dockerfile",
                "a Dockerfile is no image yet: the command check reads it, and an image is named that was built of it",
            ),
            (
                "oci:layout/index.json",
                "the file is a part of an image: name the folder or archive that holds it",
            ),
            (
                "layout/index.json",
                "the file is a part of an image: name the folder or archive that holds it",
            ),
        ] {
            check(text, &format!("invalid reference {text:?}: {why}"));
        }
    }
}
