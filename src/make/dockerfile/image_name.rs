//! The name of an image for `FROM`.

use crate::make::choose::PatchError;
use crate::make::quote;
use image_linkage::digest::Digest;
use image_source::{Image, RegistryReference, SourceKind};

/// The name of an image for `FROM`; `None` for an image in a file or folder. A registry image is pinned by the digest
/// that was read, and an engine image by its registry digest.
///
/// Errors: [`PatchError::Name`] for a name with special characters.
pub(crate) fn image_name_for_from(image: &Image) -> Result<Option<String>, PatchError> {
    let Some(name) = image.source.shared_name(&image.reference) else {
        return Ok(None);
    };
    let name = quote::require_plain("the name of an image", name.as_bytes())?;
    Ok(Some(match &image.digest {
        // Only a registry resolves a digest; FROM does not find a digest that only the engine has.
        Some(digest) if image.source == SourceKind::Docker && !name.contains('@') => {
            format!("{name}@{digest}")
        }
        _ => match pushed_digest(&name, &image.repo_digests) {
            Some(digest) => format!("{name}@{digest}"),
            None => with_tag(name),
        },
    }))
}

/// The name with a tag: `FROM` takes a name without one for a stage of the file, if there is a stage of that name.
pub(crate) fn with_tag(name: String) -> String {
    let is_bare = !name.contains(['/', ':', '@']);
    if is_bare { name + ":latest" } else { name }
}

/// The digest of the image in the registry of `name`, if it was pulled from there or pushed to it.
fn pushed_digest<'i>(name: &str, repo_digests: &'i [String]) -> Option<&'i str> {
    let last = name.rsplit('/').next().unwrap_or_default();
    // A colon before the last slash precedes a port.
    let tag = last.split_once(':').map_or(0, |(_, tag)| tag.len() + 1);
    let repository = name.get(..name.len() - tag).filter(|_| !name.contains('@'))?;
    let mut pinned = repo_digests.iter().filter_map(|pinned| pinned.split_once('@'));
    let (_, digest) = pinned.find(|(name, digest)| *name == repository && digest.parse::<Digest>().is_ok())?;
    Some(digest)
}

/// Checks a name given by the user.
///
/// Errors: It has special characters, or no engine takes it as a name.
pub(crate) fn check_image_name(name: &str) -> Result<String, String> {
    let name = quote::require_plain("the name of an image", name.as_bytes()).map_err(|error| error.to_string())?;
    let scheme = SourceKind::ALL.into_iter().map(SourceKind::scheme);
    // `docker:24-dind` is an image with a tag.
    let mut schemes = scheme.filter(|scheme| *scheme != SourceKind::Docker.scheme());
    let has_scheme = schemes.any(|scheme| name.starts_with(scheme) && name[scheme.len()..].starts_with(':'));
    if has_scheme || name.parse::<RegistryReference>().is_err() {
        return Err(format!(
            "{name} is no name that FROM could take; expected one such as trainer:1"
        ));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::{check_image_name, image_name_for_from, with_tag};
    use image_source::{Image, ImageConfig, Platform, SourceKind};

    fn name(reference: &str, source: SourceKind) -> Result<Option<String>, String> {
        let digest = format!("sha256:{}", "a".repeat(64));
        let image = Image {
            reference: reference.to_owned(),
            source,
            digest: digest.parse().ok(),
            repo_digests: vec![format!("reg:5000/a/x@{digest}")],
            platform: Platform::host(),
            config: ImageConfig::default(),
            layers: Vec::new(),
        };
        let name = image_name_for_from(&image).map_err(|refusal| refusal.to_string())?;
        Ok(name.map(|name| name.replace(&digest, "DIGEST")))
    }

    #[test]
    fn a_bare_name_gets_a_tag_so_that_no_stage_is_taken_for_it() {
        for (given, expected) in [
            ("training", "training:latest"),
            ("training:1", "training:1"),
            ("a/training", "a/training"),
            ("training@sha256:0", "training@sha256:0"),
        ] {
            assert_eq!(with_tag(given.to_owned()), expected);
        }
        let of_engine = name("docker-daemon:training", SourceKind::DockerDaemon);
        assert_eq!(of_engine, Ok(Some("training:latest".to_owned())));
    }

    #[test]
    fn which_names_can_from_take() {
        for name in ["trainer:1", "reg:5000/a/x:1", "docker:24-dind", "base-training"] {
            assert_eq!(check_image_name(name).as_deref(), Ok(name));
        }
        for name in ["oci:x", "docker-daemon:x:1", "docker://x", "./x", "NAME", "x AS y"] {
            assert!(check_image_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn an_image_of_a_registry_is_pinned_and_one_in_a_file_has_no_name() {
        let some = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(name("docker://x/y:1", SourceKind::Docker), some("x/y:1@DIGEST"));
        assert_eq!(name("x@sha256:b", SourceKind::Docker), some("x@sha256:b"));
        assert_eq!(name("docker-daemon:x:1", SourceKind::DockerDaemon), some("x:1"));
        assert_eq!(
            name("docker-daemon:reg:5000/a/x:1", SourceKind::DockerDaemon),
            some("reg:5000/a/x:1@DIGEST")
        );
        assert_eq!(
            name("docker-daemon:reg:5000/a/x", SourceKind::DockerDaemon),
            some("reg:5000/a/x@DIGEST")
        );
        assert_eq!(
            name("docker-daemon:reg:5000/a/y:1", SourceKind::DockerDaemon),
            some("reg:5000/a/y:1")
        );
        assert_eq!(name("podman:x:1", SourceKind::Podman), some("x:1"));
        assert_eq!(name("oci:x", SourceKind::Oci), Ok(None));
        assert!(name("docker-daemon:x AS y", SourceKind::DockerDaemon).is_err());
    }
}
