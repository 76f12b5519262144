//! Images with unusual files and settings: what the Dockerfile for them counts, keeps and says.

use crate::dockerfile::{fixture, system, written};
use testkit::layer::Layer;

const ARCHIVE: &str = "usr/local/cuda/lib64/libcublas_static.a";
const DROP: [&str; 3] = ["--phase", "inference", "--drop"];

/// The line of the header with the sizes.
fn sizes(text: &str) -> &str {
    let line = text.lines().find(|line| line.starts_with("# size before: "));
    line.unwrap_or_else(|| panic!("{text}"))
}

/// The line of a group of removed files.
fn group<'t>(text: &'t str, kind: &str) -> Vec<&'t str> {
    let begin = format!("# {kind}, ");
    let lines = text.lines().map(str::trim_start);
    lines.filter_map(|line| line.strip_prefix(&begin)).collect()
}

#[test]
fn a_file_with_hard_links_counts_once() {
    let other = "usr/local/cuda/lib64/libcurand_static.a";
    let base = || system().file(ARCHIVE, vec![b'a'; 700_000]).file("usr/local/mine", "");
    let text = written(&fixture("no-cupti", &base(), &[]), &DROP);
    let because = "nothing in the image is known to need it";
    assert_eq!(group(&text, "static-libraries"), [format!("700.0 kB: {because}")]);
    // Both names go, and the bytes with them.
    let linked = base().hardlink(other, ARCHIVE);
    let text = written(&fixture("no-cupti", &linked, &[]), &DROP);
    assert_eq!(group(&text, "static-libraries"), [format!("700.0 kB: {because}")]);
    assert!(text.contains("\n        /usr/local/cuda;"), "{text}");
    // Another name stays, and so do the bytes: nothing is freed.
    let kept = base().hardlink("srv/mine", ARCHIVE);
    let text = written(&fixture("no-cupti", &kept, &[]), &DROP);
    let why = format!("0 B: {because}; a hard link to it stays and keeps the content");
    assert_eq!(group(&text, "static-libraries"), [why]);
    // A copy is no hard link.
    let copied = base().file("srv/mine", vec![b'a'; 700_000]);
    let text = written(&fixture("no-cupti", &copied, &[]), &DROP);
    assert_eq!(group(&text, "static-libraries"), [format!("700.0 kB: {because}")]);
    // In the rest, equal files count twice, and hard links once.
    let after = |more: Layer| {
        let text = written(&fixture("no-cupti", &more, &[]), &DROP);
        let size = sizes(&text).split("after: about ").nth(1).unwrap().to_owned();
        size.split(' ').next().unwrap().parse::<f64>().unwrap()
    };
    let own = || base().file("srv/1", vec![b'b'; 300_000]);
    let [once, twice] = [
        own().hardlink("srv/2", "srv/1"),
        own().file("srv/2", vec![b'b'; 300_000]),
    ]
    .map(after);
    assert!((twice - once - 300.0).abs() < 1.0, "{once} kB, {twice} kB");
}
