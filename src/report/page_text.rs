//! Lays out a page as text for a terminal: styled, wrapped, and with tables in columns if they fit.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::page::{Block, Entry, FindingEntry, Line, Page, Table};
use super::text_layout::{
    BOLD, DIM, TextDetail, TextLayout, fit_width, search_table, styled, wrap_line, wrap_paragraph,
};
use image_linkage::escape::escape_controls;
use image_linkage::loader::TraceLine;

/// The indent of lines below a title or a message.
const BELOW: usize = 2;
/// The narrowest last column that wraps its cells. Rows with a narrower one are stacked.
const NARROW: usize = 24;
/// Without -v: the number of lines from which further findings have only one line each, and the maximum of these.
const FULL_LINES: usize = 40;
const SHORT_FINDINGS: usize = 8;

impl Page {
    /// The page for a terminal.
    pub(crate) fn text(&self, layout: TextLayout) -> String {
        let mut text = PageText {
            out: String::new(),
            width: layout.width,
            is_cut: layout.detail < TextDetail::All,
            searches: BTreeSet::new(),
        };
        text.blocks(&self.0, 0);
        text.out
    }
}

struct PageText {
    out: String,
    width: usize,
    /// Whether long lists of findings are cut.
    is_cut: bool,
    /// The searches shown so far.
    searches: BTreeSet<(String, usize)>,
}

impl PageText {
    fn blocks(&mut self, blocks: &[Block], indent: usize) {
        let mut was_apart = false;
        for block in blocks {
            // A table below the verdict has the width of the page.
            let is_apart = block.stands_apart() || indent == 0 && matches!(block, Block::Table(_));
            if is_apart || was_apart {
                self.empty_line();
            }
            self.block(block, indent);
            was_apart = is_apart;
        }
    }

    fn block(&mut self, block: &Block, indent: usize) {
        let (width, space) = (self.width, " ".repeat(indent));
        match block {
            Block::Title(text) => self.out += &wrap_line(&styled(BOLD, text), width),
            Block::Verdict(tone, text) => self.out += &wrap_paragraph("", &styled(tone.style(), text), width),
            Block::Subject(name, about, digest) => {
                self.line(&format!("{}  {}", styled(BOLD, name), about.join("  ")));
                // On its own line, because the line would be wider than most terminals.
                self.out.extend(digest.iter().map(|digest| styled(DIM, digest) + "\n"));
                self.out.push('\n');
            }
            Block::Section(title, blocks) if title.is_empty() => self.blocks(blocks, indent),
            Block::Section(title, blocks) => {
                self.out += &wrap_line(&title.styled(), width);
                self.blocks(blocks, BELOW);
            }
            Block::Entry(entry) => self.entry(entry, indent),
            Block::Findings(findings) => self.findings(findings),
            Block::Table(table) => self.table(table, indent),
            Block::List(texts) => {
                for text in texts {
                    self.out += &wrap_paragraph(&format!("{space}· "), text, width);
                }
            }
            Block::Steps(steps) => {
                for (number, step) in (1..).zip(steps) {
                    self.out += &wrap_paragraph(&format!("{space}{number}. "), step, width);
                }
            }
            // At least below the verdict, which is not indented.
            Block::Text(text) => {
                self.out += &wrap_paragraph(&" ".repeat(indent.max(BELOW)), &text.styled(), width);
            }
            Block::Fact(label, text) => {
                self.out += &wrap_paragraph(&format!("{space}{label}"), &text.styled(), width);
            }
            Block::Code(language, code) => {
                let style = if *language == "sh" { BOLD } else { DIM };
                for line in code_lines(code) {
                    self.line(&format!("       {}", styled(style, line)));
                }
            }
            Block::Command(label, command) => self.line(&format!("{label}: {}", styled(BOLD, command))),
            Block::Search(steps, more) => self.search(steps, *more, indent),
            Block::Folded(..) | Block::Links(_) => {}
        }
    }

    fn entry(&mut self, entry: &Entry, indent: usize) {
        let line = format!("{}{}", " ".repeat(indent), entry_line(entry));
        self.out += &wrap_line(&line, self.width);
        self.blocks(&entry.blocks, indent + BELOW);
    }

    fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    fn empty_line(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// Findings in full as long as these are few lines, then the others with one line each.
    fn findings(&mut self, findings: &[FindingEntry]) {
        let (mut lines, mut short) = (0, Vec::new());
        for finding in findings.iter().filter(|finding| !finding.is_minor) {
            let before = std::mem::take(&mut self.out);
            let searches = self.searches.clone();
            self.entry(&finding.entry, 0);
            let text = std::mem::replace(&mut self.out, before);
            let is_first = lines == 0;
            lines += text.lines().count() + 1;
            if !self.is_cut || is_first || lines <= FULL_LINES {
                self.empty_line();
                self.out += &text;
            } else {
                self.searches = searches;
                short.push(finding);
            }
        }
        short.extend(findings.iter().filter(|finding| finding.is_minor));
        self.empty_line();
        for finding in short.iter().take(SHORT_FINDINGS) {
            let line = entry_line(&finding.entry) + &finding.addition;
            self.out += &wrap_line(&line, self.width);
        }
        if let Some(more @ 1..) = short.len().checked_sub(SHORT_FINDINGS) {
            self.line(&more_line(more).styled());
        }
    }

    /// A search that was shown above is not repeated.
    fn search(&mut self, steps: &[TraceLine], more: usize, indent: usize) {
        let space = " ".repeat(indent);
        if !self.searches.insert((search_table(steps, ""), more)) {
            self.line(&format!("{space}the loader searched as above"));
            return;
        }
        self.line(&format!("{space}the loader searched, in this order:"));
        self.out += &search_table(steps, &format!("{space}     "));
        if more > 0 {
            self.line(&format!("{space}     {}", more_line(more).styled()));
        }
    }

    /// The rows in columns, if there is room for the last one, whose cells are wrapped.
    fn table(&mut self, table: &Table, indent: usize) {
        let names: Vec<String> = table.columns.iter().map(|&column| column.to_owned()).collect();
        let mut widths = vec![0; names.len()];
        for row in [&names].into_iter().chain(&table.rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let last_width = widths.pop().unwrap_or(0).min(NARROW);
        let before_last = widths.iter().map(|width| width + 2).sum::<usize>();
        if !table.details.is_empty() || indent + before_last + last_width > fit_width(self.width) {
            return self.stacked_rows(table, indent);
        }
        for (number, row) in [&names].into_iter().chain(&table.rows).enumerate() {
            let mut line = " ".repeat(indent);
            for (cell, width) in row.iter().zip(&widths) {
                let _ = write!(line, "{cell:width$}  ");
            }
            let last = row.last().map_or("", String::as_str);
            if number == 0 {
                self.line(&styled(DIM, line + last));
            } else if last.is_empty() {
                self.line(line.trim_end());
            } else {
                self.out += &wrap_paragraph(&line, last, self.width);
            }
        }
    }

    /// Each row as its first cell, with the other cells below it, each after the name of its column.
    fn stacked_rows(&mut self, table: &Table, indent: usize) {
        let names: Vec<&str> = table.columns.iter().chain(&table.details).copied().collect();
        let widest = names.iter().skip(1).map(|name| name.chars().count()).max().unwrap_or(0);
        for row in &table.rows {
            if indent == 0 {
                self.empty_line();
            }
            let mut cells = names.iter().zip(row);
            if let Some((_, head)) = cells.next() {
                let head = format!("{}{}", " ".repeat(indent), styled(BOLD, head));
                self.out += &wrap_line(&head, self.width);
            }
            for (name, cell) in cells.filter(|(_, cell)| !cell.is_empty()) {
                let label = format!("{}{name:widest$}  ", " ".repeat(indent + BELOW));
                self.out += &wrap_paragraph(&label, cell, self.width);
            }
        }
    }
}

impl Block {
    /// Whether empty lines set the block off from the others. Messages with nothing below them stay together.
    fn stands_apart(&self) -> bool {
        match self {
            Self::Section(..) | Self::Findings(_) => true,
            Self::Entry(entry) => entry.label.is_some() && !entry.blocks.is_empty(),
            _ => false,
        }
    }
}

/// The message of an entry after its label.
fn entry_line(entry: &Entry) -> String {
    match &entry.label {
        Some((tone, label)) => format!("{}: {}", styled(tone.style(), label), entry.message.styled()),
        None => entry.message.styled(),
    }
}

/// The number of further lines, which `-v` shows.
pub(super) fn more_line(more: usize) -> Line {
    Line::dim(format!("… {more} more, -v shows them"))
}

/// The lines of a file without terminal control characters. Backslashes are kept, because the lines are for copying.
pub(super) fn code_lines(code: &str) -> impl Iterator<Item = String> {
    code.trim_end().lines().map(escape_controls)
}
