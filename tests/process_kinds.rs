//! Programs that no dynamic loader starts.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[path = "support/plain_image.rs"]
mod plain_image;

use cupti_audit::judge::facts::{GatherOptions, ImageFacts, ReadLayers, gather_facts};
use cupti_audit::judge::rule::{image_subjects, judge_subjects};
use cupti_audit::knowledge::Knowledge;
use cupti_audit::knowledge::file_interest::cupti_options;
use image_linkage::layer::{ExpectedBlob, index_layer};
use image_linkage::loader::{CpuLevel, RequestOutcome};
use image_source::ImageConfig;
use plain_image::image_of;
use testkit::elf::{Elf, Kind, Machine, df_1};
use testkit::layer::{Compression, Layer};

/// What is known of an image in which CUPTI can be loaded, and a program that opens it.
fn facts(program: &Elf) -> ImageFacts {
    let layer = Layer::new().executable("usr/lib64/libcupti.so.12", Elf::library("libcupti.so.12").build());
    facts_of(layer.executable("usr/bin/app", program.build()), &[])
}

/// What is known of a layer with a loader, and variables that are given.
fn facts_of(layer: Layer, environment: &[(&str, &str)]) -> ImageFacts {
    let layer = layer.executable("bin/sh", Elf::executable().build());
    facts_by(layer, &["/entrypoint.sh", "/usr/bin/app"], environment)
}

/// The same of a command.
fn facts_by(layer: Layer, command: &[&str], environment: &[(&str, &str)]) -> ImageFacts {
    let layer = layer.executable(
        "lib64/ld-linux-x86-64.so.2",
        Elf::library("ld-linux-x86-64.so.2").build(),
    );
    facts_of_whole(&layer, command, environment)
}

/// The same of a layer as it is.
fn facts_of_whole(layer: &Layer, command: &[&str], environment: &[(&str, &str)]) -> ImageFacts {
    let blob = layer.blob(Compression::None);
    let index = index_layer(
        "case",
        blob.bytes.as_slice(),
        &ExpectedBlob::default(),
        &cupti_options(),
    )
    .unwrap();
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    let config = ImageConfig {
        command,
        ..ImageConfig::default()
    };
    let given = environment
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let options = GatherOptions {
        environment: given.collect(),
        cpu: CpuLevel::V3,
        limits: image_linkage::limits::Limits::default(),
    };
    let layers = vec![Ok(index)];
    let image = image_of("case", 1, config);
    gather_facts(image, ReadLayers { layers }, &Knowledge::built_in(), &options)
}

/// What a program gets, whether that is open, and whether it is open which copy it gets.
fn word(facts: &ImageFacts, name: &str) -> (RequestOutcome, bool, bool) {
    let mut consumers = facts.consumers.iter();
    let consumer = consumers.find(|consumer| consumer.name == name).unwrap();
    (
        consumer.outcome.as_is.outcome,
        consumer.open.is_some(),
        consumer.other_copies.is_some(),
    )
}

/// An image with CUPTI in `/opt/cupti`, an entry script, and programs without and with a search path.
fn with_script(text: &str, environment: &[(&str, &str)]) -> ImageFacts {
    let opens = || Elf::executable().string("libcupti.so.12").import_weak("dlopen");
    let programs = ["cat", "chmod", "chown", "cp", "ldconfig", "ln", "mkdir", "mv", "rm"];
    let layer = programs.iter().fold(Layer::new(), |layer, name| {
        layer.executable(format!("bin/{name}"), Elf::executable().build())
    });
    let layer = layer
        .executable("opt/cupti/libcupti.so.12", Elf::library("libcupti.so.12").build())
        .executable("usr/bin/app", opens().build())
        .executable("usr/bin/own", opens().rpath("/opt/cupti").build())
        .executable("entrypoint.sh", format!("#!/bin/sh\n{text}exec \"$@\"\n"));
    facts_of(layer, environment)
}

#[test]
fn what_an_unknown_environment_decides_is_open_and_what_it_does_not_is_not() {
    use RequestOutcome::{Loaded, NotFound};
    let unknown = with_script("eval \"$(cat /etc/x)\"\n", &[]);
    assert_eq!(word(&unknown, "app"), (NotFound, true, false));
    assert_eq!(word(&unknown, "own"), (Loaded, false, false));
    // The loader here is a stub, which is a gap of its own.
    let open = |facts: &ImageFacts| {
        let gaps = facts.gaps.iter();
        gaps.filter(|gap| gap.why.starts_with("it depends on")).count()
    };
    assert_eq!((unknown.status_is_open.is_some(), open(&unknown)), (true, 1));
    // What was asked of a run is no longer unknown.
    let given = [("LD_LIBRARY_PATH", "/opt/cupti"), ("LD_PRELOAD", "")];
    let given = with_script("eval \"$(cat /etc/x)\"\n", &given);
    assert_eq!(word(&given, "app"), (Loaded, false, false));
    assert_eq!((open(&given), given.contexts.as_is.entry.unknown.len()), (0, 2));
    let known = with_script("export LD_LIBRARY_PATH=/opt/gone\n", &[]);
    assert_eq!(word(&known, "app"), (NotFound, false, false));
    assert_eq!((open(&known), known.is_open()), (0, false));
}

#[test]
fn a_program_that_makes_an_environment_and_may_start_itself_again_leaves_open_what_it_lacks() {
    let gets = |calls: &[&str], path: Option<&str>| {
        let opens = Elf::executable().string("libcupti.so.12").import_weak("dlopen");
        let opens = opens.string("LD_LIBRARY_PATH").import_weak("setenv");
        let opens = calls.iter().fold(opens, Elf::import_weak);
        let program = path.into_iter().fold(opens, Elf::rpath);
        let layer = Layer::new().executable("opt/cupti/libcupti.so.12", Elf::library("libcupti.so.12").build());
        let layer = layer.executable("usr/bin/app", program.build());
        word(&facts_by(layer, &["/usr/bin/app"], &[]), "app")
    };
    assert_eq!(gets(&["execv"], None), (RequestOutcome::NotFound, true, false));
    assert_eq!(gets(&[], None), (RequestOutcome::NotFound, false, false));
    assert_eq!(
        gets(&["execv"], Some("/opt/cupti")),
        (RequestOutcome::Loaded, false, false)
    );
}

/// As the real one does: relative folders it refuses.
#[test]
fn the_folders_that_a_script_gives_to_ldconfig_are_searched() {
    use RequestOutcome::{Loaded, NotFound};
    for (text, expected) in [
        ("ldconfig /opt/cupti\n", (Loaded, false, false)),
        ("ldconfig /opt/other\n", (NotFound, false, false)),
        ("ldconfig\n", (NotFound, false, false)),
        ("ldconfig \"$FOLDER\"/lib -v\n", (NotFound, true, false)),
    ] {
        assert_eq!(word(&with_script(text, &[]), "app"), expected, "{text}");
    }
}

/// What is at a path once a script has run is not what the image has there.
#[test]
fn a_script_that_changes_the_library_leaves_open_what_its_program_gets() {
    let is_open = |text: &str| {
        let facts = with_script(&format!("export LD_LIBRARY_PATH=/opt/cupti\n{text}\n"), &[]);
        (word(&facts, "app").1, facts.is_open())
    };
    for text in [
        "rm -rf /opt/cupti",
        "mv /opt/cupti/libcupti.so.12 /tmp/",
        "chmod 000 /opt/cupti/libcupti.so.12",
        "cp /bin/cat /opt/cupti/libcupti.so.12",
        "ln -sf /none /opt/cupti/libcupti.so.12",
        ": > /opt/cupti/libcupti.so.12",
        "ln -s /srv/cupti/libcupti.so.12 /usr/lib64/libcupti.so.12",
        "[ -e /mnt/x ] && rm -r /opt",
    ] {
        assert_eq!(is_open(text), (true, true), "{text}");
    }
    for text in [
        "rm -rf /opt/cuptix /var/cache",
        "chmod 755 /opt/cupti/libcupti.so.12",
        "chown -R 1000 /opt",
        "cp /etc/x /opt/cupti.conf",
        "mkdir -p /opt/cupti/more",
        "[ -e /opt/none ] && rm -r /opt/cupti",
        "cat /opt/cupti/x > /dev/null",
    ] {
        assert!(!is_open(text).0, "{text}");
    }
}

#[test]
fn the_search_path_of_a_program_counts_for_what_a_library_opens_that_it_opens_by_its_path() {
    let library = Elf::library("libplug.so")
        .string("libcupti.so.12")
        .import_weak("dlopen");
    let program = |text: &str| Elf::executable().string(text).import_weak("dlopen").rpath("/opt/cupti");
    let outcome = |program: Elf| {
        let layer = Layer::new()
            .executable("opt/cupti/libcupti.so.12", Elf::library("libcupti.so.12").build())
            .executable("opt/app/libplug.so", library.clone().build())
            .executable("usr/bin/app", program.build())
            .executable("entrypoint.sh", "#!/bin/sh\nexec \"$@\"\n");
        let facts = facts_of(layer, &[]);
        let consumer = facts.consumers.first().unwrap();
        (
            consumer.outcome.as_is.outcome,
            consumer.program.as_ref().map(ToString::to_string),
        )
    };
    let app = Some("/usr/bin/app".to_owned());
    assert_eq!(outcome(program("/opt/app/libplug.so")), (RequestOutcome::Loaded, app));
    assert_eq!(
        outcome(program("/opt/app/libother.so")),
        (RequestOutcome::NotFound, None)
    );
}

/// What keeps a program from starting that links CUPTI, with the severities for no phase and for inference.
fn start_of(program: &Elf, mode: u32, command: &[&str]) -> (Option<String>, Vec<String>) {
    let library = |name: &str| Elf::library(name).build();
    let layer = Layer::new()
        .executable("usr/lib64/libcupti.so.12", library("libcupti.so.12"))
        .executable("elsewhere/libmore.so.1", library("libmore.so.1"))
        .executable("bin/sh", Elf::executable().build())
        .executable("bin/arm", Elf::executable().machine(Machine::Aarch64).build())
        .executable("etc/text", "no object");
    let layer = match mode {
        0o755 => layer.executable("usr/bin/app", program.build()),
        _ => layer.file("usr/bin/app", program.build()),
    };
    let facts = facts_by(layer, command, &[]);
    let mut consumers = facts.consumers.iter();
    let app = consumers.find(|consumer| consumer.name == "app").unwrap();
    let subjects = image_subjects(&facts);
    let findings = judge_subjects(&Knowledge::built_in().rules, &subjects, &[]);
    let told = findings
        .iter()
        .filter(|finding| finding.rule.ends_with("-cannot-start"));
    (
        app.start_failure().map(|failure| failure.words.clone()),
        told.map(|finding| format!("{} {}", finding.severity.name(), finding.rule))
            .collect(),
    )
}

#[test]
fn a_program_that_lacks_something_else_does_not_start_whether_it_links_or_opens_cupti() {
    let links = || Elf::executable().needed("libcupti.so.12");
    let opens = || Elf::executable().string("libcupti.so.12").import_weak("dlopen");
    let lacks = "libmore.so.1: cannot open shared object file: No such file or directory";
    let own = ["/usr/bin/app"];
    let told = |severity: &str| vec![format!("{severity} consumer-cannot-start")];
    assert_eq!(start_of(&links(), 0o755, &own), (None, Vec::new()));
    assert_eq!(start_of(&opens(), 0o755, &own), (None, Vec::new()));
    let lacking = |program: Elf, command: &[&str]| start_of(&program.needed("libmore.so.1"), 0o755, command);
    assert_eq!(lacking(links(), &own), (Some(lacks.to_owned()), told("error")));
    assert_eq!(lacking(opens(), &own), (Some(lacks.to_owned()), told("error")));
    // Who opens it and is not the container's own may be a tool that nobody starts.
    assert_eq!(
        lacking(opens(), &["/bin/sh"]),
        (Some(lacks.to_owned()), told("warning"))
    );
    // The driver comes with the container runtime.
    assert_eq!(
        start_of(&links().needed("libcuda.so.1"), 0o755, &own),
        (None, Vec::new())
    );
    let gone = "/usr/bin/app: No such file or directory: its interpreter /lib/ld-musl-x86_64.so.1 is not in the image";
    let foreign = links().interp("/lib/ld-musl-x86_64.so.1");
    assert_eq!(start_of(&foreign, 0o755, &own), (Some(gone.to_owned()), told("error")));
    for (interpreter, says) in [
        ("lib64/ld-linux-x86-64.so.2", None),
        ("", Some("exec format error: its interpreter  (an empty name) is none")),
        ("/bin", Some("Permission denied: its interpreter /bin is no file")),
        (
            "/etc/text",
            Some("Input/output error: its interpreter /etc/text is too short"),
        ),
        (
            "/bin/arm",
            Some("Accessing a corrupted shared library: its interpreter /bin/arm is for another processor"),
        ),
    ] {
        let words = says.map(|says| format!("/usr/bin/app: {says}"));
        assert_eq!(
            start_of(&links().interp(interpreter), 0o755, &own).0,
            words,
            "{interpreter}"
        );
    }
    let denied = "/usr/bin/app: Permission denied";
    assert_eq!(
        start_of(&links(), 0o644, &own),
        (Some(denied.to_owned()), told("error"))
    );
}

#[test]
fn a_command_that_does_not_start_is_told_and_one_that_may_be_mounted_is_a_warning() {
    let program = Elf::executable().build();
    let told = |command: &[&str], script: &str| {
        let layer = Layer::new()
            .executable("bin/sh", Elf::executable().build())
            .executable("bin/lost", Elf::executable().needed("libmore.so.1").build())
            .executable("bin/alone", Elf::executable().statically_linked().build())
            .executable("bin/empty", "")
            .executable(
                "bin/unlinked",
                [program.split_at(16).0, &[1], program.split_at(17).1].concat(),
            )
            .executable("bin/arm", Elf::executable().machine(Machine::Aarch64).build())
            .executable("bin/cut", program.split_at(100).0)
            .executable("bin/lacks", Elf::executable().import("nowhere").build())
            .executable("run.sh", script);
        facts_by(layer, command, &[])
            .command_failure
            .map(|failure| (failure.words, failure.is_sure))
    };
    let sure = |words: &str| Some((words.to_owned(), true));
    assert_eq!(told(&["/run.sh"], "#!/bin/sh\n:\n"), None);
    assert_eq!(told(&["sh", "-c", "gone || :"], ""), None);
    // The kernel starts it without a loader.
    assert_eq!(told(&["alone"], ""), None);
    assert_eq!(told(&[], ""), None);
    assert_eq!(
        told(&["/run.sh"], "#!/opt/venv/bin/python3\n"),
        sure("/run.sh: No such file or directory: its interpreter /opt/venv/bin/python3 is not in the image")
    );
    assert_eq!(
        told(&["/run.sh"], "#!/bin/sh\r\n"),
        sure("/run.sh: No such file or directory: its first line ends in a carriage return")
    );
    assert_eq!(
        told(&["/run.sh"], "echo\n"),
        sure("/run.sh: exec format error: its first line names no interpreter")
    );
    assert_eq!(
        told(&["lost"], ""),
        sure("libmore.so.1: cannot open shared object file: No such file or directory")
    );
    let refused = |path: &str, why: &str| sure(&format!("{path}: {why}"));
    assert_eq!(told(&["/bin"], ""), refused("/bin", "is a directory"));
    assert_eq!(told(&["/bin/sh/x"], ""), refused("/bin/sh/x", "not a directory"));
    let format = "exec format error: ";
    assert_eq!(
        told(&["/bin/empty"], ""),
        refused("/bin/empty", &format!("{format}it is empty"))
    );
    // execvp(3) gives it to a shell.
    assert_eq!(told(&["sh", "-c", "/bin/empty"], ""), None);
    assert_eq!(
        told(&["/bin/unlinked"], ""),
        refused("/bin/unlinked", &format!("{format}the object is no program"))
    );
    assert_eq!(
        told(&["/bin/cut"], ""),
        refused("/bin/cut", &format!("{format}the object is cut off"))
    );
    let other = format!("{format}it is for another processor than x86-64");
    assert_eq!(told(&["/bin/arm"], ""), refused("/bin/arm", &other));
    let unbound = "undefined symbols: nothing in the process defines 1 of those that it imports";
    assert_eq!(told(&["/bin/lacks"], ""), refused("/bin/lacks", unbound));
    let gone = "exec: \"gone\": executable file not found in $PATH, unless it is mounted when the container starts";
    assert_eq!(told(&["gone"], ""), Some((gone.to_owned(), false)));
}

#[test]
fn a_module_that_a_command_names_has_to_be_there_and_what_its_code_imports_is_not_asked() {
    let told = |words: &[&str]| {
        let layer = Layer::new()
            .executable("usr/bin/python3.11", Elf::executable().build())
            .symlink("usr/bin/python3", "python3.11")
            .file("usr/lib/python3.11/os.py", "")
            .file("usr/lib/python3.11/site-packages/there/__init__.py", "")
            .file("usr/lib/python3.11/site-packages/there/__main__.py", "")
            .file(
                "app/main.py",
                "import sys\nimport nosuch\nsys.exit(1)\nassert False\n(\n",
            );
        let command = [&["python3"], words].concat();
        facts_by(layer, &command, &[])
            .command_failure
            .map(|failure| failure.words)
    };
    for (words, expected) in [
        (&["-m", "nosuch"][..], Some("No module named 'nosuch'")),
        (&["-m", "there.nosuch"], Some("No module named 'there.nosuch'")),
        (&["-m", "there"], None),
        (&["/app"], Some("can't find '__main__' module in a folder")),
        (&["/app/main.py"], None),
        (&["-c", "import nosuch"], None),
    ] {
        assert_eq!(told(words).as_deref(), expected, "{words:?}");
    }
}

#[test]
fn a_name_that_is_put_together_leaves_the_verdict_open_in_the_program_of_the_command_alone() {
    let program = || {
        Elf::executable()
            .string("%s/lib/libcupti.so.12")
            .import_weak("dlopen")
            .import_weak("snprintf")
    };
    let open = |command: &[&str]| {
        let layer = Layer::new()
            .executable("opt/cupti/lib/libcupti.so.12", Elf::library("libcupti.so.12").build())
            .executable("bin/sh", Elf::executable().build())
            .executable("usr/bin/app", program().build());
        let gaps = facts_by(layer, command, &[]).gaps.into_iter();
        gaps.filter(|gap| gap.what == "what /usr/bin/app opens").count()
    };
    assert_eq!(
        (open(&["/usr/bin/app"]), open(&["app", "x"]), open(&["/bin/sh"])),
        (1, 1, 0)
    );
}

#[test]
fn a_static_program_is_not_said_to_get_what_it_opens() {
    let text = "libcupti.so.12";
    let fixed = Elf::new().kind(Kind::Exec).statically_linked().string(text);
    let movable = Elf::new().flags_1(df_1::PIE).string(text);
    for program in [fixed, movable] {
        let facts = facts(&program);
        let of_app: Vec<String> = facts.undecided.iter().map(|opener| opener.object.to_string()).collect();
        assert_eq!((facts.consumers.len(), of_app), (0, vec!["/usr/bin/app".to_owned()]));
    }
    let usual = facts(&Elf::executable().string(text).import_weak("dlopen"));
    assert_eq!(
        usual.consumers.first().unwrap().outcome.as_is.outcome,
        RequestOutcome::Loaded
    );
}

/// As a real `dlopen` that gives nothing does: the program gets no CUPTI.
#[test]
fn a_preloaded_dlopen_of_its_own_makes_the_answer_open() {
    let is_open = |export: &str| {
        let hook = Elf::library("libhook.so").export(export);
        let opens = Elf::executable().string("libcupti.so.12").import_weak("dlopen");
        let layer = Layer::new()
            .executable("usr/lib64/libcupti.so.12", Elf::library("libcupti.so.12").build())
            .executable("usr/lib64/libhook.so", hook.build())
            .executable("usr/bin/app", opens.build());
        let facts = facts_of(layer, &[("LD_PRELOAD", "/usr/lib64/libhook.so")]);
        (word(&facts, "app"), facts.status_is_open.is_some())
    };
    assert_eq!(is_open("malloc"), ((RequestOutcome::Loaded, false, false), false));
    assert_eq!(is_open("dlopen"), ((RequestOutcome::Loaded, true, false), true));
}

#[test]
fn a_stub_of_the_driver_is_told_where_the_loader_gets_to_it() {
    let stub = Elf::library("libcuda.so.1").build();
    let told = |path: &str| {
        let layer = Layer::new().executable("opt/cuda/stubs/libcuda.so.1", &stub);
        let facts = facts_by(layer, &["/bin/sh"], &[("LD_LIBRARY_PATH", path)]);
        let findings = judge_subjects(&Knowledge::built_in().rules, &image_subjects(&facts), &[]);
        findings
            .iter()
            .filter(|finding| finding.rule == "stub-libcuda-on-search-path")
            .count()
    };
    for path in ["/opt/cuda/stubs", "/none;/opt/cuda/stubs/"] {
        assert_eq!(told(path), 1, "{path}");
    }
    for path in ["/opt/cuda", "/opt/cuda/${NONE}/stubs"] {
        assert_eq!(told(path), 0, "{path}");
    }
}

/// What is known of the program that a launcher starts: its path, its words, two of its variables, and how many of those of
/// the loader are not known.
type Launched = (&'static str, &'static str, &'static str, &'static str, usize);

/// The words of launchers, and what they lead to.
const LAUNCHES: [(&str, Launched); 12] = [
    (
        "chpst -e /etc/env /usr/bin/app x",
        ("/usr/bin/app", "/usr/bin/app x", "/opt/cupti/lib", "", 0),
    ),
    (
        "s6-envdir /etc/env app",
        ("/usr/bin/app", "app", "/opt/cupti/lib", "", 0),
    ),
    ("s6-envdir /etc/none app", ("/usr/bin/app", "app", "", "/x.so", 3)),
    ("prlimit --nofile=9 app", ("/usr/bin/app", "app", "", "/x.so", 0)),
    ("taskset -c 0 app", ("/usr/bin/app", "app", "", "/x.so", 0)),
    (
        "/opt/venv/bin/torchrun --nproc_per_node 2 --standalone /srv/train.py --lr 1",
        (
            "/usr/bin/python3",
            "/usr/bin/python3 /srv/train.py --lr 1",
            "",
            "/x.so",
            0,
        ),
    ),
    (
        "/opt/venv/bin/torchrun --no-python --nnodes 1 app",
        ("/usr/bin/app", "app", "", "/x.so", 0),
    ),
    (
        "/opt/venv/bin/torchrun -m own",
        ("/usr/bin/python3", "/usr/bin/python3 -m own", "", "/x.so", 0),
    ),
    (
        "python3 -m torch.distributed.run --nnodes=1 /srv/train.py",
        ("/usr/bin/python3", "python3 /srv/train.py", "", "/x.so", 0),
    ),
    (
        "/opt/conda/bin/conda run --no-capture-output -n own tool",
        ("/opt/conda/envs/own/bin/tool", "tool", "", "/x.so", 0),
    ),
    ("/opt/conda/bin/conda run -n other tool", ("", "tool", "", "/x.so", 3)),
    ("supervisord -n", ("", "supervisord -n", "", "/x.so", 3)),
];

#[test]
fn the_words_of_a_launcher_lead_to_its_program_and_its_environment() {
    let layer = || {
        Layer::new()
            .executable("usr/bin/app", Elf::executable().build())
            .executable("usr/bin/python3.11", Elf::executable().build())
            .symlink("usr/bin/python3", "python3.11")
            .executable(
                "opt/venv/bin/torchrun",
                "#!/usr/bin/python3\n# as pip writes it: -script.pyw\n",
            )
            .executable("opt/conda/bin/conda", Elf::executable().build())
            .executable("opt/conda/envs/own/bin/tool", Elf::executable().build())
            .file("etc/env/LD_LIBRARY_PATH", "/opt/cupti/lib \nmore\n")
            .file("etc/env/LD_PRELOAD", "")
            .file("srv/train.py", "import ctypes\n")
    };
    for (words, expected) in LAUNCHES {
        let words: Vec<&str> = words.split(' ').collect();
        let entry = facts_by(layer(), &words, &[("LD_PRELOAD", "/x.so")])
            .contexts
            .as_is
            .entry;
        let value = |name: &str| entry.values.get(name).map_or("", String::as_str);
        let called = entry.called.as_ref().map(ToString::to_string).unwrap_or_default();
        let program = entry.program.join(" ");
        let (path, preload) = (value("LD_LIBRARY_PATH"), value("LD_PRELOAD"));
        let told = (called.as_str(), program.as_str(), path, preload, entry.unknown.len());
        assert_eq!(told, expected, "{words:?}");
    }
}

#[test]
fn no_demand_is_unmet_for_sure_where_the_commands_program_is_not_known() {
    let layer = || {
        Layer::new()
            .executable("opt/own/libcupti.so.12", Elf::library("libcupti.so.12").build())
            .executable("usr/bin/python3", Elf::executable().build())
            .file(
                "app/main.py",
                "import ctypes\nROOT = '/opt/own'\nctypes.CDLL(f'{ROOT}/libcupti.so.12')\n",
            )
            .file("app/plain.py", "print(1)\n")
    };
    let open = |script: &str| facts_by(layer(), &["python3", script], &[]).command_is_undecided();
    assert_eq!((open("/app/main.py"), open("/app/plain.py")), (true, false));
}

#[test]
fn a_program_with_another_loader_gets_what_that_one_finds() {
    let outcomes = |loader: &[u8]| {
        let loader = [&Elf::library("ld-linux-x86-64.so.2").build(), loader].concat();
        let app = Elf::executable()
            .needed("libcupti.so.12")
            .interp("/opt/own/lib/ld.so.2");
        let layer = Layer::new()
            .executable("opt/own/lib/ld.so.2", loader)
            .executable("opt/cuda/libcupti.so.12", Elf::library("libcupti.so.12").build())
            .file("etc/ld.so.conf", "/opt/cuda\n")
            .executable("usr/bin/app", app.build());
        let facts = facts_by(layer, &["/usr/bin/app"], &[]);
        let gaps = facts.gaps.iter().map(|gap| gap.why.clone());
        let gaps: Vec<String> = gaps.filter(|why| why.starts_with("/opt/own")).collect();
        let app = facts.consumers.iter().find(|consumer| consumer.name == "app").unwrap();
        (app.outcome.as_is.outcome, app.outcome.nvidia.outcome, gaps.concat())
    };
    // Where the container runtime has let ldconfig run, the cache has it.
    let (loaded, missing) = (RequestOutcome::Loaded, RequestOutcome::NotFound);
    let system = b"\0/lib64/\0/usr/lib64/\0/etc/ld.so.cache\0";
    assert_eq!(outcomes(system), (missing, loaded, String::new()));
    let moved = b"\0/opt/own/lib/\0/opt/own/etc/ld.so.cache\0";
    assert_eq!(outcomes(moved), (missing, missing, String::new()));
    let (_, _, gap) = outcomes(b"\0");
    assert!(
        gap.contains("/opt/own/lib/ld.so.2 does not show its default directories"),
        "{gap}"
    );
}

#[test]
fn an_image_without_a_loader_of_the_system_is_judged_by_the_one_that_its_programs_name() {
    let loader = |folder: &str| {
        let folders = format!("\0/opt/{folder}/lib/\0/opt/{folder}/etc/ld.so.cache\0");
        [&Elf::library("ld.so.2").build(), folders.as_bytes()].concat()
    };
    let program = |folder: &str| {
        let interpreter = format!("/opt/{folder}/lib/ld.so.2");
        Elf::executable().needed("libcupti.so.12").interp(&interpreter).build()
    };
    let judged_by = |command: &str| {
        let layer = Layer::new()
            .executable("opt/one/lib/ld.so.2", loader("one"))
            .executable("opt/two/lib/ld.so.2", loader("two"))
            .executable("opt/two/lib/libcupti.so.12", Elf::library("libcupti.so.12").build())
            .executable("opt/one/bin/app", program("one"))
            .executable("opt/two/bin/app", program("two"))
            .executable("opt/two/bin/more", program("two"));
        let facts = facts_of_whole(&layer, &[command], &[]);
        let linker = facts.contexts.as_is.linker.as_ref().unwrap();
        let gets = facts.consumers.iter().map(|consumer| {
            let loads = consumer.outcome.as_is.outcome == RequestOutcome::Loaded;
            format!("{} {loads}", consumer.object)
        });
        (
            linker.real_path.to_string(),
            facts.copies[0].loadable.as_is,
            gets.collect::<Vec<_>>(),
        )
    };
    let gets = [
        "/opt/one/bin/app false",
        "/opt/two/bin/app true",
        "/opt/two/bin/more true",
    ]
    .map(str::to_owned);
    let expected = |loader: &str, is_found| (loader.to_owned(), is_found, gets.to_vec());
    assert_eq!(judged_by("/opt/one/bin/app"), expected("/opt/one/lib/ld.so.2", false));
    assert_eq!(judged_by("/nothing"), expected("/opt/two/lib/ld.so.2", true));
}

#[test]
fn a_shell_that_lacks_a_library_starts_no_program() {
    let failure = |has_library: bool, command: &[&str]| {
        let layer = Layer::new()
            .executable("bin/bash", Elf::executable().needed("libtinfo.so.6").build())
            .executable("run.sh", "#!/bin/bash\nexec /usr/bin/app\n")
            .executable("usr/bin/app", Elf::executable().build());
        let layer = if has_library {
            layer.executable("lib64/libtinfo.so.6", Elf::library("libtinfo.so.6").build())
        } else {
            layer
        };
        let failure = facts_by(layer, command, &[]).command_failure;
        failure.map(|failure| (failure.words, failure.program.map(|program| program.to_string())))
    };
    let words = "libtinfo.so.6: cannot open shared object file: No such file or directory";
    let expected = (words.to_owned(), Some("/bin/bash".to_owned()));
    for command in [&["bash", "-c", "exec /usr/bin/app"][..], &["/run.sh"]] {
        let shown = failure(false, command);
        assert_eq!(shown.as_ref(), Some(&expected), "{command:?}");
        assert_eq!(failure(true, command), None, "{command:?}");
    }
}

#[test]
fn another_loader_searches_what_each_environment_says() {
    let with = |text: &str| {
        let loader = b"\0/opt/own/lib/\0/opt/own/etc/ld.so.cache\0";
        let loader = [&Elf::library("ld.so.2").build(), &loader[..]].concat();
        let app = Elf::executable()
            .needed("libcupti.so.12")
            .interp("/opt/own/lib/ld.so.2");
        let layer = Layer::new()
            .executable("opt/own/lib/ld.so.2", loader)
            .executable("opt/cupti/libcupti.so.12", Elf::library("libcupti.so.12").build())
            .executable("usr/bin/app", app.build())
            .executable("entrypoint.sh", format!("#!/bin/sh\n{text}exec \"$@\"\n"));
        word(&facts_of(layer, &[]), "app")
    };
    // Whether the script sets it is for a run to tell, so that both environments are asked.
    let may = "if [ -f /mnt/cupti ]; then export LD_LIBRARY_PATH=/opt/cupti; fi\n";
    assert_eq!(with(may), (RequestOutcome::NotFound, true, false));
    let does = "export LD_LIBRARY_PATH=/opt/cupti\n";
    assert_eq!(with(does), (RequestOutcome::Loaded, false, false));
    assert_eq!(with(""), (RequestOutcome::NotFound, false, false));
}
