//! The release of a CUPTI in use: its known faults, whether it is known at all, and the GPUs that it supports.

use super::cuda_driver::used_copies;
use super::rule_subject::{RuleSubject, escaped, flag, text};
use crate::facts::{CuptiCopy, ImageFacts};
use crate::knowledge::gpu::GpuCapability;
use crate::knowledge::rule::SubjectKind;
use crate::knowledge::{knowledge_date, version_numbers};
use image_linkage::path::RootPath;

/// The known faults of the copies in use.
pub(super) fn faults(facts: &ImageFacts) -> Vec<RuleSubject> {
    let copies = used_copies(facts).into_iter().filter(|_| facts.library.has_apis);
    let of_copy = |copy: &CuptiCopy| -> Vec<RuleSubject> {
        let version = copy.version.as_ref().map_or("", |(version, _)| version);
        let faults = facts.tables.release_faults.iter();
        let faults = faults.filter(|fault| fault.concerns(version)).map(|fault| {
            let subject = SubjectKind::ReleaseFault.subject([
                ("path", text(copy.real_path.to_string())),
                ("version", escaped(version)),
                ("what", text(fault.what.clone())),
                ("fix", text(fault.fix.clone())),
                ("source", text(fault.source.clone())),
            ]);
            subject.at([(&copy.real_path, Some(copy.layer))])
        });
        faults.collect()
    };
    copies.flat_map(of_copy).collect()
}

/// The copies in use and the frameworks that are newer than any release in the tables.
pub(super) fn newer_than_known(facts: &ImageFacts) -> Vec<RuleSubject> {
    let tables = facts.tables;
    let subject = |name: &str, version: &str, known: Vec<&str>, path: &RootPath, layer: usize| {
        let newest = known.into_iter().max_by_key(|version| version_numbers(version))?;
        // A local part, as in 2.15.0+cu130, is not of the release.
        let numbers = version_numbers(version.split('+').next()?);
        let subject = SubjectKind::NewRelease.subject([
            ("name", escaped(name)),
            ("version", escaped(version)),
            ("newest", text(newest)),
            ("date", text(knowledge_date())),
        ]);
        (numbers > version_numbers(newest)).then(|| subject.at([(path, Some(layer))]))
    };
    let copies = used_copies(facts).into_iter().filter(|_| facts.library.has_apis);
    let of_copy = copies.filter_map(|copy| {
        let (version, _) = copy.version.as_ref()?;
        let known = tables.builds.iter().map(|build| build.version.as_str());
        subject(
            &facts.library.name,
            version,
            known.collect(),
            &copy.real_path,
            copy.layer,
        )
    });
    let of_framework = facts.related.distributions.iter().filter_map(|dist| {
        let known = tables
            .framework_releases
            .iter()
            .filter(|known| known.package == dist.name);
        let known = known.map(|known| known.version.as_str()).collect();
        subject(&dist.name, &dist.version, known, &dist.metadata, dist.layer)
    });
    of_copy.chain(of_framework).collect()
}

impl RuleSubject {
    /// The copies in use, each with a GPU under the user's name for it. Copies of unknown release are skipped.
    pub fn of_gpu(facts: &ImageFacts, name: &str, gpu: &GpuCapability) -> Vec<Self> {
        let copies = used_copies(facts).into_iter();
        let known = copies.filter_map(|copy| Some((copy, copy.cuda()?)));
        let of_copy = |(copy, cuda): (&CuptiCopy, (u32, u32))| {
            let (major, minor) = cuda;
            let subject = SubjectKind::Gpu.subject([
                ("path", text(copy.real_path.to_string())),
                ("version", text(format!("{major}.{minor}"))),
                ("gpu", escaped(name)),
                ("capability", text(gpu.capability.clone())),
                ("architecture", text(gpu.architecture.clone())),
                ("supported", flag(gpu.is_supported_by(cuda))),
                ("releases", text(gpu.releases())),
            ]);
            subject.at([(&copy.real_path, Some(copy.layer))])
        };
        known.map(of_copy).collect()
    }
}
