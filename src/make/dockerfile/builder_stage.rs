//! The image that compiles a program against CUPTI: it has the headers and the library.

use crate::facts::ImageFacts;
use crate::facts::software::cuda_runtime::CudaVersion;
use crate::make::choose::PatchError;
use crate::make::choose::copy_source::CopySource;
use crate::make::choose::image_system::read_image_system;
use crate::make::choose::methods::unread::devel_image_name;
use crate::make::choose::target::require_glibc_linker;
use crate::make::choose::target_release::choose_release;
use image_linkage::escape;

/// The image of the compiling stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BuilderStage {
    /// Its name for `FROM`.
    pub from: String,
    /// The path of its `cupti.h`, or the candidates if the image was not read.
    pub headers: Vec<String>,
    pub loader: String,
    pub soname: String,
    /// Its CUDA version, if known.
    pub cuda: Option<CudaVersion>,
    /// Whether it can install Debian packages.
    pub has_apt: bool,
}

/// The image to copy from, if it has headers and a loadable libcupti; otherwise NVIDIA's devel image.
///
/// Errors: [`PatchError::NoBuilder`] if neither is known.
pub(crate) fn choose_builder_stage(
    target: &ImageFacts,
    source: Option<CopySource<'_>>,
    asked: Option<CudaVersion>,
) -> Result<BuilderStage, PatchError> {
    let no_builder = |why| PatchError::NoBuilder {
        image: target.image.reference.clone(),
        why,
    };
    // First: no builder helps an image that cannot load the built object.
    let own = require_glibc_linker(target)?;
    if let Some(CopySource { name, facts }) = source {
        let (header, _) = facts
            .headers
            .first()
            .ok_or_else(|| no_builder("the image to copy from has no CUPTI headers"))?;
        let plain = &facts.answers.plain.as_is;
        // The stage asks its own loader for the soname, so reject a build that would fail there.
        if !plain.resolution.loads() {
            return Err(no_builder(
                "a plain process of the image to copy from does not find its libcupti",
            ));
        }
        let linker = require_glibc_linker(facts)?;
        return Ok(BuilderStage {
            from: name.to_owned(),
            headers: vec![header.to_string()],
            loader: escape::escape_bytes(&linker.path),
            soname: escape::escape_bytes(&plain.name),
            cuda: choose_release(facts, linker, asked).map(|it| it.release.cuda),
            has_apt: read_image_system(facts).apt,
        });
    }
    let system = read_image_system(target);
    let release = choose_release(target, own, asked)
        .map(|target| target.release)
        .ok_or_else(|| no_builder("the image does not show its CUDA version; pass --cuda"))?;
    let from = devel_image_name(target, &system, release.cuda);
    // The devel image is not read, so the stage tests for both.
    let folders = ["include", "extras/CUPTI/include"];
    Ok(BuilderStage {
        from: from.ok_or_else(|| no_builder("no matching devel image of NVIDIA is known; pass one with --from"))?,
        headers: folders
            .iter()
            .map(|folder| format!("/usr/local/cuda/{folder}/cupti.h"))
            .collect(),
        loader: escape::escape_bytes(&own.path),
        cuda: Some(release.cuda),
        soname: release.soname,
        has_apt: system.apt,
    })
}
