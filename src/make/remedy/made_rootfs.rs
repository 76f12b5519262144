//! The file system that a recipe produces, computed without a build.
//!
//! Files that were read have all their facts. Files of packages have only the facts in the table of releases.

use std::sync::Arc;

use super::granted_rights::granting_layer;
use super::install_context::InstallContext;
use super::install_folder::default_folder;
use super::install_method::InstallMethod;
use super::phase_recipe::PhaseRecipe;
use super::search_path_setup::SearchPathSetup;
use super::target::elf_at;
use super::target_release::{known_file, newest_release};
use crate::facts::ImageFacts;
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::knowledge::{has_api, version_numbers};
use crate::make::added_layer::{AddedLayer, AddedMember};
use image_linkage::elf::{ByteString, DynamicSymbol, ElfFacts, SymbolRole};
use image_linkage::layer::{FileFacts, LayerEntry, LayerIndex, shorten_list};
use image_linkage::loader::{DynamicLoader, folders_of_cache, run_ldconfig};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};

/// The type of a shared object (`ET_DYN`; System V gABI, "ELF Header").
const ET_DYN: u16 = 3;

/// The file system after `recipe`, and the size of the files that the build writes, as far as known.
///
/// Errors: An obstacle to a file.
pub(super) fn make_rootfs(question: &InstallContext<'_>, recipe: &PhaseRecipe) -> Result<(Rootfs, u64), String> {
    let (target, linker) = (question.request.target, question.linker);
    let before = &target.contexts.as_is.rootfs;
    let mut layer = AddedLayer::default();
    // First, so that the whiteouts do not hide the new files.
    for path in &recipe.clears {
        layer.add(before, path, AddedMember::Deleted)?;
    }
    if let Some(way) = &recipe.way {
        add_library(&mut layer, question, way, recipe)?;
    }
    layer.make_links(before, &recipe.path_links)?;
    let number = target.layers.len();
    let opened = granting_layer(before, &recipe.rights);
    let mut after = before.with_layer(number, &opened).with_layer(number, &layer.index());
    let hides = LayerIndex {
        whiteouts: recipe.dropped_paths().cloned().collect(),
        ..LayerIndex::empty()
    };
    if !hides.whiteouts.is_empty() {
        after = after.with_layer(number + 1, &hides);
        after = after.with_layer(number + 1, &shortened_lists(&after, recipe));
    }
    let mut bytes = layer.bytes() + rewritten_bytes(before, recipe);
    if recipe.runs_ldconfig() {
        let run = run_ldconfig(&after, linker, folders_of_cache(&after, linker));
        let mut cache = AddedLayer::default();
        cache.add_cache(&after, linker, &run, "")?;
        after = after.with_layer(number + 2, &cache.index());
        bytes += cache.bytes();
    }
    Ok((after, bytes))
}

/// The lists of installed files in which the build keeps only the lines of files that are there.
fn shortened_lists(after: &Rootfs, recipe: &PhaseRecipe) -> LayerIndex {
    let mut lists = LayerIndex::empty();
    for site in recipe.removal.iter().flat_map(|removal| &removal.sites) {
        let found = after.lookup(&site.absolute()).ok();
        let names = found.iter().flat_map(|found| after.children(found.node));
        for (name, _) in names.filter(|(name, _)| name.ends_with(b".dist-info")) {
            let list = site.join(name).join(b"RECORD");
            let Some(facts) = after.file(&list.absolute()) else {
                continue;
            };
            let is_gone = |file: &RootPath| after.lookup(&file.absolute()).is_err();
            let facts = shorten_list(&list, facts, is_gone);
            lists.entries.insert(&list, LayerEntry::File(Arc::new(facts)));
        }
    }
    lists
}

/// The size of the files that package managers and `ldconfig` rewrite. A layer stores each changed file whole.
fn rewritten_bytes(rootfs: &Rootfs, recipe: &PhaseRecipe) -> u64 {
    let size = |path: &str| rootfs.file(path.as_bytes()).map_or(0, |file| file.bytes);
    let mut bytes = 0;
    if recipe.runs_ldconfig() {
        bytes += size("/var/cache/ldconfig/aux-cache");
    }
    if let Some(InstallMethod::Package(package)) = &recipe.way {
        // dpkg saves the previous status as `status-old` (dpkg(1), FILES); debconf rewrites its templates.
        let of_debian = [
            "/var/lib/dpkg/status",
            "/var/lib/dpkg/status",
            "/var/log/dpkg.log",
            "/var/cache/debconf/templates.dat",
            "/var/cache/debconf/config.dat",
        ];
        let of_red_hat = ["/var/lib/rpm/rpmdb.sqlite", "/usr/lib/sysimage/rpm/rpmdb.sqlite"];
        let written = if recipe.system.apt {
            &of_debian[..]
        } else {
            &of_red_hat[..]
        };
        bytes += written.iter().map(|path| size(path)).sum::<u64>();
        // Observed with Debian's libcupti, which is Multi-Arch: same, but not with NVIDIA's packages.
        if package.folder.is_none() {
            bytes += list_bytes(rootfs);
        }
    }
    bytes
}

/// The size of dpkg's file lists.
fn list_bytes(rootfs: &Rootfs) -> u64 {
    let folder = rootfs.lookup(b"/var/lib/dpkg/info").ok();
    let files = folder.iter().flat_map(|folder| rootfs.children(folder.node));
    let lists = files.filter(|(name, _)| name.ends_with(b".list"));
    let sizes = lists.filter_map(|(_, id)| match &rootfs.node(id).kind {
        NodeKind::File(facts) => Some(facts.bytes),
        _ => None,
    });
    sizes.sum()
}

/// Adds the library according to the method, and the search path to it.
fn add_library(
    layer: &mut AddedLayer,
    question: &InstallContext<'_>,
    way: &InstallMethod,
    recipe: &PhaseRecipe,
) -> Result<(), String> {
    let rootfs = &question.request.target.contexts.as_is.rootfs;
    if let Some(copy_plan) = way.read_plan() {
        if let (InstallMethod::Copy { .. }, Some(source)) = (way, question.request.source) {
            layer.copy_files(rootfs, &copy_plan.files, source.facts)?;
        }
        layer.make_links(rootfs, &copy_plan.links)?;
    }
    if let InstallMethod::Pip(pip) = way
        && !pip.is_listed
    {
        // The metadata makes the package count as installed.
        let folder = format!("{}-{}.dist-info", pip.name.replace('-', "_"), pip.version);
        let metadata = pip.target.site.join(folder.as_bytes()).join(b"METADATA");
        let text = format!("Metadata-Version: 2.1\nName: {}\nVersion: {}\n", pip.name, pip.version);
        layer.write_file(rootfs, &metadata, text.into_bytes(), "")?;
    }
    if let Some(folder) = unread_folder(question, way, recipe) {
        add_unread(layer, question, way, &folder, recipe)?;
    }
    match &recipe.search_setup {
        SearchPathSetup::Folder { conf, folder, .. } | SearchPathSetup::Listed { conf, folder } => {
            layer.name_folder(rootfs, conf, folder, "")
        }
        SearchPathSetup::Links {
            conf, folder, links, ..
        } => {
            layer.make_links(rootfs, links)?;
            layer.name_folder(rootfs, conf, folder, "")
        }
        SearchPathSetup::Nothing { .. } => Ok(()),
    }
}

/// Adds the libraries of a method whose files were not read, with the known facts.
fn add_unread(
    layer: &mut AddedLayer,
    question: &InstallContext<'_>,
    way: &InstallMethod,
    folder: &RootPath,
    recipe: &PhaseRecipe,
) -> Result<(), String> {
    let (target, linker) = (question.request.target, question.linker);
    let (library, soname) = (target.library, way.soname());
    let cuda = recipe.release.as_ref().and_then(|it| parse_cuda_version(&it.version));
    let newest = || newest_release(target, linker, cuda?);
    let exact = recipe.release.as_ref().map(|it| it.version.as_str());
    let release = exact.filter(|exact| !version_numbers(exact).is_empty()).or_else(newest);
    for need in &recipe.needs {
        let name = library.loaded_name(need.stem, &soname);
        let exports = if need.stem == library.stem {
            exports(target, &soname, cuda, release)
        } else {
            Vec::new()
        };
        let mut facts = unread_library(target, linker, name, exports);
        let known = cuda.and_then(|cuda| known_file(target, linker, cuda, need.stem));
        if let Some((sha256, file)) = known {
            facts.sha256 = Some(sha256.into());
            facts.bytes = file.bytes;
        }
        let member = AddedMember::File {
            facts: Arc::new(facts),
            from: None,
            because: String::new(),
        };
        layer.add(&target.contexts.as_is.rootfs, &folder.join(name.as_bytes()), member)?;
    }
    Ok(())
}

/// A library of a package that was not read.
fn unread_library(target: &ImageFacts, linker: &DynamicLoader, name: &str, symbols: Vec<DynamicSymbol>) -> FileFacts {
    let arch = linker.arch;
    let soname = ByteString::from(name.as_bytes());
    let needed = ["libc.so.6".to_owned()];
    let own = target.library.needed.iter();
    let own = own.filter(|_| target.library.is_family(name.as_bytes()));
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
            .chain(&needed)
            .map(|name| ByteString::from(name.as_bytes()))
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
    let apis = target.tables.apis.iter();
    let apis = apis.filter(|api| cuda.is_none_or(|cuda| has_api(cuda, api)));
    let of_apis = apis.filter_map(|api| api.exports.as_deref());
    let of_apis = of_apis.map(|name| ByteString::from(name.trim_end_matches('*').as_bytes()));
    let consumers = target.consumers.iter();
    let imports = consumers.filter_map(|consumer| elf_at(target, &consumer.object));
    let imports = imports.flat_map(|elf| elf.symbols.iter().map(|symbol| symbol.name.clone()));
    let imports = imports.filter(|name| release.is_none_or(|release| !target.tables.functions.lacks(release, name)));
    of_apis
        .chain(imports)
        .map(|name| DynamicSymbol {
            name,
            version: Some(soname.as_bytes().into()),
            role: SymbolRole::Export,
        })
        .collect()
}

/// The folder of a method's files if they were not read; `None` if they were.
pub(super) fn unread_folder(
    question: &InstallContext<'_>,
    way: &InstallMethod,
    recipe: &PhaseRecipe,
) -> Option<RootPath> {
    match way {
        InstallMethod::Place(_) | InstallMethod::Copy { is_read: true, .. } => None,
        InstallMethod::Copy { .. } => Some(recipe.search.folder.clone()),
        InstallMethod::Package(package) => {
            let rootfs = &question.request.target.contexts.as_is.rootfs;
            let default = || default_folder(rootfs, question.linker);
            Some(package.folder.clone().unwrap_or_else(default))
        }
        InstallMethod::Pip(pip) => Some(pip.folder.clone()),
        InstallMethod::Conda(conda) => Some(conda.environment.prefix.join(b"lib")),
    }
}
