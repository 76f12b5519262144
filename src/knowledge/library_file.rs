//! Reads the file of a library, and finds what is wrong in it that its types cannot see.

use super::library::LibraryProfile;
use super::name_pattern::matches_name_pattern;
use yaml_mistakes::{YamlDocument, YamlMistake, unknown_name};

/// Reads the library `id` from its file; `rules` are the ids that its patterns can be for.
///
/// Errors: All mistakes in the file.
pub(super) fn read_library(
    id: &str,
    document: &YamlDocument,
    rules: &[&str],
) -> Result<LibraryProfile, Vec<YamlMistake>> {
    document.read_and(|mut library: LibraryProfile| {
        id.clone_into(&mut library.id);
        let mistakes = find_mistakes(document, &library, rules);
        (library, mistakes)
    })
}

fn find_mistakes(document: &YamlDocument, library: &LibraryProfile, rules: &[&str]) -> Vec<YamlMistake> {
    let mut mistakes = Vec::new();
    let mut add = |path: &[&str], what: &str| mistakes.push(document.mistake(path, what.to_owned()));
    // Without `.so`, `libx.a`, the static archive that lies beside many a library, would be a copy.
    if library.stem.starts_with(".so") || !library.stem.contains(".so") {
        add(&["stem"], "expected the name of a library, such as libcupti.so");
    }
    if library.soname.is_empty() {
        add(
            &["soname"],
            "expected a rule such as {from: 0, name: \"libx.so.{major}\"}",
        );
    }
    for (number, member) in library.family.iter().enumerate() {
        if member.stem.is_empty() {
            add(
                &["family", &number.to_string(), "stem"],
                "expected the name of a library, such as libx.so",
            );
        }
    }
    // A family without the library would hash and keep what is beside it, and pass over its own files.
    if !library.family.is_empty() && !library.family.iter().any(|member| member.stem == library.stem) {
        let what = format!("none of the family has the stem of the library, {:?}", library.stem);
        add(&["family"], &what);
    }
    let header = library.header_version.as_ref();
    if header.is_some_and(|header| header.defines.is_empty()) {
        let what = "expected the macros that say the version, such as [X_MAJOR, X_MINOR]";
        add(&["header_version", "defines"], what);
    }
    // Every name begins with nothing: each exact requirement of a project would say the version.
    if library.wheels.pin.as_deref() == Some("") {
        add(&["wheels", "pin"], "expected what the names of its packages begin with");
    }
    for (number, rule) in library.soname.iter().enumerate() {
        if let Some(what) = placeholder_mistake(&rule.name) {
            add(&["soname", &number.to_string(), "name"], &what);
        }
    }
    if let Some(what) = library.package.as_deref().and_then(placeholder_mistake) {
        add(&["package"], &what);
    }
    for (number, pattern) in library.rules.iter().enumerate() {
        if let Some(what) = pattern_mistake(pattern, library.has_apis, rules) {
            add(&["rules", &number.to_string()], &what);
        }
    }
    mistakes
}

/// What is wrong with a pattern for rules.
fn pattern_mistake(pattern: &str, has_apis: bool, rules: &[&str]) -> Option<String> {
    // Many of them name CUPTI in their texts, and would say of it what was found of another library.
    if pattern == "*" && !has_apis {
        return Some(
            "only a library with has_apis: true takes all rules; name those of another library that hold for this one"
                .to_owned(),
        );
    }
    if rules.iter().any(|rule| matches_name_pattern(rule.as_bytes(), pattern)) {
        return None;
    }
    Some(unknown_name("rule", pattern, rules))
}

/// What is wrong with the braces of a name that a version is filled into.
fn placeholder_mistake(name: &str) -> Option<String> {
    // What is not filled in stays as it is, and such a name is that of no file and of no package.
    let rest = name.replace("{major}", "").replace("{minor}", "");
    rest.contains(['{', '}'])
        .then(|| "a brace is for {major} and {minor} alone".to_owned())
}
