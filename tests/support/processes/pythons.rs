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
    let config = format!("home = {home}\ninclude-system-site-packages = false\nversion = 3.11.2\n");
    draft.put(1, &format!("{top}/pyvenv.cfg"), Content::Text(config));
    draft.put(1, &format!("{top}/bin/python"), Content::Link(link.to_owned()));
    draft.put(1, &format!("{top}/bin/python3"), Content::Link("python".to_owned()));
    Site::new(
        &format!("{top}/lib/python3.11/site-packages"),
        &format!("{top}/bin/python"),
    )
}

fn user(draft: &mut Draft) -> Site {
    let home = draft.random.pick(&["/home/app", "/root"]).to_owned();
    let user = draft.random.pick(&["app", "root", "app"]).to_owned();
    draft.spec.user = Some(user);
    Site::new(
        &format!("{home}/.local/lib/python3.11/site-packages"),
        "/usr/bin/python3",
    )
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
    let mut object = ObjectSpec {
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
        0 => object.rpath = Some(up),
        1 => object.runpath = Some(up),
        _ => {}
    }
    draft.put(1, &path, Content::Object(object));
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

/// PyTorch like its wheels up to 2.9, and a module that works once torch is imported.
fn after(draft: &mut Draft, site: &Site) {
    let rpath = "$ORIGIN/../../nvidia/cuda_cupti/lib".to_owned();
    let init = "import ctypes, os\ndeps = os.path.join(os.path.dirname(__file__), 'lib', 'libtorch_global_deps.so')\n\
                ctypes.CDLL(deps, mode=ctypes.RTLD_GLOBAL)\n";
    package(draft, site, "torch", init, Some(rpath));
    let deps = "libtorch_global_deps.so";
    draft.put(
        1,
        &format!("{}/torch/lib/{deps}", site.folder),
        object(Build::Empty, deps),
    );
    let metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 2.8.0\n".to_owned();
    draft.put(
        1,
        &format!("{}/torch-2.8.0.dist-info/METADATA", site.folder),
        Content::Text(metadata),
    );
    let path = format!("{}/nvrx_cupti_module{EXT}", site.folder);
    draft.put(1, &path, object(Build::ModuleLinks, "libcupti.so.12"));
    draft.process(&path, import(site, "torch, nvrx_cupti_module"));
}
