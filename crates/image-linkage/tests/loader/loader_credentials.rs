//! Do our access checks and our handling of secure-execution mode agree with the kernel and the real loader?
//!
//! A seed creates a root with owners, modes, set-user-ID, set-group-ID and capabilities, a glibc or musl program, and a
//! user who runs it. The program really runs in a chroot as that user. Ours reads a tar of the same root, written by
//! GNU tar with xattrs. `CUPTI_AUDIT_CASES=FIRST-LAST` selects other seeds.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::credential_case::{Case, Compiled, Library, own_files};
use crate::loader_tools::{Ran, Tools};
use image_linkage::layer::{ExpectedBlob, IndexOptions, LayerIndex, index_layer};
use image_linkage::loader::{
    Arch, CpuLevel, DynamicLoader, LoadResolution, LoaderEnvironment, ProcessSetup, SimulatedProcess, StartMode,
};
use image_linkage::rootfs::{self, FileCredentials, Rootfs};
use testkit::seeds;

/// The real kernel and loaders.
struct Judge {
    tools: Tools,
    /// The helper that runs a program as a given user.
    as_user: PathBuf,
    /// A directory for compiled programs.
    work: tempfile::TempDir,
    library: Vec<u8>,
    programs: Mutex<HashMap<Compiled, Vec<u8>>>,
    /// The common files of every root, as a layer.
    bases: [LayerIndex; 2],
}

impl Judge {
    /// Builds the judge; `None`, with a message, if a part is missing.
    fn new() -> Option<Self> {
        let tools = Tools::new()?;
        let needed = [("musl-gcc", "musl-tools"), ("setcap", "libcap2-bin"), ("tar", "tar")];
        if !crate::support::have_all(&needed) {
            return None;
        }
        let as_user = tools.compile("gcc", "as_user", &["-static"]);
        let work = tools.folder();
        let empty = work.path().join("empty.c");
        std::fs::write(&empty, "").unwrap();
        let made = work.path().join("libw.so");
        run(Command::new("gcc")
            .args(["-shared", "-nostdlib", "-o"])
            .arg(&made)
            .arg(&empty));
        let bases = [Library::Glibc, Library::Musl].map(|library| {
            let root = tools.folder();
            base(root.path(), library);
            index(root.path(), &[])
        });
        let library = std::fs::read(made).unwrap();
        let programs = Mutex::default();
        Some(Self {
            tools,
            as_user,
            work,
            library,
            programs,
            bases,
        })
    }

    fn program(&self, compiled: &Compiled) -> Vec<u8> {
        let mut programs = self.programs.lock().unwrap();
        let build = || {
            let driver = match compiled.library {
                Library::Glibc => "gcc",
                Library::Musl => "musl-gcc",
            };
            let stub = self.work.path().join("stub.so");
            let mut flags = vec!["-Wl,--no-as-needed".to_owned()];
            if let Some(name) = compiled.needs {
                let mut link = Command::new("gcc");
                link.args(["-shared", "-nostdlib", "-o"])
                    .arg(&stub)
                    .arg(self.work.path().join("empty.c"));
                run(link.arg(format!("-Wl,-soname,{name}")));
                flags.push(stub.to_string_lossy().into_owned());
            }
            flags.extend(
                compiled
                    .search
                    .map(|(what, path)| format!("-Wl,--{what}-new-dtags,-rpath,{path}")),
            );
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            std::fs::read(self.tools.compile(driver, "ask", &flags)).unwrap()
        };
        programs.entry(compiled.clone()).or_insert_with(build).clone()
    }

    fn root(&self, case: &Case) -> tempfile::TempDir {
        let root = self.tools.folder();
        std::fs::set_permissions(root.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        base(root.path(), case.compiled.library);
        case.write(root.path(), &self.program(&case.compiled), &self.library);
        if case.has_cache {
            std::fs::write(root.path().join("etc/ld.so.conf"), "/cached\n").unwrap();
            run(Command::new("/sbin/ldconfig").arg("-r").arg(root.path()));
        }
        case.close(root.path());
        root
    }

    fn start(&self, case: &Case, root: &Path) -> Ran {
        let (uid, gid, groups) = case.user;
        let variables = case.variables();
        let mut command = Command::new(&self.as_user);
        command
            .arg(root)
            .args([uid.to_string(), gid.to_string(), groups.to_owned()]);
        command
            .arg(variables.len().to_string())
            .args(variables)
            .arg(case.program)
            .args(&case.opens);
        crate::loader_tools::ran(&mut command)
    }
}

fn base(root: &Path, library: Library) {
    for (from, to) in own_files(library) {
        let to = root.join(to);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, to).unwrap();
    }
}

/// The root as a layer, written by GNU tar.
fn index(root: &Path, without: &[&str]) -> LayerIndex {
    let mut tar = Command::new("tar");
    tar.args([
        "--format=posix",
        "--numeric-owner",
        "--xattrs",
        "--xattrs-include=security.capability",
    ]);
    tar.args(without.iter().map(|path| format!("--exclude=./{path}")));
    let output = tar.arg("-C").arg(root).args(["-cf", "-", "."]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    index_layer(
        "root",
        &*output.stdout,
        &ExpectedBlob::default(),
        &IndexOptions::default(),
    )
    .unwrap()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The output we predict for the program, or its error message.
fn ours(rootfs: &Rootfs, case: &Case) -> Result<Vec<String>, String> {
    let arch = Arch::of_platform("amd64").unwrap();
    let interpreter = own_files(case.compiled.library)[0].1;
    let linker = DynamicLoader::read_at(rootfs, format!("/{interpreter}").as_bytes(), arch, CpuLevel::V1).unwrap();
    let bytes = |text: &str| text.as_bytes().into();
    let environment = LoaderEnvironment {
        library_path: case.library_path.map(bytes),
        preload: case.preload.map(bytes),
        working_dir: bytes("/"),
        ..LoaderEnvironment::default()
    };
    let (uid, gid, groups) = case.user;
    let user = FileCredentials {
        uid,
        gid,
        groups: groups.split(',').filter_map(|group| group.parse().ok()).collect(),
        reads_all: uid == 0,
        ..FileCredentials::default()
    };
    let setup = ProcessSetup {
        rootfs,
        linker: &linker,
        environment: &environment,
        user: &user,
        cpu: CpuLevel::V1,
        from_driver: &|_| false,
    };
    let mut process = SimulatedProcess::new(&setup);
    let started = process.start(case.program.as_bytes(), StartMode::Executed);
    if let Some(failure) = started.unresolved.first() {
        let words = failure.message.split_once(": it has file capabilities");
        return Err(words.map_or(failure.message.as_str(), |(words, _)| words).to_owned());
    }
    let caller = process.map_of_path(&case.program.into());
    let mut lines = vec![paths(&started, case)];
    for name in &case.opens {
        let opened = process.open(name.as_bytes(), caller);
        let found = opened.root.map(|root| text(&opened.objects[root].path));
        lines.push(found.unwrap_or_else(|| opened.unresolved[0].message.clone()));
    }
    Ok(lines)
}

/// The objects except the program, its C library and the loader.
fn paths(resolution: &LoadResolution, case: &Case) -> String {
    let paths = resolution.objects.iter().map(|object| text(&object.path));
    let is_own = |path: &str| path.contains("linux-gnu") || path.contains("ld-") || path == case.program;
    paths.filter(|path| !is_own(path)).collect::<Vec<_>>().join(" ")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The real output of the program, or its error message.
fn real(ran: &Ran, case: &Case) -> Result<Vec<String>, String> {
    if ran.status == 0 {
        let mut lines: Vec<String> = ran.out.lines().map(str::to_owned).collect();
        let first = lines[0].split(' ').filter(|path| *path != case.program);
        lines[0] = first.collect::<Vec<_>>().join(" ");
        return Ok(lines);
    }
    let mut said = ran.err.lines().filter(|line| !line.starts_with("ERROR: ld.so: object"));
    let said = said.next().unwrap_or_default();
    let words = said.split_once("error while loading shared libraries: ");
    Err(words.map_or(said, |(_, words)| words).to_owned())
}

fn check(judge: &Judge, case: &Case) -> Result<bool, String> {
    let root = judge.root(case);
    let base = &judge.bases[usize::from(case.compiled.library == Library::Musl)];
    let own = own_files(case.compiled.library).map(|(_, to)| to);
    let layer = index(root.path(), &[own[0], own[1], "proc"]);
    let (rootfs, problems) = rootfs::merge_layers([base, &layer]);
    assert_eq!(problems, []);
    let (ours, real) = (ours(&rootfs, case), real(&judge.start(case, root.path()), case));
    if ours == real {
        return Ok(real.is_ok());
    }
    Err(format!("{case}  ours {ours:?}\n  real {real:?}"))
}

#[test]
fn access_and_secure_execution_agree_with_the_real_loader() {
    let Some(judge) = Judge::new() else { return };
    let seeds = seeds::chosen(1, 200, 600);
    let started = AtomicUsize::new(0);
    let failures = seeds::each_seed(&seeds, |seed| {
        let is_started = check(&judge, &Case::new(seed))?;
        started.fetch_add(usize::from(is_started), Ordering::Relaxed);
        Ok(())
    });
    let started = started.load(Ordering::Relaxed);
    println!("{} programs run as their users, {started} of them started", seeds.len());
    seeds::report(&failures);
}
