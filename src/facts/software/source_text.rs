//! Finds the names that a Python module passes to ctypes, by reading its source.
//!
//! The reader separates code from comments and strings but does not evaluate it. A name in a call that the import runs
//! is opened as written. For any other string, the opened name cannot be determined statically.

use crate::knowledge::LibraryProfile;
use image_linkage::elf::ByteString;
use python_path::{OPENERS, SourceString, SourceWords, read_words};

/// The maximum number of names per module.
const NAMES: usize = 16;
/// The maximum number of strings to read per module.
const LOOKED_AT: usize = 64;

/// The names that a module opens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SourceText {
    /// Names in calls that the import runs, in order.
    pub exact: Vec<ByteString>,
    /// Strings that may become part of a name or be opened later.
    pub hints: Vec<ByteString>,
}

/// Reads a module; without a call that opens libraries the result is empty.
pub(crate) fn read_source(source: &[u8], library: &LibraryProfile) -> SourceText {
    let text = String::from_utf8_lossy(source);
    let mut found = SourceText::default();
    let mut calls = OPENERS.iter().map(|opener| opener.trim_end_matches('('));
    if !calls.any(|call| text.contains(call)) {
        return found;
    }
    let words = read_words(&text);
    let openers = openers_of(&words.code);
    if !openers.iter().any(|opener| words.code.contains(opener)) {
        return found;
    }
    let stem = library.file_stem();
    let mut asked = Vec::new();
    // A string that is a statement of its own is documentation.
    let named = words
        .strings
        .iter()
        .filter(|string| string.text.contains(stem) && !string.is_statement);
    for string in named
        .take(LOOKED_AT)
        .filter(|string| !is_of_other_system(&text, &words, string))
    {
        // Messages contain spaces; a string without any is a name or a part of one.
        let name = string.text;
        if name.contains(char::is_whitespace) || found.exact.len() + found.hints.len() >= NAMES {
            continue;
        }
        let file = name.rsplit('/').next().unwrap_or_default();
        let is_whole = library.is_exact_name(file.as_bytes()) && (file == name || name.starts_with('/'));
        let before = words.code.get(..string.start).unwrap_or_default().trim_end();
        if opens_only_mapped(&words, string) {
            asked.push(name.as_bytes().into());
            continue;
        }
        let is_given = openers.iter().any(|opener| ends_with_call(before, opener));
        let is_opened = is_given && runs_on_import(&words, string.line, !found.exact.is_empty())
            || is_tried_in_turn(&words, string, &openers);
        let list = if is_whole && string.is_plain && is_opened {
            &mut found.exact
        } else {
            &mut found.hints
        };
        list.push(name.as_bytes().into());
    }
    if found.exact.is_empty() && found.hints.is_empty() {
        found.hints = asked;
    }
    found
}

/// The maximum number of aliases for openers in one module, including the original names.
const RENAMED: usize = 16;
/// The first words of statements whose body always runs.
const PASSED: [&str; 3] = ["try:", "finally:", "with "];
/// Parts of a line that make it conditional or deferred.
const CONDITIONS: [&str; 5] = [" if ", " and ", " or ", "lambda", " for "];
/// The first words of statements whose body may not run.
const HEADS: [&str; 10] = [
    "if ", "elif ", "else", "for ", "while ", "def ", "class ", "async ", "match ", "except",
];
/// The expressions for the operating system, and the values for systems other than Linux.
const SYSTEM_NAMES: [&str; 3] = ["sys.platform", "os.name", "platform.system()"];
const OTHER_SYSTEMS: [&str; 6] = ["win32", "cygwin", "darwin", "Windows", "\"nt\"", "'nt'"];

/// Whether the call with this name only opens an already mapped object (dlopen(3), `RTLD_NOLOAD`, which is 4).
fn opens_only_mapped(words: &SourceWords<'_>, string: &SourceString<'_>) -> bool {
    let line = words.line(&words.code, string.line);
    let argument = line
        .split_once("mode")
        .and_then(|(_, rest)| rest.trim_start().strip_prefix('='));
    let mode = argument
        .and_then(|text| text.split([')', ',']).next())
        .unwrap_or_default();
    mode.contains("RTLD_NOLOAD") || mode.split('|').any(|bit| bit.trim() == "4")
}

/// Whether a statement certainly runs when its module is imported. An `except` body counts if the library may have been
/// opened under another name before.
fn runs_on_import(words: &SourceWords<'_>, number: usize, opens_before: bool) -> bool {
    let own = words.line(&words.code, number).trim_start();
    let is_conditional =
        CONDITIONS.iter().any(|word| own.contains(word)) || HEADS.iter().any(|head| own.starts_with(head));
    !is_conditional
        && words.heads(number).all(|head| {
            let line = words.line(&words.code, head).trim_start();
            always_runs(line) || line.starts_with("except") && opens_before
        })
}

/// Whether the body of the statement in this line always runs.
fn always_runs(line: &str) -> bool {
    PASSED.iter().any(|head| line.trim_start().starts_with(head))
}

/// The functions that open libraries, including aliases that the module defines.
fn openers_of(code: &str) -> Vec<String> {
    let mut openers: Vec<String> = OPENERS.iter().map(|opener| (*opener).to_owned()).collect();
    for line in code.lines().map(str::trim) {
        let imported = line
            .strip_prefix("from ctypes import ")
            .unwrap_or_default()
            .split(',')
            .filter_map(|part| part.trim_matches(['(', ')', ' ']).split_once(" as "));
        let assigned = line
            .split_once('=')
            .map(|(name, value)| (value.rsplit('.').next().unwrap_or(value), name));
        let renamed = imported.chain(assigned).filter(|(name, _)| {
            let mut openers = OPENERS.iter().map(|opener| opener.trim_end_matches('('));
            openers.any(|opener| opener == name.trim())
        });
        let more = renamed.take(RENAMED.saturating_sub(openers.len()));
        openers.extend(more.map(|(_, name)| format!("{}(", name.trim())));
    }
    openers
}

/// Whether the text ends with the start of this call, rather than of a longer name.
fn ends_with_call(before: &str, opener: &str) -> bool {
    let rest = before.strip_suffix(opener);
    rest.is_some_and(|rest| !rest.ends_with(|sign: char| sign == '_' || sign.is_alphanumeric()))
}

/// Whether a loop over strings tries each one: `for name in ("libcupti.so",): try: CDLL(name)`.
fn is_tried_in_turn(words: &SourceWords<'_>, string: &SourceString<'_>, openers: &[String]) -> bool {
    let head = words.line(&words.code, string.line);
    let parts = head
        .trim_start()
        .strip_prefix("for ")
        .and_then(|rest| rest.split_once(" in "));
    let Some((name, _)) = parts.filter(|(_, list)| list.chars().all(|sign| "()[],: \n".contains(sign))) else {
        return false;
    };
    let calls: Vec<String> = openers.iter().map(|opener| format!("{opener}{name}")).collect();
    let mut lines = words.numbers_from(string.line + 1);
    let Some(call) = lines.find(|number| is_called(words.line(&words.code, *number), &calls)) else {
        return false;
    };
    // The loop only continues with the next name if it catches the failure.
    let mut heads = words.heads(call).take_while(|head| *head > string.line).peekable();
    heads.peek().is_some()
        && heads
            .chain(words.heads(string.line))
            .all(|head| always_runs(words.line(&words.code, head)))
        && words.heads(call).any(|head| head == string.line)
}

/// Whether a line contains one of these calls with the name as its whole argument.
fn is_called(line: &str, calls: &[String]) -> bool {
    calls.iter().any(|call| {
        let rest = line.split_once(call.as_str());
        rest.is_some_and(|(_, rest)| rest.trim_start().starts_with([')', ',']))
    })
}

/// Whether a statement is only for systems other than Linux.
fn is_of_other_system(text: &str, words: &SourceWords<'_>, string: &SourceString<'_>) -> bool {
    let mut lines = std::iter::once(string.line).chain(words.heads(string.line));
    lines.any(|number| {
        let line = words.line(text, number).trim_start();
        let is_if = line.starts_with("if ") || line.starts_with("elif ");
        let names_system = SYSTEM_NAMES.iter().any(|name| line.contains(name));
        let is_negated = line.contains("!=") || line.contains(" not ");
        is_if
            && names_system
            && !is_negated
            && OTHER_SYSTEMS.iter().any(|name| line.contains(name))
            && !line.contains("linux")
    })
}

#[cfg(test)]
mod tests {
    use super::read_source;
    use crate::knowledge::Knowledge;

    fn check(source: &str, exact: &[&str], hints: &[&str]) {
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
    }

    #[test]
    fn a_name_in_the_call_is_opened() {
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
            "try:\n  CDLL('libcupti.so.12', mode=4)\nexcept OSError:\n  CDLL('libcupti.so.12')\nCDLL('libcupti.so')",
            &["libcupti.so"],
            &["libcupti.so.12"],
        );
        check(
            "CDLL('libcupti.so.13')\nCDLL('libcupti.so.12')",
            &["libcupti.so.13", "libcupti.so.12"],
            &[],
        );
        check(
            "try:\n    CDLL('libcupti.so.13')\nexcept OSError:\n    CDLL('libcupti.so')\n",
            &["libcupti.so.13", "libcupti.so"],
            &[],
        );
        for source in [
            "for name in ('libcupti.so.12', 'libcupti.so'):\n    try:\n        CDLL(name)\n        break\n    except OSError:\n        pass",
            "from ctypes import CDLL as L, c_int\nfor n in ['libcupti.so.12', 'libcupti.so']:\n    try: pass\n    finally: pass\n    try:\n        x = L(n, 1)\n    except OSError: pass",
            "load = ctypes.CDLL\nload('libcupti.so.12')\nload('libcupti.so')",
        ] {
            check(source, &["libcupti.so.12", "libcupti.so"], &[]);
        }
    }

    #[test]
    fn of_other_names_only_a_run_could_tell() {
        for hint in [
            "def load():\n    return CDLL('libcupti.so.12')",
            "class A:\n    def f(self):\n        '''Text.'''\n        with lock:\n            CDLL(\n'libcupti.so.12')",
            "if __name__ == '__main__':\n    CDLL('libcupti.so.12')",
            "try:\n    import torch\nexcept ImportError:\n    CDLL('libcupti.so.12')",
            "LIB = CDLL('libcupti.so.12') if GPU else None",
            "load = lambda: CDLL('libcupti.so.12')",
            "if sys.platform != 'win32':\n    CDLL('libcupti.so.12')",
            "CDLL(os.path.join(root, 'libcupti.so.12'))",
            "CDLL('libcupti.so.12', mode=4)",
            "CDLL('libcupti.so.12', mode=os.RTLD_NOLOAD | os.RTLD_NOW)",
            "for name in ('libcupti.so.12',):\n    CDLL(name)",
            "for name in ('libcupti.so.12', other):\n    try:\n        CDLL(name)\n    except OSError: pass",
            "for name in ('libcupti.so.12',):\n    try:\n        if GPU:\n            CDLL(name)\n    except OSError: pass",
            "from ctypes import CDLL as L\nXL('libcupti.so.12')",
        ] {
            check(hint, &[], &["libcupti.so.12"]);
        }
        check("CDLL(f'{root}/libcupti.so.12')", &[], &["{root}/libcupti.so.12"]);
        check("glob(d + '/libcupti.so*'); CDLL(x)", &[], &["/libcupti.so*"]);
    }

    #[test]
    fn what_is_not_run_says_nothing() {
        for silent in [
            "# CDLL('libcupti.so.12')",
            "NAMES = ('libcupti.so.12',)",
            "CDLL('libc.so.6')\nraise OSError('no libcupti.so here')",
            "CDLL('libc.so.6')\n\"\"\"About libcupti.so.\"\"\"",
            "\"\"\"Use it so:\n\n    CDLL('libcupti.so.12')\n\"\"\"\n",
            "def f():\n    r'''CDLL(\"libcupti.so.12\")'''\n    CDLL('libc.so.6')",
            "x = 1  # CDLL('libcupti.so.12')",
            "if sys.platform == 'win32':\n    CDLL('libcupti.so.12')",
            "if os.name == \"nt\": CDLL('libcupti.so.12')",
        ] {
            check(silent, &[], &[]);
        }
    }

    fn texts_of(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }
}
