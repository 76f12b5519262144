//! A root file system with libraries in `/lib64`, as on Red Hat's systems.

use std::fs;
use std::os::unix::fs::symlink;

use testkit::elf::Elf;

use super::{our_list, ours, real_list};
use crate::loader_tools::Tools;
use crate::{loader_tree, support};

const LOADER: &str = "usr/lib64/ld-linux-x86-64.so.2";

/// Creates empty libraries at these paths and compares the libraries that both loaders load.
fn check(program: &Elf, libraries: &[&str], library_path: Option<&str>, expected: &[&str]) {
    let part = "loaders/libc6-amd64-i386-cross/usr/i686-linux-gnu/lib64/ld.so";
    let (Some(loader), Some(tools)) = (support::part(part), Tools::new()) else {
        return;
    };
    let root = tools.folder();
    let at = root.path();
    for folder in ["usr/lib64", "usr/lib", "app"] {
        fs::create_dir_all(at.join(folder)).unwrap();
    }
    for name in ["lib64", "lib"] {
        symlink(format!("usr/{name}"), at.join(name)).unwrap();
    }
    fs::copy(loader, at.join(LOADER)).unwrap();
    fs::write(at.join("app/prog"), program.build()).unwrap();
    for path in libraries {
        let to = at.join(path);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        let name = to.file_name().unwrap().to_str().unwrap();
        fs::write(&to, Elf::library(name).build()).unwrap();
    }
    let words = ["/lib64/ld-linux-x86-64.so.2", "/app/prog"];
    let ran = tools.run(at, "/", &super::variables(library_path), &words);
    let rootfs = loader_tree::merge([
        &loader_tree::index(&testkit::layer::Layer::new()),
        &loader_tree::read(at, &[]),
    ]);
    let ours = our_list(&ours(&rootfs, "amd64", "/app/prog", library_path));
    let real = real_list(&ran.out);
    assert_eq!((&ours, &real[..]), (&real, &ours[..]), "{ran:?}");
    assert_eq!(ours, expected, "{ran:?}");
}

#[test]
fn is_lib64_searched_by_a_loader_built_with_it() {
    let program = Elf::executable().needed("libx.so").needed("liby.so");
    check(
        &program,
        &[
            "usr/lib64/libx.so",
            "usr/lib/x86_64-linux-gnu/libx.so",
            "usr/lib/x86_64-linux-gnu/liby.so",
        ],
        None,
        &["libx.so => /lib64/libx.so", "liby.so => not found"],
    );
}

#[test]
fn does_lib_stand_for_lib64() {
    let program = Elf::executable().runpath("/opt/$LIB").needed("libx.so");
    check(
        &program,
        &["opt/lib64/libx.so", "opt/lib/x86_64-linux-gnu/libx.so"],
        None,
        &["libx.so => /opt/lib64/libx.so"],
    );
}

#[test]
fn is_the_toolkit_found_by_the_variable() {
    let program = Elf::executable().needed("libcupti.so.12");
    check(
        &program,
        &["usr/local/cuda/targets/x86_64-linux/lib/libcupti.so.12"],
        Some("/usr/local/cuda/targets/${PLATFORM}-linux/lib:/usr/local/cuda/targets/x86_64-linux/lib"),
        &["libcupti.so.12 => /usr/local/cuda/targets/x86_64-linux/lib/libcupti.so.12"],
    );
}
