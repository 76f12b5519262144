//! Tests programs that start without the dynamic loader.

use crate::plain_image::image_of;
use cupti_audit::facts::{GatherOptions, ImageFacts, ReadLayers, StartOverrides, gather_facts};
use cupti_audit::judge::rule::{image_subjects, judge_subjects};
use cupti_audit::knowledge::Knowledge;
use cupti_audit::knowledge::file_interest::cupti_options;
use image_linkage::layer::{ExpectedBlob, index_layer};
use image_linkage::loader::{CpuLevel, RequestOutcome};
use image_source::ImageConfig;
use testkit::elf::{Elf, Kind, Machine, df_1};
use testkit::layer::{Compression, Layer};

/// The facts of an image with a loadable CUPTI and a program that opens it.
fn facts(program: &Elf) -> ImageFacts {
    let layer = Layer::new().executable("usr/lib64/libcupti.so.12", Elf::library("libcupti.so.12").build());
    facts_of(layer.executable("usr/bin/app", program.build()), &[])
}

/// The facts of a layer with a loader, with these environment variables.
fn facts_of(layer: Layer, environment: &[(&str, &str)]) -> ImageFacts {
    let layer = layer.executable("bin/sh", Elf::executable().build());
    facts_by(layer, &["/entrypoint.sh", "/usr/bin/app"], environment)
}

/// Same, with a command.
fn facts_by(layer: Layer, command: &[&str], environment: &[(&str, &str)]) -> ImageFacts {
    let layer = layer.executable(
        "lib64/ld-linux-x86-64.so.2",
        Elf::library("ld-linux-x86-64.so.2").build(),
    );
    facts_of_whole(&layer, command, environment)
}

/// Same, for a layer to which no loader is added.
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
        start: StartOverrides::default(),
    };
    let layers = vec![Ok(index)];
    let image = image_of("case", 1, config);
    gather_facts(image, ReadLayers { layers }, &Knowledge::built_in(), &options)
}

fn word(facts: &ImageFacts, name: &str) -> (RequestOutcome, bool, bool) {
    let mut consumers = facts.consumers.iter();
    let consumer = consumers.find(|consumer| consumer.name == name).unwrap();
    (
        consumer.outcome.as_is.outcome,
        consumer.open.is_some(),
        consumer.other_copies.is_some(),
    )
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

/// The reason why a program that links CUPTI cannot start, and the severities without a phase and for inference.
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
    // A program that opens CUPTI and is not the container's own may be a tool that nobody starts.
    assert_eq!(
        lacking(opens(), &["/bin/sh"]),
        (Some(lacks.to_owned()), told("warning"))
    );
    // The container runtime adds the driver.
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
        ("/bin", Some("Permission denied: its interpreter /bin is not a file")),
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
fn a_command_that_does_not_start_is_told() {
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
            .map(|failure| failure.words)
    };
    let sure = |words: &str| Some(words.to_owned());
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
    assert_eq!(told(&["/bin/sh/x"], ""), sure("exec: \"/bin/sh/x\": Not a directory"));
    let format = "exec format error: ";
    assert_eq!(
        told(&["/bin/empty"], ""),
        refused("/bin/empty", &format!("{format}it is empty"))
    );
    // execvp(3) passes it to a shell.
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
    let unbound = "undefined symbols: no object in the process defines 1 of its imports";
    assert_eq!(told(&["/bin/lacks"], ""), refused("/bin/lacks", unbound));
    assert_eq!(
        told(&["gone"], ""),
        sure("exec: \"gone\": executable file not found in $PATH")
    );
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

/// Same as a real `dlopen` that returns null: the program gets no CUPTI.
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
    // The container runtime's ldconfig adds it to the cache.
    let (loaded, missing) = (RequestOutcome::Loaded, RequestOutcome::NotFound);
    let system = b"\0/lib64/\0/usr/lib64/\0/etc/ld.so.cache\0";
    assert_eq!(outcomes(system), (missing, loaded, String::new()));
    let moved = b"\0/opt/own/lib/\0/opt/own/etc/ld.so.cache\0";
    assert_eq!(outcomes(moved), (missing, missing, String::new()));
    let (_, _, gap) = outcomes(b"\0");
    assert!(
        gap.contains("/opt/own/lib/ld.so.2 does not contain its default directories"),
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
    // Only a run can tell whether the script sets the variable, so the loader simulates both environments.
    let may = "if [ -f /mnt/cupti ]; then export LD_LIBRARY_PATH=/opt/cupti; fi\n";
    assert_eq!(with(may), (RequestOutcome::Loaded, true, false));
    let does = "export LD_LIBRARY_PATH=/opt/cupti\n";
    assert_eq!(with(does), (RequestOutcome::Loaded, false, false));
    assert_eq!(with(""), (RequestOutcome::NotFound, false, false));
}

#[test]
fn what_a_run_may_bring_is_named_with_the_variable_that_settles_it() {
    let given = |script: &str, environment: &[(&str, &str)]| {
        let layer = Layer::new()
            .executable("opt/cupti/libcupti.so.12", Elf::library("libcupti.so.12").build())
            .executable("usr/bin/app", Elf::executable().build())
            .executable("entrypoint.sh", format!("#!/bin/bash\n{script}\nexec /usr/bin/app\n"));
        let layer = layer.executable("bin/bash", Elf::executable().build());
        let facts = facts_of(layer, environment);
        let mut assumptions = facts.assumptions.iter();
        let given = assumptions.find(|assumption| assumption.id == "given@config")?;
        Some((given.text.clone(), given.unset.join(" ")))
    };
    let search = "export LD_LIBRARY_PATH=/opt/cupti";
    for (script, text, variables) in [
        (
            format!("if [ -n \"$USE_CUPTI\" ]; then {search}; fi"),
            "the run does not set USE_CUPTI, which /entrypoint.sh:2 tests",
            "USE_CUPTI",
        ),
        (
            format!("[ -f /data/cupti ] && {search}"),
            "the run brings nothing that /entrypoint.sh:2 tests",
            "",
        ),
        (
            "if [ -f /data/.env ]; then\n  . /data/.env\nfi".to_owned(),
            "the run does not bring LD_LIBRARY_PATH, which /data/.env may set (/entrypoint.sh:3)",
            "LD_LIBRARY_PATH",
        ),
        (
            "source $SETUP".to_owned(),
            "the run does not bring LD_LIBRARY_PATH, which `source $SETUP` may set (/entrypoint.sh:2)",
            "SETUP",
        ),
        (
            "for file in /data/*.sh; do . \"$file\"; done".to_owned(),
            "the run does not bring LD_LIBRARY_PATH, which a mounted file may set (/entrypoint.sh:2)",
            "LD_LIBRARY_PATH",
        ),
    ] {
        assert_eq!(
            given(&script, &[]),
            Some((text.to_owned(), variables.to_owned())),
            "{script}"
        );
        let passed: Vec<(&str, &str)> = variables.split_whitespace().map(|name| (name, "/opt/cupti")).collect();
        let is_settled = given(&script, &passed).is_none();
        // The script then sources another file, which may be undetermined too.
        assert!(is_settled || variables == "SETUP" || passed.is_empty(), "{script}");
    }
    let decided = format!("MODE=plain\nif [ \"$MODE\" = full ]; then {search}; fi");
    assert_eq!(given(&decided, &[]), None);
}
