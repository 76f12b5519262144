//! The wanted image in an archive, name comparison, and errors for missing names.

use image_linkage::path::RootPath;

use crate::image::Image;
use crate::image_error::ImageError;
use crate::registry_reference::RegistryReference;
use crate::source::ImageDocuments;
use crate::source_kind::SourceKind;

/// The wanted image in an archive.
#[derive(Debug, Clone, Copy)]
pub struct WantedImage<'a> {
    /// The reference as written by the user, for errors and reports.
    pub reference: &'a str,
    /// The name, tag, digest or ID of the image. Needed only if there are several.
    pub name: Option<&'a str>,
    /// The reported source kind for an image found through `manifest.json`.
    pub docker: SourceKind,
    /// The preferred document if an archive has both.
    pub first: PreferredDocument,
}

/// The document that lists the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreferredDocument {
    /// `manifest.json`, read by `docker load`.
    DockerManifest,
    /// `index.json`, defined by image-spec.
    OciIndex,
}

impl WantedImage<'_> {
    pub(super) fn ambiguous<'a>(&self, there: impl Iterator<Item = &'a str>) -> ImageError {
        ImageError::reference(
            self.reference,
            format!("it holds several images, name one of {}", listed(there)),
        )
    }
}

/// The error for an unknown image name.
pub(super) fn name_not_found<'a>(what: &str, name: &str, there: impl Iterator<Item = &'a str>) -> ImageError {
    let there = listed(there);
    ImageError::NotFound(format!("{what} has no image {name:?}; it has {there}"))
}

/// At most twenty names, escaped.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<String> = names
        .map(|name| image_linkage::escape::escape_bytes(name.as_bytes()))
        .collect();
    // An archive may have hundreds of images, a hostile one a million names.
    let more = names.len().saturating_sub(20);
    names.truncate(20);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    if names.is_empty() {
        return "none with a name".to_owned();
    }
    names.join(", ")
}

/// An image and the archive members of its layers.
pub(crate) struct ChosenImage {
    pub image: Image,
    pub documents: ImageDocuments,
    /// One member per layer, in order.
    pub members: Vec<RootPath>,
}

/// Why a sparse member cannot be read.
pub(super) fn sparse_reason(name: &RootPath) -> String {
    format!(
        "its member {} is stored as a sparse file; pack the archive without --sparse",
        image_linkage::escape::escape_bytes(name.as_bytes())
    )
}

/// Whether two names refer to the same image after applying Docker Hub's defaults.
pub(super) fn same_name(one: &str, other: &str) -> bool {
    // Compare literally first: `<none>:<none>` is not a valid reference but may be an image's name.
    one == other
        || match (one.parse::<RegistryReference>(), other.parse::<RegistryReference>()) {
            (Ok(one), Ok(other)) => one == other,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::{listed, same_name};

    #[test]
    fn names_are_compared_with_docker_hubs_defaults() {
        for (one, other, same) in [
            ("ubuntu", "docker.io/library/ubuntu:latest", true),
            ("app:1", "docker.io/library/app:1", true),
            ("localhost/app:1", "app:1", false),
            ("app:1", "app:2", false),
            ("<none>:<none>", "<none>:<none>", true),
            ("<none>", "app", false),
        ] {
            assert_eq!(same_name(one, other), same, "{one} {other}");
            assert_eq!(same_name(other, one), same, "{other} {one}");
        }
    }

    #[test]
    fn long_lists_are_cut_and_names_are_escaped() {
        assert_eq!(listed(["a", "b\x1b"].into_iter()), "a, b\\x1b");
        assert_eq!(listed(std::iter::empty()), "none with a name");
        let many = vec!["x"; 25];
        assert!(listed(many.into_iter()).ends_with("x, 5 more"));
    }
}
