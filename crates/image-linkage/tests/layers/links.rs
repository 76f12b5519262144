//! Names and links that lead elsewhere (rows T-01, T-08 to T-16, T-19, T-21, L-20, B-09).

use image_linkage::limits::Limits;
use image_linkage::rootfs::LookupError;
use testkit::layer::{Compression, Layer};

use crate::raw::{Header, Tar};
use crate::{index, index_with, merge, merged, read, refuse};

#[test]
fn t01_a_directory_after_a_link_of_its_name_replaces_the_link() {
    let layer = Layer::new()
        .symlink("etc", "/outside")
        .dir("etc")
        .file("etc/passwd", "x");
    assert_eq!(read(&layer.tar()), ["/etc/", "/etc/passwd 1"]);
    let back = Layer::new().dir("etc").symlink("etc", "/outside");
    assert_eq!(read(&back.tar()), ["/etc -> /outside"]);
}

#[test]
fn t08_names_that_leave_the_root_are_kept_inside_and_reported() {
    let tar = Tar::new()
        .file("../../etc/passwd", b"x")
        .file("/absolute", b"")
        .file("a/../b", b"");
    assert_eq!(
        read(&tar.end()),
        [
            "/absolute 0",
            "/b 0",
            "/etc/passwd 1",
            "? /etc/passwd: the name leaves the root with \"..\"; treated as inside the root"
        ]
    );
}

#[test]
fn t08_dots_inside_a_name_are_no_escape() {
    let tar = Tar::new().file("a..b/..c/...", b"").file("a/./b", b"");
    assert_eq!(read(&tar.end()), ["/a..b/..c/... 0", "/a/b 0"]);
}

#[test]
fn t09_a_name_that_only_begins_like_another_is_not_below_it() {
    let lower = Layer::new().file("out/a", "").file("out-evil/a", "");
    let upper = Layer::new().whiteout("out");
    assert_eq!(merged(&[lower.tar(), upper.tar()]), ["0 /out-evil/", "0 /out-evil/a 0"]);
    let replaced = Layer::new().file("out", "").tar();
    assert_eq!(
        merged(&[lower.tar(), replaced]),
        ["1 /out 0", "0 /out-evil/", "0 /out-evil/a 0"]
    );
}

#[test]
fn t11_the_root_cannot_be_replaced() {
    for name in ["/.", "./", "/", ".", "a/.."] {
        let tar = Tar::new()
            .raw(&Header::new(name.as_bytes(), b'2', 0).link(b"/tmp"), b"")
            .file("f", b"");
        let found = read(&tar.end());
        assert_eq!(found[0], "/f 0", "{name}");
        assert!(found[1].starts_with("? /: "), "{found:?}");
    }
}

#[test]
fn t12_members_behind_a_link_of_their_layer_lie_at_its_target() {
    let layer = Layer::new()
        .dir("etc")
        .symlink("a", "/etc")
        .symlink("b", "a/../a")
        .file("a/x", "1")
        .file("b/y", "22")
        .file("a/sub/z", "");
    let found = read(&layer.tar());
    let expected = [
        "/a -> /etc",
        "/b -> a/../a",
        "/etc/",
        "/etc/sub/z 0",
        "/etc/x 1",
        "/etc/y 2",
    ];
    assert_eq!(found, expected);
}

#[test]
fn t13_the_last_entry_of_a_name_wins_and_links_keep_their_content() {
    let layer = Layer::new()
        .file("target", "old!")
        .symlink("name", "target")
        .file("name", "new")
        .file("target", "x")
        .dir("f")
        .file("f", "");
    assert_eq!(merged(&[layer.tar()]), ["0 /f 0", "0 /name 3", "0 /target 1"]);
}

#[test]
fn t14_broken_hard_links_are_reported() {
    let layer = Layer::new()
        .hardlink("none", "no/such/file")
        .hardlink("dir", "d")
        .dir("d")
        .hardlink("self", "self")
        .hardlink("one", "two")
        .hardlink("two", "one");
    let index = index(&layer.tar()).unwrap();
    let (rootfs, problems) = image_linkage::rootfs::merge_layers([&index]);
    assert_eq!(crate::tree(&rootfs), ["0 /d/"]);
    let paths: Vec<String> = problems.iter().map(|p| p.path.to_string()).collect();
    assert_eq!(paths, ["/dir", "/none", "/one", "/self", "/two"]);
    assert!(problems[0].what.contains("is not a file in this layer or a lower one"));
}

#[test]
fn t14_does_a_hard_link_to_itself_name_the_file_below() {
    let lower = index(&Layer::new().file("a", "x").file("b", "x").tar()).unwrap();
    let upper = index(&Layer::new().hardlink("a", "a").hardlink("c", "b").tar()).unwrap();
    let (rootfs, problems) = image_linkage::rootfs::merge_layers([&lower, &upper]);
    // Engines have removed it by then: "no such file or directory" (umoci 0.4).
    assert_eq!(crate::tree(&rootfs), ["0 /a 1", "0 /b 1", "1 /c 1"]);
    let told: Vec<_> = problems.iter().map(|problem| problem.path.to_string()).collect();
    assert_eq!(told, ["/a"]);
}

#[test]
fn t14_a_hard_link_out_of_the_root_stays_inside_it() {
    let layer = Layer::new().file("etc/passwd", "x").hardlink("l", "../../etc/passwd");
    assert_eq!(merged(&[layer.tar()]), ["0 /etc/", "0 /etc/passwd 1", "0 /l 1"]);
    let told = read(&layer.tar());
    assert!(told[2].contains("the hard link leaves the root"), "{told:?}");
}

#[test]
fn hard_links_have_no_content_whatever_their_size_says() {
    for (kind, shown) in [
        (b'1', "/l = /f"),
        (b'2', "/l -> f"),
        (b'3', "/l special"),
        (b'4', "/l special"),
        (b'5', "/l/"),
        (b'6', "/l special"),
    ] {
        let header = Header::new(b"l", kind, 1000).link(b"f");
        let tar = Tar::new().file("f", b"1234").raw(&header, b"").file("z", b"");
        assert_eq!(read(&tar.end()), ["/f 4", shown, "/z 0"]);
        let by_record = Tar::new()
            .file("f", b"1234")
            .pax(&[("size", "1000")])
            .raw(&Header::new(b"l", kind, 0).link(b"f"), b"")
            .file("z", b"");
        assert_eq!(read(&by_record.end()), ["/f 4", shown, "/z 0"]);
    }
}

#[test]
fn t16_absolute_links_are_kept_and_lead_inside_the_root() {
    let layer = Layer::new()
        .symlink("lib64", "/usr/lib64")
        .symlink("up", "../../../usr/lib64")
        .file("usr/lib64/libx.so", "x");
    let rootfs = merge(&[index(&layer.tar()).unwrap()]);
    for path in ["/lib64/libx.so", "up/libx.so", "/up/../lib64/libx.so"] {
        let found = rootfs.lookup(path.as_bytes()).unwrap();
        assert_eq!(found.path.to_string(), "/usr/lib64/libx.so", "{path}");
        assert_eq!(found.links.len(), 1, "{path}");
    }
}

#[test]
fn t19_overlay_attributes_are_no_whiteouts() {
    let lower = Layer::new().file("d/a", "").tar();
    let records = [
        ("SCHILY.xattr.trusted.overlay.opaque", "y"),
        ("SCHILY.xattr.user.overlay.whiteout", "y"),
        ("SCHILY.xattr.trusted.overlay.redirect", "/etc"),
    ];
    let upper = Tar::new()
        .pax(&records)
        .member("d/", b'5', b"")
        .pax(&records)
        .file("d/b", b"");
    assert_eq!(merged(&[lower, upper.end()]), ["1 /d/", "0 /d/a 0", "1 /d/b 0"]);
}

#[test]
fn t21_a_good_layer_of_every_kind_of_entry_has_no_problem() {
    let layer = Layer::new()
        .dir("usr")
        .dir("usr/lib")
        .file("usr/lib/libx.so.1", "x")
        .symlink("usr/lib/libx.so", "libx.so.1")
        .symlink("lib", "usr/lib")
        .symlink("abs", "/usr/lib/libx.so")
        .symlink("odd", "../..//usr/./lib/")
        .hardlink("usr/lib/hard", "usr/lib/libx.so.1")
        .hardlink("abs-hard", "/usr/lib/libx.so.1")
        .file("deep/".repeat(40) + "file", "")
        .file("n".repeat(255), "");
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let index = index(&layer.blob(compression).bytes).unwrap();
        assert_eq!((index.problems.len(), index.entries.len()), (0, 11));
        let _ = merge(&[index]);
    }
}

#[test]
fn l20_names_are_bytes() {
    let layer = Layer::new()
        .file(b"\xff\xfe", "")
        .file("line\nbreak", "")
        .file("\x1b[31mred", "")
        .symlink("l", b"\x07\xff");
    assert_eq!(
        read(&layer.tar()),
        [
            "/\\x1b[31mred 0",
            r"/l -> \x07\xff",
            "/line\\x0abreak 0",
            "/\\xff\\xfe 0",
        ]
        .map(str::to_owned)
    );
}

#[test]
fn impossible_names_are_reported() {
    let long = "d/".repeat(2048) + "x";
    let tar = Tar::new()
        .pax(&[("path", &long)])
        .file("x", b"content")
        .file("after", b"");
    let found = read(&tar.end());
    assert_eq!(found[0], "/after 0");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].contains("the name is longer than"), "{found:?}");
}

#[test]
fn l13_cycles_and_long_chains_end() {
    let mut layer = Layer::new()
        .symlink("self", "self")
        .symlink("a", "b")
        .symlink("b", "/a")
        .symlink("d", "d/d")
        .file("end", "");
    for nth in 0..60 {
        let next = if nth == 0 {
            "end".to_owned()
        } else {
            format!("l{}", nth - 1)
        };
        layer = layer.symlink(format!("l{nth}"), next);
    }
    let rootfs = merge(&[index(&layer.tar()).unwrap()]);
    for path in ["self", "a", "b", "d", "self/x", "l40", "l59"] {
        assert_eq!(rootfs.lookup(path.as_bytes()), Err(LookupError::Loop), "{path}");
    }
    let found = rootfs.lookup(b"l39").unwrap();
    assert_eq!((found.path.to_string().as_str(), found.links.len()), ("/end", 40));
    let link = rootfs.lookup_link(b"self").unwrap();
    assert_eq!(link.path.to_string(), "/self");
}

#[test]
fn l14_the_same_directory_twice_is_no_cycle() {
    let layer = Layer::new()
        .symlink("bin", "usr/bin")
        .symlink("usr/bin/ksh", "/etc/alternatives/ksh")
        .symlink("etc/alternatives/ksh", "/bin/ksh93")
        .file("usr/bin/ksh93", "x");
    let rootfs = merge(&[index(&layer.tar()).unwrap()]);
    let found = rootfs.lookup(b"/bin/ksh").unwrap();
    assert_eq!(found.path.to_string(), "/usr/bin/ksh93");
    let links: Vec<String> = found.links.iter().map(ToString::to_string).collect();
    assert_eq!(links, ["/bin", "/usr/bin/ksh", "/etc/alternatives/ksh", "/bin"]);
}

#[test]
fn l15_one_cycle_hides_nothing_else() {
    let layer = Layer::new()
        .symlink("a/loop", "loop")
        .file("a/loop/x", "lost")
        .file("a/y", "kept")
        .file("z", "");
    let found = read(&layer.tar());
    assert_eq!(found[..3], ["/a/loop -> loop", "/a/y 4", "/z 0"]);
    assert!(found[3].contains("more than 40 links"), "{found:?}");
}

#[test]
fn b09_a_storm_of_links_and_deep_names_ends_soon() {
    // Each of 41 links doubles the path. Without a limit, following them would take 2^41 steps.
    let mut storm = Layer::new().dir("d0");
    for nth in 1..=41 {
        let before = format!("/d{}", nth - 1);
        storm = storm.symlink(format!("d{nth}"), format!("{before}/..{before}/..{before}"));
    }
    let storm = storm.file("d41/x", "");
    let found = read(&storm.tar());
    assert!(found.last().unwrap().contains("more than 40 links"), "{found:?}");
    let rootfs = merge(&[index(&storm.tar()).unwrap()]);
    assert_eq!(rootfs.lookup(b"/d41"), Err(LookupError::Loop));
}

#[test]
fn b09_links_may_not_lead_through_directories_without_end() {
    let target = "./a/../".repeat(500);
    let mut tar = Tar::new();
    for nth in 0..40 {
        let next = match nth {
            0 => target.clone(),
            _ => format!("{target}l{}", nth - 1),
        };
        let link = Header::new(format!("l{nth}").as_bytes(), b'2', 0);
        tar = tar.pax(&[("linkpath", &next)]).raw(&link, b"");
    }
    let way = tar.clone().file("l39/0/f", b"");
    assert_eq!(index(&way.end()).unwrap().problems, []);
    // Each entry expands to 40,000 components, and adjacent entries have different parents.
    let all = (0..1000).fold(tar, |tar, nth| tar.file(&format!("l39/{nth}/f"), b""));
    refuse(&all.end(), "lead through more than 16000000 directories");
}

#[test]
fn b09_implicit_directories_are_counted() {
    let limits = Limits {
        layer_entries: 1000,
        ..Limits::default()
    };
    let tar = |count: usize| {
        let deep = "d/".repeat(500);
        let paths = (0..count).map(|nth| format!("{nth}/{deep}f"));
        let tar = paths.fold(Tar::new(), |tar, path| tar.pax(&[("path", &path)]).file("x", b""));
        tar.end()
    };
    assert!(index_with(&tar(3), &limits).is_ok());
    let error = index_with(&tar(10), &limits).unwrap_err();
    assert_eq!(
        error,
        "layer L: its entries lie in more than the limit of 2000 directories, twice that of entries (layer-entries)"
    );
}

#[test]
fn a_path_that_links_make_too_long_is_reported() {
    let long = "d/".repeat(1500);
    let tar = Tar::new()
        .pax(&[("linkpath", &long)])
        .raw(&Header::new(b"l", b'2', 0), b"")
        .pax(&[("path", &format!("l/{long}f"))])
        .file("x", b"")
        .pax(&[("path", &format!("{long}l"))])
        .file("x", b"");
    let found = read(&tar.end());
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[2].contains("links make the path longer than 4096 bytes"));
}
