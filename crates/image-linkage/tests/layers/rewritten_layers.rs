//! Does a rewritten layer differ only by the removed members?
//!
//! Random layers with hard links, links, whiteouts and directories are stacked, and some paths are removed. The result
//! must equal the original without those paths.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use crate::raw::{Header, Tar};
use image_linkage::layer::{self, ExpectedBlob, IndexOptions, LayerEntry, LayerIndex, WantedFiles};
use image_linkage::layer::{LayerCut, extract_files, resolve_hardlink, rewrite_layer};
use image_linkage::limits::Limits;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{self, NodeKind, Rootfs};
use proptest::prelude::*;
use testkit::layer::Layer;

fn index(tar: &[u8]) -> LayerIndex {
    layer::index_layer("x", tar, &ExpectedBlob::default(), &IndexOptions::default()).unwrap()
}

fn paths(paths: &[&str]) -> BTreeSet<RootPath> {
    paths.iter().map(|path| RootPath::from(*path)).collect()
}

/// The tar without `gone`. Its index must equal the predicted one.
fn cut(layer: &Layer, gone: &[&str]) -> Vec<u8> {
    let tar = layer.tar();
    let before = index(&tar);
    let cut = LayerCut::new(&before, &paths(gone));
    let mut out = Vec::new();
    rewrite_layer(tar.as_slice(), &cut, &Limits::default(), &mut out).unwrap();
    let after = index(&out);
    let predicted = cut.apply(&before);
    assert_eq!(after.entries, predicted.entries);
    assert_eq!(after.whiteouts, predicted.whiteouts);
    assert_eq!(after.opaque, predicted.opaque);
    out
}

fn shown(tar: &[u8]) -> Vec<String> {
    let index = index(tar);
    let entry = |entry: &LayerEntry| match entry {
        LayerEntry::File(facts) => format!("{} bytes {:o}", facts.bytes, facts.mode),
        LayerEntry::Hardlink(target) => format!("is {target}"),
        other => format!("{other:?}"),
    };
    let entries: BTreeMap<_, _> = index.entries.iter().collect();
    entries
        .into_iter()
        .map(|(path, found)| format!("{path} {}", entry(found)))
        .collect()
}

#[test]
fn an_empty_cut_gives_the_same_tar() {
    let long = "d/".repeat(90) + "file";
    let layer = Layer::new()
        .dir("a")
        .executable("a/x", "content")
        .file(&long, vec![7; 3000])
        .hardlink("a/y", &long)
        .symlink("a/l", "../a".repeat(60))
        .whiteout("gone");
    assert_eq!(cut(&layer, &[]), layer.tar());
}

#[test]
fn a_list_of_installed_files_is_predicted_without_the_removed_files_and_a_removed_one_stays_removed() {
    let list = "site-packages/a-1.dist-info/RECORD";
    let record = "a/one.so,,\na/two.so,,\n";
    let layer = Layer::new().file(list, record).file("site-packages/a/one.so", "1");
    let options = IndexOptions {
        interest: WantedFiles {
            kept: [list.to_owned()].into(),
            ..WantedFiles::default()
        }
        .into(),
        ..IndexOptions::default()
    };
    let index = |tar: &[u8]| layer::index_layer("x", tar, &ExpectedBlob::default(), &options).unwrap();
    let tar = layer.tar();
    let before = index(&tar);
    for gone in [&["site-packages/a/one.so"][..], &["site-packages/a/one.so", list]] {
        let mut cut = LayerCut::new(&before, &paths(gone));
        cut.unlisted = paths(gone);
        let mut out = Vec::new();
        rewrite_layer(tar.as_slice(), &cut, &Limits::default(), &mut out).unwrap();
        let kept = |index: &LayerIndex| match index.entries.get(list.as_bytes()) {
            Some(LayerEntry::File(facts)) => facts.kept.as_deref().map(<[u8]>::to_vec),
            _ => None,
        };
        let (predicted, written) = (kept(&cut.apply(&before)), kept(&index(&out)));
        assert_eq!(predicted, written, "{gone:?}");
        let stays = (gone.len() == 1).then(|| b"a/two.so,,\n".to_vec());
        assert_eq!(predicted, stays, "{gone:?}");
    }
}

#[test]
fn a_hard_link_takes_over_a_removed_file_and_others_point_to_it() {
    let layer = Layer::new()
        .executable("lib/libx.so", "12345")
        .hardlink("lib/z", "lib/libx.so")
        .hardlink("lib/b", "lib/z")
        .hardlink("lib/gone", "lib/libx.so")
        .file("other", "1");
    assert_eq!(
        shown(&cut(&layer, &["lib/libx.so", "lib/gone"])),
        ["/lib/b 5 bytes 755", "/lib/z is /lib/b", "/other 1 bytes 644"]
    );
    assert_eq!(
        shown(&cut(&layer, &["lib/z"])),
        [
            "/lib/b is /lib/libx.so",
            "/lib/gone is /lib/libx.so",
            "/lib/libx.so 5 bytes 755",
            "/other 1 bytes 644"
        ]
    );
    assert_eq!(
        shown(&cut(&layer, &["lib/z", "lib/b", "lib/libx.so", "lib/gone"])),
        ["/other 1 bytes 644"]
    );
}

#[test]
fn long_names_are_changed_too() {
    let (long, other) = ("a/".repeat(80) + "file", "b/".repeat(80) + "file");
    let layer = Layer::new()
        .file(&long, "12345")
        .hardlink(&other, &long)
        .hardlink("short", &long);
    assert_eq!(
        shown(&cut(&layer, &[&long])),
        [format!("/{other} 5 bytes 644"), format!("/short is /{other}")]
    );
    assert_eq!(shown(&cut(&layer, &[&long, &other])), ["/short 5 bytes 644"]);
}

#[test]
fn other_header_fields_are_kept_with_the_file() {
    let tar = Tar::new()
        .pax(&[("path", "lib/x"), ("SCHILY.xattr.user.a", "1"), ("mtime", "1.5")])
        .file("cut", b"content")
        .pax(&[("linkpath", "lib/w"), ("comment", "of nothing")])
        .pax(&[("linkpath", "lib/x"), ("comment", "of the link")])
        .raw(&Header::new(b"lib/y", b'1', 0).link(b"cut"), b"")
        .long(b'K', b"lib/x")
        .raw(&Header::new(b"lib/z", b'1', 0).gnu().link(b"cut"), b"")
        .end();
    let cut = LayerCut::new(&index(&tar), &paths(&["lib/x"]));
    let mut out = Vec::new();
    rewrite_layer(tar.as_slice(), &cut, &Limits::default(), &mut out).unwrap();
    let mut archive = tar::Archive::new(out.as_slice());
    let mut found = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut content = String::new();
        entry.read_to_string(&mut content).unwrap();
        let path = entry.path().unwrap().display().to_string();
        let link = entry.link_name().unwrap();
        let link = link.map(|link| link.display().to_string());
        let records = entry.pax_extensions().unwrap().into_iter().flatten();
        let records: Vec<String> = records
            .map(|record| record.unwrap())
            .map(|record| format!("{}={}", record.key().unwrap(), record.value().unwrap()))
            .collect();
        found.push((path, link, content, records.join(" ")));
    }
    let text = str::to_owned;
    assert_eq!(
        found,
        [
            (
                text("lib/y"),
                None,
                text("content"),
                text("SCHILY.xattr.user.a=1 mtime=1.5")
            ),
            (text("lib/z"), Some(text("lib/y")), text(""), text("")),
        ]
    );
}

#[test]
fn a_member_behind_a_link_is_removed_by_its_resolved_path() {
    let layer = Layer::new()
        .dir("usr/lib")
        .symlink("lib", "usr/lib")
        .file("lib/x", "1")
        .file("lib/y", "2");
    assert_eq!(
        shown(&cut(&layer, &["usr/lib/x"])),
        [
            "/lib Symlink([117, 115, 114, 47, 108, 105, 98])",
            "/usr/lib Directory(NodeAccess { mode: 493, uid: 0, gid: 0 }, None)",
            "/usr/lib/y 1 bytes 644"
        ]
    );
}

#[test]
fn directories_stay() {
    let layer = Layer::new().dir("a").file("a/x", "1");
    assert_eq!(cut(&layer, &["a"]), layer.tar());
}

#[test]
fn files_are_extracted_by_their_resolved_path() {
    let layer = Layer::new()
        .symlink("lib", "usr/lib")
        .file("lib/x", "content of x")
        .file("empty", "")
        .hardlink("also", "usr/lib/x");
    let mut found: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let wanted = paths(&["usr/lib/x", "empty", "none"]);
    let take = |path: &RootPath, piece: &[u8]| {
        found.entry(path.to_string()).or_default().extend(piece);
        Ok(())
    };
    extract_files(layer.tar().as_slice(), &wanted, &Limits::default(), take).unwrap();
    let expected = [("/empty", &b""[..]), ("/usr/lib/x", b"content of x")];
    let expected = expected.map(|(path, bytes)| (path.to_owned(), bytes.to_vec()));
    assert_eq!(found, BTreeMap::from(expected));
    let layer = index(&layer.tar());
    let also = RootPath::from("also");
    let also = resolve_hardlink(&layer, &also);
    assert_eq!(also, Some(&RootPath::from("usr/lib/x")));
}

/// The kind of each path of the merged file system.
fn view(rootfs: &Rootfs) -> BTreeMap<String, String> {
    let mut view = BTreeMap::new();
    rootfs.visit(|path, _, node| {
        let kind = match &node.kind {
            NodeKind::Directory(_) => "directory".to_owned(),
            NodeKind::File(facts) => format!("{} bytes", facts.bytes),
            NodeKind::Symlink(target) => format!("-> {}", String::from_utf8_lossy(target)),
            NodeKind::Special => "special".to_owned(),
        };
        view.insert(path.to_string(), kind);
    });
    view
}

const NAMES: [&str; 6] = ["a", "b", "d/a", "d/b", "d/e/a", "f/a"];

fn layers() -> impl Strategy<Value = Vec<Layer>> {
    let entry = (0..5_u8, 0..NAMES.len(), 0..NAMES.len(), 1..9_usize);
    let layer = prop::collection::vec(entry, 1..8).prop_map(|entries| {
        let mut there: Vec<&str> = Vec::new();
        entries
            .into_iter()
            .fold(Layer::new(), |layer, (kind, name, other, size)| {
                let name = NAMES[name];
                let target = there.get(other % there.len().max(1)).copied();
                match (kind, target) {
                    (0, Some(target)) if !there.contains(&name) => {
                        there.push(name);
                        layer.hardlink(name, target)
                    }
                    (1, _) if !there.contains(&name) => layer.whiteout(name),
                    (2, _) => layer.opaque("d"),
                    _ if there.contains(&name) => layer,
                    _ => {
                        there.push(name);
                        layer.file(name, vec![b'x'; size])
                    }
                }
            })
    });
    prop::collection::vec(layer, 1..4)
}

proptest! {
    #[test]
    fn only_the_removed_paths_are_missing(
        layers in layers(),
        gone in prop::collection::btree_set(0..NAMES.len(), 0..4),
    ) {
        let gone: Vec<&str> = gone.into_iter().map(|name| NAMES[name]).collect();
        let before: Vec<LayerIndex> = layers.iter().map(|layer| index(&layer.tar())).collect();
        let after: Vec<LayerIndex> = layers.iter().map(|layer| index(&cut(layer, &gone))).collect();
        let (before, after) = (rootfs::merge_layers(&before).0, rootfs::merge_layers(&after).0);
        let mut expected = view(&before);
        for name in gone {
            expected.remove(&format!("/{name}"));
        }
        let mut found = view(&after);
        // A directory that only existed for a removed path may be missing.
        let directories = |view: &mut BTreeMap<String, String>| view.retain(|_, kind| kind != "directory");
        directories(&mut expected);
        directories(&mut found);
        prop_assert_eq!(found, expected);
    }
}
