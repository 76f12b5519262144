//! The check at the end of a build, made by the image's own loader.

use serde::Serialize;

use super::RemedyError;
use super::install_method::InstallMethod;
use super::required_libraries::RequiredLibrary;
use crate::facts::{CuptiConsumer, FailureImpact, ImageFacts, RequestKind};
use crate::judge::plan::{Plan, PlanItem, Verdict};
use crate::knowledge::LibraryProfile;
use crate::knowledge::file_interest::LIBRARY_PATH;
use crate::make::quote;
use image_linkage::loader::{DynamicLoader, Libc};
use image_linkage::path::RootPath;

/// The check at the end of a build, made by the image's own loader.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
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

/// An object linked with libcupti.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct LinkedObject {
    pub name: String,
    #[serde(serialize_with = "quote::serialize_path")]
    pub object: RootPath,
    /// The program that loads it, if it is another file.
    #[serde(serialize_with = "quote::serialize_optional_path")]
    pub program: Option<RootPath>,
    /// The requested name.
    pub wants: String,
}

/// The names that must be found: the name of `library` and those of its companions.
pub(super) fn names_to_check(library: &LibraryProfile, way: &InstallMethod, needs: &[RequiredLibrary]) -> Vec<String> {
    // A library that only has a numbered name cannot be found by its bare name.
    let beside = needs
        .iter()
        .filter(|need| need.stem != library.stem && !need.is_numbered);
    std::iter::once(way.soname())
        .chain(beside.map(|need| need.stem.to_owned()))
        .collect()
}

/// The objects linked with libcupti, and the library's name if a plain process gets it now. musl's loader is not asked:
/// libcupti does not load there.
///
/// Errors: [`RemedyError::Name`] for a name that a Dockerfile cannot contain.
pub(super) fn check_without_install(
    target: &ImageFacts,
    linker: &DynamicLoader,
    plan: &Plan,
    needs: &[RequiredLibrary],
) -> Result<BuildCheck, RemedyError> {
    if linker.libc == Libc::Musl {
        return Ok(BuildCheck::default());
    }
    // A program that opens libcupti with dlopen starts without it; one with a DT_NEEDED does not.
    let breaks = target
        .consumers
        .iter()
        .filter(|it| it.required == FailureImpact::Import && it.asks == RequestKind::Needed);
    // The loader must read an object to list it, but the kernel also starts an unreadable program (mode 0711).
    let context = &target.contexts.as_is;
    let is_listed = |consumer: &&CuptiConsumer| {
        let mut files = std::iter::once(&consumer.object).chain(&consumer.program);
        !files.any(|file| context.is_unreadable(file))
    };
    // The recipe does not fix programs that already fail for another reason.
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
            wants: quote::require_plain("the name of a library", &consumer.wants)?,
        })
    });
    let opened = &target.plain.as_is;
    // A name that a plain process does not find now, and that is not installed, must not fail the build.
    let serves = plan.verdict == Verdict::Pass && opened.resolution.loads();
    let kinds = &target.tables.dead_weight;
    let is_library = |item: &PlanItem| kinds.find_kind(item.kind).is_some_and(|kind| kind.is_library);
    // A phase may drop libcupti itself.
    let stays = !plan.drop.iter().any(is_library);
    let beside = needs
        .iter()
        .map(|need| need.stem)
        .filter(|stem| *stem != target.library.stem && target.contexts.as_is.open_plain(stem.as_bytes()).loads());
    let names = std::iter::once(image_linkage::escape::escape_bytes(&opened.name)).chain(beside.map(str::to_owned));
    Ok(BuildCheck {
        loader: quote::require_plain("the path of the loader", &linker.path)?,
        preloads: preloads(target)?,
        names: names.filter(|_| serves && stays).collect(),
        libc: libc(target)?,
        library_path: path_of_command(target)?,
        elsewhere: false,
        linked: objects.collect::<Result<_, RemedyError>>()?,
    })
}

fn preloads(target: &ImageFacts) -> Result<String, RemedyError> {
    let words = target.contexts.as_is.preloaded_names();
    let names: String = words.map(|word| String::from_utf8_lossy(word) + " ").collect();
    quote::require_writable("what is preloaded", &names)?;
    Ok(names)
}

fn libc(target: &ImageFacts) -> Result<String, RemedyError> {
    // Any object can carry the preloads; every glibc image has the C library.
    let opened = target.contexts.as_is.open_plain(b"libc.so.6");
    let found = crate::facts::opened_object(&opened).map(|object| &*object.path);
    quote::require_plain("the path of the C library", found.unwrap_or(b"/lib/libc.so.6"))
}

/// The `LD_LIBRARY_PATH` of the container's command, if it is known and differs from the image's.
fn path_of_command(target: &ImageFacts) -> Result<Option<String>, RemedyError> {
    let context = &target.contexts.as_is;
    let entry = &context.entry;
    let value = entry.variables.get(LIBRARY_PATH);
    let before = context.commands.environment.get(LIBRARY_PATH);
    if value == before || entry.unknown.contains_key(LIBRARY_PATH) {
        return Ok(None);
    }
    // The loader treats an empty value as unset (glibc elf/rtld.c, `process_envvars`).
    let value = value.cloned().unwrap_or_default();
    let value = match &entry.working_dir {
        Some(folder) => absolute_elements(&value, folder),
        None => value,
    };
    quote::require_writable(LIBRARY_PATH, &value)?;
    Ok(Some(value))
}

/// An `LD_LIBRARY_PATH` with its relative elements below `folder`, the directory of the container's command. The check
/// of a build runs in another directory.
fn absolute_elements(value: &str, folder: &str) -> String {
    let absolute = |element: &str| match element {
        "" => folder.to_owned(),
        _ if element.starts_with(['/', '$']) => element.to_owned(),
        _ => format!("{folder}/{element}"),
    };
    if value.is_empty() {
        return String::new();
    }
    let elements: Vec<String> = value.split([':', ';']).map(absolute).collect();
    elements.join(":")
}
