//! The search path that leads to new files, and the variable that may hide them.

use super::programs::{has_program, missing_tools};
use super::request::PatchForm;
use crate::byte_search::contains_bytes;
use crate::facts::ImageFacts;
use crate::make::patch::{ChangedLibraryPath, ConfLine, SearchPath};
use image_linkage::loader::{DynamicLoader, LdSoConf, SearchStage, SearchStep, TriedFile};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};

/// The first file that `ldconfig` reads. The line goes into it if ldconfig reads no separate file.
pub(crate) const MAIN_CONF: &str = "etc/ld.so.conf";

/// The folder for new files, and why the loader searches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstallFolder {
    pub folder: RootPath,
    /// The file that gets a line with the folder; `None` for a folder that is compiled into the loader.
    pub conf: Option<RootPath>,
    pub because: String,
}

impl InstallFolder {
    /// The search path to files in the folder.
    pub(super) fn search_path(&self) -> SearchPath {
        self.search_path_because(&self.because, &self.default_words())
    }

    /// The same with other reasons: for a folder that gets a line, and for one that needs none.
    pub(super) fn search_path_because(&self, configured: &str, default: &str) -> SearchPath {
        let folder = self.folder.clone();
        match self.line() {
            None => SearchPath::Default {
                folder,
                because: default.to_owned(),
            },
            line => SearchPath::Configured {
                folder,
                line,
                because: configured.to_owned(),
            },
        }
    }

    pub(super) fn line(&self) -> Option<ConfLine> {
        let conf = self.conf.clone();
        conf.map(|file| ConfLine {
            file,
            asks_package: false,
        })
    }

    pub(super) fn default_words(&self) -> String {
        format!("{}; the loader searches here by default: {}", self.because, self.folder)
    }
}

/// The folder for the files: a separate one configured for `ldconfig`, or a default one if the build cannot run
/// ldconfig or keep its cache.
pub(super) fn choose_install_folder(target: &ImageFacts, linker: &DynamicLoader, form: PatchForm) -> InstallFolder {
    let rootfs = &target.contexts.as_is.rootfs;
    let builds = form == PatchForm::Build;
    let default = |because: &str| InstallFolder {
        folder: default_folder(rootfs, linker),
        conf: None,
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
        let path = RootPath::from(*file).absolute();
        let content = rootfs.content(&path);
        // A dangling link has no content, and a command would write through it.
        rootfs.lookup_link(&path).is_ok() == content.is_some()
            && content.is_none_or(|content| content == line)
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
        conf: Some(RootPath::from(file)),
        because: "every process finds it through ldconfig, even after the container runtime rebuilds the cache; \
                  LD_LIBRARY_PATH would help only processes that have it set"
            .to_owned(),
    }
}

/// Whether `ldconfig` reads the folder according to the image's configuration.
pub(super) fn reads_folder(rootfs: &Rootfs, folder: &RootPath) -> bool {
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
    !reads.directories.iter().any(|known| **known == *path)
        && files.any(|(name, id)| {
            target.library.is_name(name)
                && matches!(&rootfs.node(id).kind, NodeKind::File(facts) if facts.elf.is_some())
        })
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
    let volume = volumes.find(|volume| {
        let rest = path.strip_prefix(volume.trim_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    volume.map(String::as_str)
}

/// The loader's default folder: the first existing one that the distribution uses.
pub(super) fn default_folder(rootfs: &Rootfs, linker: &DynamicLoader) -> RootPath {
    // Links are resolved here. If /lib is a separate folder, packages use the one below /usr.
    let found = linker
        .default_dirs
        .iter()
        .filter_map(|folder| rootfs.lookup(folder).ok());
    let folder = found
        .map(|found| found.path)
        .min_by_key(|path| !path.as_bytes().starts_with(b"usr/"));
    folder.unwrap_or_else(|| RootPath::from("usr/lib"))
}

/// `LD_LIBRARY_PATH` without unused empty elements. If another element would be found before the installed library, the
/// folder goes to the front. The paths `cleared` no longer exist then.
pub(super) fn changed_library_path(
    target: &ImageFacts,
    folder: Option<&RootPath>,
    cleared: &[RootPath],
) -> Option<ChangedLibraryPath> {
    let value = target.image.config.env("LD_LIBRARY_PATH")?;
    // ld.so(8): both colons and semicolons are separators.
    let is_meant = keeps_libraries_at_work(target);
    let parts = value.split([':', ';']);
    let elements: Vec<&str> = parts.filter(|part| is_meant || !part.is_empty()).collect();
    let has_empty = !is_meant && !value.is_empty() && value.split([':', ';']).any(str::is_empty);
    let in_front = folder.filter(|_| is_hidden(target, cleared)).map(ToString::to_string);
    let because = match (&in_front, has_empty) {
        (Some(_), _) => "otherwise the loader finds other files on it first",
        (None, true) => "an empty element means the working directory",
        (None, false) => return None,
    };
    // The folder may already be on the path, after the element that hides it.
    let others = elements
        .iter()
        .copied()
        .filter(|element| in_front.as_deref() != Some(*element));
    let all: Vec<&str> = in_front.iter().map(String::as_str).chain(others).collect();
    if all == elements && !has_empty {
        return None;
    }
    Some(ChangedLibraryPath {
        value: all.join(":"),
        because: because.to_owned(),
    })
}

/// Whether the working directory contains libraries. An empty element means the working directory and may then be
/// intentional.
fn keeps_libraries_at_work(target: &ImageFacts) -> bool {
    let context = &target.contexts.as_is;
    let folder = context.rootfs.lookup(&context.environment.working_dir).ok();
    let mut names = folder.iter().flat_map(|folder| context.rootfs.children(folder.node));
    names.any(|(name, _)| contains_bytes(name, b".so"))
}

/// Whether the search for libcupti ends on `LD_LIBRARY_PATH` at a wrong object that stays.
fn is_hidden(target: &ImageFacts, cleared: &[RootPath]) -> bool {
    let resolution = &target.answers.plain.as_is.resolution;
    let failed = resolution.unresolved.iter().flat_map(|missing| &missing.trace);
    let found = crate::facts::opened_object(resolution)
        .into_iter()
        .flat_map(|object| &object.trace);
    let mut steps = failed.chain(found);
    steps.any(|step| match step {
        SearchStep::Tried {
            how: SearchStage::LdLibraryPath,
            tried: TriedFile::Found | TriedFile::Refused(_),
            path,
        } => !cleared.contains(&RootPath::new(path)),
        _ => false,
    })
}
