//! The file system of an image as a recipe leaves it, put together without a build.
//!
//! Files that were read are there with all that is known of them, those of packages as far as the table of releases
//! has them in it.

use std::sync::Arc;

use super::copy_plan::{CopyPlan, CreatedLink};
use super::copy_source::CopySource;
use super::install_folder::default_folder;
use super::install_method::InstallMethod;
use super::phase_recipe::PhaseRecipe;
use super::search_path_setup::SearchPathSetup;
use super::target::{elf_at, file_facts_at};
use super::target_release::known_file;
use crate::judge::facts::ImageFacts;
use crate::judge::facts::cuda_runtime::parse_cuda_version;
use crate::knowledge::has_api;
use image_linkage::elf::{ByteString, DynamicSymbol, ElfFacts, SymbolRole};
use image_linkage::layer::{FileFacts, LayerEntry, LayerIndex};
use image_linkage::loader::{DynamicLoader, folders_of_cache, run_ldconfig, write_cache};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};

/// What a shared object is (`ET_DYN`; System V gABI, "ELF Header").
const ET_DYN: u16 = 3;

/// The file system of the image behind `recipe`, and the bytes of the files that the build writes, as far as known.
pub(super) fn make_rootfs(
    target: &ImageFacts,
    linker: &DynamicLoader,
    source: Option<CopySource<'_>>,
    recipe: &PhaseRecipe,
) -> (Rootfs, u64) {
    let before = &target.contexts.as_is.rootfs;
    let mut layer = MadeLayer {
        target,
        linker,
        index: LayerIndex::empty(),
    };
    if let Some(way) = &recipe.way {
        layer.add_library(way, source, recipe);
        layer.add_search_path(way, recipe);
    }
    // They go first: what is written in their place is not hidden by it.
    let cleared = recipe.clears.iter().map(|path| real_place(before, path));
    layer.index.whiteouts = cleared.collect();
    let number = target.layers.len();
    let mut after = before.with_layer(number, &layer.index);
    let hides = LayerIndex {
        whiteouts: recipe.dropped_paths().cloned().collect(),
        ..LayerIndex::empty()
    };
    if !hides.whiteouts.is_empty() {
        after = after.with_layer(number + 1, &hides);
    }
    let mut bytes = layer.bytes() + rewritten_bytes(before, recipe);
    if recipe.runs_ldconfig() {
        let cache;
        (after, cache) = with_new_cache(&after, linker, number + 2);
        bytes += cache;
    }
    (after, bytes)
}

/// What package managers and `ldconfig` write anew beside the files of a package: a layer holds each file whole.
fn rewritten_bytes(rootfs: &Rootfs, recipe: &PhaseRecipe) -> u64 {
    let size = |path: &str| rootfs.file(path.as_bytes()).map_or(0, |file| file.bytes);
    let mut bytes = 0;
    if recipe.runs_ldconfig() {
        bytes += size("/var/cache/ldconfig/aux-cache");
    }
    if let Some(InstallMethod::Package(package)) = &recipe.way {
        // dpkg keeps what it had as `status-old` (dpkg(1), FILES); debconf writes its templates anew.
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
        // Seen with Debian's libcupti, which is Multi-Arch: same, and not with NVIDIA's packages.
        if package.folder.is_none() {
            bytes += list_bytes(rootfs);
        }
    }
    bytes
}

/// The bytes of dpkg's lists of files.
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

/// The file system once `ldconfig` was run on it, and the bytes of the cache.
fn with_new_cache(rootfs: &Rootfs, linker: &DynamicLoader, layer: usize) -> (Rootfs, u64) {
    let regenerated = run_ldconfig(rootfs, linker, folders_of_cache(rootfs, linker));
    let remade = regenerated.apply(rootfs, layer);
    let Ok(cache) = write_cache(&regenerated.cache, linker.arch.data, "") else {
        return (remade, 0);
    };
    let bytes = cache.len() as u64;
    let mut index = LayerIndex::empty();
    let file = FileFacts {
        bytes,
        mode: 0o644,
        kept: Some(cache.into()),
        ..FileFacts::default()
    };
    index
        .entries
        .insert(&RootPath::from("etc/ld.so.cache"), LayerEntry::File(Arc::new(file)));
    (remade.with_layer(layer, &index), bytes)
}

/// The place of a path behind the links of its folders; its own name may be a link, or not be there.
fn real_place(rootfs: &Rootfs, path: &RootPath) -> RootPath {
    let parent = path.parent();
    if parent == RootPath::default() {
        return path.clone();
    }
    let folder = rootfs.lookup(&parent.absolute()).map(|found| found.path);
    folder.unwrap_or_else(|_| real_place(rootfs, &parent)).join(path.name())
}

/// What a build writes, as the layer that it would be.
struct MadeLayer<'a> {
    target: &'a ImageFacts,
    linker: &'a DynamicLoader,
    index: LayerIndex,
}

impl MadeLayer<'_> {
    fn put(&mut self, at: &RootPath, entry: LayerEntry) {
        let at = real_place(&self.target.contexts.as_is.rootfs, at);
        self.index.entries.insert(&at, entry);
    }

    fn bytes(&self) -> u64 {
        let files = self.index.entries.values();
        let sizes = files.filter_map(|entry| match entry {
            LayerEntry::File(facts) => Some(facts.bytes),
            _ => None,
        });
        sizes.sum()
    }

    fn file(&mut self, at: &RootPath, facts: FileFacts) {
        self.put(at, LayerEntry::File(Arc::new(facts)));
    }

    fn links(&mut self, links: &[CreatedLink]) {
        for link in links {
            self.put(&link.at, LayerEntry::Symlink((&*link.to).into()));
        }
    }

    fn add_library(&mut self, way: &InstallMethod, source: Option<CopySource<'_>>, recipe: &PhaseRecipe) {
        match (way, source) {
            (
                InstallMethod::Copy {
                    copy_plan,
                    is_read: true,
                    ..
                },
                Some(source),
            ) => {
                self.copy(copy_plan, source.facts, recipe.system.shell);
            }
            (InstallMethod::Place(copy_plan), _) => self.links(&copy_plan.links),
            _ => {}
        }
        let Some(folder) = unread_folder(way, recipe, self.target, self.linker) else {
            return;
        };
        let soname = way.soname();
        let cuda = recipe.release.as_ref().and_then(|it| parse_cuda_version(&it.version));
        for need in &recipe.needs {
            let library = self.target.library;
            let name = library.loaded_name(need.stem, &soname);
            let exports = if need.stem == library.stem {
                self.exports(&soname, cuda)
            } else {
                Vec::new()
            };
            let mut facts = self.unread_library(name, exports);
            let known = cuda.and_then(|cuda| known_file(self.target, self.linker, cuda, need.stem));
            if let Some((sha256, file)) = known {
                facts.sha256 = Some(sha256.into());
                facts.bytes = file.bytes;
            }
            self.file(&folder.join(name.as_bytes()), facts);
        }
    }

    fn copy(&mut self, copy_plan: &CopyPlan, source: &ImageFacts, shell: bool) {
        for file in &copy_plan.files {
            let read = file_facts_at(source, &file.from).cloned().unwrap_or_default();
            let facts = FileFacts {
                mode: file.mode,
                uid: 0,
                gid: 0,
                capabilities: None,
                access_list: None,
                ..read
            };
            self.file(&file.to, facts);
        }
        if shell {
            self.links(&copy_plan.links);
        }
    }

    fn add_search_path(&mut self, way: &InstallMethod, recipe: &PhaseRecipe) {
        match &recipe.search_setup {
            SearchPathSetup::Nothing { .. } => {}
            SearchPathSetup::Folder { conf, folder, .. } => self.name_folder(conf, folder),
            SearchPathSetup::Listed { conf } => {
                if let Some(folder) = unread_folder(way, recipe, self.target, self.linker) {
                    self.name_folder(conf, &folder);
                }
            }
            SearchPathSetup::Links {
                conf, folder, links, ..
            } => {
                self.links(links);
                self.name_folder(conf, folder);
            }
        }
    }

    /// A line for the folder, in front of what the file says.
    fn name_folder(&mut self, conf: &RootPath, folder: &RootPath) {
        let own = self.target.contexts.as_is.rootfs.content(&conf.absolute());
        let text = [&folder.absolute(), &b"\n"[..], own.unwrap_or_default()].concat();
        let facts = FileFacts {
            bytes: text.len() as u64,
            mode: 0o644,
            kept: Some(text.into()),
            ..FileFacts::default()
        };
        self.file(conf, facts);
    }

    /// A library of a package that was not read.
    fn unread_library(&self, name: &str, symbols: Vec<DynamicSymbol>) -> FileFacts {
        let arch = self.linker.arch;
        let soname = ByteString::from(name.as_bytes());
        let needed = ["libc.so.6".to_owned()];
        let own = self
            .target
            .library
            .needed
            .iter()
            .filter(|_| self.target.library.is_family(name.as_bytes()));
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
            // The versions of other libraries are taken for there, as the loader takes them without a DT_VERDEF.
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

    /// What a libcupti of this CUDA exports, as far as an audit asks: a function of each API, and what programs import.
    fn exports(&self, soname: &str, cuda: Option<(u32, u32)>) -> Vec<DynamicSymbol> {
        let apis = self.target.tables.apis.iter();
        let apis = apis.filter(|api| cuda.is_none_or(|cuda| has_api(cuda, api)));
        let of_apis = apis.filter_map(|api| api.exports.as_deref());
        let of_apis = of_apis.map(|name| ByteString::from(name.trim_end_matches('*').as_bytes()));
        let consumers = self.target.consumers.iter();
        let imports = consumers.filter_map(|consumer| elf_at(self.target, &consumer.object));
        let imports = imports.flat_map(|elf| elf.symbols.iter().map(|symbol| symbol.name.clone()));
        of_apis
            .chain(imports)
            .map(|name| DynamicSymbol {
                name,
                version: Some(soname.as_bytes().into()),
                role: SymbolRole::Export,
            })
            .collect()
    }
}

/// The folder that the files of a way lie in that were not read; `None` where they were.
fn unread_folder(
    way: &InstallMethod,
    recipe: &PhaseRecipe,
    target: &ImageFacts,
    linker: &DynamicLoader,
) -> Option<RootPath> {
    match way {
        InstallMethod::Place(_) | InstallMethod::Copy { is_read: true, .. } => None,
        InstallMethod::Copy { .. } => Some(recipe.search.folder.clone()),
        InstallMethod::Package(package) => {
            let default = || default_folder(&target.contexts.as_is.rootfs, linker);
            Some(package.folder.clone().unwrap_or_else(default))
        }
        InstallMethod::Pip(pip) => Some(pip.folder.clone()),
        InstallMethod::Conda(conda) => Some(conda.environment.prefix.join(b"lib")),
    }
}
