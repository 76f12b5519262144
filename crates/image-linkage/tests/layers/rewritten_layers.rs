//! Does a rewritten layer differ only by the removed members?
//!
//! Random layers with hard links, links, whiteouts and directories are stacked, and some paths are removed. The result
//! must equal the original without those paths.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use crate::raw::{Header, Tar};
use crate::{index, tree};
use image_linkage::layer::{self, ExpectedBlob, IndexOptions, LayerEntry, LayerIndex, WantedFiles};
use image_linkage::layer::{LayerCut, ReplacedFile, extract_files, resolve_hardlink, rewrite_layer};
use image_linkage::limits::Limits;
use image_linkage::path::RootPath;
use image_linkage::rootfs;
use proptest::prelude::*;
use testkit::layer::Layer;

fn paths(paths: &[&str]) -> BTreeSet<RootPath> {
    paths.iter().map(|path| RootPath::from(*path)).collect()
}

/// For cuts that replace nothing.
fn no_content(path: &RootPath) -> std::io::Result<Box<dyn std::io::Read>> {
    panic!("{path} is not replaced")
}

/// The tar without `gone`. Its index must equal the predicted one.
pub fn cut(tar: &[u8], gone: &[&str]) -> Vec<u8> {
    let before = index(tar).unwrap();
    let cut = LayerCut::new(&before, &paths(gone));
    let mut out = Vec::new();
    rewrite_layer(tar, &cut, &no_content, &Limits::default(), &mut out).unwrap();
    let (after, predicted) = (index(&out).unwrap(), cut.apply(&before));
    assert_eq!(after.entries, predicted.entries);
    assert_eq!((after.whiteouts, after.opaque), (predicted.whiteouts, predicted.opaque));
    out
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
    assert_eq!(cut(&layer.tar(), &[]), layer.tar());
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
        rewrite_layer(tar.as_slice(), &cut, &no_content, &Limits::default(), &mut out).unwrap();
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
fn a_replaced_file_has_its_new_content_under_all_its_names() {
    let layer = Layer::new()
        .executable("a/x", vec![1; 3000])
        .hardlink("a/y", "a/x")
        .file("b", "same");
    let before = index(&layer.tar()).unwrap();
    for (gone, expected) in [
        (&[][..], "a/x 600, a/y -> /a/x, b 4"),
        (&["a/y"], "a/x 600, b 4"),
        // The link takes over the new content.
        (&["a/x"], "a/y 600, b 4"),
    ] {
        let mut cut = LayerCut::new(&before, &paths(gone));
        assert_eq!(cut.is_empty(), gone.is_empty());
        let replaced = ReplacedFile {
            bytes: 600,
            ..ReplacedFile::default()
        };
        cut.replaced.insert("a/x".into(), replaced);
        let open = |path: &RootPath| -> std::io::Result<Box<dyn std::io::Read>> {
            assert_eq!(path.to_string(), "/a/x");
            Ok(Box::new([2; 600].as_slice()))
        };
        let mut out = Vec::new();
        rewrite_layer(layer.tar().as_slice(), &cut, &open, &Limits::default(), &mut out).unwrap();
        let after = index(&out).unwrap();
        assert_eq!(after.entries, cut.apply(&before).entries);
        let entries = after.entries.iter().filter_map(|(path, entry)| match entry {
            LayerEntry::File(facts) => Some(format!("{} {}", &path.to_string()[1..], facts.bytes)),
            LayerEntry::Hardlink(target) => Some(format!("{} -> {target}", &path.to_string()[1..])),
            _ => None,
        });
        let mut entries: Vec<String> = entries.collect();
        entries.sort();
        assert_eq!(entries.join(", "), expected);
        let mut archive = tar::Archive::new(out.as_slice());
        let mut entries = archive.entries().unwrap().map(Result::unwrap);
        let mut content = Vec::new();
        let replaced = entries.find(|entry| entry.size() == 600);
        replaced.unwrap().read_to_end(&mut content).unwrap();
        assert_eq!(content, [2; 600]);
    }
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
    let cut = LayerCut::new(&index(&tar).unwrap(), &paths(&["lib/x"]));
    let mut out = Vec::new();
    rewrite_layer(tar.as_slice(), &cut, &no_content, &Limits::default(), &mut out).unwrap();
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
    let sparse = extract_files(layer.tar().as_slice(), &wanted, &Limits::default(), take);
    assert_eq!(sparse, Ok(BTreeSet::new()));
    let expected = [("/empty", &b""[..]), ("/usr/lib/x", b"content of x")];
    let expected = expected.map(|(path, bytes)| (path.to_owned(), bytes.to_vec()));
    assert_eq!(found, BTreeMap::from(expected));
    let layer = index(&layer.tar()).unwrap();
    let also = RootPath::from("also");
    let also = resolve_hardlink(&layer, &also);
    assert_eq!(also, Some(&RootPath::from("usr/lib/x")));
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
        let before: Vec<LayerIndex> = layers.iter().map(|layer| index(&layer.tar()).unwrap()).collect();
        let after: Vec<LayerIndex> = layers.iter().map(|layer| index(&cut(&layer.tar(), &gone)).unwrap()).collect();
        let (before, after) = (rootfs::merge_layers(&before).0, rootfs::merge_layers(&after).0);
        let is_gone = |line: &str| gone.iter().any(|name| line.split(' ').nth(1) == Some(&format!("/{name}")));
        // A directory that only existed for a removed path may be missing.
        let is_directory = |line: &str| line.ends_with('/');
        let mut expected = tree(&before);
        expected.retain(|line| !is_gone(line) && !is_directory(line));
        let mut found = tree(&after);
        found.retain(|line| !is_directory(line));
        prop_assert_eq!(found, expected);
    }
}
