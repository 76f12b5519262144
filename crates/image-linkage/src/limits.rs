//! The bounds on everything an image can drive.
//!
//! A limit is counted while bytes arrive, never taken from a size that the input declares. Crossing one is
//! an error that names the limit, or a gap in the report where the rest of the image can still be judged.

/// Directories and names that the simulated loader looks at for all processes of one image. Of the real environments seen
/// (PyTorch 2.8, 2.5, JAX) the largest takes 31,000.
pub(crate) const LOADER_STEPS: u64 = 10_000_000;

/// Bytes of all searches of one image that are kept for its reports.
pub(crate) const KEPT_TRACES: u64 = 96 << 20;

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
    /// The memory in which the start of an ELF file is held until its dynamic section has been seen, and a third
    /// of that in which tables behind it are. Behind the first 16 MiB tables are held compressed: this is some 80 MB of names. The
    /// largest seen, of TensorFlow, ends at byte 59,000,000.
    pub elf_head: usize,
    /// A manifest, index or image config.
    pub document: u64,
    /// Layers of one image.
    pub layers: usize,
    /// Symbolic links followed in one lookup, as Linux bounds it (`MAXSYMLINKS`).
    pub links: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            layer_bytes: 256 << 30,
            image_bytes: 1 << 40,
            // Deflate ends at 1,032:1 and zstd at 32,000:1, both of zeros alone; a layer of 4 GiB of them is honest, such
            // as an empty disk. The most seen of a real layer is 12:1.
            layer_ratio: 500,
            ratio_from: 4 << 30,
            // An image of three million files has been reported to another scanner (anchore/grype#1509).
            layer_entries: 4_000_000,
            // As Go's archive/tar bounds them (`maxSpecialFileSize`), and with it every engine.
            tar_metadata: 1 << 20,
            sparse_regions: 10_000,
            path_bytes: 4096,
            kept_file: 32 << 20,
            // Of the modules of a PyTorch 2.8 environment the longest has 1.2 MB, and the longest with ctypes 0.3 MB.
            searched_file: 1 << 20,
            kept_total: 64 << 20,
            elf_head: 24 << 20,
            document: 4 << 20,
            // Docker's overlay2 driver stacks at most 128.
            layers: 1_000,
            links: 40,
        }
    }
}
