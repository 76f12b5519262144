//! The objects of a process (`struct link_map`), and what it runs in.

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

/// What a process runs in.
pub struct ProcessSetup<'a> {
    /// The layers of the image on top of each other.
    pub rootfs: &'a Rootfs,
    /// The loader that the kernel starts for its program.
    pub linker: &'a DynamicLoader,
    /// What its environment says to the loader.
    pub environment: &'a LoaderEnvironment,
    /// The user that starts its program.
    pub user: &'a FileCredentials,
    /// The level of the processor that it runs on.
    pub cpu: CpuLevel,
    /// Whether a library of this name comes from the driver on the host.
    pub from_driver: &'a dyn Fn(&[u8]) -> bool,
}

/// The part of the environment that the loader looks at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoaderEnvironment {
    /// `LD_LIBRARY_PATH` as it is set, tokens and all.
    pub library_path: Option<ByteString>,
    /// `LD_PRELOAD` as it is set.
    pub preload: Option<ByteString>,
    /// Whether `LD_BIND_NOW` is set and not empty: functions are bound before they are called.
    pub binds_now: bool,
    /// `GLIBC_TUNABLES` as it is set.
    pub tunables: Option<ByteString>,
    /// The working directory, absolute; empty means `/`.
    pub working_dir: ByteString,
}

/// Who puts a system error into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadPhase {
    /// The loader alone, which knows the words of few errors.
    Start,
    /// The same, for what is preloaded: of that a secure execution trusts less (`__RTLD_SECURE`).
    Preload,
    /// The C library, in dlopen.
    Open,
}

/// One mapped object (`struct link_map`).
#[derive(Clone)]
pub(super) struct LinkMap {
    pub path: ByteString,
    pub real_path: RootPath,
    pub facts: Arc<FileFacts>,
    /// The names it answers to, besides its soname.
    pub names: Vec<ByteString>,
    /// The object whose search paths count for what this one needs; none for what was opened by dlopen.
    pub requester: Option<usize>,
    /// The first on the way up, itself counted, that has a search path of its own.
    pub path_owner: Option<usize>,
    /// The directory that `$ORIGIN` names.
    pub origin: ByteString,
    /// Its place in the report.
    pub object: Option<LoadedObject>,
    pub needs: Vec<(ByteString, Option<usize>)>,
    /// The namespace that it is mapped in; the loader itself is in all of them.
    namespace: Option<usize>,
}

impl LinkMap {
    pub(crate) fn elf(&self) -> &ElfFacts {
        // The loader of an image may be a file that is no object; it has an empty table then.
        static NONE: std::sync::LazyLock<ElfFacts> = std::sync::LazyLock::new(ElfFacts::default);
        self.facts.elf.as_deref().unwrap_or(&NONE)
    }

    /// Whether this is the object that was started.
    pub(crate) fn is_main(&self) -> bool {
        self.object
            .as_ref()
            .is_some_and(|object| object.how == SearchStage::Start)
    }

    /// Whether both are in one namespace.
    pub(crate) fn shares_namespace(&self, other: &Self) -> bool {
        let both = self.namespace.zip(other.namespace);
        both.is_none_or(|(one, other)| one == other)
    }
}

/// Directories with the part of the search they are for, in the order of the search.
pub(super) type SearchLists = Vec<(SearchStage, Vec<ByteString>)>;

/// What a search found.
pub(super) struct SearchHit {
    pub path: ByteString,
    pub opened: OpenedObject,
    pub how: SearchStage,
}

/// Why a search found nothing.
pub(super) struct SearchMiss {
    pub outcome: RequestOutcome,
    pub message: String,
}

/// The maps of a process, by number in the order in which they were mapped.
#[derive(Clone)]
pub(super) struct LinkMaps<'a> {
    pub setup: &'a ProcessSetup<'a>,
    /// Who it is; the user that starts it as long as it has no program.
    pub identity: ProcessIdentity,
    maps: Vec<LinkMap>,
    /// The maps that answer to a name, in their order.
    by_name: BTreeMap<ByteString, Vec<usize>>,
    /// The namespace in which is looked and mapped (dlmopen(3)); the program's is 0.
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

    /// Goes to a namespace that nothing but the loader is in.
    pub(crate) fn enter_new_namespace(&mut self) {
        self.namespaces += 1;
        self.namespace = self.namespaces;
    }

    /// Goes back to the program's namespace.
    pub(crate) fn leave_namespace(&mut self) {
        self.namespace = 0;
    }

    /// Whether what is asked for now can be answered by this map.
    pub(crate) fn reaches(&self, map: &LinkMap) -> bool {
        map.namespace.is_none_or(|namespace| namespace == self.namespace)
    }

    /// Where a path leads to which the process reads.
    pub(crate) fn open(&self, path: &[u8]) -> Result<ResolvedPath, LookupError> {
        self.setup.rootfs.open_as(path, &self.identity.effective, FileUse::Read)
    }

    pub(crate) fn get(&self, number: usize) -> Option<&LinkMap> {
        self.maps.get(number)
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut LinkMap> {
        self.maps.get_mut(number)
    }

    /// The maps that have a search path, from `requester` up by who loaded whom. The others are passed over at once: of
    /// thousands that load each other the way up would be walked for each.
    pub(crate) fn path_owners(&self, requester: Option<usize>) -> impl Iterator<Item = usize> {
        let owner = |number: usize| self.get(number)?.path_owner;
        let above = move |number: &usize| owner(self.get(*number)?.requester?);
        std::iter::successors(requester.and_then(owner), above)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LinkMap> {
        self.maps.iter()
    }

    /// How many objects are mapped; the next one has this number.
    pub(crate) fn count(&self) -> usize {
        self.maps.len()
    }

    /// Maps an object behind the others.
    pub(crate) fn push(&mut self, hit: SearchHit, requester: Option<usize>) -> usize {
        // `$ORIGIN` comes from the path as it was opened, links and all (elf/dl-object.c, `_dl_new_object`).
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
        // What led to an object once is its name from then on, and so is its soname (`_dl_name_match_p`).
        let map = self.maps.get(number);
        let names = map.map(|map| [Some(map.path.clone()), map.elf().soname.clone()]);
        for name in names.into_iter().flatten().flatten() {
            self.by_name.entry(name).or_default().push(number);
        }
        number
    }

    /// Gives a map one more name.
    pub(crate) fn add_name(&mut self, number: usize, name: ByteString) {
        if let Some(map) = self.maps.get_mut(number) {
            map.names.push(name.clone());
            let named = self.by_name.entry(name).or_default();
            let at = named.partition_point(|&other| other < number);
            named.insert(at, number);
        }
    }

    /// The maps that answer to a name, in their order.
    pub(crate) fn answering(&self, name: &[u8]) -> impl Iterator<Item = usize> {
        self.by_name.get(name).into_iter().flatten().copied()
    }

    /// The executable's map: the first but the loader's own. A process that only opens has none.
    pub(crate) fn main(&self) -> Option<usize> {
        self.position(LinkMap::is_main)
    }

    pub(crate) fn position(&self, is_one: impl FnMut(&LinkMap) -> bool) -> Option<usize> {
        self.maps.iter().position(is_one)
    }

    /// The map of the same file, among those that `counts` lets through.
    pub(crate) fn position_of(&self, opened: &OpenedObject, counts: impl Fn(&LinkMap) -> bool) -> Option<usize> {
        // One allocation is one inode, whatever links lead to it.
        self.position(|map| Arc::ptr_eq(&map.facts, &opened.facts) && self.reaches(map) && counts(map))
    }

    /// `path` from the root, for a path relative to the working directory.
    pub(crate) fn absolute(&self, path: &[u8]) -> Vec<u8> {
        // The empty path names nothing (path_resolution(7)).
        if path.starts_with(b"/") || path.is_empty() {
            path.to_vec()
        } else {
            let directory = &self.setup.environment.working_dir;
            let directory = directory.strip_suffix(b"/").unwrap_or(directory);
            [directory, b"/", path].concat()
        }
    }

    /// The directories below which `$ORIGIN` may lead, where the loader restricts it.
    fn trusted<'m>(&'m self, map: &LinkMap) -> OriginTrust<'m> {
        match self.identity.secure {
            None => OriginTrust::All,
            // Who executes a program can give it another path, by a link; nobody can do so with a library.
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

/// The directory of a path, without the final `/` but for the root.
pub(super) fn directory_of(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(0) => b"/",
        Some(at) => path.get(..at).unwrap_or_default(),
        None => b"",
    }
}

/// The directory with exactly one `/` at its end; the empty one stays empty.
pub(super) fn with_slash(directory: &[u8]) -> ByteString {
    if directory.is_empty() {
        return ByteString::default();
    }
    // `fillin_rpath` takes all slashes at the end away and puts one there; of the root one is left.
    let length = directory
        .iter()
        .rposition(|&byte| byte != b'/')
        .map_or(0, |last| last + 1);
    [directory.get(..length).unwrap_or_default(), b"/"].concat().into()
}

/// The names in a list, without empty ones.
pub(super) fn split_names(list: &[u8], separators: &[u8]) -> Vec<ByteString> {
    let names = list.split(|byte| separators.contains(byte));
    names.filter(|name| !name.is_empty()).map(ByteString::from).collect()
}
