//! Simulates the requests of an image's processes for the library.

use super::rootfs_scan::ScannedImage;
use crate::facts::objects::plain_open::{PlainOpen, open_first};
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::{is_undetermined, unresolved_objects};
use crate::facts::objects::world::ByWorld;
use crate::facts::software::command_start::{CommandFailure, find_command_failure};
use crate::facts::software::consumers::{
    CuptiConsumer, FoundConsumers, LibraryUsers, ObjectLinks, TrialCase, find_silent_programs,
};
use crate::facts::software::copies::{self, CuptiCopy};
use crate::facts::software::cupti_access::{self, CuptiProcess};
use crate::facts::software::cupti_files::CuptiFiles;
use crate::facts::software::expected_soname;
use crate::facts::software::given_assumption::find_given_assumption;
use crate::facts::software::opened_names::UndecidedOpener;
use crate::facts::software::process_variants::{AnswerBasis, ProcessVariants, file_assumptions};
use crate::knowledge::{ConsumerProfile, Knowledge};
use container_start::Assumption;
use image_source::Image;

/// The results of all requests.
pub struct Answers {
    /// The result of a plain dlopen of the soname in each world. It is for the first soname that opens, else for the
    /// expected one.
    pub plain: ByWorld<PlainOpen>,
    /// Whether CUPTI can be opened, in each world.
    pub status: ByWorld<CuptiStatus>,
    /// Why the status in the image as it is cannot be determined statically.
    pub status_is_open: Option<String>,
    /// The consumers of CUPTI.
    pub consumers: Vec<CuptiConsumer>,
    /// Known programs that request nothing, because CUPTI is part of them or was left out.
    pub silent_programs: Vec<CuptiConsumer>,
    /// Objects that may open CUPTI under names that are not whole in their bytes.
    pub undecided: Vec<UndecidedOpener>,
    /// The copies of libcupti.
    pub copies: Vec<CuptiCopy>,
    /// The CUPTI APIs usable in a process without search paths, then in each consumer.
    pub apis: Vec<CuptiProcess>,
    /// Why the container's own command does not start.
    pub command_failure: Option<CommandFailure>,
    /// The assumptions behind the results that the image does not show.
    pub assumptions: Vec<Assumption>,
}

/// Whether a process without its own search paths can open CUPTI by its soname.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CuptiStatus {
    /// It can, with all dependencies.
    Loadable,
    /// A copy exists, but the loader does not find or accept it.
    Unloadable,
    /// The library is missing; only headers or dangling links exist.
    HeadersOnly,
    /// Neither a copy nor a header exists.
    Absent,
}

impl CuptiStatus {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loadable => "loadable",
            Self::Unloadable => "unloadable",
            Self::HeadersOnly => "headers-only",
            Self::Absent => "absent",
        }
    }
}

impl Answers {
    /// Simulates the request of each consumer, and of a process without its own search paths.
    pub(super) fn ask(
        image: &Image,
        scanned: &ScannedImage,
        knowledge: &Knowledge,
        profiles: &[ConsumerProfile],
    ) -> Self {
        let ScannedImage { scan, contexts, wanted } = scanned;
        let context = &contexts.as_is;
        let case = TrialCase {
            contexts,
            found: &scan.found,
            knowledge,
            profiles,
            distributions: &scan.around.distributions,
            companions: wanted,
            variants: ProcessVariants::new(context, &scan.found),
            users: LibraryUsers::new(&scan.inventory.objects),
            links: ObjectLinks::new(&scan.inventory.links),
        };
        let FoundConsumers { consumers, undecided } = FoundConsumers::find(&case);
        let builds = scan.around.builds.iter().map(|build| build.object.clone());
        let objects = builds.filter(|object| !consumers.iter().any(|consumer| consumer.object == *object));
        let silent_programs = find_silent_programs(&case, objects);
        let expected = expected_soname::expected_sonames(image, &case, &consumers);
        let plain = contexts.map(|context| open_first(context, knowledge.library, &expected));
        let answer = case.variants.judge(plain.as_is.resolution.loads(), |context| {
            open_first(context, knowledge.library, &expected).resolution.loads()
        });
        let basis = consumers
            .iter()
            .chain(&silent_programs)
            .fold(answer.basis, |basis, consumer| basis.or(&consumer.basis));
        let copies = copies::describe_copies(&case, &plain, &consumers);
        let apis = cupti_access::find_cupti_access(&case, &consumers, &copies, &plain);
        Self {
            command_failure: find_command_failure(context, &image.config, consumers.iter().chain(&silent_programs)),
            assumptions: rested_assumptions(context, &scan.found, &basis),
            status: plain.map(|plain| status_of(plain, knowledge, &scan.found)),
            status_is_open: answer.open.or_else(|| plain_doubt(context, &plain.as_is)),
            consumers,
            silent_programs,
            undecided,
            plain,
            copies,
            apis,
        }
    }

    /// Marks all results as uncertain, for this reason.
    pub(super) fn leave_open(&mut self, why: &str) {
        for program in self.consumers.iter_mut().chain(&mut self.silent_programs) {
            program.open.get_or_insert_with(|| why.to_owned());
        }
        self.status_is_open.get_or_insert_with(|| why.to_owned());
    }
}

/// Why the result of a plain dlopen cannot be determined statically in any variant.
fn plain_doubt(context: &ProcessContext, plain: &PlainOpen) -> Option<String> {
    context.budget_end().or_else(|| {
        let mut unresolved = unresolved_objects(&plain.resolution);
        let damaged = unresolved.find(|missing| is_undetermined(&missing.trace))?;
        Some(damaged.message.clone())
    })
}

/// The assumptions behind the results.
fn rested_assumptions(context: &ProcessContext, found: &CuptiFiles, basis: &AnswerBasis) -> Vec<Assumption> {
    let mut assumptions = Vec::from_iter(find_given_assumption(context, &basis.given));
    if basis.environment {
        assumptions.extend_from_slice(context.commands.assumptions());
    }
    assumptions.extend(file_assumptions(context, found));
    assumptions.sort();
    assumptions.dedup();
    assumptions
}

fn status_of(plain: &PlainOpen, knowledge: &Knowledge, found: &CuptiFiles) -> CuptiStatus {
    if plain.resolution.loads() {
        CuptiStatus::Loadable
    } else if found.own(knowledge).next().is_some() {
        // A tool's private copy does not count: with Nsight alone, the image has no CUPTI.
        CuptiStatus::Unloadable
    } else if !found.headers.is_empty() || !found.dangling.is_empty() {
        // The loader can map neither a header nor a dangling link.
        CuptiStatus::HeadersOnly
    } else {
        CuptiStatus::Absent
    }
}
