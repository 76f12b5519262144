//! Splits a Dockerfile into instructions, as the parser of `moby/buildkit` does (`frontend/dockerfile/parser`): comments,
//! continuation lines, flags, and the here-documents behind RUN, COPY and ADD.
//!
//! `testdata/build-files` has the answers of that parser.

use std::ops::Range;

use super::builder_words::{HereWord, here_words, read_flags};

/// An instruction, without its continuation lines and comments.
#[derive(Debug, Clone)]
pub(super) struct Instruction {
    /// The keyword in upper case.
    pub keyword: String,
    /// The words such as `--from=build`, without their quotes.
    pub flags: Vec<String>,
    /// The text behind the keyword and the flags.
    pub arguments: String,
    pub documents: Vec<HereDocument>,
    /// The bytes of the file from the keyword to the end of the last line.
    pub span: Range<usize>,
    /// The first line, counted from 1.
    pub line: usize,
}

/// A here-document.
#[derive(Debug, Clone)]
pub(super) struct HereDocument {
    /// Its name without quotes. The line that ends it is this name.
    pub name: String,
    /// The lines, without leading tabs if it is written with `<<-`.
    pub body: String,
    /// The lines as written.
    pub raw: String,
}

/// A syntax error and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub line: usize,
    pub what: &'static str,
}

/// The instructions of a file, and its escape character.
pub(super) struct BuildFileText {
    pub instructions: Vec<Instruction>,
    pub escape: char,
}

/// A line of the file.
#[derive(Clone, Copy)]
struct FileLine<'t> {
    /// With its line end.
    text: &'t str,
    /// Its first byte in the file.
    start: usize,
    /// Counted from 1.
    number: usize,
}

impl<'t> FileLine<'t> {
    fn content(self) -> &'t str {
        self.text.trim_end_matches(['\r', '\n'])
    }

    fn is_comment(self) -> bool {
        self.text.trim_start().starts_with('#')
    }
}

/// Splits the text of a Dockerfile.
pub(super) fn read_instructions(text: &str) -> Result<BuildFileText, SyntaxError> {
    let text_start = text.len() - text.trim_start_matches('\u{feff}').len();
    let mut start = 0;
    let mut lines = text.split_inclusive('\n').enumerate().map(|(index, line)| {
        let before = start;
        start += line.len();
        let skipped = if index == 0 { text_start } else { 0 };
        FileLine {
            text: line.get(skipped..).unwrap_or_default(),
            start: before + skipped,
            number: index + 1,
        }
    });
    let escape = escape_character(text);
    let mut instructions = Vec::new();
    while let Some(line) = lines.next() {
        if line.is_comment() || line.content().trim().is_empty() {
            continue;
        }
        let first = line.content().trim_start();
        let mut joined = String::new();
        let mut last = line;
        let start = line.start + (line.content().len() - first.len());
        let mut is_continued = push_line(&mut joined, first, escape);
        while is_continued && let Some(line) = lines.next() {
            last = line;
            if !line.is_comment() && !line.content().trim().is_empty() {
                is_continued = push_line(&mut joined, line.content(), escape);
            }
        }
        if joined.trim().is_empty() {
            continue;
        }
        let mut instruction = split_instruction(&joined, (line.number, start), escape);
        for word in instruction.here_words(&joined, escape) {
            instruction
                .documents
                .push(read_document(&word, &mut lines, &mut last).ok_or(SyntaxError {
                    line: line.number,
                    what: "a here-document has no end",
                })?);
        }
        instruction.span.end = last.start + last.content().len();
        instructions.push(instruction);
    }
    Ok(BuildFileText { instructions, escape })
}

/// Adds a line without its continuation character. Whether it has one.
fn push_line(joined: &mut String, line: &str, escape: char) -> bool {
    let before = line
        .trim_end_matches([' ', '\t'])
        .strip_suffix(escape)
        // An escaped escape character continues nothing.
        .filter(|before| !before.ends_with(escape));
    joined.push_str(before.unwrap_or(line));
    before.is_some()
}

fn split_instruction(joined: &str, (line, start): (usize, usize), escape: char) -> Instruction {
    let text = joined.trim_end();
    let keyword_end = text.find(char::is_whitespace).unwrap_or(text.len());
    let keyword = text.get(..keyword_end).unwrap_or_default().to_uppercase();
    let (flags, read) = read_flags(text.get(keyword_end..).unwrap_or_default(), escape);
    Instruction {
        keyword,
        flags,
        arguments: text.get(keyword_end + read..).unwrap_or_default().trim().to_owned(),
        documents: Vec::new(),
        span: start..start,
        line,
    }
}

/// Reads the lines of a here-document; `None` if the file ends first.
fn read_document<'t>(
    word: &HereWord,
    lines: &mut impl Iterator<Item = FileLine<'t>>,
    last: &mut FileLine<'t>,
) -> Option<HereDocument> {
    let mut body = String::new();
    let mut raw = String::new();
    loop {
        let line = lines.next()?;
        *last = line;
        let kept = if word.strips_tabs {
            line.text.trim_start_matches('\t')
        } else {
            line.text
        };
        if kept.trim_end_matches(['\r', '\n']) == word.name {
            let name = word.name.clone();
            return Some(HereDocument { name, body, raw });
        }
        raw.push_str(line.text);
        body.push_str(kept);
    }
}

impl Instruction {
    /// The instruction that an ONBUILD holds.
    fn trigger(&self, escape: char) -> Option<Self> {
        let is_trigger = self.keyword == "ONBUILD" && !self.arguments.is_empty();
        is_trigger.then(|| Self {
            documents: self.documents.clone(),
            span: self.span.clone(),
            ..split_instruction(&self.arguments, (self.line, self.span.start), escape)
        })
    }

    /// The words of the JSON form; `None` if it is in shell form.
    pub(super) fn json_words(&self) -> Option<Vec<String>> {
        serde_json::from_str(&self.arguments).ok()
    }

    /// The here-documents that the line announces.
    fn here_words(&self, line: &str, escape: char) -> Vec<HereWord> {
        let trigger = self.trigger(escape);
        let real = trigger.as_ref().unwrap_or(self);
        let may_have = matches!(&*real.keyword, "RUN" | "COPY" | "ADD") && line.contains("<<");
        if may_have && real.json_words().is_none() {
            here_words(line)
        } else {
            Vec::new()
        }
    }

    /// The value of a flag.
    pub(super) fn flag(&self, name: &str) -> Option<&str> {
        let mut values = self
            .flags
            .iter()
            .filter_map(|flag| flag.strip_prefix("--")?.split_once('='));
        values.find_map(|(own, value)| (own == name).then_some(value))
    }
}

/// The character of the parser directive `# escape=X`, which may stand in front of everything else.
fn escape_character(text: &str) -> char {
    let lines = text.trim_start_matches('\u{feff}').lines();
    let mut directives = lines
        .map_while(|line| line.trim_start().strip_prefix('#')?.split_once('='))
        .map(|(name, value)| (name.trim().to_lowercase(), value.trim()))
        .take_while(|(name, _)| matches!(&**name, "syntax" | "escape" | "check"));
    let is_backtick = directives.any(|(name, value)| name == "escape" && value == "`");
    if is_backtick { '`' } else { '\\' }
}
