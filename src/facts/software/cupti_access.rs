//! Which APIs of CUPTI a program can use: libcupti is got, has the API, and gets the libraries beside it.
//!
//! `libnvperf_host.so` beside libcupti is not enough: libcupti opens it by its bare name and has no search path
//! of its own, so that it depends on how libcupti came into the process. It is asked for as the loader would.

use std::collections::BTreeMap;

use crate::facts::objects::plain_open::PlainOpen;
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::{elf_at, opened_object};
use crate::facts::objects::world::ByWorld;
use crate::facts::software::companions::{CompanionLookup, CompanionRequest, look_up_companions};
use crate::facts::software::consumers::CuptiConsumer;
use crate::facts::software::copies::CuptiCopy;
use crate::knowledge::api::CuptiApi;
use crate::knowledge::has_ended;
use image_linkage::elf::SymbolRole;
use image_linkage::loader::{ProcessSetup, RequestOutcome, SimulatedProcess};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// A process that may use CUPTI, and what it can use of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CuptiProcess {
    /// The consumer, by number; `None` for a process without search paths of its own.
    pub consumer: Option<usize>,
    /// What it reaches of CUPTI in each world.
    pub reach: ByWorld<CuptiAccess>,
}

/// What a process reaches of CUPTI.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CuptiAccess {
    /// The libcupti that it gets.
    pub cupti: Option<RootPath>,
    /// The libraries beside it.
    pub companions: Vec<CompanionLookup>,
    /// What each API comes to, by id.
    pub apis: BTreeMap<&'static str, ApiAvailability>,
}

/// Whether an API can be used, as far as an image shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiAvailability {
    /// Every library that it takes is got.
    Yes,
    /// libcupti is not got.
    NoCupti,
    /// The libcupti that is got does not export it.
    NotInRelease,
    /// A library beside libcupti is not got.
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
    /// Whether the API of this id can be used.
    pub fn usable(&self, api: &str) -> ApiAvailability {
        self.apis
            .get(api)
            .copied()
            // A library whose APIs are not described has none that could be told usable.
            .unwrap_or(ApiAvailability::NoCupti)
    }

    /// The libraries of an API that are not got.
    pub fn missing(&self, api: &CuptiApi) -> impl Iterator<Item = &CompanionLookup> {
        let asked = |companion: &&CompanionLookup| {
            let mut libraries = api.libraries.iter();
            companion.outcome != RequestOutcome::Loaded
                && libraries.any(|library| library.name == companion.library && library.got == companion.got)
        };
        self.companions.iter().filter(asked)
    }

    fn judged(mut self, rootfs: &Rootfs, copies: &[CuptiCopy], apis: &'static [CuptiApi]) -> Self {
        self.apis = apis
            .iter()
            .map(|api| (api.id.as_str(), self.judge(rootfs, copies, api)))
            .collect();
        self
    }

    fn judge(&self, rootfs: &Rootfs, copies: &[CuptiCopy], api: &CuptiApi) -> ApiAvailability {
        // Some APIs lie outside of libcupti: checkpoints need libcheckpoint.so and nothing of it.
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

/// Whether the libcupti at this path has an API. One whose symbols could not be read is taken to have it.
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

/// Whether the release of the libcupti at this path has an API no more, though it exports it.
fn is_over(copies: &[CuptiCopy], path: &RootPath, api: &CuptiApi) -> bool {
    let copy = copies.iter().find(|copy| copy.real_path == *path);
    copy.and_then(CuptiCopy::cuda).is_some_and(|cuda| has_ended(cuda, api))
}

/// What each consumer, and a process without search paths, can use.
pub(crate) fn find_cupti_access(
    contexts: &ByWorld<ProcessContext>,
    apis: &'static [CuptiApi],
    consumers: &[CuptiConsumer],
    copies: &[CuptiCopy],
    plain: &ByWorld<PlainOpen>,
    wanted: &[CompanionRequest],
) -> Vec<CuptiProcess> {
    let of_nobody = CuptiProcess {
        consumer: None,
        reach: ByWorld::map(contexts, |context| {
            of_plain(context, plain.get(context.world), wanted).judged(&context.rootfs, copies, apis)
        }),
    };
    let of_consumer = |(number, consumer): (usize, &CuptiConsumer)| CuptiProcess {
        consumer: Some(number),
        reach: ByWorld::map(contexts, |context| {
            let gets = consumer.outcome.get(context.world);
            let reach = CuptiAccess {
                cupti: gets
                    .real_path
                    .clone()
                    .filter(|_| gets.outcome == RequestOutcome::Loaded),
                // They were asked for in the consumer's process, whose search paths are its own.
                companions: gets.companions.clone(),
                apis: BTreeMap::new(),
            };
            reach.judged(&context.rootfs, copies, apis)
        }),
    };
    std::iter::once(of_nobody)
        .chain(consumers.iter().enumerate().map(of_consumer))
        .collect()
}

fn of_plain(context: &ProcessContext, plain: &PlainOpen, wanted: &[CompanionRequest]) -> CuptiAccess {
    let run = |setup: &ProcessSetup<'_>| {
        let mut process = SimulatedProcess::new(setup);
        // What is preloaded is mapped in every process, and a preloaded libcupti answers the dlopen.
        process.start_unknown();
        let resolution = process.open(&plain.name, None);
        let cupti = opened_object(&resolution).filter(|_| resolution.loads());
        let cupti = cupti.map(|object| object.real_path.clone());
        let companions = look_up_companions(&process, None, cupti.as_ref(), wanted);
        CuptiAccess {
            cupti,
            companions,
            apis: BTreeMap::new(),
        }
    };
    context.with_setup(run).unwrap_or_default()
}
