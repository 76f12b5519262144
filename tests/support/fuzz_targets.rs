//! The fuzz targets: functions on arbitrary bytes. They may return an error, but must not panic, hang, or hold more
//! memory than they read.
//!
//! `cargo test --test bad_input fuzz` runs them on mutated seeds, `make fuzz` on the inputs of libFuzzer.

use std::sync::OnceLock;

use cupti_audit::cli::fuzz_entries;
use cupti_audit::facts::{GatherOptions, ReadLayers, StartOverrides, gather_facts};
use cupti_audit::judge::audit::judge_image;
use cupti_audit::knowledge::file_interest::cupti_options;
use cupti_audit::knowledge::patterns::compile_glob;
use cupti_audit::knowledge::rule::Rule;
use cupti_audit::knowledge::yaml_text::YamlText;
use cupti_audit::knowledge::{Knowledge, matches_name_pattern};
use image_linkage::layer::{
    ExpectedBlob, IndexOptions, LayerIndex, index_layer, listed_files, read_file_facts, read_index, write_index,
};
use image_linkage::limits::Limits;
use image_linkage::loader::{
    Arch, CpuLevel, DynamicLoader, LoaderEnvironment, ProcessSetup, SimulatedProcess, StartMode,
};
use image_linkage::loader::{LdSoConf, matches_text, run_ldconfig};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{self, FileCredentials, Rootfs};
use image_source::{
    ImageConfig, OpenRequest, Platform, PreferredDocument, RegistryReference, SourceKind, WantedImage, open_stream,
    read_image_config,
};
use python_path::{MarkerValues, read_requirements};
use testkit::elf::Elf;
use testkit::layer::{Compression, Layer, sha256};

use super::plain_image::image_of;

/// A target's name, the seeds that are not texts in `fuzz/seeds`, and the function under test.
pub struct FuzzTarget {
    pub name: &'static str,
    pub seeds: fn() -> Vec<Vec<u8>>,
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [FuzzTarget; 13] = [
    target("reference", Vec::new, read_reference),
    target("manifest", Vec::new, read_manifest),
    target("layer", seeds_of_layers, read_layer),
    target("elf", seeds_of_objects, read_object),
    target("ld_so_cache", seeds_of_caches, read_cache),
    target("ld_so_conf", Vec::new, read_conf),
    target("package", Vec::new, read_package),
    target("glob", Vec::new, match_globs),
    target("rule", seeds_of_rules, read_rule),
    target("config", Vec::new, read_config),
    target("archive", seeds_of_archives, read_archive),
    target("quote", Vec::new, quote_text),
    target("image", seeds_of_images, judge_any_image),
];

const fn target(name: &'static str, seeds: fn() -> Vec<Vec<u8>>, run: fn(&[u8])) -> FuzzTarget {
    FuzzTarget { name, seeds, run }
}

/// The options of an audit, with limits that an input of a few kilobytes can reach.
fn options() -> &'static IndexOptions {
    static OPTIONS: OnceLock<IndexOptions> = OnceLock::new();
    OPTIONS.get_or_init(|| {
        let mut options = cupti_options();
        options.limits = Limits {
            layer_bytes: 1 << 20,
            layer_entries: 2_000,
            layer_names: 4 << 20,
            elf_head: 1 << 20,
            loader_steps: 20_000,
            ..Limits::default()
        };
        options
    })
}

fn index(tar: &[u8]) -> Result<LayerIndex, String> {
    index_layer("fuzzed", tar, &ExpectedBlob::default(), options()).map_err(|error| error.to_string())
}

fn read_reference(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(reference) = text.parse::<RegistryReference>() {
        let written = reference.to_string();
        assert_eq!(
            written.parse::<RegistryReference>().as_ref(),
            Ok(&reference),
            "{written}"
        );
        // The parts of a reference must not change the rest of an HTTP address.
        let parts = [reference.registry(), reference.repository()];
        let is_odd = |c: char| c.is_control() || c.is_whitespace() || "?#%@\\".contains(c);
        assert!(
            !parts.concat().contains(is_odd) && !reference.repository().contains(".."),
            "{written}"
        );
    }
    drop(Platform::parse(&text));
    drop(text.parse::<image_linkage::digest::Digest>());
}

/// A manifest, an index or a config as the only document of a layout.
fn read_manifest(bytes: &[u8]) {
    drop(read_image_config("fuzzed", bytes));
    let descriptor = format!(
        r#"{{"manifests":[{{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"{}","size":{}}}]}}"#,
        sha256(bytes),
        bytes.len()
    );
    let name = |bytes: &[u8]| format!("blobs/{}", sha256(bytes).replace(':', "/"));
    let archive = Layer::new()
        .file("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#)
        .file("index.json", descriptor)
        .file(name(b"{}"), "{}")
        .file(name(bytes), bytes);
    read_archive(&archive.tar());
}

fn seeds_of_archives() -> Vec<Vec<u8>> {
    let mut layout = testkit::oci::Layout::new();
    let layer = Layer::new().file("a", "b").symlink("c", "a");
    let image = testkit::oci::Image::new("linux/amd64").layer("COPY", &layer, Compression::Gzip);
    layout.add("latest", &[image]);
    let tar = layer.tar();
    let config = format!(
        r#"{{"architecture":"amd64","os":"linux","rootfs":{{"type":"layers","diff_ids":["{}"]}}}}"#,
        sha256(&tar)
    );
    let saved = Layer::new()
        .file("0/layer.tar", &tar)
        .symlink("1/layer.tar", "../0/layer.tar")
        .file("c.json", config)
        .file(
            "manifest.json",
            r#"[{"Config":"c.json","RepoTags":["a:1"],"Layers":["1/layer.tar"]}]"#,
        );
    vec![
        layout.archive(),
        saved.tar(),
        saved.blob(Compression::Gzip).bytes,
        saved.blob(Compression::Zstd).bytes,
    ]
}

fn read_archive(bytes: &[u8]) {
    let request = OpenRequest {
        platform: None,
        index: options(),
        progress: &(),
        cache: None,
    };
    let wanted = WantedImage {
        reference: "fuzzed",
        name: None,
        docker: SourceKind::Oci,
        first: PreferredDocument::DockerManifest,
    };
    drop(open_stream("fuzzed", bytes, &wanted, &request));
}

fn seeds_of_layers() -> Vec<Vec<u8>> {
    let plain = Layer::new()
        .dir("etc")
        .file("etc/ld.so.conf", "/opt/lib\n")
        .symlink("lib", "usr/lib")
        .hardlink("hard", "etc/ld.so.conf")
        .whiteout("etc/gone")
        .opaque("opt")
        .file("a".repeat(200), Elf::library("libx.so").build());
    let compressions = [Compression::None, Compression::Gzip, Compression::Zstd];
    compressions.map(|compression| plain.blob(compression).bytes).into()
}

fn read_layer(bytes: &[u8]) {
    let Ok(layer) = index(bytes) else { return };
    let mut kept = Vec::new();
    write_index(&layer, &mut kept).expect("a vector takes all");
    // An index depends only on the uncompressed bytes, because it is shared by all compressed forms of a tar.
    let back = read_index(&mut kept.as_slice()).map(|back| back.entries);
    assert_eq!(back.ok().as_ref(), Some(&layer.entries));
    let (rootfs, _) = rootfs::merge_layers([&layer, &layer]);
    rootfs.visit(|path, _, _| drop(rootfs.lookup(path.as_bytes())));
}

fn seeds_of_objects() -> Vec<Vec<u8>> {
    let library = Elf::library("libcupti.so.12")
        .needed("libc.so.6")
        .runpath("$ORIGIN/../lib")
        .verdef("libcupti.so.12")
        .verneed("libc.so.6", "GLIBC_2.34")
        .export_at("cuptiGetVersion", "libcupti.so.12")
        .import("dlopen")
        .string("libnvperf_host.so")
        .dlopen_note(r#"[{"soname":["liba.so"]}]"#);
    vec![
        library.build(),
        library.clone().patched().build(),
        Elf::executable().needed("libx.so").build(),
    ]
}

fn read_object(bytes: &[u8]) {
    let path = RootPath::new(b"usr/lib/libcupti.so.12");
    let read = read_file_facts(&path, (0o755, None), &mut { bytes }, options());
    let (facts, _) = read.expect("bytes in memory are read");
    // A process maps the file: exercises the loader's checks and the tables.
    let layer = Layer::new()
        .file("usr/lib/libcupti.so.12", bytes)
        .executable("bin/a", Elf::executable().needed("libcupti.so.12").build());
    start(&layer);
    drop(facts);
}

/// A root with a loader, programs and libraries, to which the fuzzed files are added.
fn base() -> &'static LayerIndex {
    static BASE: OnceLock<LayerIndex> = OnceLock::new();
    BASE.get_or_init(|| index(&base_layer().tar()).expect("it is a good layer"))
}

fn base_layer() -> Layer {
    let loader = Elf::library("ld-linux-x86-64.so.2").string("GNU C Library (GNU libc) stable release version 2.36.");
    Layer::new()
        .symlink("lib64", "usr/lib64")
        .symlink("lib", "usr/lib")
        .executable("usr/lib64/ld-linux-x86-64.so.2", loader.build())
        .file("usr/lib/x86_64-linux-gnu/libc.so.6", Elf::library("libc.so.6").build())
        .file("opt/a/liba.so.1", Elf::library("liba.so.1").build())
        .file(
            "usr/lib/x86_64-linux-gnu/libcupti.so.12.4",
            Elf::library("libcupti.so.12").build(),
        )
}

fn with_base(layer: &Layer) -> Option<(Rootfs, Option<DynamicLoader>)> {
    let layer = index(&layer.tar()).ok()?;
    let (rootfs, _) = rootfs::merge_layers([base(), &layer]);
    let arch = Arch::of_platform("amd64")?;
    let loader = DynamicLoader::find_default(&rootfs, arch, CpuLevel::V3);
    Some((rootfs, loader))
}

/// Simulates the start of `/bin/a`, and of an object that it opens.
fn start(layer: &Layer) {
    let Some((rootfs, Some(linker))) = with_base(layer) else {
        return;
    };
    let environment = LoaderEnvironment {
        library_path: Some(b"/usr/lib"[..].into()),
        ..LoaderEnvironment::default()
    };
    let setup = ProcessSetup {
        rootfs: &rootfs,
        linker: &linker,
        environment: &environment,
        user: &FileCredentials::default(),
        cpu: CpuLevel::V3,
        from_driver: &|_| false,
    };
    let mut process = SimulatedProcess::new(&setup);
    drop(process.start(b"/bin/a", StartMode::Executed));
    drop(process.open(b"libcupti.so.12", None));
}

fn seeds_of_caches() -> Vec<Vec<u8>> {
    use testkit::ldcache::{Cache, Format, X86_64};
    [Format::New, Format::Compat, Format::Old]
        .map(|format| {
            Cache::new()
                .format(format)
                .entry(X86_64, "libcupti.so.12", "/usr/lib/x86_64-linux-gnu/libcupti.so.12.4")
                .entry(X86_64, "liba.so.1", "/opt/a/liba.so.1")
                .build()
        })
        .into()
}

fn read_cache(bytes: &[u8]) {
    let layer = Layer::new().file("etc/ld.so.cache", bytes).executable(
        "bin/a",
        Elf::executable().needed("libcupti.so.12").needed("liba.so.1").build(),
    );
    start(&layer);
}

fn read_conf(bytes: &[u8]) {
    let layer = Layer::new()
        .file("etc/ld.so.conf", bytes)
        .file("etc/ld.so.conf.d/x.conf", bytes);
    let Some((rootfs, loader)) = with_base(&layer) else {
        return;
    };
    let conf = LdSoConf::read(&rootfs);
    assert!(conf.directories.len() <= 2 * bytes.len() * 256);
    if let Some(loader) = loader {
        drop(run_ldconfig(&rootfs, &loader, Vec::new()));
    }
}

/// Parses installed packages and requirements from Python metadata.
fn read_package(bytes: &[u8]) {
    let list = RootPath::from("opt/site-packages/torch-1.dist-info/RECORD");
    assert!(listed_files(&list, bytes).len() <= bytes.len());
    let python = MarkerValues::of_python("3.11", "x86_64").unwrap();
    let lines = bytes.split(|&byte| byte == b'\n');
    let named: Vec<u8> = lines
        .flat_map(|line| [b"Requires-Dist: ", line, b"\n"].concat())
        .collect();
    for metadata in [bytes, &named] {
        for found in read_requirements(metadata, &python, &["x".to_owned()]) {
            found.admits("1.0");
        }
    }
}

fn match_globs(bytes: &[u8]) {
    let (pattern, text) = bytes.split_at(bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len()));
    matches_text(pattern, text);
    matches_name_pattern(text, &String::from_utf8_lossy(pattern));
    if let Ok(set) = compile_glob(&String::from_utf8_lossy(pattern)) {
        set.is_match(&*String::from_utf8_lossy(text));
    }
}

fn seeds_of_rules() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../rules/cupti-not-on-search-path.yaml").to_vec(),
        include_bytes!("../../rules/missing-dependency.yaml").to_vec(),
    ]
}

fn read_rule(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let phases = ["training", "serving"];
    drop(Rule::read("missing-dependency", YamlText::of(text), &phases));
}

fn read_config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(mistake) = fuzz_entries::config_mistake(&text) {
        assert!(mistake.starts_with("config:"), "{mistake}");
    }
}

/// The word that a POSIX shell reads (2.2). Supports only single quotes, and backslashes outside of them.
fn shell_word(quoted: &str) -> String {
    let (mut word, mut inside, mut escaped) = (String::new(), false, false);
    for c in quoted.chars() {
        match c {
            _ if escaped => {
                escaped = {
                    word.push(c);
                    false
                }
            }
            '\'' => inside = !inside,
            '\\' if !inside => escaped = true,
            _ => {
                assert!(
                    inside || c.is_ascii_alphanumeric() || "/._+@%=:,-".contains(c),
                    "{quoted}"
                );
                word.push(c);
            }
        }
    }
    assert!(!inside && !escaped, "{quoted}");
    word
}

fn quote_text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some([shell, env, comment]) = fuzz_entries::quoted(&text) {
        assert_eq!(shell_word(&shell), text);
        let inner = env
            .strip_prefix('"')
            .and_then(|env| env.strip_suffix('"'))
            .unwrap_or_default();
        let mut chars = inner.chars();
        let mut plain = String::new();
        while let Some(c) = chars.next() {
            assert!(!matches!(c, '"' | '$'), "{env}");
            plain.push(if c == '\\' { chars.next().unwrap_or('"') } else { c });
        }
        assert_eq!(plain, text);
        assert!(!comment.contains(char::is_control));
    }
    let [plain, literal] = fuzz_entries::unquoted(bytes);
    for name in plain.iter().chain(&literal) {
        assert!(name.as_bytes() == bytes && !name.contains(|c: char| c.is_control() || "$*?[]\\\"".contains(c)));
    }
    assert!(plain.is_none_or(|name| shell_word(&name).as_bytes() == bytes));
}

/// Gathers facts, a verdict and reports of an image with these layers above [`base`], this command and this
/// environment.
fn judge(layers: &[&Layer], command: &[String], environment: &str) {
    static KNOWLEDGE: OnceLock<Knowledge> = OnceLock::new();
    let knowledge = KNOWLEDGE.get_or_init(Knowledge::built_in);
    let mut indexed = vec![Ok(base().clone())];
    for layer in layers {
        // A layer that no engine can unpack is an error.
        let Ok(layer) = index(&layer.tar()) else { return };
        indexed.push(Ok(layer));
    }
    let config = ImageConfig {
        env: environment.lines().map(image_source::split_env).collect(),
        command: command.to_vec(),
        ..ImageConfig::default()
    };
    let image = image_of("fuzzed", indexed.len(), config);
    let conditions = GatherOptions {
        environment: Vec::new(),
        cpu: CpuLevel::V3,
        limits: options().limits.clone(),
        start: StartOverrides::default(),
    };
    let facts = gather_facts(image, ReadLayers { layers: indexed }, knowledge, &conditions);
    let audit = judge_image(facts, knowledge, &["training".to_owned()], &[]);
    let reports = fuzz_entries::reports(&audit, &knowledge.rules);
    for (number, report) in reports.iter().enumerate() {
        // Styles are removed if the output is not a terminal, so the text report may contain them here.
        let is_control = |c: char| c.is_control() && c != '\n' && (number, c) != (0, '\u{1b}');
        assert!(
            !report.contains(is_control) && !report.contains("\n::error:"),
            "{report:?}"
        );
    }
    assert!(serde_json::from_str::<serde_json::Value>(&reports[1]).is_ok());
}

/// Decodes choices, one per byte. After the end, every choice is the first option.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn below(&mut self, end: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % end
    }

    /// One of the texts between bars.
    fn pick<'t>(&mut self, from: &'t str) -> &'t str {
        let place = self.below(from.split('|').count());
        from.split('|').nth(place).unwrap_or_default()
    }

    /// Joins up to three of the texts with a separator.
    fn several(&mut self, from: &str, between: &str) -> String {
        let picked: Vec<&str> = (0..self.below(4)).map(|_| self.pick(from)).collect();
        picked.join(between)
    }
}

const NAMES: &str = "libcupti.so.12|libcupti.so|liba.so.1|libc.so.6|libnvperf_host.so|a|..|.wh.a|.wh..wh..opq|\
    ld-linux-x86-64.so.2|x\u{7}\u{1b}[31m\n::error:|entry.sh";
const FOLDERS: &str = "usr/lib|usr/lib/x86_64-linux-gnu|usr/lib64|opt/a|opt/b|opt||lib64|etc/ld.so.conf.d|usr/local/cuda/lib64|\
    usr/lib/python3/dist-packages/torch/lib|bin|../..|etc";
const PATHS: &str = "/opt/a|/opt/b|$ORIGIN|$ORIGIN/../..|${LIB}/x||/usr/local/cuda/lib64|a|/etc/../opt|$PLATFORM|\
    /opt/b/liba.so.1|/proc/self/cwd";
const LINES: &str = "#!/bin/sh|#!/usr/bin/env python3|export LD_LIBRARY_PATH=/opt/a:$LD_LIBRARY_PATH|exec /bin/a \"$@\"|\
    set -eu|if [ -f /opt/a/liba.so.1 ]; then|fi|for x in $(seq 9); do|done|\
    import ctypes; ctypes.CDLL('libcupti.so.12')|include /etc/ld.so.conf.d/*.conf|/opt/a|/opt/b|${X:-${Y:?}}|\
    case $1 in *) ;; esac|. /etc/entry.sh";

/// A layer with up to sixteen entries, chosen by the bytes.
fn chosen_layer(choices: &mut Choices<'_>) -> Layer {
    let mut layer = Layer::new();
    for _ in 0..choices.below(17) {
        let folder = choices.pick(FOLDERS);
        let name = format!("{folder}/{}", choices.pick(NAMES));
        layer = match choices.below(9) {
            0 => layer.symlink(name, format!("{}/{}", choices.pick(PATHS), choices.pick(NAMES))),
            1 => layer.symlink(folder, choices.pick(PATHS)),
            2 => layer.hardlink(name, format!("{}/{}", choices.pick(FOLDERS), choices.pick(NAMES))),
            3 => layer.dir(name),
            4 => layer.executable(name, choices.several(LINES, "\n")),
            5 => layer.file("etc/ld.so.conf", choices.several(LINES, "\n")),
            6 => layer.executable(
                format!("bin/{}", choices.pick("a|sh|python3")),
                chosen_object(choices, true),
            ),
            _ => layer.file(name, chosen_object(choices, false)),
        };
    }
    layer
}

fn chosen_object(choices: &mut Choices<'_>, is_program: bool) -> Vec<u8> {
    let mut object = if is_program {
        Elf::executable()
    } else {
        Elf::library(choices.pick(NAMES))
    };
    for _ in 0..choices.below(4) {
        object = object.needed(choices.pick(NAMES));
    }
    object = match choices.below(4) {
        0 => object.rpath(choices.several(PATHS, ":")),
        1 => object.runpath(choices.several(PATHS, ":")),
        2 => object.import("dlopen").string(choices.pick(NAMES)),
        _ => object.import_at("cuptiGetVersion", "libcupti.so.12", "libcupti.so.12"),
    };
    let mut bytes = object.build();
    // Damages some objects.
    if choices.below(4) == 3 {
        let at = (choices.below(256) * 256 + choices.below(256)) % bytes.len();
        bytes[at] ^= 1 << choices.below(8);
        bytes.truncate(bytes.len() - choices.below(3) * at / 2);
    }
    bytes
}

fn seeds_of_images() -> Vec<Vec<u8>> {
    // Arbitrary bytes are valid choices.
    let bytes = |seed: u8| {
        (0..200_u8)
            .map(|at| at.wrapping_mul(37).wrapping_add(seed.wrapping_mul(91)))
            .collect()
    };
    (0..8).map(bytes).collect()
}

/// Builds an image from the bytes: layers with links, objects, scripts and settings, a command and an environment.
fn judge_any_image(bytes: &[u8]) {
    let mut choices = Choices(bytes.iter());
    let layers: Vec<Layer> = (0..=choices.below(3)).map(|_| chosen_layer(&mut choices)).collect();
    let layers: Vec<&Layer> = layers.iter().collect();
    let words = "/bin/a|entry.sh|/etc/entry.sh|python3|sh|-c|-m|/opt/a/a";
    let command: Vec<String> = (0..choices.below(4)).map(|_| choices.pick(words).to_owned()).collect();
    let preload = choices.several(NAMES, ":");
    let environment = format!("LD_LIBRARY_PATH={}\nLD_PRELOAD={preload}", choices.several(PATHS, ":"));
    judge(&layers, &command, &environment);
}
