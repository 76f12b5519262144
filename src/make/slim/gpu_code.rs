//! Removes GPU code for other GPUs from the objects of open packages.
//!
//! The objects are extracted from their layers, rewritten and compared with the originals. An object that cannot be
//! rewritten with certainty stays as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use aho_corasick::AhoCorasick;
use gpu_code::{
    CodeAmount, DeviceCode, DeviceCodeScanner, GpuArchitecture, GpuCoverage, KeptPtx, Obstacle, PrunePlan, PruneTarget,
    PruneWay, plan_pruning, verify_pruned,
};
use image_linkage::layer::ReplacedFile;
use image_linkage::limits::Limits;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};
use image_source::Image;

use super::hashed_writer::{HashedWriter, copy_hashed};
use super::original_image::OriginalImage;
use super::staging_files::{StagingFile, io_error, open_staging_file, remove_staging_file};
use super::{SlimError, interrupt};
use crate::facts::gpu_code_kept_for;
use crate::knowledge::gpu::{GpuCapability, GpuTable};
use crate::knowledge::gpu_code::{GpuCodeTable, ObjectOrigin};

/// The GPUs that the new image is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GpuRequest {
    target: PruneTarget,
    /// Objects of unknown packages that may change.
    files: BTreeSet<RootPath>,
}

impl GpuRequest {
    /// The request for GPUs by name; `None` without names.
    ///
    /// Errors: A GPU that is unknown or not supported.
    pub(crate) fn new(
        names: &[String],
        files: &[String],
        ptx: KeptPtx,
        gpus: &GpuTable,
    ) -> Result<Option<Self>, String> {
        if names.is_empty() {
            return Ok(None);
        }
        let known = gpus.find_all(names)?.into_iter();
        let target = PruneTarget::new(known.filter_map(GpuCapability::machine_architecture).collect(), ptx)
            .map_err(|why| format!("--gpu {}: {why}", names.join(",")))?;
        let files = files.iter().map(|file| RootPath::new(file.as_bytes())).collect();
        Ok(Some(Self { target, files }))
    }

    /// The GPUs as `sm_80,sm_90`.
    pub(crate) fn gpus(&self) -> String {
        let names: Vec<String> = self.target.gpus().iter().map(ToString::to_string).collect();
        names.join(",")
    }

    /// Checks that an image that was already made for some GPUs has the code for these.
    ///
    /// Errors: It has not.
    pub(crate) fn check_label(&self, image: &Image) -> Result<(), String> {
        let Some(kept) = gpu_code_kept_for(image) else {
            return Ok(());
        };
        match self.target.gpus().iter().find(|gpu| !kept.contains(&gpu.to_string())) {
            Some(gpu) => Err(format!(
                "the image was made for {} with slim --gpu, so code for {gpu} may be gone; start from the original image",
                kept.join(",")
            )),
            None => Ok(()),
        }
    }
}

/// The changes to GPU code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GpuDecision {
    /// The GPUs as `sm_80,sm_90`.
    pub gpus: String,
    /// The rewritten objects, by path.
    pub pruned: Vec<PrunedObject>,
    /// The objects that stay as they are, by path.
    pub unchanged: Vec<UnchangedObject>,
}

/// A rewritten object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrunedObject {
    /// The first of its paths in the image.
    pub path: RootPath,
    /// Its other paths.
    pub links: Vec<RootPath>,
    /// The layer that contains it, and its path there.
    pub layer: usize,
    pub stored: RootPath,
    /// The open package that it belongs to; `None` if the user named the file.
    pub package: Option<String>,
    pub bytes_before: u64,
    pub bytes_after: u64,
    pub sha256_before: String,
    pub sha256_after: String,
    pub code_before: DeviceCode,
    pub code_after: DeviceCode,
    /// The code as an audit of the new image sees it, with code that is only linked at run time.
    pub scanned_code: DeviceCode,
    /// Why the file keeps its size; `None` if it becomes smaller.
    pub in_place_because: Option<&'static str>,
    /// The GPUs for which some code is only PTX, and those without any code.
    pub compiled_for: Vec<GpuArchitecture>,
    pub no_code_for: Vec<GpuArchitecture>,
    /// The new object in the staging folder.
    pub content: PathBuf,
}

/// An object that stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnchangedObject {
    pub path: RootPath,
    pub bytes: u64,
    pub because: UnchangedReason,
}

/// Why an object stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UnchangedReason {
    NvidiaLicence,
    UnknownPackage,
    /// The image has NVIDIA's own builds of open packages.
    NvidiaBuild,
    NothingToSave,
    /// It contains code of this static library of NVIDIA.
    StaticLibrary(String),
    Obstacle(String),
}

impl PrunedObject {
    /// The file for the index of its layer.
    pub(crate) fn replaced(&self) -> ReplacedFile {
        ReplacedFile {
            bytes: self.bytes_after,
            sha256: self.sha256_after.clone().into_boxed_str(),
            device_code: Some(Box::new(self.scanned_code.clone())),
        }
    }

    /// The removed code by kind.
    pub(crate) fn removed(&self) -> Vec<CodeAmount> {
        let mut kinds = self.code_before.by_kind();
        for (kind, amount) in self.code_after.by_kind() {
            if let Some(sum) = kinds.get_mut(&kind) {
                sum.entries = sum.entries.saturating_sub(amount.entries);
                sum.bytes = sum.bytes.saturating_sub(amount.bytes);
            }
        }
        kinds.into_values().filter(|amount| amount.entries > 0).collect()
    }

    /// The saved bytes of GPU code. In place, the file keeps its size.
    pub(crate) fn saved_bytes(&self) -> u64 {
        self.code_before.bytes().saturating_sub(self.code_after.bytes())
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &RootPath> {
        std::iter::once(&self.path).chain(&self.links)
    }
}

/// An object with GPU code in a layer.
struct FoundObject {
    paths: Vec<RootPath>,
    bytes: u64,
}

/// The image whose objects are rewritten.
pub(crate) struct PruneInput<'a> {
    pub original: &'a OriginalImage,
    /// Its file system.
    pub merged: &'a Rootfs,
    /// The paths that are removed anyway.
    pub gone: &'a BTreeSet<RootPath>,
    pub table: &'a GpuCodeTable,
    pub limits: &'a Limits,
    /// A folder for the new objects.
    pub folder: &'a Path,
}

/// Rewrites the objects of an image.
///
/// Errors: A layer or file cannot be read or written; a named file is no object with GPU code.
pub(crate) fn prune_objects(request: &GpuRequest, input: &PruneInput<'_>) -> Result<GpuDecision, SlimError> {
    let mut decision = GpuDecision {
        gpus: request.gpus(),
        pruned: Vec::new(),
        unchanged: Vec::new(),
    };
    let found = find_objects(input);
    let named = request
        .files
        .iter()
        .find(|file| !found.values().any(|object| object.paths.contains(file)));
    if let Some(file) = named {
        return Err(SlimError::Cannot(format!(
            "--gpu-file {file}: the image has no such object with GPU code"
        )));
    }
    let mut wanted: BTreeMap<usize, BTreeMap<RootPath, FoundObject>> = BTreeMap::new();
    for ((layer, stored), object) in found {
        match may_change(request, input, &object) {
            Ok(()) => {
                wanted.entry(layer).or_default().insert(stored, object);
            }
            Err(because) => decision.unchanged.extend(object.unchanged(because)),
        }
    }
    for (layer, objects) in wanted {
        let stored = objects.keys().cloned().collect();
        let staging = (input.folder, "object");
        let places = input.original.extract_files(layer, &stored, input.limits, staging)?;
        for (stored, object) in objects {
            let Some(place) = places.get(&stored) else {
                let because = UnchangedReason::Obstacle("it is stored as a sparse file".to_owned());
                decision.unchanged.extend(object.unchanged(because));
                continue;
            };
            let pruned = prune_object(request, input.table, &object, (layer, &stored), place)?;
            // The original is large, and not needed any more.
            remove_staging_file(place)?;
            match pruned {
                Ok(pruned) => decision.pruned.push(pruned),
                Err(because) => decision.unchanged.extend(object.unchanged(because)),
            }
        }
    }
    decision.pruned.sort_by(|one, other| one.path.cmp(&other.path));
    decision.unchanged.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(decision)
}

/// The visible objects with GPU code, by layer and path there.
fn find_objects(input: &PruneInput<'_>) -> BTreeMap<(usize, RootPath), FoundObject> {
    let mut found: BTreeMap<(usize, RootPath), FoundObject> = BTreeMap::new();
    input.merged.visit(|path, _, node| {
        let NodeKind::File(facts) = &node.kind else { return };
        let has_code = facts.elf.as_ref().is_some_and(|elf| elf.device_code.is_some());
        if !has_code || input.gone.contains(path) {
            return;
        }
        if let Some(place) = input.original.locate_file(input.merged, path) {
            let object = found.entry(place).or_insert_with(|| FoundObject {
                paths: Vec::new(),
                bytes: facts.bytes,
            });
            object.paths.push(path.clone());
        }
    });
    found
}

impl FoundObject {
    fn unchanged(&self, because: UnchangedReason) -> Option<UnchangedObject> {
        Some(UnchangedObject {
            path: self.paths.first()?.clone(),
            bytes: self.bytes,
            because,
        })
    }
}

/// Whether the licence allows a change, by all names of the object.
fn may_change(request: &GpuRequest, input: &PruneInput<'_>, object: &FoundObject) -> Result<(), UnchangedReason> {
    let is_nvidia_build = input.table.is_nvidia_build(&input.original.image.config);
    let mut is_open = false;
    for path in &object.paths {
        match input.table.origin(path) {
            ObjectOrigin::Nvidia => return Err(UnchangedReason::NvidiaLicence),
            ObjectOrigin::Open(_) if !is_nvidia_build => is_open = true,
            ObjectOrigin::Open(_) | ObjectOrigin::Unknown => is_open |= request.files.contains(path),
        }
    }
    if is_open {
        return Ok(());
    }
    Err(if is_nvidia_build {
        UnchangedReason::NvidiaBuild
    } else {
        UnchangedReason::UnknownPackage
    })
}

/// Rewrites one extracted object, or tells why not.
fn prune_object(
    request: &GpuRequest,
    table: &GpuCodeTable,
    object: &FoundObject,
    (layer, stored): (usize, &RootPath),
    place: &Path,
) -> Result<Result<PrunedObject, UnchangedReason>, SlimError> {
    let source = open_staging_file(place)?;
    let planned = match plan_pruning(&source, &request.target, PruneWay::Compact) {
        Ok(plan) => plan,
        Err(why) => return obstacle(why, place),
    };
    if let Some(library) = static_library(table, place)? {
        return Ok(Err(UnchangedReason::StaticLibrary(library)));
    }
    let content = place.with_extension("new");
    let (sha256_after, scanned_code) = write_object(&planned, &source, &content)?;
    if let Err(why) = verify_pruned(&source, &open_staging_file(&content)?, &request.target) {
        remove_staging_file(&content)?;
        return obstacle(why, place);
    }
    let hashed = copy_hashed(&mut open_staging_file(place)?, &mut std::io::sink());
    let (sha256_before, _) = hashed.map_err(|error| io_error(place, error))?;
    let with = |fits: fn(GpuCoverage) -> bool| {
        let gpus = request.target.gpus().iter();
        gpus.filter(|gpu| fits(planned.code_before.coverage(**gpu)))
            .copied()
            .collect()
    };
    let compiled_for = with(|coverage| coverage.only_ptx > 0);
    let no_code_for = with(|coverage| coverage.machine_code == 0 && coverage.only_ptx == 0);
    let mut links = object.paths.clone();
    // The path in its package says more than the path of a link.
    links.sort_by_key(|path| !matches!(table.origin(path), ObjectOrigin::Open(_)));
    let path = if links.is_empty() {
        RootPath::default()
    } else {
        links.remove(0)
    };
    let package = match table.origin(&path) {
        ObjectOrigin::Open(package) => Some(package.package.clone()),
        _ => None,
    };
    Ok(Ok(PrunedObject {
        path,
        links,
        layer,
        stored: stored.clone(),
        package,
        bytes_before: planned.bytes_before,
        bytes_after: planned.bytes_after,
        sha256_before,
        sha256_after,
        code_before: planned.code_before,
        code_after: planned.code_after,
        scanned_code,
        in_place_because: planned.in_place_because,
        compiled_for,
        no_code_for,
        content,
    }))
}

/// An object that stays, or an error of the host.
fn obstacle<T>(why: Obstacle, place: &Path) -> Result<Result<T, UnchangedReason>, SlimError> {
    match why {
        Obstacle::NoCode | Obstacle::NoSaving => Ok(Err(UnchangedReason::NothingToSave)),
        Obstacle::Unexpected(why) => Ok(Err(UnchangedReason::Obstacle(why.to_owned()))),
        // A truncated object is damage of the image, not of the host.
        Obstacle::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Ok(Err(UnchangedReason::Obstacle("it ends before its tables".to_owned())))
        }
        Obstacle::Io(error) => Err(io_error(place, error)),
    }
}

/// Writes the new object. Returns its SHA-256 and its GPU code as an audit will see it.
fn write_object(plan: &PrunePlan, source: &File, content: &Path) -> Result<(String, DeviceCode), SlimError> {
    let file = StagingFile::create(content.to_owned()).map_err(|error| io_error(content, error))?;
    let mut out = ScannedWriter {
        out: HashedWriter::new(BufWriter::with_capacity(1 << 20, file)),
        scanner: DeviceCodeScanner::default(),
    };
    plan.write(source, &mut out)
        .and_then(|()| out.flush())
        .map_err(|error| io_error(content, error))?;
    let (_, digest, _) = out.out.finish();
    Ok((digest.digest().to_owned(), out.scanner.finish().unwrap_or_default()))
}

/// The first static library of NVIDIA whose code is in an object.
fn static_library(table: &GpuCodeTable, place: &Path) -> Result<Option<String>, SlimError> {
    let texts = table.static_libraries.iter().map(|row| row.text.as_bytes());
    let searcher = AhoCorasick::new(texts).map_err(|error| SlimError::Cannot(error.to_string()))?;
    let source = interrupt::InterruptibleReader(open_staging_file(place)?);
    let mut matches = searcher.stream_find_iter(source);
    let found = matches.next().transpose().map_err(|error| io_error(place, error))?;
    let row = found.and_then(|found| table.static_libraries.get(found.pattern().as_usize()));
    Ok(row.map(|row| row.library.clone()))
}

/// Scans and hashes what it writes. It fails after a stop request.
struct ScannedWriter {
    out: HashedWriter<BufWriter<StagingFile>>,
    scanner: DeviceCodeScanner,
}

impl Write for ScannedWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        interrupt::check_interrupt()?;
        let written = self.out.write(bytes)?;
        self.scanner.push(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
