//! Questions about musl's loader.

use std::fs;

use image_linkage::path::RootPath;
use indexmap::IndexMap;
use serde::Deserialize;
use testkit::elf::Elf;

use crate::loader_tree::{Entry, Tree};

use super::{Case, Judge, LOADER, PROGRAM, StartMode, check, errors, listed_path, loaded, process, said};

/// The file with the default directories.
const PATH_FILE: &str = "/etc/ld-musl-x86_64.path";

/// A question in `testdata/musl.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    files: Tree,
    preload: Option<String>,
    /// What the program loads and says. If neither is there, only the real loader knows.
    #[serde(default)]
    loads: Vec<String>,
    #[serde(default)]
    says: Vec<String>,
}

#[test]
fn does_each_question_have_the_answer_of_the_real_loader() {
    let questions: IndexMap<String, Question> =
        serde_saphyr::from_str(include_str!("../../testdata/musl.yaml")).unwrap();
    let Some(judge) = Judge::new() else { return };
    for (
        name,
        Question {
            files,
            preload,
            loads,
            says,
        },
    ) in questions
    {
        let mut case = Case {
            preload,
            ..Case::default()
        };
        for (path, entry) in &files.0 {
            case = match (entry, entry.bytes()) {
                (Entry::Link(target), _) => case.link(path, target),
                (_, bytes) => case.file(path, bytes.unwrap()),
            };
        }
        println!("{name}");
        let ours = check(&judge, &case);
        if !(loads.is_empty() && says.is_empty()) {
            assert_eq!((loaded(&ours), errors(&ours)), (loads, says), "{name}");
        }
    }
}

fn program() -> Elf {
    Elf::executable().interp(LOADER)
}

fn x() -> Vec<u8> {
    Elf::library("libx.so").build()
}

#[test]
fn where_is_the_path_file_of_a_moved_loader() {
    let loader = "/opt/musl/lib/ld-musl-x86_64.so.1";
    let case = Case::by_hand(&Elf::executable().interp(loader).needed("libx.so"));
    let case = case
        .link(loader, LOADER)
        .file("/opt/musl/etc/ld-musl-x86_64.path", "/opt/b")
        .file(PATH_FILE, "/opt/a")
        .file("/opt/a/libx.so", x())
        .file("/opt/b/libx.so", x());
    let Some(judge) = Judge::new() else { return };
    let root = judge.root(&case);
    let rootfs = judge.read(root.path());
    let arch = super::Arch::of_platform("amd64").unwrap();
    let linker = super::DynamicLoader::read_at(&rootfs, loader.as_bytes(), arch, super::CpuLevel::V1).unwrap();
    let ours: Vec<String> = linker
        .default_dirs
        .iter()
        .map(|dir| dir.escape_ascii().to_string())
        .collect();
    assert_eq!(ours, ["/opt/b"]);
    let ran = judge.run(&case, root.path(), &[LOADER, "--list", PROGRAM]);
    assert!(ran.out.contains("/opt/b/libx.so"), "{ran:?}");
}

#[test]
fn are_names_and_paths_that_are_too_long_skipped() {
    let Some(judge) = Judge::new() else { return };
    check(&judge, &Case::by_hand(&program().needed("x".repeat(256))));
    let long = format!("/opt/{}", "./".repeat(250));
    let case = Case::by_hand(&program().rpath(format!("{long}:/opt/a")).needed("libx.so"));
    let ours = check(&judge, &case.file("/opt/libx.so", x()).file("/opt/a/libx.so", x()));
    assert_eq!(loaded(&ours), ["/opt/a/libx.so"]);
}

#[test]
fn what_does_musl_lack_for_the_real_cupti() {
    let (Some(judge), Some(part)) = (
        Judge::new(),
        crate::support::part("wheels/nvidia-cuda-cupti-cu12-12.4.127"),
    ) else {
        return;
    };
    let cupti = fs::read(part.join("nvidia/cuda_cupti/lib/libcupti.so.12")).unwrap();
    let case = Case::by_hand(&program().needed("libcupti.so.12"));
    let case = case.file("/usr/lib/libcupti.so.12", cupti);
    let root = judge.root(&case);
    let rootfs = judge.read(root.path());
    let ours = process(&rootfs, &case, |process| {
        process.start(PROGRAM.as_bytes(), StartMode::Listed)
    });
    let ran = judge.run(&case, root.path(), &[LOADER, "--list", PROGRAM]);
    assert_eq!(
        loaded(&ours),
        ran.out.lines().filter_map(listed_path).collect::<Vec<_>>()
    );
    // Errors about symbols that glibc has and musl lacks follow.
    let missing = said(&ran)
        .into_iter()
        .filter(|line| !line.starts_with("Error relocating "));
    assert_eq!(errors(&ours), missing.collect::<Vec<_>>());
    assert_eq!(errors(&ours).len(), 2);
}

/// A library of this name in every directory, each with its own.
fn everywhere(case: Case) -> Case {
    let folders = [
        "/opt/a",
        "/opt/b",
        "/opt",
        "/app/lib",
        "/app/bin",
        "/lib",
        "/usr/local/lib",
        "/usr/lib",
    ];
    folders
        .into_iter()
        .fold(case, |case, folder| case.file(&format!("{folder}/libx.so"), x()))
}

#[test]
fn what_does_an_element_of_a_search_path_name() {
    let Some(judge) = Judge::new() else { return };
    let elements = "$ORIGIN ${ORIGIN}/../lib $ORIGIN/../../opt/b $ORIGINAL/a /opt/$LIB /opt/$ ${ORIGIN /opt/a/ /opt/b/// . a \
                    ../opt/b / /opt/none /opt/link /opt/dangling /app/bin/prog /opt/a;/opt/b :/opt/a /opt/none::/opt/b";
    for element in elements.split(' ') {
        let needs = |elf: Elf| {
            everywhere(Case::by_hand(&elf.needed("libx.so")))
                .link("/opt/link", "a")
                .link("/opt/dangling", "nowhere")
        };
        check(&judge, &needs(program().rpath(element)));
        check(&judge, &needs(program().rpath("/opt/b").runpath(element)));
        let mut case = needs(program().runpath("/opt/a"));
        case.library_path = Some(element.replace("::", "\n"));
        check(&judge, &case);
        check(&judge, &needs(program()).file(PATH_FILE, element.replace("::", "\n")));
    }
}

#[test]
fn which_names_does_musl_keep_for_itself() {
    let Some(judge) = Judge::new() else { return };
    let names = "libc.so.6 libc.so libc.musl-x86_64.so.1 libpthread.so.0 librt.so.1 libm.so.6 libdl.so.2 libutil.so.1 \
                 libxnet.so ld-musl-x86_64.so.1 /lib/ld-musl-x86_64.so.1 libresolv.so.2 libcc.so Libc.so ./libx.so a/libx.so \
                 $ORIGIN/libx.so /opt/a/../b//libx.so";
    for name in names.split_whitespace() {
        let file = name.rsplit('/').next().unwrap();
        let case = everywhere(Case::by_hand(&program().needed(name).needed("libx.so")));
        check(&judge, &case);
        let case = Case::by_hand(&program().needed("libx.so")).file("/lib/libx.so", x());
        let mut case = case.file(&format!("/opt/b/{file}"), x());
        case.library_path = Some("/opt/b".to_owned());
        case.preload = Some(format!("{name}\t:libx.so"));
        check(&judge, &case);
    }
}

/// Opens a library. Returns our result and that of the real program.
fn open(judge: &Judge, case: &Case, caller: &str, name: &str) -> [String; 2] {
    let root = judge.root(case);
    let ran = judge.run(case, root.path(), &[PROGRAM, caller, name]);
    let ours = process(&judge.read(root.path()), case, |process| {
        process.start(PROGRAM.as_bytes(), StartMode::Executed);
        if caller != "-" {
            process.open(caller.as_bytes(), None);
        }
        let from = process.map_of_path(&RootPath::new(caller.as_bytes()));
        process.open(name.as_bytes(), from)
    });
    let object = ours
        .root
        .map(|number| ours.objects[number].path.escape_ascii().to_string());
    let ours = match errors(&ours).first() {
        Some(error) => format!("error {error}"),
        None => format!("opened {}", object.unwrap()),
    };
    [ours, ran.out.lines().next().unwrap().to_owned()]
}

#[test]
fn whose_search_path_finds_a_library_that_is_opened() {
    let Some(judge) = Judge::new().filter(|_| crate::support::have("musl-gcc", "musl-tools")) else {
        return;
    };
    let build = |name, flags: &[&str]| fs::read(judge.tools.compile("musl-gcc", name, flags)).unwrap();
    let opener = build("opener", &["-Wl,--disable-new-dtags,-rpath,/opt/a"]);
    let caller = build("caller", &["-shared", "-fPIC", "-Wl,--disable-new-dtags,-rpath,/opt/b"]);
    let case = Case::default().file(PROGRAM, opener).file("/app/libcaller.so", caller);
    let case = case.file("/opt/b/libb.so", x()).file("/opt/a/libx.so", x());
    let case = case.file("/opt/b/libx.so", x());
    for caller in ["-", "/app/libcaller.so"] {
        for name in ["libx.so", "libb.so", "b/libb.so"] {
            let [ours, real] = open(&judge, &case, caller, name);
            assert_eq!(ours, real, "{caller}");
        }
    }
}

#[test]
fn is_static_tls_only_available_at_program_start() {
    let Some(judge) = Judge::new().filter(|_| crate::support::have("musl-gcc", "musl-tools")) else {
        return;
    };
    let build = |name, flags: &[&str]| fs::read(judge.tools.compile("musl-gcc", name, flags)).unwrap();
    for (model, loads) in [
        ("-ftls-model=global-dynamic", true),
        ("-ftls-model=initial-exec", false),
    ] {
        let library = build("static_tls", &["-shared", "-fPIC", model]);
        let case = Case::default()
            .file(PROGRAM, build("opener", &[]))
            .file("/lib/libtls.so", library);
        let opened = open(&judge, &case, "-", "/lib/libtls.so").map(|text| text.starts_with("opened "));
        assert_eq!(opened, [loads; 2], "{model}");
    }
}
