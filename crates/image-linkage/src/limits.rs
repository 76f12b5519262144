//! The bounds on everything an image can drive.
//!
//! A limit is counted while bytes arrive, never taken from a size that the input declares. Crossing one is
//! an error that names the limit, or a gap in the report where the rest of the image can still be judged.

/// Bounds for one audit. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Uncompressed bytes of one layer. The largest honest layers seen hold some 40 GB.
    pub layer_bytes: u64,
    /// Uncompressed bytes of all layers of one image. The largest images that users tell of hold 100 GB.
    pub image_bytes: u64,
    /// Bytes out per byte in, counted once a layer has grown past [`Limits::ratio_from`].
    pub layer_ratio: u64,
    /// Uncompressed bytes below which the ratio is not looked at.
    pub ratio_from: u64,
    /// Entries of one layer.
    pub layer_entries: usize,
    /// Entries of all layers of one image.
    pub image_entries: usize,
    /// The bytes that one layer may have held of paths, link targets, names in objects, and directories that no entry
    /// stands for.
    pub layer_names: u64,
    /// The same of all layers of one image, but for those directories.
    pub image_names: u64,
    /// The bytes among them that the objects of one layer, and of all layers of one image, may have held of what they name.
    pub object_names: u64,
    /// Headers of one tar entry: PAX records, long names, sparse maps.
    pub tar_metadata: usize,
    /// Regions of one sparse file.
    pub sparse_regions: usize,
    /// Bytes of one path, as Linux bounds it (`PATH_MAX`).
    pub path_bytes: usize,
    /// One small file that is kept as bytes, such as `/etc/ld.so.cache`.
    pub kept_file: u64,
    /// One text that is kept only where it holds a word; a longer one is taken to hold none.
    pub searched_file: u64,
    /// All files kept as bytes in one layer.
    pub kept_total: u64,
    /// The same of all layers of one image.
    pub image_kept: u64,
    /// The memory in which the start of an ELF file is held until its dynamic section has been seen, and a third
    /// of that in which tables behind it are. Behind the first 16 MiB tables are held compressed: this is some 80 MB of names. The
    /// largest seen, of TensorFlow, ends at byte 59,000,000.
    pub elf_head: usize,
    /// A manifest, index or image config.
    pub document: u64,
    /// Layers of one image.
    pub layers: usize,
    /// Files of an archive whose directory is held whole, as that of a wheel is.
    pub archive_files: usize,
    /// Bytes out per byte of such an archive.
    pub archive_ratio: u64,
    /// Directories and names that the simulated loader looks at for all processes of one image.
    pub loader_steps: u64,
    /// Bytes of all searches of one image that are kept for its reports.
    pub loader_traces: u64,
    /// Symbolic links followed in one lookup, as Linux bounds it (`MAXSYMLINKS`).
    pub links: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            layer_bytes: 256 << 30,
            image_bytes: 1 << 40,
            // Deflate ends at 1,032:1 and zstd at 32,000:1, both of zeros alone; a layer of 4 GiB of them is honest, such
            // as an empty disk. A Debian's root file system has 2.2:1.
            layer_ratio: 500,
            ratio_from: 4 << 30,
            // An image of three million files has been reported to another scanner (anchore/grype#1509).
            layer_entries: 4_000_000,
            image_entries: 8_000_000,
            // Four million honest entries take a third.
            layer_names: 1 << 30,
            image_names: 1 << 30,
            object_names: 96 << 20,
            // As Go's archive/tar bounds them (`maxSpecialFileSize`), and with it every engine.
            tar_metadata: 1 << 20,
            sparse_regions: 10_000,
            path_bytes: 4096,
            kept_file: 32 << 20,
            // Of the modules of a PyTorch 2.8 environment the longest has 1.2 MB, and the longest with ctypes 0.3 MB.
            searched_file: 1 << 20,
            kept_total: 64 << 20,
            // Of all files of PyTorch 2.8, 13 MB.
            image_kept: 128 << 20,
            elf_head: 24 << 20,
            document: 4 << 20,
            // Docker's overlay2 driver stacks at most 128.
            layers: 1_000,
            // Of the wheels of PyTorch 2.8 the largest has 12,000, and gives 4 bytes for one.
            archive_files: 30_000,
            archive_ratio: 100,
            // Of the real environments seen (PyTorch 2.8, 2.5, JAX) the largest takes 31,000.
            loader_steps: 10_000_000,
            loader_traces: 96 << 20,
            links: 40,
        }
    }
}

/// A limit that a user may set, by its name, and how it is set.
type LimitSetter = (&'static str, fn(&mut Limits, u64));

/// The limits that a user may set. Paths and links are bounded by Linux, and no image may ask for more.
const SETTERS: [LimitSetter; 22] = [
    ("layer-bytes", |limits, value| limits.layer_bytes = value),
    ("image-bytes", |limits, value| limits.image_bytes = value),
    ("layer-ratio", |limits, value| limits.layer_ratio = value),
    ("ratio-from", |limits, value| limits.ratio_from = value),
    ("layer-entries", |limits, value| limits.layer_entries = count(value)),
    ("image-entries", |limits, value| limits.image_entries = count(value)),
    ("layer-names", |limits, value| limits.layer_names = value),
    ("image-names", |limits, value| limits.image_names = value),
    ("object-names", |limits, value| limits.object_names = value),
    ("tar-metadata", |limits, value| limits.tar_metadata = count(value)),
    ("sparse-regions", |limits, value| limits.sparse_regions = count(value)),
    ("kept-file", |limits, value| limits.kept_file = value),
    ("searched-file", |limits, value| limits.searched_file = value),
    ("kept-total", |limits, value| limits.kept_total = value),
    ("image-kept", |limits, value| limits.image_kept = value),
    ("elf-head", |limits, value| limits.elf_head = count(value)),
    ("document", |limits, value| limits.document = value),
    ("layers", |limits, value| limits.layers = count(value)),
    ("archive-files", |limits, value| limits.archive_files = count(value)),
    ("archive-ratio", |limits, value| limits.archive_ratio = value),
    ("loader-steps", |limits, value| limits.loader_steps = value),
    ("loader-traces", |limits, value| limits.loader_traces = value),
];

/// A number of things in memory, of which there are no more than addresses.
fn count(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

impl Limits {
    /// The names of the limits that can be set, as errors have them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SETTERS.iter().map(|(name, _)| *name)
    }

    /// Sets the limit of this name; says whether there is one.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        let setter = SETTERS.iter().find(|(known, _)| *known == name);
        setter.map(|(_, set)| set(self, value)).is_some()
    }
}
