//! What is asked of the image's own loader at the end of a build.

use super::install_method::InstallMethod;
use super::required_libraries::RequiredLibrary;
use crate::judge::facts::{CuptiConsumer, FailureImpact, ImageFacts, RequestKind};
use crate::judge::plan::{Plan, PlanItem, Verdict};
use crate::knowledge::LibraryProfile;
use image_linkage::elf::ByteString;
use image_linkage::loader::DynamicLoader;
use image_linkage::path::RootPath;

/// What is asked of the image's own loader.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct BuildCheck {
    pub loader: ByteString,
    /// What every program of the image gets before it starts, by `LD_PRELOAD` and `/etc/ld.so.preload`.
    pub preloads: ByteString,
    /// The names that a process without search paths of its own has to find, all that they need included.
    pub names: Vec<String>,
    /// The C library, into whose process the names are loaded.
    pub libc: ByteString,
    /// Whether the image that is copied from has a shell, for an image that has none.
    pub elsewhere: bool,
    /// The programs that are linked with libcupti: their object, the program that loads it, and the name they ask for.
    pub linked: Vec<LinkedObject>,
}

/// An object that is linked with libcupti.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkedObject {
    pub name: String,
    pub object: RootPath,
    /// The program that loads it, where that is another.
    pub program: Option<RootPath>,
    /// The name that it asks for.
    pub wants: ByteString,
}

/// The names that have to be found: that of `library` and those of what is needed beside it.
pub(super) fn names_to_check(library: &LibraryProfile, way: &InstallMethod, needs: &[RequiredLibrary]) -> Vec<String> {
    // No process finds a library by its bare name that is there under a numbered one alone.
    let beside = needs
        .iter()
        .filter(|need| need.stem != library.stem && !need.is_numbered);
    std::iter::once(way.soname())
        .chain(beside.map(|need| need.stem.to_owned()))
        .collect()
}

/// The objects that are linked with libcupti, and, where a plain process gets it now, its name.
pub(super) fn check_without_install(
    target: &ImageFacts,
    linker: &DynamicLoader,
    plan: &Plan,
    needs: &[RequiredLibrary],
) -> BuildCheck {
    // A program that opens libcupti by dlopen starts without it; one with a DT_NEEDED does not.
    let breaks = target
        .consumers
        .iter()
        .filter(|it| it.required == FailureImpact::Import && it.asks == RequestKind::Needed);
    // The loader reads what it lists, and the kernel starts a program that nobody may read (mode 0711) all the same.
    let context = &target.contexts.as_is;
    let is_listed = |consumer: &&CuptiConsumer| {
        let mut files = std::iter::once(&consumer.object).chain(&consumer.program);
        !files.any(|file| context.is_unreadable(file))
    };
    // What does not start today for another reason is not made to.
    let fails_besides =
        |it: &&CuptiConsumer| it.start_failure().is_some() || !it.outcome.as_is.other_failures.is_empty();
    let checked = breaks.filter(|it| is_listed(it) && !fails_besides(it));
    let objects = checked.map(|consumer| LinkedObject {
        name: consumer.name.clone(),
        object: consumer.object.clone(),
        program: consumer.program.clone().filter(|program| *program != consumer.object),
        wants: consumer.wants.clone(),
    });
    let opened = &target.plain.as_is;
    // A name that a plain process does not find today, and that is not brought, must not fail the build.
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
    BuildCheck {
        loader: linker.path.clone(),
        preloads: preloads(target),
        names: names.filter(|_| serves && stays).collect(),
        libc: libc(target),
        elsewhere: false,
        linked: objects.collect(),
    }
}

/// The names that are preloaded, with a space behind each.
fn preloads(target: &ImageFacts) -> ByteString {
    let words = target.contexts.as_is.preloaded_names();
    words.flat_map(|word| [word, b" "].concat()).collect::<Vec<u8>>().into()
}

fn libc(target: &ImageFacts) -> ByteString {
    // Any object would do to preload the names into; the C library is one that every glibc image has.
    let opened = target.contexts.as_is.open_plain(b"libc.so.6");
    let found = crate::judge::facts::opened_object(&opened).map(|object| object.path.clone());
    found.unwrap_or_else(|| ByteString::from(&b"/lib/libc.so.6"[..]))
}
