//! The output of a new image.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::layout::KeptBlobs;
use super::written_image::WrittenImage;
use super::{OutputAccess, archive, engine, layout, registry};
use crate::make::slim::SlimError;
use crate::make::slim::new_image::{ImageForm, LayerStorage, NewImage};
use crate::make::slim::new_manifest::MediaFamily;
use crate::make::whole_file::{OutputPlace, folder_of, look_at_place, settle};
use image_source::{PreferredDocument, RegistryReference};
use image_store::UnfinishedFolder;

/// The output syntax for error messages.
const EXPECTED: &str = "expected oci:DIR[:TAG], oci-archive:FILE[:TAG], docker-archive:FILE[:NAME], \
    docker-daemon:NAME or docker://REGISTRY/NAME[:TAG]";

/// An output for an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageOutput {
    /// An OCI image layout in a folder, new or existing.
    Layout { dir: PathBuf, tag: Option<String> },
    /// An OCI image layout in a tar archive.
    LayoutArchive { file: PathBuf, tag: Option<String> },
    /// An archive in the format of `docker save`.
    DockerArchive {
        file: PathBuf,
        /// The image name in the archive.
        name: Option<String>,
    },
    /// A Docker Engine, with the image's name.
    DockerDaemon(String),
    Registry {
        /// The name with Docker Hub's defaults.
        reference: RegistryReference,
        /// The name as the user wrote it.
        written: String,
    },
}

impl ImageOutput {
    /// Parses an output from the command line.
    ///
    /// Errors: What is wrong with the text, and the output syntax.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("docker://") {
            let reference = name
                .parse::<RegistryReference>()
                .map_err(|error| format!("{error}; {EXPECTED}"))?;
            return Ok(Self::Registry {
                reference,
                written: text.to_owned(),
            });
        }
        let (scheme, rest) = text.split_once(':').ok_or(EXPECTED)?;
        if rest.is_empty() {
            return Err(format!("nothing stands after {scheme}:"));
        }
        // Split at the first colon like other tools; a path with a colon is not supported.
        let (path, name) = match rest.split_once(':') {
            Some((path, name)) if !name.is_empty() => (path, Some(name.to_owned())),
            Some((path, _)) => (path, None),
            None => (rest, None),
        };
        if path == "-" && scheme != "docker-daemon" {
            return Err(format!(
                "{scheme}:/dev/stdout writes into a pipe; a file called - is ./-"
            ));
        }
        match scheme {
            "oci" => Ok(Self::Layout {
                dir: path.into(),
                tag: name,
            }),
            "oci-archive" => Ok(Self::LayoutArchive {
                file: path.into(),
                tag: name,
            }),
            "docker-archive" => Ok(Self::DockerArchive {
                file: path.into(),
                name: name.map(|name| tagged(&name)).transpose()?,
            }),
            "docker-daemon" => Ok(Self::DockerDaemon(tagged(rest)?)),
            _ => Err(EXPECTED.to_owned()),
        }
    }

    /// How the output stores an image; `original` is the manifest of the original image.
    pub(crate) fn image_form(&self, original: Option<&[u8]>) -> ImageForm {
        let (storage, family) = match self {
            // A layout only uses OCI types: skopeo and umoci skip index entries of other types (image-spec,
            // image-index.md).
            Self::Layout { .. } | Self::LayoutArchive { .. } => (LayerStorage::Blobs, MediaFamily::Oci),
            Self::Registry { .. } => return ImageForm::of_registry(original),
            Self::DockerArchive { .. } | Self::DockerDaemon(_) => {
                (LayerStorage::Tars, MediaFamily::of_manifest(original))
            }
        };
        ImageForm { storage, family }
    }

    /// Creates a folder beside the output for files that are not yet in place.
    ///
    /// Errors: Why it cannot be created.
    pub(crate) fn create_staging_folder(&self) -> Result<UnfinishedFolder, SlimError> {
        // Beside the output, because a rename does not work across file systems.
        let beside = self.path().filter(|_| !self.is_stream());
        let at = beside.map_or_else(std::env::temp_dir, |path| folder_of(&settle(path)).to_owned());
        UnfinishedFolder::new(&at).map_err(|error| match error.kind() {
            ErrorKind::NotFound => SlimError::Cannot(format!("{} is no folder that could be written in", at.display())),
            kind => SlimError::Cannot(format!("{} cannot be written in: {kind}", at.display())),
        })
    }

    /// Whether the output is a pipe or a device.
    pub(crate) fn is_stream(&self) -> bool {
        let archive = self.path().filter(|_| !matches!(self, Self::Layout { .. }));
        archive.is_some_and(|file| look_at_place(file).is_ok_and(|place| place == OutputPlace::Stream))
    }

    /// The host path of the output.
    fn path(&self) -> Option<&Path> {
        match self {
            Self::Layout { dir: path, .. }
            | Self::LayoutArchive { file: path, .. }
            | Self::DockerArchive { file: path, .. } => Some(path),
            Self::DockerDaemon(_) | Self::Registry { .. } => None,
        }
    }

    /// Checks that the output does not exist, before gigabytes are read.
    ///
    /// Errors: The output exists, or why that is unknown.
    pub(crate) fn check_free(&self, reach: &OutputAccess<'_>) -> Result<(), SlimError> {
        match self {
            Self::Layout { dir, tag } => layout::check_tag_free(dir, tag.as_deref(), reach.existing),
            Self::LayoutArchive { file, .. } | Self::DockerArchive { file, .. } => {
                archive::check_file_free(file, reach.existing)
            }
            Self::DockerDaemon(name) => engine::check_name_free(name, reach),
            Self::Registry { reference, written } => registry::check_tag_unused(reference, written, reach),
        }
    }

    /// Writes a new image into or beside `folder`, its staging folder, so that it can be read back.
    ///
    /// Errors: Why it could not be written.
    pub(crate) fn write_image(&self, made: &NewImage<'_>, folder: &Path) -> Result<WrittenImage, SlimError> {
        match self {
            Self::Layout { tag, .. } => {
                let written = layout::write_layout(made, tag.as_deref(), KeptBlobs::Copied, folder);
                written.map(|dir| WrittenImage::Layout(dir, KeptBlobs::Copied))
            }
            Self::Registry { .. } => WrittenImage::of_new_blobs(made, folder),
            Self::LayoutArchive { tag, .. } => {
                archive::write_archive(folder, |out| archive::write_layout_tar(made, tag.as_deref(), out))
                    .map(|file| WrittenImage::Archive(file, PreferredDocument::OciIndex))
            }
            Self::DockerArchive { name, .. } => {
                archive::write_archive(folder, |out| archive::write_docker_tar(made, name.as_deref(), out))
                    .map(|file| WrittenImage::Archive(file, PreferredDocument::DockerManifest))
            }
            Self::DockerDaemon(name) => Ok(WrittenImage::Stream(name.clone())),
        }
    }

    /// Moves a new image into place after [`ImageOutput::write_image`]. Returns a text for the user.
    ///
    /// Errors: Why it failed; the output is then unchanged.
    pub(crate) fn place_image(
        &self,
        made: &NewImage<'_>,
        written: WrittenImage,
        reach: &OutputAccess<'_>,
    ) -> Result<String, SlimError> {
        match (self, written) {
            (Self::Layout { dir, tag }, WrittenImage::Layout(new, _)) => {
                layout::place_layout(made, &new, dir, tag.as_deref(), reach.existing)
            }
            (
                Self::LayoutArchive { file, .. } | Self::DockerArchive { file, .. },
                WrittenImage::Archive(archive, _),
            ) => archive::place_archive(archive, file, reach.existing),
            (Self::DockerDaemon(name), _) => engine::load_image(made, name, reach),
            (Self::Registry { reference, written }, _) => registry::push_image(made, reference, written, reach),
            (Self::Layout { .. } | Self::LayoutArchive { .. } | Self::DockerArchive { .. }, _) => {
                Err(SlimError::Cannot("it was written for another place".to_owned()))
            }
        }
    }
}

impl std::fmt::Display for ImageOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (scheme, path, name) = match self {
            Self::Layout { dir, tag } => ("oci", dir, tag),
            Self::LayoutArchive { file, tag } => ("oci-archive", file, tag),
            Self::DockerArchive { file, name } => ("docker-archive", file, name),
            Self::DockerDaemon(name) => return write!(f, "docker-daemon:{name}"),
            Self::Registry { written, .. } => return f.write_str(written),
        };
        write!(f, "{scheme}:{}", path.display())?;
        name.as_ref().map_or(Ok(()), |name| write!(f, ":{name}"))
    }
}

/// A name for an engine, always with a tag.
fn tagged(name: &str) -> Result<String, String> {
    let reference = name
        .parse::<RegistryReference>()
        .map_err(|error| format!("{name}: {error}"))?;
    if reference.digest().is_some() {
        return Err(format!("{name}: an image is given a tag; its digest follows from it"));
    }
    // A colon before the last slash precedes a registry's port.
    let has_tag = name.rsplit('/').next().is_some_and(|last| last.contains(':'));
    Ok(if has_tag {
        name.to_owned()
    } else {
        format!("{name}:latest")
    })
}

#[cfg(test)]
mod tests {
    use super::ImageOutput;

    fn read(text: &str) -> String {
        match ImageOutput::parse(text) {
            Ok(output) => format!("{:?} {output}", output.image_form(None).storage),
            Err(error) => error,
        }
    }

    #[test]
    fn outputs_are_read_as_they_are_written() {
        for (text, expected) in [
            ("oci:out", "Blobs oci:out"),
            ("oci:out:1", "Blobs oci:out:1"),
            ("oci-archive:o.tar", "Blobs oci-archive:o.tar"),
            ("docker-archive:o.tar:app", "Tars docker-archive:o.tar:app:latest"),
            ("docker-daemon:app", "Tars docker-daemon:app:latest"),
            ("docker-daemon:r:5000/app:2", "Tars docker-daemon:r:5000/app:2"),
            ("docker://r/app", "Blobs docker://r/app"),
            ("oci:", "nothing stands after oci:"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        for text in ["out", "dir:out", "podman:x"] {
            assert_eq!(read(text), super::EXPECTED, "{text}");
        }
        assert!(read("docker-daemon:App").contains("App: "));
        let digest = format!("docker-daemon:app@sha256:{}", "0".repeat(64));
        assert!(read(&digest).contains("an image is given a tag"));
    }
}
