//! Finds Python modules whose source opens the library, and the packages whose import runs them.

use crate::facts::objects::process_context::ProcessContext;
use crate::facts::software::consumers::{CuptiConsumer, TrialCase, is_served_after};
use crate::facts::software::imported_object::import_object;
use crate::facts::software::opened_names::UndecidedOpener;
use crate::facts::software::source_text::{SourceText, read_source};
use crate::knowledge::RequestKind;
use image_linkage::loader::RequestOutcome;
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use std::borrow::Cow;

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
pub(crate) fn find_source_openers(case: &TrialCase<'_>) -> Vec<SourceOpener> {
    let known: Vec<&[u8]> = case
        .profiles
        .iter()
        .flat_map(|profile| &profile.python)
        .flat_map(|python| python.packages.iter().map(String::as_bytes))
        .collect();
    let unknown = case.found.sources.iter().filter(|path| {
        let folder = path.parent();
        let mut parts = folder.split_components();
        !parts.any(|part| known.contains(&part))
    });
    let mut openers = Vec::new();
    for path in unknown.take(MODULES) {
        let code = executed_text(&case.contexts.as_is.rootfs, path);
        let text = read_source(&code, case.knowledge.library);
        if !(text.exact.is_empty() && text.hints.is_empty()) {
            openers.push(SourceOpener {
                path: path.clone(),
                text,
            });
        }
    }
    openers
}

/// The code in a file that Python executes. Lib/site.py only runs the import lines of a `.pth` file.
fn executed_text<'r>(rootfs: &'r Rootfs, path: &RootPath) -> Cow<'r, [u8]> {
    let content = rootfs.content(&path.absolute()).unwrap_or_default();
    if !path.name().ends_with(b".pth") {
        return Cow::Borrowed(content);
    }
    let lines = content.split_inclusive(|&byte| byte == b'\n');
    let imports: Vec<&[u8]> = lines.filter(|line| line.starts_with(b"import")).collect();
    Cow::Owned(imports.concat())
}

/// Returns why the result of an object of an unknown package cannot be determined statically: a module of its package
/// opens the library, or the import of a known package before it would help.
pub(crate) fn find_doubt(
    case: &TrialCase<'_>,
    consumer: &CuptiConsumer,
    sources: &[SourceOpener],
) -> Option<UndecidedOpener> {
    let context = &case.contexts.as_is;
    let imported = import_object(&context.python, &context.rootfs, &consumer.object)?.ok()?;
    if let Some(doubt) = imported.doubt() {
        return Some(undecided_by(consumer, doubt));
    }
    if consumer.profile.is_some() {
        return None;
    }
    let mut openers = sources.iter();
    let opener = openers.find(|source| source.may_come_before(&context.rootfs, &consumer.object));
    let copy = consumer.outcome.as_is.answer.real_path();
    let is_only_copy = copy.is_some_and(|copy| case.found.files.iter().all(|(file, _)| file == copy));
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
        None if consumer.outcome.as_is.answer.is_loaded() => return None,
        None if consumer.start_failure().is_none()
            && let Some(module) = imported.opening_module() =>
        {
            format!("{module} opens libraries before, by names that are known only when it runs")
        }
        None => {
            let helping = case.profiles.iter().find(|profile| {
                let python = profile.python.as_ref();
                python.is_some_and(|python| imported.finds_package(&python.packages))
                    && is_served_after(case, consumer, profile)
            });
            format!("it gets one where {} is imported before", helping?.name)
        }
    };
    Some(undecided_by(consumer, after))
}

/// Returns why the result of a module without its library is uncertain: the container's own script opens one.
pub(crate) fn opened_by_command(
    context: &ProcessContext,
    consumer: &CuptiConsumer,
    sources: &[SourceOpener],
) -> Option<String> {
    let lacks_library = consumer.request_kind == RequestKind::Needed
        && consumer.outcome.as_is.answer.outcome() == RequestOutcome::NotFound;
    if !lacks_library || consumer.program.is_none() || consumer.python.is_none() {
        return None;
    }
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
        holds: vec![consumer.requested_name.clone()],
        after: Some(what),
    }
}

impl SourceOpener {
    /// Whether importing an object may run this module first. Either both are in the same package, or every Python with
    /// that directory runs the module at startup (Lib/site.py).
    pub(crate) fn may_come_before(&self, rootfs: &Rootfs, object: &RootPath) -> bool {
        let mut package = self.path.parent();
        while is_package(rootfs, &package) && is_package(rootfs, &package.parent()) {
            package = package.parent();
        }
        let name = self.path.name();
        let at_start = matches!(name, b"sitecustomize.py" | b"usercustomize.py") || name.ends_with(b".pth");
        let below = object.as_bytes().strip_prefix(package.as_bytes());
        (is_package(rootfs, &package) || at_start) && below.is_some_and(|rest| rest.starts_with(b"/"))
    }
}

fn is_package(rootfs: &Rootfs, folder: &RootPath) -> bool {
    rootfs.file(&folder.join(b"__init__.py").absolute()).is_some()
}
