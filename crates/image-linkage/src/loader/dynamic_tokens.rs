//! Dynamic string tokens: `$ORIGIN`, `$LIB`, `$PLATFORM` (glibc elf/dl-load.c, `_dl_dst_substitute`).

/// What the tokens stand for in one object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DynamicTokens<'a> {
    /// The directory of the object, as the loader opened it; `None` where it is not known.
    pub origin: Option<&'a [u8]>,
    /// The directory that `$LIB` names.
    pub lib: &'a [u8],
    /// The processor that `$PLATFORM` names.
    pub platform: &'a [u8],
}

/// Expands the tokens of `text`. A token without a value drops the whole text: `None`. A `$` that begins no
/// known token stays as it is.
pub(crate) fn expand_tokens(text: &[u8], tokens: &DynamicTokens<'_>) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
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
            .find_map(|(name, value)| token_length(tail, name).map(|length| (length, value)))
        {
            Some((length, value)) => {
                out.extend_from_slice(value?);
                rest = tail.get(length..).unwrap_or_default();
            }
            None => out.push(b'$'),
        }
    }
    Some(out)
}

/// The length of the token `name` at the start of `text`, braces included;
/// an identifier that goes on is another token (`is_dst`).
fn token_length(text: &[u8], name: &[u8]) -> Option<usize> {
    let braced = text.first() == Some(&b'{');
    let inner = if braced { text.get(1..)? } else { text };
    let after = inner.strip_prefix(name)?.first();
    match after {
        Some(b'}') if braced => Some(name.len() + 2),
        // Without its brace right behind the name it is no token, but text.
        _ if braced => None,
        Some(byte) if byte.is_ascii_alphanumeric() || *byte == b'_' => None,
        _ => Some(name.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::{DynamicTokens, expand_tokens};

    fn check(text: &str, expected: Option<&str>) {
        let tokens = DynamicTokens {
            origin: Some(b"/opt/app/lib"),
            lib: b"lib/x86_64-linux-gnu",
            platform: b"x86_64",
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
        };
        assert_eq!(expand_tokens(b"$ORIGIN/x", &tokens), None);
        assert_eq!(expand_tokens(b"$LIB/x", &tokens).as_deref(), Some(b"lib/x".as_slice()));
    }
}
