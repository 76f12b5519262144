//! An image can be audited for another library than CUPTI, described only by one file of the user's.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The user's files about NCCL and cuDNN.
const PROFILES: &str = "testdata/other-library";

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
    let image = format!("rootfs:{}", root.display());
    let said = crate::support::run(&["--no-cache", "--library", id, "--profiles", PROFILES, &image]);
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
