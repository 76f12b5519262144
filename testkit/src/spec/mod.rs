//! Builds images from text files: `testdata/images/src/*.yaml`.
//!
//! [`Fixture`] is one file, [`Sources`] the whole folder, and [`Sources::layout`] builds an image. Two subfolders are
//! shared: `bases` has layers to build upon, and `parts` has single files.

mod elf;
mod make;
mod sources;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

pub use elf::{ElfSpec, EndianSpec, KindSpec, MachineSpec};
pub use make::unescape;
pub use sources::{SourceError, Sources, generated};

use crate::layer::Compression;

/// A fixture: an image for one platform, or several under one tag.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixture {
    /// The real situation that it imitates.
    pub about: String,
    /// The name in the layout.
    #[serde(default = "latest")]
    pub tag: String,
    /// `os/architecture[/variant]`.
    #[serde(default = "amd64")]
    pub platform: String,
    /// The environment of the image.
    #[serde(default)]
    pub env: IndexMap<String, String>,
    /// Further fields of the config's `config` object, such as `Entrypoint`.
    #[serde(default)]
    pub config: IndexMap<String, Value>,
    /// The file in `bases` with its lower layers.
    pub base: Option<String>,
    /// The layers, lowest first.
    #[serde(default)]
    pub layers: Vec<LayerSpec>,
    /// The images of other platforms under the same tag.
    #[serde(default)]
    pub also: Vec<OtherPlatform>,
    /// The expected audit result.
    pub expect: Expect,
}

/// A further platform of a fixture; the fields are those of [`Fixture`].
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherPlatform {
    /// `os/architecture[/variant]`.
    pub platform: String,
    /// The environment of the image.
    #[serde(default)]
    pub env: IndexMap<String, String>,
    /// Further fields of the config's `config` object.
    #[serde(default)]
    pub config: IndexMap<String, Value>,
    /// The file in `bases` with its lower layers.
    pub base: Option<String>,
    /// The layers, lowest first.
    #[serde(default)]
    pub layers: Vec<LayerSpec>,
    /// The expected audit result for this platform.
    pub expect: Expect,
}

/// The expected audit result without options.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Whether CUPTI loads in the unchanged image.
    pub status: Status,
    /// Same under the NVIDIA container runtime, which rewrites `ld.so.cache`.
    pub status_nvidia: Status,
    /// The rules with a finding, sorted.
    #[serde(default)]
    pub findings: Vec<String>,
    /// The exit code.
    pub exit: i32,
}

/// Whether CUPTI loads, as in the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// A plain dlopen of the soname succeeds.
    Loadable,
    /// A library exists but does not load.
    Unloadable,
    /// There are headers but no library.
    HeadersOnly,
    /// CUPTI is absent.
    Absent,
}

impl Status {
    /// The word in the report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Loadable => "loadable",
            Self::Unloadable => "unloadable",
            Self::HeadersOnly => "headers-only",
            Self::Absent => "absent",
        }
    }
}

/// Lower layers that several fixtures share.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// The real system that it imitates.
    pub about: String,
    /// The next lower base.
    pub base: Option<String>,
    /// Its environment; a fixture's own variables win.
    #[serde(default)]
    pub env: IndexMap<String, String>,
    /// The layers, lowest first.
    pub layers: Vec<LayerSpec>,
}

/// One layer, or a history step without one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerSpec {
    /// The step of the history.
    pub created_by: String,
    /// The compression of the blob.
    #[serde(default)]
    pub compression: Compression,
    /// The entries of the layer, by absolute path; parent directories are added automatically. A step without this
    /// field has no layer.
    ///
    /// In paths, link targets and strings of objects, `\xNN` is a byte and `\\` a backslash, as in the audit's output.
    pub entries: Option<IndexMap<String, EntrySpec>>,
}

/// An entry of a layer.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntrySpec {
    /// A directory.
    Dir,
    /// A directory that only root can enter.
    ClosedDir,
    /// Deletes the path of lower layers.
    Whiteout,
    /// Hides this directory's content in lower layers.
    Opaque,
    /// A named pipe.
    Fifo,
    /// An entry of this tar type, without content, such as 0x33 for a character device.
    Typed(u8),
    /// A file with this text.
    Text(String),
    /// An executable file with this text.
    Script(String),
    /// A symbolic link.
    Link(String),
    /// A hard link.
    Hardlink(String),
    /// An ELF object.
    Elf(Box<ElfSpec>),
    /// An ELF program that runs as root, whoever starts it.
    SetuidElf(Box<ElfSpec>),
    /// An `ld.so.cache` with these sonames and paths, for the image's architecture.
    Ldcache(IndexMap<String, String>),
    /// These libraries in addition to those of the last cache in this or a lower layer.
    LdcacheMore(IndexMap<String, String>),
    /// Like `ldcache`, in the compat format with the old part.
    LdcacheCompat(IndexMap<String, String>),
    /// The file of this name in `parts`.
    Part(String),
}

fn latest() -> String {
    "latest".to_owned()
}

fn amd64() -> String {
    "linux/amd64".to_owned()
}
