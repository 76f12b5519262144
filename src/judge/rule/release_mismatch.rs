//! Determines the CUPTI release that a program was made for, if possible.

use crate::facts::ImageFacts;
use crate::facts::software::consumers::CuptiConsumer;
use crate::facts::software::copies::CuptiCopy;
use crate::facts::software::cuda_runtime::{parse_cuda_version, site_packages_of};
use crate::facts::software::requirements::UnmetRequirement;
use image_linkage::loader::{SearchStage, SimulatedProcess};
use image_linkage::path::RootPath;

/// A program that gets another CUPTI release than it was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseMismatch {
    /// The release it gets.
    pub loaded: String,
    /// The release it was made for.
    pub meant: String,
    /// The source: the copy on its own search path, or the metadata that pins a version.
    pub says: RootPath,
    /// Whether the release it gets is older.
    pub older: bool,
}

/// Whether a program gets another CUPTI release, by major and minor version, than its own search path or metadata
/// names.
pub fn find_release_mismatch(facts: &ImageFacts, consumer: &CuptiConsumer) -> Option<ReleaseMismatch> {
    let copy = consumer.outcome.as_is.answer.real_path()?;
    let loaded = release(facts, copy)?;
    // A copy on its own search path is direct evidence; metadata only shows the intent.
    let (says, meant) = own(facts, consumer).or_else(|| pinned(facts, consumer))?;
    let (now, then) = (parse_cuda_version(&loaded)?, parse_cuda_version(&meant)?);
    // If its own search path leads to this copy, there is no contradiction.
    (now != then && says != *copy).then_some(ReleaseMismatch {
        loaded,
        meant,
        says,
        older: now < then,
    })
}

fn release(facts: &ImageFacts, path: &RootPath) -> Option<String> {
    let of = |copy: &CuptiCopy| copy.version.as_ref().map(|(version, _)| version.clone());
    facts
        .answers
        .copies
        .iter()
        .find(|copy| copy.real_path == *path)
        .and_then(of)
}

/// The copy on the program's own search path, and its release.
fn own(facts: &ImageFacts, consumer: &CuptiConsumer) -> Option<(RootPath, String)> {
    let context = &facts.contexts.as_is;
    let directories = context.with_setup(|setup| SimulatedProcess::search_path(setup, &consumer.object))?;
    let own = directories
        .into_iter()
        .filter(|(stage, _)| matches!(stage, SearchStage::Rpath(_) | SearchStage::Runpath(_)));
    own.into_iter().find_map(|(_, directory)| {
        let found = context
            .rootfs
            .lookup(&[&*directory, &consumer.requested_name].concat())
            .ok()?;
        let release = release(facts, &found.path)?;
        Some((found.path, release))
    })
}

/// The CUPTI version that the program's distribution pins.
fn pinned(facts: &ImageFacts, consumer: &CuptiConsumer) -> Option<(RootPath, String)> {
    let wheel = facts.library.wheels.pin.as_deref()?;
    let site = site_packages_of(&consumer.object)?;
    // The folder below site-packages usually has the distribution's name, as with `torch`.
    let inside = consumer
        .object
        .split_components()
        .nth(site.split_components().count())?;
    let dist = facts
        .related
        .distributions
        .iter()
        .find(|dist| dist.site == site && dist.name.as_bytes() == inside)?;
    // The name has a CUDA suffix, such as `-cu12`; since CUDA 13 it has none.
    let mut pins = dist.pins.iter().filter(|pin| !pin.is_optional);
    let pin = pins.find(|pin| pin.name.starts_with(wheel))?;
    // The requirement's own finding already reports an installed wheel of another version.
    let mut unmet = facts.related.unmet.iter();
    let is_told = |one: &UnmetRequirement| one.metadata == dist.metadata && one.requirement.name == pin.name;
    if unmet.any(|one| is_told(one) && one.installed.is_some()) {
        return None;
    }
    Some((dist.metadata.clone(), pin.version.clone()))
}
