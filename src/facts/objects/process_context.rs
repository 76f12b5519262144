//! The initial state of a process in one world: file system, loader, environment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use crate::byte_search::{contains_bytes, last_part};
use crate::facts::objects::command_entry::{CommandEntry, CommandReading, CommandStart, read_command};
use crate::facts::objects::credentials::{ImageUser, find_image_user};
use crate::facts::objects::interpreter::{InterpreterFault, is_only_program};
use crate::facts::objects::other_loaders::{OtherLoaders, find_named_loader};
use crate::facts::objects::resolved_objects::{elf_at, opened_object, unresolved_objects};
use crate::facts::objects::world::{ByWorld, World};
use crate::knowledge::KnowledgeTables;
use crate::knowledge::host::provides_library;
use image_linkage::elf::{ByteString, ElfFacts};
use image_linkage::layer::FileFacts;
use image_linkage::limits::Limits;
use image_linkage::loader::LinkChanges;
use image_linkage::loader::{
    Arch, CpuLevel, DynamicLoader, LoadResolution, LoaderBudget, LoaderEnvironment, ProcessSetup, RequestOutcome,
    SYSTEM_CACHE, SearchStage, SimulatedProcess, StartMode, UnresolvedRequest, run_ldconfig,
};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{FileUse, LookupError, NodeKind, Rootfs};
use image_source::{Image, ImageConfig};
use python_path::{PythonEnvironment, PythonSettings, SettingSources};

/// Settings of the loader beyond the image's own.
#[derive(Debug, Clone)]
pub struct GatherOptions {
    /// `KEY=VALUE` pairs that override the environment in the image config.
    pub environment: Vec<(String, String)>,
    /// The processor level, which selects the glibc-hwcaps directories.
    pub cpu: CpuLevel,
    /// The limits on simulated loads.
    pub limits: Limits,
    /// Overrides for the container's start.
    pub start: StartOverrides,
}

/// Options of an engine that override the image config.
#[derive(Debug, Clone, Default)]
pub struct StartOverrides {
    /// Replaces Entrypoint and Cmd.
    pub command: Option<Vec<String>>,
    /// Replaces Cmd.
    pub arguments: Option<Vec<String>>,
    /// The user, as in `docker run --user`.
    pub user: Option<String>,
    /// The working directory.
    pub working_dir: Option<String>,
}

impl StartOverrides {
    /// Applies the overrides to an image config.
    pub(crate) fn apply(&self, config: &mut ImageConfig) {
        if self.command.is_some() || self.arguments.is_some() {
            let entrypoint = self.command.as_ref().unwrap_or(&config.settings.entrypoint);
            let arguments = self.arguments.iter().flatten();
            config.command = entrypoint.iter().chain(arguments).cloned().collect();
        }
        config.user = self.user.clone().or(config.user.take());
        config.working_dir = self.working_dir.clone().or(config.working_dir.take());
    }
}

/// The number of loader steps added for a single requested start.
const STARTED_STEPS: u64 = 2_000_000;

/// The initial state of a process in this image.
#[derive(Debug, Clone)]
pub struct ProcessContext {
    /// The world in which the process starts.
    pub world: World,
    /// The merged file system, with the links from `ldconfig`.
    pub rootfs: Arc<Rootfs>,
    /// The loader for the image's processor; `None` if the image has none.
    pub linker: Option<DynamicLoader>,
    /// The remaining budget for all loaders, shared by both worlds.
    pub budget: Arc<LoaderBudget>,
    /// The links that a simulated `ldconfig` created and removed; none in the image as it is.
    pub relinked: LinkChanges,
    /// The environment as the loader reads it.
    pub environment: LoaderEnvironment,
    /// The process of the container's command.
    pub entry: CommandEntry,
    /// All processes that the command may start.
    pub commands: Arc<CommandReading>,
    /// The user in the image config.
    image_user: ImageUser,
    /// The working directory in the image config.
    config_directory: ByteString,
    /// The loader with the image's own cache, if the command runs ldconfig.
    own_cache: Option<DynamicLoader>,
    /// The user of the processes.
    pub(crate) user: ImageUser,
    /// The processor level, which selects the glibc-hwcaps directories.
    pub cpu: CpuLevel,
    /// `NVIDIA_DRIVER_CAPABILITIES`; `None` if unset.
    pub capabilities: Option<String>,
    /// The tables of known facts, such as the container runtime's libraries.
    pub tables: &'static KnowledgeTables,
    /// The Python environments in the image, set once its files are known.
    pub(crate) python: Arc<PythonEnvironment>,
    /// The names of shared libraries in the image, collected on first use.
    library_names: Arc<OnceLock<BTreeSet<ByteString>>>,
    /// The loaders that programs name instead of this one.
    other_loaders: Arc<OtherLoaders>,
}

/// The processor of an image, as `uname -m` shows it in a container.
pub fn kernel_machine(image: &Image) -> &str {
    match image.platform.architecture.as_str() {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    }
}

/// Sets up the image in both worlds.
pub fn build_contexts(
    image: &Image,
    rootfs: &Arc<Rootfs>,
    tables: &'static KnowledgeTables,
    conditions: &GatherOptions,
) -> ByWorld<ProcessContext> {
    let arch = Arch::of_platform(&image.platform.architecture);
    let capabilities = variable(image, conditions, "NVIDIA_DRIVER_CAPABILITIES");
    let environment = container_environment(image, conditions);
    let image_user = match &image.config.running {
        // A running process has known credentials.
        Some(credentials) => ImageUser::of_credentials(credentials.clone()),
        None => find_image_user(image.config.user.as_deref().unwrap_or_default(), rootfs),
    };
    let start = CommandStart {
        config: &image.config,
        environment: &environment,
        given: &conditions.environment,
        machine: kernel_machine(image),
        credentials: &image_user.credentials,
    };
    let commands = read_command(rootfs, tables, &start);
    let entry = commands.entries.first().cloned().unwrap_or_default();
    let found = arch.and_then(|arch| {
        DynamicLoader::find_default(rootfs, arch, conditions.cpu)
            .or_else(|| find_named_loader(rootfs, arch, conditions.cpu, entry.executable.as_ref()))
    });
    let budget = Arc::new(LoaderBudget::new(&conditions.limits));
    let linker = found.map(|linker| DynamicLoader {
        budget: Arc::clone(&budget),
        ..linker
    });
    let mut as_is = ProcessContext {
        world: World::AsIs,
        rootfs: Arc::clone(rootfs),
        linker,
        budget,
        relinked: LinkChanges::default(),
        environment: LoaderEnvironment::default(),
        user: image_user.clone(),
        entry: CommandEntry::default(),
        commands: Arc::new(commands),
        image_user,
        config_directory: image.config.working_dir.as_deref().unwrap_or("/").as_bytes().into(),
        own_cache: None,
        cpu: conditions.cpu,
        capabilities: capabilities.map(str::to_owned),
        tables,
        python: Arc::default(),
        library_names: Arc::default(),
        other_loaders: Arc::default(),
    }
    .with_entry(&entry);
    if as_is.commands.start.ldconfig.is_some() {
        as_is = ProcessContext {
            own_cache: as_is.linker.clone(),
            ..with_new_cache(&as_is, image.layers.len())
        };
    }
    if image.config.running.is_some() {
        // In a running container the runtime has already injected its files, or never will.
        let nvidia = as_is.clone();
        return ByWorld { as_is, nvidia };
    }
    let nvidia = ProcessContext {
        world: World::Nvidia,
        ..with_new_cache(&as_is, image.layers.len())
    };
    ByWorld { as_is, nvidia }
}

/// The same image after `ldconfig`. The links that it creates belong to the layer with the index `layers`.
fn with_new_cache(as_is: &ProcessContext, layers: usize) -> ProcessContext {
    let mut context = as_is.clone();
    context.other_loaders = Arc::default();
    if let Some(linker) = &mut context.linker {
        let made = run_ldconfig(&as_is.rootfs, linker, Vec::new());
        if made.relinked != LinkChanges::default() {
            // Without new links, both worlds share the file system in memory.
            context.rootfs = Arc::new(made.apply(&as_is.rootfs, layers));
            context.library_names = Arc::default();
        }
        context.relinked = made.relinked;
        if *linker.cache_path == *SYSTEM_CACHE {
            // The new cache replaces the image's own, and its problems.
            linker.problems.clone_from(&made.problems);
            linker.cache = Some(Arc::new(made.cache));
            linker.cache_is_new = true;
        }
    }
    context
}

/// The names and sonames of the shared libraries in an image.
fn list_library_names(rootfs: &Rootfs) -> BTreeSet<ByteString> {
    let mut names = BTreeSet::new();
    rootfs.visit(|path, _, node| {
        if let NodeKind::File(facts) = &node.kind {
            names.extend(facts.elf.as_ref().and_then(|elf| elf.soname.clone()));
        }
        if contains_bytes(path.name(), b".so") {
            names.insert(path.name().into());
        }
    });
    names
}

/// The value of a variable: the user's, else the one in the image config.
fn variable<'v>(image: &'v Image, conditions: &'v GatherOptions, key: &str) -> Option<&'v str> {
    // If a variable is given several times, the last value wins, as with `docker run --env`.
    let mut over = conditions.environment.iter().rev();
    over.find(|(name, _)| name == key)
        .map(|(_, value)| value.as_str())
        .or_else(|| image.config.env(key))
}

/// The settings for a Python that the image's command starts.
pub(crate) fn python_settings(image: &Image, context: &ProcessContext) -> PythonSettings {
    let (config, entry) = (&image.config, &context.entry);
    // If the command cannot be followed, use the config's words.
    let command = Some(&entry.program).filter(|program| !program.is_empty());
    PythonSettings::read(
        &context.rootfs,
        SettingSources {
            variables: &entry.variables,
            command: command.unwrap_or(&config.command),
            working_dir: config.working_dir.as_deref().unwrap_or("/"),
            credentials: &context.user.credentials,
        },
    )
}

/// The initial environment of the container's command: the image config's, overridden by the user's variables.
fn container_environment(image: &Image, conditions: &GatherOptions) -> BTreeMap<String, String> {
    let all = image.config.env.iter().chain(&conditions.environment);
    all.cloned().collect()
}

/// The part of a program's environment that the loader reads.
fn loader_environment(variables: &BTreeMap<String, String>, working_dir: Option<&str>) -> LoaderEnvironment {
    let [library_path, preload, tunables] = ["LD_LIBRARY_PATH", "LD_PRELOAD", "GLIBC_TUNABLES"]
        .map(|name| variables.get(name).map(|value| value.as_bytes().into()));
    LoaderEnvironment {
        library_path,
        preload,
        binds_now: variables.get("LD_BIND_NOW").is_some_and(|value| !value.is_empty()),
        tunables,
        working_dir: working_dir.unwrap_or("/").as_bytes().into(),
    }
}

impl ProcessContext {
    /// Switches to another process of the image's command.
    pub(crate) fn with_entry(&self, entry: &CommandEntry) -> Self {
        Self {
            environment: loader_environment(&entry.variables, entry.working_dir.as_deref()),
            user: match &entry.user {
                Some(user) => find_image_user(user, &self.rootfs),
                None => self.image_user.clone(),
            },
            entry: entry.clone(),
            ..self.clone()
        }
    }

    /// The first process of the command, with the image's user and these variables.
    pub(crate) fn with_environment(&self, variables: &BTreeMap<String, String>) -> Self {
        let directory = String::from_utf8_lossy(&self.config_directory).into_owned();
        Self {
            environment: loader_environment(variables, Some(&directory)),
            user: self.image_user.clone(),
            entry: CommandEntry::default(),
            ..self.clone()
        }
    }

    /// Uses the image's own cache, if the command runs ldconfig.
    pub(crate) fn with_own_cache(&self) -> Self {
        Self {
            linker: self.own_cache.clone().or_else(|| self.linker.clone()),
            other_loaders: Arc::default(),
            ..self.clone()
        }
    }

    /// The files of the loaders that could not be read.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        let own = self.linker.iter().flat_map(|linker| linker.problems.iter().cloned());
        own.chain(self.other_loaders.problems())
    }

    /// Why the simulation stopped before its end, if it did.
    pub fn budget_end(&self) -> Option<String> {
        self.budget.end()
    }

    /// The number of loader steps so far.
    pub(crate) fn steps_taken(&self) -> u64 {
        self.budget.taken()
    }

    /// Calls `run` with the setup of a process; `None` if the image has no loader.
    pub fn with_setup<T>(&self, run: impl FnOnce(&ProcessSetup<'_>) -> T) -> Option<T> {
        let table = &self.tables.driver_libraries;
        // Also in the image as it is: no image can contain the driver, so its libraries never count as missing.
        let from_driver = |name: &[u8]| provides_library(table, name, self.capabilities.as_deref());
        self.linker.as_ref().map(|linker| {
            run(&ProcessSetup {
                rootfs: &self.rootfs,
                linker,
                environment: &self.environment,
                user: &self.user.credentials,
                cpu: self.cpu,
                from_driver: &from_driver,
            })
        })
    }

    /// The preloaded names as written: those in `LD_PRELOAD`, then those in `/etc/ld.so.preload` (glibc elf/rtld.c,
    /// `dl_main`).
    pub fn preloaded_names(&self) -> impl Iterator<Item = &[u8]> {
        let listed = self.rootfs.content(b"/etc/ld.so.preload").unwrap_or_default();
        let own = self.environment.preload.as_deref().unwrap_or_default();
        // ld.so(8): both spaces and colons are separators.
        let words = [own, listed]
            .into_iter()
            .flat_map(|text| text.split(|byte| byte.is_ascii_whitespace() || *byte == b':'));
        words.filter(|word| !word.is_empty())
    }

    /// Whether the image's user cannot read a file.
    pub(crate) fn is_unreadable(&self, path: &RootPath) -> bool {
        let opened = (self.rootfs).open_as(&path.absolute(), &self.user.credentials, FileUse::Read);
        matches!(opened, Err(LookupError::Denied(_)))
    }

    /// Simulates dlopen of `name` in a process without its own search paths. If a preloaded library stops that process,
    /// returns its failure.
    pub fn open_plain(&self, name: &[u8]) -> LoadResolution {
        let opened = self.with_setup(|setup| {
            // A preloaded library with a missing dependency ends the process before it opens anything.
            let mut process = SimulatedProcess::new(setup);
            let mut started = process.start_unknown();
            started.unresolved.extend(self.unbound_preload(&started));
            if unresolved_objects(&started).next().is_some() {
                return started;
            }
            let mut opened = process.open(name, None);
            let found = opened_object(&opened).map(|object| object.real_path.clone());
            opened
                .unresolved
                .extend(found.and_then(|found| process.find_unbound(&found)));
            LoadResolution {
                preload_warnings: started.preload_warnings,
                ..opened
            }
        });
        opened.unwrap_or_default()
    }

    /// Whether the container's command executes an object, or passes it as an argument, like a script to an
    /// interpreter.
    pub(crate) fn is_commands(&self, object: &RootPath) -> bool {
        let mut words = self.entry.program.iter();
        self.entry.executable.as_ref() == Some(object)
            || words.any(|word| {
                let found = self.rootfs.lookup(&self.path_in_working_dir(word.as_bytes()));
                found.is_ok_and(|found| found.path == *object)
            })
    }

    /// The absolute form of a path that may be relative to the working directory.
    pub(crate) fn path_in_working_dir(&self, path: &[u8]) -> Vec<u8> {
        match path {
            [b'/', ..] => path.to_vec(),
            relative => [&self.environment.working_dir, &b"/"[..], relative].concat(),
        }
    }

    /// How the program at `path` starts: the container's command may pass it to a dynamic loader.
    pub(crate) fn start_mode(&self, path: &RootPath) -> StartMode {
        let is_argument = self.entry.by_loader && self.entry.executable.as_ref() == Some(path);
        if is_argument {
            StartMode::Listed
        } else {
            StartMode::Executed
        }
    }

    /// Simulates the start of `path`: a program as the kernel executes it, a library as an argument of the loader.
    pub fn start_program(&self, path: &[u8]) -> Option<LoadResolution> {
        self.budget.refill(STARTED_STEPS);
        let found = self.rootfs.lookup(path).ok()?;
        let NodeKind::File(facts) = &self.rootfs.node(found.node).kind else {
            return None;
        };
        let elf = facts.elf.as_ref();
        // An object without interpreter is a library and is mapped as in `ldd`. The same applies to a library with an
        // interpreter, such as Debian's libcap, that nobody may execute.
        let how = if elf.is_some_and(|elf| elf.interp.is_some() && (facts.mode & 0o111 != 0 || elf.is_program())) {
            self.start_mode(&found.path)
        } else {
            StartMode::Listed
        };
        let program = elf.filter(|elf| how == StartMode::Executed && is_only_program(elf));
        if let Some(fault) = program.and_then(|elf| self.interpreter_fault(elf)) {
            return Some(fault.resolution(&found.path));
        }
        let own = elf.and_then(|elf| self.with_loader_of(elf));
        let context = own.as_ref().unwrap_or(self);
        context.with_setup(|setup| SimulatedProcess::new(setup).start(path, how))
    }

    /// Why the kernel does not start a program with its interpreter.
    pub(crate) fn interpreter_fault(&self, program: &ElfFacts) -> Option<InterpreterFault> {
        let (working_dir, user) = (&self.environment.working_dir, &self.user.credentials);
        InterpreterFault::find(&self.rootfs, working_dir, user, program)
    }

    /// The context for an object that another ld.so maps: the one that a program names, as in conda or Nix, or the one
    /// for a library of another class.
    fn with_loader_of(&self, elf: &ElfFacts) -> Option<Self> {
        let arch = Arch::of_object(elf)?;
        let interpreter = match &elf.interp {
            Some(named) => named.clone(),
            None if self.linker.as_ref().is_some_and(|own| own.arch == arch) => return None,
            None => DynamicLoader::default_path(&self.rootfs, arch)?.as_bytes().into(),
        };
        let real_path = self.rootfs.lookup(&interpreter).ok()?.path;
        // The image's own loader is already set up, with the cache of this world.
        let is_own = self.linker.as_ref().is_some_and(|own| own.real_path == real_path);
        // Without budget, no loader is simulated.
        if is_own || self.budget_end().is_some() {
            return None;
        }
        let linker = self.other_loaders.find_or_read(self, &interpreter, arch)?;
        Some(Self {
            linker: Some(linker),
            ..self.clone()
        })
    }

    /// Whether the image has a loader for the processor and class of an object. Without any loader, known processors
    /// count.
    pub(crate) fn has_loader_for(&self, elf: &ElfFacts) -> bool {
        let arch = Arch::of_object(elf);
        let Some(own) = &self.linker else {
            return arch.is_some();
        };
        arch.is_some_and(|arch| {
            arch == own.arch || own.arch.runs(elf) && DynamicLoader::default_path(&self.rootfs, arch).is_some()
        })
    }

    /// The context for the program at `path`; `None` if the image's own loader starts it.
    pub(crate) fn of_program(&self, path: &RootPath) -> Option<Self> {
        self.with_loader_of(elf_at(&self.rootfs, path)?)
    }

    /// Whether a file, link or soname in the image has this name, so that a process may have mapped it.
    pub(crate) fn has_library_named(&self, name: &[u8]) -> bool {
        let names = self.library_names.get_or_init(|| list_library_names(&self.rootfs));
        names.contains(last_part(name))
    }

    /// The first preloaded library with undefined symbols, which ends every process regardless of its program.
    fn unbound_preload(&self, started: &LoadResolution) -> Option<UnresolvedRequest> {
        let mut preloaded = started
            .objects
            .iter()
            .filter(|object| object.how == SearchStage::Preload);
        let all = self.environment.binds_now;
        let object = preloaded.find(|object| self.lacks_imports_of(&object.real_path, all))?;
        Some(UnresolvedRequest {
            name: object.path.clone(),
            requested_by: None,
            outcome: RequestOutcome::Refused,
            message: format!(
                "{}: undefined symbols: nothing in the image defines them",
                object.real_path
            ),
            missing_version: None,
            trace: Vec::new(),
        })
    }

    /// Whether no object in the image defines the imports of the one at `path`, so that no previously mapped object
    /// helps. Unless `all` is set, only imports that are bound at load time count.
    pub(crate) fn lacks_imports_of(&self, path: &RootPath, all: bool) -> bool {
        let mut others: Vec<Arc<FileFacts>> = Vec::new();
        self.rootfs.visit(|_, _, node| {
            if let NodeKind::File(facts) = &node.kind
                && facts.elf.as_ref().is_some_and(|elf| elf.dynamic)
            {
                others.push(Arc::clone(facts));
            }
        });
        let within_budget = self.budget.spend(others.len());
        let objects = others.iter().filter_map(|facts| facts.elf.as_deref());
        let is_known = objects.clone().all(|elf| elf.link_symbols.is_some());
        let symbols = objects.filter_map(|elf| elf.link_symbols.as_deref());
        let own = elf_at(&self.rootfs, path).and_then(|elf| elf.link_symbols.as_deref());
        within_budget && is_known && own.is_some_and(|own| own.count_unbound(&symbols, all || own.binds_now) > 0)
    }
}
