//! Images with unusual files and settings: what the Dockerfile for them counts, keeps and says.

use crate::dockerfile::{fixture, fixture_with, run, system, written};
use serde_json::json;
use testkit::layer::{Entry, Kind, Layer};

const ARCHIVE: &str = "usr/local/cuda/lib64/libcublas_static.a";
const DROP: [&str; 3] = ["--phase", "inference", "--drop"];

/// A system with a file that inference does not need.
fn files() -> Layer {
    system().file(ARCHIVE, "an archive").file("usr/local/mine", "")
}

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

#[test]
fn a_path_without_the_system_programs_gets_them_in_the_steps_alone() {
    // In the fixture, /bin and /sbin are links.
    let split = || files().dir("bin").dir("sbin");
    for (files, path, gets) in [
        (split(), "/opt/bin", Some("/usr/sbin:/usr/bin:/sbin:/bin")),
        (split(), "/usr/bin:/bin", Some("/usr/sbin:/sbin")),
        (files(), "/opt/bin", Some("/usr/sbin:/usr/bin")),
        (files(), "/bin", Some("/usr/sbin")),
        (files(), "/usr/sbin:/bin", None),
    ] {
        let image = fixture_with("no-cupti", &files, vec![("Env", json!({"PATH": path}))]);
        let text = written(&image, &DROP);
        let step = text.split("RUN set -eu; \\\n").nth(1).unwrap();
        let line = gets.map(|folders| format!("    export PATH=\"$PATH:{folders}\"; \\"));
        let export = step.lines().next().filter(|line| line.contains("PATH"));
        assert_eq!(export, line.as_deref(), "{path}: {text}");
        assert!(text.contains(&format!("\nENV PATH=\"{path}\"\n")), "{text}");
    }
}

#[test]
fn a_tab_in_a_setting_is_written_and_other_control_characters_are_refused() {
    let image = fixture_with("no-cupti", &files(), vec![("Env", json!({"COLUMNS": "a\tb \\ $c"}))]);
    let text = written(&image, &DROP);
    assert!(text.contains("\nENV COLUMNS=\"a\tb \\\\ \\$c\"\n"), "{text}");
    for (value, said) in [
        ("a\nb", "a\\x0ab"),
        ("\u{1b}[m", "\\x1b[m"),
        ("a\u{202e}b", "a\\u{202e}b"),
    ] {
        let image = fixture_with("no-cupti", &files(), vec![("Env", json!({"COLUMNS": value}))]);
        let output = run(
            image.path(),
            &[&["dockerfile", "oci:image", "--base", "base:1"], &DROP[..]].concat(),
        );
        let why = format!("error: the variable COLUMNS cannot be written into a Dockerfile: {said}\n");
        assert_eq!(String::from_utf8_lossy(&output.stderr), why);
    }
}

#[test]
fn an_image_with_musl_gets_inference() {
    let text = written(&fixture("musl", &files(), &[]), &["--phase", "inference"]);
    let removed = group(&text, "static-libraries");
    assert_eq!(removed, ["10 B: nothing in the image is known to need it"]);
    // musl's loader takes other options, so it is not asked.
    assert!(!text.contains("--list"), "{text}");
}

#[test]
fn files_that_a_builder_loses_are_said() {
    let special = |layer: Layer, name: &str, kind| {
        let name = name.as_bytes().to_vec();
        layer.entry(Entry {
            name,
            mode: 0o644,
            kind,
        })
    };
    let files = files();
    let files = special(files, "run/queue", Kind::Fifo);
    let files = special(files, "srv/null", Kind::Typed(b'3'));
    // A container gets its own /dev.
    let files = special(files, "dev/null", Kind::Typed(b'3'));
    let image = fixture("no-cupti", &files, &[]);
    let output = run(
        image.path(),
        &[&["dockerfile", "oci:image", "--base", "base:1"], &DROP[..]].concat(),
    );
    let loss = "BuildKit before 0.11 drops FIFOs and turns device nodes into empty files, but the classic builder and \
                cupti-audit slim keep them: /run/queue and 1 more";
    let (text, said) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert_eq!((output.status.code(), said), (Some(0), format!("warning: {loss}\n")));
    assert!(text.contains(&format!("\n# Note: {loss}\n")), "{text}");
    // Without removed files nothing is copied, and nothing lost.
    let more = Layer::new().entry(Entry {
        name: b"run/queue".to_vec(),
        mode: 0o644,
        kind: Kind::Fifo,
    });
    written(&fixture("devel", &more, &[]), &["--phase", "profiling"]);
}

#[test]
fn the_prediction_knows_that_pips_lists_lose_the_removed_files() {
    let text = written(&fixture("pip-tensorflow", &files(), &[]), &["--phase", "inference"]);
    assert!(text.contains("keep pip's lists of files correct"), "{text}");
    assert!(text.contains("\n# audit of the result for inference: pass\n"), "{text}");
}
