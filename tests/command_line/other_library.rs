//! An image can be audited for another library than CUPTI, described only by one file of the user's.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::elf::Elf;
use testkit::layer::{Compression, Layer};
use testkit::oci::{Image, Layout};

/// NVIDIA's library for collective communication, as in its packages.
const NCCL: &str = r#"
name: NCCL
stem: libnccl.so
symbols: nccl
family:
  - {stem: libnccl.so, cached: true, hashed: libnccl., mentioned: libnccl.so}
header: nccl.h
header_version: {file: nccl.h, defines: [NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH]}
soname:
  - {from: 0, name: "libnccl.so.{major}"}
wheels:
  pin: nvidia-nccl
  owners:
    - {path: "", begins: [nvidia_nccl_cu]}
conda: {name: nccl}
package_word: nccl
glibc: true
"#;

/// NVIDIA's library for neural networks, with the required keys only.
const CUDNN: &str = "name: cuDNN\nstem: libcudnn.so\nheader: cudnn.h\nsoname: [{from: 0, name: \"libcudnn.so.{major}\"}]\n\
                     package_word: cudnn\n";

/// PyTorch links it; a user's profile describes the effect.
const CONSUMER: &str = "name: PyTorch\nobject: libtorch_cuda.so\nasks: needed\nrequired: import\nlibrary: nccl\n";

const HEADER: &str = "#define NCCL_MAJOR 2\n#define NCCL_MINOR 21\n#define NCCL_PATCH 5\n";
const SITE: &str = "usr/lib/python3/dist-packages";

fn loader() -> Layer {
    Layer::new()
        .executable(
            "lib64/ld-linux-x86-64.so.2",
            Elf::library("ld-linux-x86-64.so.2").build(),
        )
        .executable("usr/bin/python3.11", Elf::executable().build())
        .file("usr/lib/python3.11/os.py", "")
        .file("etc/ld.so.conf", "/opt/nccl\n")
}

fn nccl() -> Vec<u8> {
    Elf::library("libnccl.so.2").build()
}

/// The report of an image with one layer, as JSON and text.
fn audit(layer: &Layer) -> (Value, String) {
    let mut said = of_image(layer, &["json", "text"]);
    (serde_json::from_str(&said.remove(0)).unwrap(), said.remove(0))
}

/// The report in each of the formats.
fn of_image(layer: &Layer, formats: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("profiles/libraries/nccl.yaml", NCCL);
    put("profiles/consumers/pytorch-nccl.yaml", CONSUMER);
    let image = Image::new("linux/amd64").layer("COPY", layer, Compression::None);
    let mut layout = Layout::new();
    layout.add("latest", &[image]);
    layout.write_to(&folder.path().join("image")).unwrap();
    formats.iter().map(|format| ask(folder.path(), format)).collect()
}

fn ask(folder: &Path, format: &str) -> String {
    let path = |name: &str| folder.join(name).display().to_string();
    let profiles = path("profiles");
    let image = format!("oci:{}", path("image"));
    let arguments = ["--library", "nccl", "--profiles", &profiles];
    let output = crate::support::run(&[&arguments[..], &["--format", format, &image]].concat());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

fn status(layer: &Layer) -> String {
    let (report, _) = audit(layer);
    report["cupti"]["status"].as_str().unwrap().to_owned()
}

#[test]
fn an_image_has_the_library_or_not() {
    assert_eq!(status(&loader()), "absent");
    let header = loader().file("usr/include/nccl.h", HEADER);
    assert_eq!(status(&header), "headers-only");
    let elsewhere = loader().file("opt/elsewhere/libnccl.so.2", nccl());
    assert_eq!(status(&elsewhere), "unloadable");
    let found = loader().file("usr/lib64/libnccl.so.2", nccl());
    assert_eq!(status(&found), "loadable");
    let cupti = Elf::library("libcupti.so.12").build();
    let other = loader().file("usr/lib64/libcupti.so.12", cupti);
    assert_eq!(status(&other), "absent");
}

#[test]
fn the_copies_and_who_asks_are_those_of_the_library() {
    let torch = Elf::library("libtorch_cuda.so")
        .needed("libnccl.so.2")
        .runpath("$ORIGIN/../../nvidia/nccl/lib")
        .build();
    let wheel = "Metadata-Version: 2.1\nName: nvidia-nccl-cu12\nVersion: 2.21.5\n";
    let layer = loader()
        .file(format!("{SITE}/nvidia/nccl/lib/libnccl.so.2"), nccl())
        .file(format!("{SITE}/nvidia_nccl_cu12-2.21.5.dist-info/METADATA"), wheel)
        .file(format!("{SITE}/torch/lib/libtorch_cuda.so"), torch);
    let (report, text) = audit(&layer);
    let copy = &report["cupti"]["copies"][0];
    assert_eq!(copy["soname"], "libnccl.so.2", "{report:#}");
    assert_eq!(copy["version"], "2.21.5", "{report:#}");
    let consumer = &report["consumers"][0];
    assert_eq!(consumer["name"], "PyTorch", "{report:#}");
    assert!(
        text.contains("? NCCL loads for PyTorch only, but not all was checked"),
        "{text}"
    );
    assert!(text.contains("copies of libnccl\n"), "{text}");
    for format in ["text", "html", "markdown"] {
        let said = of_image(&layer, &[format]).remove(0);
        assert!(!said.contains("CUPTI") && !said.contains("libcupti"), "{said}");
        assert!(!said.contains("verdict | because of"), "{said}");
    }
    // Every finding has its reason and its fix in the formats that contain them.
    let torch = Elf::library("libtorch_cuda.so").needed("libnccl.so.2").build();
    let other = Elf::library("libnccl.so.2").build();
    let broken = loader()
        .file(format!("{SITE}/torch/lib/libtorch_cuda.so"), torch)
        .file("opt/a/libnccl.so.2", other.clone())
        .file("opt/b/libnccl.so.2", other)
        .file("opt/c/libnccl.so.2", "version https://git-lfs")
        .symlink("opt/d/libnccl.so.2", "libnccl.so.2.21.5");
    for format in ["text", "html", "markdown", "sarif", "junit", "github"] {
        let said = of_image(&broken, &[format]).remove(0);
        assert!(
            !said.contains("CUPTI") && !said.contains("libcupti"),
            "{format}: {said}"
        );
        assert!(
            !said.contains("library_name") && !said.contains("library_file"),
            "{format}: {said}"
        );
        assert!(!said.contains("nvidia.com/cupti"), "{format}: {said}");
        let tags = said
            .split("\"tags\": [")
            .nth(1)
            .map(|tags| tags.trim_start().starts_with("\"nccl\","));
        assert_eq!(tags, (format == "sarif").then_some(true), "{said}");
    }
    let page = of_image(&layer, &["html"]).remove(0);
    for words in ["<h1>NCCL audit</h1>", "Copies of libnccl", "Programs that ask for NCCL"] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

/// The content of a file below the root.
enum Put {
    Nothing,
    Library(&'static str),
    Text(&'static str),
}

/// Compiles a library with this soname and a program that links it.
fn compile(folder: &Path, soname: &str) {
    let gcc = |arguments: &[&str]| {
        let output = Command::new("gcc")
            .current_dir(folder)
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    fs::write(folder.join("l.c"), "int answer(void) { return 0; }\n").unwrap();
    fs::write(
        folder.join("p.c"),
        "int answer(void);\nint main(void) { return answer(); }\n",
    )
    .unwrap();
    let named = format!("-Wl,-soname,{soname}");
    gcc(&["-shared", "-fPIC", &named, "-o", soname, "l.c"]);
    gcc(&["-o", "train", "p.c", soname]);
}

/// Whether the program starts in a root with these files, and whether the audit passes it.
fn started_and_passed(id: &str, soname: &str, put: &Put) -> (bool, bool) {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), soname);
    let root = folder.path().join("root");
    let at = |inside: &str| {
        let path = root.join(inside);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    fs::copy(folder.path().join("train"), at("usr/bin/train")).unwrap();
    for part in ["lib64/ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu/libc.so.6"] {
        fs::copy(Path::new("/").join(part), at(part)).unwrap();
    }
    match put {
        Put::Nothing => {}
        Put::Library(inside) => drop(fs::copy(folder.path().join(soname), at(&format!("{inside}/{soname}"))).unwrap()),
        Put::Text(inside) => fs::write(at(&format!("{inside}/{soname}")), "version https://git-lfs").unwrap(),
    }
    let started = Command::new("chroot")
        .arg(&root)
        .arg("/usr/bin/train")
        .output()
        .unwrap();
    let libraries = folder.path().join("profiles/libraries");
    fs::create_dir_all(&libraries).unwrap();
    fs::write(libraries.join("nccl.yaml"), NCCL).unwrap();
    fs::write(libraries.join("cudnn.yaml"), CUDNN).unwrap();
    let profiles = folder.path().join("profiles").display().to_string();
    let image = format!("rootfs:{}", root.display());
    let said = crate::support::run(&["--no-cache", "--library", id, "--profiles", &profiles, &image]);
    assert!(said.status.code().is_some_and(|code| code < 2), "{said:?}");
    (started.status.success(), said.status.success())
}

#[test]
fn an_audit_fails_where_the_program_that_links_the_library_does_not_start() {
    if !(crate::support::is_root() && crate::support::have("gcc", "gcc")) {
        return;
    }
    for (id, soname) in [("nccl", "libnccl.so.2"), ("cudnn", "libcudnn.so.9")] {
        for (put, starts) in [
            (Put::Nothing, false),
            (Put::Library("opt/x"), false),
            (Put::Text("lib/x86_64-linux-gnu"), false),
            (Put::Library("lib/x86_64-linux-gnu"), true),
        ] {
            assert_eq!(started_and_passed(id, soname, &put), (starts, starts), "{id}");
        }
    }
}

#[test]
fn a_library_that_nobody_knows_is_named_with_those_that_are() {
    let output = crate::support::run(&["--library", "cudnn", "oci:testdata/images/empty"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("there is no library \"cudnn\""), "{said}");
}

#[test]
fn a_phase_is_refused_for_a_library_that_has_none() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("libraries")).unwrap();
    fs::write(folder.path().join("libraries/nccl.yaml"), NCCL).unwrap();
    let profiles = folder.path().display().to_string();
    let asked = ["--library", "nccl", "--profiles", &profiles, "--phase", "training"];
    let output = crate::support::run(&[&asked[..], &["oci:testdata/images/empty"]].concat());
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("there are no phases for NCCL: leave --phase out"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_command_that_is_for_cupti_alone_is_refused_for_another_library() {
    let image = "oci:testdata/images/empty";
    for command in [
        &["slim", image, "--phase", "training", "--dry-run"][..],
        &["dockerfile", image, "--phase", "training"],
        &["profilers", image],
        &["advise"],
    ] {
        let output = crate::support::run(&[command, &["--library", "nccl"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
        assert!(said.contains("this command is for CUPTI alone"), "{command:?}: {said}");
    }
    assert!(crate::support::run(&["advise", "--library", "cupti"]).status.success());
}

/// `__init__.py` may open the only copy before the package's library requests it, as PyTorch's does.
#[test]
fn who_opens_the_only_copy_first_is_no_matter() {
    let wheel = "Metadata-Version: 2.1\nName: nvidia-nccl-cu12\nVersion: 2.21.5\n";
    let preload = "def preload(ctypes, glob):\n    ctypes.CDLL(glob('/opt/libnccl.so.*[0-9]'))\n";
    let layer = |runpath: &str| {
        let torch = Elf::library("libtorch_cuda.so").needed("libnccl.so.2").runpath(runpath);
        loader()
            .file(format!("{SITE}/nvidia/nccl/lib/libnccl.so.2"), nccl())
            .file(format!("{SITE}/nvidia_nccl_cu12-2.21.5.dist-info/METADATA"), wheel)
            .file(format!("{SITE}/fast/__init__.py"), preload)
            .file(format!("{SITE}/fast/lib/libfast.so"), torch.build())
    };
    let path = "$ORIGIN/../../nvidia/nccl/lib";
    let verdict = |layer: &Layer| {
        let (report, text) = audit(layer);
        let rules = report["findings"].as_array().unwrap().iter();
        let is_open = rules
            .clone()
            .any(|found| found["rule"] == "opened-name-unknown" && found["severity"] == "warning");
        (text.lines().next().unwrap().to_owned(), is_open)
    };
    let found = verdict(&layer(path));
    // The loader of these images does not show its default directories, so everything else stays uncertain.
    let loads = "? NCCL loads for libfast.so only, but not all was checked";
    assert!(found.0.starts_with(loads), "{}", found.0);
    assert!(!found.1);
    // The library alone finds no copy. Only a run can tell, so the first line does not say that it fails.
    let doubtful = "? cannot tell whether NCCL loads";
    let found = verdict(&layer("$ORIGIN"));
    assert!(found.0.starts_with(doubtful) && found.1, "{}", found.0);
    // With two copies, `__init__.py` may open the other one.
    let two = layer(path).file(format!("{SITE}/fast/lib/libnccl.so.2"), nccl());
    assert!(verdict(&two).1);
}
