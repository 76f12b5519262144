//! A loader built with its own prefix, like those of Nix, Guix and Homebrew. None of them is available, so the judge is
//! Debian's loader with other paths of the same length patched in.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use testkit::elf::Elf;

use super::{our_list, ours, real_list};
use crate::loader_tools::Tools;
use crate::{loader_tree, support};

const MOVED: [(&str, &str); 2] = [
    ("/etc/ld.so.cache", "/opt/ld.so.cache"),
    ("/etc/ld.so.preload", "/opt/ld.so.preload"),
];

/// Debian's loader with the paths in [`MOVED`].
fn moved_loader(loader: &Path) -> Vec<u8> {
    let mut bytes = fs::read(loader).unwrap();
    for (from, to) in MOVED {
        let width = from.len();
        let places: Vec<usize> = (0..bytes.len() - width)
            .filter(|&at| bytes[at..].starts_with(from.as_bytes()))
            .collect();
        assert_ne!(places, [] as [usize; 0], "{from}");
        for at in places {
            bytes[at..at + width].copy_from_slice(to.as_bytes());
        }
    }
    bytes
}

/// Writes a cache with the libraries of one directory.
fn write_cache(root: &Path, cache: &str, folder: &str) {
    let list = root.join("list.conf");
    fs::write(&list, format!("{folder}\n")).unwrap();
    let ldconfig = Command::new("/sbin/ldconfig")
        .args(["-X", "-f", "/list.conf", "-C", cache, "-r"])
        .arg(root)
        .output()
        .unwrap();
    assert!(ldconfig.status.success(), "{ldconfig:?}");
}

#[test]
fn does_a_moved_loader_read_its_own_cache_and_preloads() {
    let loader = support::part("bookworm/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2");
    let (Some(loader), Some(tools)) = (loader, Tools::new()) else {
        return;
    };
    for (cache, preload, is_own) in [
        ("/etc/ld.so.cache", "etc/ld.so.preload", false),
        ("/opt/ld.so.cache", "opt/ld.so.preload", true),
    ] {
        let root = tools.folder();
        let at = root.path();
        for folder in ["lib64", "own", "app", "etc", "opt"] {
            fs::create_dir_all(at.join(folder)).unwrap();
        }
        let file = at.join("lib64/ld-linux-x86-64.so.2");
        fs::write(&file, moved_loader(&loader)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(at.join("app/prog"), Elf::executable().needed("libx.so").build()).unwrap();
        for name in ["libx.so", "libp.so"] {
            fs::write(at.join("own").join(name), Elf::library(name).build()).unwrap();
        }
        write_cache(at, cache, "/own");
        fs::write(at.join(preload), "/own/libp.so\n").unwrap();
        let words = ["/lib64/ld-linux-x86-64.so.2", "/app/prog"];
        let ran = tools.run(at, "/", &super::variables(None), &words);
        let rootfs = loader_tree::merge([&loader_tree::read(at, &[])]);
        let (ours, real) = (
            our_list(&ours(&rootfs, "amd64", "/app/prog", None)),
            real_list(&ran.out),
        );
        // The loader prints no arrow for a library loaded by path.
        let preloaded = "/own/libp.so => /own/libp.so".to_owned();
        let ours_preloads = ours.contains(&preloaded);
        let searched: Vec<String> = ours.into_iter().filter(|line| *line != preloaded).collect();
        assert_eq!(
            (&searched, ours_preloads),
            (&real, ran.out.contains("\t/own/libp.so (0x")),
            "{ran:?}"
        );
        let expected = if is_own { "/own/libx.so" } else { "not found" };
        assert_eq!(
            (searched, ours_preloads),
            (vec![format!("libx.so => {expected}")], is_own),
            "{ran:?}"
        );
    }
}
