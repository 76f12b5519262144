//! The picture of who asks for CUPTI, which copy each gets, and what the copies need.
//!
//! One column of boxes: who asks, the copies, what they need. Lines on the left lead from who asks to what they get, in
//! a lane for each copy; lines on the right from a copy to its needs. So it stays as narrow as a phone however many
//! there are.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::image_section;
use super::svg_text::{FittedText, WIDTH};
use crate::judge::facts::{self, CuptiConsumer, CuptiCopy, ImageFacts, PlainOpen};
use crate::size::format_size;
use image_linkage::escape;
use image_linkage::loader::{LoadResolution, RequestOutcome, trace_text};
use image_linkage::path::RootPath;

const LANE: usize = 9;
const GAP: usize = 10;

/// A box, or a heading where there is no class.
struct PictureRow {
    class: &'static str,
    title: String,
    lines: Vec<String>,
    /// The whole story, for a pointer that rests on it and for a reader that speaks.
    words: String,
}

/// A line between two boxes, by their numbers, in a lane of its own or one it shares.
struct PictureEdge {
    from: usize,
    to: usize,
    class: &'static str,
}

#[derive(Default)]
struct CopyPicture {
    rows: Vec<PictureRow>,
    left: Vec<PictureEdge>,
    right: Vec<PictureEdge>,
}

/// What somebody who asks gets: a copy, a copy in the other world alone, or nothing.
struct AskedLibrary<'a> {
    row: usize,
    wants: String,
    gets: Option<(&'a RootPath, &'static str)>,
    message: String,
}

/// The picture for the image with this number.
pub(super) fn draw_copies(facts: &ImageFacts, number: usize) -> Markup {
    let mut picture = CopyPicture::default();
    picture.heading("asks for it");
    let asked = picture.who_asks(facts);
    picture.heading("gets");
    let copies = picture.copies(facts, &asked);
    picture.needs(&copies);
    picture.draw(number)
}

/// The package of a copy, in words.
pub(super) fn owner_words(copy: &CuptiCopy) -> String {
    let owner = &copy.owner;
    if owner.name.is_empty() {
        return "owner unknown".to_owned();
    }
    let version = owner.version.as_deref().unwrap_or_default();
    let words = format!("{} {} {version}", owner.kind.name(), owner.name);
    escape::escape_bytes(words.trim_end().as_bytes())
}

impl CopyPicture {
    fn heading(&mut self, title: &str) {
        self.rows.push(PictureRow {
            class: "",
            title: title.to_owned(),
            lines: Vec::new(),
            words: String::new(),
        });
    }

    fn row(&mut self, row: PictureRow) -> usize {
        self.rows.push(row);
        self.rows.len() - 1
    }

    fn who_asks<'a>(&mut self, facts: &'a ImageFacts) -> Vec<AskedLibrary<'a>> {
        let mut asked = vec![self.plain(&facts.plain.as_is, &facts.plain.nvidia)];
        for consumer in &facts.consumers {
            asked.push(self.consumer(consumer));
        }
        asked
    }

    fn plain<'a>(&mut self, plain: &'a PlainOpen, nvidia: &'a PlainOpen) -> AskedLibrary<'a> {
        let wants = escape::escape_bytes(&plain.name);
        let row = self.row(PictureRow {
            class: "who",
            title: "any program".to_owned(),
            lines: vec![format!("dlopen(\"{wants}\")")],
            words: format!("any program that opens {wants} by its name alone"),
        });
        let root = |open: &'a PlainOpen| Some(&facts::opened_object(&open.resolution)?.real_path);
        let gets = match (root(plain), root(nvidia)) {
            (Some(path), _) if plain.resolution.loads() => Some((path, "good")),
            (Some(path), _) => Some((path, "bad")),
            (None, Some(path)) if nvidia.resolution.loads() => Some((path, "doubtful")),
            _ => None,
        };
        let first = plain.resolution.unresolved.first();
        AskedLibrary {
            row,
            wants,
            gets,
            message: first
                .map(|missing| missing.message.clone())
                .unwrap_or_default(),
        }
    }

    fn consumer<'a>(&mut self, consumer: &'a CuptiConsumer) -> AskedLibrary<'a> {
        let asks = image_section::asks_verb(consumer);
        let wants = escape::escape_bytes(&consumer.wants);
        let (as_is, nvidia) = (&consumer.outcome.as_is, &consumer.outcome.nvidia);
        let how = as_is
            .how
            .map(|how| trace_text::stage_text(how, &as_is.objects));
        let through = match (as_is.outcome, nvidia.outcome) {
            (RequestOutcome::Loaded, _) => format!("through {}", how.unwrap_or_default()),
            (_, RequestOutcome::Loaded) => "only once ldconfig has run".to_owned(),
            _ => "does not get it".to_owned(),
        };
        let gets = match (&as_is.real_path, &nvidia.real_path) {
            (Some(path), _) if as_is.outcome == RequestOutcome::Loaded => Some((path, "good")),
            (_, Some(path)) if nvidia.outcome == RequestOutcome::Loaded => Some((path, "doubtful")),
            _ => None,
        };
        let row = self.row(PictureRow {
            class: "who",
            title: format!("{} {asks} {wants}", consumer.name),
            lines: vec![consumer.object.to_string(), through.clone()],
            words: format!(
                "{} {asks} {wants}: {through}; {}",
                consumer.name, consumer.object
            ),
        });
        AskedLibrary {
            row,
            wants,
            gets,
            message: as_is.message.clone(),
        }
    }

    /// The copies that somebody gets or could get, and a box for each name that nobody answers.
    fn copies<'a>(
        &mut self,
        facts: &'a ImageFacts,
        asked: &[AskedLibrary<'a>],
    ) -> Vec<(usize, &'a CuptiCopy)> {
        let mut by_path = BTreeMap::new();
        let mut copies = Vec::new();
        let shown = |copy: &&CuptiCopy| !copy.decoy || !copy.used_by.is_empty();
        for copy in facts.copies.iter().filter(shown) {
            let row = self.row(copy_row(copy));
            by_path.insert(&copy.real_path, row);
            copies.push((row, copy));
        }
        let mut missing = BTreeMap::new();
        for one in asked {
            let got = one
                .gets
                .and_then(|(path, class)| Some((*by_path.get(path)?, class)));
            let (to, class) = got.unwrap_or_else(|| {
                let row = missing.entry(one.wants.clone());
                let row = row.or_insert_with(|| self.row(missing_row(&one.wants, &one.message)));
                (*row, "bad")
            });
            self.left.push(PictureEdge {
                from: one.row,
                to,
                class,
            });
        }
        copies
    }

    fn needs(&mut self, copies: &[(usize, &CuptiCopy)]) {
        let mut rows: BTreeMap<(String, &'static str), (String, Vec<usize>)> = BTreeMap::new();
        for (row, copy) in copies {
            for (name, class, words) in needs(&copy.by_path.as_is) {
                let entry = rows
                    .entry((name, class))
                    .or_insert_with(|| (words, Vec::new()));
                entry.1.push(*row);
            }
        }
        if rows.is_empty() {
            return;
        }
        self.heading("which needs");
        for ((name, class), (words, from)) in rows {
            let to = self.row(PictureRow {
                class: match class {
                    "bad" => "need missing",
                    "remark" => "need driver",
                    _ => "need",
                },
                title: String::new(),
                lines: vec![match class {
                    "good" => format!("✓ {name}"),
                    "bad" => format!("✗ {name} {words}"),
                    _ => format!("· {name} {words}"),
                }],
                words: format!("{name}: {words}"),
            });
            self.right
                .extend(from.into_iter().map(|from| PictureEdge { from, to, class }));
        }
    }
}

fn copy_row(copy: &CuptiCopy) -> PictureRow {
    let soname = copy
        .soname
        .as_deref()
        .map_or_else(|| "no library".to_owned(), escape::escape_bytes);
    let version = copy.version.as_ref().map(|(version, _)| version.as_str());
    let package = format!("{}, {}", format_size(copy.bytes), owner_words(copy));
    PictureRow {
        class: if copy.problems.is_empty() {
            "copy"
        } else {
            "copy missing"
        },
        title: format!("{soname} {}", version.unwrap_or_default())
            .trim_end()
            .to_owned(),
        lines: vec![copy.real_path.to_string(), package],
        words: format!(
            "{soname} {} {}",
            version.unwrap_or("of unknown version"),
            copy.real_path
        ),
    }
}

fn missing_row(wants: &str, message: &str) -> PictureRow {
    PictureRow {
        class: "copy missing",
        title: format!("✗ {wants}"),
        lines: vec!["is not where the loader looks".to_owned()],
        words: message.to_owned(),
    }
}

/// The names that the opened object needs, with what became of each, and what fails further on.
fn needs(resolution: &LoadResolution) -> Vec<(String, &'static str, String)> {
    let Some(object) = facts::opened_object(resolution) else {
        return Vec::new();
    };
    let mut needs = Vec::new();
    for (name, answer) in &object.needs {
        let name = escape::escape_bytes(name);
        let fate = resolution
            .unresolved
            .iter()
            .find(|missing| escape::escape_bytes(&missing.name) == name);
        needs.push(match (answer, fate.map(|missing| missing.outcome)) {
            (_, Some(RequestOutcome::ProvidedAtRuntime)) => {
                (name, "remark", "comes with the driver".to_owned())
            }
            (_, Some(_)) => (name, "bad", "missing".to_owned()),
            (Some(_), None) => (name, "good", "found".to_owned()),
            (None, None) => (name, "bad", "not loaded".to_owned()),
        });
    }
    let named: Vec<String> = needs.iter().map(|(name, ..)| name.clone()).collect();
    for missing in facts::unresolved_objects(resolution) {
        let name = escape::escape_bytes(&missing.name);
        if !named.contains(&name) && missing.requested_by.is_some() {
            needs.push((name, "bad", "missing further on".to_owned()));
        }
    }
    needs
}

impl PictureRow {
    fn height(&self) -> usize {
        let title = if self.title.is_empty() { 0 } else { 16 };
        match self.class {
            "" => 20,
            _ => 9 + title + 15 * self.lines.len(),
        }
    }
}

/// A box with its place.
struct PlacedRow<'a> {
    row: &'a PictureRow,
    top: usize,
}

impl CopyPicture {
    fn draw(&self, number: usize) -> Markup {
        let mut top = 0;
        let mut placed = Vec::new();
        for row in &self.rows {
            placed.push(PlacedRow { row, top });
            let need = row.class.starts_with("need");
            top += row.height() + if need { 4 } else { GAP };
        }
        let left = lanes(self.left.iter().map(|edge| edge.to));
        let right = lanes(self.right.iter().map(|edge| edge.from));
        let (x, end) = (gutter(&left), WIDTH - gutter(&right));
        let ids = format!("objects-title-{number} objects-words-{number}");
        let marker = format!("arrow-{number}");
        html! {
            svg.picture viewBox={ "0 0 " (WIDTH) " " (top) } role="img" aria-labelledby=(ids) {
                title id={ "objects-title-" (number) } { "Who asks for CUPTI, which copy each gets, and what the copies need" }
                desc id={ "objects-words-" (number) } { (self.words()) }
                defs { marker id=(marker) viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse" {
                    path d="M0 0 L8 4 L0 8 z" fill="context-stroke" {}
                } }
                @for edge in &self.left { (line(edge, &placed, EdgeSide::Left { from: x, lanes: &left }, &marker)) }
                @for edge in &self.right { (line(edge, &placed, EdgeSide::Right { from: end, lanes: &right }, &marker)) }
                @for one in &placed { (one.draw(x, end - x)) }
            }
        }
    }

    /// The picture in words.
    fn words(&self) -> String {
        let row = |number: usize| {
            self.rows
                .get(number)
                .map(|row| row.words.as_str())
                .unwrap_or_default()
        };
        let edges = self.left.iter().map(|edge| match edge.class {
            "good" => format!("{} gets {}", row(edge.from), row(edge.to)),
            "doubtful" => format!(
                "{} gets {} only under the container runtime",
                row(edge.from),
                row(edge.to)
            ),
            _ => format!("{} does not get it: {}", row(edge.from), row(edge.to)),
        });
        let needs = self
            .right
            .iter()
            .map(|edge| format!("{} needs {}", row(edge.from), row(edge.to)));
        edges.chain(needs).collect::<Vec<_>>().join(". ")
    }
}

impl PlacedRow<'_> {
    fn middle(&self) -> usize {
        self.top + self.row.height() / 2
    }

    fn draw(&self, x: usize, width: usize) -> Markup {
        let row = self.row;
        if row.class.is_empty() {
            return html! { text.heading x=(x) y=(self.top + 15) { (row.title) } };
        }
        let begin = if row.title.is_empty() {
            self.top
        } else {
            self.top + 16
        };
        let inner = width.saturating_sub(16);
        html! {
            g {
                title { (row.words) }
                rect.{ "box " (row.class) } x=(x) y=(self.top) width=(width) height=(row.height()) rx="5" {}
                @if !row.title.is_empty() {
                    (FittedText { x: x + 8, y: self.top + 17, width: inner, class: "name", words: &row.title }.head())
                }
                @for (at, text) in row.lines.iter().enumerate() {
                    @let line = FittedText { x: x + 8, y: begin + 15 * (at + 1) + 1, width: inner, class: "small", words: text };
                    @if text.starts_with('/') { (line.tail()) } @else { (line.head()) }
                }
            }
        }
    }
}

/// A lane for each box that lines meet at, the first the nearest.
fn lanes(meeting: impl Iterator<Item = usize>) -> BTreeMap<usize, usize> {
    let mut lanes = BTreeMap::new();
    for row in meeting {
        let next = lanes.len();
        lanes.entry(row).or_insert(next);
    }
    lanes
}

fn gutter(lanes: &BTreeMap<usize, usize>) -> usize {
    if lanes.is_empty() {
        1
    } else {
        14 + LANE * lanes.len()
    }
}

/// The side of the boxes on which a line runs, where it begins, and the lanes there.
#[derive(Clone, Copy)]
enum EdgeSide<'a> {
    Left {
        from: usize,
        lanes: &'a BTreeMap<usize, usize>,
    },
    Right {
        from: usize,
        lanes: &'a BTreeMap<usize, usize>,
    },
}

fn line(edge: &PictureEdge, placed: &[PlacedRow<'_>], side: EdgeSide<'_>, marker: &str) -> Markup {
    let (Some(from), Some(to)) = (placed.get(edge.from), placed.get(edge.to)) else {
        return html! {};
    };
    let (edge_x, lane, tip) = match side {
        EdgeSide::Left { from, lanes } => {
            let number = lanes.get(&edge.to).copied().unwrap_or_default();
            (from, from.saturating_sub(14 + LANE * number), from - 1)
        }
        EdgeSide::Right { from, lanes } => {
            let number = lanes.get(&edge.from).copied().unwrap_or_default();
            (from, from + 14 + LANE * number, from + 1)
        }
    };
    let (y1, y2) = (from.middle(), to.middle());
    let path = format!("M{edge_x} {y1} H{lane} V{y2} H{tip}");
    html! { path.{ "edge " (edge.class) } d=(path) marker-end={ "url(#" (marker) ")" } {} }
}
