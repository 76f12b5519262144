//! Compares README.md and the pages of docs/ with the program's output and the repository's files.
//!
//! With `UPDATE_DOCS` set, the test updates the pages instead.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages of the site, and the pages in the repository's root.
pub fn pages() -> Vec<PathBuf> {
    let of = |folder: PathBuf| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let all = of(root().join("docs")).chain(of(root().to_owned()));
    let mut pages: Vec<PathBuf> = all
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    pages.sort();
    pages
}

/// Runs a shell line in a folder with `testdata` and the results of earlier lines; the program is on the PATH.
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

/// The page with the real output after each `$ ` command in its `console` blocks.
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

/// Compares a file with the expected text, or updates it.
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

/// The link targets of a page, without those on other hosts.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://"))
}

/// The anchors of a page's headings, in the form of GitHub and mdbook.
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

/// The broken links of a page, including those that leave the site.
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

/// The site's pages that are missing in its table of contents.
pub fn unlisted_pages() -> Vec<PathBuf> {
    let docs = root().join("docs");
    let contents = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<PathBuf> = links(&contents).map(|target| docs.join(target)).collect();
    let pages = pages()
        .into_iter()
        .filter(|page| page.starts_with(&docs) && !page.ends_with("SUMMARY.md"));
    pages.filter(|page| !listed.contains(page)).collect()
}

/// The unknown options in a page's commands, each with its command.
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
        // The second word may be an action, such as that of `fleet run`.
        let first = plain.take(2).collect::<Vec<_>>();
        let own = (1..=first.len()).map(|count| help(&first[..count])).collect::<String>();
        let known = if own.is_empty() { help(&[]) } else { own };
        let options = words.iter().filter(|word| word.starts_with("--") && word.len() > 2);
        let options = options.filter(|option| !known.contains(*option));
        unknown.extend(options.map(|option| format!("{}: {option} in {line}", page.display())));
    }
    unknown
}
