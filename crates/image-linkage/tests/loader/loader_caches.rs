//! Does our reading of a damaged `ld.so.cache` agree with the real `ld.so`?
//!
//! A seed creates a cache in one of its three formats and damages it: truncation, changed numbers and offsets, swapped
//! entries, unterminated texts. A Debian loader resolves a program with it. Unless we report that the result cannot be
//! determined, both results must be equal. If the loader crashes, we must report that.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use testkit::seeds::{self, each_seed, report};

use crate::loader_tools::{Ran, Tools};
use image_linkage::layer::LayerIndex;
use image_linkage::loader::{
    Arch, CpuLevel, DynamicLoader, LoadResolution, LoaderEnvironment, ProcessSetup, SimulatedProcess, StartMode,
};
use image_linkage::rootfs::FileCredentials;
use testkit::elf::Elf;
use testkit::layer::Layer;
use testkit::ldcache::{Cache, Format, I386, X86_64};
use testkit::random::Random;

const LOADER: &str = "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2";

/// The libraries. Some are also in a default directory.
const NAMES: [&str; 8] = [
    "liba.so.1",
    "libb.so.2",
    "libb.so.10",
    "libc1.so",
    "libcupti.so.12",
    "libd-9.so",
    "libz.so.1",
    "libzz.so.0",
];

/// The directories of their copies. The last one is for an ISA level.
const FOLDERS: [&str; 3] = ["opt/a", "opt/b", "opt/a/glibc-hwcaps/x86-64-v2"];

/// State shared by all cases.
struct World {
    tools: Tools,
    /// The root without a cache.
    tar: Vec<u8>,
    base: LayerIndex,
    cpu: CpuLevel,
}

impl World {
    fn new() -> Option<Self> {
        let debian = crate::support::part("bookworm")?;
        let tools = Tools::new()?;
        let loader = fs::read(debian.join("usr").join(LOADER)).unwrap();
        let base = root(&loader);
        let mut world = Self {
            cpu: CpuLevel::V1,
            tar: base.tar(),
            base: crate::loader_tree::index(&base),
            tools,
        };
        let root = world.root(b"");
        let words = ["/lib64/ld-linux-x86-64.so.2", "--help"];
        let help = world.tools.run(root.path(), "/", &[], &words).out;
        if help.contains("x86-64-v2 (supported, searched)") {
            world.cpu = CpuLevel::V2;
        }
        Some(world)
    }

    /// A root with this cache.
    fn root(&self, cache: &[u8]) -> tempfile::TempDir {
        let folder = self.tools.folder();
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(folder.path()).args(["-x", "-f-"]);
        let mut tar = tar.stdin(Stdio::piped()).spawn().unwrap();
        tar.stdin.take().unwrap().write_all(&self.tar).unwrap();
        assert!(tar.wait().unwrap().success());
        fs::create_dir(folder.path().join("etc")).unwrap();
        fs::write(folder.path().join("etc/ld.so.cache"), cache).unwrap();
        folder
    }

    /// The real loader's list of libraries.
    fn judge(&self, cache: &[u8]) -> Ran {
        let root = self.root(cache);
        let words = ["/lib64/ld-linux-x86-64.so.2", "/app/prog"];
        let trace = ["LD_TRACE_LOADED_OBJECTS=1".to_owned()];
        self.tools.run(root.path(), "/", &trace, &words)
    }

    /// Our result, and whether it cannot be determined.
    fn ours(&self, cache: &[u8]) -> (LoadResolution, bool) {
        let layer = Layer::new().file("etc/ld.so.cache", cache);
        let rootfs = crate::loader_tree::merge([&self.base, &crate::loader_tree::index(&layer)]);
        let arch = Arch::of_platform("amd64").unwrap();
        let linker = DynamicLoader::find_default(&rootfs, arch, self.cpu).unwrap();
        let problems = linker.problems.iter();
        let open = problems
            .filter(|problem| problem.contains("cannot be determined"))
            .count();
        let environment = LoaderEnvironment::default();
        let setup = ProcessSetup {
            rootfs: &rootfs,
            linker: &linker,
            environment: &environment,
            user: &FileCredentials::default(),
            cpu: self.cpu,
            from_driver: &|_| false,
        };
        let resolution = SimulatedProcess::new(&setup).start(b"/app/prog", StartMode::Listed);
        (resolution, open > 0)
    }
}

/// The files named by the caches, and a program that needs all of them.
fn root(loader: &[u8]) -> Layer {
    let names = NAMES.iter();
    let program = names.fold(Elf::executable(), Elf::needed);
    let mut layer = Layer::new()
        .executable(format!("usr/{LOADER}"), loader)
        .symlink("lib", "usr/lib")
        .symlink("lib64/ld-linux-x86-64.so.2", format!("/{LOADER}"))
        .executable("app/prog", program.build());
    for (nth, name) in NAMES.iter().enumerate() {
        let library = Elf::library(name).build();
        for folder in FOLDERS {
            layer = layer.executable(format!("{folder}/{name}"), &library);
        }
        if nth % 2 == 0 {
            layer = layer.executable(format!("usr/lib/{name}"), library);
        }
    }
    layer
}

/// A cache in one of its formats. Some libraries are in it twice or not at all.
fn cache(random: &mut Random) -> (Vec<u8>, Format) {
    let format = random.weighted(&[(3, Format::New), (2, Format::Compat), (2, Format::Old)]);
    let mut cache = Cache::new().format(format);
    for name in NAMES {
        for (folder, subdirectory) in FOLDERS.iter().zip([None, None, Some("x86-64-v2")]) {
            let path = format!("/{folder}/{name}");
            cache = match subdirectory {
                _ if random.chance(45) => cache,
                Some(level) if format == Format::New => cache.hwcaps_entry(X86_64, level, name, path),
                Some(_) => cache.entry(I386, name, path),
                None => cache.entry(X86_64, name, path),
            };
        }
    }
    if random.chance(50) {
        cache = cache.generator("ldconfig (Debian GLIBC 2.36)");
    }
    (cache.build(), format)
}

/// The layout of a cache: entries, entry size, count, and the header of the new format.
struct Places {
    first: usize,
    entry: usize,
    count: usize,
    header: Option<usize>,
}

fn places(cache: &[u8], format: Format) -> Places {
    let count = |at| usize::try_from(number(cache, at)).unwrap();
    let header = match format {
        Format::New => 0,
        Format::Compat => (16 + 12 * count(12)).next_multiple_of(8),
        Format::Old => {
            return Places {
                first: 16,
                entry: 12,
                count: count(12),
                header: None,
            };
        }
    };
    Places {
        first: header + 48,
        entry: 24,
        count: count(header + 20),
        header: Some(header),
    }
}

fn number(cache: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(cache[at..at + 4].try_into().unwrap())
}

/// Changes a number by a little or a lot.
fn change(random: &mut Random, cache: &mut [u8], at: usize) -> String {
    let old = number(cache, at);
    let size = u32::try_from(cache.len()).unwrap();
    let some = u32::try_from(random.below(cache.len())).unwrap();
    let new = match random.below(8) {
        0 => 0,
        1 => u32::MAX,
        2 => old.wrapping_add(1),
        3 => old.wrapping_sub(1),
        4 => size,
        5 => size - 1,
        6 => old ^ 0x8000_0000,
        _ => some,
    };
    cache[at..at + 4].copy_from_slice(&new.to_le_bytes());
    format!("{old:#x} at {at} is {new:#x}")
}

/// Damages a cache. Returns a description.
fn damage(random: &mut Random, cache: &mut Vec<u8>, format: Format) -> String {
    let places = places(cache, format);
    let entry = |random: &mut Random| places.first + places.entry * random.below(places.count);
    let strings = places.first + places.entry * places.count;
    match random.below(12) {
        0 | 1 => {
            cache.truncate(random.below(cache.len()));
            format!("cut to {}", cache.len())
        }
        2 => {
            cache.truncate(strings + random.below(cache.len() - strings));
            format!("cut in its texts to {}", cache.len())
        }
        3 => {
            let at = places.header.map_or(12, |header| header + 20);
            change(random, cache, at)
        }
        4 => change(random, cache, 12),
        // Flags, name, path, and kernel version.
        5 | 6 => {
            let fields = if places.header.is_some() { 4 } else { 3 };
            let at = entry(random) + 4 * random.below(fields);
            change(random, cache, at)
        }
        7 => {
            let (one, other) = (entry(random), entry(random));
            for byte in 0..places.entry {
                cache.swap(one + byte, other + byte);
            }
            format!("entries at {one} and {other} are swapped")
        }
        8 => {
            let at = strings + random.below(cache.len() - strings);
            let new = random.weighted(&[(3, b'0'), (2, b'x'), (2, 0), (1, 0xff)]);
            cache[at] = new;
            format!("the byte at {at} is {new}")
        }
        9 => {
            let flags = random.weighted(&[(1, 0), (1, 1), (1, 3), (2, 4), (1, 6)]);
            cache[places.header.map_or(0, |header| header + 28)] = flags;
            format!("its flags are {flags}")
        }
        10 => match places.header.map(|header| number(cache, header + 32)) {
            Some(at) if at > 0 => {
                let at = usize::try_from(at).unwrap();
                let field = 4 * random.below((cache.len() - at).min(48) / 4);
                change(random, cache, at + field)
            }
            _ => change(random, cache, 0),
        },
        _ => {
            let at = places.header.map_or(0, |header| header + 32);
            change(random, cache, at)
        }
    }
}

/// The results of the cases.
#[derive(Default)]
struct Counts {
    as_the_loader: AtomicU64,
    open: AtomicU64,
    dies: AtomicU64,
}

#[test]
fn damaged_caches_agree_with_the_real_loader() {
    let Some(world) = World::new() else { return };
    let seeds = seeds::chosen(1, 500, 1500);
    let counts = Counts::default();
    let failures = each_seed(&seeds, |seed| check(&world, seed, &counts));
    let cases = seeds.len();
    let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "{} of {cases} damaged caches agree ({} resolve alike, {} are left open, of which {} kill the loader)",
        cases - failures.len(),
        get(&counts.as_the_loader),
        get(&counts.open),
        get(&counts.dies)
    );
    report(&failures);
}

fn check(world: &World, seed: u64, counts: &Counts) -> Result<(), String> {
    let mut random = Random::new(seed);
    let (mut bytes, format) = cache(&mut random);
    let words = if random.chance(4) {
        "nothing".to_owned()
    } else {
        damage(&mut random, &mut bytes, format)
    };
    let ran = world.judge(&bytes);
    let (resolution, open) = world.ours(&bytes);
    let mut ours = crate::loader_ours::trace(&resolution);
    if let Some(refused) = crate::loader_ours::refused(&resolution) {
        ours = vec![format!(
            "/app/prog: error while loading shared libraries: {}",
            refused.message
        )];
    }
    let mut real: Vec<String> = ran.out.lines().filter_map(traced).collect();
    if ran.status != 0 {
        real = ran.err.lines().map(ToOwned::to_owned).collect();
    }
    let agrees = ours == real && ran.status >= 0;
    if open {
        assert!(words != "nothing", "seed {seed}: an undamaged cache is open");
        counts.open.fetch_add(1, Ordering::Relaxed);
        if ran.status < 0 {
            counts.dies.fetch_add(1, Ordering::Relaxed);
        }
        return Ok(());
    }
    counts.as_the_loader.fetch_add(u64::from(agrees), Ordering::Relaxed);
    if agrees {
        return Ok(());
    }
    Err(format!(
        "seed {seed}: {format:?}, {words}\n  ours {ours:?}\n  real {real:?} {}\n",
        ran.status
    ))
}

/// A line of the trace without its address; `None` for the vDSO and the loader.
fn traced(line: &str) -> Option<String> {
    let line = line.trim();
    let line = line.rsplit_once(" (0x").map_or(line, |(head, _)| head);
    line.contains(" => ").then(|| line.to_owned())
}
