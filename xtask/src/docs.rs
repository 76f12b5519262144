//! Generates the pages in `docs/`, or compares them.
#![expect(
    clippy::disallowed_methods,
    reason = "this chore reads and writes the repository's own folder"
)]

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cupti_audit::knowledge::Knowledge;

use crate::rules_page::rules_page;
use crate::tools_page::tools_page;

/// The pages: path and content.
fn pages() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let known = Knowledge::built_in();
    vec![
        (root.join("docs/rules.md"), rules_page(&known.rules, &known.phases)),
        (root.join("docs/tools.md"), tools_page(&known)),
    ]
}

/// Writes the pages. Returns a line to print.
///
/// Errors: The system's error.
pub fn write() -> Result<String, Box<dyn Error>> {
    let pages = pages();
    for (path, text) in &pages {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        fs::write(path, text)?;
    }
    Ok(format!("{} written\n", names(pages.iter())))
}

/// Compares the pages with their sources. Returns a line to print.
///
/// Errors: The outdated pages, or the system's error.
pub fn check() -> Result<String, Box<dyn Error>> {
    let pages = pages();
    let mut differ = Vec::new();
    for page in &pages {
        let (path, text) = page;
        match fs::read_to_string(path) {
            Ok(there) if there == *text => {}
            // A missing page is outdated; an unreadable one is an error.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => differ.push(page),
        }
    }
    if differ.is_empty() {
        return Ok(format!("{} as its source says\n", names(pages.iter())));
    }
    let names = names(differ.into_iter());
    Err(format!("{names} differs from its source\nrun `cargo xtask docs` to remake it").into())
}

fn names<'p>(pages: impl Iterator<Item = &'p (PathBuf, String)>) -> String {
    let name = |(path, _): &(PathBuf, String)| {
        let name = path.file_name().unwrap_or_default().display();
        format!("docs/{name}")
    };
    pages.map(name).collect::<Vec<_>>().join(", ")
}
