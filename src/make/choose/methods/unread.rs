//! Files that were not read, with the facts in the table of releases: those of packages, of NVIDIA's devel image, and of
//! a wheel.

use std::sync::Arc;

use super::links::bare_link;
use crate::facts::ImageFacts;
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::knowledge::{LibraryRelease, has_api, version_numbers};
use crate::make::choose::Obstacle;
use crate::make::choose::image_system::ImageSystem;
use crate::make::choose::request::PatchContext;
use crate::make::choose::target::elf_at;
use crate::make::choose::target_release::{known_file, newest_release};
use crate::make::patch::{BroughtRelease, FileOrigin, ImagePatch, PatchedFile, SearchPath};
use image_linkage::elf::{ByteString, DynamicSymbol, ElfFacts, NeededVersion, SymbolRole, VersionNeed};
use image_linkage::layer::FileFacts;
use image_linkage::loader::DynamicLoader;
use image_linkage::path::RootPath;

/// The C library's soname.
const GLIBC: &[u8] = b"libc.so.6";

/// The type of a shared object (`ET_DYN`; System V gABI, "ELF Header").
const ET_DYN: u16 = 3;

/// Copies from NVIDIA's devel image for the image's distribution.
///
/// Errors: No such image is known.
pub(in crate::make::choose) fn propose_devel(context: &PatchContext<'_>) -> Result<Vec<ImagePatch>, Obstacle> {
    if context.request.source.is_some() {
        return Err("pass the image to copy from with --from".into());
    }
    let release = context.release()?;
    let from = devel_image_name(context.request.target, &context.system, release.cuda)
        .ok_or("no matching devel image of NVIDIA is known; pass one with --from")?;
    let folder = context.toolkit_folder(release.cuda);
    Ok(vec![copied(context, from, release, &folder)])
}

/// Adds the files of a wheel, which `slim` reads.
///
/// Errors: The release is not known.
pub(in crate::make::choose) fn propose_wheel(context: &PatchContext<'_>) -> Result<Vec<ImagePatch>, Obstacle> {
    let release = context.release()?;
    Ok(vec![copied(context, String::new(), release, &RootPath::default())])
}

/// The files of a release, copied from `folder` of `from`.
fn copied(context: &PatchContext<'_>, from: String, release: &LibraryRelease, folder: &RootPath) -> ImagePatch {
    let install = &context.install;
    let brought = context.brought_release(release.wheel());
    let unread = UnreadLibraries {
        soname: &release.soname,
        cuda: Some(release.cuda),
        release: Some(brought),
    };
    ImagePatch {
        title: format!("copy {} from {from}", release.soname),
        source: Some(from),
        search: install.search_path(),
        // By soname: `COPY` follows links, so each becomes a file of that name.
        ..unread.patch(context, &install.folder, |name| FileOrigin::Source(folder.join(name)))
    }
}

/// The libraries of a release that was not read.
pub(super) struct UnreadLibraries<'u> {
    pub soname: &'u str,
    /// Whose APIs the phase may need.
    pub cuda: Option<CudaVersion>,
    pub release: Option<BroughtRelease>,
}

impl UnreadLibraries<'_> {
    /// A patch that brings those that the phase needs into `folder`, without a title and a search path.
    pub(super) fn patch(
        self,
        context: &PatchContext<'_>,
        folder: &RootPath,
        origin: impl Fn(&[u8]) -> FileOrigin,
    ) -> ImagePatch {
        let library = context.request.target.library;
        let needs = context.needs(self.cuda);
        let mut files = Vec::new();
        for need in needs {
            let name = library.loaded_name(need.stem, self.soname);
            files.push(PatchedFile {
                at: folder.join(name.as_bytes()),
                name: name.as_bytes().into(),
                stem: (!need.is_numbered).then_some(need.stem),
                facts: Arc::new(self.facts(context, need.stem, name)),
                origin: origin(name.as_bytes()),
                because: need.because,
            });
        }
        let links = context
            .can_link()
            .then(|| bare_link(context, folder, self.soname.as_bytes()));
        ImagePatch {
            soname: self.soname.as_bytes().into(),
            library: folder.join(self.soname.as_bytes()),
            files,
            links: links.flatten().into_iter().collect(),
            search: SearchPath::Own { because: String::new() },
            release: self.release,
            ..ImagePatch::default()
        }
    }

    /// What is known of a library.
    fn facts(&self, context: &PatchContext<'_>, stem: &str, name: &str) -> FileFacts {
        let (target, linker) = (context.request.target, context.linker);
        let exact = self.release.as_ref().map(|it| it.version.as_str());
        let cuda = exact.and_then(parse_cuda_version);
        let release = exact
            .filter(|exact| !version_numbers(exact).is_empty())
            .or_else(|| newest_release(target, linker, cuda?));
        let exports = if stem == target.library.stem {
            exports(target, self.soname, cuda, release)
        } else {
            Vec::new()
        };
        let mut facts = unread_library(target, linker, name, exports);
        if let (Some(elf), Some(cuda)) = (&mut facts.elf, cuda) {
            elf.verneed = target
                .library
                .needed_glibc(cuda)
                .map(needed_glibc)
                .into_iter()
                .collect();
        }
        if let Some((sha256, file)) = cuda.and_then(|cuda| known_file(target, linker, cuda, stem)) {
            facts.sha256 = Some(sha256.into());
            facts.bytes = file.bytes;
        }
        facts
    }
}

/// The libraries of a package that the phase does not need, by stem.
pub(super) fn spare_libraries(context: &PatchContext<'_>, patch: &ImagePatch) -> Vec<&'static str> {
    let mut spare: Vec<&'static str> = context.request.target.library.companions().collect();
    spare.retain(|stem| patch.files.iter().all(|file| *file.name != *stem.as_bytes()));
    spare
}

/// The version of the C library that a release needs.
fn needed_glibc(version: &str) -> VersionNeed {
    VersionNeed {
        file: GLIBC.into(),
        versions: vec![NeededVersion {
            name: format!("GLIBC_{version}").into_bytes().into(),
            weak: false,
            hash_fits: true,
        }],
    }
}

/// A library of a package that was not read.
fn unread_library(target: &ImageFacts, linker: &DynamicLoader, name: &str, symbols: Vec<DynamicSymbol>) -> FileFacts {
    let arch = linker.arch;
    let soname = ByteString::from(name.as_bytes());
    let is_own = target.library.is_family(name.as_bytes());
    let own = target.library.needed.iter().filter(|_| is_own);
    let elf = ElfFacts {
        ident: [
            0x7f, b'E', b'L', b'F', arch.class, arch.data, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ],
        kind: ET_DYN,
        machine: arch.machine,
        version: 1,
        phentsize: if arch.class == 2 { 56 } else { 32 },
        loads: 2,
        dynamic: true,
        needed: own
            .map(|name| ByteString::from(name.as_bytes()))
            .chain([GLIBC.into()])
            .collect(),
        // The symbol versions of other libraries are assumed to exist, as the loader does without a DT_VERDEF.
        has_verdef: !symbols.is_empty(),
        verdef: symbols.iter().take(1).map(|_| soname.clone()).collect(),
        soname: Some(soname),
        symbols,
        ..ElfFacts::default()
    };
    FileFacts {
        mode: 0o644,
        elf: Some(Box::new(elf)),
        ..FileFacts::default()
    }
}

/// The exports of a libcupti of this CUDA version that an audit checks: a function of each API, and the imports of
/// programs.
fn exports(target: &ImageFacts, soname: &str, cuda: Option<CudaVersion>, release: Option<&str>) -> Vec<DynamicSymbol> {
    let of_apis = target
        .tables
        .apis
        .iter()
        .filter(|api| cuda.is_none_or(|cuda| has_api(cuda, api)))
        .filter_map(|api| api.exports.as_deref())
        .map(|name| ByteString::from(name.trim_end_matches('*').as_bytes()));
    let consumers = target.answers.consumers.iter();
    let imports = consumers
        .filter_map(|consumer| elf_at(target, &consumer.object))
        .flat_map(|elf| elf.symbols.iter().map(|symbol| symbol.name.clone()))
        .filter(|name| release.is_none_or(|release| !target.tables.functions.lacks(release, name)));
    of_apis
        .chain(imports)
        .map(|name| DynamicSymbol {
            name,
            version: Some(soname.as_bytes().into()),
            role: SymbolRole::Export,
        })
        .collect()
}

/// The machine in the addresses of NVIDIA's repositories, by the architecture of an image.
fn nvidia_machine(architecture: &str) -> &'static str {
    if architecture == "arm64" { "sbsa" } else { "x86_64" }
}

/// The name of NVIDIA's devel image for an image; `None` if its distribution or its exact CUDA version is unknown.
pub(crate) fn devel_image_name(target: &ImageFacts, system: &ImageSystem, cuda: CudaVersion) -> Option<String> {
    let machine = nvidia_machine(target.image.platform.architecture.as_str());
    let known = target
        .tables
        .packages
        .nvidia_repository(&system.id, &system.version, machine)?;
    let exact = target.image.config.env("CUDA_VERSION")?;
    // The value comes from the image and becomes part of a FROM name.
    let is_number = exact.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let suffix = known
        .devel
        .as_ref()
        .filter(|_| is_number && parse_cuda_version(exact) == Some(cuda) && known.has(cuda))?;
    Some(format!("nvidia/cuda:{exact}-devel-{suffix}"))
}
