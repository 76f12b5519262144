//! The sources of CUPTI: an image, a wheel, or a folder with the files of a wheel or a toolkit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::SlimError;
use super::hashed_writer::copy_hashed;
use super::original_image::{self, OriginalImage};
use super::provenance::ContentOrigin;
use super::staging_files::{StagingFile, io_error, open_staging_file};
use crate::facts::{self, ImageFacts, ReadLayers};
use crate::judge::image_reading::ReadOptions;
use crate::make::choose::copy_source::CopySource;
use image_linkage::layer::{IndexOptions, KeptFiles, LayerIndex, LayerProblem, ProblemKind, read_file_facts};
use image_linkage::limits::Limits;
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use image_source::{Image, ImageConfig, LayerDescriptor, OpenedImage, OpenedLayers, Platform, SourceKind};

/// A source of CUPTI that was read.
pub(crate) struct CuptiSupplier {
    pub facts: ImageFacts,
    /// Its entry in the provenance record, without host data.
    pub from: ContentOrigin,
    kind: SupplierKind,
}

enum SupplierKind {
    Image(Box<OriginalImage>),
    Wheel(PathBuf),
    Folder(PathBuf),
}

/// A file extracted from a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExtractedFile {
    pub path: PathBuf,
    pub sha256: String,
    pub bytes: u64,
}

impl CuptiSupplier {
    /// Reads the source that `written` names: a wheel by its extension, otherwise an image or a folder.
    ///
    /// Errors: Why it cannot be read.
    pub(crate) fn read(written: &str, options: &ReadOptions<'_>, folder: &Path) -> Result<Self, SlimError> {
        let is_wheel = Path::new(written).extension().is_some_and(|it| it == "whl");
        // An image's name may have the same ending.
        if is_wheel && Path::new(written).is_file() {
            return Self::wheel(Path::new(written), options);
        }
        let (opened, kept) = original_image::open_reopenable(written, options, folder)?;
        match opened.layers {
            OpenedLayers::Folder(dir, index) => {
                let (image, layers) = (opened.image, vec![Ok(*index)]);
                Ok(Self {
                    facts: facts::gather_facts(image, ReadLayers { layers }, options.knowledge, &options.conditions),
                    from: ContentOrigin::folder(),
                    kind: SupplierKind::Folder(dir),
                })
            }
            layers @ (OpenedLayers::Blobs(_) | OpenedLayers::Indexed(_)) => {
                let opened = OpenedImage { layers, ..opened };
                let original = OriginalImage::new(opened, kept, options)?;
                Ok(Self {
                    facts: original.facts(options),
                    from: ContentOrigin::image(&original.image),
                    kind: SupplierKind::Image(Box::new(original)),
                })
            }
        }
    }

    fn wheel(path: &Path, options: &ReadOptions<'_>) -> Result<Self, SlimError> {
        let index = wheel_index(path, &options.index)?;
        let image = Image {
            reference: path.display().to_string(),
            source: SourceKind::Rootfs,
            digest: None,
            repo_digests: Vec::new(),
            platform: Platform::host(),
            config: ImageConfig::default(),
            layers: vec![LayerDescriptor {
                digest: None,
                diff_id: None,
                media_type: "wheel".to_owned(),
                size: None,
                created_by: None,
            }],
        };
        let (sha256, _) = copy_hashed(&mut open_staging_file(path)?, &mut io::sink()).map_err(at(path))?;
        let layers = vec![Ok(index)];
        let name = path.file_name().unwrap_or_default();
        Ok(Self {
            facts: facts::gather_facts(image, ReadLayers { layers }, options.knowledge, &options.conditions),
            from: ContentOrigin::wheel(&image_linkage::escape::escape_bytes(name.as_bytes()), &sha256),
            kind: SupplierKind::Wheel(path.to_owned()),
        })
    }

    /// The image, wheel or folder to copy from, as it was named.
    pub(crate) fn copy_source(&self) -> CopySource<'_> {
        CopySource {
            name: &self.facts.image.reference,
            facts: &self.facts,
        }
    }

    /// Extracts files into `folder`; `paths` are paths in the source, with links resolved.
    ///
    /// Errors: Why one cannot be read, or a change of the source.
    pub(crate) fn extract_files(
        &self,
        paths: &BTreeSet<RootPath>,
        limits: &Limits,
        folder: &Path,
    ) -> Result<BTreeMap<RootPath, ExtractedFile>, SlimError> {
        match &self.kind {
            SupplierKind::Image(original) => {
                let merged = &self.facts.contexts.as_is.rootfs;
                from_image(original, merged, paths, limits, folder)
            }
            SupplierKind::Wheel(wheel) => {
                let mut archive = archive(wheel, limits)?;
                one_by_one(paths, folder, |path, to| {
                    let name = image_linkage::escape::escape_bytes(path.as_bytes());
                    let mut file = archive.by_name(&name).map_err(|error| broken(wheel, &error))?;
                    copy_hashed(&mut file, to).map_err(at(wheel))
                })
            }
            SupplierKind::Folder(dir) => one_by_one(paths, folder, |path, to| {
                let file = dir.join(std::ffi::OsStr::from_bytes(path.as_bytes()));
                copy_hashed(&mut open_staging_file(&file)?, to).map_err(at(&file))
            }),
        }
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> SlimError + '_ {
    move |error| io_error(path, error)
}

fn broken(wheel: &Path, error: &zip::result::ZipError) -> SlimError {
    SlimError::Cannot(format!("{} is no wheel: {error}", wheel.display()))
}

/// Rejects a wheel with too many files before its central directory is read into memory.
fn check_wheel_files(wheel: &Path, limit: usize) -> Result<(), SlimError> {
    // The end record: 22 bytes, and a comment of at most 65,535 (APPNOTE.TXT, 4.3.16).
    const LONGEST: u64 = 22 + 0xffff;
    let mut file = open_staging_file(wheel)?;
    let bytes = file.metadata().map_err(at(wheel))?.len();
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(bytes.saturating_sub(LONGEST)))
        .map_err(at(wheel))?;
    file.take(LONGEST).read_to_end(&mut end).map_err(at(wheel))?;
    let record = end.windows(12).rev().find(|record| record.starts_with(b"PK\x05\x06"));
    // 65,535 means that the number is in a ZIP64 record.
    match record {
        Some([.., low, high]) if usize::from(u16::from_le_bytes([*low, *high])) > limit => {
            Err(too_many_files(wheel, limit))
        }
        _ => Ok(()),
    }
}

fn too_many_files(wheel: &Path, limit: usize) -> SlimError {
    let wheel = wheel.display();
    SlimError::Cannot(format!(
        "{wheel} holds more than the limit of {limit} files (archive-files)"
    ))
}

fn archive(wheel: &Path, limits: &Limits) -> Result<zip::ZipArchive<File>, SlimError> {
    check_wheel_files(wheel, limits.archive_files)?;
    zip::ZipArchive::new(open_staging_file(wheel)?).map_err(|error| broken(wheel, &error))
}

/// The contents of a wheel, as pip would unpack it into a folder.
fn wheel_index(wheel: &Path, options: &IndexOptions) -> Result<LayerIndex, SlimError> {
    let limits = &options.limits;
    let mut archive = archive(wheel, limits)?;
    if archive.len() > limits.archive_files {
        return Err(too_many_files(wheel, limits.archive_files));
    }
    let stored = open_staging_file(wheel)?.metadata().map_err(at(wheel))?.len();
    let most = stored.saturating_mul(limits.archive_ratio);
    let mut index = LayerIndex::empty();
    let mut kept = KeptFiles::default();
    for number in 0..archive.len() {
        let file = archive.by_index(number).map_err(|error| broken(wheel, &error))?;
        // The file names imply the folders.
        if !file.is_file() {
            continue;
        }
        let path = RootPath::new(file.name_raw());
        let mode = u16::try_from(file.unix_mode().unwrap_or(0o644) & 0o7777).unwrap_or(0o644);
        let left = most.saturating_sub(index.bytes);
        // The size in a zip file is untrusted, so count the bytes.
        let mut bounded = file.take(left);
        let (facts, class) = read_file_facts(&path, (mode, None), &mut bounded, options).map_err(at(wheel))?;
        if bounded.limit() == 0 && left > 0 {
            let text = format!(
                "{} holds more than {most} bytes, the limit for its size (archive-ratio)",
                wheel.display()
            );
            return Err(SlimError::Cannot(text));
        }
        index.bytes = index.bytes.saturating_add(facts.bytes);
        let (entry, unread) = kept.admit(&path, facts, class, limits);
        if let Some(what) = unread {
            let (path, kind) = (path.clone(), ProblemKind::Unread);
            index.problems.push(LayerProblem { path, what, kind });
        }
        index.entries.insert(&path, entry);
    }
    index.problems.extend(kept.left_out(limits));
    Ok(index)
}

fn one_by_one(
    paths: &BTreeSet<RootPath>,
    folder: &Path,
    mut copy: impl FnMut(&RootPath, &mut StagingFile) -> Result<(String, u64), SlimError>,
) -> Result<BTreeMap<RootPath, ExtractedFile>, SlimError> {
    let mut taken = BTreeMap::new();
    for (number, path) in paths.iter().enumerate() {
        // Numbered, so that a name from the source never becomes a host path.
        let place = folder.join(format!("file-{number}"));
        let mut to = StagingFile::create(place.clone()).map_err(at(&place))?;
        let (sha256, bytes) = copy(path, &mut to)?;
        let one = ExtractedFile {
            path: place,
            sha256,
            bytes,
        };
        taken.insert(path.clone(), one);
    }
    Ok(taken)
}

/// Extracts files from an image, reading each layer that contains some once.
fn from_image(
    original: &OriginalImage,
    merged: &Rootfs,
    paths: &BTreeSet<RootPath>,
    limits: &Limits,
    folder: &Path,
) -> Result<BTreeMap<RootPath, ExtractedFile>, SlimError> {
    let mut layers: BTreeMap<usize, BTreeMap<RootPath, &RootPath>> = BTreeMap::new();
    for path in paths {
        let (layer, stored) = original
            .locate_file(merged, path)
            .ok_or_else(|| SlimError::Cannot(format!("{path} is no file of the source")))?;
        layers.entry(layer).or_default().insert(stored, path);
    }
    let mut taken = BTreeMap::new();
    for (layer, wanted) in layers {
        let stored = wanted.keys().cloned().collect();
        let files = original.extract_files(layer, &stored, limits, (folder, "layer-file"))?;
        for (stored, path) in &wanted {
            let file = files.get(stored).cloned().ok_or_else(|| {
                SlimError::Cannot(format!(
                    "{stored} is stored as a sparse file, which cannot be extracted"
                ))
            })?;
            // Hash the file on disk, because that is what goes into the layer.
            let (sha256, bytes) = copy_hashed(&mut open_staging_file(&file)?, &mut io::sink()).map_err(at(&file))?;
            let one = ExtractedFile {
                path: file,
                sha256,
                bytes,
            };
            taken.insert((*path).clone(), one);
        }
    }
    Ok(taken)
}
