//! Finds Python modules whose source opens the library, and the packages whose import runs them.

use crate::facts::objects::process_context::ProcessContext;
use crate::facts::software::consumers::{CuptiConsumer, is_served_after};
use crate::facts::software::cupti_files::CuptiFiles;
use crate::facts::software::opened_names::UndecidedOpener;
use crate::facts::software::python::{ImportedObject, SourceText, import_object, read_source};
use crate::knowledge::{ConsumerProfile, LibraryProfile, RequestKind};
use image_linkage::loader::RequestOutcome;
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// The maximum number of modules to read in one image.
const MODULES: usize = 1024;

/// A module that opens the library, or may open it.
pub(crate) struct SourceOpener {
    /// The file, with links resolved.
    pub path: RootPath,
    /// The names in its source.
    pub text: SourceText,
}

/// Reads the modules that contain the library's name, except those of known packages.
pub(crate) fn find_source_openers(
    rootfs: &Rootfs,
    library: &LibraryProfile,
    profiles: &[ConsumerProfile],
    found: &CuptiFiles,
) -> Vec<SourceOpener> {
    let known: Vec<&[u8]> = profiles
        .iter()
        .flat_map(|profile| &profile.python)
        .flat_map(|python| python.packages.iter().map(String::as_bytes))
        .collect();
    let is_known = |path: &RootPath| path.parent().split_components().any(|part| known.contains(&part));
    let unknown = found.sources.iter().filter(|path| !is_known(path)).take(MODULES);
    let read = |path: &RootPath| {
        let content = rootfs.content(&path.absolute()).unwrap_or_default();
        let lines = content.split_inclusive(|&byte| byte == b'\n');
        // Lib/site.py only runs the import lines of a `.pth` file.
        let code = if path.name().ends_with(b".pth") {
            lines
                .filter(|line| line.starts_with(b"import"))
                .collect::<Vec<_>>()
                .concat()
        } else {
            content.to_vec()
        };
        SourceOpener {
            path: path.clone(),
            text: read_source(&code, library),
        }
    };
    let opens = |source: &SourceOpener| !(source.text.exact.is_empty() && source.text.hints.is_empty());
    unknown.map(read).filter(opens).collect()
}

/// Returns why the result of an object of an unknown package cannot be determined statically: a module of its package
/// opens the library, or the import of a known package before it would help.
pub(crate) fn find_doubt(
    context: &ProcessContext,
    library: &LibraryProfile,
    consumer: &CuptiConsumer,
    profiles: &[ConsumerProfile],
    (sources, found): (&[SourceOpener], &CuptiFiles),
) -> Option<UndecidedOpener> {
    let rootfs = &context.rootfs;
    let imported = import_object(&context.python, rootfs, &consumer.object)?.ok();
    if let Some(doubt) = imported.as_ref().and_then(ImportedObject::doubt) {
        return Some(undecided_by(consumer, doubt));
    }
    let imported = imported.filter(|_| consumer.profile.is_none())?;
    let mut openers = sources.iter();
    let opener = openers.find(|source| source.may_come_before(rootfs, &consumer.object));
    let helps = |profile: &&ConsumerProfile| {
        let python = profile.python.as_ref();
        python.is_some_and(|python| imported.finds_package(&python.packages))
            && is_served_after(context, library, consumer, profile, profiles)
    };
    let gets = consumer.outcome.as_is.real_path.as_ref();
    let is_only_copy = gets.is_some_and(|gets| found.files.iter().all(|(file, _)| file == gets));
    let after = match opener {
        // With a single copy, the order of openers does not matter.
        Some(_) if is_only_copy && consumer.is_served() && consumer.unmet_by_itself().is_none() => return None,
        Some(source) => format!("{} may open it before", source.path),
        None if let Some(other) = consumer.unmet_by_itself() => {
            format!(
                "its import fails ({}) where nothing else has opened that before",
                other.message
            )
        }
        None if consumer.outcome.as_is.outcome == RequestOutcome::Loaded => return None,
        None if consumer.start_failure().is_none()
            && let Some(module) = imported.opening_module() =>
        {
            format!("{module} opens libraries before, by names that are known only when it runs")
        }
        None => format!(
            "it gets one where {} is imported before",
            profiles.iter().find(helps)?.name
        ),
    };
    Some(undecided_by(consumer, after))
}

/// Returns why the result of a module without its library is uncertain: the container's own script opens one.
pub(crate) fn opened_by_command(
    context: &ProcessContext,
    consumer: &CuptiConsumer,
    sources: &[SourceOpener],
) -> Option<String> {
    let lacks = consumer.asks == RequestKind::Needed && consumer.outcome.as_is.outcome == RequestOutcome::NotFound;
    consumer
        .program
        .as_ref()
        .filter(|_| lacks && consumer.python.is_some())?;
    let script = sources.iter().find(|source| context.is_commands(&source.path))?;
    Some(format!("{} may open it before", script.path))
}

/// Returns why a module's result cannot be determined statically: it depends on code that Python runs before.
pub(crate) fn find_source_doubt(context: &ProcessContext, consumer: &CuptiConsumer) -> Option<UndecidedOpener> {
    let imported = import_object(&context.python, &context.rootfs, &consumer.object)?.ok()?;
    Some(undecided_by(consumer, imported.doubt()?))
}

fn undecided_by(consumer: &CuptiConsumer, what: String) -> UndecidedOpener {
    UndecidedOpener {
        object: consumer.object.clone(),
        profile: consumer.profile.clone(),
        holds: vec![consumer.wants.clone()],
        after: Some(what),
    }
}

impl SourceOpener {
    /// Whether importing an object may run this module first. Either both are in the same package, or every Python with
    /// that directory runs the module at startup (Lib/site.py).
    pub(crate) fn may_come_before(&self, rootfs: &Rootfs, object: &RootPath) -> bool {
        let is_package = |folder: &RootPath| rootfs.file(&folder.join(b"__init__.py").absolute()).is_some();
        let mut package = self.path.parent();
        while is_package(&package) && is_package(&package.parent()) {
            package = package.parent();
        }
        let name = self.path.name();
        let at_start = matches!(name, b"sitecustomize.py" | b"usercustomize.py") || name.ends_with(b".pth");
        let below = object.as_bytes().strip_prefix(package.as_bytes());
        (is_package(&package) || at_start) && below.is_some_and(|rest| rest.starts_with(b"/"))
    }
}
