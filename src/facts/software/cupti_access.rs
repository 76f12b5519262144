//! Determines which CUPTI APIs a program can use: it needs libcupti, the API in it, and the companion libraries.
//!
//! It is not enough that `libnvperf_host.so` is beside libcupti. libcupti opens it by its bare name and has no search
//! path, so the result depends on how libcupti was loaded. The loader simulation resolves it.

use std::collections::BTreeMap;

use crate::facts::objects::load_answer::LoadAnswer;
use crate::facts::objects::plain_open::PlainOpen;
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::elf_at;
use crate::facts::objects::world::ByWorld;
use crate::facts::software::companions::{CompanionLookup, CompanionRequest, look_up_companions};
use crate::facts::software::consumers::{CuptiConsumer, TrialCase};
use crate::facts::software::copies::CuptiCopy;
use crate::knowledge::api::CuptiApi;
use crate::knowledge::has_ended;
use image_linkage::elf::SymbolRole;
use image_linkage::loader::SimulatedProcess;
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// A process that may use CUPTI, with the parts that it can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CuptiProcess {
    /// The consumer's index; `None` for a process without its own search paths.
    pub consumer: Option<usize>,
    /// Its access to CUPTI in each world.
    pub reach: ByWorld<CuptiAccess>,
}

/// A process's access to CUPTI.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CuptiAccess {
    /// The libcupti that it gets.
    pub cupti: Option<RootPath>,
    /// The companion libraries.
    pub companions: Vec<CompanionLookup>,
    /// The availability of each API, by id.
    pub apis: BTreeMap<&'static str, ApiAvailability>,
}

/// Whether an API is usable, as far as an image shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiAvailability {
    /// All its libraries load.
    Yes,
    /// libcupti does not load.
    NoCupti,
    /// The loaded libcupti does not export it.
    NotInRelease,
    /// A companion library does not load.
    NoLibrary,
}

impl ApiAvailability {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yes => "usable",
            Self::NoCupti => "no-cupti",
            Self::NotInRelease => "not-in-release",
            Self::NoLibrary => "library-missing",
        }
    }
}

impl CuptiAccess {
    /// The availability of the API with this id.
    pub fn usable(&self, api: &str) -> ApiAvailability {
        self.apis
            .get(api)
            .copied()
            // For a library without described APIs, none is known to be usable.
            .unwrap_or(ApiAvailability::NoCupti)
    }

    /// The libraries of an API that do not load.
    pub fn missing(&self, api: &CuptiApi) -> impl Iterator<Item = &CompanionLookup> {
        self.companions.iter().filter(|companion| {
            let mut libraries = api.libraries.iter();
            !companion.answer.is_loaded()
                && libraries
                    .any(|library| library.name == companion.library && library.requester == companion.requester)
        })
    }

    fn judged(mut self, rootfs: &Rootfs, copies: &[CuptiCopy], apis: &'static [CuptiApi]) -> Self {
        self.apis = apis
            .iter()
            .map(|api| (api.id.as_str(), self.judge(rootfs, copies, api)))
            .collect();
        self
    }

    fn judge(&self, rootfs: &Rootfs, copies: &[CuptiCopy], api: &CuptiApi) -> ApiAvailability {
        // Some APIs are outside of libcupti: checkpoints only need libcheckpoint.so.
        if api.exports.is_some() {
            match &self.cupti {
                None => return ApiAvailability::NoCupti,
                Some(path) if !exports(rootfs, path, api) || is_over(copies, path, api) => {
                    return ApiAvailability::NotInRelease;
                }
                Some(_) => {}
            }
        }
        match self.missing(api).next() {
            Some(_) => ApiAvailability::NoLibrary,
            None => ApiAvailability::Yes,
        }
    }
}

/// Whether the libcupti at this path has an API. One with unreadable symbols counts as having it.
fn exports(rootfs: &Rootfs, path: &RootPath, api: &CuptiApi) -> bool {
    let symbols = elf_at(rootfs, path)
        .map(|elf| elf.symbols.as_slice())
        .unwrap_or_default();
    let mut functions = symbols
        .iter()
        .filter(|symbol| symbol.role == SymbolRole::Export)
        .peekable();
    functions.peek().is_none() || functions.any(|symbol| api.is_shown_by(&symbol.name))
}

/// Whether the release of the libcupti at this path ended an API, although it still exports it.
fn is_over(copies: &[CuptiCopy], path: &RootPath, api: &CuptiApi) -> bool {
    let copy = copies.iter().find(|copy| copy.real_path == *path);
    copy.and_then(CuptiCopy::cuda).is_some_and(|cuda| has_ended(cuda, api))
}

/// The access of each consumer, and of a process without search paths.
pub(crate) fn find_cupti_access(
    case: &TrialCase<'_>,
    consumers: &[CuptiConsumer],
    copies: &[CuptiCopy],
    plain: &ByWorld<PlainOpen>,
) -> Vec<CuptiProcess> {
    let apis = &case.knowledge.tables.apis;
    let mut processes = vec![CuptiProcess {
        consumer: None,
        reach: case.contexts.map(|context| {
            let reach = of_plain(context, plain.get(context.world), case.companions);
            reach.judged(&context.rootfs, copies, apis)
        }),
    }];
    for (number, consumer) in consumers.iter().enumerate() {
        processes.push(CuptiProcess {
            consumer: Some(number),
            reach: case.contexts.map(|context| {
                let outcome = consumer.outcome.get(context.world);
                let reach = CuptiAccess {
                    cupti: outcome.answer.real_path().cloned(),
                    // They were resolved in the consumer's process, with its search paths.
                    companions: outcome.companions.clone(),
                    apis: BTreeMap::new(),
                };
                reach.judged(&context.rootfs, copies, apis)
            }),
        });
    }
    processes
}

fn of_plain(context: &ProcessContext, plain: &PlainOpen, companions: &[CompanionRequest]) -> CuptiAccess {
    let access = context.with_setup(|setup| {
        let mut process = SimulatedProcess::new(setup);
        // Preloaded objects are mapped in every process; a preloaded libcupti satisfies the dlopen.
        process.start_unknown();
        let answer = LoadAnswer::of_open(&process.open(&plain.name, None));
        let cupti = answer.as_ref().and_then(LoadAnswer::real_path);
        CuptiAccess {
            companions: look_up_companions(&process, None, cupti, companions),
            cupti: cupti.cloned(),
            apis: BTreeMap::new(),
        }
    });
    access.unwrap_or_default()
}
