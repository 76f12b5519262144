//! Merged layers: which entries are visible, and from which layer? (rows L-01 to L-12, L-17 to L-19)

use image_linkage::layer::ProblemKind;
use proptest::prelude::*;
use testkit::layer::Layer;

use crate::{index, lines, merge, merged, tree};

fn tars<const N: usize>(layers: [Layer; N]) -> [Vec<u8>; N] {
    layers.map(|layer| layer.tar())
}

#[test]
fn l01_deleted_files_stay_deleted_when_the_directory_is_recreated() {
    let layers = tars([
        Layer::new().file("d/old", "").file("d/sub/old", ""),
        Layer::new().whiteout("d"),
        Layer::new().file("d/new", ""),
    ]);
    assert_eq!(merged(&layers), ["2 /d/", "2 /d/new 0"]);
    assert_eq!(merged(&layers[..2]), [""; 0]);
}

#[test]
fn l01_a_whiteout_and_a_new_entry_replace_the_lower_one() {
    let lower = Layer::new().file("d/old", "");
    for upper in [
        Layer::new().whiteout("d").file("d/new", ""),
        Layer::new().file("d/new", "").whiteout("d"),
    ] {
        assert_eq!(merged(&[lower.tar(), upper.tar()]), ["1 /d/", "1 /d/new 0"]);
    }
}

#[test]
fn l02_an_opaque_marker_hides_lower_content_in_any_order() {
    let lower = Layer::new().file("d/old", "").file("d/sub/old", "").file("e", "");
    for upper in [
        Layer::new().opaque("d").dir("d").file("d/new", ""),
        Layer::new().dir("d").file("d/new", "").opaque("d"),
        Layer::new().file("d/new", "").opaque("d").dir("d"),
    ] {
        let found = merged(&[lower.tar(), upper.tar()]);
        assert_eq!(found, ["1 /d/", "1 /d/new 0", "0 /e 0"]);
    }
    let root = Layer::new().opaque(".").file("new", "").tar();
    assert_eq!(merged(&[lower.tar(), root]), ["1 /new 0"]);
}

#[test]
fn l03_and_l04_unusual_markers_are_interpreted_literally() {
    let lower = Layer::new().file("d/a", "").file("d/..opqX", "").tar();
    let nothing = Layer::new().file("d/.wh.", "").tar();
    assert_eq!(merged(&[&lower, &nothing]), merged(&[&lower]));
    let told = lines(&index(&nothing).unwrap());
    assert_eq!(told, ["? /d/.wh.: the whiteout has no valid name; ignored"]);
    let longer = Layer::new().file("d/.wh..wh..opqX", "").tar();
    assert_eq!(lines(&index(&longer).unwrap()), ["hides /d/.wh..opqX"]);
    assert_eq!(merged(&[&lower, &longer]), merged(&[&lower]));
}

#[test]
fn l05_markers_in_the_lowest_layer_are_not_files() {
    let layer = Layer::new().whiteout("gone").opaque("d").file("d/a", "");
    assert_eq!(merged(&[layer.tar()]), ["0 /d/", "0 /d/a 0"]);
    // A marker may also be a directory, a link or a device.
    let kinds = Layer::new().dir(".wh.a").symlink(".wh.b", "x").hardlink(".wh.c", "d/a");
    let lower = Layer::new().file("a", "").file("b", "").file("c", "").file("d/a", "");
    assert_eq!(merged(&[lower.tar(), kinds.tar()]), ["0 /d/", "0 /d/a 0"]);
}

#[test]
fn l06_markers_below_a_lower_link_hide_the_link_but_not_its_target() {
    let lower = Layer::new().file("real/a", "").symlink("link", "real");
    for upper in [Layer::new().opaque("link"), Layer::new().whiteout("link/a")] {
        let shown = ["1 /link/", "0 /real/", "0 /real/a 0"];
        assert_eq!(merged(&[lower.tar(), upper.tar()]), shown, "{upper:?}");
    }
    // The empty directory that an engine creates here is omitted.
    let upper = Layer::new().whiteout("none/a");
    assert_eq!(merged(&[lower.tar(), upper.tar()]), merged(&[lower.tar()]));
}

#[test]
fn l08_replacing_a_directory_removes_its_content() {
    let lower = Layer::new().file("d/a", "").file("d/sub/b", "").file("dd", "");
    let link = Layer::new().symlink("d", "elsewhere");
    assert_eq!(merged(&[lower.tar(), link.tar()]), ["1 /d -> elsewhere", "0 /dd 0"]);
    let file = Layer::new().file("d", "x");
    assert_eq!(merged(&[lower.tar(), file.tar()]), ["1 /d 1", "0 /dd 0"]);
    let back = [lower, link, Layer::new().file("d/c", "")].map(|layer| layer.tar());
    assert_eq!(merged(&back), ["2 /d/", "2 /d/c 0", "0 /dd 0"]);
}

#[test]
fn entries_below_a_file_of_the_same_layer_are_refused() {
    // Docker 20.10 and Podman 4.3 fail on each with ENOTDIR; umoci 0.4.7 on each except the whiteout.
    let below = |path: &str| format!("? {path}: its parent in the same layer is not a directory");
    let file = Layer::new().file("a", "");
    for (layer, refused) in [
        (file.clone().file("a/x", ""), "/a/x"),
        (file.clone().file("a/b/c/x", ""), "/a/b/c/x"),
        (file.clone().dir("a/d"), "/a/d"),
        (file.clone().whiteout("a/x"), "/a/.wh.x"),
        (file.clone().symlink("l", "a").file("l/x", ""), "/l/x"),
    ] {
        let found = index(&layer.tar()).unwrap();
        assert_eq!(lines(&found).last(), Some(&below(refused)));
        assert_eq!(found.problems[0].kind, ProblemKind::Refused);
        assert_eq!(found.problems.len(), 1);
    }
    for sound in [
        file.clone().opaque("a"),
        file.clone().dir("a").file("a/x", ""),
        Layer::new().file("a/x", "").file("a", ""),
        Layer::new()
            .dir("d")
            .symlink("l", "d")
            .hardlink("h", "l")
            .file("h/x", ""),
    ] {
        assert_eq!(index(&sound.tar()).unwrap().problems, []);
    }
    // In a separate layer it replaces the file.
    let layers = [file, Layer::new().file("a/x", "")];
    assert_eq!(merged(&layers.map(|layer| layer.tar())), ["1 /a/", "1 /a/x 0"]);
}

#[test]
fn l09_links_and_directories_of_several_layers_resolve_on_the_merged_tree() {
    let layers = [
        Layer::new().dir("usr/lib").file("usr/lib/libx.so", "x"),
        Layer::new().symlink("lib", "usr/lib"),
        Layer::new().symlink("usr/lib/liby.so", "../../lib/libx.so"),
    ]
    .map(|layer| index(&layer.tar()).unwrap());
    let found = merge(&layers).lookup(b"lib/liby.so").unwrap();
    assert_eq!(found.path.to_string(), "/usr/lib/libx.so");
    assert_eq!(found.links.len(), 3);
}

#[test]
fn l10_a_hard_link_keeps_the_content_of_its_own_layer() {
    let layers = tars([
        Layer::new().file("a", "1").hardlink("b", "a"),
        Layer::new().file("a", "22"),
        Layer::new().hardlink("c", "a").whiteout("a"),
        Layer::new().hardlink("e", "b").hardlink("f", "e"),
    ]);
    assert_eq!(merged(&layers), ["0 /b 1", "2 /c 2", "3 /e 1", "3 /f 1"]);
}

#[test]
fn l10_a_hard_link_may_come_before_its_target_and_name_a_link() {
    let layer = Layer::new()
        .hardlink("a", "z")
        .file("z", "123")
        .symlink("s", "z")
        .hardlink("t", "s");
    assert_eq!(merged(&[layer.tar()]), ["0 /a 3", "0 /s -> z", "0 /t -> z", "0 /z 3"]);
}

/// Podman and umoci look for the target when they reach the link, and fail if it is missing.
#[test]
fn l10_hard_links_to_later_or_removed_files_are_reported_as_unread() {
    let told = |layer: Layer| {
        let problems = index(&layer.tar()).unwrap().problems;
        let unread = problems
            .into_iter()
            .filter(|problem| problem.kind == ProblemKind::Unread);
        unread
            .map(|problem| format!("{}: {}", problem.path, problem.what))
            .collect::<Vec<_>>()
    };
    let says = |what: &str| vec![format!("/a: hard link to a file that {what}")];
    assert_eq!(told(Layer::new().file("z", "1").hardlink("a", "z")), [""; 0]);
    assert_eq!(told(Layer::new().hardlink("a", "z")), [""; 0], "it may lie below");
    let early = Layer::new().hardlink("a", "z").file("z", "1");
    assert_eq!(told(early), says("comes later in the same layer"));
    for gone in ["d/z", "d"] {
        let layer = Layer::new().whiteout(gone).hardlink("a", "d/z");
        assert_eq!(told(layer), says("the same layer removes"), "{gone}");
    }
}

#[test]
fn l11_every_name_of_a_file_shares_its_facts() {
    let mut layer = Layer::new().file("f", "x".repeat(1000));
    for nth in 0..5 {
        layer = layer.hardlink(format!("l{nth}"), "f");
    }
    let rootfs = merge(&[index(&layer.tar()).unwrap()]);
    let first: *const _ = rootfs.file(b"f").unwrap();
    for nth in 0..5 {
        let linked: *const _ = rootfs.file(format!("l{nth}").as_bytes()).unwrap();
        assert_eq!(first, linked, "l{nth}");
    }
}

#[test]
fn l17_every_hop_of_the_cuda_links_may_come_from_another_layer() {
    let layers = [
        Layer::new().file("usr/local/cuda-12.4/targets/x86_64-linux/lib/libcupti.so.12", "x"),
        Layer::new().symlink("usr/local/cuda-12.4/lib64", "targets/x86_64-linux/lib"),
        Layer::new().symlink("etc/alternatives/cuda", "/usr/local/cuda-12.4"),
        Layer::new().symlink("usr/local/cuda", "/etc/alternatives/cuda"),
    ]
    .map(|layer| index(&layer.tar()).unwrap());
    let rootfs = merge(&layers);
    let found = rootfs.lookup(b"/usr/local/cuda/lib64/libcupti.so.12").unwrap();
    assert_eq!(
        found.path.to_string(),
        "/usr/local/cuda-12.4/targets/x86_64-linux/lib/libcupti.so.12"
    );
    let layer_of = |path: &[u8]| rootfs.node(rootfs.lookup_link(path).unwrap().node).layer;
    let hops: Vec<usize> = found.links.iter().map(|link| layer_of(link.as_bytes())).collect();
    assert_eq!((rootfs.node(found.node).layer, hops), (0, vec![3, 2, 1]));
}

#[test]
fn l18_and_l19_links_to_a_deleted_library_dangle() {
    let layers = [
        Layer::new()
            .file("lib/libcupti.so.12", "x")
            .symlink("lib/libcupti.so", "libcupti.so.12"),
        Layer::new().whiteout("lib/libcupti.so.12"),
    ]
    .map(|layer| index(&layer.tar()).unwrap());
    let before = merge(&layers[..1]);
    assert!(before.lookup(b"lib/libcupti.so").is_ok());
    let after = merge(&layers);
    assert!(after.lookup(b"lib/libcupti.so").is_err());
    assert!(after.lookup_link(b"lib/libcupti.so").is_ok());
}

/// A layer with distinct paths, none of them below a non-directory.
fn members() -> impl Strategy<Value = Vec<(u8, String)>> {
    prop::collection::vec((0..6_u8, 0..8_u8, 0..4_u8), 1..30).prop_map(|all| {
        let mut seen = std::collections::BTreeSet::new();
        all.into_iter()
            .map(|(kind, directory, name)| {
                let directory = ["", "a/", "b/", "a/c/", "b/c/d/", "a/c/e/", "f/", "g/h/"]
                    .get(usize::from(directory))
                    .copied()
                    .unwrap_or_default();
                (kind, format!("{directory}{name}"))
            })
            .filter(|(kind, path)| seen.insert((*kind >= 4, path.clone())))
            .collect()
    })
}

fn write(members: &[(u8, String)]) -> Vec<u8> {
    // The target of a hard link must come first.
    let (mut links, others): (Vec<_>, Vec<_>) = members.iter().partition(|(kind, _)| *kind == 3);
    links.sort();
    let layer = others
        .into_iter()
        .chain(links)
        .fold(Layer::new(), |layer, (kind, path)| {
            match kind {
                0 => layer.file(path, path),
                1 => layer.symlink(path, "../0"),
                2 => layer.dir(path),
                3 => layer.hardlink(path, "0"),
                4 => layer.whiteout(path),
                // A marker behind a link of its own layer means different things before and after the link.
                _ => layer.opaque(path.rsplit_once('/').map_or(".", |(directory, _)| directory)),
            }
        });
    layer.tar()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn a_shuffled_tar_gives_the_same_tree(
        lower in members(),
        (upper, shuffled) in members().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
    ) {
        let lower = index(&write(&lower)).unwrap();
        let straight = index(&write(&upper)).unwrap();
        let shuffled = index(&write(&shuffled)).unwrap();
        prop_assert_eq!(lines(&straight), lines(&shuffled));
        let (one, one_problems) = image_linkage::rootfs::merge_layers([&lower, &straight]);
        let (other, other_problems) = image_linkage::rootfs::merge_layers([&lower, &shuffled]);
        prop_assert_eq!(tree(&one), tree(&other));
        prop_assert_eq!(one_problems, other_problems);
    }

    #[test]
    fn an_empty_layer_changes_nothing(lower in members(), upper in members()) {
        let lower = index(&write(&lower)).unwrap();
        let upper = index(&write(&upper)).unwrap();
        let empty = index(&Layer::new().tar()).unwrap();
        let (plain, _) = image_linkage::rootfs::merge_layers([&lower, &upper]);
        let (padded, _) = image_linkage::rootfs::merge_layers([&empty, &lower, &empty, &upper, &empty]);
        let renumber = |line: &String| {
            let (layer, rest) = line.split_once(' ').unwrap();
            format!("{} {rest}", 2 * layer.parse::<usize>().unwrap() + 1)
        };
        prop_assert_eq!(tree(&plain).iter().map(renumber).collect::<Vec<_>>(), tree(&padded));
    }
}
