//! The search path that leads to what is brought.

use super::image_system::has_program;
use crate::judge::facts::ImageFacts;
use image_linkage::elf::ByteString;
use image_linkage::loader::DynamicLoader;
use image_linkage::loader::ldconfig::LdSoConf;
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// The folder that the files are put into, where it is not one of the loader's own.
pub(crate) const FOLDER: &str = "opt/cupti/lib";
/// The file that names the folder. It sorts before those of CUDA's packages, so that of two libraries with one
/// soname the one that was brought wins.
pub(crate) const CONF: &str = "etc/ld.so.conf.d/000-cupti.conf";

/// How what is brought gets onto the search path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheUpdate {
    /// `ld.so.cache` is written along with the files.
    Cache,
    /// The image's own programs do it, as far as it has them.
    Build,
}

/// The search path that leads to what is brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstallFolder {
    pub folder: RootPath,
    /// How the loader comes to look there.
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

/// The folder for the files: one of its own that `ldconfig` knows, or, where nothing would run it, a default one.
pub(super) fn choose_install_folder(target: &ImageFacts, linker: &DynamicLoader, means: CacheUpdate) -> InstallFolder {
    let rootfs = &target.contexts.as_is.rootfs;
    // RUN takes a shell, and without ldconfig no cache would ever name the folder.
    if means == CacheUpdate::Build && !(has_program(rootfs, "ldconfig") && has_program(rootfs, "sh")) {
        return InstallFolder {
            folder: default_folder(rootfs, linker),
            by: FolderDiscovery::Default,
            because: "the image has no ldconfig that could be run, and the loader looks here by itself".to_owned(),
        };
    }
    let reads_folder = LdSoConf::read(rootfs).includes(&RootPath::from(CONF));
    // ldconfig reads ld.so.conf alone; the folder counts where that includes it, as Debian's and Red Hat's do.
    let file = if reads_folder { CONF } else { "etc/ld.so.conf" };
    InstallFolder {
        folder: RootPath::from(FOLDER),
        by: FolderDiscovery::Conf(RootPath::from(file)),
        because: "ldconfig finds it for every process and also when the container runtime makes the cache anew, which \
                  LD_LIBRARY_PATH in somebody's environment does not"
            .to_owned(),
    }
}

/// The folder by which the loader finds libraries of its own accord: the first that is there and is its distribution's.
fn default_folder(rootfs: &Rootfs, linker: &DynamicLoader) -> RootPath {
    let there = |folder: &ByteString| Some(rootfs.lookup(folder).ok()?.path);
    let mut folders: Vec<RootPath> = linker.default_dirs.iter().filter_map(there).collect();
    // Links are followed by now: where /lib is a folder of its own, packages put libraries below /usr.
    folders.sort_by_key(|folder| !folder.as_bytes().starts_with(b"usr/"));
    folders.into_iter().next().unwrap_or_else(|| RootPath::from("usr/lib"))
}
