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
use super::{DataFile, DataKind, Knowledge};

const RULE: &str = "summary: s\nsubject: image\nwhere: {status: absent}\nseverity: note\nmessage: m\nwhy: w\nfix: f\n";

fn file(kind: DataKind, id: &str, text: &str) -> DataFile {
    DataFile {
        kind,
        id: id.to_owned(),
        file: format!("mine/{id}.yaml"),
        text: text.to_owned(),
        parsed: None,
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

#[test]
fn are_the_files_that_were_parsed_before_read_as_from_their_text() {
    let texts = built_in_files().map(|file| DataFile { parsed: None, ..file });
    let read = Knowledge::of_files(texts).unwrap();
    assert_eq!(format!("{:?}", Knowledge::built_in()), format!("{read:?}"));
    let are_yaml = built_in_files()
        .filter(|file| file.file.ends_with("yaml") && file.kind != DataKind::Errors && file.id != "evidence");
    let unparsed: Vec<String> = are_yaml
        .filter(|file| file.parsed.is_none())
        .map(|file| file.file)
        .collect();
    assert_eq!(unparsed, [""; 0]);
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
fn the_users_tables_add_rows_and_a_row_that_cannot_be_read_is_told_with_its_line() {
    let hash = "a".repeat(64);
    let header = "sha256,versions,bundle,arch,file,bytes";
    let releases = |row: &str| file(DataKind::Table, "releases", &format!("# ours\n{header}\n{row}\n"));
    let known =
        Knowledge::with_user_files(vec![releases(&format!("{hash},12.4.127,,x86_64,libcupti.so.12,7"))]).unwrap();
    assert_eq!(known.tables.releases.by_hash[&hash].bytes, 7);
    let drivers = file(DataKind::Table, "drivers", "cuda,driver\n");
    assert_eq!(
        mistakes(vec![releases("12.4.127,x86_64"), drivers]),
        [
            "mine/drivers.yaml:1:1: expected the names of the columns, cuda,driver,minor_compatibility",
            "mine/releases.yaml:3:1: expected sha256,versions,bundle,arch,file,bytes, found 2 fields",
        ]
    );
}

/// Table rows and their expected mistake: none, or the column and a message.
const ROWS: [(&str, &str, &str); 13] = [
    ("drivers", "99.3,600.1,580", ""),
    ("drivers", "99.4,600.1,", ""),
    (
        "drivers",
        "99.1,abc,",
        "6: expected a version of the driver, such as 550.54.15, or not known, found \"abc\"",
    ),
    (
        "drivers",
        "99,1.2,",
        "1: expected a version of CUDA, such as 12.4.1, found \"99\"",
    ),
    (
        "drivers",
        "99.2,1.2,new",
        "10: expected a branch of the driver, such as 525, or nothing, found \"new\"",
    ),
    (
        "releases",
        "zz,12.4.127,,x86_64,a.so,7",
        "1: expected a SHA-256 of 64 hexadecimal digits in lower case, found \"zz\"",
    ),
    (
        "releases",
        "HASH,twelve,,x86_64,a.so,7",
        "66: expected versions with spaces between them, such as 12.4.99 12.4.127, found \"twelve\"",
    ),
    (
        "releases",
        "HASH1,,tool,x86_64,a.so,7",
        "1: expected a SHA-256 of 64 hexadecimal digits in lower case, found \"HASH1\"",
    ),
    (
        "toolkits",
        "99.1.0,?",
        "8: expected a version of CUPTI, such as 12.4.127, found \"?\"",
    ),
    ("toolkits", "99.2,99.2.1", ""),
    (
        "wheels",
        "x,1.2,x86_64,AHASH",
        "14: expected a SHA-256 of 64 hexadecimal digits in lower case, found \"AHASH\"",
    ),
    (
        "wheels",
        ",1.2,x86_64,HASH",
        "1: expected the name of a package, found \"\"",
    ),
    (
        "wheels",
        "y,1,x86_64,HASH",
        "3: expected a version, such as 12.4.127, found \"1\"",
    ),
];

#[test]
fn a_value_that_no_row_can_have_is_told_with_its_column() {
    let hash = "0".repeat(64);
    for (id, row, said) in ROWS {
        let header = match id {
            "drivers" => "cuda,driver,minor_compatibility",
            "releases" => "sha256,versions,bundle,arch,file,bytes",
            "toolkits" => "cuda,cupti",
            _ => "package,version,arch,sha256",
        };
        let text = format!("{header}\n{row}\n").replace("HASH", &hash);
        let found = mistakes(vec![file(DataKind::Table, id, &text)]).concat();
        let found = found.replace(&format!("mine/{id}.yaml:2:"), "");
        assert_eq!(found, said.replace("HASH", &hash), "{row}");
    }
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
        file(DataKind::Rule, "b", &RULE.replace("status", "state")),
        file(DataKind::Phase, "a", "sumary: x\n"),
        file(
            DataKind::Consumer,
            "c",
            "name: x\nobject: '*'\nasks: dlopen\nrequired: import\n",
        ),
    ];
    let fields: Vec<&str> = rule::SubjectKind::Image
        .fields()
        .iter()
        .map(|field| field.name)
        .collect();
    let field = format!(
        "mine/b.yaml:3:16: of subject image: there is no field \"state\"; did you mean \"status\"?; there is {}",
        fields.join(", ")
    );
    let expected = [
        "mine/a.yaml:1:1: there is no key \"sumary\"; did you mean \"summary\"?; there is summary, like, stage, apis, serves, profilers, dead_weight, replace",
        &field,
        "mine/c.yaml:2:9: expected the name of a file, such as libtorch_cpu.so",
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
            "DIR/consumer: there is no kind of profile \"consumer\"; did you mean \"consumers\"?; there is consumers, cupti, errors, libraries, phases, profilers",
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

const LIBRARY: &str = "name: X\nstem: libx.so\nheader: x.h\npackage_word: x\n";

#[test]
fn what_is_wrong_in_the_file_of_a_library_is_told_with_its_place() {
    let told = |rest: &str| {
        let soname = if rest.contains("soname") {
            ""
        } else {
            "soname: [{from: 0, name: libx.so.1}]\n"
        };
        let found = mistakes(vec![file(
            DataKind::Library,
            "x",
            &format!("{LIBRARY}{rest}\n{soname}"),
        )]);
        let short = |mistake: &String| {
            mistake
                .split("; ")
                .next()
                .unwrap_or_default()
                .replace("mine/x.yaml:", "")
        };
        found.iter().map(short).collect::<Vec<_>>().join(" | ")
    };
    let brace = "a brace is for {major} and {minor} alone";
    for (text, said) in [
        ("rules: [stale-ld-so-cache, 'cupti-*']", String::new()),
        (
            "rules: [stale-ld-so-cach]",
            "5:9: there is no rule \"stale-ld-so-cach\"".to_owned(),
        ),
        (
            "rules: ['*']",
            "5:9: only a library with has_apis: true takes all rules".to_owned(),
        ),
        ("has_apis: true\nrules: ['*']", String::new()),
        ("soname: [{from: 5, name: 'libx.so.{major}.{minor}'}]", String::new()),
        ("soname: [{from: 0, name: 'libx.so.{majr}'}]", format!("5:26: {brace}")),
        ("package: 'x-{major'", format!("5:10: {brace}")),
        ("family: [{stem: libx.so}, {stem: liby.so}]", String::new()),
        (
            "family: [{stem: liby.so}]",
            "5:9: none of the family has the stem of the library, \"libx.so\"".to_owned(),
        ),
        (
            "family: [{stem: libx.so}, {stem: ''}]",
            "5:34: expected the name of a library, such as libx.so".to_owned(),
        ),
        (
            "header_version: {file: x.h, defines: []}",
            "5:38: expected the macros that say the version, such as [X_MAJOR, X_MINOR]".to_owned(),
        ),
        (
            "wheels: {pin: ''}",
            "5:15: expected what the names of its packages begin with".to_owned(),
        ),
    ] {
        assert_eq!(told(text), said, "{text}");
    }
    let stemless = LIBRARY.replace("libx.so", "''") + "soname: [{from: 0, name: x}]\n";
    assert_eq!(
        mistakes(vec![file(DataKind::Library, "x", &stemless)]),
        ["mine/x.yaml:2:7: expected the name of a library, such as libcupti.so"]
    );
}

#[test]
fn a_key_that_stands_twice_is_told_with_both_places() {
    let table = |id: &str, name: &str, text: &str| DataFile {
        file: format!("mine/{name}"),
        ..file(DataKind::Table, id, text)
    };
    let place_of = |text: &str, line: &str| text.lines().position(|found| found.starts_with(line)).unwrap() + 1;
    let drivers = include_str!("../../profiles/cupti/drivers.csv");
    let wheels = include_str!("../../profiles/cupti/wheels.csv");
    let wheel = wheels
        .lines()
        .find(|line| line.starts_with("nvidia-cuda-cupti,13.0.48,x86_64,"))
        .unwrap();
    let (driver, listed) = (place_of(drivers, "12.4.1,"), place_of(wheels, wheel));
    let header = "cuda,driver,minor_compatibility\n";
    let found = mistakes(vec![
        table(
            "drivers",
            "drivers.csv",
            &format!("{header}99.1.0,999.1,\n12.4.1,1.2,\n"),
        ),
        table("drivers", "more.csv", &format!("{header}99.1.0,999.2,\n")),
        table(
            "wheels",
            "wheels.csv",
            &format!("package,version,arch,sha256\n{wheel}\n"),
        ),
        table(
            "bundles",
            "bundles.yaml",
            "- {folder: /x/, owner: x, private: true}\n- {folder: /x/, owner: y, private: true}\n",
        ),
        table(
            "file-names",
            "file-names.yaml",
            "\"2024.1\": \"12.5\"\n\"2023.3\": \"12.3\"\n",
        ),
    ]);
    let expected = [
        "mine/bundles.yaml:2:3: there is a row \"/x/\" already, at mine/bundles.yaml:1:3".to_owned(),
        format!("mine/drivers.csv:3:1: there is a row \"12.4.1\" already, at profiles/cupti/drivers.csv:{driver}"),
        "mine/file-names.yaml:1:11: there is a row \"2024.1\" already, of CUDA 12.4".to_owned(),
        "mine/more.csv:2:1: there is a row \"99.1.0\" already, at mine/drivers.csv:2".to_owned(),
        format!(
            "mine/wheels.csv:2:1: there is a row \"nvidia-cuda-cupti,13.0.48,x86_64\" already, at profiles/cupti/wheels.csv:{listed}"
        ),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_table_names_only_what_there_is() {
    let advice = |tools: &str| file(DataKind::Table, "advice", &format!("tools: {{{tools}}}\n"));
    let framework = "- {distributions: [x], consumer: pytorc, viewer: tensorboard, plugins: [y]}\n";
    let found = mistakes(vec![
        advice("training: [wall-clock, nsight]"),
        file(DataKind::Table, "frameworks", framework),
    ]);
    let begin = |mistake: &String| mistake.split("; there is").next().map(str::to_owned);
    let found: Vec<String> = found.iter().filter_map(begin).collect();
    assert_eq!(
        found,
        [
            "mine/advice.yaml:1:32: there is no profiler \"nsight\"; did you mean \"nsight-compute\"?",
            "mine/frameworks.yaml:1:34: there is no consumer \"pytorc\"; did you mean \"pytorch\"?",
        ]
    );
}

#[test]
fn a_bad_pattern_is_told_at_its_place_and_nothing_follows_from_it() {
    let rows = "- {kind: aa, what: x, weight: toolkit, files: [opt/a]}\n- kind: zz\n  what: x\n  weight: toolkit\n  \
                files:\n    - opt/b\n    - \"opt/[\"\n";
    let phase = file(
        DataKind::Phase,
        "e",
        "summary: s\nlike: training\ndead_weight: {forbids: [zz]}\n",
    );
    let dead_weight = |rows: &str| file(DataKind::Table, "dead-weight", rows);
    let found = mistakes(vec![dead_weight(rows), phase.clone()]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("mine/dead-weight.yaml:7:7: "), "{found:?}");
    // An unreadable row has a name that a phase may use.
    let found = mistakes(vec![dead_weight("- {kind: zz, what: x, files: []}\n"), phase]);
    assert_eq!(found, ["mine/dead-weight.yaml:1:23: missing field `weight`"]);
}

#[test]
fn the_users_groups_of_bytes_come_first() {
    let weight = |rows: &str| file(DataKind::Table, "weight", rows);
    let known = Knowledge::with_user_files(vec![weight(
        "- {group: ours, what: our code, files: [\"**/site-packages/ours/**\"], why: we run it}\n",
    )]);
    let table = &known.unwrap().tables.weight;
    let first = |path: &[u8]| Some(&*table.groups().get(table.matching(path).next()?)?.id);
    assert_eq!(first(b"opt/site-packages/ours/x.py"), Some("ours"));
    assert_eq!(first(b"opt/site-packages/other/x.py"), Some("python-packages"));
    assert_eq!(first(b"srv/x"), None);
    for (row, expected) in [
        (
            "group: a, what: x, why: y, files: [\"opt/[\"]",
            "1:39: error parsing glob 'opt/[': unclosed character class; missing ']'",
        ),
        (
            "group: python, what: x, why: y, files: []",
            "1:11: there is a group \"python\" already",
        ),
        (
            "group: a, what: x, why: y, files: [], kinds: [nsigth]",
            "1:50: there is no kind \"nsigth\"; did you mean \"nsight\"?",
        ),
        (
            "group: a, what: x, why: y, files: [], role: other",
            "1:48: there is no value \"other\"",
        ),
    ] {
        let found = mistakes(vec![weight(&format!("- {{{row}}}\n"))]);
        assert!(
            found.len() == 1 && found[0].starts_with(&format!("mine/weight.yaml:{expected}")),
            "{found:?}"
        );
    }
}
