//! Links by the absolute paths and by the bare name by which programs open the library.

use super::copy_plan::CreatedLink;
use super::misleading_names::is_misled;
use crate::facts::objects::credentials::closed_places;
use crate::facts::{ApiAvailability, CuptiConsumer, CuptiCopy, CuptiProcess, ImageFacts};
use crate::judge::plan::Plan;
use crate::knowledge::Phase;
use crate::knowledge::api::CuptiApi;
use image_linkage::path::RootPath;
use image_linkage::rootfs::FileUse;

/// The links to `library` for programs that fail to open it by an absolute path. The name must match the soname.
pub(crate) fn links_at_opened_paths(target: &ImageFacts, soname: &[u8], library: &RootPath) -> Vec<CreatedLink> {
    let mut links: Vec<CreatedLink> = Vec::new();
    let misses = target.consumers.iter().filter(|consumer| consumer.misses_library());
    for consumer in misses.filter(|consumer| consumer.wants.starts_with(b"/")) {
        let at = RootPath::new(&consumer.wants);
        let is_new = at != *library && links.iter().all(|link| link.at != at);
        // A file that the user may not read is made readable.
        let context = &target.contexts.as_is;
        let closed = closed_places(&context.rootfs, &context.user.credentials, &at, FileUse::Read);
        if is_new && closed.is_empty() && target.is_name_of(at.name(), soname) {
            links.push(CreatedLink {
                at,
                to: library.absolute().into(),
                because: format!("{} opens this path", consumer.name),
            });
        }
    }
    links
}

/// The link in `folder` by the name without a number, if a program opens that name and does not get by it what the phase
/// needs.
pub(super) fn plain_link(target: &ImageFacts, phase: &Phase, folder: &RootPath, soname: &[u8]) -> Option<CreatedLink> {
    let stem = target.library.stem.as_bytes();
    let openers = target.consumers.iter().enumerate();
    let mut openers = openers.filter(|(_, consumer)| *consumer.wants == *stem);
    let (_, opener) = openers.find(|(number, opener)| {
        opener.misses_library() || is_misled(target, opener) || lacks_apis(target, phase, *number)
    })?;
    (soname != stem).then(|| CreatedLink {
        at: folder.join(stem),
        to: soname.into(),
        because: format!("{} opens this name", opener.name),
    })
}

/// Whether the library that a consumer gets lacks an API that the phase needs or wants.
fn lacks_apis(target: &ImageFacts, phase: &Phase, consumer: usize) -> bool {
    let mut processes = target.apis.iter().filter(|process| process.consumer == Some(consumer));
    let has = |process: &CuptiProcess, api: &CuptiApi| process.reach.as_is.usable(&api.id) == ApiAvailability::Yes;
    processes.any(|process| {
        let mut wishes = phase.wished_apis(target.tables);
        wishes.any(|wish| !wish.iter().any(|api| has(process, api)))
    })
}

/// The links that alone make an image serve a phase: the image has the library, and only programs that open paths miss
/// it. Empty if links are not enough.
pub(crate) fn links_that_suffice(target: &ImageFacts, plan: &Plan) -> Vec<CreatedLink> {
    let consumers = plan.unmet.iter().map(|demand| demand.consumer);
    let mut consumers = consumers.map(|number| target.consumers.get(number?));
    let opens_path =
        |consumer: Option<&CuptiConsumer>| consumer.is_some_and(|consumer| consumer.wants.starts_with(b"/"));
    if plan.gets_wrong_soname || !consumers.all(opens_path) {
        return Vec::new();
    }
    let links_to = |copy: &CuptiCopy| {
        let soname = copy.soname.as_ref().filter(|_| copy.by_path.as_is.loads())?;
        Some(links_at_opened_paths(target, soname, &copy.real_path)).filter(|links| !links.is_empty())
    };
    target.own_copies().find_map(links_to).unwrap_or_default()
}
