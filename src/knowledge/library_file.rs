//! Reads a library's file, and checks what its types cannot express.

use super::library::LibraryProfile;
use super::mistake::{TextMistake, unknown_name};
use super::patterns::matches_name_pattern;
use super::yaml_text::YamlText;

/// Reads the library `id` from its file; `rules` are the ids that its patterns may match.
///
/// Errors: The first mistake in the file.
pub(super) fn read_library(id: &str, text: YamlText<'_>, rules: &[&str]) -> Result<LibraryProfile, TextMistake> {
    let mut library: LibraryProfile = text.read()?;
    id.clone_into(&mut library.id);
    check_names(text, &library)?;
    for (number, rule) in library.soname.iter().enumerate() {
        let path = ["soname", &number.to_string(), "name"];
        placeholder_mistake(&rule.name).map_or(Ok(()), |what| Err(text.mistake(&path, what)))?;
    }
    let package = library.package.as_deref().and_then(placeholder_mistake);
    package.map_or(Ok(()), |what| Err(text.mistake(&["package"], what)))?;
    for (number, pattern) in library.rules.iter().enumerate() {
        let mistake = pattern_mistake(pattern, library.has_apis, rules);
        mistake.map_or(Ok(()), |what| Err(text.mistake(&["rules", &number.to_string()], what)))?;
    }
    Ok(library)
}

fn check_names(text: YamlText<'_>, library: &LibraryProfile) -> Result<(), TextMistake> {
    let check = |is_right: bool, path: &[&str], what: &str| {
        if is_right {
            return Ok(());
        }
        Err(text.mistake(path, what.to_owned()))
    };
    // Without `.so`, a static archive such as `libx.a` next to a library would count as a copy.
    let is_library = library.stem.contains(".so") && !library.stem.starts_with(".so");
    check(
        is_library,
        &["stem"],
        "expected the name of a library, such as libcupti.so",
    )?;
    let what = "expected a rule such as {from: 0, name: \"libx.so.{major}\"}";
    check(!library.soname.is_empty(), &["soname"], what)?;
    for (number, member) in library.family.iter().enumerate() {
        let path = ["family", &number.to_string(), "stem"];
        let what = "expected the name of a library, such as libx.so";
        check(!member.stem.is_empty(), &path, what)?;
    }
    // A family without the library would hash and keep its companions, but ignore the library itself.
    let is_of_family = library.family.is_empty() || library.family.iter().any(|member| member.stem == library.stem);
    let what = format!("none of the family has the stem of the library, {:?}", library.stem);
    check(is_of_family, &["family"], &what)?;
    let header = library.header_version.as_ref();
    let says_version = header.is_none_or(|header| !header.defines.is_empty());
    let what = "expected the macros that say the version, such as [X_MAJOR, X_MINOR]";
    check(says_version, &["header_version", "defines"], what)?;
    // Every name starts with the empty prefix, so each pin of a project would count as the version.
    let is_pin = library.wheels.pin.as_deref() != Some("");
    let what = "expected what the names of its packages begin with";
    check(is_pin, &["wheels", "pin"], what)
}

/// The mistake in a rule pattern.
fn pattern_mistake(pattern: &str, has_apis: bool, rules: &[&str]) -> Option<String> {
    // Many rules mention CUPTI in their texts, which would be wrong for another library.
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

/// The mistake in the placeholders of a name.
fn placeholder_mistake(name: &str) -> Option<String> {
    // An unknown placeholder would remain in the name, which then matches no file or package.
    let rest = name.replace("{major}", "").replace("{minor}", "");
    rest.contains(['{', '}'])
        .then(|| "a brace is for {major} and {minor} alone".to_owned())
}
