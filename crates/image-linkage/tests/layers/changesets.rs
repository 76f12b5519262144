//! Merged layers: which entries are visible, and from which layer? (row L-11)

use proptest::prelude::*;
use testkit::layer::Layer;

use crate::{index, lines, merge, tree};

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
