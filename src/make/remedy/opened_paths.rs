//! Links at the absolute paths by which programs open the library; they search nowhere else.

use super::copy_plan::CreatedLink;
use crate::facts::{CuptiConsumer, CuptiCopy, ImageFacts};
use crate::judge::plan::Plan;
use image_linkage::path::RootPath;

/// The links to `library` for programs that fail to open it by an absolute path. The name must match the soname.
pub(crate) fn links_at_opened_paths(target: &ImageFacts, soname: &[u8], library: &RootPath) -> Vec<CreatedLink> {
    let mut links: Vec<CreatedLink> = Vec::new();
    let misses = target.consumers.iter().filter(|consumer| consumer.misses_library());
    for consumer in misses.filter(|consumer| consumer.wants.starts_with(b"/")) {
        let at = RootPath::new(&consumer.wants);
        let is_new = at != *library && links.iter().all(|link| link.at != at);
        if is_new && target.is_name_of(at.name(), soname) {
            links.push(CreatedLink {
                at,
                to: library.absolute().into(),
                because: format!("{} opens this path", consumer.name),
            });
        }
    }
    links
}

/// The link beside `library` by the unversioned name, if a program fails to open that name.
pub(super) fn plain_link(target: &ImageFacts, library: &RootPath) -> Option<CreatedLink> {
    let stem = target.library.stem.as_bytes();
    let mut misses = target.consumers.iter().filter(|consumer| consumer.misses_library());
    let consumer = misses.find(|consumer| *consumer.wants == *stem)?;
    let soname = library.name().into();
    Some(CreatedLink::with_plain_name(consumer, &library.parent(), soname))
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
