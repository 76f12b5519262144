//! The limits on everything an image can drive.
//!
//! Usage is counted while bytes arrive; declared sizes are not trusted. Exceeding a limit is an error that names it, or
//! a gap in the report if the rest of the image can still be judged.

/// Limits for one audit. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Uncompressed bytes of one layer. The largest real layers seen have about 40 GB.
    pub layer_bytes: u64,
    /// Uncompressed bytes of all layers of one image. Users report images of up to 100 GB.
    pub image_bytes: u64,
    /// Compression ratio, checked once a layer exceeds [`Limits::ratio_from`].
    pub layer_ratio: u64,
    /// Uncompressed bytes below which the ratio is not checked.
    pub ratio_from: u64,
    /// Entries of one layer.
    pub layer_entries: usize,
    /// Entries of all layers of one image.
    pub image_entries: usize,
    /// Bytes in memory per layer for paths, link targets, object names and implicit directories.
    pub layer_names: u64,
    /// The same for all layers of one image, without implicit directories.
    pub image_names: u64,
    /// The part of these bytes that comes from objects, per layer and per image.
    pub object_names: u64,
    /// Bytes of the headers of one tar entry: PAX records, long names, sparse maps.
    pub tar_metadata: usize,
    /// Regions of one sparse file.
    pub sparse_regions: usize,
    /// Bytes of one path (`PATH_MAX` on Linux).
    pub path_bytes: usize,
    /// Bytes of one kept file, such as `/etc/ld.so.cache`.
    pub kept_file: u64,
    /// Bytes of rpm's database. They are in memory until its layer's file ends; then only a list of libraries stays.
    pub rpm_database: u64,
    /// Bytes of one text that is kept only if it contains a given word. A longer text counts as not containing it.
    pub searched_file: u64,
    /// Bytes of all kept files of one layer.
    pub kept_total: u64,
    /// The same for all layers of one image.
    pub image_kept: u64,
    /// Memory for the start of an ELF file until its dynamic section is known; tables behind it may use three times as
    /// much. Beyond 16 MiB tables are compressed, so this covers about 80 MB of names. The largest seen, in TensorFlow,
    /// ends at byte 59,000,000.
    pub elf_head: usize,
    /// Bytes of a manifest, index or image config.
    pub document: u64,
    /// Layers of one image.
    pub layers: usize,
    /// Files of an archive with a central directory, such as a wheel.
    pub archive_files: usize,
    /// Compression ratio of such an archive.
    pub archive_ratio: u64,
    /// Directories and names that the simulated loader visits, for all processes of one image.
    pub loader_steps: u64,
    /// Bytes of search traces kept for the reports of one image.
    pub loader_traces: u64,
    /// Symbolic links followed in one lookup (`MAXSYMLINKS` on Linux).
    pub links: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            layer_bytes: 256 << 30,
            image_bytes: 1 << 40,
            // Only zeros reach the maximum ratios: 1,032:1 for deflate and 32,000:1 for zstd. A layer with 4 GiB of
            // zeros is legitimate, such as an empty disk image. Debian's root file system has 2.2:1.
            layer_ratio: 500,
            ratio_from: 4 << 30,
            // A user of another scanner reported an image with three million files (anchore/grype#1509).
            layer_entries: 4_000_000,
            image_entries: 8_000_000,
            // Four million real entries use a third of it.
            layer_names: 1 << 30,
            image_names: 1 << 30,
            object_names: 96 << 20,
            // The limit of Go's archive/tar (`maxSpecialFileSize`), and thus of every engine.
            tar_metadata: 1 << 20,
            sparse_regions: 10_000,
            path_bytes: 4096,
            kept_file: 32 << 20,
            // A package takes about 100 kB.
            rpm_database: 64 << 20,
            // The longest Python module in a PyTorch 2.8 environment has 1.2 MB; the longest one with ctypes has 0.3
            // MB.
            searched_file: 1 << 20,
            kept_total: 64 << 20,
            // PyTorch 2.8 needs 13 MB, vLLM 0.33 needs 32 MB.
            image_kept: 128 << 20,
            elf_head: 24 << 20,
            document: 4 << 20,
            // Docker's overlay2 driver allows at most 128.
            layers: 1_000,
            // The largest wheel of PyTorch 2.8 has 12,000 files and a ratio of 4.
            archive_files: 30_000,
            archive_ratio: 100,
            // The largest real environment seen (PyTorch 2.8, 2.5, JAX) takes 31,000.
            loader_steps: 10_000_000,
            loader_traces: 96 << 20,
            links: 40,
        }
    }
}

/// The name of a user-settable limit and its setter.
type LimitSetter = (&'static str, fn(&mut Limits, u64));

/// The user-settable limits. Paths and links are fixed, because Linux limits them.
const SETTERS: [LimitSetter; 23] = [
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
    ("rpm-database", |limits, value| limits.rpm_database = value),
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

/// Converts a count, saturating at the address space.
fn count(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

impl Limits {
    /// The names of the settable limits, as they appear in errors.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SETTERS.iter().map(|(name, _)| *name)
    }

    /// Sets a limit by name. Returns whether the name is known.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        let setter = SETTERS.iter().find(|(known, _)| *known == name);
        setter.map(|(_, set)| set(self, value)).is_some()
    }
}
