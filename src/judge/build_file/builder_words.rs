//! Words and variables as a builder reads them outside of RUN (`frontend/dockerfile/shell/lex.go` of `moby/buildkit`).

use std::collections::BTreeMap;

/// Variables and their values.
pub(super) type Variables = BTreeMap<String, String>;

/// A word that announces a here-document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HereWord {
    /// Its name without quotes.
    pub name: String,
    /// Whether it is written with `<<-`.
    pub strips_tabs: bool,
}

/// The words with `--` in front of the arguments, and the bytes up to the first other word.
pub(super) fn read_flags(text: &str, escape: char) -> (Vec<String>, usize) {
    let mut flags = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let at = text.len() - rest.len();
        if !rest.starts_with("--") {
            return (flags, at);
        }
        let length = raw_words(rest, escape).next().map_or(rest.len(), str::len);
        let (word, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
        if word == "--" {
            return (flags, at + 2);
        }
        flags.push(unquote(word, escape));
        rest = behind;
    }
}

/// The words of a text with their quotes. A quote without an end reaches to the end of the text.
pub(super) fn raw_words(text: &str, escape: char) -> impl Iterator<Item = &str> {
    let mut rest = text.trim_start();
    std::iter::from_fn(move || {
        let mut quote = None;
        let mut letters = rest.char_indices();
        let mut end = rest.len();
        while let Some((at, letter)) = letters.next() {
            match quote {
                None if letter.is_whitespace() => {
                    end = at;
                    break;
                }
                None if matches!(letter, '\'' | '"') => quote = Some(letter),
                Some(open) if letter == open => quote = None,
                _ if letter == escape && quote != Some('\'') => drop(letters.next()),
                _ => {}
            }
        }
        let (word, behind) = rest.split_at_checked(end)?;
        rest = behind.trim_start();
        (!word.is_empty()).then_some(word)
    })
}

/// The here-documents that a line announces, in order.
pub(super) fn here_words(line: &str) -> Vec<HereWord> {
    // Names are not subject to the escape directive.
    let mut words = raw_words(line, '\\');
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let word = word.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let Some(rest) = word.strip_prefix("<<") else { continue };
        let (strips_tabs, name) = match rest.strip_prefix('-') {
            Some(name) => (true, name),
            // The blanks behind `<<` belong to the next word.
            None if rest.is_empty() => (false, words.next().unwrap_or_default()),
            None => (false, rest),
        };
        if !name.is_empty() && !name.contains('<') {
            let name = unquote(name, '\\');
            found.push(HereWord { name, strips_tabs });
        }
    }
    found
}

/// A word without its quotes.
pub(super) fn unquote(word: &str, escape: char) -> String {
    let mut out = String::new();
    let mut quote = None;
    let mut letters = word.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if letter == open => quote = None,
            (None, _) if letter == escape => out.extend(letters.next()),
            (Some('"'), _) if letter == escape => {
                let next = letters.next_if(|next| matches!(next, '"' | '$') || *next == escape);
                out.push(next.unwrap_or(letter));
            }
            _ => out.push(letter),
        }
    }
    out
}

/// How many bytes expansion may add to a text. The longest search paths of images have a few hundred.
const GROWTH: usize = 2 << 10;

/// A word with the known variables filled in and its quotes removed. Unknown variables stay as written, so that nothing
/// depends on them.
pub(super) fn fill_word(word: &str, known: &Variables, escape: char) -> String {
    // Single quotes and an escape keep a variable as it is.
    let is_kept = word.contains('\'') || word.contains(&format!("{escape}$"));
    let filled = if is_kept {
        word.to_owned()
    } else {
        fill_variables(word, known)
    };
    unquote(&filled, escape)
}

fn ends_name(letter: char) -> bool {
    !letter.is_ascii_alphanumeric() && letter != '_'
}

/// Expands the known variables. Unknown ones stay as written.
pub(super) fn fill_variables(text: &str, known: &Variables) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let (written, behind) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((inner, behind)) => (inner, behind),
            None => after.split_at(after.find(ends_name).unwrap_or(after.len())),
        };
        let name = written.split(ends_name).next().unwrap_or_default();
        let operand = written.get(name.len()..).unwrap_or_default();
        let own = known.get(name).map(String::as_str);
        let replaced = own.and_then(|own| replace_text(own, operand));
        let value = match operand.split_at_checked(2).unwrap_or((operand, "")) {
            ("", _) => own,
            (":-", default) => own.filter(|own| !own.is_empty()).or(Some(default)),
            (":+", other) => own.map(|own| if own.is_empty() { "" } else { other }),
            _ => replaced.as_deref(),
        };
        if let Some(value) = value.filter(|_| !name.is_empty()) {
            out.push_str(value);
            // `ARG A=$A$A` doubles the value, and a pull request's file may repeat it sixty times.
            if out.len() > text.len() + GROWTH {
                return text.to_owned();
            }
        } else {
            out.push('$');
            out.push_str(after.strip_suffix(behind).unwrap_or(after));
        }
        rest = behind;
    }
    out + rest
}

/// A value after `/TEXT/OTHER` or `//TEXT/OTHER`, without wildcards.
fn replace_text(value: &str, operand: &str) -> Option<String> {
    let operand = operand.strip_prefix('/')?;
    let (text, is_all) = operand.strip_prefix('/').map_or((operand, false), |text| (text, true));
    let (text, other) = text.split_once('/')?;
    let is_plain = !text.is_empty() && !text.contains(['*', '?', '[', '\\', '$', '#', '%']);
    is_plain.then(|| {
        if is_all {
            value.replace(text, other)
        } else {
            value.replacen(text, other, 1)
        }
    })
}

/// The variables of an ARG or ENV: `NAME=VALUE …`, or `NAME VALUE`.
pub(super) fn assignments(text: &str, known: &Variables, escape: char) -> Variables {
    let words: Vec<&str> = raw_words(text, escape).collect();
    if let [name, ..] = words.as_slice()
        && !name.contains('=')
    {
        let value = text.trim().strip_prefix(name).unwrap_or_default().trim();
        let has_value = !value.is_empty();
        return has_value
            .then(|| ((*name).to_owned(), fill_word(value, known, escape)))
            .into_iter()
            .collect();
    }
    let pairs = words.iter().filter_map(|word| word.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), fill_word(value, known, escape)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Variables, assignments, fill_variables, fill_word};

    #[test]
    fn which_variables_are_filled_in() {
        let known = Variables::from([("CUDA".to_owned(), "12.4".to_owned())]);
        for (text, filled) in [
            ("nvidia/cuda:${CUDA}.1-devel", "nvidia/cuda:12.4.1-devel"),
            ("$CUDA/$OTHER", "12.4/$OTHER"),
            ("${OTHER:-x}${NEXT}", "x${NEXT}"),
            ("a${CUDA:+:b}${OTHER:+:b}", "a:b${OTHER:+:b}"),
            ("cupti-${CUDA/./-}", "cupti-12-4"),
            ("a$", "a$"),
            ("${unclosed", "${unclosed"),
        ] {
            assert_eq!(fill_variables(text, &known), filled, "{text}");
        }
        for (word, filled) in [("'$CUDA'x", "$CUDAx"), ("\"$CUDA x\"", "12.4 x"), ("\\$CUDA", "$CUDA")] {
            assert_eq!(fill_word(word, &known, '\\'), filled, "{word}");
        }
    }

    #[test]
    fn y_10_variables_that_double_end_as_they_are_written() {
        let double = |before: &Variables| assignments("A=$A$A", before, '\\');
        let first = Variables::from([("A".to_owned(), "x".to_owned())]);
        let values = std::iter::successors(Some(first), |before| Some(double(before)));
        let lengths: Vec<usize> = values.take(64).map(|values| values["A"].len()).collect();
        assert_eq!((lengths[5], lengths[12]), (32, 4), "{lengths:?}");
        assert!(lengths.iter().all(|length| *length <= 1 << 12));
    }
}
