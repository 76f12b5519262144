//! The HTML report is readable: real Chromium lays out the page of every fixture at phone and desktop width.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::spec::Sources;

/// Markup in a name that a search path shows.
const MARKUP: &str = "LD_LIBRARY_PATH=/\"'><img src=x onerror=alert(1)><script>alert(2)</script></title></style>";

fn html(images: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
        .args(["--format", "html", "--env", MARKUP])
        .args(images.iter().map(|name| format!("oci:testdata/images/{name}")))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Script that measures the frames in Chromium and writes the results into the document.
const LOOK: &str = "
  const say = frame => {
    const page = frame.contentDocument, root = page.documentElement;
    page.querySelectorAll('details').forEach(one => one.open = true);
    return {
      name: frame.dataset.name, width: root.clientWidth, scrolls: root.scrollWidth,
      cut: [...page.querySelectorAll('.wide:has(table)')].filter(one => one.scrollWidth > one.clientWidth).length,
      active: page.querySelectorAll('script,iframe,object,embed,img,link,base,form').length,
      handlers: [...page.querySelectorAll('*')].filter(one => [...one.attributes].some(a => /^on/i.test(a.name))).length,
      fetched: frame.contentWindow.performance.getEntriesByType('resource').length,
    };
  };
  addEventListener('load', () => {
    const said = [...document.querySelectorAll('iframe')].map(say);
    document.body.textContent = '[[' + JSON.stringify(said) + ']]';
  });
";

fn chromium() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let runs = |name: &&str| {
        let asked = Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        asked.is_ok_and(|status| status.success())
    };
    names.into_iter().find(runs)
}

/// Chromium's measurements of each page at each width.
fn look(chromium: &str, folder: &Path, pages: &[(String, usize)]) -> Vec<Value> {
    let mut frames = String::new();
    for (name, width) in pages {
        let _ = write!(
            frames,
            "<iframe data-name='{name}' src='{name}.html' style='width:{width}px;height:900px'></iframe>"
        );
    }
    let page = format!("<!doctype html><meta charset=utf-8><script>{LOOK}</script><body>{frames}</body>");
    fs::write(folder.join("frames.html"), page).unwrap();
    let output = Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--allow-file-access-from-files",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", folder.join("frames.html").display()))
        .output()
        .unwrap();
    let dom = String::from_utf8(output.stdout).unwrap();
    let said = dom.split("[[[").nth(1).and_then(|rest| rest.split("]]]").next());
    let said = said.unwrap_or_else(|| panic!("{dom}"));
    let said = format!("[{said}]")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    serde_json::from_str(&said).unwrap()
}

#[test]
fn every_page_fits_a_phone_and_a_screen() {
    let Some(chromium) = chromium() else {
        println!("skipped: Chromium is not installed, no page was looked at");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let sources = Sources::of_repository().unwrap();
    let names: Vec<&str> = sources.fixtures().keys().map(String::as_str).collect();
    let mut pages = Vec::new();
    for name in names.iter().copied().chain(["all"]) {
        let images = if name == "all" { names.as_slice() } else { &[name] };
        fs::write(folder.path().join(format!("{name}.html")), html(images)).unwrap();
        pages.extend([(name.to_owned(), 390), (name.to_owned(), 1280)]);
    }
    let diff = Command::new(env!("CARGO_BIN_EXE_cupti-audit"))
        .args([
            "diff",
            "--format=html",
            "oci:testdata/images/pip-torch",
            "oci:testdata/images/devel",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    fs::write(folder.path().join("diff.html"), diff.stdout).unwrap();
    pages.extend([("diff".to_owned(), 390), ("diff".to_owned(), 1280)]);
    let said = look(chromium, folder.path(), &pages);
    assert_eq!(said.len(), pages.len());
    for page in &said {
        assert_eq!(page["scrolls"], page["width"], "runs over: {page}");
        for nothing in ["active", "handlers", "fetched", "cut"] {
            assert_eq!(page[nothing], 0, "{nothing}: {page}");
        }
    }
    println!(
        "{} pages agree with Chromium's layout, on a phone and on a screen",
        said.len()
    );
}

#[test]
fn a_page_is_the_same_each_time_and_names_are_no_markup() {
    let page = html(&["hostile-names"]);
    assert_eq!(page, html(&["hostile-names"]));
    assert!(!page.contains("<script"), "{page}");
    assert!(page.chars().all(|c| c == '\n' || !c.is_control()), "{page:?}");
    assert!(page.contains("/opt/::error::x/libcupti.so.12"));
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
}

#[test]
fn the_copies_programs_and_layers_are_tables_below_headings() {
    let page = html(&["pip-torch"]).replace("<wbr>", "");
    let between = |begin: &str, end: &str| -> Vec<String> {
        let pieces = page.split(begin).skip(1);
        let text = |piece: &str| piece.split(end).next().unwrap().split_once('>').unwrap().1.to_owned();
        pieces.map(text).collect()
    };
    insta::assert_json_snapshot!([
        between("<h2", "</h2>"),
        between("<h3", "</h3>"),
        between("<td", "</td>")
    ]);
}
