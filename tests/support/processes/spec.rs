//! An image as readable data: its layers, its config, and the processes to run. Generated images and those in
//! `testdata/processes/` have the same form.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// An image and its processes that request CUPTI.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImageSpec {
    /// The question, in words.
    #[serde(skip_serializing_if = "is_default")]
    pub about: String,
    /// The seed that generated it.
    #[serde(skip_serializing_if = "is_default")]
    pub seed: u64,
    /// The features that it was generated with; disagreements are counted per feature.
    pub features: Vec<Feature>,
    /// Whether the lowest layer contains a Python.
    #[serde(skip_serializing_if = "is_default")]
    pub python: bool,
    /// `USER`.
    #[serde(skip_serializing_if = "is_default")]
    pub user: Option<String>,
    /// `ENV`, as `NAME=VALUE`.
    #[serde(skip_serializing_if = "is_default")]
    pub env: Vec<String>,
    /// `WORKDIR`.
    #[serde(skip_serializing_if = "is_default")]
    pub working_dir: Option<String>,
    /// `ENTRYPOINT`, in the exec form.
    #[serde(skip_serializing_if = "is_default")]
    pub entrypoint: Vec<String>,
    /// `CMD`, in the exec form.
    #[serde(skip_serializing_if = "is_default")]
    pub cmd: Vec<String>,
    /// The layers above the base, lowest first: an entry per absolute path.
    pub layers: Vec<IndexMap<String, EntrySpec>>,
    /// The processes. The config starts the first one.
    pub processes: Vec<ProcessSpec>,
}

/// A process, and the object in it that requests CUPTI.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessSpec {
    /// The path of the requesting object.
    pub object: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The final working directory, if the command changes it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub directory: Option<String>,
}

/// An entry at a path of a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntrySpec {
    /// The content.
    pub is: Content,
    /// The permission bits in octal, if not the default.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mode: Option<String>,
    /// The owning user and group; root by default.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner: (u32, u32),
    /// The file's permitted capabilities as a hexadecimal mask; they are also effective.
    #[serde(default, skip_serializing_if = "is_default")]
    pub capabilities: Option<String>,
    /// The access list without the entries of the owner and of others: tag, bits and number (acl(5)).
    #[serde(default, skip_serializing_if = "is_default")]
    pub access_list: Vec<(u16, u16, u32)>,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// A folder.
    Dir,
    /// A symbolic link.
    Link(String),
    /// A hard link to a path of the same layer.
    Hardlink(String),
    /// The path is deleted from the layers below.
    Whiteout,
    /// The lower layers' content of this folder is hidden.
    Opaque,
    /// A text, or a script.
    Text(String),
    /// A compiled object.
    Object(ObjectSpec),
    /// An `ld.so.cache` of these sonames and paths.
    Cache(Vec<(String, String)>),
    /// A copy of a file of the lowest layer.
    Copy(String),
    /// The Python of the lowest layer, with a `DT_RPATH`.
    Python(String),
}

/// A compiled object into which names are written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectSpec {
    /// The kind of object.
    pub build: Build,
    /// The name that it opens or needs; a library's soname.
    pub name: String,
    /// `DT_RPATH`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rpath: Option<String>,
    /// `DT_RUNPATH`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub runpath: Option<String>,
    /// The damage, if any.
    #[serde(default, skip_serializing_if = "is_default")]
    pub damage: Option<Damage>,
}

/// The damage to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Damage {
    /// It is truncated after this many thousandths of its bytes.
    Cut(usize),
    /// It has no dynamic section.
    NoDynamic,
    /// It has another object type.
    Type(u16),
    /// It is for another processor.
    Machine(u16),
    /// It has another version in the identification.
    Version(u8),
    /// It has another ABI in the identification.
    Abi(u8),
}

/// The behaviour of an object; see `probe.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Build {
    /// A libcupti.
    #[default]
    Cupti,
    /// A libcupti with a megabyte of static TLS.
    CuptiStaticTls,
    /// A libcupti with about as much static TLS as a process has to spare.
    CuptiSomeTls,
    /// A libcupti that calls an undefined function, bound on loading.
    CuptiUnboundNow,
    /// Same, bound on the call, or on loading if dlopen asks for that.
    CuptiUnbound,
    /// A library that does nothing.
    Empty,
    /// A library that only needs another one.
    Needs,
    /// A program that links CUPTI.
    Link,
    /// A program that opens a name.
    Open,
    /// A program that composes a name from a pattern and the major version, and opens it.
    OpenPattern,
    /// A program that opens `libcupti.so.12`, but contains no such string.
    OpenImmediate,
    /// The same with `libcupti.so`.
    OpenBareImmediate,
    /// A program that opens a name in another link-map list.
    OpenNamespace,
    /// A static program that opens a name.
    OpenStatic,
    /// A position-independent static program that opens a name.
    OpenStaticPie,
    /// A library that links CUPTI.
    LibraryLinks,
    /// A library that opens a name.
    LibraryOpens,
    /// A program that needs one of these two libraries.
    UsesLibrary,
    /// A program that starts its arguments.
    Wrapper,
    /// A library that defines a function of its own.
    More,
    /// The same library with a variable.
    MoreData,
    /// A library with the address of an undefined variable.
    UnboundData,
    /// A program that links CUPTI and has a copy relocation for the variable.
    LinkData,
    /// A program that opens a name, and has the address of the variable.
    OpenData,
    /// A Python module that links CUPTI and calls an undefined function.
    ModuleUnbound,
    /// A program that links CUPTI and `libmore.so.1`, the library with a function.
    LinkMore,
    /// A program that opens a name, and links `libmore.so.1`.
    OpenMore,
    /// A program that links CUPTI, with the interpreter `/opt/loader/ld.so`.
    LinkForeign,
    /// A program that opens a name, with the same interpreter.
    OpenForeign,
    /// A Python module that links CUPTI and `libmore.so.1`.
    ModuleLinksMore,
    /// A Python module that links CUPTI.
    ModuleLinks,
    /// A Python module that links CUPTI and `libtorch_cpu.so`.
    ModuleLinksTorch,
    /// A Python module that opens a name.
    ModuleOpens,
    /// A Python module that needs a library that requests CUPTI.
    ModuleUsesLibrary,
}

/// The extras of an image beyond programs that link and open CUPTI by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// Nothing else.
    Plain,
    /// Whiteouts, opaque folders, links and hard links over several layers.
    Layers,
    /// An `ld.so.cache`: correct, stale, or for other files.
    Cache,
    /// `LD_PRELOAD`, or `/etc/ld.so.preload`.
    Preload,
    /// A library between the program and CUPTI.
    Through,
    /// A program with the setuid bit.
    Setuid,
    /// A program with the setgid bit.
    Setgid,
    /// A program with file capabilities.
    Capabilities,
    /// Modes of CUPTI's files.
    FileMode,
    /// Access lists of CUPTI's files and of their parent folders.
    AccessList,
    /// Modes of CUPTI's parent folders.
    FolderMode,
    /// Modes of programs.
    ProgramMode,
    /// A program opens an absolute path.
    AbsoluteName,
    /// A program opens a relative path.
    RelativeName,
    /// A program opens a path with `$ORIGIN`.
    OriginName,
    /// A program composes the name from a pattern.
    Pattern,
    /// Only the instructions contain the name.
    Immediate,
    /// A program opens a link with another name that leads to CUPTI.
    Alias,
    /// `env NAME=VALUE program` starts the program.
    EnvCommand,
    /// A shell script sets the environment and starts the program.
    Script,
    /// Another program changes the user before it starts the program: `setpriv`, or a program with the setuid or setgid
    /// bit.
    ChangedUser,
    /// A script with any mode starts the program.
    ScriptMode,
    /// The command goes to another working directory first.
    Directory,
    /// A script sets and unsets variables in a loop.
    Loop,
    /// A script reads another file or lists folders, or a login shell runs it.
    Sourced,
    /// A program opens CUPTI in another link-map list.
    Namespace,
    /// A static program opens CUPTI.
    Static,
    /// A position-independent static program opens CUPTI.
    StaticPie,
    /// A copy of CUPTI is damaged.
    Damage,
    /// A program needs another library, which may be missing.
    MissingLibrary,
    /// A program has an unusual interpreter, which may be missing.
    MissingInterpreter,
    /// The script that starts the program has an interpreter in its first line, which may be missing.
    ScriptInterpreter,
    /// A copy of CUPTI needs more static TLS than a process has to spare.
    StaticTls,
    /// A copy of CUPTI needs an undefined function.
    Unbound,
    /// A program, a library or a preloaded library needs an undefined function or variable.
    UnboundProgram,
    /// The command is a file that the kernel does not execute, or a loader.
    CommandKind,
    /// Python packages of the system.
    PythonSystem,
    /// Python packages of a virtual environment.
    PythonVenv,
    /// Python packages of a user.
    PythonUser,
    /// Python packages of `pip install --target` on `PYTHONPATH`.
    PythonTarget,
    /// Python packages in a folder that a `.pth` file names.
    PythonPth,
    /// Python packages of a prefix with its own interpreter.
    PythonPrefix,
    /// A Python package that maps CUPTI before the import of its module, or asks cuda.pathfinder for it.
    PythonPreload,
    /// PyTorch of several releases, and a Python module whose CUPTI PyTorch already mapped.
    PythonAfter,
    /// A Python module needs another library, which may be missing.
    PythonMissing,
    /// A Python module's package imports modules that may be missing, or opens libraries; or the module is incomplete.
    PythonImport,
}

impl fmt::Display for ImageSpec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string_pretty(self).map_err(|_| fmt::Error)?;
        writeln!(out, "{text}")
    }
}

impl Feature {
    /// The name in file names and counts.
    pub fn name(self) -> String {
        let value = serde_json::to_value(self).unwrap();
        value.as_str().unwrap().to_owned()
    }
}

impl EntrySpec {
    /// An entry with the default mode and owner.
    pub fn of(is: Content) -> Self {
        Self {
            is,
            mode: None,
            owner: (0, 0),
            capabilities: None,
            access_list: Vec::new(),
        }
    }

    /// The permission bits.
    pub fn permissions(&self) -> u32 {
        let usual = match &self.is {
            Content::Dir | Content::Object(_) | Content::Copy(_) | Content::Python(_) => 0o755,
            Content::Text(text) if text.starts_with("#!") => 0o755,
            Content::Link(_) => 0o777,
            _ => 0o644,
        };
        let said = self.mode.as_ref().map(|mode| u32::from_str_radix(mode, 8).unwrap());
        said.unwrap_or(usual)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
