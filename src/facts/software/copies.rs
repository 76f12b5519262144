//! Describes the copies of the library: version, owner, how the loader finds each, and its users.

use crate::facts::objects::plain_open::PlainOpen;
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::opened_object;
use crate::facts::objects::world::ByWorld;
use crate::facts::software::consumers::{CuptiConsumer, TrialCase};
use crate::facts::software::copy_version::{CopyVersions, VersionSource};
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::facts::software::file_owner::{self, FileOwner, OwnerKind};
use crate::knowledge::{Knowledge, ReleaseFile};
use image_linkage::elf::{ByteString, ElfFacts, ElfProblem};
use image_linkage::loader::{LoadResolution, SearchStage, object_machine};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{AccessDenial, FileUse, LookupError, Rootfs};
use std::collections::BTreeMap;

/// A copy of libcupti.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CuptiCopy {
    /// The path at which a plain dlopen finds it, else the path of the file.
    pub path: ByteString,
    /// The path with links resolved.
    pub real_path: RootPath,
    /// The layer of the file.
    pub layer: usize,
    /// The soname; `None` if the file is not a library.
    pub soname: Option<ByteString>,
    /// The version and its source, if known.
    pub version: Option<(String, VersionSource)>,
    /// The size in bytes.
    pub bytes: u64,
    /// The processor; `None` if the file is not a library.
    pub machine: Option<String>,
    /// The package it belongs to.
    pub owner: FileOwner,
    /// Whether only the tool that contains it uses it.
    pub private: bool,
    /// Whether a plain dlopen of its soname finds this file and succeeds.
    pub loadable: ByWorld<bool>,
    /// How that dlopen finds it, in the image as it is, else under the container runtime.
    pub how: Option<SearchStage>,
    /// The result of opening it by path, with its dependencies.
    pub by_path: ByWorld<LoadResolution>,
    /// The consumers that get it, by index.
    pub used_by: Vec<usize>,
    /// The denial if the image's user cannot read the file.
    pub denial: Option<AccessDenial>,
    /// The defects of the file.
    pub problems: Vec<String>,
}

impl CuptiCopy {
    /// Its CUDA version, if known.
    pub fn cuda(&self) -> Option<CudaVersion> {
        parse_cuda_version(&self.version.as_ref()?.0)
    }
}

/// Describes the copies: version, owner and users.
pub(crate) fn describe_copies(
    case: &TrialCase<'_>,
    plain: &ByWorld<PlainOpen>,
    consumers: &[CuptiConsumer],
) -> Vec<CuptiCopy> {
    let rootfs = &case.contexts.as_is.rootfs;
    let description = CopyDescription {
        case,
        versions: CopyVersions::new(case.knowledge, rootfs, case.found),
        plain,
        consumers,
    };
    let mut copies = Vec::new();
    for (path, layer) in &case.found.files {
        copies.push(description.of_file(path, *layer));
    }
    share_versions(rootfs, &mut copies);
    copies
}

/// Gives a copy without a version that of a file with the same bytes, which may have another name or package.
fn share_versions(rootfs: &Rootfs, copies: &mut [CuptiCopy]) {
    let mut known = BTreeMap::new();
    for copy in copies.iter() {
        if let (Some(hash), Some(version)) = (hash_of(rootfs, copy), &copy.version) {
            known.insert(hash.to_owned(), version.clone());
        }
    }
    for copy in copies.iter_mut().filter(|copy| copy.version.is_none()) {
        copy.version = hash_of(rootfs, copy).and_then(|hash| known.get(hash).cloned());
    }
}

fn hash_of<'r>(rootfs: &'r Rootfs, copy: &CuptiCopy) -> Option<&'r str> {
    rootfs.file(&copy.real_path.absolute())?.sha256.as_deref()
}

struct CopyDescription<'d, 'c> {
    case: &'d TrialCase<'c>,
    versions: CopyVersions<'d>,
    plain: &'d ByWorld<PlainOpen>,
    consumers: &'d [CuptiConsumer],
}

impl CopyDescription<'_, '_> {
    fn of_file(&self, path: &RootPath, layer: usize) -> CuptiCopy {
        let (knowledge, contexts) = (self.case.knowledge, self.case.contexts);
        let rootfs = &*contexts.as_is.rootfs;
        let absolute = path.absolute();
        let facts = rootfs.file(&absolute);
        let elf = facts.and_then(|facts| facts.elf.as_deref());
        let soname = elf.and_then(|elf| elf.soname.clone());
        // The SHA-256 identifies the release of a file in any location.
        let known = facts
            .and_then(|facts| facts.sha256.as_deref())
            .and_then(|sha256| knowledge.tables.releases.by_hash.get(sha256));
        let owner = owner_of(knowledge, rootfs, path, known);
        let opened = contexts.map(|context| plain_for(context, soname.as_ref(), self.plain.get(context.world)));
        let ends_here = opened.map(|opened| ends_at(opened, path));
        // The container runtime's cache may lead to a copy that the image's own does not.
        let reached = ends_here.as_is.or(ends_here.nvidia);
        // Opening by path needs no search, so a failure is due to the file or its dependencies.
        let by_path = contexts.map(|context| context.budget.keep_resolution(context.open_plain(&absolute)));
        let problems = copy_problems(elf, by_path.as_is.loads());
        CuptiCopy {
            path: reached.map_or_else(|| absolute.clone().into(), |(path, _)| path.clone()),
            real_path: path.clone(),
            layer,
            version: self.versions.find(path, known, &owner),
            soname,
            bytes: facts.map_or(0, |facts| facts.bytes),
            machine: elf.map(object_machine),
            private: file_owner::is_private_copy(knowledge.tables, path)
                || file_owner::is_private_build(knowledge.tables, &owner)
                || knowledge.library.is_vendored_name(path.name()),
            owner,
            loadable: ByWorld {
                as_is: ends_here.as_is.is_some() && opened.as_is.loads(),
                nvidia: ends_here.nvidia.is_some() && opened.nvidia.loads(),
            },
            how: reached.map(|(_, how)| how),
            by_path,
            used_by: self.users(path),
            denial: denial_of(&contexts.as_is, &absolute),
            problems,
        }
    }

    /// The consumers that get the file, by index.
    fn users(&self, path: &RootPath) -> Vec<usize> {
        let mut users = Vec::new();
        for (number, consumer) in self.consumers.iter().enumerate() {
            let outcomes = [&consumer.outcome.as_is, &consumer.outcome.nvidia];
            if outcomes.iter().any(|outcome| outcome.answer.real_path() == Some(path)) {
                users.push(number);
            }
        }
        users
    }
}

/// The defects of a copy. `loads` is whether the image's loader can open it by path.
fn copy_problems(elf: Option<&ElfFacts>, loads: bool) -> Vec<String> {
    // A Git LFS pointer or a failed download leaves a text file.
    let Some(elf) = elf else {
        return vec!["no ELF object".to_owned()];
    };
    // The loader ignores some damage; do not report that if the file loads.
    let mut problems = elf.problems.iter().collect::<Vec<_>>();
    problems.retain(|problem| !(loads && matches!(problem, ElfProblem::Unloadable(_))));
    problems.into_iter().map(ToString::to_string).collect()
}

/// The denial if the image's user cannot read a file.
fn denial_of(context: &ProcessContext, path: &[u8]) -> Option<AccessDenial> {
    let user = &context.user.credentials;
    match context.rootfs.open_as(path, user, FileUse::Read) {
        Err(LookupError::Denied(denial)) => Some(*denial),
        _ => None,
    }
}

/// The result of a plain dlopen of a copy's soname; reuses the existing one if the name is the same.
fn plain_for(context: &ProcessContext, soname: Option<&ByteString>, plain: &PlainOpen) -> LoadResolution {
    match soname {
        Some(soname) if *soname != plain.name => context.open_plain(soname),
        _ => plain.resolution.clone(),
    }
}

fn ends_at<'r>(resolution: &'r LoadResolution, path: &RootPath) -> Option<(&'r ByteString, SearchStage)> {
    opened_object(resolution)
        .filter(|object| object.real_path == *path)
        .map(|object| (&object.path, object.how))
}

fn owner_of(knowledge: &Knowledge, rootfs: &Rootfs, path: &RootPath, known: Option<&ReleaseFile>) -> FileOwner {
    match known.and_then(|release| release.bundle.as_ref()) {
        Some(bundle) => FileOwner {
            kind: OwnerKind::Bundled,
            name: bundle.clone(),
            version: None,
        },
        None => file_owner::find_owner(knowledge, rootfs, path),
    }
}
