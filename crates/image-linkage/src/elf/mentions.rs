//! Strings in an object that hold a name somebody asked for: the evidence of a dlopen.
//!
//! A name that is opened at run time stands in the file as a string. The scanner sees every byte once, at
//! the speed of a vectorised search, and keeps the whole string around each hit.

use aho_corasick::AhoCorasick;

use super::facts::ByteString;

/// What to look for in objects.
#[derive(Clone)]
pub struct NameMatcher {
    /// The names, then the prefixes: what is searched in every byte of an object.
    needles: AhoCorasick,
    names: usize,
    /// The prefixes alone: what is searched in its string table.
    prefixes: AhoCorasick,
}

impl NameMatcher {
    /// Looks for strings that hold one of `names`, and for symbols that begin with one of `symbol_prefixes`.
    pub fn new<S: AsRef<[u8]>>(
        names: impl IntoIterator<Item = S>,
        symbol_prefixes: impl IntoIterator<Item = S>,
    ) -> Self {
        let mut needles: Vec<S> = names.into_iter().collect();
        let names = needles.len();
        // One automaton serves both, so that each byte of a large library is looked at once.
        needles.extend(symbol_prefixes);
        Self {
            needles: searcher(&needles),
            names,
            prefixes: searcher(needles.get(names..).unwrap_or_default()),
        }
    }

    /// Where in `bytes` a symbol may begin that was asked for.
    pub(super) fn symbol_starts(&self, bytes: &[u8]) -> impl Iterator<Item = usize> {
        self.prefixes.find_iter(bytes).map(|hit| hit.start())
    }
}

impl Default for NameMatcher {
    /// A matcher that finds nothing in any object.
    fn default() -> Self {
        Self::new::<&str>([], [])
    }
}

fn searcher(needles: &[impl AsRef<[u8]>]) -> AhoCorasick {
    AhoCorasick::builder()
        // Names are listed before prefixes, and of two needles at one place the one listed first is the hit.
        .match_kind(aho_corasick::MatchKind::LeftmostFirst)
        .build(needles)
        .expect("a handful of short needles always builds")
}

/// The bytes kept around a hit, in each direction: a longer string is cut.
const REACH: usize = 256;
/// The strings kept of one object.
const STRINGS: usize = 512;

/// Scans an object chunk by chunk.
pub(crate) struct MentionScanner<'a> {
    interest: &'a NameMatcher,
    /// The end of what was scanned, kept so that a string over the edge of a chunk is whole.
    window: Vec<u8>,
    /// The offset in the file of the window's first byte.
    start: u64,
    /// The offset up to which hits have been taken.
    done: u64,
    found: Vec<(u64, ByteString)>,
    symbols: bool,
}

impl<'a> MentionScanner<'a> {
    /// A scanner at the start of an object.
    pub(crate) fn new(interest: &'a NameMatcher) -> Self {
        Self {
            interest,
            window: Vec::new(),
            start: 0,
            done: 0,
            found: Vec::new(),
            symbols: false,
        }
    }

    /// Takes the next bytes of the object.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.window.extend_from_slice(bytes);
        self.scan(REACH);
        // A hit waits for REACH bytes behind it, and its string may begin REACH bytes before it.
        let keep = self.window.len().min(2 * REACH);
        let cut = self.window.len() - keep;
        self.window.drain(..cut);
        self.start += cut as u64;
    }

    /// Whether anything was seen that may be a symbol with a wanted prefix.
    pub(crate) fn saw_symbols(&self) -> bool {
        self.symbols
    }

    /// The strings found, each with the offset of its hit, in the order of the file.
    pub(crate) fn finish(mut self) -> Vec<(u64, ByteString)> {
        // Nothing follows the last byte, so that hits near the end need not wait any longer.
        self.scan(0);
        self.found
    }

    /// Takes the hits that have at least `margin` bytes behind them.
    fn scan(&mut self, margin: usize) {
        let limit = self.window.len().saturating_sub(margin);
        for hit in self.interest.needles.find_iter(&self.window) {
            let offset = self.start + hit.start() as u64;
            // Set by a hit near the edge as well, which is seen again with the next bytes.
            self.symbols = true;
            if offset < self.done || hit.start() >= limit {
                continue;
            }
            if hit.pattern().as_usize() < self.interest.names && self.found.len() < STRINGS {
                self.found.push((offset, string_around(&self.window, hit.start())));
            }
        }
        self.done = self.done.max(self.start + limit as u64);
    }
}

/// The printable string that holds the byte at `at`.
fn string_around(bytes: &[u8], at: usize) -> ByteString {
    let (before, after) = bytes.split_at(at.min(bytes.len()));
    // Not to the next NUL: compilers put a name into an instruction, with other bytes close around it.
    let printable = |byte: &&u8| byte.is_ascii_graphic() || **byte == b' ';
    let left = before.iter().rev().take(REACH).take_while(printable).count();
    let right = after.iter().take(REACH).take_while(printable).count();
    bytes.get(at - left..at + right).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::{MentionScanner, NameMatcher};

    fn found(chunks: &[&[u8]]) -> (Vec<String>, bool) {
        let interest = NameMatcher::new(["libcupti.so"], ["cupti"]);
        let mut scanner = MentionScanner::new(&interest);
        for chunk in chunks {
            scanner.push(chunk);
        }
        let symbols = scanner.saw_symbols();
        (
            scanner
                .finish()
                .into_iter()
                .map(|(_, text)| String::from_utf8(text.to_vec()).unwrap())
                .collect(),
            symbols,
        )
    }

    #[test]
    fn the_whole_string_is_kept_wherever_the_chunks_end() {
        let bytes = [
            &[0_u8; 700][..],
            b"\0cannot load libcupti.so.%d\0",
            &[1; 700],
            b"\0libcupti.so\0",
        ]
        .concat();
        let whole = found(&[&bytes]).0;
        assert_eq!(whole, ["cannot load libcupti.so.%d", "libcupti.so"]);
        for size in [1, 7, 13, 300, 701, 710] {
            assert_eq!(
                found(&bytes.chunks(size).collect::<Vec<_>>()).0,
                whole,
                "chunks of {size}"
            );
        }
    }

    #[test]
    fn a_symbol_prefix_alone_is_no_mention() {
        assert_eq!(
            found(&[&[b"\0cuptiSubscribe\0".as_slice(), &[0; 600]].concat()]),
            (vec![], true)
        );
        assert_eq!(found(&[&[0; 2000]]), (vec![], false));
    }
}
