//! Draws boxes in one column, and lines between them.
//!
//! The lines run in lanes on both sides, so the picture stays as narrow as a phone.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::super::text_layout::joined;
use super::super::words::ReportTone;
use super::svg_text::{FittedText, KeptEnd, WIDTH};

/// The distance between two lanes.
const LANE: usize = 9;

/// The maximum number of lanes per side; further lines share the last one. An image can contain any number of copies,
/// and their lanes would leave no room for the boxes.
const LANES: usize = 12;

/// The kind of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKind {
    Heading,
    Asker,
    Copy,
    /// A copy with problems, or a name without a library.
    MissingCopy,
    /// A dependency of a copy: good if it is found, a remark if the driver provides it.
    Need(ReportTone),
}

/// A box or a heading.
pub(super) struct PictureRow {
    pub kind: RowKind,
    pub title: String,
    pub lines: Vec<(String, KeptEnd)>,
    /// The full description, for a tooltip and for screen readers.
    pub words: String,
}

/// A line between two boxes, by their numbers.
pub(super) struct PictureEdge {
    pub from: usize,
    pub to: usize,
    pub tone: ReportTone,
}

/// Rows from top to bottom. Lines on the left share a lane per target box; lines on the right share one per source box.
#[derive(Default)]
pub(super) struct BoxPicture {
    pub rows: Vec<PictureRow>,
    pub left: Vec<PictureEdge>,
    pub right: Vec<PictureEdge>,
}

/// A box and its upper edge.
struct PlacedRow<'a> {
    row: &'a PictureRow,
    top: usize,
}

/// The lanes beside the boxes, whose edge is at `x`.
struct EdgeLanes {
    side: EdgeSide,
    x: usize,
    by_row: BTreeMap<usize, usize>,
}

#[derive(Clone, Copy)]
enum EdgeSide {
    Left,
    Right,
}

impl RowKind {
    /// The box's classes in the style sheet.
    fn class(self) -> &'static str {
        match self {
            Self::Heading => "",
            Self::Asker => "who",
            Self::Copy => "copy",
            Self::MissingCopy => "copy missing",
            Self::Need(ReportTone::Bad) => "need missing",
            Self::Need(ReportTone::Remark) => "need driver",
            Self::Need(_) => "need",
        }
    }

    /// The space below the row; the dependencies of a copy form a tight list.
    fn gap(self) -> usize {
        match self {
            Self::Need(_) => 4,
            _ => 10,
        }
    }
}

impl BoxPicture {
    pub(super) fn heading(&mut self, title: &str) {
        self.row(PictureRow {
            kind: RowKind::Heading,
            title: title.to_owned(),
            lines: Vec::new(),
            words: String::new(),
        });
    }

    /// Adds a row and returns its number, for edges.
    pub(super) fn row(&mut self, row: PictureRow) -> usize {
        self.rows.push(row);
        self.rows.len() - 1
    }

    /// Draws the picture. `number` is the image's, because ids must be unique in a page.
    pub(super) fn draw(&self, title: &str, number: usize) -> Markup {
        let mut top = 0;
        let mut placed = Vec::new();
        for row in &self.rows {
            placed.push(PlacedRow { row, top });
            top += row.height() + row.kind.gap();
        }
        let left = EdgeLanes::new(EdgeSide::Left, self.left.iter().map(|edge| edge.to));
        let right = EdgeLanes::new(EdgeSide::Right, self.right.iter().map(|edge| edge.from));
        let ids = format!("objects-title-{number} objects-words-{number}");
        let marker = format!("arrow-{number}");
        html! {
            svg.picture viewBox={ "0 0 " (WIDTH) " " (top) } role="img" aria-labelledby=(ids) {
                title id={ "objects-title-" (number) } { (title) }
                desc id={ "objects-words-" (number) } { (self.words()) }
                defs { marker id=(marker) viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse" {
                    // SVG 2: a browser without `context-stroke` draws black arrowheads.
                    path d="M0 0 L8 4 L0 8 z" fill="context-stroke" {}
                } }
                // Lines come first, because later elements of an SVG cover earlier ones.
                @for edge in &self.left { (left.line(edge, edge.to, &placed, &marker)) }
                @for edge in &self.right { (right.line(edge, edge.from, &placed, &marker)) }
                @for one in &placed { (one.draw(left.x, right.x - left.x)) }
            }
        }
    }

    /// The picture as text.
    fn words(&self) -> String {
        let row = |number: usize| {
            let row = self.rows.get(number);
            row.map_or("", |row| row.words.as_str())
        };
        let edges = self.left.iter().map(|edge| {
            let (from, to) = (row(edge.from), row(edge.to));
            match edge.tone {
                ReportTone::Good => format!("{from} gets {to}"),
                ReportTone::Doubtful => {
                    format!("{from} gets {to} only under the container runtime")
                }
                _ => format!("{from} does not get it: {to}"),
            }
        });
        let needs = self
            .right
            .iter()
            .map(|edge| format!("{} needs {}", row(edge.from), row(edge.to)));
        joined(edges.chain(needs), ". ")
    }
}

impl PictureRow {
    fn height(&self) -> usize {
        // A title takes 16, a line 15, and the edges of the box 9.
        let title = if self.title.is_empty() { 0 } else { 16 };
        match self.kind {
            RowKind::Heading => 20,
            _ => 9 + title + 15 * self.lines.len(),
        }
    }
}

impl PlacedRow<'_> {
    fn middle(&self) -> usize {
        self.top + self.row.height() / 2
    }

    fn draw(&self, x: usize, width: usize) -> Markup {
        let row = self.row;
        if row.kind == RowKind::Heading {
            return html! { text.heading x=(x) y=(self.top + 15) { (row.title) } };
        }
        let begin = if row.title.is_empty() { self.top } else { self.top + 16 };
        let inner = width.saturating_sub(16);
        html! {
            g {
                title { (row.words) }
                rect.{ "box " (row.kind.class()) } x=(x) y=(self.top) width=(width) height=(row.height()) rx="5" {}
                @if !row.title.is_empty() {
                    (FittedText { x: x + 8, y: self.top + 17, width: inner, class: "name", words: &row.title, keep: KeptEnd::First }.draw())
                }
                @for (at, (words, keep)) in row.lines.iter().enumerate() {
                    (FittedText { x: x + 8, y: begin + 15 * (at + 1) + 1, width: inner, class: "small", words, keep: *keep }.draw())
                }
            }
        }
    }
}

impl EdgeLanes {
    /// Assigns a lane to each box where lines meet; the first is nearest.
    fn new(side: EdgeSide, meeting: impl Iterator<Item = usize>) -> Self {
        let mut by_row = BTreeMap::new();
        for row in meeting {
            let next = by_row.len().min(LANES - 1);
            by_row.entry(row).or_insert(next);
        }
        let gutter = match by_row.len().min(LANES) {
            // Half of a box's border is outside of it.
            0 => 1,
            lanes => 14 + LANE * lanes,
        };
        let x = match side {
            EdgeSide::Left => gutter,
            EdgeSide::Right => WIDTH - gutter,
        };
        Self { side, x, by_row }
    }

    /// Draws the line between two boxes in the lane of `meeting`, which is one of them.
    fn line(&self, edge: &PictureEdge, meeting: usize, placed: &[PlacedRow<'_>], marker: &str) -> Markup {
        let (Some(from), Some(to)) = (placed.get(edge.from), placed.get(edge.to)) else {
            return html! {};
        };
        let away = 14 + LANE * self.by_row.get(&meeting).copied().unwrap_or_default();
        let x = self.x;
        // The arrow ends next to the border, not below it.
        let (lane, tip) = match self.side {
            EdgeSide::Left => (x.saturating_sub(away), x - 1),
            EdgeSide::Right => (x + away, x + 1),
        };
        let (y1, y2) = (from.middle(), to.middle());
        let path = format!("M{x} {y1} H{lane} V{y2} H{tip}");
        html! { path.{ "edge " (edge.tone.class()) } d=(path) marker-end={ "url(#" (marker) ")" } {} }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::words::ReportTone;
    use super::{BoxPicture, PictureEdge, PictureRow, RowKind};

    #[test]
    fn a_hundred_copies_leave_room_for_the_boxes() {
        let mut picture = BoxPicture::default();
        for number in 0..100 {
            picture.row(PictureRow {
                kind: RowKind::Copy,
                title: format!("copy {number}"),
                lines: Vec::new(),
                words: String::new(),
            });
            let edge = || PictureEdge {
                from: number,
                to: number,
                tone: ReportTone::Good,
            };
            picture.left.push(edge());
            picture.right.push(edge());
        }
        let drawn = picture.draw("", 1).into_string();
        assert!(drawn.contains("x=\"122\" y=\"0\" width=\"116\""), "{drawn}");
    }
}
