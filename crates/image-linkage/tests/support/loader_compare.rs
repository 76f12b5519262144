//! Compares one case: the real loader and `ldconfig` with ours.

use std::fmt::Debug;
use std::path::Path;

use image_linkage::loader::LdCache;
use image_linkage::loader::{
    LoadResolution, SearchStage, SimulatedProcess, StartMode, UnresolvedRequest, run_ldconfig,
};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};

use super::loader_case::{CALLER, CacheFormat, Case, PROGRAM};
use super::loader_judge;
use super::loader_ours;
use super::loader_tools::Ran;
use super::loader_world::World;

/// A difference between both.
#[derive(Debug)]
pub struct Difference {
    /// The affected step.
    pub step: Step,
    /// Both results.
    pub text: String,
}

/// A step of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The cache and links of `ldconfig`.
    Ldconfig,
    /// The start of the program.
    Start,
    /// The loaded objects, in order.
    Trace,
    /// The dlopen calls.
    Open,
}

/// Our result of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The program starts, and all dlopen calls succeed.
    Loads,
    /// Something is missing.
    Misses,
    /// Something cannot be loaded.
    MeetsRefused,
    /// Only a version or the ISA level is missing.
    LacksVersion,
}

/// Compares all steps. A step that builds on a differing one is skipped.
pub fn compare(world: &World, case: &Case) -> Result<End, Difference> {
    let root = world.judge.root(case);
    let root = root.path();
    if let Some(format) = case.ldconfig {
        compare_ldconfig(world, case, root, format)?;
        loader_judge::change(case, root);
    }
    let rootfs = world.rootfs(case, root);
    if case.opens.is_some() {
        return compare_open(world, case, root, &rootfs);
    }
    let machine = world.machine(case);
    let linker = machine.linker(&rootfs);
    assert!(linker.problems.is_empty() || case.damage.is_some());
    let resolution = machine.start(&rootfs, &linker, case, StartMode::Executed);
    compare_start(world, case, root, &resolution)?;
    let trace = Some("LD_TRACE_LOADED_OBJECTS=1");
    compare_traced(case, &resolution, &world.judge.start(case, root, trace))?;
    // `$ORIGIN` differs if the program is an argument of the loader.
    let listed = machine.start(&rootfs, &linker, case, StartMode::Listed);
    compare_traced(case, &listed, &world.judge.list(case, root))?;
    Ok(match () {
        () if resolution.loads() => End::Loads,
        () if loader_ours::refused(&resolution).is_some() => End::MeetsRefused,
        () if loader_ours::fatal(&resolution).is_some() => End::Misses,
        () => End::LacksVersion,
    })
}

/// Fails if both results differ.
fn same<T: PartialEq + Debug>(step: Step, ours: &T, real: &T, ran: &Ran) -> Result<(), Difference> {
    if ours == real {
        return Ok(());
    }
    let text = format!("{step:?}\n  ours {ours:#?}\n  real {real:#?}\n  {ran:?}\n");
    Err(Difference { step, text })
}

/// Really runs the program: it exits with 0, or the loader prints an error.
fn compare_start(world: &World, case: &Case, root: &Path, resolution: &LoadResolution) -> Result<(), Difference> {
    let ran = world.judge.start(case, root, Some("LD_BIND_NOW=1"));
    let ours: Vec<String> = resolution.preload_warnings.iter().map(ignored).collect();
    same(Step::Start, &ours, &warnings(&ran), &ran)?;
    let mut expected = Vec::new();
    match loader_ours::fatal(resolution) {
        Some(fatal) if fatal.message.contains("SIGBUS") => {
            return same(Step::Start, &-7, &ran.status, &ran);
        }
        Some(fatal) => expected.push(format!("error while loading shared libraries: {}", fatal.message)),
        None => expected.extend(loader_ours::versions(resolution)),
    }
    if expected.is_empty() {
        expected.extend(loader_ours::level(resolution));
    }
    let runs = ran.status == 0 || ran.err.trim_end().ends_with(CALLOC);
    let ours = (expected.is_empty(), expected);
    same(Step::Start, &ours, &(runs, own_errors(&ran, case)), &ran)
}

fn compare_traced(case: &Case, resolution: &LoadResolution, ran: &Ran) -> Result<(), Difference> {
    if let Some(refused) = loader_ours::refused(resolution) {
        if refused.message.contains("SIGBUS") && ran.status == -7 {
            return Ok(());
        }
        let expected = format!("error while loading shared libraries: {}", refused.message);
        return same(Step::Trace, &vec![expected], &own_errors(ran, case), ran);
    }
    let mut real: Vec<String> = ran.out.lines().filter_map(traced).collect();
    let mut ours = loader_ours::trace(resolution);
    if case.has_filters() {
        // A filtee precedes its filter; missing libraries are listed last.
        ours = loader_ours::in_order(resolution);
        real.retain(|line| !line.ends_with(" => not found"));
    }
    let errors = own_errors(ran, case).into_iter();
    // A missing library is replaced by a dummy with every version.
    let (expected, errors) = match loader_ours::fatal(resolution) {
        Some(_) => (
            Vec::new(),
            errors.filter(|line| !line.contains(": version `")).collect(),
        ),
        None => (loader_ours::versions(resolution), errors.collect()),
    };
    same(Step::Trace, &(ours, expected), &(real, errors), ran)
}

/// A line of the trace without its address; `None` for the vDSO and the loader.
pub fn traced(line: &str) -> Option<String> {
    let line = line.trim();
    let line = line.rsplit_once(" (0x").map_or(line, |(head, _)| head);
    let (name, path) = line.split_once(" => ").unwrap_or((line, line));
    let own = ["linux-vdso.so.1", "/lib64/ld-linux-x86-64.so.2", "statically linked"].contains(&name);
    (!own).then(|| format!("{name} => {path}"))
}

/// The symbol that the loader needs from a C library if it is a dependency itself. The roots have none, and it is
/// looked up after loading.
const CALLOC: &str = "undefined symbol: calloc, version GLIBC_2.2.5";

/// The loader's errors about the program, without warnings.
pub fn own_errors(ran: &Ran, case: &Case) -> Vec<String> {
    let own = |line| -> Option<&str> {
        if str::ends_with(line, loader_ours::LEVEL) {
            return Some(line);
        }
        line.strip_prefix(case.program())?.strip_prefix(": ")
    };
    let lines = ran.err.lines().filter_map(own);
    let warning = |line: &&str| !line.contains("no version information available") && !line.contains("weak version `");
    lines
        .filter(warning)
        .filter(|line| !line.ends_with(CALLOC))
        .map(ToOwned::to_owned)
        .collect()
}

/// The warnings about failed preloads: name and reason.
pub fn warnings(ran: &Ran) -> Vec<String> {
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

/// Our warning in the same words, without the system error.
pub fn ignored(missing: &UnresolvedRequest) -> String {
    let (_, reason) = missing.message.split_once(": ").unwrap();
    let reason = match reason.split_once(": ") {
        Some((reason, _)) if reason.starts_with("cannot ") => reason,
        _ => reason,
    };
    format!("{}: {reason}", loader_ours::text(&missing.name))
}

/// Compares the cache and links of `ldconfig`. They remain in the root.
fn compare_ldconfig(world: &World, case: &Case, root: &Path, format: CacheFormat) -> Result<(), Difference> {
    let before = world.rootfs(case, root);
    let machine = world.machine(case);
    let made = run_ldconfig(&before, &machine.linker(&before), Vec::new());
    let links_made = links(&made.apply(&before, 1));
    let mut ours = (printed(&made.cache), links_made);
    let ran = world.judge.ldconfig(root, &["-c", format.name()]);
    let real = real_cache(world, root);
    let after = world.rootfs(case, root);
    let real = (real, links(&after));
    if format == CacheFormat::Old {
        // Only the writer of the old format handles hardware entries here, and no container runtime uses it.
        ours.0.clone_from(&real.0);
    }
    same(Step::Ldconfig, &subtract(&ours, &real), &subtract(&real, &ours), &ran)?;
    let linker = machine.linker(&after);
    let as_read = printed(linker.cache.as_deref().unwrap());
    same(Step::Ldconfig, &as_read, &real.0, &ran)
}

type Made = (Vec<String>, Vec<String>);

/// The lines that are only in the first.
fn subtract(from: &Made, other: &Made) -> Made {
    let less = |from: &[String], other: &[String]| {
        let only = from.iter().filter(|line| !other.contains(line));
        only.cloned().collect()
    };
    (less(&from.0, &other.0), less(&from.1, &other.1))
}

/// Compares a sequence of dlopen calls.
fn compare_open(world: &World, case: &Case, root: &Path, rootfs: &Rootfs) -> Result<End, Difference> {
    let ours = opened(world, rootfs, case);
    let ran = world.judge.open(case, root);
    let dies = ours.last().is_some_and(|line| line.ends_with("SIGBUS"));
    if !(dies && ran.status == -7) {
        same(Step::Open, &ours, &real_opened(&ran), &ran)?;
    }
    Ok(match ours.last() {
        Some(last) if last.starts_with("map ") => End::Loads,
        _ => End::Misses,
    })
}

/// The output of the program that calls dlopen, without the objects of every process.
pub fn real_opened(ran: &Ran) -> Vec<String> {
    let hidden = ["map ", "map linux-vdso.so.1", "map /lib64/ld-linux-x86-64.so.2"];
    let lines = ran.out.lines().filter(|line| !hidden.contains(line));
    lines.map(ToOwned::to_owned).collect()
}

/// Our mapped objects, in the program's output format.
fn opened(world: &World, rootfs: &Rootfs, case: &Case) -> Vec<String> {
    let machine = world.machine(case);
    let linker = machine.linker(rootfs);
    machine.with_process(rootfs, &linker, case, |process| open_all(process, case))
}

fn open_all(process: &mut SimulatedProcess<'_>, case: &Case) -> Vec<String> {
    let opens = case.opens.as_ref().unwrap();
    let mut last = process.start(PROGRAM.as_bytes(), StartMode::Executed);
    if let Some(fatal) = loader_ours::fatal(&last) {
        return vec![fatal.message.clone()];
    }
    let number = |process: &SimulatedProcess<'_>, path: &str| process.map_of_path(&RootPath::new(path.as_bytes()));
    let mut from = number(process, PROGRAM);
    if opens.through.is_some() {
        last = process.open(CALLER.as_bytes(), from);
        from = number(process, CALLER);
    }
    let mut lines = Vec::new();
    for name in &opens.names {
        last = process.open(name.as_bytes(), from);
        if let Some(missing) = last.unresolved.first() {
            lines.push(format!("error {}", missing.message));
            return lines;
        }
        let root = &last.objects[last.root.unwrap()];
        lines.push(format!("opened {}", loader_ours::text(&root.path)));
    }
    let mapped = last.objects.iter().skip(1);
    let mapped = mapped.filter(|object| object.how != SearchStage::Interpreter);
    lines.extend(mapped.map(|object| format!("map {}", loader_ours::text(&object.path))));
    lines
}

/// The sorted lines of `ldconfig -p`.
pub fn real_cache(world: &World, root: &Path) -> Vec<String> {
    let list = world.judge.ldconfig(root, &["-p"]);
    let mut lines: Vec<String> = list.out.lines().filter_map(|line| cached(line.trim())).collect();
    lines.sort();
    lines
}

/// The sorted entries of the cache.
pub fn printed(cache: &LdCache) -> Vec<String> {
    let mut lines: Vec<String> = cache
        .iter()
        .map(|(name, entry)| format!("{} => {}", loader_ours::text(name), loader_ours::text(&entry.path)))
        .collect();
    lines.sort();
    lines
}

/// An entry in the output of `ldconfig -p`.
fn cached(line: &str) -> Option<String> {
    let (name, path) = line.split_once(" => ")?;
    Some(format!("{} => {path}", name.split(" (").next()?))
}

/// All symbolic links of a file system.
pub fn links(rootfs: &Rootfs) -> Vec<String> {
    let mut links = Vec::new();
    rootfs.visit(|path, _, node| {
        if let NodeKind::Symlink(target) = &node.kind {
            links.push(format!("{path} -> {}", loader_ours::text(target)));
        }
    });
    links
}
