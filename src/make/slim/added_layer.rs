//! The layer that is added: what is brought, the search path, the loader's cache, and the proof.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;

use super::SlimError;
use super::added_members::{AddedMember, AddedMembers};
use super::decision::SlimDecision;
use super::output::ReadImage;
use super::provenance::{
    AddedFile, ChangedVariable, ContentOrigin, DroppedFile, LinkedFile, SlimProvenance, WrittenEntry,
};
use super::staging_files::{self, create_staging_file, io_error};
use super::supplier::{CuptiSupplier, ExtractedFile};
use super::twin_files::TwinFiles;
use crate::judge::facts::{ImageFacts, PROVENANCE_PLACE};
use crate::make::remedy::copy_plan::{CopiedFile, CopyPlan};
use crate::make::remedy::install_folder::FolderDiscovery;
use image_linkage::digest::Digest;
use image_linkage::escape;
use image_linkage::layer::{self, ExpectedBlob, IndexOptions, LayerIndex};
use image_linkage::loader::{DynamicLoader, Libc, folders_of_cache, run_ldconfig, write_cache};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{self, Rootfs};

/// Why a name of CUPTI is deleted.
pub(super) const MISLEADING: &str = "it is named as a CUPTI, and leads to another one or to none";

const CACHE: &str = "etc/ld.so.cache";

pub(crate) struct SlimInput<'a> {
    pub decision: &'a SlimDecision,
    pub facts: &'a ImageFacts,
    pub supplier: Option<&'a CuptiSupplier>,
    /// The layers below, as they will be.
    pub below: &'a [LayerIndex],
    pub phase: &'a str,
    /// The bounds on what is read, and what is looked for in layers.
    pub index: &'a IndexOptions,
    /// A folder for what is written on the way.
    pub folder: &'a Path,
}

/// The members of the layer, and the proof among them.
pub(crate) struct AddedLayer {
    pub members: AddedMembers,
    proof: SlimProvenance,
}

/// Gathers the members of the layer.
///
/// Errors: What stands in the way of one, or why the cache cannot be made.
pub(crate) fn gather_added_layer(making: &SlimInput<'_>) -> Result<AddedLayer, SlimError> {
    // Without what goes: a file may come to lie where one is dropped.
    let (rootfs, _) = rootfs::merge_layers(making.below);
    let mut layer = AddedLayer {
        members: AddedMembers::default(),
        proof: record_dropped_files(making),
    };
    layer.add_library(making, &rootfs)?;
    if let Some(linker) = stale_cache(making) {
        layer.cache(making, linker)?;
    }
    layer.proof.written.sort_by(|one, other| one.path.cmp(&other.path));
    // Last, when all that it tells of is known. It does not tell of itself.
    let proof = AddedMember::Written(layer.proof.text().into_bytes());
    layer.members.add(&rootfs, &PROVENANCE_PLACE.into(), proof)?;
    Ok(layer)
}

/// The new image as it is to be read once it is written: by the indexes of its layers.
///
/// Errors: As those of [`gather_added_layer`].
pub(crate) fn foretell_image(making: &SlimInput<'_>) -> Result<ReadImage, SlimError> {
    let (mut image, mut layers) = (making.facts.image.clone(), making.below.to_vec());
    if !making.decision.is_nothing() {
        layers.push(gather_added_layer(making)?.index(making)?);
    }
    if let Some(path) = &making.decision.library_path {
        // Of a key that stands twice the last counts.
        let variable = ("LD_LIBRARY_PATH".to_owned(), path.value.clone());
        image.config.env.push(variable);
    }
    Ok(ReadImage { image, layers })
}

/// The proof of what goes; what is brought is still to be entered.
fn record_dropped_files(making: &SlimInput<'_>) -> SlimProvenance {
    let mut dropped: Vec<DroppedFile> = Vec::new();
    for item in making.decision.removed_items() {
        let one = |path: &RootPath, bytes, because: String| DroppedFile {
            path: path.to_string(),
            bytes,
            layer: item.layer,
            kind: item.kind.to_owned(),
            because,
        };
        dropped.push(one(&item.path, item.bytes, item.because.clone()));
        let link = |link| one(link, 0, format!("a link to {}", item.path));
        dropped.extend(item.links.iter().map(link));
    }
    dropped.extend(
        making
            .decision
            .clears
            .iter()
            .map(|path| misleading_name(path, making.facts)),
    );
    // By path, so that two proofs can be compared line by line.
    dropped.sort_by(|one, other| one.path.cmp(&other.path));
    SlimProvenance {
        proof_version: 1,
        made_by: concat!("cupti-audit ", env!("CARGO_PKG_VERSION")).to_owned(),
        phase: making.phase.to_owned(),
        image: ContentOrigin::image(&making.facts.image),
        added: Vec::new(),
        written: Vec::new(),
        dropped,
        environment: making.decision.library_path.as_ref().map(|path| ChangedVariable {
            name: "LD_LIBRARY_PATH".to_owned(),
            value: path.value.clone(),
            because: path.because.clone(),
        }),
        linked: making.decision.twins.iter().flat_map(linked).collect(),
    }
}

/// A name that is deleted where it leads nowhere or to another release.
fn misleading_name(path: &RootPath, facts: &ImageFacts) -> DroppedFile {
    let rootfs = &facts.contexts.as_is.rootfs;
    let layer = rootfs
        .lookup_link(&path.absolute())
        .map(|found| rootfs.node(found.node).layer);
    DroppedFile {
        path: path.to_string(),
        bytes: 0,
        layer: layer.unwrap_or_default(),
        kind: "misleading-name".to_owned(),
        because: MISLEADING.to_owned(),
    }
}

fn linked(twins: &TwinFiles) -> impl Iterator<Item = LinkedFile> {
    twins.links.iter().map(|path| LinkedFile {
        path: path.to_string(),
        to: twins.file.to_string(),
        bytes: twins.bytes,
    })
}

/// The loader whose cache has to be made anew: when something is brought, or what it names is gone.
fn stale_cache<'m>(making: &SlimInput<'m>) -> Option<&'m DynamicLoader> {
    let linker = making.facts.contexts.as_is.linker.as_ref()?;
    let gone = making.decision.removed_paths();
    let names_gone = || {
        let mut entries = linker
            .cache
            .as_deref()
            .into_iter()
            .flat_map(image_linkage::loader::LdCache::iter);
        let rootfs = &making.facts.contexts.as_is.rootfs;
        // A cache names files by the folders of ld.so.conf, some of which are links, such as /lib.
        let real = |path: &[u8]| {
            let path = RootPath::new(path);
            let folder = rootfs.lookup(&path.parent().absolute()).ok()?;
            Some(folder.path.join(path.name()))
        };
        entries.any(|(_, entry)| real(&entry.path).is_some_and(|path| gone.contains(&path)))
    };
    // musl has no cache: it reads /etc/ld-musl-ARCH.path (musl, ldso/dynlink.c).
    let is_glibc = linker.libc != Libc::Musl;
    (is_glibc && (making.decision.copy_plan.is_some() || names_gone())).then_some(linker)
}

impl AddedLayer {
    /// Adds what is brought, the links and the line that names their folder.
    fn add_library(&mut self, making: &SlimInput<'_>, rootfs: &Rootfs) -> Result<(), SlimError> {
        let Some(copy_plan) = &making.decision.copy_plan else {
            return Ok(());
        };
        // First: what is brought may take such a name.
        for path in &making.decision.clears {
            self.members.add(rootfs, path, AddedMember::Deleted)?;
        }
        if let Some(supplier) = making.supplier {
            self.copy(making, rootfs, copy_plan, supplier)?;
        }
        for link in &copy_plan.links {
            self.link(rootfs, &link.at, &link.to, &link.because)?;
        }
        // The cache alone would not last: the container runtime makes it anew when the container starts.
        if let FolderDiscovery::Conf(conf) = &copy_plan.search.by {
            let content = with_line(rootfs.content(&conf.absolute()), &copy_plan.search.folder);
            self.write(rootfs, conf, content, &copy_plan.search.because)?;
        }
        Ok(())
    }

    /// Adds the files that are brought, each with its mode.
    fn copy(
        &mut self,
        making: &SlimInput<'_>,
        rootfs: &Rootfs,
        copy_plan: &CopyPlan,
        supplier: &CuptiSupplier,
    ) -> Result<(), SlimError> {
        let wanted: BTreeSet<RootPath> = copy_plan.files.iter().map(|file| file.from.clone()).collect();
        // All at once, so that each layer of the source is read one time.
        let taken = supplier.extract_files(&wanted, &making.index.limits, making.folder)?;
        for file in &copy_plan.files {
            let one = same(&taken, file)?;
            let member = AddedMember::Copied {
                file: one.path.clone(),
                bytes: one.bytes,
                mode: file.mode,
            };
            let at = self.members.add(rootfs, &file.to, member)?;
            self.proof.added.push(AddedFile {
                path: at.to_string(),
                bytes: one.bytes,
                sha256: one.sha256.clone(),
                mode: format!("{:o}", file.mode),
                from: supplier.from.clone(),
                was: file.from.to_string(),
                because: file.because.to_string(),
            });
        }
        self.proof.added.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(())
    }

    /// Makes the loader's cache of the image as it will be, and the links that go with it.
    fn cache(&mut self, making: &SlimInput<'_>, linker: &DynamicLoader) -> Result<(), SlimError> {
        // As ldconfig would find the image: with the layer on top.
        let added = self.index(making)?;
        let (rootfs, _) = rootfs::merge_layers(making.below.iter().chain([&added]));
        let regenerated = run_ldconfig(&rootfs, linker, folders_of_cache(&rootfs, linker));
        // A cache that lacks a library hides it from every program.
        if let Some(problem) = regenerated.problems.first() {
            return Err(SlimError::Cannot(format!(
                "the loader's cache cannot be made: {problem}"
            )));
        }
        // What the image's own ldconfig would make at its next run.
        for (link, target) in &regenerated.relinked.made {
            let because = "ldconfig makes it: the soname of the file that it leads to";
            self.link(&rootfs, &RootPath::new(link), target, because)?;
        }
        for link in &regenerated.relinked.removed {
            let link = RootPath::new(link);
            self.members.add(&rootfs, &link, AddedMember::Deleted)?;
        }
        let version = match linker.libc {
            Libc::Glibc(Some((major, minor))) => format!(" of glibc {major}.{minor}"),
            _ => String::new(),
        };
        let generator = format!("cupti-audit {}, as ldconfig{version}", env!("CARGO_PKG_VERSION"));
        let content = write_cache(&regenerated.cache, linker.arch.data, &generator);
        let because = "the loader looks up a soname here; it names what was brought, and no file that is gone";
        self.write(&rootfs, &CACHE.into(), content.map_err(SlimError::Cannot)?, because)
    }

    /// The index of the layer as far as it is gathered.
    fn index(&self, making: &SlimInput<'_>) -> Result<LayerIndex, SlimError> {
        // Written and read back, so that the cache is made of what the tar really holds.
        let path = making.folder.join("gathered");
        let mut file = create_staging_file(&path)?;
        let written = self.members.write(&mut file).and_then(|()| file.flush());
        written.map_err(|error| io_error(&path, error))?;
        index_written_tar(&path, making.index)
    }

    fn link(&mut self, rootfs: &Rootfs, at: &RootPath, to: &[u8], because: &str) -> Result<(), SlimError> {
        let at = self.members.add(rootfs, at, AddedMember::Symlink(to.to_vec()))?;
        self.proof.written.push(WrittenEntry {
            path: at.to_string(),
            target: Some(escape::escape_bytes(to)),
            sha256: None,
            because: because.to_owned(),
        });
        Ok(())
    }

    fn write(&mut self, rootfs: &Rootfs, at: &RootPath, content: Vec<u8>, because: &str) -> Result<(), SlimError> {
        let sha256 = Digest::of(&content).digest().to_owned();
        let at = self.members.add(rootfs, at, AddedMember::Written(content))?;
        self.proof.written.push(WrittenEntry {
            path: at.to_string(),
            target: None,
            sha256: Some(sha256),
            because: because.to_owned(),
        });
        Ok(())
    }
}

/// The file that was taken out, if it is the one that was read before.
fn same<'t>(taken: &'t BTreeMap<RootPath, ExtractedFile>, file: &CopiedFile) -> Result<&'t ExtractedFile, SlimError> {
    // A folder or an engine's image may have changed since; only files of a known release were hashed then.
    let known = |one: &&ExtractedFile| {
        one.bytes == file.bytes && file.sha256.as_ref().is_none_or(|sha256| *sha256 == one.sha256)
    };
    taken
        .get(&file.from)
        .filter(known)
        .ok_or_else(|| SlimError::Cannot(format!("{} has changed while it was read", file.from)))
}

/// A configuration of `ldconfig` with a line for the folder in front.
fn with_line(content: Option<&[u8]>, folder: &RootPath) -> Vec<u8> {
    let (line, content) = ([&folder.absolute(), &b"\n"[..]].concat(), content.unwrap_or_default());
    if content.starts_with(&line) {
        return content.to_vec();
    }
    [&line, content].concat()
}

/// Reads a tar that was written here.
pub(super) fn index_written_tar(path: &Path, options: &IndexOptions) -> Result<LayerIndex, SlimError> {
    let file = staging_files::open_staging_file(path)?;
    let index = layer::index_layer("that is added", file, &ExpectedBlob::default(), options);
    index.map_err(|error| SlimError::Image(error.into()))
}
