//! The search path that leads to the installed files.

use serde::Serialize;

use super::programs::{has_program, missing_tools};
use crate::facts::ImageFacts;
use crate::make::quote;
use image_linkage::elf::ByteString;
use image_linkage::loader::DynamicLoader;
use image_linkage::loader::LdSoConf;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};

/// The first file that `ldconfig` reads. The line goes into it if ldconfig reads no separate file.
pub(crate) const MAIN_CONF: &str = "etc/ld.so.conf";

/// How the installed files get onto the search path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheUpdate {
    /// `ld.so.cache` is written together with the files.
    Cache,
    /// The image's own programs update it, as far as it has them.
    Build,
}

/// The search path that leads to the installed files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct InstallFolder {
    #[serde(serialize_with = "quote::serialize_path")]
    pub folder: RootPath,
    /// Why the loader searches the folder.
    #[serde(skip)]
    pub by: FolderDiscovery,
    pub because: String,
}

/// Why the loader searches a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FolderDiscovery {
    /// This file names it, and `ldconfig` adds its libraries to the cache.
    Conf(RootPath),
    /// It is compiled into the loader.
    Default,
}

/// The folder for the files: a separate one configured for `ldconfig`, or a default one if the build cannot run
/// ldconfig or keep its cache.
pub(super) fn choose_install_folder(target: &ImageFacts, linker: &DynamicLoader, means: CacheUpdate) -> InstallFolder {
    let rootfs = &target.contexts.as_is.rootfs;
    let builds = means == CacheUpdate::Build;
    let default = |because: &str| InstallFolder {
        folder: default_folder(rootfs, linker),
        by: FolderDiscovery::Default,
        because: because.to_owned(),
    };
    // RUN needs a shell, and without ldconfig the cache would never list the folder.
    let lacks = missing_tools(rootfs);
    if builds && !(has_program(rootfs, "ldconfig") && lacks.is_empty()) {
        return match &*lacks {
            "" | "no shell" => default("the image has no ldconfig to run"),
            lacks => default(&format!("the image has {lacks}, so a build cannot run ldconfig")),
        };
    }
    // Writes of a RUN to a volume are lost (Dockerfile reference, "Notes about specifying volumes").
    if builds && volume_over(target, "etc/ld.so.cache").is_some() {
        return default("/etc is a volume of the image, and a build may lose files there");
    }
    let places = &target.library.install;
    let reads = LdSoConf::read(rootfs);
    let can_be = |folder: &&String| {
        volume_over(target, folder).is_none()
            && may_become_folder(rootfs, folder)
            && !holds_own_copy(target, &reads, folder)
    };
    let Some(folder) = places
        .folders
        .iter()
        .find(can_be)
        .map(|folder| RootPath::from(&**folder))
    else {
        return default("volumes or files of the image are in the way of every possible directory");
    };
    let line = [&folder.absolute(), &b"\n"[..]].concat();
    let is_free = |file: &&str| {
        let content = rootfs.content(&RootPath::from(*file).absolute());
        content.is_none_or(|content| content == line)
            && reads.includes(&RootPath::from(*file))
            && is_in_folder(rootfs, file)
    };
    // ldconfig only reads ld.so.conf. The folder counts if that includes it, as on Debian and Red Hat.
    let file = places
        .confs
        .iter()
        .map(String::as_str)
        .find(is_free)
        .unwrap_or(MAIN_CONF);
    if !is_in_folder(rootfs, file) {
        return default("the image has no /etc for the file");
    }
    InstallFolder {
        folder,
        by: FolderDiscovery::Conf(RootPath::from(file)),
        because: "every process finds it through ldconfig, even after the container runtime rebuilds the cache; \
                  LD_LIBRARY_PATH would help only processes that have it set"
            .to_owned(),
    }
}

/// Whether `ldconfig` reads the folder according to the image's configuration.
pub(crate) fn reads_folder(rootfs: &Rootfs, folder: &RootPath) -> bool {
    let folder = folder.absolute();
    let mut known = LdSoConf::read(rootfs).directories.into_iter();
    known.any(|known| *known == *folder)
}

/// Whether a build can create the folder: no non-directory exists at its path or a parent path.
fn may_become_folder(rootfs: &Rootfs, folder: &str) -> bool {
    let place = RootPath::from(folder);
    let mut places = std::iter::once(place.clone()).chain(place.folders());
    // A dangling link also exists and is not a directory.
    let there = places.find(|place| rootfs.lookup_link(&place.absolute()).is_ok());
    there.is_none_or(|place| is_directory(rootfs, &place))
}

/// Whether the folder contains a copy of the library and is on no search path. Its owner opens that copy by path.
fn holds_own_copy(target: &ImageFacts, reads: &LdSoConf, folder: &str) -> bool {
    let (rootfs, path) = (&target.contexts.as_is.rootfs, RootPath::from(folder).absolute());
    let found = rootfs.lookup(&path).ok();
    let mut files = found.iter().flat_map(|found| rootfs.children(found.node));
    let is_copy = |id| matches!(&rootfs.node(id).kind, NodeKind::File(facts) if facts.elf.is_some());
    !reads.directories.iter().any(|known| **known == *path)
        && files.any(|(name, id)| target.library.is_name(name) && is_copy(id))
}

/// Whether a file can be written at a path: its folder exists, and no folder has its path.
fn is_in_folder(rootfs: &Rootfs, file: &str) -> bool {
    let file = RootPath::from(file);
    is_directory(rootfs, &file.parent()) && !is_directory(rootfs, &file)
}

fn is_directory(rootfs: &Rootfs, path: &RootPath) -> bool {
    let found = rootfs.lookup(&path.absolute());
    found.is_ok_and(|found| matches!(rootfs.node(found.node).kind, NodeKind::Directory(_)))
}

/// The image's volume that contains a path.
pub(super) fn volume_over<'t>(target: &'t ImageFacts, path: &str) -> Option<&'t str> {
    let mut volumes = target.image.config.settings.volumes.iter();
    let covers = |volume: &&String| {
        let volume = volume.trim_matches('/');
        path.strip_prefix(volume)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    volumes.find(covers).map(String::as_str)
}

/// The loader's default folder: the first existing one that the distribution uses.
pub(super) fn default_folder(rootfs: &Rootfs, linker: &DynamicLoader) -> RootPath {
    let there = |folder: &ByteString| Some(rootfs.lookup(folder).ok()?.path);
    let mut folders: Vec<RootPath> = linker.default_dirs.iter().filter_map(there).collect();
    // Links are resolved here. If /lib is a separate folder, packages use the one below /usr.
    folders.sort_by_key(|folder| !folder.as_bytes().starts_with(b"usr/"));
    folders.into_iter().next().unwrap_or_else(|| RootPath::from("usr/lib"))
}
