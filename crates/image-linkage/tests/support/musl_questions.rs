//! Questions about musl's loader, each as a handmade case.

use std::fs;

use image_linkage::path::RootPath;
use testkit::elf::{Class, Elf, Kind, Machine};

use super::{Case, Judge, LOADER, PROGRAM, StartMode, check, errors, listed_path, loaded, process, said};

/// The file with the default directories.
const PATH_FILE: &str = "/etc/ld-musl-x86_64.path";

/// Asks the real loader and ours for loaded and missing libraries.
fn ask(case: &Case, expected: &[&str], messages: &[&str]) {
    let Some(judge) = Judge::new() else { return };
    let ours = check(&judge, case);
    assert_eq!((loaded(&ours), errors(&ours)), (owned(expected), owned(messages)));
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn program() -> Elf {
    Elf::executable().interp(LOADER)
}

fn x() -> Vec<u8> {
    Elf::library("libx.so").build()
}

#[test]
fn is_a_soname_a_name() {
    let other = Elf::library("libx.so").build();
    let case = Case::by_hand(&program().needed("/opt/a/liby.so").needed("libx.so"));
    let case = case.file("/opt/a/liby.so", other);
    ask(
        &case,
        &["/opt/a/liby.so"],
        &["Error loading shared library libx.so: No such file or directory (needed by /app/bin/prog)"],
    );
}

#[test]
fn is_a_search_path_inherited() {
    let y = Elf::library("liby.so").needed("libx.so").build();
    let case = Case::by_hand(&program().runpath("/opt/a").needed("liby.so"));
    let case = case.file("/opt/a/liby.so", y).file("/opt/a/libx.so", x());
    ask(&case, &["/opt/a/libx.so", "/opt/a/liby.so"], &[]);
}

#[test]
fn does_the_programs_path_apply_to_preloads() {
    let y = Elf::library("liby.so").needed("libx.so").build();
    let mut case = Case::by_hand(&program().rpath("/opt/a"));
    case.preload = Some("/opt/a/liby.so".to_owned());
    let case = case.file("/opt/a/liby.so", y).file("/opt/a/libx.so", x());
    ask(
        &case,
        &["/opt/a/liby.so"],
        &["Error loading shared library libx.so: No such file or directory (needed by /opt/a/liby.so)"],
    );
}

#[test]
fn does_an_empty_path_file_leave_directories() {
    let case = Case::by_hand(&program().needed("libx.so"));
    let case = case.file("/lib/libx.so", x());
    ask(&case, &["/lib/libx.so"], &[]);
    ask(
        &case.file(PATH_FILE, ""),
        &[],
        &["Error loading shared library libx.so: No error information (needed by /app/bin/prog)"],
    );
}

#[test]
fn does_a_path_file_that_is_no_file_leave_directories() {
    let Some(judge) = Judge::new() else { return };
    for target in ["nowhere", "ld-musl-x86_64.path", "/opt"] {
        let case = Case::by_hand(&program().needed("libx.so")).link(PATH_FILE, target);
        check(&judge, &case.file("/lib/libx.so", x()));
    }
}

#[test]
fn is_a_file_with_two_names_loaded_once() {
    let case = Case::by_hand(&program().rpath("/opt/b:/opt/a").needed("libx.so").needed("liby.so"));
    let case = case.file("/opt/a/libx.so", x()).link("/opt/b/liby.so", "../a/libx.so");
    ask(&case, &["/opt/a/libx.so"], &[]);
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
fn is_a_directory_with_a_link_loop_skipped() {
    let case = Case::by_hand(&program().rpath("/opt/loop:/opt/a").needed("libx.so"));
    let case = case.link("/opt/loop", "loop").file("/opt/a/libx.so", x());
    ask(
        &case,
        &[],
        &["Error loading shared library libx.so: Symbolic link loop (needed by /app/bin/prog)"],
    );
}

#[test]
fn is_a_name_longer_than_any_file_searched_for() {
    let name = "x".repeat(256);
    let case = Case::by_hand(&program().needed(&name));
    let error = format!("Error loading shared library {name}: No error information (needed by /app/bin/prog)");
    ask(&case, &[], &[&error]);
}

#[test]
fn is_a_path_that_is_too_long_skipped() {
    let long = format!("/opt/{}", "./".repeat(250));
    let case = Case::by_hand(&program().rpath(format!("{long}:/opt/a")).needed("libx.so"));
    let case = case.file("/opt/libx.so", x()).file("/opt/a/libx.so", x());
    ask(&case, &["/opt/a/libx.so"], &[]);
}

#[test]
fn does_the_wrong_class_end_the_search() {
    let other = Elf::library("libx.so").class(Class::Elf32);
    let case = Case::by_hand(&program().rpath("/opt/a:/opt/b").needed("libx.so"));
    let case = case.file("/opt/a/libx.so", other.build()).file("/opt/b/libx.so", x());
    ask(
        &case,
        &[],
        &["Error loading shared library libx.so: Exec format error (needed by /app/bin/prog)"],
    );
}

#[test]
fn is_an_object_for_another_processor_loaded() {
    let other = Elf::library("libx.so").machine(Machine::Aarch64);
    let case = Case::by_hand(&program().rpath("/opt/a:/opt/b").needed("libx.so"));
    let case = case
        .file("/opt/a/libx.so", other.import("away").build())
        .file("/opt/b/libx.so", x());
    ask(&case, &["/opt/a/libx.so"], &["Error relocating /opt/a/libx.so"]);
}

#[test]
fn is_another_c_library_loaded_by_its_path() {
    let libc = Elf::library("libc.so.6").export("__libc_start_main").export("stdin");
    let case = Case::by_hand(&program().needed("/opt/a/libc.so.6").needed("libx.so"));
    let case = case.file("/opt/a/libc.so.6", libc.build()).file("/lib/libx.so", x());
    ask(&case, &["/lib/libx.so"], &[]);
}

#[test]
fn is_a_missing_version_an_error() {
    let case = Case::by_hand(&program().needed("libx.so").verneed("libx.so", "V_9"));
    let library = Elf::library("libx.so").verdef("V_1").build();
    ask(&case.file("/lib/libx.so", library), &["/lib/libx.so"], &[]);
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

#[test]
fn which_damaged_files_end_the_search() {
    let Some(judge) = Judge::new() else { return };
    let damaged = [
        Vec::new(),
        b"INPUT(libx.so)\n".to_vec(),
        b"GROUP ( /opt/a/libx.so )".repeat(20),
        b"\x7fELF\x02\x01\x01".to_vec(),
        Elf::library("libx.so")
            .class(Class::Elf32)
            .machine(Machine::I386)
            .build(),
        Elf::library("libx.so").statically_linked().build(),
        Elf::library("libx.so").late_headers().build(),
        Elf::library("libx.so").kind(Kind::Exec).build(),
        Elf::executable().build(),
    ];
    for bytes in damaged {
        let case = Case::by_hand(&program().rpath("/opt/a:/opt/b").needed("libx.so"));
        check(&judge, &case.file("/opt/a/libx.so", bytes).file("/opt/b/libx.so", x()));
    }
    let case = Case::by_hand(&program().rpath("/opt/b").needed("libx.so"));
    check(
        &judge,
        &case
            .link("/opt/a/liby.so", "libx.so")
            .link("/opt/b/libx.so", "/opt/a")
            .file("/lib/libx.so", x()),
    );
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
