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
    pub arguments: JoinedText,
    pub documents: Vec<HereDocument>,
    /// The bytes of the file from the keyword to the end of the last line.
    pub span: Range<usize>,
    /// The first line, counted from 1.
    pub line: usize,
}

/// Text that was joined from several lines, with its origin in the file.
#[derive(Debug, Clone, Default)]
pub(super) struct JoinedText {
    pub text: String,
    /// The offset of each part in `text`, and in the file.
    origins: Vec<(usize, usize)>,
}

/// A here-document.
#[derive(Debug, Clone)]
pub(super) struct HereDocument {
    /// Its name without quotes. The line that ends it is this name.
    pub name: String,
    /// The lines, without leading tabs if it is written with `<<-`.
    pub body: JoinedText,
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

impl JoinedText {
    /// Text that is not in the file as it is.
    pub(super) fn computed(text: String) -> Self {
        Self {
            text,
            origins: Vec::new(),
        }
    }

    fn push(&mut self, text: &str, origin: usize) {
        self.origins.push((self.text.len(), origin));
        self.text.push_str(text);
    }

    /// The bytes of the file that a range of the text comes from.
    pub(super) fn origin(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let place = |at: usize| {
            let before = self.origins.partition_point(|(own, _)| *own <= at).checked_sub(1)?;
            let (own, file) = self.origins.get(before)?;
            Some(file + (at - own))
        };
        let last = range.end.checked_sub(1)?;
        Some(place(range.start)?..place(last)? + 1)
    }

    /// The text behind byte `start`, without blanks around it.
    fn trimmed_from(&self, start: usize) -> Self {
        let rest = self.text.get(start..).unwrap_or_default();
        let start = self.text.len() - rest.trim_start().len();
        let text = rest.trim().to_owned();
        let origins = self.origins.iter().rev();
        let mut moved: Vec<(usize, usize)> = Vec::new();
        for (own, file) in origins {
            let Some(own) = own.checked_sub(start) else {
                moved.push((0, file + (start - own)));
                break;
            };
            moved.push((own, *file));
        }
        moved.reverse();
        Self { text, origins: moved }
    }
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
        let mut joined = JoinedText::default();
        let mut last = line;
        let mut is_continued = push_line(
            &mut joined,
            first,
            line.start + (line.content().len() - first.len()),
            escape,
        );
        while is_continued && let Some(line) = lines.next() {
            last = line;
            if !line.is_comment() && !line.content().trim().is_empty() {
                is_continued = push_line(&mut joined, line.content(), line.start, escape);
            }
        }
        if joined.text.trim().is_empty() {
            continue;
        }
        let mut instruction = split_instruction(&joined, line.number, escape);
        for word in instruction.here_words(&joined.text, escape) {
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
fn push_line(joined: &mut JoinedText, line: &str, origin: usize, escape: char) -> bool {
    let before = line.trim_end_matches([' ', '\t']).strip_suffix(escape);
    // An escaped escape character continues nothing.
    let before = before.filter(|before| !before.ends_with(escape));
    joined.push(before.unwrap_or(line), origin);
    before.is_some()
}

fn split_instruction(joined: &JoinedText, line: usize, escape: char) -> Instruction {
    let text = joined.text.trim_end();
    let keyword_end = text.find(char::is_whitespace).unwrap_or(text.len());
    let keyword = text.get(..keyword_end).unwrap_or_default().to_uppercase();
    let (flags, read) = read_flags(text.get(keyword_end..).unwrap_or_default(), escape);
    let start = joined.origin(&(0..1)).map_or(0, |range| range.start);
    Instruction {
        keyword,
        flags,
        arguments: joined.trimmed_from(keyword_end + read),
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
    let mut body = JoinedText::default();
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
        body.push(kept, line.start + (line.text.len() - kept.len()));
    }
}

impl Instruction {
    /// The instruction that an ONBUILD holds.
    pub(super) fn trigger(&self, escape: char) -> Option<Self> {
        let is_trigger = self.keyword == "ONBUILD" && !self.arguments.text.is_empty();
        is_trigger.then(|| Self {
            documents: self.documents.clone(),
            span: self.span.clone(),
            ..split_instruction(&self.arguments, self.line, escape)
        })
    }

    /// The words of the JSON form; `None` if it is in shell form.
    pub(super) fn json_words(&self) -> Option<Vec<String>> {
        serde_json::from_str(&self.arguments.text).ok()
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
    let directives = lines.map_while(|line| line.trim_start().strip_prefix('#')?.split_once('='));
    let directives = directives.map(|(name, value)| (name.trim().to_lowercase(), value.trim()));
    let mut known = directives.take_while(|(name, _)| matches!(&**name, "syntax" | "escape" | "check"));
    let is_backtick = known.any(|(name, value)| name == "escape" && value == "`");
    if is_backtick { '`' } else { '\\' }
}
