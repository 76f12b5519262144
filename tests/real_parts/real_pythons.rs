//! Compares imports in generated environments, and the libcupti they get, with the real Python.
//!
//! A seed determines interpreters, virtual environments, user sites, `.pth` files, variables and packages. The
//! packages' modules link or open a libcupti that the test compiles. Every interpreter of an image imports each module.

use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::seeds::{self, each_seed, report};

use crate::chroot::Root;
use crate::plain_image::image_of;
use crate::python_case::{Asked, PythonCase, StandardLibrary};
use crate::python_stubs::Stubs;
use cupti_audit::facts::{
    CuptiConsumer, GatherOptions, ImageFacts, ReadLayers, RequestOutcome, StartOverrides, UndecidedOpener, gather_facts,
};
use cupti_audit::knowledge::Knowledge;
use image_linkage::loader::CpuLevel;
use image_source::ImageConfig;
use python_path::PythonUse;
use serde_json::Value;
use testkit::random::Random;

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Import {
    /// No Python of the image finds the module.
    ByNobody,
    /// The interpreter's folder, the resolved path of libcupti, and whether that finds `libnvperf_host.so`.
    Gets(String, String, bool),
    /// The interpreter's folder, and the loader's message.
    Fails(String, String),
}

#[test]
fn real_pythons_import_what_the_audit_says() {
    let parts = ["bookworm", "bookworm.tar"];
    let programs = [("gcc", "gcc"), ("patchelf", "patchelf"), ("tar", "tar")];
    if !parts.iter().all(|part| crate::support::part(part).is_some())
        || !crate::support::have_all(&programs)
        || !crate::support::is_root()
    {
        return;
    }
    let stubs = Stubs::make();
    let library = standard_library();
    let imports = AtomicUsize::new(0);
    let (first, last) = seeds::chosen(1, 40, 120);
    let failures = each_seed(first, last, |seed| {
        let case = crate::python_case::make(&mut Random::new(seed), &stubs, &library);
        let differences = compare(&case);
        imports.fetch_add(case.asked.len(), Ordering::Relaxed);
        if differences.is_empty() {
            return Ok(());
        }
        Err(format!(
            "seed {seed}: options {:?}, env {:?}, home {}, user {:?}, in {}, {:?}\n{}",
            case.options,
            case.env,
            case.home,
            case.user,
            case.working_dir,
            case.interpreters,
            differences.join("\n")
        ))
    });
    report(&failures);
    println!(
        "{} imports in {} generated environments end as the real Python's",
        imports.into_inner(),
        last - first + 1
    );
}

fn compare(case: &PythonCase) -> Vec<String> {
    let mut root = Root::new(b"");
    root.add(&case.layer);
    let facts = facts(case, &root);
    let runs: Vec<Vec<Value>> = case.interpreters.iter().map(|path| run(case, &root, path)).collect();
    let differs = |(number, asked): (usize, &Asked)| {
        let consumer = facts
            .consumers
            .iter()
            .find(|found| found.object.to_string() == asked.object);
        let real = real(case, asked, runs.iter().map(|said| &said[number]));
        // The audit does not know which libraries PyTorch would map first if nothing imports it.
        let is_asked = |opener: &UndecidedOpener| opener.object.to_string() == asked.object;
        let open = consumer
            .is_none()
            .then(|| facts.undecided.iter().find(|opener| is_asked(opener)));
        if open.flatten().is_some_and(|opener| opener.after.is_some()) {
            return None;
        }
        let ours = consumer.map(|consumer| ours(&facts, consumer, &real));
        let text = format!("{}: {ours:?}, and the real Python {real:?}", asked.object);
        (ours.as_ref() != Some(&real)).then_some(text)
    };
    case.asked.iter().enumerate().filter_map(differs).collect()
}

/// The audit's result. If several libraries are missing, the audit reports libcupti first, and the loader its first
/// one.
fn ours(facts: &ImageFacts, consumer: &CuptiConsumer, real: &Import) -> Import {
    let folder = match &consumer.python {
        Some(PythonUse::Imported { interpreter, .. }) => interpreter.parent().to_string(),
        _ => return Import::ByNobody,
    };
    let gets = &consumer.outcome.as_is;
    let others = gets.other_failures.iter().map(|failure| failure.message.clone());
    let own = (gets.outcome != RequestOutcome::Loaded).then(|| gets.message.clone());
    let failures: Vec<String> = own.into_iter().chain(others).collect();
    if let Some(first) = failures.first() {
        return match real {
            Import::Fails(_, words) if failures.contains(words) => Import::Fails(folder, words.clone()),
            _ => Import::Fails(folder, first.clone()),
        };
    }
    let number = facts.consumers.iter().position(|other| other == consumer);
    let reach = facts.apis.iter().find(|asker| asker.consumer == number).unwrap();
    let mut beside = reach.reach.as_is.companions.iter();
    let nvperf = beside.any(|it| {
        *it.name == *b"libnvperf_host.so" && it.got.name() == "cupti" && it.outcome == RequestOutcome::Loaded
    });
    let path = gets.real_path.as_ref().map(ToString::to_string);
    Import::Gets(folder, path.unwrap_or_default(), nvperf)
}

/// The result of the first interpreter that finds the module.
fn real<'v>(case: &PythonCase, asked: &Asked, said: impl Iterator<Item = &'v Value>) -> Import {
    let found = case.interpreters.iter().zip(said).find_map(|(interpreter, said)| {
        let text = |key: &str| said[key].as_str().map(str::to_owned);
        let (place, error) = (text("place")?, text("error"));
        let of_name = asked.module.starts_with(&place);
        let is_missing = text("kind").as_deref() == Some("ModuleNotFoundError");
        let other = text("module").is_some_and(|module| module != asked.module);
        (of_name && !is_missing && !other).then(|| {
            let folder = interpreter.trim_end_matches("/python3").to_owned();
            match (error, text("cupti")) {
                // Python has a message of its own for this; the loader has none.
                (Some(words), _) if words.contains("not found in the system path") => {
                    let name = words.split(' ').next().unwrap_or_default();
                    Import::Fails(folder, format!("{name}.so: not found in the folders of sys.path"))
                }
                (Some(words), _) => Import::Fails(folder, words),
                (None, path) => Import::Gets(folder, path.unwrap_or_default(), text("nvperf").as_deref() == Some("")),
            }
        })
    });
    found.unwrap_or(Import::ByNobody)
}

/// An interpreter's result for each object.
fn run(case: &PythonCase, root: &Root, interpreter: &str) -> Vec<Value> {
    let own = format!("HOME={}", case.home);
    let mut words = vec!["-C".to_owned(), case.working_dir.to_owned(), own];
    words.extend(case.env.iter().map(|(key, value)| format!("{key}={value}")));
    words.push(interpreter.to_owned());
    // Debian's program contains `site` as a frozen module; the plain one of the other prefix is a file.
    if case.is_of_conda(interpreter) {
        words.extend(["-X", "frozen_modules=off"].map(str::to_owned));
    }
    words.extend(case.options.iter().map(|option| (*option).to_owned()));
    let script = include_str!("../support/python_run.py");
    words.extend(["-B", "-c", script].map(str::to_owned));
    words.extend(case.asked.iter().map(|asked| asked.imports.clone()));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let program = if case.is_of_conda(interpreter) {
        "/opt/conda/bin/python3.11"
    } else {
        "/usr/bin/python3.11"
    };
    let output = root.asked(program, &words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let said: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.len(), case.asked.len(), "{interpreter}: {err}");
    said
}

fn facts(case: &PythonCase, root: &Root) -> ImageFacts {
    let config = ImageConfig {
        env: case.env.clone(),
        working_dir: Some(case.working_dir.to_owned()),
        command: std::iter::once("python3")
            .chain(case.options.iter().copied())
            .map(str::to_owned)
            .collect(),
        user: Some(case.user.to_owned()).filter(|user| !user.is_empty()),
        ..ImageConfig::default()
    };
    let image = image_of("generated", root.layers.len(), config);
    let layers = root.layers.iter().cloned().map(Ok).collect();
    let options = GatherOptions {
        environment: Vec::new(),
        cpu: CpuLevel::V3,
        limits: image_linkage::limits::Limits::default(),
        start: StartOverrides::default(),
    };
    gather_facts(image, ReadLayers { layers }, &Knowledge::built_in(), &options)
}

/// Debian's library, and its `site.py` as in plain `CPython`, which has packages only in `site-packages`.
fn standard_library() -> StandardLibrary {
    let folder = crate::support::parts().join("bookworm/usr/lib/python3.11");
    let names = std::fs::read_dir(&folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut modules: Vec<String> = names.filter(|name| name != "__pycache__").collect();
    modules.sort();
    let text = std::fs::read_to_string(folder.join("site.py")).unwrap();
    let from = text.find("            if is_virtual_environment:").unwrap();
    let to = from
        + text[from..]
            .find("        else:\n            sitepackages.append(prefix)")
            .unwrap();
    let plain = "            for libdir in libdirs:
                path = os.path.join(prefix, libdir,
                                    \"python%d.%d\" % sys.version_info[:2],
                                    \"site-packages\")
                sitepackages.append(path)
";
    StandardLibrary {
        modules,
        // The docstring mentions them as well.
        plain_site: [&text[..from], plain, &text[to..]]
            .concat()
            .replace("dist-packages", "site-packages"),
    }
}
