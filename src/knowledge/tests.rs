#![allow(
    clippy::disallowed_methods,
    reason = "folders are read from the host, and these lie there"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::api::Certainty;
use super::data_files::built_in_files;
use super::rule;
use super::user_folders::UserFolders;
use super::yaml_text::YamlText;
use super::{DataFile, DataKind, Knowledge};
use serde_json::Value;

const RULE: &str =
    "summary: s\nlike: cupti-absent\nwhere: {breaks-program: true}\nseverity: note\nmessage: m\nwhy: w\nfix: f\n";

fn file(kind: DataKind, id: &str, text: &str) -> DataFile {
    DataFile {
        kind,
        id: id.to_owned(),
        file: format!("mine/{id}.yaml"),
        text: text.to_owned(),
        json: None,
    }
}

fn mistakes(files: Vec<DataFile>) -> Vec<String> {
    let mistakes = Knowledge::with_user_files(files).err().unwrap_or_default();
    mistakes.iter().map(ToString::to_string).collect()
}

#[test]
fn the_files_of_the_program_can_be_read() {
    let knowledge = Knowledge::built_in();
    assert_eq!(knowledge.phase_names(), ["inference", "training", "profiling"]);
    assert!(knowledge.rules.is_sorted_by_key(|rule| rule.id.clone()));
    assert!(!knowledge.consumers.is_empty());
}

/// Whether JSON of the program is what a reader of YAML sees. That reader takes 1.10 as a number and `off` as false.
fn is_same(json: &Value, yaml: &Value) -> bool {
    match (json, yaml) {
        (Value::Array(json), Value::Array(yaml)) => {
            json.len() == yaml.len() && json.iter().zip(yaml).all(|(json, yaml)| is_same(json, yaml))
        }
        (Value::Object(json), Value::Object(yaml)) => {
            let mut entries = json.iter().zip(yaml);
            json.len() == yaml.len() && entries.all(|(json, yaml)| json.0 == yaml.0 && is_same(json.1, yaml.1))
        }
        (Value::String(text), Value::Number(number)) => text.parse().ok() == number.as_f64(),
        (Value::String(text), Value::Bool(_)) => ["off", "on", "yes", "no"].contains(&&**text),
        _ => json == yaml,
    }
}

#[test]
fn is_the_json_of_each_file_what_its_yaml_says() {
    let mut count = 0;
    for file in built_in_files().filter(|file| file.file.ends_with("yaml")) {
        let json: Value = serde_json::from_str(file.json.unwrap()).unwrap();
        let yaml: Value = YamlText::of(&file.text).read().unwrap();
        assert!(is_same(&json, &yaml), "{}", file.file);
        count += 1;
    }
    assert!(count > 150, "{count}");
}

#[test]
fn what_a_phase_removes_is_dead_weight_and_without_drop_it_is_all() {
    let text = "summary: s\nlike: inference\ndead_weight: {removes: [nvperf], forbids: [stubs]}\n";
    let known = Knowledge::with_user_files(vec![file(DataKind::Phase, "serving", text)]).unwrap();
    let serving = known.phase("serving").unwrap();
    assert_eq!(serving.dead_weight.forbids, ["stubs", "nvperf"]);
    assert_eq!(serving.without_drop().dead_weight.forbids, ["nvperf"]);
}

#[test]
fn no_two_profilers_answer_to_one_name() {
    let mut names = BTreeSet::new();
    let profilers = Knowledge::built_in().profilers;
    for profiler in &profilers {
        for name in profiler.names() {
            assert!(names.insert(name), "{name}: {}", profiler.id);
            assert!(profiler.answers_to(name));
        }
        let said = &profiler.profile;
        assert!(!said.fallbacks.contains(&profiler.id), "{}", profiler.id);
        assert!(!said.gives.ends_with('.') && !said.without.ends_with('.'));
    }
    assert_eq!(profilers.len(), 57);
}

#[test]
fn every_profile_says_where_anybody_can_see_that_it_is_so() {
    let known = Knowledge::built_in();
    for consumer in &known.consumers {
        let evidence = consumer.evidence.as_ref().unwrap();
        assert_ne!(evidence.certainty, Certainty::Unverified, "{}", consumer.id);
        assert!(evidence.source.len() > 10, "{}", consumer.id);
    }
    for profiler in &known.profilers {
        let overhead = &profiler.profile.overhead;
        let unknown = overhead.figure == "not known";
        assert_eq!(overhead.certainty == Certainty::Unverified, unknown, "{}", profiler.id);
    }
    // A program's request is observed in its own package, or read in its public source with commit and path.
    let seen = known
        .consumers
        .iter()
        .filter(|consumer| consumer.evidence.as_ref().map(|evidence| evidence.certainty) == Some(Certainty::Seen));
    assert!(seen.count() >= 7);
}

#[test]
fn the_users_files_are_added_and_know_of_each_other() {
    let rule = format!("{RULE}phases: {{tracing: error}}\n");
    let files = vec![
        file(DataKind::Rule, "mine", &rule),
        file(
            DataKind::Phase,
            "tracing",
            "summary: a trace is taken\nlike: profiling\n",
        ),
        file(
            DataKind::Consumer,
            "tracer",
            "name: Tracer\nobject: libtracer.so\nasks: dlopen\nrequired: profiling\n",
        ),
    ];
    let knowledge = Knowledge::with_user_files(files).unwrap();
    assert_eq!(knowledge.phase_names().last(), Some(&"tracing"));
    assert_eq!(knowledge.consumers.last().unwrap().name, "Tracer");
    assert!(knowledge.rules.iter().any(|rule| rule.id == "mine"));
}

#[test]
fn a_file_takes_the_place_of_another_only_where_it_says_so() {
    let taken = "there is a rule \"cupti-absent\" already, in rules/cupti-absent.yaml; give this one another name, or write replace: true to have it in that one's place";
    assert_eq!(
        mistakes(vec![file(DataKind::Rule, "cupti-absent", RULE)]),
        [format!("mine/cupti-absent.yaml:1:1: {taken}")]
    );
    let replacing = format!("{RULE}replace: true\n");
    let knowledge = Knowledge::with_user_files(vec![file(DataKind::Rule, "cupti-absent", &replacing)]).unwrap();
    let absent = |rule: &&rule::Rule| rule.id == "cupti-absent";
    let rules: Vec<_> = knowledge.rules.iter().filter(absent).collect();
    assert_eq!(rules.len(), 1);
    assert_eq!(rules[0].summary, "s");
    let nothing = mistakes(vec![file(DataKind::Rule, "cupti-absnt", &replacing)]);
    assert!(
        nothing[0].starts_with("mine/cupti-absnt.yaml:8:10: nothing to replace: there is no rule \"cupti-absnt\"; did you mean \"cupti-absent\"?"),
        "{nothing:?}"
    );
}

#[test]
fn the_first_mistakes_of_all_files_are_told_at_once() {
    let files = vec![
        file(DataKind::Rule, "z", "summary: \"s\n"),
        file(DataKind::Rule, "b", &RULE.replace("program:", "programs:")),
        file(DataKind::Phase, "a", "sumary: x\n"),
        file(
            DataKind::Consumer,
            "c",
            "name: x\nobject: '*'\nasks: dlopen\nrequired: import\n",
        ),
        file(
            DataKind::Consumer,
            "d",
            "name: x\nobject: _x*.so\nasks: dlopen\nrequired: import\n",
        ),
    ];
    let expected = [
        "mine/a.yaml:1:1: there is no key \"sumary\"; did you mean \"summary\"?; there is summary, like, stage, apis, serves, profilers, dead_weight, replace",
        "mine/b.yaml:3:26: of cupti-absent: there is no value \"breaks-programs\"; did you mean \"breaks-program\"?; there is breaks-program",
        "mine/c.yaml:2:9: expected the name of a file, such as libtorch_cpu.so",
        "mine/d.yaml:2:9: _x*.so matches nothing: a * matches only at the end",
        "mine/z.yaml:2:1: invalid indentation in multiline quoted scalar",
    ];
    assert_eq!(mistakes(files), expected);
}

#[test]
fn a_phase_and_a_profiler_name_only_what_there_is() {
    let phase = "summary: s\nlike: training\nprofilers: {wants: [nsight-systems]}\ndead_weight: {forbids: [stubs]}\n";
    let profiler = "name: n\ngives: g\nwithout: w\ncupti: in-image\napis: [activity]\nconsumer: pytorch\n\
                    overhead: {figure: f, certainty: seen, source: s}\ncapabilities: [compute]\n\
                    needs:\n  - {objects: [libmine.so], otherwise: o}\n";
    let told = |right: &str, wrong: &str| {
        let found = mistakes(vec![
            file(DataKind::Phase, "e", &phase.replace(right, wrong)),
            file(DataKind::Profiler, "mine", &profiler.replace(right, wrong)),
        ]);
        let begin = |mistake: &String| mistake.split("; there is").next().map(str::to_owned);
        found.iter().filter_map(begin).collect::<Vec<String>>()
    };
    assert_eq!(told("", ""), [""; 0]);
    for (right, wrong, said) in [
        ("nsight-systems", "nsys", "e.yaml:3:21: there is no profiler \"nsys\""),
        ("stubs", "lead", "e.yaml:4:25: there is no kind of dead weight \"lead\""),
        (
            "[activity",
            "[activty",
            "mine.yaml:5:8: there is no API \"activty\"; did you mean \"activity\"?",
        ),
        (
            "pytorch",
            "pytorc",
            "mine.yaml:6:11: there is no consumer \"pytorc\"; did you mean \"pytorch\"?",
        ),
        ("seen", "sure", "mine.yaml:7:34: there is no value \"sure\""),
        (
            "compute",
            "compte",
            "mine.yaml:8:16: there is no driver capability \"compte\"; did you mean \"compute\"?",
        ),
        (
            "objects: [libmine.so], ",
            "",
            "mine.yaml:10:5: the condition names nothing to look for",
        ),
    ] {
        assert_eq!(told(right, wrong), [format!("mine/{said}")]);
    }
}

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    dir
}

/// The messages about a folder, which they call DIR.
fn said(dir: &Path, read: impl Fn(&mut UserFolders)) -> Vec<String> {
    let mut folders = UserFolders::default();
    read(&mut folders);
    let files = folders
        .files
        .iter()
        .map(|file| format!("read {} {}", file.kind.name(), file.file));
    let mistakes = folders.mistakes.iter().map(ToString::to_string);
    let dir = dir.display().to_string();
    files.chain(mistakes).map(|line| line.replace(&dir, "DIR")).collect()
}

#[test]
fn a_file_that_cannot_be_had_is_a_mistake_and_none_is_lost_in_silence() {
    let large = vec![b'#'; (1 << 20) + 1];
    let dir = folder(&[
        ("good.yaml", b"x"),
        ("README.md", b"x"),
        (".hidden.yaml", b"x"),
        ("late.yml", b"x"),
        ("Bad Name.yaml", b"x"),
        ("latin.yaml", b"a\nb: \xe4\n"),
        ("marked.yaml", b"\xef\xbb\xbfx"),
        ("large.yaml", &large),
        ("folder.yaml/x", b"x"),
    ]);
    assert_eq!(
        said(dir.path(), |folders| folders.add_rules(dir.path())),
        [
            "read rule DIR/good.yaml",
            "read rule DIR/marked.yaml",
            "DIR/Bad Name.yaml: its name is its id: lower-case letters, digits and hyphens",
            "DIR/folder.yaml: it is not a regular file",
            "DIR/large.yaml: it is larger than the limit of 1048576 bytes",
            "DIR/late.yml: its name has to end in .yaml",
            "DIR/latin.yaml:2:4: a byte here is not UTF-8",
        ]
    );
    let gone = dir.path().join("gone");
    assert_eq!(
        said(dir.path(), |folders| folders.add_rules(&gone)),
        ["DIR/gone: No such file or directory (os error 2)"]
    );
}

#[test]
fn profiles_lie_in_folders_by_kind() {
    let dir = folder(&[
        ("phases/tracing.yaml", b"x"),
        ("consumer/mine.yaml", b"x"),
        ("x.md", b""),
    ]);
    assert_eq!(
        said(dir.path(), |folders| folders.add_profiles(dir.path())),
        [
            "read phase DIR/phases/tracing.yaml",
            "DIR/consumer: there is no kind of profile \"consumer\"; did you mean \"consumers\"?; there is consumers, errors, phases, profilers",
        ]
    );
    let rules = dir.path().join("phases");
    assert_eq!(
        said(dir.path(), |folders| folders.add_profiles(&rules)),
        ["DIR/phases: it is itself the folder phases; name the one above it"]
    );
    // A mistyped rules folder would silently find nothing.
    let none = dir.path().join("none");
    fs::create_dir(&none).unwrap();
    fs::write(none.join("mine.txt"), "x").unwrap();
    assert_eq!(
        said(dir.path(), |folders| folders.add_rules(&none)),
        ["DIR/none: it has no rule: no file whose name ends in .yaml"]
    );
}

#[test]
fn has_every_table_the_values_that_its_columns_promise() {
    let known = Knowledge::built_in();
    let tables = known.tables;
    let is_version = |text: &String| super::version_numbers(text).len() >= 2;
    let is_hash = |text: &String| text.len() == 64 && text.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
    let lists = [
        tables
            .builds
            .iter()
            .all(|row| is_version(&row.version) && is_version(&row.glibc) && row.targets.iter().all(is_version)),
        tables
            .drivers
            .iter()
            .all(|row| is_version(&row.cuda) && (row.known_driver().is_none() || is_version(&row.driver))),
        tables
            .ended_functions
            .iter()
            .all(|row| is_version(&row.cuda) && !row.functions.is_empty()),
        tables
            .framework_releases
            .iter()
            .all(|row| is_version(&row.version) && !row.package.is_empty()),
        tables
            .functions
            .spans
            .iter()
            .all(|row| is_version(&row.first) && is_version(&row.last)),
        tables
            .releases
            .by_hash
            .iter()
            .all(|(hash, row)| is_hash(hash) && row.versions.iter().all(is_version)),
        tables
            .result_codes
            .iter()
            .all(|row| is_version(&row.first) && row.name.starts_with("CUPTI_")),
        tables
            .toolkits
            .iter()
            .all(|row| is_version(&row.cuda) && is_version(&row.cupti)),
        tables
            .wheels
            .wheels
            .iter()
            .all(|row| is_hash(&row.sha256) && is_version(&row.version)),
    ];
    assert_eq!(lists, [true; 9]);
}

#[test]
fn names_every_table_only_what_there_is_and_each_row_once() {
    let known = Knowledge::built_in();
    let tables = known.tables;
    let groups: Vec<&str> = tables.weight.groups().iter().map(|group| &*group.id).collect();
    for keys in [
        tables.apis.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(),
        tables.bundles.iter().map(|row| row.folder.as_str()).collect(),
        tables.dead_weight.kinds.iter().map(|row| row.id.as_str()).collect(),
        tables.host.iter().map(|row| row.id.as_str()).collect(),
        tables.release_faults.iter().map(|row| row.id.as_str()).collect(),
        tables
            .vertex_machines
            .iter()
            .map(|row| row.accelerator.as_str())
            .collect(),
        groups,
    ] {
        let once: BTreeSet<&str> = keys.iter().copied().collect();
        assert_eq!(once.len(), keys.len(), "{keys:?}");
    }
    for row in &tables.frameworks {
        assert!(
            known.consumers.iter().any(|consumer| consumer.id == row.consumer),
            "{row:?}"
        );
    }
    let kinds = tables.weight.groups().iter().flat_map(|group| &group.kinds);
    for kind in kinds {
        assert!(tables.dead_weight.find_kind(kind).is_some(), "{kind}");
    }
    for capability in tables.gpus.names.values() {
        assert!(tables.gpus.find(capability).is_ok(), "{capability}");
    }
}
