//! Python environments of every kind, with modules that get CUPTI when they are imported.

use super::generate::{Draft, cupti, object};
use super::spec::{Build, Content, Feature, ObjectSpec};

/// What ends the name of a module of Debian's Python.
const EXT: &str = ".cpython-311-x86_64-linux-gnu.so";
/// The standard library of the base, for a prefix of its own.
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

/// Where packages lie, and who imports them.
struct Site {
    folder: String,
    python: String,
}

/// Adds an environment and its packages.
pub fn apply(draft: &mut Draft, feature: Feature) {
    draft.spec.python = true;
    let site = match feature {
        Feature::PythonSystem => system(draft),
        Feature::PythonUser => user(draft),
        Feature::PythonTarget => target(draft),
        Feature::PythonPth => pth(draft),
        Feature::PythonPrefix => prefix(draft),
        _ => venv(draft),
    };
    let wheel = format!("{}/nvidia/cuda_cupti/lib", site.folder);
    if draft.random.chance(75) {
        draft.put(1, &format!("{wheel}/libcupti.so.12"), cupti("libcupti.so.12"));
    }
    match feature {
        Feature::PythonPreload => preload(draft, &site),
        Feature::PythonAfter => after(draft, &site),
        _ => {
            for number in 0..=draft.random.below(3) {
                module(draft, &site, number);
            }
        }
    }
}

fn system(draft: &mut Draft) -> Site {
    let folders = [
        "/usr/lib/python3/dist-packages",
        "/usr/local/lib/python3.11/dist-packages",
    ];
    Site {
        folder: draft.random.pick(&folders).to_owned(),
        python: "/usr/bin/python3".to_owned(),
    }
}

fn venv(draft: &mut Draft) -> Site {
    let top = draft
        .random
        .pick(&["/opt/venv", "/home/app/.venv", "/srv/app/env"])
        .to_owned();
    let config = "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n";
    draft.put(1, &format!("{top}/pyvenv.cfg"), Content::Text(config.to_owned()));
    draft.put(
        1,
        &format!("{top}/bin/python"),
        Content::Link("/usr/bin/python3".to_owned()),
    );
    draft.put(1, &format!("{top}/bin/python3"), Content::Link("python".to_owned()));
    Site {
        folder: format!("{top}/lib/python3.11/site-packages"),
        python: format!("{top}/bin/python"),
    }
}

fn user(draft: &mut Draft) -> Site {
    let home = draft.random.pick(&["/home/app", "/root"]).to_owned();
    let user = draft.random.pick(&["app", "root", "app"]).to_owned();
    draft.spec.user = Some(user);
    Site {
        folder: format!("{home}/.local/lib/python3.11/site-packages"),
        python: "/usr/bin/python3".to_owned(),
    }
}

fn target(draft: &mut Draft) -> Site {
    let folder = "/srv/packages";
    if draft.random.chance(85) {
        draft.env("PYTHONPATH", &format!("/opt/gone:{folder}"));
    }
    Site {
        folder: folder.to_owned(),
        python: "/usr/bin/python3".to_owned(),
    }
}

fn pth(draft: &mut Draft) -> Site {
    let folder = "/srv/libs";
    let text = format!("# more packages\n{folder}\n");
    draft.put(
        1,
        "/usr/local/lib/python3.11/dist-packages/more.pth",
        Content::Text(text),
    );
    Site {
        folder: folder.to_owned(),
        python: "/usr/bin/python3".to_owned(),
    }
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
    Site {
        // Debian's site module has no site-packages but in virtual environments.
        folder: format!("{top}/lib/python3.11/dist-packages"),
        python: format!("{top}/bin/python"),
    }
}

fn import(site: &Site, what: &str) -> Vec<String> {
    vec![site.python.clone(), "-c".to_owned(), format!("import {what}")]
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
    // Without it the folder is a package as well.
    if draft.random.chance(50) {
        let init = format!("{}/tool{number}/__init__.py", site.folder);
        draft.put(1, &init, Content::Text(String::new()));
    }
    draft.process(&path, import(site, &format!("tool{number}.probe_ext")));
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
    let init = format!(
        "import ctypes, os\nroot = os.path.dirname(os.path.dirname(__file__))\n\
         ctypes.CDLL(os.path.join(root, 'nvidia', 'cuda_cupti', 'lib', 'libcupti.so.12'), mode={mode})\n"
    );
    package(draft, site, "tracer", &init, None);
}

/// PyTorch as its wheels were up to 2.9, and a module that works once it is imported.
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
