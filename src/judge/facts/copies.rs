//! The copies of libcupti, the links to none, and the headers.

use super::consumers::{self, ConsumerProfile, CuptiConsumer};
use super::file_owner::{self, FileOwner, OwnerKind};
use super::release_files::{self, VersionSource};
use super::{ByWorld, PlainOpen, ProcessContext, opened_object};
use image_linkage::elf::ByteString;
use image_linkage::loader::{LoadResolution, RequestOutcome, SearchStage, trace_text};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs, RootfsNode};

/// A copy of libcupti.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CuptiCopy {
    /// The path by which a plain dlopen gets to it, else the path of the file.
    pub path: ByteString,
    /// The path without links.
    pub real_path: RootPath,
    /// The layer of the file.
    pub layer: usize,
    /// The soname; `None` for a file that is no library.
    pub soname: Option<ByteString>,
    /// The version, as far as it is known, and from where.
    pub version: Option<(String, VersionSource)>,
    /// The size in bytes.
    pub bytes: u64,
    /// The processor; `None` for a file that is no library.
    pub machine: Option<String>,
    /// The package it belongs to.
    pub owner: FileOwner,
    /// Whether it serves only the tool that brings it.
    pub decoy: bool,
    /// Whether a plain dlopen of its soname ends at it and succeeds.
    pub loadable: ByWorld<bool>,
    /// How that dlopen finds it, in the image as it is, or else under the container runtime.
    pub how: Option<SearchStage>,
    /// What opening it by its path gives: whether it has all it needs.
    pub by_path: ByWorld<LoadResolution>,
    /// The consumers that get it, by number.
    pub used_by: Vec<usize>,
    /// What is wrong with the file.
    pub problems: Vec<String>,
}

/// A link named as libcupti that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DanglingLink {
    /// The link.
    pub path: RootPath,
    /// Its target, as written.
    pub target: ByteString,
    /// The layer of the link.
    pub layer: usize,
    /// Why it leads nowhere.
    pub why: String,
}

/// The files that bear on CUPTI.
#[derive(Default)]
pub struct CuptiFiles {
    /// Files named as libcupti, or with its soname.
    pub files: Vec<(RootPath, usize)>,
    /// Links that lead nowhere.
    pub dangling: Vec<DanglingLink>,
    /// The places of `cupti.h`.
    pub headers: Vec<(RootPath, usize)>,
    /// Objects that need CUPTI, hold its name or are known to open it, the copies left out.
    pub askers: Vec<RootPath>,
}

impl CuptiFiles {
    /// The files that are for everybody, not for one tool alone.
    pub fn own(&self) -> impl Iterator<Item = &RootPath> {
        self.files
            .iter()
            .map(|(path, _)| path)
            .filter(|path| !file_owner::is_private_copy(path))
    }
}

/// Takes one node of the file system, if it bears on CUPTI.
pub(super) fn add_cupti_node(
    rootfs: &Rootfs,
    profiles: &[ConsumerProfile],
    found: &mut CuptiFiles,
    path: &RootPath,
    node: &RootfsNode,
) {
    match &node.kind {
        NodeKind::Symlink(target) if is_cupti_name(path.name()) => {
            if let Err(why) = rootfs.lookup(&path.absolute())
                && !leads_to_link(rootfs, path, target)
            {
                let why = why.to_string();
                found.dangling.push(DanglingLink {
                    path: path.clone(),
                    target: target.clone(),
                    layer: node.layer,
                    why,
                });
            }
        }
        NodeKind::File(_) if path.name() == b"cupti.h" => {
            found.headers.push((path.clone(), node.layer));
        }
        NodeKind::File(facts) => {
            let elf = facts.elf.as_ref();
            let soname = elf.and_then(|elf| elf.soname.as_deref());
            if is_cupti_name(path.name()) || soname.is_some_and(is_cupti_name) {
                found.files.push((path.clone(), node.layer));
            } else if let Some(elf) = elf
                && (elf.needed.iter().any(|name| is_cupti_request(name))
                    || elf
                        .mentions
                        .iter()
                        .any(|text| contains_bytes(text, b"libcupti.so"))
                    || consumers::opens_cupti(profiles, path.name()))
            {
                found.askers.push(path.clone());
            }
        }
        _ => {}
    }
}

/// Whether the target of a link is a link itself: that one is then the broken one.
fn leads_to_link(rootfs: &Rootfs, link: &RootPath, target: &[u8]) -> bool {
    let path = if target.starts_with(b"/") {
        target.to_vec()
    } else {
        [&link.parent().absolute(), &b"/"[..], target].concat()
    };
    rootfs.lookup_link(&path).is_ok_and(|found| {
        found.path != *link && matches!(rootfs.node(found.node).kind, NodeKind::Symlink(_))
    })
}

/// Whether a `DT_NEEDED` entry is for libcupti: its soname, or a path that ends in it.
pub fn is_cupti_request(name: &[u8]) -> bool {
    is_cupti_name(name.rsplit(|&byte| byte == b'/').next().unwrap_or_default())
}

/// Whether a file or soname is that of libcupti.
pub fn is_cupti_name(name: &[u8]) -> bool {
    name.strip_prefix(b"libcupti.so")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
}

pub(super) fn contains_bytes(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Describes the copies: version, owner, and who gets them.
pub fn describe_copies(
    rootfs: &Rootfs,
    grounds: &ByWorld<ProcessContext>,
    found: &CuptiFiles,
    plain: &ByWorld<PlainOpen>,
    consumers: &[CuptiConsumer],
) -> Vec<CuptiCopy> {
    found
        .files
        .iter()
        .map(|(path, layer)| describe_one(rootfs, grounds, path, *layer, plain, consumers))
        .collect()
}

fn describe_one(
    rootfs: &Rootfs,
    grounds: &ByWorld<ProcessContext>,
    path: &RootPath,
    layer: usize,
    plain: &ByWorld<PlainOpen>,
    consumers: &[CuptiConsumer],
) -> CuptiCopy {
    let absolute = path.absolute();
    let facts = rootfs.file(&absolute);
    let elf = facts.and_then(|facts| facts.elf.as_ref());
    let soname = elf.and_then(|elf| elf.soname.clone());
    let owner = owner_of(
        rootfs,
        path,
        facts.and_then(|facts| facts.sha256.as_deref()),
    );
    let opened = ByWorld::map(grounds, |ground| {
        plain_for(ground, soname.as_ref(), plain.get(ground.world))
    });
    let ends_here = ByWorld {
        as_is: ends_at(&opened.as_is, path),
        nvidia: ends_at(&opened.nvidia, path),
    };
    let reached = ends_here.as_is.or(ends_here.nvidia);
    let by_path = ByWorld::map(grounds, |ground| ground.open_plain(&absolute));
    let mut problems: Vec<String> = elf
        .iter()
        .flat_map(|elf| &elf.problems)
        .map(ToString::to_string)
        .collect();
    if elf.is_none() {
        problems.push("no ELF object".to_owned());
    }
    CuptiCopy {
        path: reached.map_or_else(|| absolute.clone().into(), |(path, _)| path.clone()),
        real_path: path.clone(),
        layer,
        version: version(
            rootfs,
            path,
            facts.and_then(|facts| facts.sha256.as_deref()),
            &owner,
        ),
        soname,
        bytes: facts.map_or(0, |facts| facts.bytes),
        machine: elf.map(|elf| trace_text::object_machine(elf)),
        decoy: file_owner::is_private_copy(path)
            || owner.kind == OwnerKind::Bundled && owner.name.starts_with("Nsight"),
        owner,
        loadable: ByWorld {
            as_is: ends_here.as_is.is_some() && opened.as_is.loads(),
            nvidia: ends_here.nvidia.is_some() && opened.nvidia.loads(),
        },
        how: reached.map(|(_, how)| how),
        by_path,
        used_by: users(consumers, path),
        problems,
    }
}

/// What a plain dlopen of a copy's own soname gets; the one that was made already where the name is the same.
fn plain_for(
    ground: &ProcessContext,
    soname: Option<&ByteString>,
    plain: &PlainOpen,
) -> LoadResolution {
    match soname {
        Some(soname) if *soname != plain.name => ground.open_plain(soname),
        _ => plain.resolution.clone(),
    }
}

fn ends_at<'r>(
    resolution: &'r LoadResolution,
    path: &RootPath,
) -> Option<(&'r ByteString, SearchStage)> {
    opened_object(resolution)
        .filter(|object| object.real_path == *path)
        .map(|object| (&object.path, object.how))
}

fn users(consumers: &[CuptiConsumer], path: &RootPath) -> Vec<usize> {
    let gets = |consumer: &CuptiConsumer| {
        [&consumer.outcome.as_is, &consumer.outcome.nvidia]
            .iter()
            .any(|gets| {
                gets.outcome == RequestOutcome::Loaded && gets.real_path.as_ref() == Some(path)
            })
    };
    consumers
        .iter()
        .enumerate()
        .filter(|(_, consumer)| gets(consumer))
        .map(|(number, _)| number)
        .collect()
}

fn owner_of(rootfs: &Rootfs, path: &RootPath, sha256: Option<&str>) -> FileOwner {
    let bundle = sha256
        .and_then(release_files::release_file_by_hash)
        .and_then(|release| release.bundle);
    match bundle {
        Some(bundle) => FileOwner {
            kind: OwnerKind::Bundled,
            name: bundle.to_owned(),
            version: None,
        },
        None => file_owner::find_owner(rootfs, path),
    }
}

fn version(
    rootfs: &Rootfs,
    path: &RootPath,
    sha256: Option<&str>,
    owner: &FileOwner,
) -> Option<(String, VersionSource)> {
    let by_hash = sha256
        .and_then(release_files::release_file_by_hash)
        .and_then(|release| match release.versions.as_slice() {
            [] => None,
            versions => Some((versions.join(" or "), VersionSource::Hash)),
        });
    let by_package = || {
        let version = owner
            .version
            .as_ref()
            .filter(|_| owner.name.contains("cupti"))?;
        let upstream = version.split(['~', '-']).next().unwrap_or(version);
        Some((upstream.to_owned(), VersionSource::Package))
    };
    let by_name = || {
        release_files::version_by_file_name(path.name())
            .map(|version| (version, VersionSource::FileName))
    };
    by_hash.or_else(by_package).or_else(by_name).or_else(|| {
        let header = [
            &b"include"[..],
            b"../include",
            b"../../include",
            b"../../../include",
        ]
        .iter()
        .find_map(|place| {
            rootfs.content(
                &[
                    &path.parent().absolute(),
                    &b"/"[..],
                    place,
                    b"/cupti_version.h",
                ]
                .concat(),
            )
        })?;
        release_files::version_by_header(header).map(|version| (version, VersionSource::Header))
    })
}
