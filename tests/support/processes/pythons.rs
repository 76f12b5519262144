//! Python environments of every kind, with modules that get CUPTI on import.

use super::features::{leave_first, more_library};
use super::generate::{Draft, cupti, object};
use super::spec::{Build, Content, Feature, ObjectSpec};

/// The suffix of extension modules of Debian's Python.
const EXT: &str = ".cpython-311-x86_64-linux-gnu.so";
/// The base's standard library, for a separate prefix.
const STANDARD: [&str; 13] = [
    "os.py",
    "site.py",
    "types.py",
    "struct.py",
    "warnings.py",
    "encodings/__init__.py",
    "encodings/aliases.py",
    "encodings/utf_8.py",
    "encodings/ascii.py",
    "encodings/latin_1.py",
    "ctypes/__init__.py",
    "ctypes/_endian.py",
    "lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so",
];

/// A package folder and the interpreter that imports from it.
struct Site {
    folder: String,
    python: String,
    /// The options of every Python in the image.
    options: Vec<String>,
}

impl Site {
    fn new(folder: &str, python: &str) -> Self {
        Self {
            folder: folder.to_owned(),
            python: python.to_owned(),
            options: Vec::new(),
        }
    }
}

/// Adds an environment and its packages.
pub fn apply(draft: &mut Draft, feature: Feature) {
    draft.spec.python = true;
    let first = draft.spec.processes.len();
    let mut site = match feature {
        Feature::PythonSystem => system(draft),
        Feature::PythonUser => user(draft),
        Feature::PythonTarget => target(draft),
        Feature::PythonPth => pth(draft),
        Feature::PythonPrefix => prefix(draft),
        _ => venv(draft),
    };
    // The report applies the options of the config's command to all Pythons of the image.
    let is_free = draft.spec.features == [feature];
    if is_free && draft.random.chance(20) {
        let options = ["-I", "-S", "-E", "-s", "-P"];
        site.options = vec![draft.random.pick(&options).to_owned()];
    }
    let wheel = format!("{}/nvidia/cuda_cupti/lib", site.folder);
    if draft.random.chance(75) {
        draft.put(1, &format!("{wheel}/libcupti.so.12"), cupti("libcupti.so.12"));
    }
    match feature {
        Feature::PythonPreload => preload(draft, &site),
        Feature::PythonAfter => after(draft, &site),
        Feature::PythonMissing => missing(draft, &site),
        Feature::PythonImport => imports(draft, &site),
        _ => {
            for number in 0..=draft.random.below(3) {
                module(draft, &site, number);
            }
            if draft.random.chance(25) {
                opener(draft, &site);
            }
        }
    }
    if !site.options.is_empty() {
        draft.spec.processes.swap(0, first);
        draft.spec.cmd = draft.spec.processes[0].command.clone();
    } else if is_free && feature == Feature::PythonTarget && draft.random.chance(40) {
        by_script(draft, first);
    }
}

/// Starts the process through a script that sets or unsets `PYTHONPATH`.
fn by_script(draft: &mut Draft, first: usize) {
    let body = if draft.random.chance(50) {
        draft.spec.env.retain(|variable| !variable.starts_with("PYTHONPATH="));
        "export PYTHONPATH=/srv/packages"
    } else {
        "unset PYTHONPATH"
    };
    let script = "/entry-python.sh";
    draft.put(2, script, Content::Text(format!("#!/bin/sh\n{body}\nexec \"$@\"\n")));
    draft.spec.processes.swap(0, first);
    leave_first(draft);
    let process = &mut draft.spec.processes[0];
    process.command.insert(0, script.to_owned());
    draft.spec.cmd.clone_from(&process.command);
}

fn system(draft: &mut Draft) -> Site {
    let folders = [
        "/usr/lib/python3/dist-packages",
        "/usr/local/lib/python3.11/dist-packages",
    ];
    if draft.random.chance(15) {
        draft.env("PYTHONHOME", "/usr");
    }
    Site::new(draft.random.pick(&folders), "/usr/bin/python3")
}

fn venv(draft: &mut Draft) -> Site {
    let top = draft
        .random
        .pick(&["/opt/venv", "/home/app/.venv", "/srv/app/env"])
        .to_owned();
    // As if copied from a stage whose Python is in another folder, or not in this image.
    let home = draft.random.weighted(&[(8, "/usr/bin"), (1, "/opt/gone/bin")]);
    let link = draft
        .random
        .weighted(&[(8, "/usr/bin/python3"), (1, "/usr/local/bin/python3.11")]);
    let system = draft.random.weighted(&[(7, "false"), (2, "true"), (1, "True")]);
    let config = format!("home = {home}\ninclude-system-site-packages = {system}\nversion = 3.11.2\n");
    draft.put(1, &format!("{top}/pyvenv.cfg"), Content::Text(config));
    draft.put(1, &format!("{top}/bin/python"), Content::Link(link.to_owned()));
    draft.put(1, &format!("{top}/bin/python3"), Content::Link("python".to_owned()));
    let folder = match (system, link) {
        // The system's Python finds it, too, so the environment's must start.
        ("true" | "True", "/usr/bin/python3") => "/usr/local/lib/python3.11/dist-packages".to_owned(),
        _ => format!("{top}/lib/python3.11/site-packages"),
    };
    Site::new(&folder, &format!("{top}/bin/python"))
}

fn user(draft: &mut Draft) -> Site {
    let home = draft.random.pick(&["/home/app", "/root"]).to_owned();
    let user = draft.random.pick(&["app", "root", "app"]).to_owned();
    draft.spec.user = Some(user);
    let mut base = format!("{home}/.local");
    if draft.random.chance(20) {
        "/opt/base".clone_into(&mut base);
        draft.env("PYTHONUSERBASE", &base);
    }
    if draft.random.chance(20) {
        let value = draft.random.pick(&["1", ""]).to_owned();
        draft.env("PYTHONNOUSERSITE", &value);
    }
    Site::new(&format!("{base}/lib/python3.11/site-packages"), "/usr/bin/python3")
}

fn target(draft: &mut Draft) -> Site {
    let folder = "/srv/packages";
    if draft.random.chance(85) {
        draft.env("PYTHONPATH", &format!("/opt/gone:{folder}"));
    }
    Site::new(folder, "/usr/bin/python3")
}

fn pth(draft: &mut Draft) -> Site {
    let folder = "/srv/libs";
    let text = format!("# more packages\n{folder}\n");
    let site = "/usr/local/lib/python3.11/dist-packages";
    let file = draft.put(1, &format!("{site}/more.pth"), Content::Text(text));
    file.mode = Some("600".to_owned());
    if draft.random.chance(70) {
        draft.spec.layers[1][&format!("{site}/more.pth")].mode = None;
    } else {
        draft.user();
    }
    if draft.random.chance(20) {
        // Python may search the folder, but not list it.
        draft.user();
        let closed = draft.random.pick(&[folder, site]).to_owned();
        draft.put(1, &closed, Content::Dir).mode = Some("711".to_owned());
    }
    Site::new(folder, "/usr/bin/python3")
}

fn prefix(draft: &mut Draft) -> Site {
    let top = "/opt/conda";
    draft.put(
        1,
        &format!("{top}/bin/python3.11"),
        Content::Python("$ORIGIN/../lib".to_owned()),
    );
    draft.put(1, &format!("{top}/bin/python"), Content::Link("python3.11".to_owned()));
    for file in STANDARD {
        let to = format!("{top}/lib/python3.11/{file}");
        draft.put(1, &to, Content::Copy(format!("/usr/lib/python3.11/{file}")));
    }
    if draft.random.chance(60) {
        let soname = draft.soname();
        draft.put(1, &format!("{top}/lib/{soname}"), cupti(&soname));
    }
    // Debian's site module adds site-packages only in virtual environments.
    Site::new(
        &format!("{top}/lib/python3.11/dist-packages"),
        &format!("{top}/bin/python"),
    )
}

fn import(site: &Site, what: &str) -> Vec<String> {
    let program = std::iter::once(site.python.clone()).chain(site.options.clone());
    program.chain(["-c".to_owned(), format!("import {what}")]).collect()
}

/// Prints the mapped file of CUPTI.
const TELL: &str = "print('gets', next(line.split()[-1] for line in open('/proc/self/maps') if 'cupti.so' in line))\n";

/// A module whose source opens CUPTI by its name, or by a path that it computes.
fn opener(draft: &mut Draft, site: &Site) {
    let wheel = format!("{}/nvidia/cuda_cupti/lib/libcupti.so.12", site.folder);
    let call = match draft.random.below(4) {
        0 => format!("ctypes.CDLL('{wheel}')"),
        1 => "ctypes.CDLL(os.path.join(os.path.dirname(__file__), '..', 'nvidia/cuda_cupti/lib/libcupti.so.12'))"
            .to_owned(),
        2 => "ctypes.cdll.LoadLibrary('libcupti.so')".to_owned(),
        _ => "ctypes.CDLL('libcupti.so.12')".to_owned(),
    };
    let text = format!("import ctypes, os\n{call}\n{TELL}");
    let path = format!("{}/opener/__init__.py", site.folder);
    draft.put(1, &path, Content::Text(text));
    draft.process(&path, import(site, "opener"));
}

fn module(draft: &mut Draft, site: &Site, number: usize) {
    let path = format!("{}/tool{number}/probe_ext{EXT}", site.folder);
    let up = "$ORIGIN/../nvidia/cuda_cupti/lib".to_owned();
    let mut extension = ObjectSpec {
        build: if draft.random.chance(60) {
            Build::ModuleLinks
        } else {
            Build::ModuleOpens
        },
        name: draft
            .random
            .pick(&["libcupti.so.12", "libcupti.so.12", "libcupti.so"])
            .to_owned(),
        ..ObjectSpec::default()
    };
    match draft.random.below(3) {
        0 => extension.rpath = Some(up),
        1 => extension.runpath = Some(up),
        _ => {}
    }
    // The first folder of `sys.path` wins; this one is the last.
    if site.options.is_empty() && draft.random.chance(20) {
        let last = format!("/usr/lib/python3/dist-packages/tool{number}/probe_ext{EXT}");
        draft.put(0, &last, object(Build::ModuleLinks, "libcupti.so.9"));
    }
    draft.put(1, &path, Content::Object(extension));
    // Without `__init__.py`, the folder is a namespace package.
    if draft.random.chance(50) {
        let init = format!("{}/tool{number}/__init__.py", site.folder);
        draft.put(1, &init, Content::Text(String::new()));
    }
    draft.process(&path, import(site, &format!("tool{number}.probe_ext")));
}

/// A module that needs another library, which may exist. Its package may open that library first.
fn missing(draft: &mut Draft, site: &Site) {
    more_library(draft);
    let path = format!("{}/needy/probe_ext{EXT}", site.folder);
    let object = ObjectSpec {
        build: Build::ModuleLinksMore,
        name: "libcupti.so.12".to_owned(),
        runpath: Some("$ORIGIN/../nvidia/cuda_cupti/lib".to_owned()),
        ..ObjectSpec::default()
    };
    draft.put(1, &path, Content::Object(object));
    let opens = "import ctypes\ntry:\n  ctypes.CDLL('/srv/elsewhere/libmore.so.1')\nexcept OSError:\n  pass\n";
    let text = if draft.random.chance(30) { opens } else { "" };
    let init = format!("{}/needy/__init__.py", site.folder);
    draft.put(1, &init, Content::Text(text.to_owned()));
    draft.process(&path, import(site, "needy.probe_ext"));
}

/// Packages whose source imports modules that may be missing, or opens libraries that it lists; and incomplete modules.
fn imports(draft: &mut Draft, site: &Site) {
    let folder = format!("{}/nvidia/cuda_cupti/lib", site.folder);
    let lists = format!(
        "import ctypes, os\nif os.path.isdir('{folder}'):\n  for name in os.listdir('{folder}'):\n    \
         ctypes.CDLL('{folder}/' + name)\n"
    );
    let texts = [
        "import other\n",
        "import numpy\n",
        "try:\n  import numpy\nexcept ImportError:\n  pass\n",
        "import os, struct\nfrom . import probe_ext\n",
        "from .core import value\n",
        "from .there import value\n",
        "from other.sub import value\n",
        "def late():\n  import numpy\n",
        "'''\nimport numpy\n'''\n",
        lists.as_str(),
    ];
    let put =
        |draft: &mut Draft, path: String, text: &str| drop(draft.put(1, &path, Content::Text(text.to_owned())).clone());
    put(draft, format!("{}/other/__init__.py", site.folder), "import sys\n");
    for number in 0..=draft.random.below(3) {
        let folder = format!("{}/pack{number}", site.folder);
        let ending = draft
            .random
            .weighted(&[(8, EXT), (1, ".cpython-39-x86_64-linux-gnu.so"), (1, ".abi3.so")]);
        let path = format!("{folder}/probe_ext{ending}");
        let module = ObjectSpec {
            build: draft
                .random
                .weighted(&[(8, Build::ModuleLinks), (2, Build::ModuleUnbound)]),
            name: "libcupti.so.12".to_owned(),
            runpath: Some("$ORIGIN/../nvidia/cuda_cupti/lib".to_owned()).filter(|_| draft.random.chance(60)),
            ..ObjectSpec::default()
        };
        draft.put(1, &path, Content::Object(module));
        put(draft, format!("{folder}/there.py"), "value = 1\n");
        let text = draft.random.pick(&texts).to_owned();
        put(draft, format!("{folder}/__init__.py"), &text);
        draft.process(&path, import(site, &format!("pack{number}.probe_ext")));
    }
    let modes = ["4", "os.RTLD_NOLOAD | os.RTLD_NOW", "0", "os.RTLD_GLOBAL"];
    let mode = draft.random.pick(&modes).to_owned();
    let path = format!("{}/modes/__init__.py", site.folder);
    let text = format!("import ctypes, os\nctypes.CDLL('libcupti.so.12', mode={mode})\n{TELL}");
    put(draft, path.clone(), &text);
    draft.process(&path, import(site, "modes"));
    if draft.random.chance(20) {
        let extension = format!("/usr/lib/python3.11/lib-dynload/_ctypes{EXT}");
        draft.put(2, &extension, Content::Whiteout);
    }
}

/// A package whose module needs a library that links CUPTI.
fn package(draft: &mut Draft, site: &Site, name: &str, init: &str, rpath: Option<String>) {
    let library = format!("{}/{name}/lib/lib{name}_cpu.so", site.folder);
    let object = ObjectSpec {
        build: Build::LibraryLinks,
        name: "libcupti.so.12".to_owned(),
        rpath,
        ..ObjectSpec::default()
    };
    draft.put(1, &library, Content::Object(object));
    let module = ObjectSpec {
        build: Build::ModuleUsesLibrary,
        name: format!("lib{name}_cpu.so"),
        rpath: Some("$ORIGIN/lib".to_owned()),
        ..ObjectSpec::default()
    };
    draft.put(1, &format!("{}/{name}/_C{EXT}", site.folder), Content::Object(module));
    let text = format!("{init}from . import _C\n");
    draft.put(1, &format!("{}/{name}/__init__.py", site.folder), Content::Text(text));
    draft.process(&library, import(site, name));
}

/// A package whose code opens CUPTI by its path.
fn preload(draft: &mut Draft, site: &Site) {
    if draft.random.chance(30) {
        return pathfinder(draft, site);
    }
    let mode = draft
        .random
        .pick(&["ctypes.RTLD_GLOBAL", "ctypes.RTLD_LOCAL"])
        .to_owned();
    let path = match draft.random.below(3) {
        0 => "'libcupti.so.12'".to_owned(),
        1 => format!("'{}/nvidia/cuda_cupti/lib/libcupti.so.12'", site.folder),
        _ => "os.path.join(root, 'nvidia', 'cuda_cupti', 'lib', 'libcupti.so.12')".to_owned(),
    };
    let init = format!(
        "import ctypes, os\nroot = os.path.dirname(os.path.dirname(__file__))\nctypes.CDLL({path}, mode={mode})\n"
    );
    package(draft, site, "tracer", &init, None);
}

/// The libraries of `_preload_cuda_deps`, in its order.
const LIBRARIES: &str = "cublas/libcublasLt cublas/libcublas cudnn/libcudnn cuda_nvrtc/libnvrtc \
    cuda_nvrtc/libnvrtc-builtins cuda_runtime/libcudart cuda_cupti/libcupti cufft/libcufft curand/libcurand \
    nvjitlink/libnvJitLink cusparse/libcusparse cusparselt/libcusparseLt cusolver/libcusolver nccl/libnccl \
    nvshmem/libnvshmem_host cufile/libcufile";
/// Those that 2.8 does not open.
const NEWER_LIBRARIES: [&str; 4] = [
    "cublas/libcublasLt",
    "cuda_nvrtc/libnvrtc-builtins",
    "nvshmem/libnvshmem_host",
    "cufile/libcufile",
];

/// PyTorch of a release before 2.10, from 2.10, or from 2.14, and a module that works once torch is imported.
fn after(draft: &mut Draft, site: &Site) {
    let rpath = "$ORIGIN/../../nvidia/cuda_cupti/lib".to_owned();
    let versions = [
        ("2.8.0", "False", "True"),
        ("2.12.1", "True", "True"),
        ("2.15.0", "True", "False"),
    ];
    let (version, preloads, required) = *draft.random.one_of(&versions);
    let is_opened = |library: &&str| version != "2.8.0" || !NEWER_LIBRARIES.contains(library);
    let opened: Vec<&str> = LIBRARIES.split_whitespace().filter(is_opened).collect();
    let init = include_str!("torch_init.py")
        .replace("LIBRARIES", &opened.join(" "))
        .replace("PRELOADS", preloads)
        .replace("REQUIRED", required);
    package(draft, site, "torch", &init, Some(rpath));
    let lost = draft.random.below(40);
    let others = LIBRARIES.split_whitespace().enumerate();
    for (_, library) in others.filter(|(number, name)| *number != lost && !name.ends_with("libcupti")) {
        let (part, name) = library.split_once('/').unwrap();
        let path = format!("{}/nvidia/{part}/lib/{name}.so.12", site.folder);
        draft.put(1, &path, object(Build::Empty, &format!("{name}.so.12")));
    }
    if draft.random.chance(30) {
        let path = "/usr/lib/python3/dist-packages/nvidia/cuda_cupti/lib/libcupti.so.12";
        draft.put(1, path, cupti("libcupti.so.12"));
    }
    let deps = ObjectSpec {
        build: Build::Needs,
        name: "libcudart.so.12".to_owned(),
        rpath: Some("$ORIGIN/../../nvidia/cuda_runtime/lib".to_owned()),
        ..ObjectSpec::default()
    };
    let path = format!("{}/torch/lib/libtorch_global_deps.so", site.folder);
    draft.put(1, &path, Content::Object(deps));
    let metadata = format!("Metadata-Version: 2.1\nName: torch\nVersion: {version}\n");
    let path = format!("{}/torch-{version}.dist-info/METADATA", site.folder);
    draft.put(1, &path, Content::Text(metadata));
    let path = format!("{}/nvrx_cupti_module{EXT}", site.folder);
    draft.put(1, &path, object(Build::ModuleLinks, "libcupti.so.12"));
    draft.process(&path, import(site, "torch, nvrx_cupti_module"));
    if draft.random.chance(50) {
        // Like those of torch.utils.cpp_extension: linked with PyTorch, without a search path.
        let path = format!("{}/probe_ext{EXT}", site.folder);
        draft.put(1, &path, object(Build::ModuleLinksTorch, "libcupti.so.12"));
        draft.process(&path, import(site, "torch, probe_ext"));
    }
}

/// cupti-python, which asks cuda.pathfinder for CUPTI.
fn pathfinder(draft: &mut Draft, site: &Site) {
    let path = format!("{}/cupti/_internal/cupti{EXT}", site.folder);
    draft.put(1, &path, object(Build::Empty, "cupti"));
    let first = format!("{}{TELL}", include_str!("pathfinder.py"));
    for (name, text) in [("__init__", ""), ("_internal/__init__", ""), ("first", &first)] {
        let file = format!("{}/cupti/{name}.py", site.folder);
        draft.put(1, &file, Content::Text(text.to_owned()));
    }
    if draft.random.chance(40) {
        let newer = format!("{}/nvidia/cu13/lib/libcupti.so.13", site.folder);
        draft.put(1, &newer, cupti("libcupti.so.13"));
    }
    draft.process(&path, import(site, "cupti.first"));
}
