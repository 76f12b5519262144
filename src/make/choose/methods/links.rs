//! Links by the absolute paths and by the bare name by which programs open the library.

use crate::facts::objects::credentials::closed_places;
use crate::facts::{ApiAvailability, CuptiCopy, ImageFacts};
use crate::knowledge::Phase;
use crate::make::choose::Obstacle;
use crate::make::choose::misleading_names::is_misled;
use crate::make::choose::request::PatchContext;
use crate::make::patch::{ImagePatch, PatchedLink};
use image_linkage::escape::escape_bytes;
use image_linkage::path::RootPath;
use image_linkage::rootfs::FileUse;

/// Links alone: the image has the library, and only programs that open paths miss it.
///
/// Errors: Links are not enough.
pub(in crate::make::choose) fn propose(context: &PatchContext<'_>) -> Result<Vec<ImagePatch>, Obstacle> {
    let (target, plan) = (context.request.target, context.request.plan);
    let mut demands = plan.unmet.iter();
    if plan.gets_wrong_soname || !demands.all(|demand| opens_path(target, demand.consumer)) {
        return Err("not only programs that open paths miss it".into());
    }
    let patch = target.own_copies().find_map(|copy| links_to(target, copy));
    Ok(vec![patch.ok_or("no program opens a path of its name")?])
}

/// Whether the consumer with this number opens an absolute path.
fn opens_path(target: &ImageFacts, number: Option<usize>) -> bool {
    let consumer = number.and_then(|number| target.answers.consumers.get(number));
    consumer.is_some_and(|consumer| consumer.requested_name.starts_with(b"/"))
}

fn links_to(target: &ImageFacts, copy: &CuptiCopy) -> Option<ImagePatch> {
    let soname = copy.soname.as_ref().filter(|_| copy.by_path.as_is.loads())?;
    let links = links_at_opened_paths(target, soname, &copy.real_path);
    let words: Vec<String> = links
        .iter()
        .map(|link| format!("make {} a link to {}", link.at, escape_bytes(&link.to)))
        .collect();
    (!links.is_empty()).then(|| ImagePatch {
        title: words.join(" and "),
        soname: soname.clone(),
        library: copy.real_path.clone(),
        links,
        ..ImagePatch::default()
    })
}

/// The links to `library` for programs that fail to open it by an absolute path. The name must match the soname.
pub(in crate::make::choose) fn links_at_opened_paths(
    target: &ImageFacts,
    soname: &[u8],
    library: &RootPath,
) -> Vec<PatchedLink> {
    let mut links: Vec<PatchedLink> = Vec::new();
    let misses = target
        .answers
        .consumers
        .iter()
        .filter(|consumer| consumer.misses_library());
    for consumer in misses.filter(|consumer| consumer.requested_name.starts_with(b"/")) {
        let at = RootPath::new(&consumer.requested_name);
        let context = &target.contexts.as_is;
        // A link in its folder part may make it another name of the library, whose file may not be there yet.
        let folder = context.rootfs.lookup(&at.parent().absolute());
        let is_library = folder.is_ok_and(|folder| folder.path.join(at.name()) == *library) || at == *library;
        let is_new = !is_library && links.iter().all(|link| link.at != at);
        // A file that the user may not read is made readable.
        let closed = closed_places(&context.rootfs, &context.user.credentials, &at, FileUse::Read);
        if is_new && closed.is_empty() && target.is_name_of(at.name(), soname) {
            links.push(PatchedLink {
                at,
                to: library.absolute().into(),
                because: format!("{} opens this path", consumer.name),
            });
        }
    }
    links
}

/// The link to `to` in `folder` by the name without a number, if a program opens that name and does not get by it what
/// the phase needs.
pub(in crate::make::choose) fn bare_link(
    context: &PatchContext<'_>,
    folder: &RootPath,
    to: &[u8],
) -> Option<PatchedLink> {
    let (target, phase) = (context.request.target, context.request.phase);
    let stem = target.library.stem.as_bytes();
    let mut consumers = target.answers.consumers.iter().enumerate();
    let (_, opener) = consumers.find(|(number, consumer)| {
        *consumer.requested_name == *stem
            && (consumer.misses_library() || is_misled(target, consumer) || lacks_apis(target, phase, *number))
    })?;
    (to != stem).then(|| PatchedLink {
        at: folder.join(stem),
        to: to.into(),
        because: format!("{} opens this name", opener.name),
    })
}

/// Whether the library that a consumer gets lacks an API that the phase needs or wants.
fn lacks_apis(target: &ImageFacts, phase: &Phase, consumer: usize) -> bool {
    let mut processes = target
        .answers
        .apis
        .iter()
        .filter(|process| process.consumer == Some(consumer));
    processes.any(|process| {
        let reach = &process.reach.as_is;
        let mut wishes = phase.wished_apis(target.tables);
        wishes.any(|wish| !wish.iter().any(|api| reach.usable(&api.id) == ApiAvailability::Yes))
    })
}
