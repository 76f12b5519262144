//! Tests for search paths that Debian's Python does not have. `tests/real_parts/real_pythons.rs` compares the others
//! with a real Python.

use testkit::elf::Elf;
use testkit::layer::Layer;

use image_linkage::layer::{ExpectedBlob, index_layer};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{FileCredentials, Rootfs, merge_layers};
use python_path::{PythonEnvironment, PythonSettings, PythonUse, SettingSources, is_interpreter_name};

/// CPython's own site.py only has `site-packages`.
const PLAIN: &str = "sitepackages.append(path)";

fn rootfs(layer: &Layer) -> Rootfs {
    let options = crate::knowledge::file_interest::cupti_options();
    let index = index_layer("x", layer.tar().as_slice(), &ExpectedBlob::default(), &options).unwrap();
    merge_layers([&index]).0
}

fn python(layer: Layer, path: &str) -> Layer {
    layer.executable(path, Elf::executable().build())
}

/// Checks which interpreter and site import an object, or why none does.
fn check(layer: Layer, env: &[(&str, &'static str)], object: &str, expected: Result<(&str, &str), &str>) {
    check_started(layer, &[], env, object, expected);
}

/// Same, with the command of the image.
fn check_started(
    layer: Layer,
    command: &[&str],
    env: &[(&str, &'static str)],
    object: &str,
    expected: Result<(&str, &str), &str>,
) {
    let layer = layer.file(object, Elf::library("x.so").build());
    let rootfs = rootfs(&layer);
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
    let settings = PythonSettings::read(
        &rootfs,
        SettingSources {
            variables: &env.iter().map(pair).collect(),
            command: &command,
            working_dir: "/",
            credentials: &FileCredentials::default(),
        },
    );
    let mut candidates: Vec<RootPath> = Vec::new();
    rootfs.visit(|path, _, _| {
        if is_interpreter_name(path.name()) {
            candidates.push(path.clone());
        }
    });
    let environment = PythonEnvironment::read(&rootfs, &candidates, &settings, &[]);
    let used = super::import_object(&environment, &rootfs, &object.into()).map(|found| match found {
        Ok(imported) => imported.used_by(),
        Err(why) => why,
    });
    let said = match used {
        Some(PythonUse::Imported { interpreter, site }) => Ok((interpreter.to_string(), site.to_string())),
        Some(PythonUse::Unreachable { why, .. }) => Err(why),
        None => Err("no part of a package".to_owned()),
    };
    let expected = expected.map(|(path, site)| (path.to_owned(), site.to_owned()));
    assert_eq!(said, expected.map_err(str::to_owned), "{object}");
}

#[test]
fn fedora_looks_into_lib64_and_usr_local() {
    let fedora = || {
        python(Layer::new(), "usr/bin/python3.12")
            .symlink("usr/bin/python3", "python3.12")
            .file("usr/lib64/python3.12/os.py", "")
            .file("usr/lib64/python3.12/site.py", "if 'RPM_BUILD_ROOT' not in os.environ:")
            .dir("usr/lib/python3.12/site-packages")
    };
    for site in [
        "usr/lib64/python3.12/site-packages",
        "usr/lib/python3.12/site-packages",
        "usr/local/lib64/python3.12/site-packages",
        "usr/local/lib/python3.12/site-packages",
    ] {
        let object = format!("{site}/p/x.so");
        check(fedora(), &[], &object, Ok(("/usr/bin/python3", &format!("/{site}"))));
    }
    let object = "usr/lib/python3.11/site-packages/p/x.so";
    let why = "no Python of the image has /usr/lib/python3.11/site-packages on its path";
    check(fedora(), &[], object, Err(why));
}

#[test]
fn a_build_without_the_global_lock_has_folders_and_names_of_its_own() {
    let free = || {
        python(Layer::new(), "usr/local/bin/python3.13t")
            .file("usr/local/lib/python3.13t/os.py", "")
            .file("usr/local/lib/python3.13t/site.py", PLAIN)
    };
    let site = "usr/local/lib/python3.13t/site-packages";
    let found = Ok(("/usr/local/bin/python3.13t", "/usr/local/lib/python3.13t/site-packages"));
    check(
        free(),
        &[],
        &format!("{site}/x.cpython-313t-x86_64-linux-gnu.so"),
        found,
    );
    for name in ["x.cpython-313-x86_64-linux-gnu.so", "x.abi3.so"] {
        let object = format!("{site}/{name}");
        let why = format!("/{object} is of another Python than 3.13t");
        check(free(), &[], &object, Err(&why));
    }
}

#[test]
fn links_of_uv_lead_into_its_cache() {
    let linked = python(Layer::new(), "usr/local/bin/python3.11")
        .file("usr/local/lib/python3.11/os.py", "")
        .file("usr/local/lib/python3.11/site.py", PLAIN)
        .file(
            "opt/venv/pyvenv.cfg",
            "home = /usr/local/bin\nuv = 0.4.1\nversion_info = 3.11.9\n",
        )
        .symlink("opt/venv/bin/python", "/usr/local/bin/python3.11")
        .symlink(
            "opt/venv/lib/python3.11/site-packages/torch/lib/x.so",
            "/srv/cache/uv/archive-v0/abc/torch/lib/x.so",
        );
    let expected = Ok(("/opt/venv/bin/python", "/opt/venv/lib/python3.11/site-packages"));
    check(linked, &[], "srv/cache/uv/archive-v0/abc/torch/lib/x.so", expected);
}

#[test]
fn a_script_that_is_called_python_is_none() {
    let shim = Layer::new()
        .executable("opt/pyenv/shims/python3", "#!/bin/sh\nexec pyenv exec python3")
        .dir("usr/lib/python3.11");
    let object = "usr/lib/python3.11/site-packages/p/x.so";
    check(
        shim,
        &[("PATH", "/opt/pyenv/shims")],
        object,
        Err("the image has no Python that could import it"),
    );
}

#[test]
fn a_virtual_environment_without_its_python_imports_nothing() {
    let venv = |link: &str| {
        Layer::new()
            .file("opt/venv/pyvenv.cfg", "home = /usr/local/bin\nversion = 3.11.9\n")
            .symlink("opt/venv/bin/python", link)
            .symlink("opt/venv/bin/python3", "python")
    };
    let object = "opt/venv/lib/python3.11/site-packages/p/x.so";
    let why = "/opt/venv/bin/python is a link that leads to no Python";
    let gone = venv("/usr/local/bin/python3.11");
    check(gone.clone(), &[], object, Err(why));
    // A different Python does not replace the one of this environment.
    let debian = |layer: Layer| python(layer, "usr/bin/python3.11").file("usr/lib/python3.11/os.py", "");
    check(debian(gone), &[], object, Err(why));
    check(
        debian(venv("/usr/bin/python3.11")),
        &[],
        object,
        Ok(("/opt/venv/bin/python", "/opt/venv/lib/python3.11/site-packages")),
    );
    // A copied interpreter looks for its library in the original location.
    let copied = python(Layer::new(), "opt/venv/bin/python3.11").file("opt/venv/pyvenv.cfg", "home = /nope/bin\n");
    let why = "/opt/venv/bin/python3.11 was made with the Python of /nope/bin, which is not in the image";
    check(copied.clone(), &[], object, Err(why));
    let found = Ok(("/opt/venv/bin/python3.11", "/opt/venv/lib/python3.11/site-packages"));
    check(copied.file("usr/lib/python3.11/os.py", ""), &[], object, found);
}

#[test]
fn options_and_variables_turn_folders_off() {
    let debian = python(Layer::new(), "usr/bin/python3.11").file("usr/lib/python3.11/os.py", "");
    let (added, site) = ("srv/packages/p/x.abi3.so", "usr/lib/python3/dist-packages/p/x.so");
    let debian = debian
        .file("srv/packages/p/__init__.py", "")
        .file("usr/lib/python3/dist-packages/y", "");
    let path = [("PYTHONPATH", "/srv/packages")];
    let of_added = Ok(("/usr/bin/python3.11", "/srv/packages"));
    let of_site = Ok(("/usr/bin/python3.11", "/usr/lib/python3/dist-packages"));
    let why = |site: &str| format!("no Python of the image has {site} on its path");
    let (no_added, no_site) = (why("/srv/packages"), why("/usr/lib/python3/dist-packages"));
    for (options, has_added, has_site) in [
        (&["-c", "-I"][..], true, true),
        (&["main.py", "-I"], true, true),
        (&["-u", "-I"], false, true),
        (&["-sE"], false, true),
        (&["-W", "-I", "-S"], true, false),
        (&["-Xdev", "-SE"], false, false),
    ] {
        let command = [&["/usr/bin/python3.11"], options].concat();
        let expected = if has_added { of_added } else { Err(no_added.as_str()) };
        check_started(debian.clone(), &command, &path, added, expected);
        let expected = if has_site { of_site } else { Err(no_site.as_str()) };
        check_started(debian.clone(), &command, &path, site, expected);
    }
    let other = ["/usr/bin/serve", "-I"];
    check_started(debian.clone(), &other, &path, added, of_added);
    let home = [("PYTHONHOME", "/nope")];
    let why = "PYTHONHOME is /nope, which holds no standard library";
    check(debian.clone(), &home, site, Err(why));
    check_started(debian, &["python3.11", "-E"], &home, site, of_site);
}

#[test]
fn an_import_hook_of_setuptools_finds_its_package_alone() {
    let site = "usr/lib/python3/dist-packages";
    let hooked = python(Layer::new(), "usr/bin/python3.11")
        .file("usr/lib/python3.11/os.py", "")
        .file(
            format!("{site}/__editable__.p-1.pth"),
            "import __editable___p_1_finder; __editable___p_1_finder.install()",
        )
        .file(
            format!("{site}/__editable___p_1_finder.py"),
            "MAPPING: dict[str, str] = {'p': '/src/p'}\nNAMESPACES: dict[str, list[str]] = {}\n",
        )
        .file("src/p/__init__.py", "")
        .file("src/q/__init__.py", "");
    let object = |name: &str| format!("src/{name}/x.cpython-311-x86_64-linux-gnu.so");
    check(hooked.clone(), &[], &object("p"), Ok(("/usr/bin/python3.11", "/src")));
    let why = "no Python of the image has /src on its path";
    check(hooked.clone(), &[], &object("q"), Err(why));
    let other = hooked.file(format!("{site}/z.pth"), "import z\n");
    let why = "no Python of the image has /src on its path, but what the code in /usr/lib/python3/dist-packages/z.pth adds is not known";
    check(other, &[], &object("q"), Err(why));
}

#[test]
fn a_module_by_its_name_is_told_when_no_python_finds_it() {
    let debian = python(Layer::new(), "usr/bin/python3.11")
        .file("usr/lib/python3.11/os.py", "")
        .file("srv/packages/p/__init__.py", "");
    let object = "srv/packages/p/x.cpython-311-x86_64-linux-gnu.so";
    let why = "no Python of the image has /srv/packages on its path";
    check(debian.clone(), &[], object, Err(why));
    let found = Ok(("/usr/bin/python3.11", "/srv/packages"));
    check(debian, &[("PYTHONPATH", "/srv/packages")], object, found);
}

#[test]
fn a_library_of_a_program_is_no_package() {
    let debian = python(Layer::new(), "usr/bin/python3.11").file("usr/lib/python3.11/os.py", "");
    check(
        debian.clone(),
        &[],
        "opt/libtorch/lib/x.so",
        Err("no part of a package"),
    );
    check(
        debian,
        &[("PYTHONPATH", "/opt")],
        "opt/libtorch/lib/x.so",
        Err("no part of a package"),
    );
}
