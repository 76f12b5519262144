//! Which copy of CUPTI a program was made for, where that can be known.

use crate::facts::ImageFacts;
use crate::facts::software::consumers::CuptiConsumer;
use crate::facts::software::copies::CuptiCopy;
use crate::facts::software::cuda_runtime::{parse_cuda_version, site_packages_of};
use crate::facts::software::requirements::UnmetRequirement;
use image_linkage::loader::{SearchStage, SimulatedProcess};
use image_linkage::path::RootPath;

/// A program that gets another release of CUPTI than it was made for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReleaseMismatch {
    /// The release it gets.
    pub gets: String,
    /// The release it was made for.
    pub meant: String,
    /// What says so: the copy on its own search path, or the metadata that asks for an exact version.
    pub says: RootPath,
    /// Whether what it gets is older.
    pub older: bool,
}

/// Whether a program gets another release of CUPTI, by major and minor version, than the copy on its own
/// search path, or than its metadata asks for.
pub fn find_release_mismatch(facts: &ImageFacts, consumer: &CuptiConsumer) -> Option<ReleaseMismatch> {
    let got = consumer.outcome.as_is.real_path.as_ref()?;
    let gets = release(facts, got)?;
    // A copy that its own search path leads to is there to be seen; metadata says what was asked for.
    let (says, meant) = own(facts, consumer).or_else(|| pinned(facts, consumer))?;
    let (now, then) = (parse_cuda_version(&gets)?, parse_cuda_version(&meant)?);
    // Where its own search path leads to what it gets, that copy cannot speak against itself.
    (now != then && says != *got).then_some(ReleaseMismatch {
        gets,
        meant,
        says,
        older: now < then,
    })
}

fn release(facts: &ImageFacts, path: &RootPath) -> Option<String> {
    let of = |copy: &CuptiCopy| copy.version.as_ref().map(|(version, _)| version.clone());
    facts.copies.iter().find(|copy| copy.real_path == *path).and_then(of)
}

/// The copy that the program's own search path leads to, and its release.
fn own(facts: &ImageFacts, consumer: &CuptiConsumer) -> Option<(RootPath, String)> {
    let context = &facts.contexts.as_is;
    let directories = context.with_setup(|setup| SimulatedProcess::search_path(setup, &consumer.object))?;
    let own = directories
        .into_iter()
        .filter(|(stage, _)| matches!(stage, SearchStage::Rpath(_) | SearchStage::Runpath(_)));
    own.into_iter().find_map(|(_, directory)| {
        let found = context.rootfs.lookup(&[&*directory, &consumer.wants].concat()).ok()?;
        let release = release(facts, &found.path)?;
        Some((found.path, release))
    })
}

/// The version of CUPTI that the program's distribution asks for.
fn pinned(facts: &ImageFacts, consumer: &CuptiConsumer) -> Option<(RootPath, String)> {
    let wheel = facts.library.wheels.pin.as_deref()?;
    let site = site_packages_of(&consumer.object)?;
    // The folder below site-packages mostly has the name of the distribution, as with `torch`.
    let inside = consumer
        .object
        .split_components()
        .nth(site.split_components().count())?;
    let dist = facts
        .related
        .distributions
        .iter()
        .find(|dist| dist.site == site && dist.name.as_bytes() == inside)?;
    // The name goes on with its CUDA, `-cu12`, and with nothing since CUDA 13.
    let (name, version) = dist.pins.iter().find(|(name, _)| name.starts_with(wheel))?;
    // That another version of the wheel is installed is told of the requirement.
    let mut unmet = facts.related.unmet.iter();
    let is_told = |one: &UnmetRequirement| one.metadata == dist.metadata && one.requirement.name == *name;
    if unmet.any(|one| is_told(one) && one.installed.is_some()) {
        return None;
    }
    Some((dist.metadata.clone(), version.clone()))
}
