//! Do our loader and the real one agree on file systems that nobody thought of?
//!
//! A seed makes a small root file system with an environment and a program. The real `ld.so` and `ldconfig`
//! of a Debian run in it; ours reads the same files. What they load, in which order, from where, what they
//! miss and the words they say about it have to be the same. A failing seed is printed with its case;
//! `CUPTI_AUDIT_CASES=FIRST-LAST` runs others.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the judge is the real loader, run in a root; tests may panic"
)]

#[path = "support/loader_case.rs"]
mod loader_case;
#[path = "support/loader_judge.rs"]
mod loader_judge;
#[path = "support/loader_ours.rs"]
mod loader_ours;
#[path = "support/loader_questions.rs"]
mod loader_questions;
#[path = "support/loader_random.rs"]
mod loader_random;
#[path = "support/loader_seeds.rs"]
mod loader_seeds;
#[path = "support/loader_tools.rs"]
mod loader_tools;
#[path = "support/loader_tree.rs"]
mod loader_tree;
mod support;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use cupti_audit::layer::LayerIndex;
use cupti_audit::loader::cache::Cache;
use cupti_audit::loader::{
    Arch, CpuLevel, Environment, Hardware, How, Linker, Process, Resolution, Setup, Start, ldconfig,
};
use cupti_audit::path::RootPath;
use cupti_audit::rootfs::{NodeKind, Rootfs};
use loader_case::Case;
use loader_judge::{DEBIAN_LIBC, Judge, LIBC, LOADER, OWN};
use loader_seeds::{each_seed, report};
use loader_tools::Ran;
use testkit::layer::Layer;

/// What all cases of a run share.
struct World {
    judge: Judge,
    /// The loader, as a layer.
    base: LayerIndex,
    machine: Processor,
}

/// This machine, as the real loader sees it.
pub struct Processor {
    /// Its level.
    pub cpu: CpuLevel,
    /// What else the loader finds of it.
    pub hardware: Hardware,
}

/// The loader of a root on a machine.
fn linker_of(rootfs: &Rootfs, machine: &Processor) -> Linker {
    let arch = Arch::of_platform("amd64").unwrap();
    let mut linker = Linker::find(rootfs, arch, machine.cpu).unwrap();
    linker.run_on(&machine.hardware);
    linker
}

impl World {
    /// A world in which these files of a Debian, besides the loader, are in every root.
    fn new(files: &[(&str, &str)]) -> Option<Self> {
        let judge = Judge::new()?;
        let root = judge.root(&loader_case::make(0));
        let mut base = Layer::new().symlink("lib64/ld-linux-x86-64.so.2", format!("/{LOADER}"));
        for (from, to) in [("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", LOADER)]
            .iter()
            .chain(files)
        {
            base = base.executable(to, judge.read(from));
        }
        Some(Self {
            machine: machine(&judge, root.path()),
            base: loader_tree::index(&base),
            judge,
        })
    }

    fn rootfs(&self, root: &Path) -> Rootfs {
        let case = loader_tree::read(root, &[OWN[0], OWN[1], LOADER, LIBC]);
        loader_tree::merge([&self.base, &case])
    }
}

/// What the real loader says of this machine's processor.
fn machine(judge: &Judge, root: &Path) -> Processor {
    let loader = format!("/{LOADER}");
    let help = judge.run(root, "/", &[], &[&loader, "--help"]);
    let searched = |name| {
        help.out
            .contains(&format!("x86-64-{name} (supported, searched)"))
    };
    let cpu = match () {
        () if searched("v4") => CpuLevel::V4,
        () if searched("v3") => CpuLevel::V3,
        () if searched("v2") => CpuLevel::V2,
        () => CpuLevel::V1,
    };
    let diagnostics = judge.run(root, "/", &[], &[&loader, "--list-diagnostics"]);
    let platform = diagnostics
        .out
        .lines()
        .find_map(|line| line.strip_prefix("dl_platform="));
    let platform = platform.unwrap().trim_matches('"');
    let searched = |name: &&str| {
        help.out
            .contains(&format!("  {name} (supported, searched)"))
    };
    let capabilities = ["avx512_1"].into_iter().filter(searched).chain(["x86_64"]);
    let hardware = Hardware {
        platform: platform.as_bytes().into(),
        capabilities: capabilities.map(|name| name.as_bytes().into()).collect(),
    };
    Processor { cpu, hardware }
}

/// How many cases agree, by question.
#[derive(Default)]
struct Counts {
    cases: AtomicU64,
    starts: AtomicU64,
    ldconfigs: AtomicU64,
    loaded: AtomicU64,
    missing: AtomicU64,
    refused: AtomicU64,
    versions: AtomicU64,
}

fn bump(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn generated_cases_agree_with_the_real_loader() {
    let Some(world) = World::new(&[]) else { return };
    let (first, last) = loader_seeds::asked().unwrap_or((1, 2000));
    let counts = Counts::default();
    let failures = each_seed(first, last, |seed| {
        check(&world, &loader_case::make(seed), &counts)
    });
    let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "{} of {} generated cases agree ({} load, {} miss something, {} meet a refused file, {} lack a version), ldconfig {} of {}",
        get(&counts.cases) - failures.len() as u64,
        get(&counts.cases),
        get(&counts.loaded),
        get(&counts.missing),
        get(&counts.refused),
        get(&counts.versions),
        get(&counts.ldconfigs),
        get(&counts.starts),
    );
    report(&failures);
}

#[test]
fn generated_dlopens_agree_with_the_real_loader() {
    let Some(world) = World::new(&[(DEBIAN_LIBC, LIBC)]) else {
        return;
    };
    let (programs, callers) = world.judge.openers();
    let (first, last) = loader_seeds::asked().unwrap_or((1, 500));
    let loaded = AtomicU64::new(0);
    let failures = each_seed(first, last, |seed| {
        let nth = usize::try_from(seed).unwrap();
        let program = programs[nth % programs.len()].clone();
        let caller = callers[nth / programs.len() % callers.len()].clone();
        check_open(
            &world,
            &loader_case::make_open(seed, program, caller),
            &loaded,
        )
    });
    let cases = last + 1 - first;
    println!(
        "{} of {cases} generated dlopens agree ({} open everything)",
        cases - failures.len() as u64,
        loaded.load(Ordering::Relaxed)
    );
    report(&failures);
}

/// Compares what a program opens, one name after the other; every third program opens them itself.
fn check_open(world: &World, case: &Case, loaded: &AtomicU64) -> Result<(), String> {
    let root = world.judge.root(case);
    let root = root.path();
    world.judge.take(DEBIAN_LIBC, &root.join(LIBC));
    if case.ldconfig {
        world.judge.ldconfig(root, &[]);
        loader_judge::change(case, root);
    }
    let caller = match case.seed % 3 {
        0 => "-",
        _ => "/app/caller/libcaller.so",
    };
    let ran = world.judge.open(case, root, caller);
    let ours = open(world, &world.rootfs(root), case, caller);
    if ours.last().is_some_and(|line| line.starts_with("map ")) {
        bump(loaded);
    }
    let dies = ours.last().is_some_and(|line| line.ends_with("SIGBUS"));
    let hidden = [
        "map ",
        "map linux-vdso.so.1",
        "map /lib64/ld-linux-x86-64.so.2",
    ];
    let real: Vec<&str> = ran
        .out
        .lines()
        .filter(|line| !hidden.contains(line))
        .collect();
    if (dies && ran.status == -7) || ours == real {
        return Ok(());
    }
    let names = &case.names;
    Err(format!(
        "{case}  {caller} opens {names:?}\n{}",
        difference("dlopen", &ours, &real, &ran)
    ))
}

/// What our process maps, in the words of the program.
fn open(world: &World, rootfs: &Rootfs, case: &Case, caller: &str) -> Vec<String> {
    let linker = linker_of(rootfs, &world.machine);
    let environment = environment(case);
    let setup = Setup {
        rootfs,
        linker: &linker,
        environment: &environment,
        cpu: world.machine.cpu,
        from_driver: &|_| false,
    };
    let mut process = Process::new(&setup);
    let started = process.start(case.program.0.as_bytes(), Start::Executed);
    if let Some(fatal) = loader_ours::fatal(&started) {
        return vec![fatal.message.clone()];
    }
    let number =
        |process: &Process<'_>, path: &str| process.caller(&RootPath::new(path.as_bytes()));
    let mut from = number(&process, case.program.1);
    let mut last = started;
    if caller != "-" {
        last = process.open(caller.as_bytes(), from);
        from = number(&process, caller);
    }
    let mut lines = Vec::new();
    for name in &case.names {
        last = process.open(name.as_bytes(), from);
        if let Some(missing) = last.unresolved.first() {
            lines.push(format!("error {}", missing.message));
            return lines;
        }
        let root = &last.objects[last.root.unwrap()];
        lines.push(format!("opened {}", loader_ours::text(&root.path)));
    }
    let mapped = last.objects.iter().skip(1);
    let mapped = mapped.filter(|object| object.how != How::Interpreter);
    lines.extend(mapped.map(|object| format!("map {}", loader_ours::text(&object.path))));
    lines
}

/// Compares one case; the difference in words, with the case.
fn check(world: &World, case: &Case, counts: &Counts) -> Result<(), String> {
    bump(&counts.cases);
    let root = world.judge.root(case);
    let root = root.path();
    if case.ldconfig {
        bump(&counts.starts);
        compare_ldconfig(world, root).map_err(|difference| format!("{case}{difference}"))?;
        bump(&counts.ldconfigs);
        loader_judge::change(case, root);
    }
    let rootfs = world.rootfs(root);
    let resolution = start(&world.machine, &rootfs, case, Start::Executed);
    let mut differences = compare_start(world, case, root, &resolution);
    differences.push_str(&compare_trace(world, case, root, &resolution));
    differences.push_str(&compare_list(world, case, root, &rootfs));
    if resolution.loads() {
        bump(&counts.loaded);
    } else if loader_ours::refused(&resolution).is_some() {
        bump(&counts.refused);
    } else if loader_ours::fatal(&resolution).is_some() {
        bump(&counts.missing);
    } else {
        bump(&counts.versions);
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(format!("{case}{differences}"))
}

fn start(machine: &Processor, rootfs: &Rootfs, case: &Case, start: Start) -> Resolution {
    let linker = linker_of(rootfs, machine);
    assert!(linker.problems.is_empty() || case.damage.is_some());
    let environment = environment(case);
    let setup = Setup {
        rootfs,
        linker: &linker,
        environment: &environment,
        cpu: machine.cpu,
        from_driver: &|_| false,
    };
    Process::new(&setup).start(case.program.0.as_bytes(), start)
}

fn environment(case: &Case) -> Environment {
    let bytes = |text: &String| text.as_bytes().into();
    Environment {
        library_path: case.library_path.as_ref().map(bytes),
        preload: case.preload.as_ref().map(bytes),
        working_dir: case.working_dir.as_bytes().into(),
    }
}

fn difference(
    what: &str,
    ours: &impl std::fmt::Debug,
    real: &impl std::fmt::Debug,
    ran: &Ran,
) -> String {
    format!("{what}\n  ours {ours:?}\n  real {real:?}\n  {ran:?}\n")
}

/// The program run for good: it exits with 0, or the loader says why not.
fn compare_start(world: &World, case: &Case, root: &Path, resolution: &Resolution) -> String {
    let ran = world.judge.start(case, root, Some("LD_BIND_NOW=1"));
    let warnings = warnings(&ran);
    let ours: Vec<String> = resolution.preload_warnings.iter().map(ignored).collect();
    let mut out = String::new();
    if ours != warnings {
        out = difference("preload warnings", &ours, &warnings, &ran);
    }
    let mut expected = Vec::new();
    match loader_ours::fatal(resolution) {
        Some(fatal) if fatal.message.contains("SIGBUS") => {
            return out
                + &if ran.status == -7 {
                    String::new()
                } else {
                    difference("SIGBUS", &fatal, &ran.status, &ran)
                };
        }
        Some(fatal) => expected.push(format!(
            "error while loading shared libraries: {}",
            fatal.message
        )),
        None => expected.extend(loader_ours::versions(resolution)),
    }
    let real: Vec<String> = own_errors(&ran, case);
    let runs = ran.status == 0 || ran.err.trim_end().ends_with(CALLOC);
    if expected != real || runs != expected.is_empty() {
        out.push_str(&difference("start", &expected, &real, &ran));
    }
    out
}

/// The trace: what is loaded from where, in order, and what is not found.
fn compare_trace(world: &World, case: &Case, root: &Path, resolution: &Resolution) -> String {
    let trace = Some("LD_TRACE_LOADED_OBJECTS=1");
    compare_traced(case, resolution, &world.judge.start(case, root, trace))
}

/// The same of the program as an argument of the loader: what its `$ORIGIN` is differs.
fn compare_list(world: &World, case: &Case, root: &Path, rootfs: &Rootfs) -> String {
    let resolution = start(&world.machine, rootfs, case, Start::Listed);
    compare_traced(case, &resolution, &world.judge.list(case, root))
}

fn compare_traced(case: &Case, resolution: &Resolution, ran: &Ran) -> String {
    if let Some(refused) = loader_ours::refused(resolution) {
        let expected = format!("error while loading shared libraries: {}", refused.message);
        let dies = refused.message.contains("SIGBUS") && ran.status == -7;
        if dies || own_errors(ran, case) == [expected] {
            return String::new();
        }
        return difference("trace", refused, &"", ran);
    }
    let real: Vec<String> = ran.out.lines().filter_map(traced).collect();
    let ours = loader_ours::trace(resolution);
    // Where something is missing, its place is taken by an object that has every version.
    let versions = match loader_ours::fatal(resolution) {
        Some(_) => own_errors(ran, case)
            .into_iter()
            .filter(|line| !line.contains(": version `"))
            .collect(),
        None => own_errors(ran, case),
    };
    let expected = match loader_ours::fatal(resolution) {
        Some(_) => Vec::new(),
        None => loader_ours::versions(resolution),
    };
    if ours != real || versions != expected {
        return difference("trace", &(ours, expected), &(real, versions), ran);
    }
    String::new()
}

/// A line of the trace without its address; the kernel's object and the loader itself are no part of it.
fn traced(line: &str) -> Option<String> {
    let line = line.trim();
    let line = line.rsplit_once(" (0x").map_or(line, |(head, _)| head);
    let (name, path) = line.split_once(" => ").unwrap_or((line, line));
    let own = name == "linux-vdso.so.1" || name == "/lib64/ld-linux-x86-64.so.2";
    (!own).then(|| format!("{name} => {path}"))
}

/// The symbol that a loader which is needed by name wants of a C library, which the roots do not have. It is
/// looked up after everything is loaded.
const CALLOC: &str = "undefined symbol: calloc, version GLIBC_2.2.5";

/// What the loader says in the program's name: its errors, without its warnings.
fn own_errors(ran: &Ran, case: &Case) -> Vec<String> {
    let lines = ran
        .err
        .lines()
        .filter_map(|line| line.strip_prefix(case.program.0));
    let lines = lines.filter_map(|line| line.strip_prefix(": "));
    let warning = |line: &&str| {
        !line.contains("no version information available") && !line.contains("weak version `")
    };
    lines
        .filter(warning)
        .filter(|line| !line.ends_with(CALLOC))
        .map(ToOwned::to_owned)
        .collect()
}

/// The warnings about libraries that cannot be preloaded: the name and the reason.
fn warnings(ran: &Ran) -> Vec<String> {
    let lines = ran
        .err
        .lines()
        .filter_map(|line| line.strip_prefix("ERROR: ld.so: object '"));
    lines
        .filter_map(|line| {
            let (name, rest) = line.split_once("' from ")?;
            let (_, reason) = rest.split_once(" cannot be preloaded (")?;
            Some(format!("{name}: {}", reason.strip_suffix("): ignored.")?))
        })
        .collect()
}

/// Our warning in the same words, which have no system error behind them.
fn ignored(missing: &cupti_audit::loader::Unresolved) -> String {
    let (_, reason) = missing.message.split_once(": ").unwrap();
    let reason = match reason.split_once(": ") {
        Some((reason, _)) if reason.starts_with("cannot ") => reason,
        _ => reason,
    };
    format!("{}: {reason}", loader_ours::text(&missing.name))
}

/// Compares the cache and the links that `ldconfig` makes, which stay made in the root.
fn compare_ldconfig(world: &World, root: &Path) -> Result<(), String> {
    let before = world.rootfs(root);
    let linker = linker_of(&before, &world.machine);
    let regenerated = ldconfig::regenerate(&before, &linker);
    let ours = (
        printed(&regenerated.cache),
        links(&ldconfig::with_links(&before, &regenerated, 1)),
    );
    let ran = world.judge.ldconfig(root, &[]);
    let real = real_cache(world, root);
    let after = world.rootfs(root);
    let real = (real, links(&after));
    if ours != real {
        return Err(difference(
            "ldconfig",
            &subtract(&ours, &real),
            &subtract(&real, &ours),
            &ran,
        ));
    }
    let linker = linker_of(&after, &world.machine);
    let as_read = printed(linker.cache.as_ref().unwrap());
    if as_read != real.0 {
        return Err(difference(
            "the cache as we read it",
            &as_read,
            &real.0,
            &ran,
        ));
    }
    Ok(())
}

/// What `ldconfig -p` prints, a line an entry, sorted.
fn real_cache(world: &World, root: &Path) -> Vec<String> {
    let list = world.judge.ldconfig(root, &["-p"]);
    let mut lines: Vec<String> = list
        .out
        .lines()
        .filter_map(|line| cached(line.trim()))
        .collect();
    lines.sort();
    lines
}

type Made = (Vec<String>, Vec<String>);

fn subtract(from: &Made, other: &Made) -> Made {
    let less = |from: &[String], other: &[String]| {
        from.iter()
            .filter(|line| !other.contains(line))
            .cloned()
            .collect()
    };
    (less(&from.0, &other.0), less(&from.1, &other.1))
}

/// The cache, a line an entry, sorted.
fn printed(cache: &Cache) -> Vec<String> {
    let mut lines: Vec<String> = cache
        .iter()
        .map(|(name, entry)| {
            format!(
                "{} => {}",
                loader_ours::text(name),
                loader_ours::text(&entry.path)
            )
        })
        .collect();
    lines.sort();
    lines
}

/// An entry that `ldconfig -p` prints.
fn cached(line: &str) -> Option<String> {
    let (name, path) = line.split_once(" => ")?;
    Some(format!("{} => {path}", name.split(" (").next()?))
}

/// All symbolic links of a file system.
fn links(rootfs: &Rootfs) -> Vec<String> {
    let mut links = Vec::new();
    rootfs.visit(|path, _, node| {
        if let NodeKind::Symlink(target) = &node.kind {
            links.push(format!("{path} -> {}", loader_ours::text(target)));
        }
    });
    links
}
