//! Whole images from readable files: `testdata/images/src/*.yaml`.
//!
//! [`Fixture`] is what one file says, [`Sources`] is the folder of all of them, and [`Sources::layout`]
//! builds the image. Two subfolders hold what fixtures share: `bases`, layers that lie below those of a
//! fixture, and `parts`, single files.

mod elf;
mod make;
mod sources;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

pub use elf::{ElfSpec, EndianSpec, KindSpec, MachineSpec};
pub use sources::{SourceError, Sources, generated};

use crate::layer::Compression;

/// One fixture: an image of one platform, or several under one tag.
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
    /// The file in `bases` whose layers lie below.
    pub base: Option<String>,
    /// The layers, lowest first.
    #[serde(default)]
    pub layers: Vec<LayerSpec>,
    /// The images of other platforms under the same tag.
    #[serde(default)]
    pub also: Vec<OtherPlatform>,
    /// What the audit says of it.
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
    /// The file in `bases` whose layers lie below.
    pub base: Option<String>,
    /// The layers, lowest first.
    #[serde(default)]
    pub layers: Vec<LayerSpec>,
    /// What the audit says of this platform.
    pub expect: Expect,
}

/// What the audit says of a fixture without options.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Whether CUPTI loads in the image as it is.
    pub status: Status,
    /// The same under the NVIDIA container runtime, which writes `ld.so.cache` anew.
    pub status_nvidia: Status,
    /// The rules that have a finding, sorted.
    #[serde(default)]
    pub findings: Vec<String>,
    /// The exit code.
    pub exit: i32,
}

/// Whether CUPTI loads, in the words of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// A plain dlopen of the soname succeeds.
    Loadable,
    /// A library is there and does not load.
    Unloadable,
    /// There are headers and no library.
    HeadersOnly,
    /// There is nothing of CUPTI.
    Absent,
}

impl Status {
    /// The word of the report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Loadable => "loadable",
            Self::Unloadable => "unloadable",
            Self::HeadersOnly => "headers-only",
            Self::Absent => "absent",
        }
    }
}

/// The layers that several fixtures begin with.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// The real system that it imitates.
    pub about: String,
    /// The base below this one.
    pub base: Option<String>,
    /// The environment that it leaves; a fixture's own variables win.
    #[serde(default)]
    pub env: IndexMap<String, String>,
    /// The layers, lowest first.
    pub layers: Vec<LayerSpec>,
}

/// One layer, or a step of the history that made none.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerSpec {
    /// The step of the history.
    pub created_by: String,
    /// How the blob is compressed.
    #[serde(default)]
    pub compression: Compression,
    /// What the layer holds, by absolute path; the directories above each path come by themselves. A step
    /// without this field made no layer.
    ///
    /// In paths, link targets and the strings of objects, `\xNN` is the byte with that value and `\\` a
    /// backslash, as the audit prints them.
    pub entries: Option<IndexMap<String, EntrySpec>>,
}

/// What lies at a path.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntrySpec {
    /// A directory.
    Dir,
    /// A directory that root alone may pass.
    ClosedDir,
    /// The path is deleted from the layers below.
    Whiteout,
    /// What the layers below have in this directory is hidden.
    Opaque,
    /// A named pipe.
    Fifo,
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
    /// An `ld.so.cache` of these sonames and paths, for the image's architecture.
    Ldcache(IndexMap<String, String>),
    /// The libraries of the last cache that a layer below or this one wrote, and these.
    LdcacheMore(IndexMap<String, String>),
    /// As `ldcache`, in the format that holds the old one too.
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
