//! Compares the audit of `libnvperf_host.so`, which libcupti opens by its bare name, with the real `ld.so`.
//!
//! The real libcupti opens it only if there is a GPU. The test therefore uses a stub with libcupti's soname, which
//! opens the same name and has no search path either.

use crate::chroot::{Answer, Root};
use crate::cupti_parts::{object, patched, program};
use crate::judge::Judge;
use image_linkage::elf::ByteString;
use image_linkage::loader::{
    Arch, CpuLevel, DynamicLoader, LoaderEnvironment, ProcessSetup, SimulatedProcess, StartMode,
};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{self, FileCredentials, Rootfs};
use testkit::layer::Layer;

const PROBE: &str = include_str!("../support/probe.c");
const STAND_IN: &str = "#include <dlfcn.h>
void *open_nvperf(void) { return dlopen(\"libnvperf_host.so\", RTLD_LAZY); }";
const NEEDS: &str = "void *open_nvperf(void); void *ask(void) { return open_nvperf(); }";
const OPENS: &str = "#include <dlfcn.h>
void *ask(void) {
  void *cupti = dlopen(NAME, RTLD_LAZY);
  void *(*open_nvperf)(void) = cupti ? dlsym(cupti, \"open_nvperf\") : 0;
  return open_nvperf ? open_nvperf() : 0;
}";
const FOLDER: &str = "opt/lib/nvidia/cuda_cupti/lib";
const RPATH: &str = "-Wl,--disable-new-dtags,-rpath,/opt/lib/nvidia/cuda_cupti/lib";
const RUNPATH: &str = "-Wl,--enable-new-dtags,-rpath,/opt/lib/nvidia/cuda_cupti/lib";

/// How a process loads libcupti, and whether it then finds the adjacent library.
struct Row {
    name: &'static str,
    env: &'static [(&'static str, &'static str)],
    consumer: Consumer,
    /// Linker arguments for the consumer, and for the program.
    links: (&'static [&'static str], &'static [&'static str]),
    cupti_rpath: Option<&'static str>,
    found: bool,
}

/// How the consumer requests libcupti.
#[derive(Clone, Copy)]
enum Consumer {
    Needs,
    Opens(&'static str),
}

const SONAME: Consumer = Consumer::Opens("libcupti.so.12");
const PATH: Consumer = Consumer::Opens("/opt/lib/nvidia/cuda_cupti/lib/libcupti.so.12");
const PLAIN: Row = Row {
    name: "",
    env: &[],
    consumer: Consumer::Needs,
    links: (&[], &[]),
    cupti_rpath: None,
    found: false,
};
const LIBRARY_PATH: &[(&str, &str)] = &[("LD_LIBRARY_PATH", "/opt/lib/nvidia/cuda_cupti/lib")];

const ROWS: [Row; 8] = [
    Row {
        name: "LD_LIBRARY_PATH names the folder",
        env: LIBRARY_PATH,
        consumer: SONAME,
        found: true,
        ..PLAIN
    },
    Row {
        name: "the consumer needs libcupti and has DT_RPATH (PyTorch)",
        links: (&[RPATH], &[]),
        found: true,
        ..PLAIN
    },
    Row {
        name: "the program has DT_RPATH and the consumer opens libcupti",
        consumer: SONAME,
        links: (&[], &[RPATH]),
        found: true,
        ..PLAIN
    },
    Row {
        name: "libcupti has DT_RPATH $ORIGIN (conda-forge)",
        consumer: PATH,
        cupti_rpath: Some("$ORIGIN"),
        found: true,
        ..PLAIN
    },
    Row {
        name: "the consumer needs libcupti and has DT_RUNPATH",
        links: (&[RUNPATH], &[]),
        ..PLAIN
    },
    Row {
        name: "the consumer opens libcupti and has DT_RUNPATH (TensorFlow)",
        consumer: SONAME,
        links: (&[RUNPATH], &[]),
        ..PLAIN
    },
    Row {
        name: "the consumer opens libcupti and has DT_RPATH (JAX)",
        consumer: SONAME,
        links: (&[RPATH], &[]),
        ..PLAIN
    },
    Row {
        name: "libcupti is opened by its path",
        consumer: PATH,
        ..PLAIN
    },
];

#[test]
fn nvperf_is_found_as_the_real_loader_finds_it() {
    if !crate::cupti_parts::are_there() {
        return;
    }
    for row in &ROWS {
        let (root, rootfs) = build(row);
        let judge = Judge {
            root: &root,
            env: row.env,
            working_dir: "/",
        };
        let real = judge.open("/opt/bin/program", "/opt/lib/libconsumer.so", Some("ask"));
        let real = path_alone(real);
        let found = matches!(&real, Answer::Opened { path, .. } if path.ends_with("/libnvperf_host.so"));
        assert_eq!((ours(row, &rootfs), found), (real, row.found), "{}", row.name);
    }
    println!(
        "{} of {} ways to libnvperf_host.so agree with the real loader",
        ROWS.len(),
        ROWS.len()
    );
}

fn build(row: &Row) -> (Root, Rootfs) {
    let cupti = object(STAND_IN, &["-Wl,-soname,libcupti.so.12"]);
    let cupti = match row.cupti_rpath {
        Some(rpath) => patched(&cupti, &["--force-rpath", "--set-rpath", rpath]),
        None => cupti,
    };
    let file = tempfile::Builder::new().suffix(".so").tempfile().unwrap();
    std::fs::write(file.path(), &cupti).unwrap();
    let consumer = match row.consumer {
        Consumer::Needs => object(NEEDS, &[row.links.0, &[file.path().to_str().unwrap()]].concat()),
        Consumer::Opens(name) => object(OPENS, &[row.links.0, &[&format!("-DNAME=\"{name}\"")]].concat()),
    };
    let mut root = Root::new(b"");
    let layer = Layer::new()
        .file(format!("{FOLDER}/libcupti.so.12"), cupti)
        .file(
            format!("{FOLDER}/libnvperf_host.so"),
            crate::cupti_parts::cupti_12("libnvperf_host.so"),
        )
        .file("opt/lib/libconsumer.so", consumer)
        .executable("opt/bin/program", program(PROBE, row.links.1));
    root.add(&layer);
    let (rootfs, _) = rootfs::merge_layers(&root.layers);
    (root, rootfs)
}

/// Simulates the audit's loader: start the program, open the consumer, load libcupti, and open the name from it.
fn ours(row: &Row, rootfs: &Rootfs) -> Answer {
    let arch = Arch::of_platform("amd64").unwrap();
    let linker = DynamicLoader::find_default(rootfs, arch, CpuLevel::V3).unwrap();
    let library_path = row.env.first().map(|(_, value)| ByteString::from(value.as_bytes()));
    let environment = LoaderEnvironment {
        library_path,
        ..LoaderEnvironment::default()
    };
    let setup = ProcessSetup {
        rootfs,
        linker: &linker,
        environment: &environment,
        user: &FileCredentials::default(),
        cpu: CpuLevel::V3,
        from_driver: &|_| false,
    };
    let mut process = SimulatedProcess::new(&setup);
    process.start(b"/opt/bin/program", StartMode::Executed);
    process.open(b"/opt/lib/libconsumer.so", None);
    if let Consumer::Opens(name) = row.consumer {
        let consumer = process.map_of_path(&RootPath::from("opt/lib/libconsumer.so"));
        process.open(name.as_bytes(), consumer);
    }
    let cupti = process.map_of_path(&RootPath::from(format!("{FOLDER}/libcupti.so.12").as_str()));
    let resolution = process.open(b"libnvperf_host.so", cupti);
    path_alone(crate::judge::ours(&resolution))
}

fn path_alone(answer: Answer) -> Answer {
    match answer {
        Answer::Opened { path, .. } => Answer::Opened {
            path,
            objects: Vec::new(),
        },
        other => other,
    }
}
