//! Compares the names that the audit finds in programs compiled by GCC, and their results, with the real `ld.so`.
//!
//! Every program is compiled with -O2 and runs in a chroot. Its result, or the loader's message, is compared with the
//! audit. If a program's bytes do not contain the name, the audit must say so.

use crate::chroot::{Answer, Root};
use crate::cupti_parts::{cpp_program, cupti_12, object, patched, program};
use cupti_audit::facts::{ImageFacts, RequestOutcome};
use testkit::layer::Layer;

const PROBE: &str = include_str!("../support/probe.c");
const LIB: &str = "libcupti.so.12";

/// The result of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    /// It opened the object with this path.
    Gets(String),
    /// The loader refused with this message.
    Fails(String),
    /// Cannot be determined before it runs.
    Undecided,
    /// The audit finds no request in it.
    Silent,
}

/// A program that tries names in order and prints the results.
fn tries(names: &[&str]) -> String {
    let tries = names
        .iter()
        .map(|name| format!("  if (opened(dlopen({name}, RTLD_LAZY))) return 0;\n"));
    wrap("", &tries.collect::<String>())
}

fn wrap(head: &str, body: &str) -> String {
    format!(
        "#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
{head}
static int opened(void *handle) {{
  struct link_map *map = 0;
  if (!handle) return 0;
  dlinfo(handle, RTLD_DI_LINKMAP, &map);
  puts(map->l_name);
  return 1;
}}
int main(int count, char **words) {{
{body}  puts(dlerror());
  return 1;
}}"
    )
}

/// A program: its path, its source, whether it is C++, and whether it contains the whole name.
struct Case {
    path: &'static str,
    source: String,
    cpp: bool,
    known: bool,
}

fn known(path: &'static str, names: &[&str]) -> Case {
    Case {
        path,
        source: tries(names),
        cpp: false,
        known: true,
    }
}

fn unknown(path: &'static str, source: String) -> Case {
    Case {
        path,
        source,
        cpp: false,
        known: false,
    }
}

/// A program that passes a `std::string` with this text to dlopen.
fn string(path: &'static str, name: &str, known: bool) -> Case {
    let body = format!("  std::string name(\"{name}\");\n  if (opened(dlopen(name.c_str(), RTLD_LAZY))) return 0;\n");
    Case {
        path,
        source: wrap("#include <string>", &body),
        cpp: true,
        known,
    }
}

fn cases() -> Vec<Case> {
    let numbered = "  char name[64];
  for (int major = 12; major < 14; major++) {
    snprintf(name, sizeof name, \"libcupti.so.%d\", major);
    if (opened(dlopen(name, RTLD_LAZY))) return 0;
  }\n";
    let folder = "  char name[256];
  const char *folder = getenv(\"CUPTI_FOLDER\");
  snprintf(name, sizeof name, \"%s/lib64/libcupti.so.12\", folder ? folder : \"/opt/cupti\");
  if (opened(dlopen(name, RTLD_LAZY))) return 0;\n";
    let joined = "  std::string folder(count > 1 ? words[1] : \"/opt/cupti\");
  if (opened(dlopen((folder + \"/lib64/libcupti.so.12\").c_str(), RTLD_LAZY))) return 0;\n";
    let merged = "  if (opened(dlopen(\"libcupti.so.12\", RTLD_LAZY))) return 0;
  puts(\"cannot open libcupti.so.12\");\n";
    let by_table = "  void *handle = dlopen(words[count > 1], RTLD_LAZY);
  if (!handle) handle = dlopen(0, RTLD_LAZY);
  puts(dlsym(handle, \"cuptiActivityEnable\") ? \"yes\" : \"no\");\n";
    let asked = "  if (opened(dlopen(\"libcupti.so.12\", RTLD_LAZY | RTLD_NOLOAD))) return 0;
  dlopen(\"nothing\", RTLD_LAZY);\n";
    let moved = "  if (chdir(\"cupti\") == 0 && opened(dlopen(\"lib64/libcupti.so.12\", RTLD_LAZY))) return 0;\n";
    let namespace = "  if (opened(dlmopen(LM_ID_NEWLM, \"libcupti.so.12\", RTLD_LAZY))) return 0;\n";
    vec![
        // Its suffix is a name that would be found, but nothing in the program refers to the suffix.
        known("opt/bin/lost-here", &["\"/nowhere/lib64/libcupti.so.12\""]),
        Case {
            known: true,
            ..unknown("opt/bin/namespace", wrap("", namespace))
        },
        // The linker merges the second string into the first, as its suffix.
        unknown(
            "opt/bin/lost-then-bare",
            tries(&["\"/nowhere/libcupti.so.12\"", "\"libcupti.so.12\""]),
        ),
        unknown("opt/bin/asked", wrap("", asked)),
        unknown("opt/bin/moved", wrap("#include <unistd.h>", moved)),
        known("opt/bin/bare", &["\"libcupti.so.12\""]),
        known("opt/bin/development", &["\"libcupti.so\""]),
        known("opt/bin/path", &["\"/opt/cupti/lib64/libcupti.so.12\""]),
        known("opt/bin/lost", &["\"/usr/local/cuda/lib64/libcupti.so.11.8\""]),
        known("opt/bin/relative", &["\"cupti/lib64/libcupti.so.12\""]),
        known("opt/bin/elsewhere", &["\"lib/libcupti.so.99\""]),
        known("opt/bin/origin", &["\"$ORIGIN/../cupti/lib64/libcupti.so.12\""]),
        known("opt/bin/braces", &["\"${ORIGIN}/../cupti/lib64/libcupti.so.12\""]),
        known("opt/bin/token", &["\"/$LIB/libcupti.so.77\""]),
        known(
            "opt/bin/two",
            &["\"/nowhere/libcupti.so.12.4\"", "\"/opt/cupti/lib64/libcupti.so.12\""],
        ),
        known(
            "opt/bin/three",
            &[
                "\"libcupti.so.12\"",
                "\"libcupti.so.13\"",
                "\"/opt/cupti/lib64/libcupti.so.12\"",
            ],
        ),
        // Links with other names lead to it, one through another.
        known("opt/bin/alias", &["\"/opt/prof/libprof.so\""]),
        known("opt/bin/alias-by-name", &["\"libother.so.1\""]),
        known("opt/bin/toolkit", &["\"/usr/local/cuda/lib64/libcupti.so\""]),
        string("opt/bin/short", "libcupti.so", true),
        string("opt/bin/longer", "libcupti.so.12", true),
        string("opt/bin/sixteen", "libcupti.so.11.8", true),
        // GCC copies 16 bytes at a time, from two overlapping constants.
        string("opt/bin/long", "/opt/cupti/lib64/libcupti.so.12", false),
        unknown("opt/bin/numbered", wrap("", numbered)),
        unknown("opt/bin/folder", wrap("", folder)),
        Case {
            cpp: true,
            ..unknown("opt/bin/joined", wrap("#include <string>", joined))
        },
        // The linker merges the name into the message, which ends with it.
        unknown("opt/bin/merged", wrap("", merged)),
        unknown("opt/bin/functions", wrap("", by_table)),
    ]
}

fn image(wide: bool) -> Root {
    let mut root = Root::new(b"");
    let layer = Layer::new()
        .file(format!("opt/cupti/lib64/{LIB}"), cupti_12(LIB))
        .symlink("opt/cupti/lib64/libcupti.so", LIB)
        .symlink("opt/prof/libprof.so", "libprof.so.1")
        .symlink("opt/prof/libprof.so.1", "/opt/cupti/lib64/libcupti.so")
        .symlink("usr/lib/libother.so.1", "/opt/prof/libprof.so")
        .symlink("usr/local/cuda", "/opt/cupti");
    root.add(&layer);
    if wide {
        root.add(&Layer::new().symlink(format!("usr/lib/{LIB}"), format!("/opt/cupti/lib64/{LIB}")));
    }
    let programs = cases().into_iter().fold(Layer::new(), |layer, case| {
        let build = if case.cpp { cpp_program } else { program };
        layer.executable(case.path, build(&case.source, &["-O2"]))
    });
    root.add(&programs);
    root
}

/// The program's output when it runs in `/opt`.
fn real(root: &Root, case: &Case) -> Said {
    let path = format!("/{}", case.path);
    let words = ["-C", "/opt", &path];
    let output = root.asked(&path, &words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.trim_end().lines().last().unwrap_or_default().to_owned();
    if output.status.success() {
        Said::Gets(last)
    } else {
        Said::Fails(last)
    }
}

fn ours(facts: &ImageFacts, case: &Case) -> Said {
    let path = format!("/{}", case.path);
    if facts.undecided.iter().any(|opener| opener.object.to_string() == path) {
        return Said::Undecided;
    }
    let mut consumers = facts.consumers.iter();
    let Some(consumer) = consumers.find(|consumer| consumer.object.to_string() == path) else {
        return Said::Silent;
    };
    let gets = &consumer.outcome.as_is;
    match gets.outcome {
        RequestOutcome::Loaded => Said::Gets(String::from_utf8_lossy(gets.path.as_deref().unwrap()).into_owned()),
        _ => Said::Fails(gets.message.clone()),
    }
}

#[test]
fn programs_get_what_the_audit_says_or_the_audit_says_that_nobody_knows() {
    if !crate::cupti_parts::are_there() {
        return;
    }
    let mut certain = 0;
    for wide in [false, true] {
        let root = image(wide);
        let facts = crate::facts_of_root::facts(&root, "/opt", &[], &[]);
        for case in cases() {
            let (ours, real) = (ours(&facts, &case), real(&root, &case));
            let path = case.path;
            if case.known {
                assert_eq!(ours, real, "{path}, on a search path: {wide}");
                certain += 1;
            } else {
                // If no name that the program's strings allow opens anything, the failure is known before it runs.
                let is_true = matches!((&ours, &real), (Said::Undecided, _) | (Said::Fails(_), Said::Fails(_)));
                assert!(is_true, "{path}, on a search path: {wide}: {ours:?}, really {real:?}");
            }
        }
    }
    println!("{certain} of {certain} answers agree with the real loader");
}

/// Opens a library that needs an adjacent libcupti (`$ORIGIN`) through a link in `folder`. Returns whether the real
/// loader loads it by its own path and by the link, the audit's outcome, and whether that outcome is open.
fn by_link(folder: &str) -> (bool, bool, RequestOutcome, bool) {
    let user = object("int ask(void) { return 1; }", &[]);
    // In two steps: in a single call patchelf uses the wrong string as the path.
    let user = patched(&patched(&user, &["--add-needed", LIB]), &["--set-rpath", "$ORIGIN"]);
    let mut root = Root::new(&program(PROBE, &[]));
    let link = format!("{folder}/libuser.so.1");
    let layer = Layer::new()
        .file("opt/real/libuser.so", user)
        .file("opt/cupti/libcupti.so.12", cupti_12(LIB));
    root.add(&layer.symlink(&*link, "/opt/real/libuser.so"));
    let loads = |path: &str| {
        let output = root.asked("/probe", &["/probe", "now", path]).output().unwrap();
        matches!(crate::chroot::answer(&output), Answer::Opened { .. })
    };
    let facts = crate::facts_of_root::facts(&root, "/", &[], &[]);
    let asker = facts.consumers.iter().find(|consumer| consumer.name == "libuser.so");
    let asker = asker.unwrap();
    (
        loads("/opt/real/libuser.so"),
        loads(&format!("/{link}")),
        asker.outcome.as_is.outcome,
        asker.open.is_some(),
    )
}

#[test]
fn the_folder_of_the_link_by_which_a_library_is_opened_decides_and_the_audit_says_so() {
    use RequestOutcome::NotFound;
    if !crate::cupti_parts::are_there() {
        return;
    }
    assert_eq!(by_link("opt/cupti"), (false, true, NotFound, true));
    assert_eq!(by_link("opt/other"), (false, false, NotFound, false));
}

/// Whether a program starts if its library needs one that needs libcupti: in the real loader, and in the audit, which
/// resolves it in the program's process. The search path is the program's, or that of the library in the middle.
fn by_chain(of_program: &[&str], of_middle: &[&str]) -> (bool, bool) {
    let end = object("int end(void) { return 1; }", &["-Wl,-soname,libend.so.1"]);
    let middle = object("int middle(void) { return 1; }", &["-Wl,-soname,libmiddle.so"]);
    let set = |object: Vec<u8>, path: &[&str]| {
        if path.is_empty() {
            object
        } else {
            patched(&object, path)
        }
    };
    let whole = patched(
        &program("int main(void) { return 0; }", &[]),
        &["--add-needed", "libmiddle.so"],
    );
    let layer = Layer::new()
        .executable("opt/bin/whole", set(whole, of_program))
        .file(
            "opt/lib/libmiddle.so",
            set(patched(&middle, &["--add-needed", "libend.so.1"]), of_middle),
        )
        .file("opt/lib/libend.so.1.2", patched(&end, &["--add-needed", LIB]))
        .symlink("opt/lib/libend.so.1", "libend.so.1.2")
        .file(format!("opt/cupti/{LIB}"), cupti_12(LIB));
    let mut root = Root::new(b"");
    root.add(&layer);
    let starts = root.asked("/opt/bin/whole", &["/opt/bin/whole"]).output().unwrap();
    let facts = crate::facts_of_root::facts(&root, "/", &[], &[]);
    let asker = facts.consumers.iter().find(|consumer| consumer.name == "libend.so.1.2");
    let gets = asker.unwrap().outcome.as_is.outcome;
    (starts.status.success(), gets == RequestOutcome::Loaded)
}

#[test]
fn the_search_path_of_a_program_counts_for_what_the_libraries_of_its_libraries_need() {
    if !crate::cupti_parts::are_there() {
        return;
    }
    let inherited = ["--force-rpath", "--set-rpath", "/opt/lib:/opt/cupti"];
    let own = ["--set-rpath", "/opt/lib:/opt/cupti"];
    assert_eq!(by_chain(&inherited, &[]), (true, true));
    assert_eq!(by_chain(&own, &[]), (false, false));
    // An object with a DT_RUNPATH passes no search path on (elf/dl-load.c, `_dl_map_object`).
    assert_eq!(by_chain(&own, &inherited), (true, true));
    assert_eq!(by_chain(&own, &own), (false, false));
}

#[test]
fn the_tokens_of_a_preloaded_path_mean_what_they_mean_to_the_loader() {
    if !crate::cupti_parts::are_there() {
        return;
    }
    let mut root = Root::new(&program(PROBE, &[]));
    root.add(&Layer::new().file(format!("opt/lib/x86_64-linux-gnu/{LIB}"), cupti_12(LIB)));
    for (token, loads) in [("$LIB", true), ("${LIB}", true), ("$LIBS", false)] {
        let path = format!("/opt/{token}/{LIB}");
        let variable = format!("LD_PRELOAD={path}");
        let output = root
            .asked("/probe", &[&variable, "/probe", "lazy", LIB])
            .output()
            .unwrap();
        let really = matches!(crate::chroot::answer(&output), Answer::Opened { .. });
        let facts = crate::facts_of_root::facts(&root, "/", &[("LD_PRELOAD", &path)], &[]);
        assert_eq!(
            (really, facts.plain.as_is.resolution.loads()),
            (loads, loads),
            "{token}"
        );
    }
}
