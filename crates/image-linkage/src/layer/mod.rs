//! Reads the blob of one layer, as a stream, into a [`LayerIndex`].
//!
//! Nothing is unpacked, and memory does not grow with the size of the files. An index contains facts about files only.
//! It knows neither CUPTI nor other layers, so it can be cached by the layer's digest.

mod access_list;
mod changeset;
mod decompress;
mod file_facts;
mod header_edit;
mod index;
mod index_codec;
mod installed_list;
mod interest;
mod layer_entries;
mod layer_links;
mod layer_writer;
mod node_access;
mod path_pattern;
mod pax;
mod pipeline;
mod read_ahead;
mod rewrite;
mod rpm_database;
mod sparse_map;
mod tar_header;
mod tar_headers;
mod tar_input;
mod tar_member;
mod tar_members;
mod tar_walk;

pub use access_list::AccessList;
pub use decompress::{Compression, DecompressedReader};
pub use file_facts::{KeptClass, KeptFiles, read_file_facts};
pub use index::{ExpectedBlob, FileFacts, LayerEntry, LayerError, LayerIndex, LayerProblem, ProblemKind};
pub use index_codec::{read_index, write_index};
pub use installed_list::{ListedFile, is_installed_list, is_library_name, listed_files, shorten_list};
pub use interest::{FileInterest, IndexOptions, WantedFiles};
pub use layer_entries::LayerEntries;
pub use layer_writer::LayerWriter;
pub use node_access::{FileCapabilities, NodeAccess};
pub use pipeline::index_layer;
pub use rewrite::{LayerCut, OpenReplacement, ReplacedFile, extract_files, resolve_hardlink, rewrite_layer};
pub use rpm_database::{RPM_DATABASES, RpmPackage, is_rpm_database, rpm_packages};
pub use tar_header::is_tar;
pub use tar_headers::{HeaderError, HeaderReader, TarItem};
pub use tar_member::{TarKind, TarMember};
