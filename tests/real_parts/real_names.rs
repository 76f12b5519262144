//! Compares the names that the audit finds in programs compiled by GCC, and their results, with the real `ld.so`.
//!
//! Every program is compiled with -O2 and runs in a chroot. Its result, or the loader's message, is compared with the
//! audit. If a program's bytes do not contain the name, the audit must say so.

use crate::chroot::{Answer, Root};
use crate::cupti_parts::{cpp_program, cupti_12, object, patched, program};
use cupti_audit::facts::{ImageFacts, RequestOutcome};
use indexmap::IndexMap;
use serde::Deserialize;
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

/// A program of `real_names.yaml`, which explains the fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    head: String,
    #[serde(default)]
    body: String,
    #[serde(default)]
    cpp: bool,
    #[serde(default)]
    unknown: bool,
}

fn cases() -> IndexMap<String, Case> {
    serde_saphyr::from_str(include_str!("real_names.yaml")).unwrap()
}

impl Case {
    fn compiled(&self) -> Vec<u8> {
        let Self { head, body, .. } = self;
        let tries = self.names.iter();
        let tries = tries.map(|name| {
            [
                "if (opened(dlopen(",
                name,
                ", RTLD_LAZY))) return 0;
",
            ]
            .concat()
        });
        let tries: String = tries.collect();
        let include = if self.cpp { "#include <string>" } else { "" };
        let build = if self.cpp { cpp_program } else { program };
        let source = format!(
            "#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
{include}
{head}
static int opened(void *handle) {{
  struct link_map *map = 0;
  if (!handle) return 0;
  dlinfo(handle, RTLD_DI_LINKMAP, &map);
  puts(map->l_name);
  return 1;
}}
int main(int count, char **words) {{
{tries}{body}
  puts(dlerror());
  return 1;
}}"
        );
        build(&source, &["-O2"])
    }
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
    let programs = cases().into_iter().fold(Layer::new(), |layer, (name, case)| {
        layer.executable(format!("opt/bin/{name}"), case.compiled())
    });
    root.add(&programs);
    root
}

/// The program's output when it runs in `/opt`.
fn real(root: &Root, path: &str) -> Said {
    let output = root.asked(path, &["-C", "/opt", path]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.trim_end().lines().last().unwrap_or_default().to_owned();
    if output.status.success() {
        Said::Gets(last)
    } else {
        Said::Fails(last)
    }
}

fn ours(facts: &ImageFacts, path: &str) -> Said {
    if facts
        .answers
        .undecided
        .iter()
        .any(|opener| opener.object.to_string() == path)
    {
        return Said::Undecided;
    }
    let mut consumers = facts.answers.consumers.iter();
    let Some(consumer) = consumers.find(|consumer| consumer.object.to_string() == path) else {
        return Said::Silent;
    };
    match &consumer.outcome.as_is.answer.result {
        Ok(file) => Said::Gets(String::from_utf8_lossy(&file.path).into_owned()),
        Err(failure) => Said::Fails(failure.message.clone()),
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
        for (name, case) in cases() {
            let path = format!("/opt/bin/{name}");
            let (ours, real) = (ours(&facts, &path), real(&root, &path));
            if case.unknown {
                // If no name that the program's strings allow opens anything, the failure is known before it runs.
                let is_true = matches!((&ours, &real), (Said::Undecided, _) | (Said::Fails(_), Said::Fails(_)));
                assert!(is_true, "{path}, on a search path: {wide}: {ours:?}, really {real:?}");
            } else {
                assert_eq!(ours, real, "{path}, on a search path: {wide}");
                certain += 1;
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
    let asker = facts
        .answers
        .consumers
        .iter()
        .find(|consumer| consumer.name == "libuser.so");
    let asker = asker.unwrap();
    (
        loads("/opt/real/libuser.so"),
        loads(&format!("/{link}")),
        asker.outcome.as_is.answer.outcome(),
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
    let asker = facts
        .answers
        .consumers
        .iter()
        .find(|consumer| consumer.name == "libend.so.1.2");
    (starts.status.success(), asker.unwrap().outcome.as_is.answer.is_loaded())
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
            (really, facts.answers.plain.as_is.resolution.loads()),
            (loads, loads),
            "{token}"
        );
    }
}
