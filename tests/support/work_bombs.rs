//! Images of a few kilobytes that require much work, and the resources that the program uses for each.

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::spec::{ElfSpec, EntrySpec};

use super::hostile_images::{Entries, MeasuredRun, library, measure, write_image, write_started_image};

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number:04}")).collect()
}

/// The number of files in rows with thousands of them: 5,000 if `CUPTI_AUDIT` names an optimised program.
fn many() -> usize {
    if std::env::var_os("CUPTI_AUDIT").is_some() {
        5_000
    } else {
        1_000
    }
}

/// The environment and the files of a row in the table of work bombs.
fn work_bomb(row: &str) -> (Vec<(&'static str, String)>, Entries) {
    let cupti = || "libcupti.so.12".to_owned();
    let consumers = |count: usize, change: &dyn Fn(usize, &mut ElfSpec)| -> Entries {
        let file = |number: usize| {
            let made = library(&[cupti(), "libc.so.6".to_owned()], |spec| change(number, spec));
            (format!("/opt/app/lib{number}.so"), made)
        };
        (0..count).map(file).collect()
    };
    let long_path = |count: usize| vec![("LD_LIBRARY_PATH", names("/d", count).join(":"))];
    let all_need = |count: usize, path: &dyn Fn(usize) -> Option<String>| -> Entries {
        let all: Vec<String> = (0..count).map(|number| format!("libx{number}.so")).collect();
        let needed = |number: usize| match path(number) {
            // A chain: each library needs the next.
            Some(_) => all.iter().skip(number + 1).take(1).cloned().chain([cupti()]).collect(),
            None => [vec![cupti()], all.clone()].concat(),
        };
        let file = |number: usize| {
            let made = library(&needed(number), |spec: &mut ElfSpec| {
                spec.soname = Some(format!("libx{number}.so"));
                spec.rpath = path(number);
            });
            (format!("/usr/lib/x86_64-linux-gnu/libx{number}.so"), made)
        };
        (0..count).map(file).collect()
    };
    let each_other = |below: &str| -> Entries {
        let private = |number: usize| {
            let made = library(&[cupti()], |spec| spec.soname = Some(cupti()));
            (format!("/opt/d{number}/{below}libcupti.so.12"), made)
        };
        (0..many()).map(private).collect()
    };
    match row {
        "LD_LIBRARY_PATH of 2,000, 20 consumers" => (long_path(2_000), consumers(20, &|_, _| {})),
        "LD_LIBRARY_PATH of 10,000, 20 consumers" => (long_path(10_000), consumers(20, &|_, _| {})),
        "201 objects with 60 RPATH directories" => {
            let path = |number: usize| Some(names(&format!("/r{number}/"), 60).join(":"));
            (Vec::new(), all_need(201, &path))
        }
        "200 objects that need each other" => (Vec::new(), all_need(200, &|_| None)),
        "thousands of consumers" => (Vec::new(), consumers(many(), &|_, _| {})),
        "thousands of private copies" => {
            let private = |number: usize| {
                let made = library(&["libc.so.6".to_owned()], |spec| spec.soname = Some(cupti()));
                (format!("/opt/d{number}/libcupti.so.12"), made)
            };
            (Vec::new(), (0..many()).map(private).collect())
        }
        "thousands of private copies that need each other" => (Vec::new(), each_other("")),
        // A reference to one of them is a reference to all others.
        "thousands of private copies for better processors" => (Vec::new(), each_other("glibc-hwcaps/x86-64-v3/")),
        "thousands of private copies, a name preloaded thousands of times" => {
            let preloaded = vec![cupti(); 5_000].join(":");
            (vec![("LD_PRELOAD", preloaded)], each_other(""))
        }
        "1,000 RUNPATH of 1,000 directories with files" => {
            let folders = names("/f", 1_000);
            let path = folders.join(":");
            let mut files = consumers(1_000, &|_, spec| spec.runpath = Some(path.clone()));
            let held = |folder: &String| (format!("{folder}/x"), EntrySpec::Text(String::new()));
            files.extend(folders.iter().map(held));
            (Vec::new(), files)
        }
        ONE_LOADER => (long_path(5_000), programs_of_one_loader()),
        FULL_OF_NAMES => (Vec::new(), full_of_names()),
        "500 programs of a deep folder, $ORIGIN thousands of times" => origins(),
        "1,024 includes of ld.so.conf, 20,000 names" => (Vec::new(), includes()),
        _ => (Vec::new(), flood(row)),
    }
}

/// The system's loader is missing, so no other program shares the budget.
const ONE_LOADER: &str = "thousands of programs of the only loader, which is not the system's";

/// Programs whose search paths expand to megabytes.
fn origins() -> (Vec<(&'static str, String)>, Entries) {
    let path = vec!["$ORIGIN".repeat(500); 30].join(":");
    let folder = format!("/{}", vec!["a".repeat(200); 18].join("/"));
    let program = |number: usize| {
        let made = library(&["libcupti.so.12".to_owned()], |spec| {
            spec.interp = Some("/lib64/ld-linux-x86-64.so.2".to_owned());
            spec.pie = true;
        });
        (format!("{folder}/p{number}"), made)
    };
    (vec![("LD_LIBRARY_PATH", path)], (0..500).map(program).collect())
}

/// An ldconfig configuration whose patterns are compared with many names and match none.
fn includes() -> Entries {
    let includes = (0..1_024).map(|number| format!("include /etc/c/*a*a*a*a*b{number}\n"));
    let conf = ("/etc/ld.so.conf".to_owned(), EntrySpec::Text(includes.collect()));
    let name = |number: usize| {
        let path = format!("/etc/c/{}{number}", "a".repeat(80));
        (path, EntrySpec::Text(String::new()))
    };
    std::iter::once(conf).chain((0..20_000).map(name)).collect()
}

/// Libraries with as many names as the program keeps per library.
fn full_of_names() -> Entries {
    let text = |number: usize| format!("/{}/libcupti.so.{number}", "a".repeat(230));
    let file = |number: usize| {
        let made = library(&["libcupti.so.12".to_owned()], |spec| {
            spec.strings = (0..520).map(|at| text(number * 520 + at)).collect();
        });
        (format!("/opt/app/lib{number}.so"), made)
    };
    (0..900).map(file).collect()
}

/// Thousands of programs with a loader at an unusual path.
fn programs_of_one_loader() -> Entries {
    let gone = ["/lib64", "/lib/x86_64-linux-gnu"].map(|folder| {
        let path = format!("{folder}/ld-linux-x86-64.so.2");
        (path, EntrySpec::Whiteout)
    });
    let loader = library(&[], |spec| spec.soname = Some("ld.so.2".to_owned()));
    let program = |number: usize| {
        let made = library(&["libcupti.so.12".to_owned()], |spec| {
            spec.interp = Some("/opt/own/ld.so.2".to_owned());
            spec.pie = true;
        });
        (format!("/opt/app/p{number}"), made)
    };
    let files = gone.into_iter().chain([("/opt/own/ld.so.2".to_owned(), loader)]);
    files.chain((0..many()).map(program)).collect()
}

/// The files of rows with tens of thousands of them.
fn flood(row: &str) -> Entries {
    match row {
        "20,000 hard links to a libcupti" => {
            let file = (
                "/opt/libcupti.so.12".to_owned(),
                library(&[], |spec| spec.soname = Some("libcupti.so.12".to_owned())),
            );
            let link = |number: usize| {
                let target = EntrySpec::Hardlink("/opt/libcupti.so.12".to_owned());
                (format!("/opt/l{number}/libcupti.so.12"), target)
            };
            std::iter::once(file).chain((0..20_000).map(link)).collect()
        }
        "40,000 archives of CUPTI" => {
            let archive = |number: usize| {
                let path = format!("/opt/l{number}/libcupti_static.a");
                (path, EntrySpec::Text(String::new()))
            };
            (0..40_000).map(archive).collect()
        }
        // A naive implementation would keep the name once per pair of object and file.
        "a name of 60,000 bytes that is needed, and thousands of files of it" => {
            let file = |number: usize| {
                let made = library(&[], |spec| spec.soname = Some("libn.so".to_owned()));
                (format!("/opt/nvidia/nsight-x/{number}/libn.so"), made)
            };
            let name = format!("/{}/libn.so", "a".repeat(60_000));
            let asker = |number: usize| {
                (
                    format!("/opt/app/{number}.so"),
                    library(std::slice::from_ref(&name), |_| {}),
                )
            };
            (0..many()).map(file).chain((0..8).map(asker)).collect()
        }
        "thousands of programs of a musl that looks in 60,000 folders" => {
            let text = |text: String| EntrySpec::Text(text);
            let loader = library(&[], |spec| spec.soname = Some("libc.musl-x86_64.so.1".to_owned()));
            let program = |number: usize| {
                let made = library(&["libcupti.so.12".to_owned()], |spec| {
                    spec.interp = Some("/lib/ld-musl-x86_64.so.1".to_owned());
                });
                (format!("/opt/app/p{number}"), made)
            };
            let own = [
                ("/etc/ld-musl-x86_64.path".to_owned(), text("/opt/d\n".repeat(60_000))),
                ("/lib/ld-musl-x86_64.so.1".to_owned(), loader),
            ];
            own.into_iter().chain((0..many()).map(program)).collect()
        }
        "programs whose missing libraries have names of 60,000 bytes" => {
            let names = |program: usize| -> Vec<String> {
                (0..8)
                    .map(|number| format!("{}{program}{number}", "a".repeat(60_000)))
                    .collect()
            };
            let program = |number: usize| {
                (
                    format!("/opt/app/p{number}"),
                    library(&[vec!["libcupti.so.12".to_owned()], names(number)].concat(), |_| {}),
                )
            };
            (0..12).map(program).collect()
        }
        _ => panic!("no such row: {row}"),
    }
}

const WORK_BOMBS: [&str; 19] = [
    "500 programs of a deep folder, $ORIGIN thousands of times",
    "1,024 includes of ld.so.conf, 20,000 names",
    "LD_LIBRARY_PATH of 2,000, 20 consumers",
    "LD_LIBRARY_PATH of 10,000, 20 consumers",
    "201 objects with 60 RPATH directories",
    "200 objects that need each other",
    "thousands of consumers",
    "thousands of private copies",
    "thousands of private copies that need each other",
    "thousands of private copies for better processors",
    "thousands of private copies, a name preloaded thousands of times",
    "1,000 RUNPATH of 1,000 directories with files",
    "20,000 hard links to a libcupti",
    "40,000 archives of CUPTI",
    "a name of 60,000 bytes that is needed, and thousands of files of it",
    FULL_OF_NAMES,
    "thousands of programs of a musl that looks in 60,000 folders",
    ONE_LOADER,
    "programs whose missing libraries have names of 60,000 bytes",
];

/// The rows whose programs lack a dependency. The findings before the limit must stay.
const FAIL: [&str; 2] = [
    "thousands of programs of a musl that looks in 60,000 folders",
    ONE_LOADER,
];

/// A row that only this limit stops.
const FULL_OF_NAMES: &str = "900 libraries that are full of names";

/// The messages about a reached limit.
const ENDS: [&str; 4] = [
    "are compared with more than",
    "more steps than are followed",
    "and the rest was not judged",
    "(object-names)",
];

/// The maximum MiB and CPU seconds per row; the test build is not optimised.
const MOST: (u64, u64) = (300, 60);

/// Runs the program on an image, prints the resources it used, and checks the limits.
fn hold(row: &str, image: &str) -> MeasuredRun {
    let program = std::env::var("CUPTI_AUDIT").unwrap_or_else(|_| env!("CARGO_BIN_EXE_cupti-audit").to_owned());
    let run = measure(&program, &["--format", "json", image]);
    let seconds = run.took.as_secs();
    println!("budget: {row}: exit {:?}, {seconds} s, {} MiB", run.code, run.peak_mib);
    assert!(run.code.is_some_and(|code| code <= 2), "{row}: {}", run.stderr);
    assert!(run.peak_mib <= MOST.0 && seconds <= MOST.1, "{row}");
    run
}

#[test]
fn x_03_to_x_06_work_bombs_are_judged_in_bounds_or_end_in_a_gap() {
    for row in WORK_BOMBS {
        let folder = TempDir::new().unwrap();
        let (env, entries) = work_bomb(row);
        let run = hold(row, &write_image(folder.path(), &env, entries));
        let ends = ENDS.iter().any(|end| run.stdout.contains(end));
        let open = if FAIL.contains(&row) { Some(1) } else { Some(2) };
        assert_eq!(ends, run.code == open, "{row}: {}", run.stderr);
        assert!(ends || row != FULL_OF_NAMES, "{row}");
    }
}

/// Scripts that require much work: the row's name, the script, and the text of `/more.sh`.
fn shell_bombs() -> Vec<(&'static str, String, String)> {
    let array = format!("x={}\na=({})\n", "y".repeat(4_000), "\"$x\" ".repeat(250));
    let arrays = |count: usize| -> String {
        (0..count)
            .map(|number| format!("b{number}=(\"${{a[@]}}\")\n"))
            .collect::<Vec<_>>()
            .concat()
    };
    let nested = format!("{}:; {}\n", "{ ".repeat(20), "}; ".repeat(20));
    let comment = format!("#{}\n", "x".repeat(31 << 20));
    vec![
        ("300 arrays of a megabyte", array.clone() + &arrays(300), String::new()),
        (
            "arrays of a megabyte, 20 blocks in each other",
            array + &arrays(20) + &nested,
            String::new(),
        ),
        (
            "a comment of 31 MiB that is read 950 times",
            ". /more.sh\n".repeat(950),
            comment,
        ),
    ]
}

/// Python modules that require much work.
fn python_bombs() -> Vec<(&'static str, String)> {
    let indented = |depth: usize| format!("{}if x:\n", " ".repeat(depth));
    vec![
        (
            "300,000 texts in a line",
            format!("x = [{}]\n", "\"a\",".repeat(300_000)),
        ),
        (
            "300,000 lines of a try",
            format!("try:\n{}except ImportError:\n raise\n", " import x\n".repeat(300_000)),
        ),
        (
            "300,000 names of an import",
            format!("from . import {}\n", "a,".repeat(300_000)),
        ),
        ("a line of 3,000,000 quotes", "\"".repeat(3_000_001)),
        ("2,500 lines, each deeper", (0..2_500).map(indented).collect()),
        (
            "500,000 texts that are added",
            format!("import ctypes\nctypes.CDLL(\"lib\"{})\n", "+\"a\"".repeat(500_000)),
        ),
        ("10,000,000 brackets", "[".repeat(10_000_000)),
    ]
}

#[test]
fn x_03_to_x_06_what_a_command_reads_is_followed_in_bounds() {
    let start = |command: Value, entries: Entries, row: &str| {
        let folder = TempDir::new().unwrap();
        hold(row, &write_started_image(folder.path(), command, entries))
    };
    for (row, script, more) in shell_bombs() {
        let entries = [
            (
                "/start.sh",
                EntrySpec::Script(format!("#!/bin/bash\n{script}exec /bin/true\n")),
            ),
            ("/more.sh", EntrySpec::Text(more)),
        ];
        start(json!(["/start.sh"]), named(entries), row);
    }
    for (row, text) in python_bombs() {
        let python = library(&["libc.so.6".to_owned()], |_| {});
        let module = library(&["libcupti.so.12".to_owned()], |_| {});
        let entries = [
            ("/usr/bin/python3.11", python),
            ("/usr/lib/python3.11/os.py", EntrySpec::Text(String::new())),
            (
                "/usr/lib/python3.11/site-packages/p/__init__.py",
                EntrySpec::Text(text.clone()),
            ),
            ("/usr/lib/python3.11/site-packages/p/x.so", module),
            ("/main.py", EntrySpec::Text(text)),
        ];
        start(json!(["/usr/bin/python3.11", "/main.py"]), named(entries), row);
    }
}

fn named<const N: usize>(entries: [(&str, EntrySpec); N]) -> Entries {
    entries
        .into_iter()
        .map(|(path, entry)| (path.to_owned(), entry))
        .collect()
}
