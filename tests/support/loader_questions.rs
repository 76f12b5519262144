//! The questions on which ours and the real loader once differed, found by the generated cases and made small
//! by hand. Each answer is the real loader's; where a Debian is at hand, it is asked again.

use std::sync::LazyLock;

use cupti_audit::layer::LayerIndex;
use cupti_audit::loader::cache::{Cache, CacheEntry};
use cupti_audit::loader::{Arch, CpuLevel, Hardware, Linker, Start, ldconfig};
use testkit::elf::{Class, Elf, Endian, Machine, df_1};
use testkit::layer::Layer;

use super::loader_case::{self, Case};
use super::loader_judge::{LOADER, OWN};
use super::loader_tree::{self, Content, Tree};
use super::{
    World, ignored, links, loader_ours, own_errors, printed, real_cache, start, traced, warnings,
};

/// A loader by its strings alone, for machines without a Debian.
static LOOK_ALIKE: LazyLock<LayerIndex> = LazyLock::new(|| {
    let loader = Elf::library("ld-linux-x86-64.so.2")
        .string("ld.so (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.")
        .string("")
        .string("/lib/x86_64-linux-gnu/")
        .string("/usr/lib/x86_64-linux-gnu/")
        .string("/lib/")
        .string("/usr/lib/");
    let link = format!("/{LOADER}");
    let layer = Layer::new().executable(LOADER, loader.build());
    loader_tree::index(&layer.symlink("lib64/ld-linux-x86-64.so.2", link))
});

/// The case in a layer, as the generated ones are read from the host.
fn layer(tree: &Tree) -> LayerIndex {
    let mut layer = Layer::new();
    for (path, content) in &tree.0 {
        let path = path.trim_start_matches('/');
        layer = match content {
            Content::Directory => layer.dir(path),
            Content::File(bytes, _) => layer.executable(path, bytes),
            Content::Symlink(target) => layer.symlink(path, target),
            Content::Hardlink(target) => layer.hardlink(path, target.trim_start_matches('/')),
        };
    }
    loader_tree::index(&layer)
}

/// Starts the case's program; the answer is a line for each warning, then what is fatal or what is loaded.
fn check(case: &Case, expected: &[&str]) {
    let rootfs = loader_tree::merge([&LOOK_ALIKE, &layer(&case.tree)]);
    let machine = super::Processor {
        cpu: CpuLevel::V1,
        hardware: Hardware::of(Arch::of_platform("amd64").unwrap()),
    };
    let resolution = start(&machine, &rootfs, case, Start::Executed);
    let mut ours: Vec<String> = resolution.preload_warnings.iter().map(ignored).collect();
    match loader_ours::fatal(&resolution) {
        Some(fatal) if fatal.message.ends_with("SIGBUS") => ours.push("SIGBUS".to_owned()),
        Some(fatal) => ours.push(fatal.message.clone()),
        None => ours.extend(loader_ours::trace(&resolution)),
    }
    assert_eq!(ours, expected, "ours\n{case}");
    let Some(world) = &World::new(&[]) else {
        return;
    };
    let root = world.judge.root(case);
    let ran = world.judge.start(case, root.path(), None);
    let mut real = warnings(&ran);
    let fatal = "error while loading shared libraries: ";
    match ran.status {
        -7 => real.push("SIGBUS".to_owned()),
        0 => {
            let trace = Some("LD_TRACE_LOADED_OBJECTS=1");
            let ran = world.judge.start(case, root.path(), trace);
            real.extend(ran.out.lines().filter_map(traced));
        }
        _ => real.extend(
            own_errors(&ran, case)
                .iter()
                .map(|line| line.replace(fatal, "")),
        ),
    }
    assert_eq!(real, expected, "the real loader\n{case}");
}

/// Runs `ldconfig`; the answer is the cache, then the links that there are.
fn check_ldconfig(tree: Tree, expected: &[&str]) {
    let case = loader_case::by_hand(&Elf::executable(), tree);
    let rootfs = loader_tree::merge([&LOOK_ALIKE, &layer(&case.tree)]);
    let linker = Linker::find(&rootfs, Arch::of_platform("amd64").unwrap(), CpuLevel::V1).unwrap();
    let made = ldconfig::regenerate(&rootfs, &linker);
    let mut ours = printed(&made.cache);
    ours.extend(links(&ldconfig::with_links(&rootfs, &made, 2)));
    let own = |line: &String| !line.contains("ld-linux-x86-64.so.2");
    ours.retain(own);
    assert_eq!(ours, expected, "ours\n{case}");
    let Some(world) = &World::new(&[]) else {
        return;
    };
    let root = world.judge.root(&case);
    world.judge.ldconfig(root.path(), &[]);
    let mut real = real_cache(world, root.path());
    let after = loader_tree::read(root.path(), &[OWN[0], OWN[1], LOADER]);
    real.extend(links(&loader_tree::merge([&LOOK_ALIKE, &after])));
    real.retain(own);
    assert_eq!(real, expected, "the real ldconfig\n{case}");
}

/// A program that needs `libx.so.1`.
fn program() -> Elf {
    Elf::executable().needed("libx.so.1")
}

fn x() -> Elf {
    Elf::library("libx.so.1")
}

fn with_x(path: &str, x: &Elf) -> Tree {
    Tree::default().with(path, x.build())
}

#[test]
fn is_a_program_a_library() {
    let tree = with_x("/usr/lib/libx.so.1", &x().flags_1(df_1::PIE));
    let words = "libx.so.1: cannot dynamically load position-independent executable";
    check(&loader_case::by_hand(&program(), tree), &[words]);
}

#[test]
fn what_does_an_error_of_mapping_name() {
    let tree = with_x("/usr/lib/libx.so.1", &x().statically_linked());
    let words = "libx.so.1: object file has no dynamic section";
    check(&loader_case::by_hand(&program(), tree), &[words]);
}

#[test]
fn which_words_has_the_loader_for_a_directory() {
    let mut tree = Tree::default();
    tree.add("/usr/lib/libx.so.1", Content::Directory);
    let words = "/usr/lib/libx.so.1: cannot read file data: Error 21";
    check(&loader_case::by_hand(&program(), tree), &[words]);
}

#[test]
fn which_words_has_the_loader_for_a_loop() {
    let tree = Tree::default().link("/opt/loop", "loop");
    let program = Elf::executable().needed("/opt/loop/libx.so.1");
    let words = "/opt/loop/libx.so.1: cannot open shared object file: Error 40";
    check(&loader_case::by_hand(&program, tree), &[words]);
}

#[test]
fn is_there_a_reason_where_nothing_was_tried() {
    let program = program().flags_1(df_1::PIE | df_1::NODEFLIB);
    let mut case = loader_case::by_hand(&program, Tree::default());
    let words = "libx.so.1: cannot open shared object file";
    check(&case, &[&format!("{words}: No such file or directory")]);
    // The search for what is preloaded has found already that there is no cache.
    case.preload = Some("liby.so.1".to_owned());
    check(&case, &["liby.so.1: cannot open shared object file", words]);
}

#[test]
fn does_debian_skip_another_byte_order() {
    let other = x().endian(Endian::Big).machine(Machine::Ppc64);
    let tree = with_x("/lib/libx.so.1", &other).with("/usr/lib/libx.so.1", x().build());
    let answer = "libx.so.1 => /usr/lib/libx.so.1";
    check(&loader_case::by_hand(&program(), tree), &[answer]);
}

#[test]
fn does_a_relative_directory_that_is_a_file_end_its_list() {
    let program = program().runpath("app/bin/prog:/opt/a");
    let tree = with_x("/opt/a/libx.so.1", &x()).with("/usr/lib/libx.so.1", x().build());
    let answer = "libx.so.1 => /usr/lib/libx.so.1";
    check(&loader_case::by_hand(&program, tree), &[answer]);
    let absolute = self::program().runpath("/app/bin/prog:/opt/a");
    let tree = with_x("/opt/a/libx.so.1", &x()).with("/usr/lib/libx.so.1", x().build());
    let answer = "libx.so.1 => /opt/a/libx.so.1";
    check(&loader_case::by_hand(&absolute, tree), &[answer]);
}

#[test]
fn is_the_second_comment_of_a_preload_file_one() {
    let tree = with_x("/usr/lib/libx.so.1", &x()).with("/etc/ld.so.preload", "# one\n");
    let mut answer = vec!["libx.so.1 => /usr/lib/libx.so.1"];
    check(&loader_case::by_hand(&program(), tree), &answer);
    let tree =
        with_x("/usr/lib/libx.so.1", &x()).with("/etc/ld.so.preload", "# a long comment\n# two\n");
    answer = vec![
        "#: cannot open shared object file",
        "two: cannot open shared object file",
        answer[0],
    ];
    check(&loader_case::by_hand(&program(), tree), &answer);
}

#[test]
fn does_a_cut_library_kill_the_process_when_it_is_preloaded() {
    let mut cut = Elf::library("libcut.so").padding(0x4000).build();
    cut.truncate(0x2000);
    let tree = with_x("/usr/lib/libx.so.1", &x()).with("/usr/lib/libcut.so", cut);
    let mut case = loader_case::by_hand(&program(), tree);
    case.preload = Some("libcut.so:libmissing.so".to_owned());
    check(&case, &["SIGBUS"]);
}

#[test]
fn which_subdirectories_did_glibc_have_before_2_37() {
    let tree = with_x("/opt/a/x86_64/libx.so.1", &x()).with("/opt/a/libx.so.1", x().build());
    let answer = "libx.so.1 => /opt/a/x86_64/libx.so.1";
    check(
        &loader_case::by_hand(&program().runpath("/opt/a"), tree.clone()),
        &[answer],
    );
    let tree = tree.with("/opt/a/tls/libx.so.1", x().build());
    let answer = "libx.so.1 => /opt/a/tls/libx.so.1";
    check(
        &loader_case::by_hand(&program().runpath("/opt/a"), tree),
        &[answer],
    );
}

#[test]
fn what_is_origin_below_the_root_as_working_directory() {
    let tree = with_x("/opt/a/libx.so.1", &x().needed("$ORIGIN/liby.so.1"));
    let words = "/opt/a/liby.so.1: cannot open shared object file: No such file or directory";
    check(
        &loader_case::by_hand(&program().runpath("opt/a"), tree),
        &[words],
    );
}

#[test]
fn is_the_root_searched_after_a_name_that_is_not_in_it() {
    let tree =
        with_x("/libx.so.1", &x()).with("/usr/lib/liby.so.1", Elf::library("liby.so.1").build());
    let first = program().needed("liby.so.1").runpath("/");
    let answer = ["libx.so.1 => /libx.so.1", "liby.so.1 => /usr/lib/liby.so.1"];
    check(&loader_case::by_hand(&first, tree.clone()), &answer);
    let second = Elf::executable()
        .needed("liby.so.1")
        .needed("libx.so.1")
        .runpath("/");
    let words = "libx.so.1: cannot open shared object file: No such file or directory";
    check(&loader_case::by_hand(&second, tree), &[words]);
}

#[test]
fn which_processors_does_ldconfig_know() {
    let tree = with_x("/usr/lib/libx.so.1", &x().machine(Machine::Aarch64)).with(
        "/usr/lib/liby.so.1",
        Elf::library("liby.so.1").class(Class::Elf32).build(),
    );
    check_ldconfig(tree, &["liby.so.1 => /usr/lib/liby.so.1"]);
}

#[test]
fn does_ldconfig_judge_a_link_by_where_it_leads() {
    let tree =
        with_x("/usr/lib/libx.so.1.2", &x()).link("/usr/lib/libx.so.1", "/usr/lib/libx.so.1.2");
    let entry = "libx.so.1 => /usr/lib/libx.so.1";
    check_ldconfig(tree, &[entry, "/usr/lib/libx.so.1 -> /usr/lib/libx.so.1.2"]);
    let tree = with_x("/usr/lib/libx.so.1.2", &x()).link("/usr/lib/libx.so.1", "elsewhere");
    check_ldconfig(tree, &[entry, "/usr/lib/libx.so.1 -> libx.so.1.2"]);
}

#[test]
fn which_dangling_links_does_ldconfig_remove() {
    let tree = Tree::default()
        .link("/usr/lib/liba.so.1", "nowhere")
        .link("/usr/lib/liba.so", "nowhere")
        .link("/opt/liba.so.1", "nowhere");
    check_ldconfig(
        tree,
        &["/opt/liba.so.1 -> nowhere", "/usr/lib/liba.so -> nowhere"],
    );
}

#[test]
fn does_ldconfig_search_the_subdirectory_tls() {
    let tree = with_x("/usr/lib/libx.so.1", &x()).with("/usr/lib/tls/libx.so.1", x().build());
    check_ldconfig(
        tree,
        &[
            "libx.so.1 => /usr/lib/libx.so.1",
            "libx.so.1 => /usr/lib/tls/libx.so.1",
        ],
    );
}

#[test]
fn how_many_entries_has_a_soname_in_a_directory() {
    let tree = with_x("/usr/lib/libx.so.1", &x()).with(
        "/usr/lib/libx.so.9",
        x().class(Class::Elf32).machine(Machine::I386).build(),
    );
    check_ldconfig(tree, &["libx.so.1 => /usr/lib/libx.so.1"]);
}

#[test]
fn do_zeros_in_front_of_a_number_count_in_the_cache() {
    let y = Elf::library("libx.so.01").build();
    let tree = Tree::default().with("/usr/lib/libx.so.01", y);
    check_ldconfig(tree, &["libx.so.01 => /usr/lib/libx.so.01"]);
    let mut cache = Cache::default();
    let path = b"/usr/lib/libx.so.01"[..].into();
    let entry = CacheEntry {
        path,
        flags: 0x0303,
        hwcaps: None,
        hardware: 0,
    };
    cache.add(b"libx.so.01", entry);
    let lookup = |name: &[u8]| cache.lookup(name, Arch::of_platform("amd64").unwrap(), &[], 0);
    assert_eq!(lookup(b"libx.so.1"), Some(&b"/usr/lib/libx.so.01"[..]));
    assert_eq!(lookup(b"libx.so.10"), None);
}

#[test]
fn where_is_a_relative_directory_of_the_configuration() {
    let tree =
        with_x("/opt/a/libx.so.1", &x()).with("/etc/ld.so.conf", "opt/a\nHWCAP 0 nosegneg\n");
    check_ldconfig(tree, &["libx.so.1 => opt/a/libx.so.1"]);
}

#[test]
fn is_a_level_that_is_configured_as_a_directory_a_level() {
    let level = "/opt/a/glibc-hwcaps/x86-64-v3";
    let x = with_x(&format!("{level}/libx.so.1.2"), &x());
    let tree = x
        .clone()
        .with("/etc/ld.so.conf", format!("/opt/a\n{level}\n"));
    check_ldconfig(tree, &[&format!("libx.so.1 => {level}/libx.so.1.2")]);
    let tree = x.with("/etc/ld.so.conf", format!("{level}\n/opt/a\n"));
    let entry = format!("libx.so.1 => {level}/libx.so.1");
    check_ldconfig(
        tree,
        &[&entry, &format!("{level}/libx.so.1 -> libx.so.1.2")],
    );
}

#[test]
fn does_ldconfig_take_a_cut_library() {
    let mut cut = x().padding(0x4000).build();
    cut.truncate(0x2000);
    check_ldconfig(Tree::default().with("/usr/lib/libx.so.1", cut), &[]);
}
