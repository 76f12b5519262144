//! An image as readable data: what its layers hold, how its config starts it, and the processes that are run in it.
//! Generated images and those that are kept in `testdata/processes/` have the same form.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// An image and the processes that ask for CUPTI in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImageSpec {
    /// The question, in words.
    #[serde(skip_serializing_if = "is_default")]
    pub about: String,
    /// The seed that it comes from.
    #[serde(skip_serializing_if = "is_default")]
    pub seed: u64,
    /// What it was made with; by these disagreements are counted.
    pub features: Vec<Feature>,
    /// Whether the lowest layer holds a Python.
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
    /// The layers above the base, lowest first: what lies at each absolute path.
    pub layers: Vec<IndexMap<String, EntrySpec>>,
    /// The processes. The first is the one that the config starts.
    pub processes: Vec<ProcessSpec>,
}

/// A process, and the object in it that asks for CUPTI.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessSpec {
    /// The path of the object that asks.
    pub object: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The working directory in the end, where the command goes to another.
    #[serde(default, skip_serializing_if = "is_default")]
    pub directory: Option<String>,
}

/// What lies at a path of a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntrySpec {
    /// What it is.
    pub is: Content,
    /// The permission bits in octal, where they are not the usual ones.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mode: Option<String>,
    /// The user and the group that own it; root's where it is not said.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner: (u32, u32),
    /// The permitted capabilities of the file, as a mask in hexadecimal; they are effective too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub capabilities: Option<String>,
    /// The entries of its access list beside those of the owner and the others: tag, bits and number (acl(5)).
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
    /// What the layers below have in this folder is hidden.
    Opaque,
    /// A text, or a script.
    Text(String),
    /// A compiled object.
    Object(ObjectSpec),
    /// An `ld.so.cache` of these sonames and paths.
    Cache(Vec<(String, String)>),
    /// A copy of a file of the lowest layer.
    Copy(String),
    /// The Python of the lowest layer with a `DT_RPATH`.
    Python(String),
}

/// An object that the compiler made, with names of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectSpec {
    /// What is compiled.
    pub build: Build,
    /// What it opens or needs; of a library its soname.
    pub name: String,
    /// `DT_RPATH`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rpath: Option<String>,
    /// `DT_RUNPATH`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub runpath: Option<String>,
    /// What is wrong with it, if anything.
    #[serde(default, skip_serializing_if = "is_default")]
    pub damage: Option<Damage>,
}

/// What is wrong with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Damage {
    /// It ends after this many of a thousand bytes.
    Cut(usize),
    /// There is no dynamic section.
    NoDynamic,
    /// The type of the object.
    Type(u16),
    /// The processor.
    Machine(u16),
    /// The version in the identification.
    Version(u8),
    /// The ABI in the identification.
    Abi(u8),
}

/// What an object does; see `probe.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Build {
    /// A libcupti.
    #[default]
    Cupti,
    /// A libcupti with a megabyte of storage at a fixed place in every thread.
    CuptiStaticTls,
    /// A libcupti with about as much of it as a process has to spare.
    CuptiSomeTls,
    /// A libcupti that calls a function that is nowhere, bound when it is mapped.
    CuptiUnboundNow,
    /// The same, bound when it is called, or when who opens it says so.
    CuptiUnbound,
    /// A library that does nothing.
    Empty,
    /// A program that links CUPTI.
    Link,
    /// A program that opens a name.
    Open,
    /// A program that puts the major version into a name and opens it.
    OpenPattern,
    /// A program that opens `libcupti.so.12`, which no string of it says.
    OpenImmediate,
    /// The same with `libcupti.so`.
    OpenBareImmediate,
    /// A program that opens a name in another link-map list.
    OpenNamespace,
    /// A static program that opens a name.
    OpenStatic,
    /// A static program that can lie anywhere, and opens a name.
    OpenStaticPie,
    /// A library that links CUPTI.
    LibraryLinks,
    /// A library that opens a name.
    LibraryOpens,
    /// A program that needs such a library.
    UsesLibrary,
    /// A program that starts its arguments.
    Wrapper,
    /// A library that defines a function of its own.
    More,
    /// The same library with a variable.
    MoreData,
    /// A library that holds the address of what is nowhere.
    UnboundData,
    /// A program that links CUPTI and copies the variable.
    LinkData,
    /// A program that opens a name, and holds the address of the variable.
    OpenData,
    /// A Python module that links CUPTI and calls a function that is nowhere.
    ModuleUnbound,
    /// A program that links CUPTI and that library as `libmore.so.1`.
    LinkMore,
    /// A program that opens a name, and links that library.
    OpenMore,
    /// A program that links CUPTI, and whose interpreter is `/opt/loader/ld.so`.
    LinkForeign,
    /// A program that opens a name, and whose interpreter is that.
    OpenForeign,
    /// A Python module that links CUPTI and `libmore.so.1`.
    ModuleLinksMore,
    /// A Python module that links CUPTI.
    ModuleLinks,
    /// A Python module that opens a name.
    ModuleOpens,
    /// A Python module that needs a library which gets CUPTI.
    ModuleUsesLibrary,
}

/// What an image is made with beyond programs that link and open CUPTI by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// Nothing beyond that.
    Plain,
    /// Whiteouts, opaque folders, links and hard links over several layers.
    Layers,
    /// An `ld.so.cache`, right, stale or of other files.
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
    /// Modes of the files of CUPTI.
    FileMode,
    /// Access lists of the files of CUPTI, and of the folders above them.
    AccessList,
    /// Modes of the folders above CUPTI.
    FolderMode,
    /// Modes of programs.
    ProgramMode,
    /// A name with an absolute path is opened.
    AbsoluteName,
    /// A name with a relative path is opened.
    RelativeName,
    /// A name with `$ORIGIN` is opened.
    OriginName,
    /// A name is made of a pattern.
    Pattern,
    /// A name is held in instructions alone.
    Immediate,
    /// A link of another name leads to CUPTI, and is opened.
    Alias,
    /// `env NAME=VALUE program` starts the program.
    EnvCommand,
    /// A shell script sets the environment and starts the program.
    Script,
    /// What starts the program is another user in part: `setpriv`, or a program with the setuid or setgid bit.
    ChangedUser,
    /// A script of any mode starts the program.
    ScriptMode,
    /// The command goes to another working directory first.
    Directory,
    /// A script sets and unsets variables in a loop.
    Loop,
    /// A script reads another file, or the names of folders, or is one of a login shell.
    Sourced,
    /// A program opens CUPTI in another link-map list.
    Namespace,
    /// A static program opens CUPTI.
    Static,
    /// A static program that can lie anywhere opens CUPTI.
    StaticPie,
    /// A copy of CUPTI is damaged.
    Damage,
    /// A program needs another library, which is there or not.
    MissingLibrary,
    /// A program names an interpreter of its own, which is there or not.
    MissingInterpreter,
    /// The first line of the script that starts the program names an interpreter, which is there or not.
    ScriptInterpreter,
    /// A copy of CUPTI wants more storage in every thread than a process has to spare.
    StaticTls,
    /// A copy of CUPTI needs a function that nothing has.
    Unbound,
    /// A program imports what nothing defines: a function or a variable, by itself, in a library or a preloaded one.
    UnboundProgram,
    /// The command names what the kernel does not execute, or a loader.
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
    /// Python packages of a prefix with an interpreter of its own.
    PythonPrefix,
    /// A Python package that maps CUPTI before its module is imported.
    PythonPreload,
    /// A Python module whose CUPTI another module has mapped.
    PythonAfter,
    /// A Python module needs another library, which is there or not.
    PythonMissing,
    /// The package of a Python module imports others, which are there or not, or opens libraries; or the module is not whole.
    PythonImport,
}

impl fmt::Display for ImageSpec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string_pretty(self).map_err(|_| fmt::Error)?;
        writeln!(out, "{text}")
    }
}

impl Feature {
    /// The name in files and counts.
    pub fn name(self) -> String {
        let value = serde_json::to_value(self).unwrap();
        value.as_str().unwrap().to_owned()
    }
}

impl EntrySpec {
    /// An entry with the usual mode and owner.
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
