//! The objects of a process (`struct link_map`) and its setup.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::dynamic_loader::DynamicLoader;
use super::dynamic_tokens::{DynamicTokens, OriginTrust};
use super::machine::CpuLevel;
use super::object_check::OpenedObject;
use super::process_identity::ProcessIdentity;
use super::resolution::{LoadedObject, RequestOutcome};
use super::trace::SearchStage;
use crate::elf::{ByteString, ElfFacts};
use crate::layer::FileFacts;
use crate::path::RootPath;
use crate::rootfs::{FileCredentials, FileUse, LookupError, ResolvedPath, Rootfs};

/// The environment of a process.
pub struct ProcessSetup<'a> {
    /// The merged file system.
    pub rootfs: &'a Rootfs,
    /// The loader that the kernel starts.
    pub linker: &'a DynamicLoader,
    /// The loader's environment variables.
    pub environment: &'a LoaderEnvironment,
    /// The user that starts the program.
    pub user: &'a FileCredentials,
    /// The processor's ISA level.
    pub cpu: CpuLevel,
    /// Whether the host's driver provides a library of this name.
    pub from_driver: &'a dyn Fn(&[u8]) -> bool,
}

/// The environment variables that the loader reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoaderEnvironment {
    /// The raw `LD_LIBRARY_PATH`, tokens unexpanded.
    pub library_path: Option<ByteString>,
    /// The raw `LD_PRELOAD`.
    pub preload: Option<ByteString>,
    /// Whether `LD_BIND_NOW` is set and not empty, so that functions are bound at load time.
    pub binds_now: bool,
    /// The raw `GLIBC_TUNABLES`.
    pub tunables: Option<ByteString>,
    /// The absolute working directory; empty means `/`.
    pub working_dir: ByteString,
}

/// The phase of the process. It decides the wording of system errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadPhase {
    /// Startup: only the loader runs, which has texts for few errors.
    Start,
    /// Preloading, where secure-execution mode is stricter (`__RTLD_SECURE`).
    Preload,
    /// dlopen, with the texts of the C library.
    Open,
}

/// One mapped object (`struct link_map`).
#[derive(Clone)]
pub(super) struct LinkMap {
    pub path: ByteString,
    pub real_path: RootPath,
    pub facts: Arc<FileFacts>,
    /// The names it answers to, in addition to its soname.
    pub names: Vec<ByteString>,
    /// The object whose search paths apply to its dependencies; `None` if dlopen opened it.
    pub requester: Option<usize>,
    /// The first object on the way up, including itself, that has its own search path.
    pub path_owner: Option<usize>,
    /// The value of `$ORIGIN`.
    pub origin: ByteString,
    /// Its entry in the report.
    pub object: Option<LoadedObject>,
    pub needs: Vec<(ByteString, Option<usize>)>,
    /// Its namespace; `None` for the loader, which is in all of them.
    namespace: Option<usize>,
}

impl LinkMap {
    pub(crate) fn elf(&self) -> &ElfFacts {
        // The image's loader may be a file that is not an object; use an empty table then.
        static NONE: std::sync::LazyLock<ElfFacts> = std::sync::LazyLock::new(ElfFacts::default);
        self.facts.elf.as_deref().unwrap_or(&NONE)
    }

    /// Whether it is the started program.
    pub(crate) fn is_main(&self) -> bool {
        self.object
            .as_ref()
            .is_some_and(|object| object.how == SearchStage::Start)
    }

    /// Whether both are in the same namespace.
    pub(crate) fn shares_namespace(&self, other: &Self) -> bool {
        let both = self.namespace.zip(other.namespace);
        both.is_none_or(|(one, other)| one == other)
    }
}

/// Lists of directories with their search stage, in search order.
pub(super) type SearchLists = Vec<(SearchStage, Vec<ByteString>)>;

/// The result of a successful search.
pub(super) struct SearchHit {
    pub path: ByteString,
    pub opened: OpenedObject,
    pub how: SearchStage,
}

/// The reason for a failed search.
pub(super) struct SearchMiss {
    pub outcome: RequestOutcome,
    pub message: String,
}

/// The objects of a process, numbered in the order of mapping.
#[derive(Clone)]
pub(super) struct LinkMaps<'a> {
    pub setup: &'a ProcessSetup<'a>,
    /// The identity of the process; the starting user until a program is executed.
    pub identity: ProcessIdentity,
    maps: Vec<LinkMap>,
    /// Object numbers by name, in order.
    by_name: BTreeMap<ByteString, Vec<usize>>,
    /// The current namespace (dlmopen(3)). The program's is 0.
    namespace: usize,
    namespaces: usize,
}

impl<'a> LinkMaps<'a> {
    pub(crate) fn new(setup: &'a ProcessSetup<'a>) -> Self {
        Self {
            setup,
            identity: ProcessIdentity {
                effective: setup.user.clone(),
                secure: None,
            },
            maps: Vec::new(),
            by_name: BTreeMap::new(),
            namespace: 0,
            namespaces: 0,
        }
    }

    /// Enters a new namespace that contains only the loader.
    pub(crate) fn enter_new_namespace(&mut self) {
        self.namespaces += 1;
        self.namespace = self.namespaces;
    }

    /// Returns to the program's namespace.
    pub(crate) fn leave_namespace(&mut self) {
        self.namespace = 0;
    }

    /// Whether the object is visible in the current namespace.
    pub(crate) fn reaches(&self, map: &LinkMap) -> bool {
        map.namespace.is_none_or(|namespace| namespace == self.namespace)
    }

    /// Resolves a path that the process reads.
    pub(crate) fn open(&self, path: &[u8]) -> Result<ResolvedPath, LookupError> {
        self.setup.rootfs.open_as(path, &self.identity.effective, FileUse::Read)
    }

    pub(crate) fn get(&self, number: usize) -> Option<&LinkMap> {
        self.maps.get(number)
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut LinkMap> {
        self.maps.get_mut(number)
    }

    /// The objects with a search path, from `requester` up along the loading chain. `path_owner` skips the others:
    /// otherwise thousands of objects would each walk the whole chain.
    pub(crate) fn path_owners(&self, requester: Option<usize>) -> impl Iterator<Item = usize> {
        std::iter::successors(self.path_owner(requester), |&number| {
            self.path_owner(self.get(number)?.requester)
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LinkMap> {
        self.maps.iter()
    }

    /// The number of mapped objects, which is the next object's number.
    pub(crate) fn count(&self) -> usize {
        self.maps.len()
    }

    /// Maps an object.
    pub(crate) fn push(&mut self, hit: SearchHit, requester: Option<usize>) -> usize {
        // `$ORIGIN` is derived from the path as opened, with links (elf/dl-object.c, `_dl_new_object`).
        let absolute = self.absolute(&hit.path);
        let number = self.maps.len();
        let elf = hit.opened.facts.elf.as_deref();
        let has_path = elf.is_some_and(|elf| elf.rpath.is_some() || elf.runpath.is_some());
        let above = requester.and_then(|above| self.get(above)?.path_owner);
        self.maps.push(LinkMap {
            origin: directory_of(&absolute).into(),
            path: hit.path,
            real_path: hit.opened.real_path,
            facts: hit.opened.facts,
            names: Vec::new(),
            requester,
            path_owner: has_path.then_some(number).or(above),
            object: None,
            needs: Vec::new(),
            namespace: (hit.how != SearchStage::Interpreter).then_some(self.namespace),
        });
        // An object answers to its path and its soname from then on (`_dl_name_match_p`).
        let map = self.maps.get(number);
        let names = map.map(|map| [Some(map.path.clone()), map.elf().soname.clone()]);
        for name in names.into_iter().flatten().flatten() {
            self.by_name.entry(name).or_default().push(number);
        }
        number
    }

    /// Adds a name to an object.
    pub(crate) fn add_name(&mut self, number: usize, name: ByteString) {
        if let Some(map) = self.maps.get_mut(number) {
            map.names.push(name.clone());
            let named = self.by_name.entry(name).or_default();
            let at = named.partition_point(|&other| other < number);
            named.insert(at, number);
        }
    }

    /// The objects that answer to a name, in order.
    pub(crate) fn answering(&self, name: &[u8]) -> impl Iterator<Item = usize> {
        self.by_name.get(name).into_iter().flatten().copied()
    }

    /// The executable, which is the first object besides the loader. `None` if the process has no program.
    pub(crate) fn main(&self) -> Option<usize> {
        self.position(LinkMap::is_main)
    }

    pub(crate) fn position(&self, is_one: impl FnMut(&LinkMap) -> bool) -> Option<usize> {
        self.maps.iter().position(is_one)
    }

    /// The object mapped from the same file, among those accepted by `counts`.
    pub(crate) fn position_of(&self, opened: &OpenedObject, counts: impl Fn(&LinkMap) -> bool) -> Option<usize> {
        // The same allocation means the same inode, whatever links lead to it.
        self.position(|map| Arc::ptr_eq(&map.facts, &opened.facts) && self.reaches(map) && counts(map))
    }

    fn path_owner(&self, number: Option<usize>) -> Option<usize> {
        self.get(number?)?.path_owner
    }

    /// Makes `path` absolute, starting at the working directory.
    pub(crate) fn absolute(&self, path: &[u8]) -> Vec<u8> {
        // The empty path is invalid (path_resolution(7)).
        if path.starts_with(b"/") || path.is_empty() {
            path.to_vec()
        } else {
            let folder = &self.setup.environment.working_dir;
            [folder.strip_suffix(b"/").unwrap_or(folder), b"/", path].concat()
        }
    }

    /// The places at which `$ORIGIN` is allowed for an object.
    fn trusted<'m>(&'m self, map: &LinkMap) -> OriginTrust<'m> {
        match self.identity.secure {
            None => OriginTrust::All,
            // A user can run a program through a link of their own, but cannot do so with a library.
            Some(_) if map.is_main() => OriginTrust::Below(&self.setup.linker.default_dirs),
            Some(_) => OriginTrust::AtStart,
        }
    }

    pub(crate) fn tokens<'m>(&'m self, map: &'m LinkMap) -> DynamicTokens<'m> {
        let linker = self.setup.linker;
        DynamicTokens {
            origin: Some(&map.origin),
            lib: &linker.lib,
            platform: &linker.platform,
            trusted: self.trusted(map),
        }
    }
}

/// The directory of a path, without a trailing `/` except for the root.
pub(super) fn directory_of(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(0) => b"/",
        Some(at) => path.get(..at).unwrap_or_default(),
        None => b"",
    }
}

/// The directory with exactly one trailing `/`. The empty one stays empty.
pub(super) fn with_slash(directory: &[u8]) -> ByteString {
    if directory.is_empty() {
        return ByteString::default();
    }
    // `fillin_rpath` strips all trailing slashes and appends one.
    let length = directory
        .iter()
        .rposition(|&byte| byte != b'/')
        .map_or(0, |last| last + 1);
    [directory.get(..length).unwrap_or_default(), b"/"].concat().into()
}

/// The non-empty names in a list.
pub(super) fn split_names(list: &[u8], separators: &[u8]) -> Vec<ByteString> {
    let names = list.split(|byte| separators.contains(byte));
    names.filter(|name| !name.is_empty()).map(ByteString::from).collect()
}
