//! Runs the program on small images and files, each with one question: the files in `testdata/cases`.
//! `CUPTI_AUDIT_CASE=WORDS` runs the cases with these words in their name.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::{fs, iter};

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use testkit::layer::{Compression, Kind, Layer};
use testkit::oci::{Image, Layout};
use testkit::parallel::in_parallel;
use testkit::seeds::is_asked;
use testkit::spec::{EntrySpec, LayerSpec, Sources};

use crate::hadolint::lint;
use crate::small_engine::engine_with;

/// The entries of a layer, as in a fixture.
type Entries = IndexMap<String, EntrySpec>;

/// A file in `testdata/cases`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    /// The common subject of the cases.
    about: String,
    /// Pieces that several cases use through YAML aliases.
    #[serde(default, rename = "shared")]
    _shared: Option<IgnoredAny>,
    /// The fixture below every case.
    #[serde(default = "empty")]
    image: String,
    /// The layers above the fixture in every case.
    #[serde(default)]
    layers: Vec<Entries>,
    /// The program's arguments without the image, for cases without their own.
    #[serde(default)]
    arguments: Vec<String>,
    /// The cases by their question.
    cases: IndexMap<String, Case>,
}

/// An image, files and commands, and their expected output. The working folder holds the image as `image`, this
/// repository as `repository`, and its `testdata`.
#[derive(Deserialize)]
struct Case {
    /// The fixture, if it is not the file's.
    image: Option<String>,
    /// Added to the environment of the image.
    #[serde(default)]
    env: IndexMap<String, String>,
    /// Added to the config's `config` object.
    #[serde(default)]
    config: IndexMap<String, Value>,
    /// The highest layers.
    #[serde(default)]
    layers: Vec<Entries>,
    /// The step of the history of these layers.
    #[serde(default = "copy", rename = "created-by")]
    created_by: String,
    /// The program's arguments, if they are not the file's.
    arguments: Option<Vec<String>>,
    /// More arguments.
    #[serde(default)]
    options: Vec<String>,
    /// Whether only root can run it.
    #[serde(default)]
    root: bool,
    /// Texts or entries of a layer in the working folder, by their path.
    #[serde(default)]
    files: IndexMap<String, FileSpec>,
    /// What is run there, in this order. Without it, the program is run once on the image.
    #[serde(default)]
    runs: Vec<Step>,
    /// The outcome of that one run.
    #[serde(flatten)]
    only: Step,
    #[serde(flatten)]
    unknown: IndexMap<String, IgnoredAny>,
}

/// A file in the working folder.
#[derive(Deserialize)]
#[serde(untagged)]
enum FileSpec {
    Text(String),
    Entry(EntrySpec),
}

/// Commands for `sh` and their expected outcome.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// The commands; `cupti-audit` is the program.
    #[serde(default)]
    run: String,
    /// The exit code.
    #[serde(default)]
    exit: i32,
    /// The whole error output.
    #[serde(default)]
    stderr: String,
    /// The whole output.
    prints: Option<String>,
    /// The name of the snapshot with the whole output.
    snapshot: Option<String>,
    /// The page of the documentation with the output from its first empty line on.
    page: Option<String>,
    /// The name of the schema that each document of the output has to match.
    schema: Option<String>,
    /// Values of the JSON output by pointer; several documents are a list. Objects list only the fields to compare. In
    /// a pointer, `*` stands for all items of a list, and `key=value` for the only item with this field.
    #[serde(default)]
    report: IndexMap<String, Value>,
    /// Texts in the output.
    #[serde(default)]
    says: Vec<String>,
    /// Texts that are not in the output.
    #[serde(default)]
    never: Vec<String>,
}

/// An engine with the fixture of a devel image, also under NVIDIA's name, and a variant with a shell.
static ENGINE: LazyLock<String> = LazyLock::new(|| {
    let sources = Sources::of_repository().unwrap();
    let image = |name: &str| sources.images(&sources.fixtures()[name]).unwrap().remove(0);
    let shell = |image: Image| {
        let programs = ["sh", "ln", "mkdir", "rm", "cat"].map(|name| format!("usr/bin/{name}"));
        let add = |layer: Layer, program: &String| layer.executable(program, "a program");
        image.layer("COPY", &programs.iter().fold(Layer::new(), add), Compression::None)
    };
    engine_with([
        ("devel:1", image("devel")),
        ("nvidia/cuda:12.4.1-devel-ubuntu22.04", image("devel")),
        ("devel-with-shell:1", shell(image("devel"))),
    ])
});

fn copy() -> String {
    "COPY".to_owned()
}

fn empty() -> String {
    "empty".to_owned()
}

fn read_file(path: &Path) -> CaseFile {
    let text = fs::read_to_string(path).unwrap();
    let file: CaseFile = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for (name, case) in &file.cases {
        assert!(
            case.unknown.is_empty(),
            "{name}: unknown fields {:?}",
            case.unknown.keys()
        );
    }
    file
}

/// Writes the image and the files of a case into its working folder.
fn prepare(sources: &Sources, file: &CaseFile, case: &Case, folder: &Path) {
    let mut image = sources.fixtures()[case.image.as_ref().unwrap_or(&file.image)].clone();
    image.env.extend(case.env.clone());
    image.config.extend(case.config.clone());
    let layers = file.layers.iter().chain(&case.layers);
    image.layers.extend(layers.map(|entries| LayerSpec {
        created_by: case.created_by.clone(),
        compression: Compression::None,
        entries: Some(entries.clone()),
    }));
    let mut layout = Layout::new();
    layout.add("1", &sources.images(&image).unwrap());
    layout.write_to(&folder.join("image")).unwrap();
    for (path, real) in [("testdata", "testdata"), ("repository", "")] {
        let real = Path::new(env!("CARGO_MANIFEST_DIR")).join(real);
        std::os::unix::fs::symlink(real, folder.join(path)).unwrap();
    }
    for (name, file) in &case.files {
        let bytes = match file {
            FileSpec::Text(text) => text.clone().into_bytes(),
            FileSpec::Entry(entry) => {
                let layer = sources.add_entry(Layer::new(), name, entry).unwrap();
                let Kind::File(bytes) = &layer.entries()[0].kind else {
                    panic!("{name} is no file");
                };
                bytes.clone()
            }
        };
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// The command of a run.
fn command(file: &CaseFile, case: &Case, run: &Step) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_cupti-audit"));
    let mut command = Command::new(if run.run.is_empty() { program } else { Path::new("sh") });
    if run.run.is_empty() {
        let arguments = case.arguments.as_ref().unwrap_or(&file.arguments);
        command.args(arguments).args(&case.options).arg("oci:image");
    } else {
        command.args(["-c", &run.run]);
    }
    let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    command.env_clear().env("PATH", path).env("DOCKER_HOST", &*ENGINE);
    // No case reaches a registry.
    command.env("HTTPS_PROXY", "http://user:secret@127.0.0.1:9");
    command
}

/// The differences between the expected and the real output, and the texts of snapshots.
fn differences(sources: &Sources, file: &CaseFile, case: &Case) -> (Vec<String>, Vec<(String, String)>) {
    let folder = tempfile::tempdir().unwrap();
    prepare(sources, file, case, folder.path());
    let (mut found, mut snapshots) = (Vec::new(), Vec::new());
    if case.root && !crate::support::is_root() {
        crate::support::missing("root's rights");
        return (found, snapshots);
    }
    let only = case.runs.is_empty().then_some(&case.only);
    for run in case.runs.iter().chain(only) {
        let before = files(folder.path());
        let output = command(file, case, run).current_dir(&folder).output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        let mut compare = |what: &str, expected: &Value, real: &Value| {
            if !agrees(expected, real) {
                let line = run.run.trim_end();
                found.push(format!("{line}\n    {what}: expected {expected}, found {real}"));
            }
        };
        compare("exit", &run.exit.into(), &output.status.code().into());
        compare("stderr", &run.stderr.clone().into(), &stderr.clone().into());
        if let Some(text) = &run.prints {
            compare("output", &text.clone().into(), &stdout.clone().into());
        }
        if !run.report.is_empty() {
            let documents = serde_json::Deserializer::from_str(&stdout).into_iter();
            let mut documents: Vec<Value> = documents.map_while(Result::ok).collect();
            let report = if documents.len() == 1 {
                documents.remove(0)
            } else {
                documents.into()
            };
            for (pointer, expected) in &run.report {
                compare(pointer, expected, &at(&report, pointer.trim_start_matches('/')));
            }
        }
        let is_changed = files(folder.path()) != before;
        found.extend(differences_made(file, case, run, (&stdout, &stderr), is_changed));
        if let Some(name) = &run.schema {
            found.extend(crate::reports::differences_from_schema(name, &stdout));
        }
        let says = run.says.iter().zip(iter::repeat(true));
        for (text, is_expected) in says.chain(run.never.iter().zip(iter::repeat(false))) {
            if stdout.contains(text) != is_expected {
                found.push(format!("{text:?} is expected: {is_expected}, output:\n{stdout}"));
            }
        }
        if let Some(name) = &run.snapshot {
            let json: Option<Value> = serde_json::from_str(&stdout).ok();
            let text = json.map_or(stdout, |json| format!("{json:#}"));
            snapshots.push((name.clone(), text));
        }
    }
    (found, snapshots)
}

/// The differences in a Dockerfile, or in what a refused `dockerfile` or `slim` leaves.
fn differences_made(file: &CaseFile, case: &Case, run: &Step, said: (&str, &str), is_changed: bool) -> Vec<String> {
    let (mut found, (stdout, stderr)) = (Vec::new(), said);
    let arguments = case.arguments.as_ref().unwrap_or(&file.arguments);
    let own = format!("cupti-audit {} {}", arguments.join(" "), case.options.join(" "));
    let line = if run.run.is_empty() { &own } else { &run.run };
    let is_dockerfile = line.starts_with("cupti-audit dockerfile ");
    if is_dockerfile && run.exit == 0 {
        found.extend(lint(stdout));
    }
    if is_dockerfile || line.starts_with("cupti-audit slim ") {
        let is_plain = |c: char| matches!(c, '\n' | '\t') || !c.is_control();
        if !stdout.chars().chain(stderr.chars()).all(is_plain) {
            found.push(format!("a control character is printed: {stdout:?}\n{stderr:?}"));
        }
        let is_printed = !stdout.is_empty() && !["--dry-run", "2>&1"].iter().any(|word| line.contains(word));
        if run.exit == 2 && (is_changed || is_printed) {
            found.push(format!("a refusal leaves something: {stdout}"));
        }
    }
    if let Some(page) = &run.page {
        let (_, shown) = stdout.split_once("\n\n").unwrap_or_default();
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
        let is_shown = text.contains(&format!("\n{shown}```"));
        found.extend((!is_shown).then(|| format!("{page} does not show:\n{shown}")));
    }
    found
}

/// The files directly in a folder.
fn files(folder: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let read = |entry: fs::DirEntry| (entry.file_name(), fs::read(entry.path()).unwrap_or_default());
    entries.map(read).collect()
}

/// Whether a value is the expected one, in each field that is expected.
fn agrees(expected: &Value, real: &Value) -> bool {
    match (expected, real) {
        (Value::Object(fields), Value::Object(_)) => fields.iter().all(|(key, field)| agrees(field, &real[key])),
        (Value::Array(items), Value::Array(real)) => {
            items.len() == real.len() && items.iter().zip(real).all(|(item, real)| agrees(item, real))
        }
        _ => expected == real,
    }
}

/// The value at a pointer, or null.
fn at(value: &Value, pointer: &str) -> Value {
    if pointer.is_empty() {
        return value.clone();
    }
    let (first, rest) = pointer.split_once('/').unwrap_or((pointer, ""));
    let items = value.as_array().into_iter().flatten();
    match (first, first.split_once('=')) {
        ("*", _) => items.map(|item| at(item, rest)).collect(),
        (_, Some((key, text))) => {
            let mut meant = items.filter(|item| item[key] == text);
            let item = meant.next().cloned().unwrap_or_default();
            assert!(meant.next().is_none(), "several items have {first}");
            at(&item, rest)
        }
        _ => {
            let step = value.pointer(&format!("/{first}"));
            at(step.unwrap_or(&Value::Null), rest)
        }
    }
}

#[test]
fn each_case_has_the_expected_output() {
    let sources = Sources::of_repository().unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cases");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let files: Vec<_> = files.map(|path| (read_file(&path), path)).collect();
    let cases = files.iter().flat_map(|(file, path)| {
        let cases = file.cases.iter().filter(|(name, _)| is_asked(name));
        cases.map(move |(name, case)| (path, file, name, case))
    });
    let cases: Vec<_> = cases.collect();
    assert!(
        !cases.is_empty(),
        "no case has the words of CUPTI_AUDIT_CASE in its name"
    );
    let outcomes = in_parallel(cases.len(), |number| {
        differences(&sources, cases[number].1, cases[number].3)
    });
    let mut failures = Vec::new();
    for ((path, _, name, _), (found, snapshots)) in cases.iter().zip(outcomes) {
        if !found.is_empty() {
            let place = path.file_name().unwrap().display();
            failures.push(format!("{place}: {name}\n  {}", found.join("\n  ")));
        }
        insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
            for (name, text) in snapshots {
                insta::assert_snapshot!(name, text);
            }
        });
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
