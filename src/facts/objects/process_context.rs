//! What a process in the image starts with in one world: file system, loader, environment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use crate::byte_search::{contains_bytes, last_part};
use crate::facts::objects::command_entry::{CommandEntry, CommandReading, read_command};
use crate::facts::objects::credentials::{ImageUser, find_image_user};
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

/// How the loader is to be set up, beyond what the image says.
#[derive(Debug, Clone)]
pub struct GatherOptions {
    /// `KEY=VALUE` over the environment of the image config.
    pub environment: Vec<(String, String)>,
    /// The level of the processor, which decides on glibc-hwcaps.
    pub cpu: CpuLevel,
    /// The bounds on what the loader is asked.
    pub limits: Limits,
    /// What the container is started with in place of what the image says.
    pub start: StartOverrides,
}

/// What an engine is told to start in place of what the image says.
#[derive(Debug, Clone, Default)]
pub struct StartOverrides {
    /// The words in place of Entrypoint and Cmd.
    pub command: Option<Vec<String>>,
    /// The words in place of Cmd.
    pub arguments: Option<Vec<String>>,
    /// The user, as `docker run --user` takes it.
    pub user: Option<String>,
    /// The working directory.
    pub working_dir: Option<String>,
}

impl StartOverrides {
    /// Puts them into an image config.
    pub(crate) fn apply(&self, config: &mut ImageConfig) {
        let own = || config.settings.entrypoint.clone();
        config.command = match (&self.command, &self.arguments) {
            (None, None) => config.command.clone(),
            (Some(command), arguments) => command.iter().chain(arguments.iter().flatten()).cloned().collect(),
            (None, Some(arguments)) => own().into_iter().chain(arguments.iter().cloned()).collect(),
        };
        config.user = self.user.clone().or(config.user.take());
        config.working_dir = self.working_dir.clone().or(config.working_dir.take());
    }
}

/// The steps of the loader that a start may take which is asked for by itself.
const STARTED_STEPS: u64 = 2_000_000;

/// What a process in this image starts with.
#[derive(Debug, Clone)]
pub struct ProcessContext {
    /// The world that the process starts in.
    pub world: World,
    /// The merged file system, with the links that `ldconfig` made.
    pub rootfs: Arc<Rootfs>,
    /// The loader for the image's processor; `None` in an image that has none.
    pub linker: Option<DynamicLoader>,
    /// What its processes may still ask of any loader, in both worlds together.
    pub budget: Arc<LoaderBudget>,
    /// The links that a simulated `ldconfig` made and removed; none in the image as it is.
    pub relinked: LinkChanges,
    /// What the loader reads of the environment.
    pub environment: LoaderEnvironment,
    /// The process of the container's command that this is.
    pub entry: CommandEntry,
    /// All that the command may come to.
    pub commands: Arc<CommandReading>,
    /// The user of the image itself.
    image_user: ImageUser,
    /// The working directory of the config.
    config_directory: ByteString,
    /// The cache of the image itself, where its command runs ldconfig.
    own_cache: Option<DynamicLoader>,
    /// The user that the processes are started as.
    pub(crate) user: ImageUser,
    /// The level of the processor, which decides on glibc-hwcaps.
    pub cpu: CpuLevel,
    /// `NVIDIA_DRIVER_CAPABILITIES`; `None` where nothing sets it.
    pub capabilities: Option<String>,
    /// What the container runtime brings, among others.
    pub tables: &'static KnowledgeTables,
    /// The Pythons of the image, once its files are known.
    pub(crate) python: Arc<PythonEnvironment>,
    /// The names of the shared libraries of the image, once somebody has asked.
    library_names: Arc<OnceLock<BTreeSet<ByteString>>>,
    /// What was read of the loaders that programs name beside this one.
    other_loaders: Arc<OtherLoaders>,
}

/// The processor of an image, as `uname -m` says it in a container.
pub fn kernel_machine(image: &Image) -> &str {
    match image.platform.architecture.as_str() {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    }
}

/// The image in both worlds.
pub fn build_contexts(
    image: &Image,
    rootfs: &Arc<Rootfs>,
    tables: &'static KnowledgeTables,
    conditions: &GatherOptions,
) -> ByWorld<ProcessContext> {
    let arch = Arch::of_platform(&image.platform.architecture);
    let capabilities = variable(image, conditions, "NVIDIA_DRIVER_CAPABILITIES");
    let environment = container_environment(image, conditions);
    let machine = kernel_machine(image);
    let image_user = match &image.config.running {
        // Who asks for itself is known.
        Some(credentials) => ImageUser::of_credentials(credentials.clone()),
        None => find_image_user(image.config.user.as_deref().unwrap_or_default(), rootfs),
    };
    let commands = read_command(
        &image.config,
        rootfs,
        &environment,
        &conditions.environment,
        (machine, &image_user.credentials),
        tables,
    );
    let entry = commands.entries.first().cloned().unwrap_or_default();
    let linker = arch.and_then(|arch| {
        DynamicLoader::find_default(rootfs, arch, conditions.cpu)
            .or_else(|| find_named_loader(rootfs, arch, conditions.cpu, entry.executable.as_ref()))
    });
    let budget = Arc::new(LoaderBudget::new(&conditions.limits));
    let linker = linker.map(|linker| DynamicLoader {
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
    if as_is.commands.ldconfig_place().is_some() {
        as_is = ProcessContext {
            own_cache: as_is.linker.clone(),
            ..with_new_cache(&as_is, image.layers.len())
        };
    }
    if image.config.running.is_some() {
        // What the container runtime brings is there already, or never will be.
        let nvidia = as_is.clone();
        return ByWorld { as_is, nvidia };
    }
    let nvidia = ProcessContext {
        world: World::Nvidia,
        ..with_new_cache(&as_is, image.layers.len())
    };
    ByWorld { as_is, nvidia }
}

/// The same image once `ldconfig` has run; the links that it makes are of the layer with the number `layers`.
fn with_new_cache(as_is: &ProcessContext, layers: usize) -> ProcessContext {
    let mut context = as_is.clone();
    context.other_loaders = Arc::default();
    if let Some(linker) = &mut context.linker {
        let made = run_ldconfig(&as_is.rootfs, linker, Vec::new());
        if made.relinked != LinkChanges::default() {
            // Without new links both worlds share one file system in memory.
            context.rootfs = Arc::new(made.apply(&as_is.rootfs, layers));
        }
        context.relinked = made.relinked;
        if *linker.cache_path == *SYSTEM_CACHE {
            // What was wrong with the image's own cache is void once ldconfig has made another.
            linker.problems.clone_from(&made.problems);
            linker.cache = Some(Arc::new(made.cache));
            linker.cache_is_new = true;
        }
    }
    context
}

/// A variable of the image config, or what was asked for over it.
fn variable<'v>(image: &'v Image, conditions: &'v GatherOptions, key: &str) -> Option<&'v str> {
    // Of several values for one variable the last counts, as with `docker run --env`.
    let mut over = conditions.environment.iter().rev();
    over.find(|(name, _)| name == key)
        .map(|(_, value)| value.as_str())
        .or_else(|| image.config.env(key))
}

/// What the image says to a Python that its command starts.
pub(crate) fn python_settings(image: &Image, context: &ProcessContext) -> PythonSettings {
    let (config, entry) = (&image.config, &context.entry);
    // A command that cannot be followed to its end is what the config says.
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

/// The environment of the image config with what was asked for over it: what the container's command starts with.
fn container_environment(image: &Image, conditions: &GatherOptions) -> BTreeMap<String, String> {
    let all = image.config.env.iter().chain(&conditions.environment);
    all.cloned().collect()
}

/// The environment of a program, as the loader sees it.
fn loader_environment(variables: &BTreeMap<String, String>, working_dir: Option<&str>) -> LoaderEnvironment {
    let value = |key: &str| variables.get(key).map(|value| value.as_bytes().into());
    LoaderEnvironment {
        library_path: value("LD_LIBRARY_PATH"),
        preload: value("LD_PRELOAD"),
        binds_now: variables.get("LD_BIND_NOW").is_some_and(|value| !value.is_empty()),
        tunables: value("GLIBC_TUNABLES"),
        working_dir: working_dir.unwrap_or("/").as_bytes().into(),
    }
}

impl ProcessContext {
    /// The same image with another process of its command.
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

    /// The first process of the command: the image's user, with these variables.
    pub(crate) fn with_environment(&self, variables: &BTreeMap<String, String>) -> Self {
        let directory = String::from_utf8_lossy(&self.config_directory).into_owned();
        Self {
            environment: loader_environment(variables, Some(&directory)),
            user: self.image_user.clone(),
            entry: CommandEntry::default(),
            ..self.clone()
        }
    }

    /// The same with the cache that the image has, where its command runs ldconfig.
    pub(crate) fn with_own_cache(&self) -> Self {
        Self {
            linker: self.own_cache.clone().or_else(|| self.linker.clone()),
            other_loaders: Arc::default(),
            ..self.clone()
        }
    }

    /// What could not be read of the loader's own files.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        let own = self.linker.iter().flat_map(|linker| linker.problems.iter().cloned());
        own.chain(self.other_loaders.problems())
    }

    /// Why what its processes get is not followed to its end, if so.
    pub fn budget_end(&self) -> Option<String> {
        self.budget.end()
    }

    /// The steps of the loader that were taken so far.
    pub(crate) fn steps_taken(&self) -> u64 {
        self.budget.taken()
    }

    /// Calls `run` with the setup of a process; nothing in an image without a loader.
    pub fn with_setup<T>(&self, run: impl FnOnce(&ProcessSetup<'_>) -> T) -> Option<T> {
        let table = &self.tables.driver_libraries;
        // In the image as it is too: no image can hold the driver, and what needs it is not broken for that.
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

    /// The names that are preloaded, as they are written: those of `LD_PRELOAD`, then those of `/etc/ld.so.preload` (glibc
    /// elf/rtld.c, `dl_main`).
    pub fn preloaded_names(&self) -> impl Iterator<Item = &[u8]> {
        let listed = self.rootfs.content(b"/etc/ld.so.preload").unwrap_or_default();
        let own = self.environment.preload.as_deref().unwrap_or_default();
        // ld.so(8): spaces and colons separate alike.
        let is_separator = |byte: &u8| byte.is_ascii_whitespace() || *byte == b':';
        let words = [own, listed].into_iter();
        let words = words.flat_map(move |text| text.split(is_separator));
        words.filter(|word| !word.is_empty())
    }

    /// Whether the user of the image may not read a file.
    pub(crate) fn is_unreadable(&self, path: &RootPath) -> bool {
        let opened = (self.rootfs).open_as(&path.absolute(), &self.user.credentials, FileUse::Read);
        matches!(opened, Err(LookupError::Denied(_)))
    }

    /// What a dlopen of `name` gets in a process without search paths of its own; where that cannot start,
    /// because of what is preloaded, why not.
    pub fn open_plain(&self, name: &[u8]) -> LoadResolution {
        let open = |setup: &ProcessSetup<'_>| {
            // A preloaded library that lacks what it needs ends the process before it opens anything.
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
        };
        self.with_setup(open).unwrap_or_default()
    }

    /// Whether the container's command executes an object, or gives it to what it executes, as a script to an interpreter.
    pub(crate) fn is_commands(&self, object: &RootPath) -> bool {
        let is_given = |word: &String| {
            let found = self.rootfs.lookup(&self.path_in_working_dir(word.as_bytes()));
            found.is_ok_and(|found| found.path == *object)
        };
        self.entry.executable.as_ref() == Some(object) || self.entry.program.iter().any(is_given)
    }

    /// A path from the root, which the program may name from its working directory.
    pub(crate) fn path_in_working_dir(&self, path: &[u8]) -> Vec<u8> {
        match path {
            [b'/', ..] => path.to_vec(),
            relative => [&self.environment.working_dir, &b"/"[..], relative].concat(),
        }
    }

    /// How the program at `path` is started: the container's command may hand it to a dynamic loader.
    pub(crate) fn start_mode(&self, path: &RootPath) -> StartMode {
        let is_argument = self.entry.by_loader && self.entry.executable.as_ref() == Some(path);
        if is_argument {
            StartMode::Listed
        } else {
            StartMode::Executed
        }
    }

    /// What the start of `path` gets: by the kernel for a program, as an argument of the loader for a library.
    pub fn start_program(&self, path: &[u8]) -> Option<LoadResolution> {
        self.budget.refill(STARTED_STEPS);
        let found = self.rootfs.lookup(path).ok()?;
        let NodeKind::File(facts) = &self.rootfs.node(found.node).kind else {
            return None;
        };
        let elf = facts.elf.as_ref();
        // What names no interpreter is a library here, and is mapped as `ldd` does it; so is a library that can be executed,
        // such as Debian's libcap, where nobody may.
        let may_run = |elf: &ElfFacts| facts.mode & 0o111 != 0 || elf.is_program();
        let how = if elf.is_some_and(|elf| elf.interp.is_some() && may_run(elf)) {
            self.start_mode(&found.path)
        } else {
            StartMode::Listed
        };
        let own = elf.and_then(|elf| self.with_loader_of(elf));
        let context = own.as_ref().unwrap_or(self);
        context.with_setup(|setup| SimulatedProcess::new(setup).start(path, how))
    }

    /// The same for a program that names another ld.so, as those of conda or Nix do, with defaults of its own.
    fn with_loader_of(&self, elf: &ElfFacts) -> Option<Self> {
        let (interpreter, arch) = (elf.interp.as_ref()?, Arch::of_object(elf)?);
        let real_path = self.rootfs.lookup(interpreter).ok()?.path;
        // The image's own loader is set up already, with the cache of this world.
        let is_own = self.linker.as_ref().is_some_and(|own| own.real_path == real_path);
        // Without steps left, nothing is followed by any loader.
        if is_own || self.budget_end().is_some() {
            return None;
        }
        let linker = self.other_loaders.find_or_read(self, interpreter, arch)?;
        Some(Self {
            linker: Some(linker),
            ..self.clone()
        })
    }

    /// The same for the program at `path`; `None` where the image's own loader starts it.
    pub(crate) fn of_program(&self, path: &RootPath) -> Option<Self> {
        self.with_loader_of(elf_at(&self.rootfs, path)?)
    }

    /// Whether a file, a link or a soname of the image has this name, so that a process may have mapped it.
    pub(crate) fn has_library_named(&self, name: &[u8]) -> bool {
        let read = || {
            let mut names = BTreeSet::new();
            self.rootfs.visit(|path, _, node| {
                let soname = match &node.kind {
                    NodeKind::File(facts) => facts.elf.as_ref().and_then(|elf| elf.soname.clone()),
                    _ => None,
                };
                names.extend(soname);
                if contains_bytes(path.name(), b".so") {
                    names.insert(path.name().into());
                }
            });
            names
        };
        self.library_names.get_or_init(read).contains(last_part(name))
    }

    /// The first preloaded library that every process ends at, whatever its program defines.
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

    /// Whether no object of the image defines what the one at `path` imports, all of it or what is bound when it is mapped,
    /// so that nothing which a process may have mapped before it helps.
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
        let others = others.iter().filter_map(|facts| facts.elf.as_deref());
        let is_known = others.clone().all(|elf| elf.link_symbols.is_some());
        let own = elf_at(&self.rootfs, path).and_then(|elf| elf.link_symbols.as_deref());
        let others = others.filter_map(|elf| elf.link_symbols.as_deref());
        within_budget && is_known && own.is_some_and(|own| own.count_unbound(&others, all || own.binds_now) > 0)
    }
}
