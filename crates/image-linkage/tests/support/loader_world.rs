//! Both sides of a comparison: roots for the real loader and file systems for ours.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use image_linkage::layer::LayerIndex;
use image_linkage::loader::{
    Arch, CpuLevel, DynamicLoader, LegacyHwcaps, LoadResolution, LoaderEnvironment, ProcessSetup, SimulatedProcess,
    StartMode,
};
use image_linkage::rootfs::{FileCredentials, Rootfs};
use testkit::layer::Layer;

use super::loader_case::{Case, Processor};
use super::loader_judge::{DEBIAN_LIBC, Judge, LIBC, LOADER, OWN};
use super::loader_tree;

/// State shared by all cases of a run.
pub struct World {
    /// The real programs.
    pub judge: Judge,
    /// The loader, as a layer.
    base: LayerIndex,
    /// The C library of programs that call dlopen, as a layer.
    libc: LayerIndex,
    machines: BTreeMap<Processor, Machine>,
}

/// A processor as the real loader sees it.
pub struct Machine {
    /// The ISA level whose subdirectories it searches.
    pub level: CpuLevel,
    /// Other detected capabilities.
    pub hardware: LegacyHwcaps,
    /// The ISA level compared with the needs of objects; tunables do not change it.
    pub cpu: CpuLevel,
}

/// The world, if its parts exist.
pub static WORLD: LazyLock<Option<World>> = LazyLock::new(World::new);

impl World {
    fn new() -> Option<Self> {
        let judge = Judge::new()?;
        let root = judge.root(&Case::default());
        let seen = |processor| seen(&judge, root.path(), processor);
        let native = seen(Processor::Native).level;
        let machine = |processor| Machine {
            cpu: native,
            ..seen(processor)
        };
        let machines = Processor::ALL.map(|processor| (processor, machine(processor)));
        let loader = judge.read("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2");
        let base = Layer::new().executable(LOADER, loader);
        let libc = Layer::new().executable(LIBC, judge.read(DEBIAN_LIBC));
        drop(root);
        Some(Self {
            machines: machines.into(),
            base: loader_tree::index(&base),
            libc: loader_tree::index(&libc),
            judge,
        })
    }

    /// The root of a case as ours reads it.
    pub fn rootfs(&self, case: &Case, root: &Path) -> Rootfs {
        let own = loader_tree::read(root, &[OWN[0], OWN[1], LOADER, LIBC]);
        let libc = case.opens.as_ref().map(|_| &self.libc);
        loader_tree::merge([&self.base, &own].into_iter().chain(libc))
    }

    /// The processor of a case.
    pub fn machine(&self, case: &Case) -> &Machine {
        &self.machines[&case.processor]
    }
}

/// The processor according to the real loader.
fn seen(judge: &Judge, root: &Path, processor: Processor) -> Machine {
    let loader = format!("/{LOADER}");
    let variables: Vec<String> = processor.variable().into_iter().collect();
    let help = judge.run(root, "/", &variables, &[&loader, "--help"]).out;
    let searched = |name: &str| help.contains(&format!("  {name} (supported, searched)"));
    let level = match () {
        () if searched("x86-64-v4") => CpuLevel::V4,
        () if searched("x86-64-v3") => CpuLevel::V3,
        () if searched("x86-64-v2") => CpuLevel::V2,
        () => CpuLevel::V1,
    };
    let diagnostics = judge.run(root, "/", &variables, &[&loader, "--list-diagnostics"]);
    let mut lines = diagnostics.out.lines();
    let platform = lines.find_map(|line| line.strip_prefix("dl_platform="));
    let platform = platform.unwrap().trim_matches('"');
    let more = ["avx512_1"].into_iter().filter(|name| searched(name));
    let capabilities = more.chain(["x86_64"]);
    Machine {
        level,
        hardware: LegacyHwcaps {
            platform: platform.as_bytes().into(),
            capabilities: capabilities.map(|name| name.as_bytes().into()).collect(),
        },
        cpu: level,
    }
}

impl Machine {
    /// The baseline processor, for machines without a Debian root.
    pub fn plain() -> Self {
        Self {
            level: CpuLevel::V1,
            hardware: LegacyHwcaps::baseline_of(arch()),
            cpu: CpuLevel::V1,
        }
    }

    /// The loader of a root on this processor.
    pub fn linker(&self, rootfs: &Rootfs) -> DynamicLoader {
        let mut linker = DynamicLoader::find_default(rootfs, arch(), self.level).unwrap();
        linker.run_on(&self.hardware);
        linker.isa_bits = self.cpu.isa_bits();
        linker
    }

    /// Calls `run` with a simulated process of the case.
    pub fn with_process<T>(
        &self,
        rootfs: &Rootfs,
        linker: &DynamicLoader,
        case: &Case,
        run: impl FnOnce(&mut SimulatedProcess<'_>) -> T,
    ) -> T {
        let bytes = |text: &String| text.as_bytes().into();
        let environment = LoaderEnvironment {
            library_path: case.library_path.as_ref().map(bytes),
            preload: case.preload.as_ref().map(bytes),
            working_dir: case.working_dir().as_bytes().into(),
            ..LoaderEnvironment::default()
        };
        run(&mut SimulatedProcess::new(&ProcessSetup {
            rootfs,
            linker,
            environment: &environment,
            user: &FileCredentials::default(),
            cpu: self.cpu,
            from_driver: &|_| false,
        }))
    }

    /// Starts the case's program.
    pub fn start(&self, rootfs: &Rootfs, linker: &DynamicLoader, case: &Case, start: StartMode) -> LoadResolution {
        self.with_process(rootfs, linker, case, |process| {
            process.start(case.program().as_bytes(), start)
        })
    }
}

/// The architecture of all cases.
pub fn arch() -> &'static Arch {
    Arch::of_platform("amd64").unwrap()
}
