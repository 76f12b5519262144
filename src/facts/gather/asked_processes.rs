//! Simulates the requests of an image's processes for the library.

use super::rootfs_scan::ScannedImage;
use crate::facts::image_facts::CuptiStatus;
use crate::facts::objects::plain_open::{PlainOpen, open_first};
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::{is_undetermined, unresolved_objects};
use crate::facts::objects::world::ByWorld;
use crate::facts::software::command_start::{CommandFailure, find_command_failure};
use crate::facts::software::consumers::{self, Circumstances, CuptiConsumer, LibraryUsers, ObjectLinks};
use crate::facts::software::copies::{self, CuptiCopy};
use crate::facts::software::cupti_access::{self, CuptiProcess};
use crate::facts::software::cupti_files::CuptiFiles;
use crate::facts::software::expected_soname;
use crate::facts::software::given_assumption::find_given_assumption;
use crate::facts::software::opened_names::UndecidedOpener;
use crate::facts::software::process_variants::{AnswerBasis, ProcessVariants, file_assumptions};
use crate::knowledge::{ConsumerProfile, Knowledge};
use container_start::Assumption;
use image_linkage::rootfs::Rootfs;
use image_source::Image;

/// The results of all requests.
pub(super) struct AskedProcesses {
    pub consumers: Vec<CuptiConsumer>,
    pub silent_programs: Vec<CuptiConsumer>,
    pub undecided: Vec<UndecidedOpener>,
    pub command_failure: Option<CommandFailure>,
    pub assumptions: Vec<Assumption>,
    pub plain: ByWorld<PlainOpen>,
    pub status: ByWorld<CuptiStatus>,
    pub status_is_open: Option<String>,
    pub copies: Vec<CuptiCopy>,
    pub apis: Vec<CuptiProcess>,
}

impl AskedProcesses {
    /// Marks all results as uncertain, for this reason.
    pub(super) fn leave_open(&mut self, why: &str) {
        let programs = self.consumers.iter_mut().chain(&mut self.silent_programs);
        let open = programs.map(|program| &mut program.open);
        for open in open.chain([&mut self.status_is_open]) {
            open.get_or_insert_with(|| why.to_owned());
        }
    }
}

/// Simulates the request of each consumer, and of a process without its own search paths.
pub(super) fn ask_processes(
    image: &Image,
    rootfs: &Rootfs,
    scanned: &ScannedImage,
    knowledge: &Knowledge,
    profiles: &[ConsumerProfile],
) -> AskedProcesses {
    let ScannedImage { scan, contexts, wanted } = scanned;
    let (library, found) = (knowledge.library, &scan.found);
    let variants = ProcessVariants::new(&contexts.as_is, found);
    let circumstances = Circumstances {
        wanted,
        variants: &variants,
        users: LibraryUsers::new(&scan.inventory.objects),
        links: ObjectLinks::new(&scan.inventory.links),
    };
    let distributions = &scan.around.distributions;
    let (consumers, undecided) =
        consumers::find_consumers(contexts, found, knowledge, profiles, distributions, &circumstances);
    let builds = scan.around.builds.iter().map(|build| build.object.clone());
    let objects = builds.filter(|object| !consumers.iter().any(|consumer| consumer.object == *object));
    let silent_programs = consumers::find_silent_programs(contexts, library, profiles, objects, &circumstances);
    let expected = expected_soname::expected_sonames(image, rootfs, knowledge, found, &consumers);
    let plain = ByWorld::map(contexts, |context| open_first(context, library, &expected));
    let is_loadable = |plain: &PlainOpen| plain.resolution.loads();
    let answer = variants.judge(is_loadable(&plain.as_is), |context| {
        is_loadable(&open_first(context, library, &expected))
    });
    let basis = consumers
        .iter()
        .chain(&silent_programs)
        .fold(answer.basis, |basis, consumer| basis.or(&consumer.basis));
    let assumptions = rested_assumptions(&contexts.as_is, found, &basis);
    let status_is_open = answer.open.or_else(|| contexts.as_is.budget_end());
    let damaged = unresolved_objects(&plain.as_is.resolution).find(|missing| is_undetermined(&missing.trace));
    let status_is_open = status_is_open.or_else(|| damaged.map(|missing| missing.message.clone()));
    let copies = copies::describe_copies(knowledge, contexts, found, &plain, &consumers);
    let apis = cupti_access::find_cupti_access(contexts, knowledge.apis(), &consumers, &copies, &plain, wanted);
    AskedProcesses {
        command_failure: find_command_failure(&contexts.as_is, &image.config, consumers.iter().chain(&silent_programs)),
        assumptions,
        status: ByWorld::map(&plain, |plain| status_of(plain, knowledge, found)),
        consumers,
        silent_programs,
        undecided,
        plain,
        status_is_open,
        copies,
        apis,
    }
}

/// The assumptions behind the results.
fn rested_assumptions(context: &ProcessContext, found: &CuptiFiles, basis: &AnswerBasis) -> Vec<Assumption> {
    let of_command = context.commands.assumptions().iter().filter(|_| basis.environment);
    let given = find_given_assumption(context, &basis.given);
    let mut assumptions: Vec<Assumption> = of_command.cloned().chain(given).collect();
    assumptions.extend(file_assumptions(context, found));
    assumptions.sort();
    assumptions.dedup();
    assumptions
}

fn status_of(plain: &PlainOpen, knowledge: &Knowledge, found: &CuptiFiles) -> CuptiStatus {
    match () {
        () if plain.resolution.loads() => CuptiStatus::Loadable,
        // A tool's private copy does not count: with Nsight alone, the image has no CUPTI.
        () if found.own(knowledge).next().is_some() => CuptiStatus::Unloadable,
        // The loader can map neither a header nor a dangling link.
        () if !found.headers.is_empty() || !found.dangling.is_empty() => CuptiStatus::HeadersOnly,
        () => CuptiStatus::Absent,
    }
}
