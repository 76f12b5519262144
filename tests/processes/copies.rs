//! Tests the version and the owner of each copy, and images whose copies have no version.

use crate::plain_image::image_of;
use cupti_audit::facts::{
    CuptiStatus, GatherOptions, ImageFacts, ReadLayers, RequestOutcome, StartOverrides, gather_facts,
};
use cupti_audit::knowledge::Knowledge;
use cupti_audit::knowledge::file_interest::cupti_options;
use image_linkage::layer::{self, ExpectedBlob};
use image_linkage::loader::CpuLevel;
use image_linkage::path::RootPath;
use image_source::ImageConfig;
use testkit::elf::Elf;
use testkit::layer::Layer;

const SITE: &str = "usr/lib/python3/dist-packages";
const LIB: &str = "usr/lib/python3/dist-packages/nvidia/cuda_cupti/lib";

fn facts(layer: &Layer) -> ImageFacts {
    let loader = Elf::library("ld-linux-x86-64.so.2").string("/lib/x86_64-linux-gnu/");
    let loader = loader
        .string("/usr/lib/x86_64-linux-gnu/")
        .string("/lib/")
        .string("/usr/lib/");
    let base = Layer::new()
        .executable("lib64/ld-linux-x86-64.so.2", loader.build())
        .executable("usr/bin/python3.11", Elf::executable().build())
        .file("usr/lib/python3.11/os.py", "");
    let read = |layer: &Layer| {
        let tar = layer.tar();
        Ok(layer::index_layer("x", &*tar, &ExpectedBlob::default(), &cupti_options()).unwrap())
    };
    let layers = vec![read(&base), read(layer)];
    let options = GatherOptions {
        environment: Vec::new(),
        cpu: CpuLevel::V3,
        limits: image_linkage::limits::Limits::default(),
        start: StartOverrides::default(),
    };
    gather_facts(
        image_of("copies", layers.len(), ImageConfig::default()),
        ReadLayers { layers },
        &Knowledge::built_in(),
        &options,
    )
}

/// Each copy as `file: version by source, of package version`.
fn copies(layer: &Layer) -> Vec<String> {
    let facts = facts(layer);
    let said = facts.copies.iter().map(|copy| {
        let version = copy.version.as_ref();
        let version = version.map_or("?".to_owned(), |(version, by)| format!("{version} by {}", by.name()));
        let owner = format!("{} {}", copy.owner.name, copy.owner.version.as_deref().unwrap_or("?"));
        format!(
            "{}: {version}, of {owner}",
            copy.real_path.to_string().rsplit('/').next().unwrap()
        )
    });
    said.collect()
}

fn cupti(soname: &str) -> Vec<u8> {
    Elf::library(soname).build()
}

/// The metadata of a wheel that lists files below `nvidia/cuda_cupti/lib`, each with a size.
fn wheel(layer: Layer, name: &str, version: &str, files: &[(&str, usize)]) -> Layer {
    let folder = format!("{SITE}/{}-{version}.dist-info", name.replace('-', "_"));
    let listed = |(file, bytes): &(&str, usize)| format!("nvidia/cuda_cupti/lib/{file},sha256=x,{bytes}\n");
    let record: String = files.iter().map(listed).collect();
    layer
        .file(
            format!("{folder}/METADATA"),
            format!("Name: {name}\nVersion: {version}\n"),
        )
        .file(
            format!("{folder}/RECORD"),
            format!("nvidia/__init__.py,sha256=y,0\n{record}"),
        )
}

/// The database that `crates/image-linkage/testdata/rpm/make.sh` made with the real rpm.
fn rpm_database() -> Vec<u8> {
    let packed = include_bytes!("../../crates/image-linkage/testdata/rpm/rpmdb.sqlite.zst");
    zstd::decode_all(&packed[..]).unwrap()
}

#[test]
fn a_copy_belongs_to_the_rpm_package_that_lists_it() {
    let database = rpm_database();
    let toolkit = "usr/local/cuda-12.4/targets/x86_64-linux/lib";
    let layer = || {
        Layer::new()
            .file(format!("{toolkit}/libcupti.so.2024.1.1"), cupti("libcupti.so.12"))
            .file("opt/own/libcupti.so.12", cupti("libcupti.so.12"))
    };
    let of_package = "libcupti.so.2024.1.1: 12.4.127 by package, of cuda-cupti-12-4 12.4.127-1";
    let (by_hand, unknown) = (
        "libcupti.so.12: ?, of  ?",
        "libcupti.so.2024.1.1: 12.4 by file-name, of  ?",
    );
    // Fedora has the database in the other folder.
    for path in ["var/lib/rpm/rpmdb.sqlite", "usr/lib/sysimage/rpm/rpmdb.sqlite"] {
        let shut = layer().file(path, &database).file(format!("{path}-wal"), "");
        assert_eq!(copies(&shut), [by_hand, of_package]);
        for end in ["wal", "journal"] {
            let open = layer().file(path, &database).file(format!("{path}-{end}"), "x");
            assert_eq!(copies(&open), [by_hand, unknown]);
        }
        let damaged = layer().file(path, &database[..database.len() / 2]);
        assert_eq!(copies(&damaged), [by_hand, unknown]);
    }
    // A damaged database does not make an older one valid.
    let two = layer()
        .file("usr/lib/sysimage/rpm/rpmdb.sqlite", &database)
        .file("var/lib/rpm/rpmdb.sqlite", "damaged");
    assert_eq!(copies(&two), [by_hand, unknown]);
}

#[test]
fn of_two_wheels_in_one_folder_the_one_that_lists_the_file_has_it() {
    let (old, new) = (cupti("libcupti.so.11.8"), cupti("libcupti.so.12"));
    let layer = Layer::new()
        .file(format!("{LIB}/libcupti.so.11.8"), &old)
        .file(format!("{LIB}/libcupti.so.12"), &new);
    let layer = wheel(
        layer,
        "nvidia-cuda-cupti-cu11",
        "11.8.87",
        &[("libcupti.so.11.8", old.len())],
    );
    let layer = wheel(
        layer,
        "nvidia-cuda-cupti-cu12",
        "12.4.127",
        &[("libcupti.so.12", new.len())],
    );
    let expected = [
        "libcupti.so.11.8: 11.8.87 by package, of nvidia-cuda-cupti-cu11 11.8.87",
        "libcupti.so.12: 12.4.127 by package, of nvidia-cuda-cupti-cu12 12.4.127",
    ];
    assert_eq!(copies(&layer), expected);
}

#[test]
fn the_metadata_of_an_older_install_does_not_take_the_file() {
    let file = cupti("libcupti.so.12");
    let name = "nvidia-cuda-cupti-cu12";
    let layer = || Layer::new().file(format!("{LIB}/libcupti.so.12"), &file);
    let both = wheel(layer(), name, "12.1.105", &[("libcupti.so.12", 7_000_000)]);
    let both = wheel(both, name, "12.4.127", &[("libcupti.so.12", file.len())]);
    let of_new = "libcupti.so.12: 12.4.127 by package, of nvidia-cuda-cupti-cu12 12.4.127";
    assert_eq!(copies(&both), [of_new]);
    // A file that replaced the wheel's does not have the wheel's version.
    let replaced = wheel(layer(), name, "12.1.105", &[("libcupti.so.12", 7_000_000)]);
    assert_eq!(copies(&replaced), ["libcupti.so.12: ?, of nvidia-cuda-cupti-cu12 ?"]);
    let unlisted = wheel(layer(), name, "12.1.105", &[]);
    assert_eq!(copies(&unlisted), ["libcupti.so.12: ?, of  ?"]);
}

#[test]
fn the_distribution_whose_record_lists_a_copy_owns_it_however_the_list_is_written() {
    let file = cupti("libcupti.so.12");
    let bytes = file.len();
    let below_site = |place: &str| {
        let path = RootPath::from(SITE).join(place.as_bytes());
        String::from_utf8(path.as_bytes().to_vec()).unwrap()
    };
    let owner = |place: &str, folder: &str, metadata: &str, record: &str| {
        let layer = Layer::new()
            .file(below_site(place), &file)
            .file(format!("{SITE}/{folder}/METADATA"), metadata)
            .file(format!("{SITE}/{folder}/RECORD"), record);
        copies(&layer)
    };
    let torch = "Name: torch\nVersion: 2.8.0\n";
    assert_eq!(
        owner(
            "torch/lib/libcupti.so.12",
            "torch-2.8.0.dist-info",
            torch,
            &format!("torch/lib/libcupti.so.12,sha256=x,{bytes}\r\n"),
        ),
        ["libcupti.so.12: ?, of torch 2.8.0"]
    );
    // The wheel has a copy in a folder with another name.
    assert_eq!(
        owner(
            "own, \"odd\" folder/libcupti.so.12",
            "Torch-2.8.0.dist-info",
            torch,
            &format!("\"torch/../own, \"\"odd\"\" folder/libcupti.so.12\",sha256=x,{bytes}\n"),
        ),
        ["libcupti.so.12: ?, of torch 2.8.0"]
    );
    // pip 23 writes such lines for the data of a wheel, which it installs into the prefix.
    for (place, listed) in [
        ("../../libcupti.so.12", "../../libcupti.so.12"),
        (
            "../../../opt,\"x\"/libcupti.so.12",
            "\"../../../opt,\"\"x\"\"/libcupti.so.12\"",
        ),
    ] {
        assert_eq!(
            owner(
                place,
                "torch-2.8.0.dist-info",
                torch,
                &format!("{listed},sha256=x,{bytes}\n")
            ),
            ["libcupti.so.12: ?, of torch 2.8.0"]
        );
        assert_eq!(
            owner(place, "torch-2.8.0.dist-info", torch, "torch/libcupti.so.12,,\n"),
            ["libcupti.so.12: ?, of  ?"]
        );
    }
    let wheel = "Name: NVIDIA.cuda_cupti-cu12\nVersion: 12.8.90\n";
    let said = ["libcupti.so.12: 12.8.90 by package, of NVIDIA.cuda_cupti-cu12 12.8.90"];
    let place = "nvidia/cuda_cupti/lib/libcupti.so.12";
    for folder in [
        "NVIDIA.cuda_cupti-cu12-12.8.90.dist-info",
        "nvidia_cuda_cupti_cu12-12.8.90.dist-info",
    ] {
        assert_eq!(owner(place, folder, wheel, &format!("{place},,{bytes}")), said);
        assert_eq!(
            owner(place, folder, wheel, "nvidia/__init__.py,,"),
            ["libcupti.so.12: ?, of  ?"]
        );
    }
}

#[test]
fn what_the_bytes_say_comes_before_what_lies_around_them() {
    let name = "nvidia-cuda-cupti-cu12";
    let says = |text: &str| Elf::library("libcupti.so.12").string(text).build();
    let of = |file: &[u8], version: &str| {
        let layer = Layer::new().file(format!("{LIB}/libcupti.so.12"), file);
        copies(&wheel(layer, name, version, &[("libcupti.so.12", file.len())]))
    };
    let file = says("Build cuda_12.9.r12.9/compiler.35512601_0");
    // The package also gives the update of the same release.
    let exact = "libcupti.so.12: 12.9.79 by package, of nvidia-cuda-cupti-cu12 12.9.79";
    assert_eq!(of(&file, "12.9.79"), [exact]);
    let own = "libcupti.so.12: 12.9 by text, of nvidia-cuda-cupti-cu12 12.4.127";
    assert_eq!(of(&file, "12.4.127"), [own]);
    // A major version other than the soname's does not count.
    let plain = cupti("libcupti.so.12");
    assert_eq!(of(&plain, "13.0.85"), ["libcupti.so.12: ?, of  ?"]);
    let named = Layer::new().file("opt/libcupti.so.2025.3.1", &plain);
    assert_eq!(copies(&named), ["libcupti.so.2025.3.1: ?, of  ?"]);
    let named = Layer::new().file("opt/libcupti.so.2024.1.1", &plain);
    assert_eq!(copies(&named), ["libcupti.so.2024.1.1: 12.4 by file-name, of  ?"]);
}

#[test]
fn a_header_is_that_of_the_only_copy_near_it() {
    let header = |layer: Layer, version: &str| {
        let text = format!("#define CUPTI_API_VERSION {version}\n");
        layer.file("opt/tool/include/cupti_version.h", text)
    };
    let one = Layer::new().file("opt/tool/lib64/libcupti.so.12", cupti("libcupti.so.12"));
    assert_eq!(
        copies(&header(one.clone(), "22")),
        ["libcupti.so.12: 12.4 by header, of  ?"]
    );
    // The header is of CUDA 13, so it does not belong to this file.
    assert_eq!(copies(&header(one.clone(), "130001")), ["libcupti.so.12: ?, of  ?"]);
    let two = one.file(
        "opt/tool/lib/libcupti.so.12",
        [cupti("libcupti.so.12"), vec![0]].concat(),
    );
    let nobodys = ["libcupti.so.12: ?, of  ?", "libcupti.so.12: ?, of  ?"];
    assert_eq!(copies(&header(two, "22")), nobodys);
}

#[test]
fn a_conda_package_has_the_files_that_it_lists() {
    let list = |file: &str| format!("{{\"name\": \"cuda-cupti\", \"files\": [\"lib/{file}\"]}}");
    let layer = Layer::new()
        .file("opt/conda/lib/libcupti.so.12", cupti("libcupti.so.12"))
        .file("opt/conda/other/libcupti.so.12", cupti("libcupti.so.12"))
        .file(
            "opt/conda/conda-meta/cuda-cupti-12.1.62-0.json",
            list("libcupti.so.2023.1.0"),
        )
        .file(
            "opt/conda/conda-meta/cuda-cupti-12.4.127-0.json",
            list("libcupti.so.12"),
        );
    let expected = [
        "libcupti.so.12: 12.4.127 by package, of cuda-cupti 12.4.127",
        "libcupti.so.12: ?, of  ?",
    ];
    assert_eq!(copies(&layer), expected);
}

#[test]
fn without_a_file_the_status_is_headers_only_whatever_lies_beside() {
    let header = |layer: Layer| layer.file("usr/include/cupti.h", "");
    let link = |layer: Layer| layer.symlink("usr/lib/libcupti.so.12", "libcupti.so.2024.1.1");
    let status = |layer: Layer| facts(&layer).status.as_is;
    assert_eq!(status(Layer::new()), CuptiStatus::Absent);
    assert_eq!(status(header(Layer::new())), CuptiStatus::HeadersOnly);
    assert_eq!(status(link(Layer::new())), CuptiStatus::HeadersOnly);
    assert_eq!(status(header(link(Layer::new()))), CuptiStatus::HeadersOnly);
    let text = Layer::new().file("opt/libcupti.so.12", "404");
    assert_eq!(status(header(link(text))), CuptiStatus::Unloadable);
    let library = Layer::new().file("usr/lib/libcupti.so.12", cupti("libcupti.so.12"));
    assert_eq!(status(header(library)), CuptiStatus::Loadable);
}

/// The libcupti that a plug-in of JAX or TensorFlow gets from the default directory.
fn gets(object: &str, distribution: &str, version: &str, library: &str) -> Option<String> {
    let layer = Layer::new()
        .file(format!("usr/lib/{library}"), cupti(library))
        .file(
            format!("{SITE}/{object}"),
            Elf::library("plugin.so").import_weak("dlopen").build(),
        )
        .file(
            format!("{SITE}/{distribution}-{version}.dist-info/METADATA"),
            format!("Name: {distribution}\nVersion: {version}\n"),
        );
    let facts = facts(&layer);
    assert_eq!((facts.consumers.len(), facts.undecided.len()), (1, 0));
    let gets = &facts.consumers[0].outcome.as_is;
    let path = gets
        .real_path
        .as_ref()
        .filter(|_| gets.outcome == RequestOutcome::Loaded);
    path.map(ToString::to_string)
}

#[test]
fn frameworks_ask_for_the_cuda_that_they_were_built_with() {
    let jax = |cuda: &str, version: &str, library: &str| {
        let object = format!("jax_plugins/xla_cuda{cuda}/xla_cuda_plugin.so");
        gets(&object, &format!("jax_cuda{cuda}_pjrt"), version, library)
    };
    let path = |library: &str| Some(format!("/usr/lib/{library}"));
    assert_eq!(jax("12", "0.10.2", "libcupti.so.12"), path("libcupti.so.12"));
    assert_eq!(jax("13", "0.10.2", "libcupti.so.12"), None);
    assert_eq!(jax("12", "0.10.2", "libcupti.so.13"), None);
    assert_eq!(jax("13", "0.10.2", "libcupti.so.13"), path("libcupti.so.13"));
    assert_eq!(jax("13", "0.11.1", "libcupti.so"), path("libcupti.so"));
    // From 0.12 on it accepts the other one too.
    assert_eq!(jax("13", "0.12.0.1", "libcupti.so.12"), path("libcupti.so.12"));
    let tensorflow =
        |version: &str, library: &str| gets("tensorflow/libtensorflow_cc.so.2", "tensorflow", version, library);
    assert_eq!(tensorflow("2.21.0", "libcupti.so.12"), path("libcupti.so.12"));
    assert_eq!(tensorflow("2.21.0", "libcupti.so.11.8"), None);
    assert_eq!(tensorflow("2.17.0+nv24.10", "libcupti.so.13"), None);
    assert_eq!(tensorflow("2.14.1", "libcupti.so.11.8"), path("libcupti.so.11.8"));
    assert_eq!(tensorflow("2.14.1", "libcupti.so.12"), None);
    assert_eq!(tensorflow("2.11.0", "libcupti.so.11.2"), path("libcupti.so.11.2"));
}

#[test]
fn proton_has_a_second_library_for_newer_gpus() {
    let folder = format!("{SITE}/triton/backends/nvidia/lib");
    let proton = Elf::library("libproton.so").import_weak("dlopen").string("libcupti.so");
    let layer = Layer::new()
        .file(format!("{SITE}/triton/_C/libproton.so"), proton.build())
        .file(format!("{folder}/cupti/libcupti.so"), cupti("libcupti.so.12"));
    let all = |layer: &Layer| -> Vec<String> {
        let facts = facts(layer);
        let said = facts.consumers.iter().map(|consumer| {
            let path = consumer.outcome.as_is.real_path.as_ref().unwrap().to_string();
            format!(
                "{} {}",
                consumer.name,
                path.strip_prefix(&format!("/{folder}")).unwrap()
            )
        });
        said.collect()
    };
    assert_eq!(all(&layer), ["Triton proton /cupti/libcupti.so"]);
    let newer = layer.file(format!("{folder}/cupti-blackwell/libcupti.so"), cupti("libcupti.so.13"));
    let both = [
        "Triton proton /cupti/libcupti.so",
        "Triton proton on Blackwell /cupti-blackwell/libcupti.so",
    ];
    assert_eq!(all(&newer), both);
}

#[test]
fn a_name_that_merely_begins_alike_is_asked_for_by_nobody() {
    let of = |elf: Elf| {
        let facts = facts(&Layer::new().executable("usr/bin/x", elf.build()));
        (facts.consumers.len(), facts.undecided.len())
    };
    let program = || Elf::executable().needed("libc.so.6");
    // Strings that cupti-audit itself contains.
    assert_eq!(of(program().string("libcupti.so.").string("libcupti.so.old")), (0, 0));
    assert_eq!(of(program().string("libcuptihelper.so")), (0, 0));
    assert_eq!(of(program().string("could not open libcupti.so")), (0, 0));
    assert_eq!(of(program().string("libcupti.so")), (1, 0));
    assert_eq!(
        of(program().import_weak("dlopen").string("could not open libcupti.so")),
        (0, 1)
    );
    assert_eq!(of(program().import_weak("dlopen").string("libcupti.so.")), (1, 0));
}

#[test]
fn a_file_of_the_name_of_a_link_to_libcupti_may_be_another_library() {
    let program = Elf::executable()
        .needed("libc.so.6")
        .import_weak("dlopen")
        .string("libprof.so");
    let layer = Layer::new()
        .file("opt/cupti/libcupti.so.12", cupti("libcupti.so.12"))
        .symlink("opt/cupti/libprof.so", "libcupti.so.12")
        .executable("usr/bin/x", program.build());
    let count = |layer: Layer| {
        let facts = facts(&layer);
        (facts.consumers.len(), facts.undecided.len())
    };
    assert_eq!(count(layer.clone()), (0, 0));
    assert_eq!(
        count(
            layer
                .clone()
                .file("usr/lib/libprof.so", Elf::library("libprof.so").build())
        ),
        (0, 0)
    );
    assert_eq!(
        count(layer.symlink("usr/lib/libprof.so", "/opt/cupti/libprof.so")),
        (1, 0)
    );
}

#[test]
fn links_that_lead_to_each_other_lead_nowhere() {
    let dangling = |layer: &Layer| -> Vec<String> {
        let links = facts(layer).dangling.into_iter();
        links.map(|link| format!("{}: {}", link.path, link.why)).collect()
    };
    let lib = "opt/lib";
    let circle = Layer::new()
        .symlink(format!("{lib}/libcupti.so"), "libcupti.so.12")
        .symlink(format!("{lib}/libcupti.so.12"), "libcupti.so");
    let why = "Too many levels of symbolic links";
    assert_eq!(
        dangling(&circle),
        [
            format!("/{lib}/libcupti.so: {why}"),
            format!("/{lib}/libcupti.so.12: {why}")
        ]
    );
    let chain = Layer::new()
        .symlink(format!("{lib}/libcupti.so"), "libcupti.so.12")
        .symlink(format!("{lib}/libcupti.so.12"), "libcupti.so.2024.1.1");
    let why = "No such file or directory";
    assert_eq!(dangling(&chain), [format!("/{lib}/libcupti.so.12: {why}")]);
}
