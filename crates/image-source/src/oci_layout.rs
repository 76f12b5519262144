//! An OCI image layout in a folder (image-spec, image-layout.md).
#![expect(clippy::disallowed_methods, reason = "an image source reads the host")]

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::archive::{
    DocumentStore, OpenedDocument, PreferredDocument, WantedImage, choose_layout_image, list_layout_platforms,
    missing_member, name_member,
};
use crate::image::LayerDescriptor;
use crate::image_error::ImageError;
use crate::platform::Platform;
use crate::source::{BlobStore, ImageSource, KeepFile, OpenRequest, OpenedImage, OpenedLayers};
use crate::source_kind::SourceKind;
use image_linkage::path::RootPath;

/// An image in an OCI layout folder.
#[derive(Debug, Clone)]
pub struct OciLayout {
    /// The reference as the user wrote it.
    pub reference: String,
    /// The host folder that contains `oci-layout`.
    pub dir: PathBuf,
    /// The tag, name or digest of the image; required if the layout has several.
    pub tag: Option<String>,
}

impl OciLayout {
    fn folder(&self) -> LayoutFolder {
        LayoutFolder {
            what: self.dir.display().to_string(),
            dir: self.dir.clone(),
        }
    }

    fn wanted(&self) -> WantedImage<'_> {
        WantedImage {
            reference: &self.reference,
            name: self.tag.as_deref(),
            docker: SourceKind::DockerArchive,
            first: PreferredDocument::OciIndex,
        }
    }
}

impl ImageSource for OciLayout {
    /// Reads the documents. Blobs are opened later, in place.
    fn open(&self, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError> {
        let folder = self.folder();
        let chosen = choose_layout_image(&folder, SourceKind::Oci, &self.wanted(), request)?;
        let blobs = FolderBlobs {
            folder,
            layers: chosen.image.layers.clone(),
            names: chosen.members,
        };
        Ok(OpenedImage {
            image: chosen.image,
            documents: chosen.documents,
            layers: OpenedLayers::Blobs(Box::new(blobs)),
            home: None,
        })
    }

    fn list_platforms(&self, request: &OpenRequest<'_>) -> Result<Vec<Platform>, ImageError> {
        list_layout_platforms(&self.folder(), &self.wanted(), request)
    }

    fn open_reopenable(&self, request: &OpenRequest<'_>, _keep: KeepFile<'_>) -> Result<OpenedImage, ImageError> {
        self.open(request)
    }
}

/// The folder of a layout, and its name in errors.
struct LayoutFolder {
    /// The name in errors.
    what: String,
    /// The host folder that contains `blobs`.
    dir: PathBuf,
}

impl LayoutFolder {
    /// Opens a regular file below the folder. Rejects symbolic links, which could lead anywhere on the host. `name`
    /// consists of fixed words and hexadecimal digits.
    fn file(&self, name: &RootPath) -> Result<Option<(File, u64)>, ImageError> {
        match regular_file(&self.dir, name) {
            Ok(file) => Ok(Some(file)),
            // If the folder itself is missing, report that and not a missing document.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.dir.is_dir() => match layout_in(&self.dir) {
                Some(inner) if name.as_bytes() == b"oci-layout" => {
                    let reason = format!(
                        "it has no oci-layout file; name a folder in it that has one, such as {}",
                        inner.display()
                    );
                    Err(ImageError::not_an_image(&self.what, reason))
                }
                _ => Ok(None),
            },
            Err(error) if !self.dir.is_dir() => Err(ImageError::io(self.dir.display())(error)),
            Err(error) => Err(ImageError::io(name_member(self, name))(error)),
        }
    }
}

/// The first folder in `dir`, by name, that is a layout. Only a part of a large folder is searched.
fn layout_in(dir: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).ok()?.take(1000);
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.join("oci-layout").is_file()).min()
}

fn regular_file(dir: &Path, name: &RootPath) -> io::Result<(File, u64)> {
    // Each parent folder is checked too: `blobs` could be a symbolic link.
    let mut path = dir.to_owned();
    let mut components = name.split_components().peekable();
    while let Some(component) = components.next() {
        // Escaping leaves fixed words and hexadecimal digits unchanged, and keeps any other byte out of a host path.
        path.push(image_linkage::escape::escape_bytes(component));
        let kind = fs::symlink_metadata(&path)?.file_type();
        let fits = match components.peek() {
            Some(_) => kind.is_dir(),
            None => kind.is_file(),
        };
        if !fits {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "blobs have to be regular files below the layout's folder, and a link may lead out of it",
            ));
        }
    }
    let file = File::open(&path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

impl DocumentStore for LayoutFolder {
    fn what(&self) -> &str {
        &self.what
    }

    fn open(&self, name: &RootPath) -> Result<Option<OpenedDocument<'_>>, ImageError> {
        let file = self.file(name)?;
        Ok(file.map(|(file, bytes)| (Box::new(file) as Box<dyn Read>, bytes)))
    }
}

/// The layers of one image in the folder.
struct FolderBlobs {
    folder: LayoutFolder,
    layers: Vec<LayerDescriptor>,
    /// The blob of each layer, in the same order.
    names: Vec<RootPath>,
}

impl BlobStore for FolderBlobs {
    fn open(&self, layer: &LayerDescriptor) -> Result<Box<dyn Read + Send>, ImageError> {
        let position = self.layers.iter().position(|known| known == layer);
        let Some(name) = position.and_then(|at| self.names.get(at)) else {
            return Err(ImageError::NotFound(format!("{} has no such layer", self.folder.what)));
        };
        let (file, found) = match self.folder.file(name)? {
            Some(file) => file,
            None if layer.is_foreign() => {
                return Err(ImageError::NotFound(format!(
                    "{} does not hold the foreign layer {}; ask the registry for the image",
                    self.folder.what,
                    image_linkage::escape::escape_bytes(name.as_bytes())
                )));
            }
            None => return Err(missing_member(&self.folder.what, name)),
        };
        match layer.size.filter(|&size| size != found) {
            Some(expected) => Err(ImageError::Size {
                what: name_member(&self.folder, name),
                expected,
                found,
            }),
            None => Ok(Box::new(file)),
        }
    }

    fn find(&self, layer: &LayerDescriptor) -> Result<(), ImageError> {
        self.open(layer).map(drop)
    }
}
