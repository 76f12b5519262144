//! Runs the program on small images, each with one question: the files in `testdata/cases`.
//! `CUPTI_AUDIT_CASE=WORDS` runs the cases with these words in their name.

use std::path::Path;
use std::{env, fs};

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use testkit::layer::Compression;
use testkit::oci::Layout;
use testkit::parallel::in_parallel;
use testkit::spec::{EntrySpec, LayerSpec, Sources};

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

/// An image, a command, and the expected output.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// The program's arguments, if they are not the file's.
    arguments: Option<Vec<String>>,
    /// The exit code.
    #[serde(default)]
    exit: i32,
    /// The whole error output.
    #[serde(default)]
    stderr: String,
    /// Values of the JSON report by pointer. Objects list only the fields to compare. In a pointer, `*` stands for all
    /// items of a list, and `key=value` for the only item with this field.
    #[serde(default)]
    report: IndexMap<String, Value>,
    /// Texts in the output.
    #[serde(default)]
    says: Vec<String>,
    /// Texts that are not in the output.
    #[serde(default)]
    never: Vec<String>,
}

fn empty() -> String {
    "empty".to_owned()
}

fn read_file(path: &Path) -> CaseFile {
    let text = fs::read_to_string(path).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The differences between the expected and the real output.
fn differences(sources: &Sources, file: &CaseFile, case: &Case) -> Vec<String> {
    let mut image = sources.fixtures()[case.image.as_ref().unwrap_or(&file.image)].clone();
    image.env.extend(case.env.clone());
    image.config.extend(case.config.clone());
    let layers = file.layers.iter().chain(&case.layers);
    image.layers.extend(layers.map(|entries| LayerSpec {
        created_by: "COPY".to_owned(),
        compression: Compression::None,
        entries: Some(entries.clone()),
    }));
    let mut layout = Layout::new();
    layout.add("1", &sources.images(&image).unwrap());
    let folder = tempfile::tempdir().unwrap();
    layout.write_to(folder.path()).unwrap();
    let reference = format!("oci:{}", folder.path().display());
    let arguments = case.arguments.as_ref().unwrap_or(&file.arguments);
    let arguments = arguments.iter().chain([&reference]).map(String::as_str);
    let output = crate::support::run(&arguments.collect::<Vec<_>>());
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let mut found = Vec::new();
    let mut compare = |what: &str, expected: &Value, real: &Value| {
        if !agrees(expected, real) {
            found.push(format!("{what}: expected {expected}, found {real}"));
        }
    };
    compare("exit", &case.exit.into(), &output.status.code().into());
    compare("stderr", &case.stderr.clone().into(), &stderr.into());
    if !case.report.is_empty() {
        let report: Value = serde_json::from_str(&stdout).unwrap_or_default();
        for (pointer, expected) in &case.report {
            compare(pointer, expected, &at(&report, pointer.trim_start_matches('/')));
        }
    }
    let texts = case.says.iter().map(|text| (text, true));
    for (text, is_expected) in texts.chain(case.never.iter().map(|text| (text, false))) {
        if stdout.contains(text) != is_expected {
            found.push(format!("{text:?} is expected: {is_expected}, output:\n{stdout}"));
        }
    }
    found
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
    let meant = env::var("CUPTI_AUDIT_CASE").unwrap_or_default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cases");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let files: Vec<_> = files.map(|path| (read_file(&path), path)).collect();
    let cases = files.iter().flat_map(|(file, path)| {
        let cases = file.cases.iter().filter(|(name, _)| name.contains(&meant));
        cases.map(move |(name, case)| (path, file, name, case))
    });
    let cases: Vec<_> = cases.collect();
    assert!(!cases.is_empty(), "no case has {meant:?} in its name");
    let failures = in_parallel(cases.len(), |number| {
        let (path, file, name, case) = cases[number];
        let found = differences(&sources, file, case).join("\n  ");
        let place = path.file_name().unwrap().display();
        (!found.is_empty()).then(|| format!("{place}: {name}\n  {found}"))
    });
    let failures: Vec<String> = failures.into_iter().flatten().collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
