//! A Docker Engine. The archive is streamed to it and never stored.

use std::io::{self, BufWriter, Write as _};

use super::OutputAccess;
use super::archive;
use crate::make::slim::SlimError;
use crate::make::slim::new_image::NewImage;
use crate::make::whole_file::ExistingOutput;
use image_linkage::limits::Limits;
use image_source::ImageError;
use image_source::{EngineImage, EngineKind};

/// Checks that the engine does not have the image, or that it may be replaced.
pub(super) fn check_name_free(name: &str, reach: &OutputAccess<'_>) -> Result<(), SlimError> {
    let there = EngineImage::new(EngineKind::Docker, name).exists(&Limits::default())?;
    if there && reach.existing == ExistingOutput::Stays {
        return Err(SlimError::Exists(format!("docker-daemon:{name}")));
    }
    Ok(())
}

/// Loads the image. A truncated archive lacks `manifest.json`, so an engine does not load any of it.
pub(super) fn load_image(made: &NewImage<'_>, name: &str, reach: &OutputAccess<'_>) -> Result<String, SlimError> {
    // Check again, because building the image took time.
    check_name_free(name, reach)?;
    let engine = EngineImage::new(EngineKind::Docker, name);
    stream_archive(made, name, |archive| engine.load(archive, &Limits::default()))?;
    Ok(format!("docker-daemon:{name} ({})", made.config_digest()))
}

/// Streams an archive of the image to `take`.
///
/// Errors: An error of either end.
pub(super) fn stream_archive<T>(
    made: &NewImage<'_>,
    name: &str,
    take: impl FnOnce(io::PipeReader) -> Result<T, ImageError>,
) -> Result<T, SlimError> {
    let (reader, writer) = io::pipe().map_err(|error| SlimError::Cannot(format!("a pipe: {error}")))?;
    let (written, taken) = std::thread::scope(|scope| {
        // The closure owns the pipe's write end, so the reader sees the end of the archive.
        let writing = scope.spawn(move || {
            let mut out = BufWriter::with_capacity(256 << 10, writer);
            archive::write_docker_tar(made, Some(name), &mut out)?;
            out.flush()
                .map_err(|error| SlimError::Cannot(format!("the engine hung up: {error}")))
        });
        let taken = take(reader);
        (writing.join(), taken)
    });
    let written =
        written.unwrap_or_else(|_panic| Err(SlimError::Cannot("the archive could not be written".to_owned())));
    // If the reader fails, the writer's broken pipe is only a consequence.
    match (taken, written) {
        (Ok(taken), written) => written.map(|()| taken),
        (Err(error), Err(written)) if !is_broken_pipe(&written) => {
            Err(SlimError::Cannot(format!("{written}; {error}")))
        }
        (Err(error), _) => Err(error.into()),
    }
}

fn is_broken_pipe(error: &SlimError) -> bool {
    error.to_string().contains("Broken pipe")
}
