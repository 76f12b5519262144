//! The search path that leads to what is brought.

use serde::Serialize;

use super::programs::{has_program, missing_tools};
use crate::facts::ImageFacts;
use crate::make::quote;
use image_linkage::elf::ByteString;
use image_linkage::loader::DynamicLoader;
use image_linkage::loader::LdSoConf;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};

/// The file that `ldconfig` begins with, into which a line goes where no file of its own is read.
pub(crate) const MAIN_CONF: &str = "etc/ld.so.conf";

/// How what is brought gets onto the search path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheUpdate {
    /// `ld.so.cache` is written along with the files.
    Cache,
    /// The image's own programs do it, as far as it has them.
    Build,
}

/// The search path that leads to what is brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct InstallFolder {
    #[serde(serialize_with = "quote::serialize_path")]
    pub folder: RootPath,
    /// How the loader comes to look there.
    #[serde(skip)]
    pub by: FolderDiscovery,
    pub because: String,
}

/// How the loader comes to look in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FolderDiscovery {
    /// This file names it, and `ldconfig` puts its libraries into the cache.
    Conf(RootPath),
    /// It is compiled into the loader.
    Default,
}

/// The folder for the files: one of its own that `ldconfig` knows, or a default one where nothing would run it or keep
/// its cache as it is.
pub(super) fn choose_install_folder(target: &ImageFacts, linker: &DynamicLoader, means: CacheUpdate) -> InstallFolder {
    let rootfs = &target.contexts.as_is.rootfs;
    let builds = means == CacheUpdate::Build;
    let default = |because: &str| InstallFolder {
        folder: default_folder(rootfs, linker),
        by: FolderDiscovery::Default,
        because: format!("{because}; the loader searches here by default"),
    };
    // RUN takes a shell, and without ldconfig no cache would ever name the folder.
    let lacks = missing_tools(rootfs);
    if builds && !(has_program(rootfs, "ldconfig") && lacks.is_empty()) {
        return match &*lacks {
            "" | "no shell" => default("the image has no ldconfig to run"),
            lacks => default(&format!("the image has {lacks}, so a build cannot run ldconfig")),
        };
    }
    // What a RUN writes into a volume is gone behind it (Dockerfile reference, "Notes about specifying volumes").
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
    // ldconfig reads ld.so.conf alone; the folder counts where that includes it, as Debian's and Red Hat's do.
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
                  LD_LIBRARY_PATH works only in one environment"
            .to_owned(),
    }
}

/// Whether `ldconfig` reads the folder, as the image's configuration names it.
pub(crate) fn reads_folder(rootfs: &Rootfs, folder: &RootPath) -> bool {
    let folder = folder.absolute();
    let mut known = LdSoConf::read(rootfs).directories.into_iter();
    known.any(|known| *known == *folder)
}

/// Whether a build can make the folder: nothing in its place, or in that of one above, is something else.
fn may_become_folder(rootfs: &Rootfs, folder: &str) -> bool {
    let place = RootPath::from(folder);
    let mut places = std::iter::once(place.clone()).chain(place.folders());
    // A link to nothing is there, too, and no folder.
    let there = places.find(|place| rootfs.lookup_link(&place.absolute()).is_ok());
    there.is_none_or(|place| is_directory(rootfs, &place))
}

/// Whether a copy of the library lies in the folder that no search path leads to: who put it there opens it by its path.
fn holds_own_copy(target: &ImageFacts, reads: &LdSoConf, folder: &str) -> bool {
    let (rootfs, path) = (&target.contexts.as_is.rootfs, RootPath::from(folder).absolute());
    let found = rootfs.lookup(&path).ok();
    let mut files = found.iter().flat_map(|found| rootfs.children(found.node));
    let is_copy = |id| matches!(&rootfs.node(id).kind, NodeKind::File(facts) if facts.elf.is_some());
    !reads.directories.iter().any(|known| **known == *path)
        && files.any(|(name, id)| target.library.is_name(name) && is_copy(id))
}

/// Whether a file can be written at a path: its folder is there, and no folder in its own place.
fn is_in_folder(rootfs: &Rootfs, file: &str) -> bool {
    let file = RootPath::from(file);
    is_directory(rootfs, &file.parent()) && !is_directory(rootfs, &file)
}

fn is_directory(rootfs: &Rootfs, path: &RootPath) -> bool {
    let found = rootfs.lookup(&path.absolute());
    found.is_ok_and(|found| matches!(rootfs.node(found.node).kind, NodeKind::Directory(_)))
}

/// The volume of the image that a path lies in.
pub(super) fn volume_over<'t>(target: &'t ImageFacts, path: &str) -> Option<&'t str> {
    let mut volumes = target.image.config.settings.volumes.iter();
    let covers = |volume: &&String| {
        let volume = volume.trim_matches('/');
        path.strip_prefix(volume)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    volumes.find(covers).map(String::as_str)
}

/// The folder by which the loader finds libraries of its own accord: the first that is there and is its distribution's.
pub(super) fn default_folder(rootfs: &Rootfs, linker: &DynamicLoader) -> RootPath {
    let there = |folder: &ByteString| Some(rootfs.lookup(folder).ok()?.path);
    let mut folders: Vec<RootPath> = linker.default_dirs.iter().filter_map(there).collect();
    // Links are followed by now: where /lib is a folder of its own, packages put libraries below /usr.
    folders.sort_by_key(|folder| !folder.as_bytes().starts_with(b"usr/"));
    folders.into_iter().next().unwrap_or_else(|| RootPath::from("usr/lib"))
}
