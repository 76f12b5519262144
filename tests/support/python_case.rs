//! A random image with Pythons: interpreters, environments, settings, and package folders that some interpreters use.

use std::fmt::Write as _;

use testkit::layer::Layer;

use crate::python_stubs::Stubs;
use testkit::random::Random;

/// The package folders. The test determines which of them each interpreter uses.
const FOLDERS: [&str; 13] = [
    "usr/lib/python3/dist-packages",
    "usr/local/lib/python3.11/dist-packages",
    "usr/lib/python3.11/site-packages",
    "usr/local/lib/python3.11/site-packages",
    "root/.local/lib/python3.11/site-packages",
    "home/app/.local/lib/python3.11/site-packages",
    "opt/base/lib/python3.11/site-packages",
    "opt/venv/lib/python3.11/site-packages",
    "opt/venv/lib/python3.10/site-packages",
    "opt/conda/lib/python3.11/site-packages",
    "opt/deps",
    "opt/extra",
    "app",
];
/// The folders with `.pth` files.
const WITH_PATH_FILES: [usize; 7] = [0, 1, 4, 5, 7, 9, 10];
/// The Python options that disable folders, with their weights.
const OPTIONS: [(usize, &[&str]); 6] = [
    (12, &[]),
    (1, &["-I"]),
    (1, &["-E"]),
    (1, &["-s"]),
    (1, &["-P"]),
    (1, &["-S"]),
];
const TORCH: [&str; 4] = ["2.8.0+cu128", "2.12.1", "2.15.0", "2.9.1"];
/// `_preload_cuda_deps` of the real wheels, in its order.
const LIBRARIES: &str = "cublas/libcublasLt cublas/libcublas cudnn/libcudnn cuda_nvrtc/libnvrtc \
    cuda_nvrtc/libnvrtc-builtins cuda_runtime/libcudart cuda_cupti/libcupti cufft/libcufft nvjitlink/libnvJitLink \
    cusparse/libcusparse cusparselt/libcusparseLt cusolver/libcusolver nccl/libnccl";

/// An image and the objects to test in it.
pub struct PythonCase {
    /// Its files, above a Debian.
    pub layer: Layer,
    /// The environment of its config.
    pub env: Vec<(String, String)>,
    /// The user's home, which an engine puts into the environment.
    pub home: String,
    /// `USER` of the image.
    pub user: &'static str,
    /// The working directory.
    pub working_dir: &'static str,
    /// The options for every Python.
    pub options: Vec<&'static str>,
    /// The interpreters; the first one is found through `PATH`.
    pub interpreters: Vec<&'static str>,
    /// The objects that request CUPTI.
    pub asked: Vec<Asked>,
    venv_of_conda: bool,
}

/// Debian's standard library.
pub struct StandardLibrary {
    /// The names of its modules.
    pub modules: Vec<String>,
    /// Its `site.py` without Debian's changes.
    pub plain_site: String,
}

/// An object and the way in which a Python loads it.
pub struct Asked {
    /// Its resolved path.
    pub object: String,
    /// The resolved file of the module that is imported last.
    pub module: String,
    /// The imports, in order.
    pub imports: String,
}

/// Makes the case of a seed.
pub fn make(random: &mut Random, stubs: &Stubs, library: &StandardLibrary) -> PythonCase {
    let mut case = PythonCase {
        layer: Layer::new()
            .dir("app")
            .dir("opt/deps")
            .symlink("opt/link", "deps")
            .dir("opt/cupti/lib")
            .file(
                "etc/passwd",
                "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n",
            ),
        env: Vec::new(),
        home: "/root".to_owned(),
        user: "",
        working_dir: random.weighted(&[(3, "/"), (2, "/app"), (1, "/opt")]),
        options: random.weighted(&OPTIONS).to_vec(),
        interpreters: Vec::new(),
        asked: Vec::new(),
        venv_of_conda: false,
    };
    interpreters(&mut case, random, stubs, library);
    settings(&mut case, random);
    path_files(&mut case, random);
    small_packages(&mut case, random, stubs);
    torch(&mut case, random, stubs);
    pathfinder(&mut case, random, stubs);
    case
}

impl PythonCase {
    fn add(&mut self, change: impl FnOnce(Layer) -> Layer) {
        self.layer = change(std::mem::take(&mut self.layer));
    }

    fn set(&mut self, key: &str, value: impl Into<String>) {
        self.env.push((key.to_owned(), value.into()));
    }

    /// Whether the interpreter's program is that of the prefix with the plain `site.py`.
    pub fn is_of_conda(&self, interpreter: &str) -> bool {
        interpreter.starts_with("/opt/conda") || (interpreter.starts_with("/opt/venv") && self.venv_of_conda)
    }

    /// A package's metadata, as installed by pip.
    fn distribution(&mut self, folder: &str, name: &str, version: &str) {
        let text = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
        self.add(|layer| layer.file(format!("{folder}/{name}-{version}.dist-info/METADATA"), text));
    }
}

fn interpreters(case: &mut PythonCase, random: &mut Random, stubs: &Stubs, library: &StandardLibrary) {
    let mut path = "/usr/local/bin:/usr/bin:/bin".to_owned();
    let mut found = vec!["/usr/bin/python3"];
    if random.chance(35) {
        // Like conda: a separate prefix, a plain site.py, and a program that also searches its own folder.
        let with_cupti = random.chance(30);
        case.add(|layer| {
            let layer = layer
                .executable("opt/conda/bin/python3.11", stubs.get("conda-python"))
                .symlink("opt/conda/bin/python3", "python3.11");
            let names = library.modules.iter().filter(|name| *name != "site.py");
            let layer = names.fold(layer, |layer, name| {
                let (link, target) = (
                    format!("opt/conda/lib/python3.11/{name}"),
                    format!("/usr/lib/python3.11/{name}"),
                );
                layer.symlink(link, target)
            });
            let layer = layer.file("opt/conda/lib/python3.11/site.py", &library.plain_site);
            if with_cupti {
                layer.file("opt/conda/lib/libcupti.so.12", stubs.get("cupti12"))
            } else {
                layer
            }
        });
        found.insert(usize::from(random.chance(40)), "/opt/conda/bin/python3");
    }
    if random.chance(60) {
        case.venv_of_conda = found[0].starts_with("/opt/conda");
        venv(case, random, found[0]);
        found.insert(usize::from(random.chance(30)), "/opt/venv/bin/python3");
    }
    if found[0] != "/usr/bin/python3" {
        path = format!("{}:{path}", found[0].trim_end_matches("/python3"));
    }
    case.set("PATH", path);
    // The first of `PATH` comes first, then the next one in `PATH`, then the others by path.
    let (first, others) = found.split_at(1);
    let mut others = others.to_vec();
    others.sort_by_key(|other| (*other != "/usr/bin/python3", *other));
    case.interpreters = first.iter().copied().chain(others).collect();
}

/// A virtual environment like those of venv, virtualenv and uv.
fn venv(case: &mut PythonCase, random: &mut Random, base: &str) {
    let folder = base.trim_end_matches("/python3");
    let system = random.weighted(&[(3, "false"), (2, "true"), (1, "True")]);
    let version = *random.one_of(&["version = 3.11.2", "version_info = 3.11.2.final.0", "uv = 0.4.1"]);
    let mut text = format!("home = {folder}\ninclude-system-site-packages = {system}\n{version}\n");
    if random.chance(10) {
        text = format!("HOME={folder}\n");
    }
    let with_file = !random.chance(8);
    let of_same_name = random.chance(50);
    case.add(|layer| {
        let layer = layer
            .dir("opt/venv/lib/python3.11/site-packages")
            .symlink("opt/venv/lib64", "lib");
        let layer = if of_same_name {
            layer.symlink("opt/venv/bin/python3", base)
        } else {
            layer
                .symlink("opt/venv/bin/python", base)
                .symlink("opt/venv/bin/python3", "python")
        };
        if with_file {
            layer.file("opt/venv/pyvenv.cfg", text)
        } else {
            layer
        }
    });
}

fn settings(case: &mut PythonCase, random: &mut Random) {
    if random.chance(45) {
        let paths = [
            "/opt/deps",
            "/opt/link",
            "deps",
            "/opt/deps:/opt/none",
            ":/opt/extra",
            "/opt/extra:/app/",
            "/usr/lib/python3/dist-packages",
        ];
        case.set("PYTHONPATH", random.pick(&paths));
    }
    if random.chance(15) {
        case.set("PYTHONNOUSERSITE", *random.one_of(&["1", ""]));
    }
    if random.chance(15) {
        case.set("PYTHONUSERBASE", "/opt/base");
    }
    if random.chance(40) {
        case.user = *random.one_of(&["app", "1000", "app:app", "0"]);
    }
    if case.user.starts_with("app") || case.user == "1000" {
        "/home/app".clone_into(&mut case.home);
    }
    if random.chance(15) {
        "/home/app".clone_into(&mut case.home);
        case.set("HOME", "/home/app");
    }
    if random.chance(40) {
        case.set("LD_LIBRARY_PATH", "/opt/cupti/lib");
    }
    if random.chance(10) {
        case.set("PYTHONHOME", "/usr");
    }
}

fn path_files(case: &mut PythonCase, random: &mut Random) {
    for number in WITH_PATH_FILES {
        if !random.chance(20) {
            continue;
        }
        let mut text = String::new();
        for _ in 0..=random.below(3) {
            let line = [
                "/opt/extra",
                "# /opt/deps",
                "import sys",
                "",
                "../../../../../opt/extra",
                "/opt/none",
                "/opt/deps",
                "/opt/extra \t",
            ];
            let _ = writeln!(text, "{}", random.pick(&line));
        }
        let name = *random.one_of(&["a.pth", "zz.pth", "not-one.txt"]);
        case.add(|layer| layer.file(format!("{}/{name}", FOLDERS[number]), text));
    }
}

fn small_packages(case: &mut PythonCase, random: &mut Random, stubs: &Stubs) {
    if random.chance(70) {
        case.add(|layer| layer.file("opt/cupti/lib/libcupti.so.12", stubs.get("cupti12")));
    }
    for (number, folder) in FOLDERS.into_iter().enumerate() {
        if random.chance(55) {
            let with_rpath = random.chance(40);
            package(case, random, stubs, folder, &format!("p{number}"), with_rpath);
        }
        // The same package in several folders: the first on the path wins.
        if random.chance(20) {
            package(case, random, stubs, folder, "shared", false);
        }
        if random.chance(20) {
            case.add(|layer| {
                layer.file(
                    format!("{folder}/nvidia/cuda_cupti/lib/libcupti.so.12"),
                    stubs.get("cupti12"),
                )
            });
        }
    }
}

fn package(case: &mut PythonCase, random: &mut Random, stubs: &Stubs, folder: &str, name: &str, with_rpath: bool) {
    let suffix = random.weighted(&[
        (6, "cpython-311-x86_64-linux-gnu.so"),
        (2, "abi3.so"),
        (2, "so"),
        (1, "cpython-310-x86_64-linux-gnu.so"),
    ]);
    let object = format!("{folder}/{name}/_x.{suffix}");
    let stub = stubs.get(if with_rpath { "_x-rpath" } else { "_x" });
    case.distribution(folder, name, "1.0");
    case.add(|layer| {
        layer
            .file(format!("{folder}/{name}/__init__.py"), "")
            .file(&object, stub)
    });
    case.asked.push(Asked {
        object: format!("/{object}"),
        module: format!("/{object}"),
        imports: format!("{name}._x"),
    });
}

/// PyTorch and its libraries, usually in one folder, and the extension that uses its mapped libraries.
#[expect(clippy::too_many_lines, reason = "a list of files")]
fn torch(case: &mut PythonCase, random: &mut Random, stubs: &Stubs) {
    if !random.chance(70) {
        return;
    }
    let folder = *random.one_of(&FOLDERS);
    let version = *random.one_of(&TORCH);
    let (libraries, runtime) = if random.chance(70) {
        (folder, folder)
    } else {
        (*random.one_of(&FOLDERS), *random.one_of(&FOLDERS))
    };
    let (preloads, required) = match version.split('.').nth(1).unwrap() {
        "8" | "9" => ("False", "True"),
        "12" => ("True", "True"),
        _ => ("True", "False"),
    };
    let list = LIBRARIES
        .split_whitespace()
        .fold(String::new(), |list, name| list + "'" + name + "',");
    let text = include_str!("python_torch.py")
        .replace("LIST", &list)
        .replace("PRELOADS", preloads)
        .replace("REQUIRED", required);
    let lacks = random.below(30);
    for (number, library) in LIBRARIES.split_whitespace().enumerate() {
        let (part, name) = library.split_once('/').unwrap();
        let (at, stub) = match name {
            "libcudart" => (runtime, "cudart"),
            "libcupti" => (libraries, "cupti12"),
            _ => (libraries, "other"),
        };
        let place = if random.chance(90) { "nvidia/" } else { "" };
        if number != lacks {
            case.add(|layer| layer.file(format!("{at}/{place}{part}/lib/{name}.so.12"), stubs.get(stub)));
        }
    }
    if random.chance(80) {
        case.add(|layer| {
            layer.file(
                format!("{libraries}/nvidia/cuda_cupti/lib/libnvperf_host.so"),
                stubs.get("nvperf"),
            )
        });
    }
    case.distribution(folder, "torch", version);
    let module = format!("{folder}/torch/_C.cpython-311-x86_64-linux-gnu.so");
    let object = format!("{folder}/torch/lib/libtorch_cpu.so");
    case.add(|layer| {
        layer
            .file(format!("{folder}/torch/__init__.py"), text)
            .file(&module, stubs.get("_C"))
            .file(&object, stubs.get("torch_cpu"))
            .file(format!("{folder}/torch/lib/libtorch_global_deps.so"), stubs.get("deps"))
    });
    case.asked.push(Asked {
        object: format!("/{object}"),
        module: format!("/{module}"),
        imports: "torch._C".to_owned(),
    });
    if random.chance(40) {
        // Like those of torch.utils.cpp_extension: linked with PyTorch, without a search path.
        let folder = *random.one_of(&FOLDERS);
        let object = format!("{folder}/own_op.cpython-311-x86_64-linux-gnu.so");
        case.distribution(folder, "own_op", "1.0");
        case.add(|layer| layer.file(&object, stubs.get("own_op")));
        case.asked.push(Asked {
            object: format!("/{object}"),
            module: format!("/{object}"),
            imports: "torch,own_op".to_owned(),
        });
    }
    if random.chance(60) {
        let folder = if random.chance(60) {
            folder
        } else {
            *random.one_of(&FOLDERS)
        };
        let object = format!("{folder}/nvrx_cupti_module.cpython-311-x86_64-linux-gnu.so");
        case.distribution(folder, "nvrx", "0.7.0");
        case.add(|layer| layer.file(&object, stubs.get("nvrx")));
        case.asked.push(Asked {
            object: format!("/{object}"),
            module: format!("/{object}"),
            imports: "torch,nvrx_cupti_module".to_owned(),
        });
    }
}

/// cupti-python, which uses cuda.pathfinder.
fn pathfinder(case: &mut PythonCase, random: &mut Random, stubs: &Stubs) {
    if !random.chance(40) {
        return;
    }
    let folder = *random.one_of(&FOLDERS);
    let libraries = if random.chance(70) {
        folder
    } else {
        *random.one_of(&FOLDERS)
    };
    let object = format!("{folder}/cupti/_internal/cupti.cpython-311-x86_64-linux-gnu.so");
    let first_call = "from cupti._internal.cupti import __file__\n\ndef first_call(pathfinder):\n    \
        pathfinder(['libcupti.so.13', 'libcupti.so.12'], ['nvidia/cu13/lib', 'nvidia/cuda_cupti/lib'])\n";
    case.distribution(folder, "cupti-python", "13.4.0");
    let (place, stub) = *random.one_of(&[
        ("cu13/lib/libcupti.so.13", "cupti13"),
        ("cuda_cupti/lib/libcupti.so.12", "cupti12"),
    ]);
    case.add(|layer| {
        layer
            .file(format!("{folder}/cupti/__init__.py"), "")
            .file(format!("{folder}/cupti/_internal/__init__.py"), "")
            .file(format!("{folder}/cupti/first.py"), first_call)
            .file(&object, stubs.get("pathfinder"))
            .file(format!("{libraries}/nvidia/{place}"), stubs.get(stub))
    });
    case.asked.push(Asked {
        object: format!("/{object}"),
        module: format!("/{object}"),
        imports: "cupti.first".to_owned(),
    });
}
