//! Finds strings that contain a requested name: the evidence of a dlopen.
//!
//! A name opened at run time is in the file as a string. For short strings, compilers may use instruction operands
//! instead. The scanner searches each byte once, with vectorized search, and keeps the whole string around each hit.

use std::collections::BTreeMap;

use aho_corasick::AhoCorasick;

use super::facts::ByteString;
use super::operands;

/// The names and symbol prefixes to search for.
#[derive(Clone)]
pub struct NameMatcher {
    /// One automaton for all needles: names, their first eight bytes, names in wide characters, and prefixes.
    needles: AhoCorasick,
    names: usize,
    words: usize,
    /// The needle numbers at which 2-byte names, 4-byte names, and prefixes begin.
    wide: [usize; 3],
    /// The names that contain a prefix. A hit of such a name hides the symbol's own hit.
    symbol_names: Vec<usize>,
    /// Only the prefixes, to search the string table.
    prefixes: AhoCorasick,
}

impl NameMatcher {
    /// Searches for strings that contain one of `names` and for symbols that begin with one of `symbol_prefixes`.
    pub fn new<S: AsRef<[u8]>>(
        names: impl IntoIterator<Item = S>,
        symbol_prefixes: impl IntoIterator<Item = S>,
    ) -> Self {
        let names: Vec<S> = names.into_iter().collect();
        let prefixes: Vec<S> = symbol_prefixes.into_iter().collect();
        let mut needles: Vec<&[u8]> = names.iter().map(AsRef::as_ref).collect();
        // An instruction operand holds at most eight bytes of a name.
        let words: Vec<&[u8]> = needles.iter().filter_map(|name| name.get(..operands::WORD)).collect();
        needles.extend(&words);
        let words_end = needles.len();
        // Short names suffice: every path contains the file extension.
        let short = needles
            .iter()
            .take(names.len())
            .filter(|name| name.len() < operands::WORD);
        let wide: Vec<Vec<u8>> = [2, 4]
            .iter()
            .flat_map(|&size| short.clone().map(move |name| widen(name, size)))
            .collect();
        let wide_starts = [words_end, words_end + wide.len() / 2, words_end + wide.len()];
        needles.extend(wide.iter().map(Vec::as_slice));
        // One automaton for all needles, so that each byte of a large library is searched once.
        needles.extend(prefixes.iter().map(AsRef::as_ref));
        let prefix_searcher = searcher(&prefixes);
        let numbered = names.iter().enumerate();
        let symbol_names = numbered.filter(|(_, name)| prefix_searcher.is_match(name.as_ref()));
        Self {
            needles: searcher(&needles),
            names: names.len(),
            words: words_end,
            wide: wide_starts,
            symbol_names: symbol_names.map(|(number, _)| number).collect(),
            prefixes: prefix_searcher,
        }
    }

    /// Whether a hit of this needle may be a requested symbol.
    fn may_be_symbol(&self, needle: usize) -> bool {
        let [.., prefixes] = self.wide;
        needle >= prefixes || self.symbol_names.contains(&needle)
    }

    /// Whether `bytes` contain a prefix.
    pub(crate) fn holds_prefix(&self, bytes: &[u8]) -> bool {
        self.prefixes.is_match(bytes)
    }

    /// The offset of the first name in a text.
    pub(super) fn name_start(&self, text: &[u8]) -> Option<usize> {
        let mut hits = self
            .needles
            .find_iter(text)
            .filter(|hit| hit.pattern().as_usize() < self.names);
        hits.next().map(|hit| hit.start())
    }

    /// The offsets in `bytes` where a requested symbol may begin.
    pub(super) fn symbol_starts(&self, bytes: &[u8]) -> impl Iterator<Item = usize> {
        self.prefixes.find_iter(bytes).map(|hit| hit.start())
    }
}

/// A text in little-endian characters of `size` bytes (UTF-16, UTF-32), without the last character's zero bytes.
fn widen(text: &[u8], size: usize) -> Vec<u8> {
    let mut wide: Vec<u8> = text
        .iter()
        .flat_map(|&byte| std::iter::once(byte).chain(std::iter::repeat_n(0, size - 1)))
        .collect();
    wide.truncate((text.len() * size).saturating_sub(size - 1));
    wide
}

impl Default for NameMatcher {
    /// A matcher that matches nothing.
    fn default() -> Self {
        Self::new::<&str>([], [])
    }
}

fn searcher(needles: &[impl AsRef<[u8]>]) -> AhoCorasick {
    AhoCorasick::builder()
        // At the same position the needle listed first wins, so names are listed before prefixes.
        .match_kind(aho_corasick::MatchKind::LeftmostFirst)
        // The prefilter skips nearly all bytes. Building a full DFA would take a tenth of a short run.
        .kind(Some(aho_corasick::AhoCorasickKind::ContiguousNFA))
        .build(needles)
        .expect("a handful of short needles always builds")
}

/// The bytes kept on each side of a hit. A longer string is kept as a fragment.
const REACH: usize = 256;
/// The bytes at the end of a chunk that are searched again with the next one.
const EDGE: usize = 2 * REACH;
/// The maximum strings, and fragments, kept of one object.
const STRINGS: usize = 512;
/// The maximum hits examined in one object.
const HITS: usize = 1 << 16;

/// The texts found by a scan, each with the offset of its hit, in file order.
#[derive(Default)]
pub(crate) struct FoundMentions {
    /// NUL-terminated strings, usable by dlopen(3).
    pub(crate) strings: Vec<(u64, ByteString)>,
    /// Fragments: parts of longer texts, and texts assembled from instruction operands.
    pub(crate) parts: Vec<(u64, ByteString)>,
    /// How often each text was found.
    same: BTreeMap<ByteString, usize>,
    hits: usize,
}

/// Scans an object in chunks.
pub(crate) struct MentionScanner<'a> {
    interest: &'a NameMatcher,
    /// The end of the previous chunk, so that a string across two chunks is found whole.
    tail: Vec<u8>,
    /// The number of bytes scanned.
    position: u64,
    /// The offset up to which hits were recorded.
    done: u64,
    found: FoundMentions,
    symbols: bool,
}

impl<'a> MentionScanner<'a> {
    /// A scanner at the start of an object.
    pub(crate) fn new(interest: &'a NameMatcher) -> Self {
        Self {
            interest,
            tail: Vec::new(),
            position: 0,
            done: 0,
            found: FoundMentions::default(),
            symbols: false,
        }
    }

    /// Scans the next bytes of the object.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        // A hit needs REACH bytes on both sides. Search the seam between two chunks in a copy, and everything else in
        // place.
        let mut edge = std::mem::take(&mut self.tail);
        let start = self.position - edge.len() as u64;
        edge.extend_from_slice(bytes.get(..EDGE).unwrap_or(bytes));
        self.scan(&edge, start, REACH);
        if let Some((_, tail)) = bytes.split_last_chunk::<EDGE>() {
            self.scan(bytes, self.position, REACH);
            edge.clear();
            edge.extend_from_slice(tail);
        } else {
            edge.drain(..edge.len().saturating_sub(EDGE));
        }
        self.tail = edge;
        self.position += bytes.len() as u64;
    }

    /// Whether a hit may be a symbol with a requested prefix.
    pub(crate) fn saw_symbols(&self) -> bool {
        self.symbols
    }

    /// The result for the whole object.
    pub(crate) fn finish(mut self) -> FoundMentions {
        // Nothing follows, so hits near the end need no margin.
        let tail = std::mem::take(&mut self.tail);
        self.scan(&tail, self.position - tail.len() as u64, 0);
        self.found
    }

    /// Records the hits in a window with at least `margin` bytes behind them. The window begins at file offset `start`.
    fn scan(&mut self, window: &[u8], start: u64, margin: usize) {
        let limit = window.len().saturating_sub(margin);
        for hit in self.interest.needles.find_iter(window) {
            let offset = start + hit.start() as u64;
            let needle = hit.pattern().as_usize();
            // Also for a hit in the margin, which is found again with the next chunk.
            self.symbols |= self.interest.may_be_symbol(needle);
            if offset < self.done || hit.start() >= limit {
                continue;
            }
            let [two, four, prefixes] = self.interest.wide;
            if needle < self.interest.words {
                let is_name = needle < self.interest.names;
                self.found.add(offset, window, hit.start(), is_name);
            } else if needle < prefixes {
                let size = if (two..four).contains(&needle) { 2 } else { 4 };
                self.found.add_wide(offset, window, hit.start(), size);
            }
        }
        self.done = self.done.max(start + limit as u64);
    }
}

impl FoundMentions {
    /// Records the text around a hit of a name, or of its first eight bytes.
    fn add(&mut self, offset: u64, window: &[u8], at: usize, is_name: bool) {
        self.hits += 1;
        if self.hits > HITS {
            return;
        }
        let (list, text) = if let Some(text) = operands::joined_text(window, at) {
            (&mut self.parts, text)
        } else if is_name {
            let (text, is_whole) = string_around(window, at);
            (if is_whole { &mut self.strings } else { &mut self.parts }, text)
        } else {
            return;
        };
        Self::keep(list, &mut self.same, offset, text);
    }

    /// Records the text around a hit in characters of `size` bytes, as a fragment: dlopen cannot use it directly.
    fn add_wide(&mut self, offset: u64, window: &[u8], at: usize, size: usize) {
        self.hits += 1;
        let (before, after) = window.split_at(at.min(window.len()));
        let left = before.rchunks_exact(size).take(REACH / size).map_while(wide_letter);
        let mut text: Vec<u8> = left.collect();
        text.reverse();
        text.extend(after.chunks_exact(size).take(REACH / size).map_while(wide_letter));
        if self.hits <= HITS {
            Self::keep(&mut self.parts, &mut self.same, offset, text.into());
        }
    }

    fn keep(list: &mut Vec<(u64, ByteString)>, seen: &mut BTreeMap<ByteString, usize>, offset: u64, text: ByteString) {
        // GPU code repeats its compiler's name in thousands of sections, which would fill the list. Keep two copies:
        // one of them may be in the string table, which is removed later.
        let same = seen.get(&text).copied().unwrap_or_default();
        if list.len() < STRINGS && same < 2 {
            seen.insert(text.clone(), same + 1);
            list.push((offset, text));
        }
    }
}

fn is_printable(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte == b' '
}

/// The printable letter that a unit of two or four bytes encodes, low byte first.
fn wide_letter(unit: &[u8]) -> Option<u8> {
    let (&byte, rest) = unit.split_first()?;
    (is_printable(byte) && rest.iter().all(|&byte| byte == 0)).then_some(byte)
}

/// The text around the byte at `at`, and whether it is a whole NUL-terminated string.
fn string_around(bytes: &[u8], at: usize) -> (ByteString, bool) {
    let (before, after) = bytes.split_at(at.min(bytes.len()));
    let near = before.iter().rev().take(REACH);
    let left = near.take_while(|byte| is_printable(**byte) || !byte.is_ascii()).count();
    let right = after.iter().take(REACH).take_while(|byte| is_printable(**byte)).count();
    let run = bytes.get(at - left..at + right).unwrap_or_default();
    // Directory names may be non-ASCII. Skip leading bytes that are not ASCII: they belong to whatever precedes the
    // string, even if they happen to decode as a letter.
    let valid = run.utf8_chunks().last().map_or("", |chunk| chunk.valid());
    let text = valid.trim_start_matches(|letter: char| !letter.is_ascii());
    let is_whole = left < REACH && after.get(right) == Some(&0);
    (text.as_bytes().into(), is_whole)
}

#[cfg(test)]
mod tests {
    use super::{MentionScanner, NameMatcher};

    /// Strings, fragments, and whether a symbol was seen.
    fn found(chunks: &[&[u8]]) -> (Vec<String>, Vec<String>, bool) {
        let interest = NameMatcher::new(["libcupti.so"], ["cupti"]);
        let mut scanner = MentionScanner::new(&interest);
        for chunk in chunks {
            scanner.push(chunk);
        }
        let symbols = scanner.saw_symbols();
        let found = scanner.finish();
        let texts = |list: Vec<(u64, super::ByteString)>| {
            let texts = list.into_iter();
            texts
                .map(|(_, text)| String::from_utf8(text.to_vec()).unwrap())
                .collect()
        };
        (texts(found.strings), texts(found.parts), symbols)
    }

    #[test]
    fn whole_strings_are_found_across_chunks() {
        let bytes = [
            &[0_u8; 700][..],
            b"\0cannot load libcupti.so.%d\0",
            &[1; 700],
            b"\0libcupti.so\0\x48\xb8libcupti\xc7\x00i.so",
            &[0; 700],
            b"/opt/\xc3\xa9/libcupti.so.12\0\xff/opt/libcupti.so.13\0libcupti.so.14\nlibcupti.so.15",
        ]
        .concat();
        let (whole, parts, _) = found(&[&bytes]);
        let strings = [
            "cannot load libcupti.so.%d",
            "libcupti.so",
            "/opt/é/libcupti.so.12",
            "/opt/libcupti.so.13",
        ];
        assert_eq!(whole, strings);
        assert_eq!(parts, ["libcupti.so", "libcupti.so.14", "libcupti.so.15"]);
        for size in [1, 7, 13, 300, 701, 710, 1024] {
            let chunks = found(&bytes.chunks(size).collect::<Vec<_>>());
            assert_eq!((&chunks.0, &chunks.1), (&whole, &parts), "chunks of {size}");
        }
    }

    #[test]
    fn a_path_in_wide_characters_is_a_fragment() {
        let interest = NameMatcher::new([".so", "libcupti.so"], ["cupti"]);
        for size in [2, 4] {
            let wide = b"\0/opt/c/libx.so.1\0".iter();
            let wide = wide.flat_map(|&byte| std::iter::once(byte).chain(std::iter::repeat_n(0, size - 1)));
            let bytes = [vec![1; 700], wide.collect()].concat();
            for chunk in [1, 13, 701, 2000] {
                let mut scanner = MentionScanner::new(&interest);
                bytes.chunks(chunk).for_each(|bytes| scanner.push(bytes));
                let found = scanner.finish();
                let parts: Vec<&[u8]> = found.parts.iter().map(|(_, text)| &**text).collect();
                assert_eq!(
                    (found.strings.len(), parts),
                    (0, vec![&b"/opt/c/libx.so.1"[..]]),
                    "{size} {chunk}"
                );
            }
        }
    }

    #[test]
    fn a_string_longer_than_reach_is_a_fragment() {
        let long = [&b"/".repeat(super::REACH)[..], b"libcupti.so\0"].concat();
        let (strings, parts, _) = found(&[&long]);
        assert_eq!((strings.len(), parts.len()), (0, 1));
        let (strings, parts, _) = found(&[&long[1..]]);
        assert_eq!((strings.len(), parts.len()), (1, 0));
    }

    #[test]
    fn a_symbol_prefix_is_not_a_mention() {
        assert_eq!(
            found(&[&[b"\0cuptiSubscribe\0".as_slice(), &[0; 600]].concat()]),
            (vec![], vec![], true)
        );
        // The first eight bytes count only as an instruction operand.
        assert_eq!(found(&[b"\0libcupti_static.a\0"]), (vec![], vec![], false));
        assert_eq!(found(&[&[0; 2000]]), (vec![], vec![], false));
    }
}
