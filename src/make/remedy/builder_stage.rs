//! The image in which a program is compiled against CUPTI: it has the headers and the library.

use super::RemedyError;
use super::copy_plan::require_glibc_linker;
use super::image_system::read_image_system;
use super::method_choice::devel_image_name;
use super::target_release::choose_release;
use crate::judge::facts::ImageFacts;
use crate::judge::facts::cuda_runtime::CudaVersion;
use image_linkage::escape;
use image_linkage::path::RootPath;

/// The image in which something is compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuilderStage {
    /// Its name, as `FROM` takes it.
    pub from: String,
    /// Where its `cupti.h` lies; one of several where it was not read.
    pub headers: Vec<RootPath>,
    /// Its loader.
    pub loader: String,
    /// The soname of its libcupti.
    pub soname: String,
    /// Whether packages of Debian's kind can be installed in it.
    pub has_apt: bool,
}

/// The image to copy from, where it has headers and a libcupti that is found; else NVIDIA's devel image.
///
/// Errors: [`RemedyError::NoBuilder`], where neither is known.
pub fn choose_builder_stage(
    target: &ImageFacts,
    source: Option<&(String, ImageFacts)>,
    asked: Option<CudaVersion>,
) -> Result<BuilderStage, RemedyError> {
    let no_builder = |why| RemedyError::NoBuilder {
        image: target.image.reference.clone(),
        why,
    };
    let own = require_glibc_linker(target)?;
    if let Some((from, facts)) = source {
        let (header, _) = facts
            .headers
            .first()
            .ok_or_else(|| no_builder("the image to copy from has no headers of CUPTI"))?;
        let plain = &facts.plain.as_is;
        if !plain.resolution.loads() {
            return Err(no_builder(
                "a plain process of the image to copy from does not find its libcupti",
            ));
        }
        return Ok(BuilderStage {
            from: from.clone(),
            headers: vec![header.clone()],
            loader: escape::escape_bytes(&require_glibc_linker(facts)?.path),
            soname: escape::escape_bytes(&plain.name),
            has_apt: read_image_system(facts).apt,
        });
    }
    let system = read_image_system(target);
    let release = choose_release(target, own, asked);
    let release = release
        .map(|target| target.release)
        .ok_or_else(|| no_builder("nothing says which CUDA it is for; --cuda names it"))?;
    let from = devel_image_name(target, &system, release.cuda);
    let folders = ["include", "extras/CUPTI/include"];
    Ok(BuilderStage {
        from: from.ok_or_else(|| {
            no_builder("which devel image of NVIDIA's belongs to it is not known; --from names one")
        })?,
        headers: folders
            .iter()
            .map(|folder| RootPath::from(format!("usr/local/cuda/{folder}/cupti.h").as_str()))
            .collect(),
        loader: escape::escape_bytes(&own.path),
        soname: release.soname,
        has_apt: system.apt,
    })
}
