//! Boxes below each other and the lines between them.
//!
//! One column of boxes, with the lines in lanes on both sides, stays as narrow as a phone however many there are.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::super::text_layout::joined;
use super::super::words::ReportTone;
use super::svg_text::{FittedText, KeptEnd, WIDTH};

/// The distance between two of the vertical lines beside the boxes.
const LANE: usize = 9;

/// The lanes on a side. Lines to more boxes share the last lane, else the lanes would leave no room for the boxes: an
/// image can hold any number of copies.
const LANES: usize = 12;

/// What a row of the picture shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKind {
    Heading,
    Asker,
    Copy,
    /// A copy that has problems, or a name that nobody answers.
    MissingCopy,
    /// What a copy needs: good where it is found, a remark where the driver brings it.
    Need(ReportTone),
}

/// A box, or a heading.
pub(super) struct PictureRow {
    pub kind: RowKind,
    pub title: String,
    pub lines: Vec<(String, KeptEnd)>,
    /// The whole story, for a pointer that rests on it and for a reader that speaks.
    pub words: String,
}

/// A line between two boxes, by their numbers, in a lane of its own or one it shares.
pub(super) struct PictureEdge {
    pub from: usize,
    pub to: usize,
    pub tone: ReportTone,
}

/// Rows from the top down. Lines on the left meet at the box that they lead to, and lines on the right meet at the box
/// that they come from.
#[derive(Default)]
pub(super) struct BoxPicture {
    pub rows: Vec<PictureRow>,
    pub left: Vec<PictureEdge>,
    pub right: Vec<PictureEdge>,
}

/// A box with its upper edge.
struct PlacedRow<'a> {
    row: &'a PictureRow,
    top: usize,
}

/// The lanes on one side of the boxes, whose edge is at `x`.
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
    /// The classes of the box in the style sheet.
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

    /// The room below the row: the needs of a copy stand close together, as a list.
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

    /// Adds a row and returns its number, by which lines meet it.
    pub(super) fn row(&mut self, row: PictureRow) -> usize {
        self.rows.push(row);
        self.rows.len() - 1
    }

    /// The picture; `number` is that of the image, since an id may stand once in a page.
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
                    // Of SVG 2: a browser that lacks `context-stroke` draws black heads, and lines keep their tones.
                    path d="M0 0 L8 4 L0 8 z" fill="context-stroke" {}
                } }
                // Lines before boxes: what comes later in an SVG covers what came before.
                @for edge in &self.left { (left.line(edge, edge.to, &placed, &marker)) }
                @for edge in &self.right { (right.line(edge, edge.from, &placed, &marker)) }
                @for one in &placed { (one.draw(left.x, right.x - left.x)) }
            }
        }
    }

    /// The picture in words.
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
    /// A lane for each of the boxes that lines meet at, the first the nearest.
    fn new(side: EdgeSide, meeting: impl Iterator<Item = usize>) -> Self {
        let mut by_row = BTreeMap::new();
        for row in meeting {
            let next = by_row.len().min(LANES - 1);
            by_row.entry(row).or_insert(next);
        }
        let gutter = match by_row.len().min(LANES) {
            // The border of a box is drawn half outside of it.
            0 => 1,
            lanes => 14 + LANE * lanes,
        };
        let x = match side {
            EdgeSide::Left => gutter,
            EdgeSide::Right => WIDTH - gutter,
        };
        Self { side, x, by_row }
    }

    /// The line between two boxes by way of the lane of `meeting`, one of the two.
    fn line(&self, edge: &PictureEdge, meeting: usize, placed: &[PlacedRow<'_>], marker: &str) -> Markup {
        let (Some(from), Some(to)) = (placed.get(edge.from), placed.get(edge.to)) else {
            return html! {};
        };
        let away = 14 + LANE * self.by_row.get(&meeting).copied().unwrap_or_default();
        let x = self.x;
        // The arrow ends beside the border, not under it.
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
