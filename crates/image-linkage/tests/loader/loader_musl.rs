//! Does our musl search agree with the real `ld-musl` on generated file systems?
//!
//! A seed creates a small root file system, an environment and a program. Debian's musl 1.2 lists and starts the
//! program, and a compiled program opens libraries; ours reads the same files. Loaded objects, their order and paths,
//! failures and messages must be equal. `CUPTI_AUDIT_CASES=FIRST-LAST` selects other seeds.

#[path = "../support/musl_questions.rs"]
mod musl_questions;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use testkit::seeds::{self, each_seed, report};

use crate::loader_tools::{Ran, Tools};
use crate::musl_case::{Case, LOADER};
use crate::musl_ours::text;
use image_linkage::layer::LayerIndex;
use image_linkage::loader::{
    Arch, CpuLevel, DynamicLoader, Libc, LoadResolution, LoaderEnvironment, ProcessSetup, SimulatedProcess, StartMode,
};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{FileCredentials, Rootfs};
use testkit::layer::Layer;

/// The real loader.
struct Judge {
    tools: Tools,
    loader: PathBuf,
    /// The loader, as a layer.
    base: LayerIndex,
}

impl Judge {
    /// Builds the judge; `None`, with a message, if a part is missing.
    fn new() -> Option<Self> {
        let tools = Tools::new()?;
        let Ok(loader) = fs::canonicalize(LOADER) else {
            crate::support::missing(&format!("{LOADER} (Debian package musl)"));
            return None;
        };
        let base = Layer::new().executable(&LOADER[1..], fs::read(&loader).unwrap());
        Some(Self {
            base: crate::loader_tree::index(&base),
            tools,
            loader,
        })
    }

    /// Fills a new root with the case and the loader.
    fn root(&self, case: &Case) -> tempfile::TempDir {
        let root = self.tools.folder();
        let at = root.path();
        for folder in ["proc/self", "lib", "etc", "opt/a", "usr/bin", "app/bin"] {
            fs::create_dir_all(at.join(folder)).unwrap();
        }
        // The loader reads /proc/self/exe; without procfs a plain link works as well.
        symlink(case.program.1, at.join("proc/self/exe")).unwrap();
        fs::copy(&self.loader, at.join(&LOADER[1..])).unwrap();
        case.write(at);
        root
    }

    /// The root as ours reads it.
    fn read(&self, root: &Path) -> Rootfs {
        let case = crate::loader_tree::read(root, &["proc", &LOADER[1..]]);
        crate::loader_tree::merge([&self.base, &case])
    }

    fn list(&self, case: &Case, root: &Path) -> Ran {
        let program = [LOADER, "--list", case.program.0];
        self.tools.run(root, case.working_dir, &variables(case), &program)
    }

    fn start(&self, case: &Case, root: &Path) -> Ran {
        let program = [case.program.0];
        self.tools.run(root, case.working_dir, &variables(case), &program)
    }
}

fn variables(case: &Case) -> Vec<String> {
    let own = [("LD_LIBRARY_PATH", &case.library_path), ("LD_PRELOAD", &case.preload)];
    own.iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)))
        .collect()
}

/// Runs a simulated process in a root.
fn process<T>(rootfs: &Rootfs, case: &Case, act: impl FnOnce(&mut SimulatedProcess<'_>) -> T) -> T {
    let arch = Arch::of_platform("amd64").unwrap();
    let linker = DynamicLoader::find_default(rootfs, arch, CpuLevel::V1).unwrap();
    assert_eq!((linker.libc, &linker.problems), (Libc::Musl, &Vec::new()));
    let bytes = |text: &String| text.as_bytes().into();
    let environment = LoaderEnvironment {
        library_path: case.library_path.as_ref().map(bytes),
        preload: case.preload.as_ref().map(bytes),
        working_dir: case.working_dir.as_bytes().into(),
        ..LoaderEnvironment::default()
    };
    let setup = ProcessSetup {
        rootfs,
        linker: &linker,
        environment: &environment,
        user: &FileCredentials::default(),
        cpu: CpuLevel::V1,
        from_driver: &|_| false,
    };
    act(&mut SimulatedProcess::new(&setup))
}

/// Compares one case. Returns a description of the difference.
fn check(judge: &Judge, case: &Case) -> Result<LoadResolution, String> {
    let root = judge.root(case);
    let rootfs = judge.read(root.path());
    let ours = |start| process(&rootfs, case, |process| process.start(case.program.0.as_bytes(), start));
    let listed = ours(StartMode::Listed);
    let started = ours(StartMode::Executed);
    compare(case, &listed, &judge.list(case, root.path()), StartMode::Listed)?;
    let ran = judge.start(case, root.path());
    compare(case, &started, &ran, StartMode::Executed)?;
    Ok(started)
}

fn compare(case: &Case, ours: &LoadResolution, ran: &Ran, start: StartMode) -> Result<(), String> {
    if crate::musl_ours::dies(ours) && ran.status == -7 {
        return Ok(());
    }
    let fails = if ours.loads() { 0 } else { 127 };
    let list = match start {
        StartMode::Listed => crate::musl_ours::list(ours, case),
        StartMode::Executed => Vec::new(),
    };
    let expected = (list, crate::musl_ours::errors(ours), fails);
    let mut errors: Vec<String> = ran.err.lines().map(crate::musl_ours::shortened).collect();
    // An object that cannot be relocated may have many relocations.
    errors.dedup_by(|one, other| one == other && one.starts_with("Error relocating "));
    let real: Vec<String> = ran.out.lines().filter_map(listed).collect();
    let real = (real, errors, ran.status);
    if expected == real {
        return Ok(());
    }
    Err(format!("{case}{start:?}\n  ours {expected:?}\n  real {real:?}\n"))
}

/// A line of the list without its address; `None` for the loader, which is first.
fn listed(line: &str) -> Option<String> {
    let line = line.trim();
    let line = line.rsplit_once(" (").map_or(line, |(head, _)| head);
    line.contains(" => ").then(|| line.to_owned())
}

#[test]
fn generated_cases_agree_with_the_real_musl() {
    let Some(judge) = Judge::new() else { return };
    let (first, last) = seeds::chosen(1, 500, 1500);
    let [loaded, refused] = [AtomicU64::new(0), AtomicU64::new(0)];
    let failures = each_seed(first, last, |seed| {
        let ours = check(&judge, &crate::musl_case::make(seed))?;
        if ours.loads() {
            loaded.fetch_add(1, Ordering::Relaxed);
        } else if crate::musl_ours::refuses(&ours) {
            refused.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    let cases = last + 1 - first;
    println!(
        "{} of {cases} generated musl cases agree ({} load, {} meet a refused file)",
        cases - failures.len() as u64,
        loaded.load(Ordering::Relaxed),
        refused.load(Ordering::Relaxed)
    );
    report(&failures);
}

/// Linker flags for the search paths of a program or caller.
const PATHS: [&str; 4] = [
    "",
    "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib:/opt/a",
    "-Wl,--enable-new-dtags,-rpath,/opt/b:$ORIGIN",
    "-Wl,--disable-new-dtags,-rpath,/opt/$LIB:/opt/a/sub",
];

#[test]
fn generated_dlopens_agree_with_the_real_musl() {
    let Some(judge) = Judge::new().filter(|_| crate::support::have("musl-gcc", "musl-tools")) else {
        return;
    };
    let build = |name, more: &[&str]| {
        PATHS.map(|path| {
            let flags = [&[path], more].concat();
            let flags: Vec<&str> = flags.into_iter().filter(|flag| !flag.is_empty()).collect();
            fs::read(judge.tools.compile("musl-gcc", name, &flags)).unwrap()
        })
    };
    let programs = build("opener", &[]);
    let callers = build("caller", &["-shared", "-fPIC"]);
    let (first, last) = seeds::chosen(1, 200, 500);
    let loaded = AtomicU64::new(0);
    let failures = each_seed(first, last, |seed| {
        let nth = usize::try_from(seed).unwrap();
        let program = programs[nth % 4].clone();
        let caller = callers[nth / 4 % 4].clone();
        let case = crate::musl_case::make_open(seed, program, caller);
        check_open(&judge, &case, &loaded)
    });
    let cases = last + 1 - first;
    println!(
        "{} of {cases} generated dlopens of musl agree ({} open everything)",
        cases - failures.len() as u64,
        loaded.load(Ordering::Relaxed)
    );
    report(&failures);
}

/// Compares a sequence of dlopen calls. Every third program calls dlopen itself.
fn check_open(judge: &Judge, case: &Case, loaded: &AtomicU64) -> Result<(), String> {
    let root = judge.root(case);
    let caller = match case.seed % 3 {
        0 => "-",
        _ => "/app/caller/libcaller.so",
    };
    let mut words = vec![case.program.0, caller];
    words.extend(case.names.iter().map(String::as_str));
    let ran = judge.tools.run(root.path(), case.working_dir, &variables(case), &words);
    let ours = process(&judge.read(root.path()), case, |process| open(process, case, caller));
    if ours.last().is_some_and(|line| line.starts_with("map ")) {
        loaded.fetch_add(1, Ordering::Relaxed);
    }
    let hidden = ["map ", &format!("map {LOADER}"), "map /app/bin/prog"];
    let real = ran.out.lines().chain(ran.err.lines());
    let real: Vec<String> = real
        .filter(|line| !hidden.contains(line))
        .map(|line| match line.strip_prefix("error ") {
            Some(words) => format!("error {}", crate::musl_ours::shortened(words)),
            None => line.to_owned(),
        })
        .collect();
    let dies = ours.last().is_some_and(|line| line.contains("SIGBUS"));
    if (dies && ran.status == -7) || ours == real {
        return Ok(());
    }
    let names = &case.names;
    Err(format!(
        "{case}  {caller} opens {names:?}\n  ours {ours:?}\n  real {real:?}\n"
    ))
}

/// Our mapped objects, in the program's output format.
fn open(process: &mut SimulatedProcess<'_>, case: &Case, caller: &str) -> Vec<String> {
    let mut last = process.start(case.program.0.as_bytes(), StartMode::Executed);
    let mut from = process.map_of_path(&RootPath::new(case.program.1.as_bytes()));
    if caller != "-" {
        last = process.open(caller.as_bytes(), from);
        from = process.map_of_path(&RootPath::new(caller.as_bytes()));
    }
    let mut lines = Vec::new();
    for name in &case.names {
        last = process.open(name.as_bytes(), from);
        if let Some(error) = crate::musl_ours::errors(&last).first() {
            lines.push(format!("error {error}"));
            return lines;
        }
        let root = &last.objects[last.root.unwrap()];
        lines.push(format!("opened {}", text(&root.path)));
    }
    let mapped = last.objects.iter().skip(1);
    let mapped = mapped.filter(|object| *object.path != *LOADER.as_bytes());
    lines.extend(mapped.map(|object| format!("map {}", text(&object.path))));
    lines
}

#[test]
fn is_static_tls_only_available_at_program_start() {
    let Some(judge) = Judge::new().filter(|_| crate::support::have("musl-gcc", "musl-tools")) else {
        return;
    };
    let program = fs::read(judge.tools.compile("musl-gcc", "opener", &[])).unwrap();
    for (model, loads) in [
        ("-ftls-model=global-dynamic", true),
        ("-ftls-model=initial-exec", false),
    ] {
        let library = judge
            .tools
            .compile("musl-gcc", "static_tls", &["-shared", "-fPIC", model]);
        let case = crate::musl_case::make_open(1, program.clone(), Vec::new());
        let root = judge.tools.folder();
        let at = root.path();
        for folder in ["lib", "app/bin"] {
            fs::create_dir_all(at.join(folder)).unwrap();
        }
        fs::copy(&judge.loader, at.join(&LOADER[1..])).unwrap();
        fs::copy(library, at.join("lib/libtls.so")).unwrap();
        crate::loader_tree::write_file(&at.join("app/bin/prog"), &program);
        let words = ["/app/bin/prog", "-", "/lib/libtls.so"];
        let ran = judge.tools.run(at, "/", &[], &words);
        let ours = process(&judge.read(at), &case, |process| {
            process.start(b"/app/bin/prog", StartMode::Executed);
            process.open(b"/lib/libtls.so", None).unresolved.is_empty()
        });
        assert_eq!((ran.out.contains("opened "), ours), (loads, loads), "{ran:?}");
    }
}
