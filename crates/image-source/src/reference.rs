//! Parses a user's image reference and finds its source.

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
    /// An engine's image, by name or id.
    Engine(EngineKind, String),
    /// The output of `docker save`, or an OCI image layout in a tar archive.
    Archive {
        /// A path on the host.
        file: PathBuf,
        /// A name or tag of the image; required if the archive has several.
        name: Option<String>,
        /// Which format to prefer if the file is valid as both.
        first: PreferredDocument,
    },
    /// The output of `docker save` on standard input.
    Stdin,
    /// An OCI image layout in a folder.
    Oci {
        /// The host folder that contains `oci-layout`.
        dir: PathBuf,
        /// The tag (`org.opencontainers.image.ref.name`) in `index.json`.
        tag: Option<String>,
    },
    /// An unpacked root file system.
    Rootfs(PathBuf),
    /// A root file system in a tar archive.
    RootfsArchive(PathBuf),
    /// An Apptainer image.
    Sif(PathBuf),
}

/// The kind of a path on the host, by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// A folder with an `oci-layout` file.
    OciLayout,
    /// Any other folder, read as a root file system.
    Folder,
    /// A tar archive with a `manifest.json`.
    DockerArchive,
    /// A tar archive with an `oci-layout` and no `manifest.json`.
    OciArchive,
    /// A tar archive with the folders of a root file system.
    RootfsArchive,
    /// An Apptainer or Singularity image.
    Sif,
    /// An empty file.
    Empty,
    /// A file of any other kind, and what it is, if that is known.
    Other(Option<&'static str>),
}

/// Parses a reference. `find_path` gives the kind of a path on the host, or `None` if it does not exist.
///
/// Errors: [`ImageError::Reference`] with what is wrong and what to write instead.
pub(crate) fn parse_reference(
    text: &str,
    find_path: impl Fn(&str) -> Option<PathKind>,
) -> Result<ImageReference, ImageError> {
    let invalid = |reason: &str| ImageError::reference(text, reason);
    if text.is_empty() {
        return Err(invalid("it is empty; name an image, such as ubuntu:22.04 or oci:DIR"));
    }
    if text == "-" {
        return Ok(ImageReference::Stdin);
    }
    if let Some(reason) = why_stray_ends(text) {
        return Err(invalid(reason));
    }
    if let Some(shown) = without_password(text) {
        let reason = "a name holds no password; docker login stores it, and it is read from there";
        return Err(ImageError::reference(shown, reason));
    }
    // Checked before the schemes with a bare colon: `docker` is one of those too, and may be a host name.
    if let Some(name) = text.strip_prefix("docker://") {
        return registry(text, name);
    }
    if let Some((scheme, rest)) = text.split_once(':')
        // A scheme wins over a file of that name; `./oci:x` names the file.
        && let Some(target) = read_scheme(scheme, rest, &find_path)
    {
        return match rest.strip_prefix(scheme) {
            _ if rest.is_empty() => Err(invalid("nothing follows the scheme")),
            _ if let Some(name) = rest.strip_prefix("//")
                && find_path(rest).is_none() =>
            {
                Err(invalid(&format!(
                    "only docker:// has slashes; is {scheme}:{name} meant, or docker://{name} of a registry?"
                )))
            }
            Some(path) if path.starts_with(':') && find_path(rest).is_none() => {
                Err(invalid(&format!("the scheme is written twice; did you mean {rest}?")))
            }
            // The system's error would only say that it is not a folder.
            _ if matches!(target, ImageReference::Oci { .. })
                && let Some(PathKind::Other(words)) = find_path(rest) =>
            {
                Err(invalid(why_no_image(rest, words)))
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
    // A local path wins over a registry; `docker://` forces the registry.
    match find_path(text) {
        Some(PathKind::OciLayout) => Ok(ImageReference::Oci {
            dir: text.into(),
            tag: None,
        }),
        Some(PathKind::Folder) => Ok(ImageReference::Rootfs(text.into())),
        Some(PathKind::DockerArchive) => archive(PreferredDocument::DockerManifest),
        Some(PathKind::OciArchive) => archive(PreferredDocument::OciIndex),
        Some(PathKind::RootfsArchive) => Ok(ImageReference::RootfsArchive(text.into())),
        Some(PathKind::Sif) => Ok(ImageReference::Sif(text.into())),
        Some(PathKind::Empty) => Err(invalid("the file is empty; did docker save fail?")),
        Some(PathKind::Other(words)) => Err(invalid(why_no_image(text, words))),
        // A mistyped path must not turn into a request to Docker Hub, which would disclose it.
        None if is_path(text) => Err(invalid("no such file or folder")),
        None if let Some(meant) = guess_scheme(text) => Err(invalid(&format!(
            "unknown scheme; did you mean {meant}? (docker://{text} is the image of that name in Docker Hub)"
        ))),
        None => registry(text, text),
    }
}

/// What is before or after a text that belongs to no name.
fn why_stray_ends(text: &str) -> Option<&'static str> {
    match text {
        _ if text.ends_with('\r') => {
            Some("it ends in a carriage return, as the lines of a Windows file do; remove it: tr -d '\\r' < FILE")
        }
        _ => (text.trim() != text).then_some("it has a space or a line break before or after it"),
    }
}

/// The text with the password of `USER:PASSWORD@HOST` replaced.
fn without_password(text: &str) -> Option<String> {
    let (before, host) = text.rsplit_once('@')?;
    let user = before.rsplit('/').next()?;
    let (name, password) = user.split_once(':')?;
    // `NAME:TAG@sha256:…` is a reference.
    let is_digest = host.starts_with("sha256:") || host.starts_with("sha512:");
    if is_digest || password.is_empty() || !before.ends_with(user) || before.contains("docker-daemon:") {
        return None;
    }
    let start = before.strip_suffix(user)?;
    Some(format!("{start}{name}:***@{host}"))
}

/// Why a host file is not an image, by its name and its content.
fn why_no_image(file: &str, words: Option<&'static str>) -> &'static str {
    let name = file.rsplit('/').next().unwrap_or_default();
    if ["Dockerfile", "Containerfile"].iter().any(|of| name.contains(of)) {
        return "this is a Dockerfile: read it with the command check, or name the image that was built from it";
    }
    if ["index.json", "oci-layout", "manifest.json"].contains(&name) {
        return "the file is a part of an image: name the folder or archive that holds it";
    }
    words.unwrap_or(
        "the file is no image: neither an archive of docker save, OCI or a root file system, nor a SIF; docker save NAME -o FILE writes one",
    )
}

fn read_scheme(scheme: &str, rest: &str, find_path: &impl Fn(&str) -> Option<PathKind>) -> Option<ImageReference> {
    let archive = |first| {
        let (file, name) = split_tag(rest, find_path);
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
            // Reports print the digest, and skopeo writes it behind an `@`, too.
            let (dir, tag) = match rest.split_once("@sha256:") {
                Some((dir, digest)) if find_path(rest).is_none() => (dir, Some(format!("sha256:{digest}"))),
                _ => split_tag(rest, find_path),
            };
            Some(ImageReference::Oci { dir: dir.into(), tag })
        }
        SourceKind::OciArchive => archive(PreferredDocument::OciIndex),
        SourceKind::Rootfs => Some(ImageReference::Rootfs(rest.into())),
        SourceKind::RootfsArchive => Some(ImageReference::RootfsArchive(rest.into())),
        SourceKind::Sif => Some(ImageReference::Sif(rest.into())),
    }
}

/// The scheme that a mistyped prefix probably means; `None` if the text is an image name with a tag.
fn guess_scheme(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once(':')?;
    // `docker:24-dind` is an official image, and `docker:5000/x` an image on the host `docker`.
    let is_tag = rest.starts_with(|first: char| first.is_ascii_digit());
    SourceKind::meant_by(scheme).filter(|_| !is_tag)
}

/// Splits `PATH[:TAG]` at the first colon, as skopeo does. A path that exists with its colons is a path.
fn split_tag<'a>(rest: &'a str, find_path: &impl Fn(&str) -> Option<PathKind>) -> (&'a str, Option<String>) {
    if find_path(rest).is_some() {
        return (rest, None);
    }
    match rest.split_once(':') {
        Some((path, tag)) if !tag.is_empty() => (path, Some(tag.to_owned())),
        // A script with an empty tag variable writes `oci:DIR:`.
        Some((path, _)) => (path, None),
        None => (rest, None),
    }
}

/// Whether a text is a path rather than a name in a registry.
fn is_path(text: &str) -> bool {
    text.starts_with('/')
        || text.starts_with("./")
        || text.starts_with("../")
        // A quoted `~` reaches us unexpanded, and no registry name starts with it.
        || text.starts_with('~')
        // Nobody names an image like a file that holds one.
        || [".tar", ".tar.gz", ".tgz", ".sif", ".sqfs"].iter().any(|end| text.ends_with(end))
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
        let found = hex.chars().count();
        return Err(ImageError::reference(
            text,
            format!("its digest has {found} digits and not {SHA256_DIGITS}"),
        ));
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
    use super::{ImageReference, PathKind, parse_reference, without_password};

    fn find_path(path: &str) -> Option<PathKind> {
        match path {
            "layout" | "a:b" => Some(PathKind::OciLayout),
            "/rootfs" => Some(PathKind::Folder),
            "saved.tar" => Some(PathKind::DockerArchive),
            "oci.tar" => Some(PathKind::OciArchive),
            "empty.tar" => Some(PathKind::Empty),
            "app.json" => Some(PathKind::Other(Some("it is JSON"))),
            "notes.txt" | "src/Dockerfile" | "layout/index.json" => Some(PathKind::Other(None)),
            _ => None,
        }
    }

    fn check(text: &str, expected: &str) {
        let found = match parse_reference(text, find_path) {
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
        let digest = format!("sha256:{}", "a".repeat(64));
        check(
            &format!("oci:layout@{digest}"),
            &format!("Oci {{ dir: \"layout\", tag: Some(\"{digest}\") }}"),
        );
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
    fn an_invalid_reference_is_explained_in_one_sentence() {
        check(
            "",
            "invalid reference \"\": it is empty; name an image, such as ubuntu:22.04 or oci:DIR",
        );
        for path in ["./missing", "out/app.tar", "app.sif"] {
            check(path, &format!("invalid reference \"{path}\": no such file or folder"));
        }
        check("oci:", "invalid reference \"oci:\": nothing follows the scheme");
        check(
            "docker:app",
            "invalid reference \"docker:app\": unknown scheme; did you mean docker-daemon:NAME for the engine's image, docker://NAME for a registry's? (docker://docker:app is the image of that name in Docker Hub)",
        );
        check(
            "dockerdaemon:app",
            "invalid reference \"dockerdaemon:app\": unknown scheme; did you mean docker-daemon:…? (docker://dockerdaemon:app is the image of that name in Docker Hub)",
        );
        check(
            "containerd:app",
            "invalid reference \"containerd:app\": unknown scheme; did you mean docker-archive:FILE, which ctr images export writes? (docker://containerd:app is the image of that name in Docker Hub)",
        );
        check("docker:24-dind", "registry docker.io/library/docker:24-dind");
        check("redis:alpine", "registry docker.io/library/redis:alpine");
        check(
            "Ubuntu",
            "invalid reference \"Ubuntu\": names in registries are in lower case; is ubuntu meant?",
        );
    }

    #[test]
    fn a_typo_in_a_reference_gets_a_suggestion() {
        for (text, why) in [
            (
                "ubuntu\r",
                "it ends in a carriage return, as the lines of a Windows file do; remove it: tr -d '\\r' < FILE",
            ),
            (" ubuntu", "it has a space or a line break before or after it"),
            (
                "oci://ghcr.io/x:1",
                "only docker:// has slashes; is oci:ghcr.io/x:1 meant, or docker://ghcr.io/x:1 of a registry?",
            ),
            ("empty.tar", "the file is empty; did docker save fail?"),
            ("app.json", "it is JSON"),
            ("oci:app.json", "it is JSON"),
            ("oci:oci:there", "the scheme is written twice; did you mean oci:there?"),
            (
                "https://ghcr.io/x/y:1",
                "names in registries begin with the host; is ghcr.io/x/y:1 meant?",
            ),
            ("ubuntu@sha256:abc", "its digest has 3 digits and not 64"),
            (
                "src/Dockerfile",
                "this is a Dockerfile: read it with the command check, or name the image that was built from it",
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

    #[test]
    fn where_is_a_password() {
        for (text, shown) in [
            ("bob:hunter2@ghcr.io/acme/app:1", Some("bob:***@ghcr.io/acme/app:1")),
            ("https://bob:hunter2@ghcr.io/a", Some("https://bob:***@ghcr.io/a")),
            ("app:1@sha256:aa", None),
            ("ghcr.io/acme/app@sha256:aa", None),
            ("ghcr.io/acme/app:1", None),
        ] {
            assert_eq!(without_password(text).as_deref(), shown, "{text}");
        }
    }
}
