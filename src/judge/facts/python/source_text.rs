//! What the text of a Python module says of a library: the names that it gives to ctypes.
//!
//! The text is not understood: a name that stands in the call itself is opened as it stands, and of any other that stands
//! in quotes only a run could tell what is made of it.

use crate::knowledge::LibraryProfile;
use image_linkage::elf::ByteString;

/// What opens a library by its name: ctypes, and `dlopen` of cffi.
const OPENERS: [&str; 4] = ["CDLL(", "LoadLibrary(", "PyDLL(", "dlopen("];
/// The names that are taken of one module.
const NAMES: usize = 16;

/// The names that a module opens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::judge::facts) struct SourceText {
    /// Those that stand in a call, in order.
    pub exact: Vec<ByteString>,
    /// Texts in quotes of which it may make a name.
    pub hints: Vec<ByteString>,
}

/// Reads a module; a text without any call that opens a library says nothing.
pub(in crate::judge::facts) fn read_source(source: &[u8], library: &LibraryProfile) -> SourceText {
    let text = String::from_utf8_lossy(source);
    let mut found = SourceText::default();
    if !OPENERS.iter().any(|opener| text.contains(opener)) {
        return found;
    }
    for (at, stem) in text.match_indices(library.file_stem()) {
        let Some((name, before)) = quoted(&text, at, at + stem.len()) else {
            continue;
        };
        // A message has words; what has none is a name or a part of one.
        if name.contains([' ', '\t']) || found.exact.len() + found.hints.len() >= NAMES {
            continue;
        }
        let file = name.rsplit('/').next().unwrap_or_default();
        let is_whole = library.is_exact_name(file.as_bytes()) && (file == name || name.starts_with('/'));
        let is_given = OPENERS.iter().any(|opener| before.ends_with(opener));
        let list = if is_whole && is_given {
            &mut found.exact
        } else {
            &mut found.hints
        };
        list.push(name.as_bytes().into());
    }
    found
}

/// The text in quotes on one line around a place, and what stands before it; nothing in a comment.
fn quoted(text: &str, from: usize, to: usize) -> Option<(&str, &str)> {
    let (head, tail) = (text.get(..from)?, text.get(to..)?);
    let line = head.rfind('\n').map_or(0, |at| at + 1);
    if head.get(line..)?.trim_start().starts_with('#') {
        return None;
    }
    let open = line + head.get(line..)?.rfind(['"', '\''])?;
    let quote = head.get(open..)?.chars().next()?;
    let end = tail.find('\n').unwrap_or(tail.len());
    let close = to + tail.get(..end)?.find(quote)?;
    // A raw text is one that stands there; one with braces to be filled is not.
    let before = head.get(..open)?.trim_end();
    Some((text.get(open + 1..close)?, before.strip_suffix('r').unwrap_or(before)))
}

#[cfg(test)]
mod tests {
    use super::read_source;
    use crate::knowledge::Knowledge;

    #[test]
    fn a_name_in_the_call_is_opened_and_of_others_only_a_run_could_tell() {
        let check = |source: &str, exact: &[&str], hints: &[&str]| {
            let found = read_source(source.as_bytes(), Knowledge::built_in().library);
            let texts = |list: &[image_linkage::elf::ByteString]| -> Vec<String> {
                list.iter()
                    .map(|name| String::from_utf8_lossy(name).into_owned())
                    .collect()
            };
            assert_eq!(
                (texts(&found.exact), texts(&found.hints)),
                (texts_of(exact), texts_of(hints)),
                "{source}"
            );
        };
        check("ctypes.CDLL('libcupti.so.12')", &["libcupti.so.12"], &[]);
        check("lib = cdll.LoadLibrary( \"libcupti.so\" )", &["libcupti.so"], &[]);
        check(
            "lib = cdll.LoadLibrary(\n    \"libcupti.so\",\n)",
            &["libcupti.so"],
            &[],
        );
        check(
            "CDLL('/opt/c/libcupti.so.12', mode=RTLD_GLOBAL)",
            &["/opt/c/libcupti.so.12"],
            &[],
        );
        check(
            "CDLL('libcupti.so.13')\nCDLL('libcupti.so.12')",
            &["libcupti.so.13", "libcupti.so.12"],
            &[],
        );
        for hint in [
            "CDLL(os.path.join(root, 'libcupti.so.12'))",
            "for name in ('libcupti.so.12',):\n    CDLL(name)",
        ] {
            check(hint, &[], &["libcupti.so.12"]);
        }
        check("CDLL(f'{root}/libcupti.so.12')", &[], &["{root}/libcupti.so.12"]);
        check("glob(d + '/libcupti.so*'); CDLL(x)", &[], &["/libcupti.so*"]);
        for silent in [
            "# CDLL('libcupti.so.12')",
            "NAMES = ('libcupti.so.12',)",
            "CDLL('libc.so.6')\nraise OSError('no libcupti.so here')",
            "CDLL('libc.so.6')\n\"\"\"About libcupti.so.\"\"\"",
        ] {
            check(silent, &[], &[]);
        }
    }

    fn texts_of(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }
}
