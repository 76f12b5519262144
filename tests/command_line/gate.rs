//! The configs in the documentation are complete and can be read.

use std::fs;
use std::process::Command;

/// The exit code and the output for a command line in a folder with these files.
fn run(files: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_cupti-audit"));
    let output = command
        .args(arguments)
        .current_dir(&folder)
        .env_clear()
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

/// A page, and its blocks of YAML.
fn page(name: &str) -> (String, Vec<String>) {
    let page = fs::read_to_string(format!("docs/{name}.md")).unwrap();
    let blocks = page.split("```yaml\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("```").next()).map(str::to_owned);
    let blocks = blocks.collect();
    (page, blocks)
}

#[test]
fn the_page_on_the_config_shows_every_key_and_the_program_reads_its_examples() {
    let (page, blocks) = page("config");
    let [config, rule, nightly, known_errors] = &blocks[..] else {
        panic!("four examples: {blocks:?}");
    };
    let files = [
        ("cupti-audit.yaml", &**config),
        ("audit/profiles/phases/nightly.yaml", nightly),
        ("audit/profiles/errors/mine.yaml", known_errors),
        ("audit/rules/heavy-profilers.yaml", rule),
        ("strange.yaml", "strange: 1\n"),
        ("inner.yaml", "suppress: [{strange: 1}]\n"),
    ];
    let (code, listed) = run(&files, &["rules", "--config", "cupti-audit.yaml"]);
    assert!(code == Some(0) && listed.contains("heavy-profilers"), "{listed}");
    let words = [
        "explain",
        "--config",
        "cupti-audit.yaml",
        "our-tracer: no CUPTI in /opt",
    ];
    assert_eq!(run(&files, &words).0, Some(0));
    // The error for an unknown key lists the known keys. Each of them must be in the example and in a table.
    let said = ["strange.yaml", "inner.yaml"].map(|config| run(&files, &["rules", "--config", config]).1);
    let said = said.join("\n");
    let lists = said.lines().filter_map(|line| line.split_once("; there is "));
    let keys: Vec<&str> = lists.flat_map(|(_, list)| list.split(", ")).collect();
    assert_eq!(keys.len(), 21, "{said}");
    for key in keys {
        let shown = config.contains(&format!("{key}: ")) || ["suppress", "accept"].contains(&key);
        assert!(shown && page.contains(&format!("| `{key}` |")), "{key}");
    }
}

#[test]
fn the_config_of_the_page_on_ci_is_one() {
    let (_, blocks) = page("ci");
    assert_eq!(run(&[("cupti-audit.yaml", &blocks[0])], &["rules"]).0, Some(0));
}
