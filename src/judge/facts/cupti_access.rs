//! Which APIs of CUPTI a program can use: libcupti is got, has the API, and gets the libraries beside it.
//!
//! `libnvperf_host.so` beside libcupti is not enough: libcupti opens it by its bare name and has no search path
//! of its own, so that it depends on how libcupti came into the process. It is asked for as the loader would.

use std::collections::BTreeMap;

use super::dead_weight::DeadWeightFile;
use super::{ByWorld, CuptiConsumer, PlainOpen, ProcessContext, opened_object, unresolved_objects};
use crate::knowledge::api::{CuptiApi, LibraryRequester};
use image_linkage::elf::{ByteString, SymbolRole};
use image_linkage::loader::{
    LoadedObject, ProcessSetup, RequestOutcome, SearchStage, SearchStep, SimulatedProcess,
};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// A process that may use CUPTI, and what it can use of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CuptiProcess {
    /// The consumer, by number; `None` for a process without search paths of its own.
    pub consumer: Option<usize>,
    /// What it reaches.
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
    /// It can.
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

/// What the request for a library beside libcupti comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompanionLookup {
    /// The name that is asked for.
    pub name: ByteString,
    /// The name in the table of APIs.
    pub library: &'static str,
    /// Who asks.
    pub got: LibraryRequester,
    /// What became of the request.
    pub outcome: RequestOutcome,
    /// The file, when it was found.
    pub real_path: Option<RootPath>,
    /// How it was found.
    pub how: Option<SearchStage>,
    /// The loader's words, when it was not.
    pub message: String,
    /// The search.
    pub trace: Vec<SearchStep>,
    /// The objects that the numbers in the search count.
    pub objects: Vec<LoadedObject>,
}

impl CuptiAccess {
    /// Whether the API of this id can be used.
    pub fn usable(&self, api: &str) -> ApiAvailability {
        self.apis
            .get(api)
            .copied()
            .unwrap_or(ApiAvailability::NoCupti)
    }

    /// The libraries of an API that are not got.
    pub fn missing(&self, api: &CuptiApi) -> impl Iterator<Item = &CompanionLookup> {
        let asked = |companion: &&CompanionLookup| {
            let mut libraries = api.libraries.iter();
            companion.outcome != RequestOutcome::Loaded
                && libraries.any(|library| {
                    library.name == companion.library && library.got == companion.got
                })
        };
        self.companions.iter().filter(asked)
    }

    fn judged(mut self, rootfs: &Rootfs, apis: &'static [CuptiApi]) -> Self {
        self.apis = apis
            .iter()
            .map(|api| (api.id.as_str(), self.judge(rootfs, api)))
            .collect();
        self
    }

    fn judge(&self, rootfs: &Rootfs, api: &CuptiApi) -> ApiAvailability {
        if api.exports.is_some() {
            match &self.cupti {
                None => return ApiAvailability::NoCupti,
                Some(path) if !exports(rootfs, path, api) => return ApiAvailability::NotInRelease,
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
    let elf = rootfs
        .file(&path.absolute())
        .and_then(|facts| facts.elf.as_ref());
    let symbols = elf.map(|elf| elf.symbols.as_slice()).unwrap_or_default();
    let mut functions = symbols
        .iter()
        .filter(|symbol| symbol.role == SymbolRole::Export)
        .peekable();
    functions.peek().is_none() || functions.any(|symbol| api.is_shown_by(&symbol.name))
}

/// A library that is asked for beside libcupti.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CompanionRequest {
    library: &'static str,
    got: LibraryRequester,
    name: ByteString,
}

/// The libraries that the APIs need, those whose name has a number once for each that is there.
pub(super) fn companion_requests(
    rootfs: &Rootfs,
    apis: &'static [CuptiApi],
    files: &[DeadWeightFile],
) -> Vec<CompanionRequest> {
    let libraries = apis.iter().flat_map(|api| &api.libraries);
    let mut wanted: Vec<CompanionRequest> = libraries
        .flat_map(|library| {
            let names = if library.is_numbered() {
                sonames(rootfs, files, library.stem())
            } else {
                vec![library.name.as_bytes().into()]
            };
            let (got, library) = (library.got, library.name.as_str());
            names
                .into_iter()
                .map(move |name| CompanionRequest { library, got, name })
        })
        .collect();
    wanted.sort();
    wanted.dedup();
    wanted
}

/// The sonames of the files that are named as `stem`; the stem itself when there are none.
fn sonames(rootfs: &Rootfs, files: &[DeadWeightFile], stem: &str) -> Vec<ByteString> {
    let likely = files
        .iter()
        .filter(|file| file.path.name().starts_with(stem.as_bytes()));
    let names: Vec<ByteString> = likely
        .filter_map(|file| {
            rootfs
                .file(&file.path.absolute())?
                .elf
                .as_ref()?
                .soname
                .clone()
        })
        .collect();
    if names.is_empty() {
        vec![stem.as_bytes().into()]
    } else {
        names
    }
}

/// Asks for the libraries, each in a process of its own that has come as far as this one.
pub(super) fn look_up_companions(
    process: &SimulatedProcess<'_>,
    asker: Option<&RootPath>,
    cupti: Option<&RootPath>,
    wanted: &[CompanionRequest],
) -> Vec<CompanionLookup> {
    let ask = |wanted: &CompanionRequest| {
        let mut process = process.clone();
        let caller = match wanted.got {
            LibraryRequester::ByCupti => Some(process.map_of_path(cupti?)?),
            LibraryRequester::ByAsker => asker.and_then(|asker| process.map_of_path(asker)),
        };
        Some(companion(&mut process, wanted, caller))
    };
    wanted.iter().filter_map(ask).collect()
}

fn companion(
    process: &mut SimulatedProcess<'_>,
    wanted: &CompanionRequest,
    caller: Option<usize>,
) -> CompanionLookup {
    let resolution = process.open(&wanted.name, caller);
    let failure = unresolved_objects(&resolution).next();
    let found = opened_object(&resolution).filter(|_| resolution.loads());
    CompanionLookup {
        name: wanted.name.clone(),
        library: wanted.library,
        got: wanted.got,
        outcome: match (found, failure) {
            (Some(_), _) => RequestOutcome::Loaded,
            (None, Some(failure)) => failure.outcome,
            (None, None) => RequestOutcome::NotFound,
        },
        real_path: found.map(|object| object.real_path.clone()),
        how: found.map(|object| object.how),
        message: failure
            .map(|failure| failure.message.clone())
            .unwrap_or_default(),
        trace: match (found, failure) {
            (Some(object), _) => object.trace.clone(),
            (None, Some(failure)) => failure.trace.clone(),
            (None, None) => Vec::new(),
        },
        objects: resolution.objects.clone(),
    }
}

/// What each consumer, and a process without search paths, can use.
pub(super) fn find_cupti_access(
    grounds: &ByWorld<ProcessContext>,
    apis: &'static [CuptiApi],
    consumers: &[CuptiConsumer],
    plain: &ByWorld<PlainOpen>,
    wanted: &[CompanionRequest],
) -> Vec<CuptiProcess> {
    let of_nobody = CuptiProcess {
        consumer: None,
        reach: ByWorld::map(grounds, |ground| {
            of_plain(ground, plain.get(ground.world), wanted).judged(&ground.rootfs, apis)
        }),
    };
    let of_consumer = |(number, consumer): (usize, &CuptiConsumer)| CuptiProcess {
        consumer: Some(number),
        reach: ByWorld::map(grounds, |ground| {
            let gets = consumer.outcome.get(ground.world);
            let reach = CuptiAccess {
                cupti: gets
                    .real_path
                    .clone()
                    .filter(|_| gets.outcome == RequestOutcome::Loaded),
                companions: gets.companions.clone(),
                apis: BTreeMap::new(),
            };
            reach.judged(&ground.rootfs, apis)
        }),
    };
    std::iter::once(of_nobody)
        .chain(consumers.iter().enumerate().map(of_consumer))
        .collect()
}

fn of_plain(
    ground: &ProcessContext,
    plain: &PlainOpen,
    wanted: &[CompanionRequest],
) -> CuptiAccess {
    let run = |setup: &ProcessSetup<'_>| {
        let mut process = SimulatedProcess::new(setup);
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
    ground.with_setup(run).unwrap_or_default()
}
