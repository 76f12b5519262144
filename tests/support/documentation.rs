//! What README.md and the pages of docs/ show, against what the program says and what lies there.
//!
//! With `UPDATE_DOCS` in the environment the pages are written anew instead.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages of the site, and those beside it in the root of the repository.
pub fn pages() -> Vec<PathBuf> {
    let of = |folder: PathBuf| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let all = of(root().join("docs")).chain(of(root().to_owned()));
    let mut pages: Vec<PathBuf> = all
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    pages.sort();
    pages
}

/// A shell's line with the program on its PATH, in a folder that has `testdata` and whatever the lines before made.
fn shell(folder: &Path, line: &str) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_cupti-audit")).parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", program.display());
    Command::new("sh")
        .args(["-c", &format!("{{ {line}\n}} 2>&1")])
        .current_dir(folder)
        .env_clear()
        .env("PATH", path)
        .env("HOME", folder)
        .output()
        .unwrap()
}

/// The page with what its commands really say: the lines behind each `$ ` of its blocks of `console`.
pub fn remade(page: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("testdata"), folder.path().join("testdata")).unwrap();
    let mut out = String::new();
    let mut is_console = false;
    for line in page.lines() {
        let is_fence = line.starts_with("```");
        if let Some(command) = line.strip_prefix("$ ").filter(|_| is_console) {
            let said = shell(folder.path(), command).stdout;
            let _ = write!(out, "{line}\n{}", String::from_utf8(said).unwrap());
        } else if !is_console || is_fence {
            let _ = writeln!(out, "{line}");
        }
        if is_fence {
            is_console = line == "```console";
        }
    }
    out
}

/// Compares a file with what it ought to be, or writes it.
pub fn compare(path: &Path, expected: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, expected).unwrap();
    }
    let there = fs::read_to_string(path).unwrap_or_default();
    let differs = there
        .lines()
        .zip(expected.lines())
        .find(|(there, ought)| there != ought);
    let path = path.display();
    assert!(
        there == expected,
        "{path} is not what the program says: {differs:?}\nUPDATE_DOCS=1 cargo test --test command_line cli remakes it"
    );
}

/// The targets of a page's links, without those of other hosts.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://"))
}

/// The anchors of a page, as GitHub and mdbook make them of headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter_map(|line| {
        line.trim_start_matches('#')
            .strip_prefix(' ')
            .filter(|_| line.starts_with('#'))
    });
    let slug = |heading: &str| {
        let kept = heading.to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(slug).collect()
}

/// The links of a page that lead nowhere, or out of the site.
pub fn broken_links(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let folder = page.parent().unwrap();
    let is_broken = |target: &&str| {
        let (file, anchor) = target.split_once('#').unwrap_or((*target, ""));
        let path = if file.is_empty() {
            page.to_owned()
        } else {
            folder.join(file)
        };
        let Ok(path) = fs::canonicalize(path) else { return true };
        let leaves = folder.ends_with("docs") && !path.starts_with(folder);
        leaves || !anchor.is_empty() && !anchors(&fs::read_to_string(path).unwrap()).contains(anchor)
    };
    let broken = links(&text).filter(is_broken);
    broken.map(|target| format!("{}: {target}", page.display())).collect()
}

/// The pages of the site that its contents do not name.
pub fn unlisted_pages() -> Vec<PathBuf> {
    let docs = root().join("docs");
    let contents = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<PathBuf> = links(&contents).map(|target| docs.join(target)).collect();
    let pages = pages()
        .into_iter()
        .filter(|page| page.starts_with(&docs) && !page.ends_with("SUMMARY.md"));
    pages.filter(|page| !listed.contains(page)).collect()
}

/// The options in a page's commands that the program does not know, with the command.
pub fn unknown_options(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let mut unknown = Vec::new();
    for line in text
        .lines()
        .filter(|line| line.trim_start().trim_start_matches("$ ").starts_with("cupti-audit "))
    {
        let line = line.split([';', '|', '#']).next().unwrap();
        let words: Vec<&str> = line
            .trim_start()
            .trim_start_matches("$ ")
            .split_whitespace()
            .skip(1)
            .collect();
        let help = |command: &[&str]| {
            let asked = Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
                .args(command)
                .arg("--help")
                .env_clear()
                .output();
            String::from_utf8(asked.unwrap().stdout).unwrap()
        };
        let plain = words.iter().copied().filter(|word| !word.starts_with('-'));
        // The second may be an action, such as that of `fleet run`.
        let first = plain.take(2).collect::<Vec<_>>();
        let own = (1..=first.len()).map(|count| help(&first[..count])).collect::<String>();
        let known = if own.is_empty() { help(&[]) } else { own };
        let options = words.iter().filter(|word| word.starts_with("--") && word.len() > 2);
        let options = options.filter(|option| !known.contains(*option));
        unknown.extend(options.map(|option| format!("{}: {option} in {line}", page.display())));
    }
    unknown
}
