//! Does an index contain the requested facts?

use image_linkage::layer::{ExpectedBlob, FileFacts, FileInterest, IndexOptions, LayerEntry, WantedFiles, index_layer};
use image_linkage::limits::Limits;
use testkit::elf::Elf;
use testkit::layer::Layer;

/// A layer with a library and a text file.
fn layer() -> Layer {
    let library = Elf::library("libown.so.1").export("own_init").string("libplugin.so");
    Layer::new()
        .file("opt/lib/libown.so.1", library.build())
        .file("etc/motd", "hello")
}

/// The facts of the library and of another file, read with the interest `wanted`.
fn read(wanted: WantedFiles) -> [FileFacts; 2] {
    let options = IndexOptions {
        interest: FileInterest::from(wanted),
        ..IndexOptions::default()
    };
    let tar = layer().tar();
    let index = index_layer("L", tar.as_slice(), &ExpectedBlob::default(), &options).unwrap();
    ["opt/lib/libown.so.1", "etc/motd"].map(|path| match index.entries.get(path.as_bytes()) {
        Some(LayerEntry::File(facts)) => FileFacts::clone(facts),
        other => panic!("{path}: {other:?}"),
    })
}

fn list(text: &str) -> std::collections::BTreeSet<String> {
    [text.to_owned()].into()
}

#[test]
fn two_interests_index_differently_and_have_two_fingerprints() {
    let wanted = WantedFiles {
        kept: list("etc/motd"),
        hashed: list("libown.so*"),
        names: list("libplugin.so"),
        symbol_prefixes: list("own_"),
        ..WantedFiles::default()
    };
    let [library, file] = read(wanted.clone());
    let elf = library.elf.unwrap();
    assert_eq!(elf.mentions, [Box::from(&b"libplugin.so"[..])]);
    assert_eq!(*elf.symbols[0].name, *b"own_init");
    assert_eq!(library.sha256.unwrap().len(), 64);
    assert_eq!(file.kept.as_deref(), Some(&b"hello"[..]));

    let [library, file] = read(WantedFiles::default());
    let elf = library.elf.unwrap();
    assert_eq!((elf.mentions, elf.symbols), (vec![], vec![]));
    assert_eq!((library.sha256, file.kept), (None, None));

    for (word, kept) in [("hell", Some(&b"hello"[..])), ("bye", None)] {
        let [_, file] = read(WantedFiles {
            texts: list("motd"),
            text_words: list(word),
            ..WantedFiles::default()
        });
        assert_eq!(file.kept.as_deref(), kept, "{word}");
    }

    for (word, noted) in [("hello", vec![Box::from("hello")]), ("hell", vec![])] {
        let [_, file] = read(WantedFiles {
            texts: list("motd"),
            noted_words: list(word),
            ..WantedFiles::default()
        });
        assert_eq!((file.kept, file.noted_words.into_vec()), (None, noted), "{word}");
    }

    let asked = FileInterest::from(wanted).fingerprint();
    assert_ne!(asked, FileInterest::default().fingerprint());
}

#[test]
fn files_of_the_loader_have_room_behind_any_number_of_modules() {
    let options = IndexOptions {
        interest: FileInterest::from(WantedFiles {
            texts: list("*.py"),
            text_words: list("x"),
            ..WantedFiles::default()
        }),
        limits: Limits {
            kept_total: 2000,
            ..Limits::default()
        },
    };
    let modules = ["a/1.py", "a/2.py", "a/3.py", "a/4.py"];
    let layer = modules
        .iter()
        .fold(Layer::new(), |layer, path| layer.file(path, "x".repeat(600)));
    let tar = layer.file("etc/ld.so.cache", "c".repeat(700)).tar();
    let index = index_layer("L", tar.as_slice(), &ExpectedBlob::default(), &options).unwrap();
    let kept: Vec<String> = index.entries.kept_files().map(|(path, _)| path.to_string()).collect();
    assert_eq!(kept, ["/a/1.py", "/a/2.py", "/etc/ld.so.cache"]);
    let problems: Vec<String> = index
        .problems
        .iter()
        .map(|it| format!("{}: {}", it.path, it.what))
        .collect();
    assert_eq!(
        problems,
        [
            "/a/3.py: not read, like 1 other file: the texts of the layer exceed the limit of 2000 bytes; raise it with --limit kept-total=4000"
        ]
    );
}
