//! Chooses the source of a reference. Only this module knows all sources.

use std::path::PathBuf;

use crate::archive_file::{ArchiveFile, StdinArchive};
use crate::engine::{EngineImage, EngineKind};
use crate::host_path_kind::path_kind;
use crate::image_error::ImageError;
use crate::oci_layout::OciLayout;
use crate::platform::Platform;
use crate::reference::{ImageReference, parse_reference};
use crate::registry::{RegistryOptions, RegistrySource};
use crate::rootfs_archive::RootfsArchive;
use crate::rootfs_dir::RootfsDir;
use crate::sif_file::SifFile;
use crate::source::{ImageSource, KeepFile, OpenRequest, OpenedImage};

/// Opens the image that the user wrote as `written`.
///
/// Errors: [`ImageError::Reference`] if it names no source; else the source's own errors.
pub fn open_image(
    written: &str,
    registry: &RegistryOptions,
    request: &OpenRequest<'_>,
) -> Result<OpenedImage, ImageError> {
    ask_sources(written, registry, |source| source.open(request))
}

/// Opens the image so that its blobs can be read repeatedly. A source that can be read only once goes through `keep`,
/// which gives a file to read instead.
///
/// Errors: As [`open_image`], and those of `keep`.
pub fn open_reopenable_image(
    written: &str,
    registry: &RegistryOptions,
    request: &OpenRequest<'_>,
    keep: KeepFile<'_>,
) -> Result<OpenedImage, ImageError> {
    ask_sources(written, registry, |source| source.open_reopenable(request, keep))
}

/// The platforms of an image, in index order and without duplicates; empty if the source does not know, such as a
/// folder.
///
/// Errors: As [`open_image`]; also for standard input, which can be read only once.
pub fn list_platforms(
    written: &str,
    registry: &RegistryOptions,
    request: &OpenRequest<'_>,
) -> Result<Vec<Platform>, ImageError> {
    let mut platforms: Vec<Platform> = Vec::new();
    for platform in ask_sources(written, registry, |source| source.list_platforms(request))? {
        // A list and not a set: platforms are audited in index order.
        if !platforms.contains(&platform) {
            platforms.push(platform);
        }
    }
    Ok(platforms)
}

/// The file on the host that a reference names; `None` for a folder, and for an image elsewhere.
pub fn host_file(written: &str) -> Option<PathBuf> {
    match parse_reference(written, path_kind).ok()? {
        ImageReference::Archive { file, .. } | ImageReference::RootfsArchive(file) | ImageReference::Sif(file) => {
            Some(file)
        }
        ImageReference::Oci { .. }
        | ImageReference::Rootfs(_)
        | ImageReference::Registry(_)
        | ImageReference::Engine(..)
        | ImageReference::Stdin => None,
    }
}

/// Asks the source of an image. A bare name that Docker Hub does not give is looked for in Docker, then in Podman.
fn ask_sources<T>(
    written: &str,
    registry: &RegistryOptions,
    mut ask: impl FnMut(&dyn ImageSource) -> Result<T, ImageError>,
) -> Result<T, ImageError> {
    let asked = ask(&*find_source(written, registry)?);
    let Err(ImageError::NotFound(answer) | ImageError::Remote(answer)) = &asked else {
        return asked;
    };
    if !is_bare_name(written) {
        return asked;
    }
    let mut answers = vec![answer.clone()];
    for brand in [EngineKind::Docker, EngineKind::Podman] {
        match ask(&EngineImage::new(brand, written)) {
            Ok(found) => return Ok(found),
            // Without its advice: the name may be meant for another source.
            Err(error) => answers.extend(error.to_string().split(';').next().map(str::to_owned)),
        }
    }
    Err(ImageError::Remote(answers.join("; ")))
}

/// Whether a name says neither a scheme nor a registry.
fn is_bare_name(written: &str) -> bool {
    let named = parse_reference(written, path_kind);
    let is_of_hub = matches!(named, Ok(ImageReference::Registry(name)) if name.registry() == "docker.io");
    is_of_hub && !written.contains("docker.io/") && !written.starts_with("docker://")
}

fn find_source(written: &str, registry: &RegistryOptions) -> Result<Box<dyn ImageSource>, ImageError> {
    let reference = written.to_owned();
    Ok(match parse_reference(written, path_kind)? {
        ImageReference::Registry(name) => Box::new(RegistrySource::new(name, reference, registry.clone())),
        ImageReference::Engine(brand, name) => Box::new(EngineImage {
            reference,
            ..EngineImage::new(brand, &name)
        }),
        ImageReference::Archive { file, name, first } => Box::new(ArchiveFile {
            reference,
            file,
            name,
            first,
        }),
        ImageReference::Stdin => Box::new(StdinArchive),
        ImageReference::Oci { dir, tag } => Box::new(OciLayout { reference, dir, tag }),
        ImageReference::RootfsArchive(file) => Box::new(RootfsArchive { reference, file }),
        ImageReference::Sif(file) => Box::new(SifFile { reference, file }),
        ImageReference::Rootfs(dir) => Box::new(RootfsDir { reference, dir }),
    })
}
