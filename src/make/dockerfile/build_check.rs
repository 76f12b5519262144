//! The check at the end of a build, made by the image's own loader.

use crate::facts::{CuptiConsumer, FailureImpact, ImageFacts, RequestKind};
use crate::judge::plan::Verdict;
use crate::knowledge::file_interest::LIBRARY_PATH;
use crate::make::choose::PatchError;
use crate::make::choose::image_system::read_image_system;
use crate::make::choose::request::{PatchContext, PatchRequest};
use crate::make::patch::ImagePatch;
use crate::make::quote;
use image_linkage::escape::escape_bytes;
use image_linkage::loader::Libc;
use image_linkage::path::RootPath;

/// The check at the end of a build, made by the image's own loader.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct BuildCheck {
    pub loader: String,
    /// The preloads of every program, from `LD_PRELOAD` and `/etc/ld.so.preload`; a space follows each name.
    pub preloads: String,
    /// The names that a process without its own search paths must find, with all dependencies.
    pub names: Vec<String>,
    /// The C library; the names are preloaded into its process.
    pub libc: String,
    /// The `LD_LIBRARY_PATH` of the container's command, if it differs from the image's.
    pub library_path: Option<String>,
    /// Whether the copy source has a shell, for an image without one.
    pub elsewhere: bool,
    /// The programs linked with libcupti: the object, the program that loads it, and the requested name.
    pub linked: Vec<LinkedObject>,
}

impl BuildCheck {
    /// Whether there is anything to check.
    pub(crate) fn asks_loader(&self) -> bool {
        !self.names.is_empty() || !self.linked.is_empty()
    }
}

/// An object linked with libcupti.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkedObject {
    pub name: String,
    pub object: RootPath,
    /// The program that loads it, if it is another file.
    pub program: Option<RootPath>,
    /// The requested name.
    pub library: String,
}

/// The check after a patch: the names that every process finds, and the objects linked with libcupti. musl's loader is
/// not asked: libcupti does not load there.
///
/// Errors: [`PatchError::Name`] for a name that a Dockerfile cannot contain.
pub(super) fn check_patch(context: &PatchContext<'_>, patch: &ImagePatch) -> Result<BuildCheck, PatchError> {
    let (target, linker) = (context.request.target, context.linker);
    if linker.libc == Libc::Musl {
        return Ok(BuildCheck::default());
    }
    let names = match patch.found_names() {
        names if names.is_empty() => found_before(context),
        names => names,
    };
    // An image that was not read is NVIDIA's devel image.
    let source = context.request.source;
    let has_shell = source.is_none_or(|source| read_image_system(source.facts).shell);
    Ok(BuildCheck {
        loader: quote::require_plain("the path of the loader", &linker.path)?,
        preloads: preloads(target)?,
        names,
        libc: libc(target)?,
        library_path: path_of_command(target)?,
        elsewhere: patch.source.is_some() && has_shell,
        linked: linked_objects(target)?,
    })
}

/// The names that a plain process finds now, if the phase needs them. Others must not fail a build that installs nothing.
fn found_before(context: &PatchContext<'_>) -> Vec<String> {
    let PatchRequest { target, plan, .. } = context.request;
    let opened = &target.answers.plain.as_is;
    let kinds = &target.tables.dead_weight;
    // A phase may drop libcupti itself.
    let mut dropped = plan.drop.iter().filter_map(|item| kinds.find_kind(item.kind));
    let stays = !dropped.any(|kind| kind.is_library);
    if !(stays && plan.verdict == Verdict::Pass && opened.resolution.loads()) {
        return Vec::new();
    }
    let needs = context.needs(context.release.as_ref().map(|it| it.release.cuda));
    let beside = needs.into_iter().map(|need| need.stem);
    let beside =
        beside.filter(|stem| *stem != target.library.stem && target.contexts.as_is.open_plain(stem.as_bytes()).loads());
    let own = std::iter::once(escape_bytes(&opened.name));
    own.chain(beside.map(str::to_owned)).collect()
}

fn linked_objects(target: &ImageFacts) -> Result<Vec<LinkedObject>, PatchError> {
    // A program that opens libcupti with dlopen starts without it; one with a DT_NEEDED does not.
    let breaks = target
        .answers
        .consumers
        .iter()
        .filter(|it| it.required == FailureImpact::Import && it.request_kind == RequestKind::Needed);
    // The loader must read an object to list it, but the kernel also starts an unreadable program (mode 0711).
    let context = &target.contexts.as_is;
    let is_listed = |consumer: &&CuptiConsumer| {
        let mut files = std::iter::once(&consumer.object).chain(&consumer.program);
        !files.any(|file| context.is_unreadable(file))
    };
    // No patch helps programs that already fail for another reason.
    let fails_besides =
        |it: &&CuptiConsumer| it.start_failure().is_some() || !it.outcome.as_is.other_failures.is_empty();
    // The loader's list ends at a missing library, and no build has those of the driver.
    let checked = breaks.filter(|it| is_listed(it) && !fails_besides(it) && !it.outcome.as_is.needs_driver);
    // The loader cannot list a missing program, so only the object is listed.
    let is_there = |program: &RootPath| context.rootfs.lookup(&program.absolute()).is_ok();
    let objects = checked.map(|consumer| {
        let program = consumer.program.clone();
        Ok(LinkedObject {
            name: consumer.name.clone(),
            object: consumer.object.clone(),
            program: program.filter(|program| *program != consumer.object && is_there(program)),
            library: quote::require_plain("the name of a library", &consumer.requested_name)?,
        })
    });
    objects.collect()
}

fn preloads(target: &ImageFacts) -> Result<String, PatchError> {
    let words = target.contexts.as_is.preloaded_names();
    let names: String = words.map(|word| String::from_utf8_lossy(word) + " ").collect();
    quote::require_writable("what is preloaded", &names)?;
    Ok(names)
}

fn libc(target: &ImageFacts) -> Result<String, PatchError> {
    // Any object can carry the preloads; every glibc image has the C library.
    let opened = target.contexts.as_is.open_plain(b"libc.so.6");
    let found = crate::facts::opened_object(&opened).map(|object| &*object.path);
    quote::require_plain("the path of the C library", found.unwrap_or(b"/lib/libc.so.6"))
}

/// The `LD_LIBRARY_PATH` of the container's command, if it is known and differs from the image's.
fn path_of_command(target: &ImageFacts) -> Result<Option<String>, PatchError> {
    let context = &target.contexts.as_is;
    let entry = &context.entry;
    let value = entry.variables.get(LIBRARY_PATH);
    let before = context.commands.environment.get(LIBRARY_PATH);
    if value == before || entry.unknown.contains_key(LIBRARY_PATH) {
        return Ok(None);
    }
    // The loader treats an empty value as unset (glibc elf/rtld.c, `process_envvars`).
    let mut path = value.cloned().unwrap_or_default();
    if let Some(folder) = &entry.working_dir {
        path = absolute_elements(&path, folder);
    }
    quote::require_writable(LIBRARY_PATH, &path)?;
    Ok(Some(path))
}

/// An `LD_LIBRARY_PATH` with its relative elements below `folder`, the directory of the container's command. The check
/// of a build runs in another directory.
fn absolute_elements(value: &str, folder: &str) -> String {
    if value.is_empty() {
        return String::new();
    }
    let elements = value.split([':', ';']).map(|element| match element {
        "" => folder.to_owned(),
        _ if element.starts_with(['/', '$']) => element.to_owned(),
        _ => format!("{folder}/{element}"),
    });
    elements.collect::<Vec<_>>().join(":")
}
