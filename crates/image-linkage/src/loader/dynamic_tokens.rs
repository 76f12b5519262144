//! Dynamic string tokens: `$ORIGIN`, `$LIB`, `$PLATFORM` (glibc elf/dl-load.c, `_dl_dst_substitute`).

use crate::elf::ByteString;
use crate::path::RootPath;
use crate::rootfs::PATH;

/// The token values for one object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DynamicTokens<'a> {
    /// The directory of the object as the loader opened it; `None` if unknown.
    pub origin: Option<&'a [u8]>,
    /// The value of `$LIB`.
    pub lib: &'a [u8],
    /// The value of `$PLATFORM`.
    pub platform: &'a [u8],
    /// The places at which `$ORIGIN` is allowed.
    pub trusted: OriginTrust<'a>,
}

/// The positions at which `$ORIGIN` is allowed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OriginTrust<'a> {
    /// Anywhere.
    All,
    /// Only as the first component: libraries in secure-execution mode.
    AtStart,
    /// Only as the first component and if the result is below one of these directories: the program in secure-execution
    /// mode.
    Below(&'a [ByteString]),
}

/// Expands the tokens of `text`. A token without a value drops the whole text (`None`). A `$` without a known token
/// stays.
pub(crate) fn expand_tokens(text: &[u8], tokens: &DynamicTokens<'_>) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    let mut has_origin = false;
    while let Some((&byte, tail)) = rest.split_first() {
        // No file has such a long path.
        if out.len() > PATH {
            out.truncate(PATH + 1);
            break;
        }
        rest = tail;
        if byte != b'$' {
            out.push(byte);
            continue;
        }
        let known = [
            (&b"ORIGIN"[..], tokens.origin),
            (b"PLATFORM", Some(tokens.platform)),
            (b"LIB", Some(tokens.lib)),
        ];
        match known
            .into_iter()
            .find_map(|(name, value)| token_length(tail, name).map(|length| (name, length, value)))
        {
            Some((name, length, value)) => {
                rest = tail.get(length..).unwrap_or_default();
                if name == b"ORIGIN" {
                    has_origin = true;
                    let is_start = tail.len() + 1 == text.len() && matches!(rest.first(), None | Some(b'/'));
                    if !is_start && !matches!(tokens.trusted, OriginTrust::All) {
                        return None;
                    }
                }
                out.extend_from_slice(value?);
            }
            None => out.push(b'$'),
        }
    }
    match tokens.trusted {
        OriginTrust::Below(directories) if has_origin && !is_below(&out, directories) => None,
        _ => Some(out),
    }
}

/// Whether `text` contains a known token.
pub(crate) fn has_token(text: &[u8]) -> bool {
    let mut tails = (0..text.len()).filter_map(|at| text.get(at..)?.strip_prefix(b"$"));
    tails.any(|tail| {
        let names: [&[u8]; 3] = [b"ORIGIN", b"PLATFORM", b"LIB"];
        names.iter().any(|name| token_length(tail, name).is_some())
    })
}

/// Whether the normalized path is below one of the directories (`is_trusted_path_normalize`).
fn is_below(path: &[u8], directories: &[ByteString]) -> bool {
    let path = [RootPath::new(path).absolute(), b"/".to_vec()].concat();
    directories.iter().any(|directory| path.starts_with(directory))
}

/// The length of the token `name` at the start of `text`, including braces. A longer identifier is a different token
/// (`is_dst`).
fn token_length(text: &[u8], name: &[u8]) -> Option<usize> {
    let braced = text.first() == Some(&b'{');
    let inner = if braced { text.get(1..)? } else { text };
    let after = inner.strip_prefix(name)?.first();
    match after {
        Some(b'}') if braced => Some(name.len() + 2),
        // Without a closing brace right after the name it is plain text.
        _ if braced => None,
        Some(byte) if byte.is_ascii_alphanumeric() || *byte == b'_' => None,
        _ => Some(name.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::{DynamicTokens, OriginTrust, expand_tokens};

    fn check(text: &str, expected: Option<&str>) {
        let tokens = DynamicTokens {
            origin: Some(b"/opt/app/lib"),
            lib: b"lib/x86_64-linux-gnu",
            platform: b"x86_64",
            trusted: OriginTrust::All,
        };
        assert_eq!(
            expand_tokens(text.as_bytes(), &tokens)
                .map(|text| String::from_utf8(text).unwrap())
                .as_deref(),
            expected,
            "{text}"
        );
    }

    #[test]
    fn known_tokens_are_expanded_and_others_stay() {
        check("$ORIGIN/../x", Some("/opt/app/lib/../x"));
        check("${ORIGIN}/$LIB", Some("/opt/app/lib/lib/x86_64-linux-gnu"));
        check("/a/${PLATFORM}", Some("/a/x86_64"));
        check("/a/$PLATFORM/$", Some("/a/x86_64/$"));
        check("$ORIGINAL/x", Some("$ORIGINAL/x"));
        check("${ORIGIN", Some("${ORIGIN"));
        check("$FOO/$LIB", Some("$FOO/lib/x86_64-linux-gnu"));
    }

    #[test]
    fn a_token_without_value_drops_the_text() {
        let tokens = DynamicTokens {
            origin: None,
            lib: b"lib",
            platform: b"x",
            trusted: OriginTrust::All,
        };
        assert_eq!(expand_tokens(b"$ORIGIN/x", &tokens), None);
        assert_eq!(expand_tokens(b"$LIB/x", &tokens).as_deref(), Some(b"lib/x".as_slice()));
    }

    #[test]
    fn secure_execution_allows_origin_only_at_the_start_and_in_trusted_directories() {
        let default = [b"/usr/lib/".as_slice().into(), b"/lib/".as_slice().into()];
        let check = |origin: &str, text: &str, library: bool, program: bool| {
            let counts = |trusted| {
                let origin = Some(origin.as_bytes());
                let tokens = DynamicTokens {
                    origin,
                    lib: b"lib",
                    platform: b"x",
                    trusted,
                };
                expand_tokens(text.as_bytes(), &tokens).is_some()
            };
            let found = (counts(OriginTrust::AtStart), counts(OriginTrust::Below(&default)));
            assert_eq!(found, (library, program), "{origin} {text}");
        };
        check("/opt/app", "$ORIGIN/../lib", true, false);
        check("/usr/bin", "$ORIGIN/../lib/app", true, true);
        check("/usr/bin", "${ORIGIN}/../lib", true, true);
        check("/usr/lib/app", "$ORIGIN", true, true);
        check("/usr/lib/app", "$ORIGIN/../../local", true, false);
        check("/usr/libexec", "$ORIGIN", true, false);
        check("/usr/lib/app", "$ORIGIN.d", false, false);
        check("/usr/lib/app", "/$ORIGIN", false, false);
        check("/usr/lib/app", "$LIB/$ORIGIN", false, false);
        check("/opt/app", "/opt/$LIB", true, true);
    }
}
