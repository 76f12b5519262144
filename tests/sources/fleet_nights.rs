//! A fleet report shows tonight's image of each tag, even if the first night audited both images.

use std::path::Path;

use serde_json::{Value, json};

use crate::fleet_images::{fleet, outcome, results};

/// A worklist with other names for the images in `listed`.
fn named(listed: &[Value], names: &[&[&str]]) -> String {
    let lines = listed.iter().zip(names).filter(|(_, names)| !names.is_empty());
    let lines = lines.map(|(line, names)| {
        let mut line = line.clone();
        line["names"] = names.iter().map(|name| format!("reg.example/{name}")).collect();
        line.to_string()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn an_image_that_moved_since_the_list_has_no_result() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (cache, work, out) = (dir.path().join("cache"), path("work"), path("out"));
    let image = concat!("oci:", env!("CARGO_MANIFEST_DIR"), "/testdata/images/devel");
    let (_, line, _) = outcome(fleet(&cache, &["list", image], &[]));
    let mut line: Value = serde_json::from_str(&line).unwrap();
    let (now, then) = (line["digest"].clone(), format!("sha256:{}", "0".repeat(64)));
    line["digest"] = then.as_str().into();
    std::fs::write(&work, line.to_string()).unwrap();
    let (code, _, said) = outcome(fleet(&cache, &["run", &work, "--out", &out], &[]));
    let moved = format!(
        "its digest is {} now, and {then} in the worklist\n",
        now.as_str().unwrap()
    );
    assert!(code == 2 && said.ends_with(&moved), "{said}");
    assert_eq!(results(Path::new(&out)), Vec::<String>::new());
}

#[test]
fn a_tag_that_moved_to_an_image_with_findings_fails_in_every_form_of_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (cache, out) = (dir.path().join("cache"), path("out"));
    let fixture = |name: &str| format!("oci:{}/testdata/images/{name}", env!("CARGO_MANIFEST_DIR"));
    let list = |name: &str| {
        let (code, line, _) = outcome(fleet(&cache, &["list", &fixture(name)], &[]));
        assert_eq!(code, 0);
        serde_json::from_str(&line).unwrap()
    };
    let images: [Value; 2] = ["devel", "headers-only"].map(list);
    let write = |file: &str, names: [&[&str]; 2]| std::fs::write(path(file), named(&images, &names)).unwrap();
    write("monday", [&["app:latest", "app:v1"], &["app:rc", "app:gone"]]);
    write("tuesday", [&["app:v1"], &["app:latest", "app:new", "app:rc"]]);
    let run = ["run", &path("monday"), "--out", &out, "--quiet"];
    assert_eq!(outcome(fleet(&cache, &run, &[])).0, 0);
    let tuesday = path("tuesday");
    let report = |more: &[&str]| {
        let arguments = [&["report", &out, "--worklist", &tuesday], more].concat();
        outcome(fleet(Path::new(&cache), &arguments, &[]))
    };

    let (code, lines, _) = report(&["--format", "json"]);
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let row = |name: &str| {
        let has = |row: &&Value| row["names"].as_array().unwrap().iter().any(|one| one == name);
        let mut rows = rows.iter().filter(has).map(|row| row["exit_code"].as_u64().unwrap());
        (rows.next(), rows.next())
    };
    assert_eq!(code, 1);
    assert_eq!(row("reg.example/app:latest"), (Some(1), None));
    assert_eq!(row("reg.example/app:v1"), (Some(0), None));
    assert_eq!(row("reg.example/app:gone"), (None, None));
    let failing = json!(["reg.example/app:latest", "reg.example/app:new", "reg.example/app:rc"]);
    let failing = rows.iter().find(|row| row["names"] == failing).unwrap();
    assert_eq!(failing["repositories"], json!(["reg.example/app"]));
    for format in ["text", "markdown", "html"] {
        let (code, page, _) = report(&["--format", format, "--since", &path("monday")]);
        let page = page.replace("<wbr>", "");
        let said = "1 name with another result, 1 now lead to another image, 1 new, 1 gone";
        let row = page.lines().find(|line| line.contains("clean → findings")).unwrap();
        assert!(code == 1 && page.contains(said) && row.contains("app:latest"), "{page}");
        assert!(page.contains("reg.example/app:latest and 2 names more"), "{page}");
    }
}
