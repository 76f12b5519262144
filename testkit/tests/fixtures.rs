//! The fixtures of the repository: well formed, remade, and every shared file in use.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests read the repository's own folder"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use testkit::spec::{EntrySpec, Expect, Fixture, Sources, Status, generated};

/// The ids of the rules: the stems of the files in `rules/`.
fn rules() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rules");
    let stem = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().path().file_stem().unwrap().display().to_string();
    fs::read_dir(folder).unwrap().map(stem).collect()
}

fn sources() -> Sources {
    Sources::of_repository().unwrap()
}

/// What a fixture expects, of all its platforms.
fn expectations(fixture: &Fixture) -> impl Iterator<Item = &Expect> {
    let others = fixture.also.iter().map(|other| &other.expect);
    std::iter::once(&fixture.expect).chain(others)
}

#[test]
fn the_images_in_the_repository_are_as_their_sources_say() {
    let sources = sources();
    for name in sources.fixtures().keys() {
        for (path, bytes) in sources.layout(name).unwrap().files() {
            let committed = fs::read(generated().join(name).join(&path));
            let same = committed.is_ok_and(|committed| committed == bytes);
            assert!(same, "{name}/{path}: run `cargo xtask fixtures`");
        }
    }
}

#[test]
fn expectations_agree_with_themselves() {
    for (name, fixture) in sources().fixtures() {
        assert!(fixture.about.len() > 40, "{name}: say which real situation it is");
        for expect in expectations(fixture) {
            let findings = &expect.findings;
            assert!(findings.is_sorted(), "{name}: {findings:?}");
            for rule in findings {
                assert!(rules().contains(rule), "{name}: {rule}");
            }
            // Notes and warnings do not fail a run, and 2 may come of the verdict alone: only a run could tell.
            assert!(expect.exit != 1 || !findings.is_empty(), "{name}");
            assert!((0..=2).contains(&expect.exit), "{name}: {}", expect.exit);
            if expect.status == Status::Loadable {
                assert_eq!(expect.status_nvidia, Status::Loadable, "{name}");
            }
        }
    }
}

#[test]
fn every_base_and_part_is_used() {
    let sources = sources();
    let mut bases = BTreeSet::new();
    let mut layers = Vec::new();
    for fixture in sources.fixtures().values() {
        bases.extend(fixture.base.clone());
        layers.extend(&fixture.layers);
        for other in &fixture.also {
            bases.extend(other.base.clone());
            layers.extend(&other.layers);
        }
    }
    for base in sources.bases().values() {
        bases.extend(base.base.clone());
        layers.extend(&base.layers);
    }
    assert_eq!(
        bases.into_iter().collect::<Vec<_>>(),
        sources.bases().keys().cloned().collect::<Vec<_>>()
    );
    let entries = layers.iter().flat_map(|layer| layer.entries.iter().flatten());
    let parts: BTreeSet<&str> = entries
        .filter_map(|(_, entry)| match entry {
            EntrySpec::Part(name) => Some(name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        parts.into_iter().collect::<Vec<_>>(),
        sources.parts().collect::<Vec<_>>()
    );
}

/// Reads a folder that holds one fixture, one base and one part; returns what is wrong, without the
/// folder's name.
fn mistake(fixture: &str) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let expect = "expect: {status: absent, status_nvidia: absent, exit: 0}\n";
    write("one.yaml", &format!("about: one\n{expect}{fixture}"));
    write(
        "bases/loop.yaml",
        "about: a base below itself\nbase: loop\nlayers: []\n",
    );
    write("parts/alias.yaml", "part: alias\n");
    let built = Sources::read(dir.path()).and_then(|sources| sources.layout("one"));
    let error = built.err()?.to_string();
    let folder = format!("{}/", dir.path().display());
    Some(error.replace(&folder, ""))
}

#[test]
fn mistakes_are_named_with_their_place() {
    assert_eq!(mistake(""), None);
    let layer = |entry: &str| format!("layers: [{{created_by: RUN, entries: {{{entry}}}}}]\n");
    for (fixture, expected) in [
        ("base: none\n".to_owned(), "fixture one: there is no base none"),
        ("base: loop\n".to_owned(), "fixture one: base loop lies below itself"),
        (
            layer("/x: {part: none}"),
            "fixture one: layer \"RUN\": /x: there is no part none",
        ),
        (
            layer("/x: {part: alias}"),
            "fixture one: layer \"RUN\": /x: part alias is only a name of another part",
        ),
        (layer("x: dir"), "fixture one: layer \"RUN\": x: a path begins with /"),
        (
            layer("/x: {elf: {imports: [a@B]}}"),
            "fixture one: layer \"RUN\": /x: import a@B: no file in verneed has the version B",
        ),
        (
            layer("/x: {elf: {class: 16}}"),
            "fixture one: layer \"RUN\": /x: class is 16: an ELF object has 32 or 64",
        ),
        (
            layer("/x: {ldcache: {}}") + "platform: linux/riscv64\n",
            "fixture one: layer \"RUN\": /x: no flags of ld.so.cache are known for linux/riscv64",
        ),
    ] {
        assert_eq!(mistake(&fixture).as_deref(), Some(expected), "{fixture}");
    }
    for fixture in [
        "layer: []\n".to_owned(),
        layer("/x: {elf: {sonname: y}}"),
        layer("/x: file"),
    ] {
        let error = mistake(&fixture).unwrap();
        assert!(error.starts_with("one.yaml: ") && error.contains("line 3"), "{error}");
    }
    assert!(Sources::read(Path::new("/nonexistent")).is_err());
}
