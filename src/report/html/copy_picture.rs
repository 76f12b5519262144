//! Draws who requests CUPTI, which copy each gets, and what the copies need.
//!
//! Lines on the left lead from requesters to the copies that they get, and lines on the right from a copy to its
//! dependencies.

use std::collections::BTreeMap;

use maud::Markup;

use super::super::words::{ReportTone, owner_words, request_words, soname_words, way_words};
use super::box_picture::{BoxPicture, PictureEdge, PictureRow, RowKind};
use super::svg_text::KeptEnd;
use crate::facts::{self, CuptiConsumer, CuptiCopy, ImageFacts, PlainOpen};
use crate::size::format_size;
use image_linkage::escape;
use image_linkage::loader::{LoadResolution, RequestOutcome};
use image_linkage::path::RootPath;

/// The result of a request: a copy, a copy only under the container runtime, or none.
struct AskedLibrary<'a> {
    row: usize,
    wants: String,
    gets: Option<(&'a RootPath, ReportTone)>,
    message: String,
}

/// The picture for the image with this number.
pub(super) fn draw_copies(facts: &ImageFacts, number: usize) -> Markup {
    let mut picture = BoxPicture::default();
    picture.heading("asks for it");
    let asked = picture.who_asks(facts);
    picture.heading("gets");
    let copies = picture.copies(facts, &asked);
    picture.needs(&copies);
    let library = &facts.library.name;
    let title = format!("Who asks for {library}, which copy each gets, and what the copies need");
    picture.draw(&title, number)
}

impl BoxPicture {
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
            kind: RowKind::Asker,
            title: "any program".to_owned(),
            lines: vec![(format!("dlopen(\"{wants}\")"), KeptEnd::First)],
            words: format!("any program that opens {wants} by its name alone"),
        });
        // The line leads to the opened copy even if loading it then fails; its dependencies on the right show why.
        let root = |open: &'a PlainOpen| Some(&facts::opened_object(&open.resolution)?.real_path);
        let gets = match (root(plain), root(nvidia)) {
            (Some(path), _) if plain.resolution.loads() => Some((path, ReportTone::Good)),
            (Some(path), _) => Some((path, ReportTone::Bad)),
            (None, Some(path)) if nvidia.resolution.loads() => Some((path, ReportTone::Doubtful)),
            _ => None,
        };
        let first = plain.resolution.unresolved.first();
        AskedLibrary {
            row,
            wants,
            gets,
            message: first.map(|missing| missing.message.clone()).unwrap_or_default(),
        }
    }

    fn consumer<'a>(&mut self, consumer: &'a CuptiConsumer) -> AskedLibrary<'a> {
        let asks = request_words(consumer);
        let (as_is, nvidia) = (&consumer.outcome.as_is, &consumer.outcome.nvidia);
        let through = match (as_is.outcome, nvidia.outcome) {
            _ if consumer.open.is_some() => "cannot be determined".to_owned(),
            (RequestOutcome::Loaded, _) => format!("through {}", way_words(as_is)),
            (_, RequestOutcome::Loaded) => "only once ldconfig has run".to_owned(),
            _ => "does not get it".to_owned(),
        };
        let gets = match (&as_is.real_path, &nvidia.real_path) {
            (Some(path), _) if consumer.is_served() => Some((path, ReportTone::Good)),
            (Some(path), _) if as_is.outcome == RequestOutcome::Loaded => Some((path, ReportTone::Doubtful)),
            (_, Some(path)) if nvidia.outcome == RequestOutcome::Loaded => Some((path, ReportTone::Doubtful)),
            _ => None,
        };
        let row = self.row(PictureRow {
            kind: RowKind::Asker,
            title: format!("{} {asks}", consumer.name),
            lines: vec![
                (consumer.object.to_string(), KeptEnd::Last),
                (through.clone(), KeptEnd::First),
            ],
            words: format!("{} {asks}: {through}; {}", consumer.name, consumer.object),
        });
        AskedLibrary {
            row,
            wants: escape::escape_bytes(&consumer.wants),
            gets,
            message: as_is.message.clone(),
        }
    }

    /// Adds the copies that are or could be loaded, and a box for each name without a library.
    fn copies<'a>(&mut self, facts: &'a ImageFacts, asked: &[AskedLibrary<'a>]) -> Vec<(usize, &'a CuptiCopy)> {
        let mut by_path = BTreeMap::new();
        let mut copies = Vec::new();
        // A private copy is shown if something loads it, because its line needs a target.
        let shown = |copy: &&CuptiCopy| !copy.private || !copy.used_by.is_empty();
        for copy in facts.copies.iter().filter(shown) {
            let row = self.row(copy_row(copy));
            by_path.insert(&copy.real_path, row);
            copies.push((row, copy));
        }
        // Requesters of the same name share the box of the missing library.
        let mut missing = BTreeMap::new();
        for one in asked {
            let got = one.gets.and_then(|(path, tone)| Some((*by_path.get(path)?, tone)));
            let (to, tone) = got.unwrap_or_else(|| {
                let row = missing.entry(one.wants.clone());
                let row = row.or_insert_with(|| self.row(missing_row(&one.wants, &one.message)));
                (*row, ReportTone::Bad)
            });
            self.left.push(PictureEdge {
                from: one.row,
                to,
                tone,
            });
        }
        copies
    }

    fn needs(&mut self, copies: &[(usize, &CuptiCopy)]) {
        // Keyed by name and tone: if one copy finds a dependency and another does not, it gets two boxes.
        let mut rows: BTreeMap<(String, ReportTone), (&str, Vec<usize>)> = BTreeMap::new();
        for (row, copy) in copies {
            for (name, tone, words) in needs(&copy.by_path.as_is) {
                let entry = rows.entry((name, tone)).or_insert((words, Vec::new()));
                entry.1.push(*row);
            }
        }
        if rows.is_empty() {
            return;
        }
        self.heading("which needs");
        for ((name, tone), (words, from)) in rows {
            let line = match tone {
                ReportTone::Good => format!("{} {name}", tone.mark()),
                _ => format!("{} {name} {words}", tone.mark()),
            };
            let to = self.row(PictureRow {
                kind: RowKind::Need(tone),
                title: String::new(),
                lines: vec![(line, KeptEnd::First)],
                words: format!("{name}: {words}"),
            });
            let edges = from.into_iter().map(|from| PictureEdge { from, to, tone });
            self.right.extend(edges);
        }
    }
}

fn copy_row(copy: &CuptiCopy) -> PictureRow {
    let soname = soname_words(copy);
    let version = copy.version.as_ref().map(|(version, _)| version.as_str());
    let title = format!("{soname} {}", version.unwrap_or_default());
    let path = copy.real_path.to_string();
    let package = format!("{}, {}", format_size(copy.bytes), owner_words(copy));
    let version = version.unwrap_or("of unknown version");
    PictureRow {
        kind: if copy.problems.is_empty() {
            RowKind::Copy
        } else {
            RowKind::MissingCopy
        },
        title: title.trim_end().to_owned(),
        words: format!("{soname} {version} {path}"),
        lines: vec![(path, KeptEnd::Last), (package, KeptEnd::First)],
    }
}

fn missing_row(wants: &str, message: &str) -> PictureRow {
    let nowhere = "is not where the loader looks".to_owned();
    PictureRow {
        kind: RowKind::MissingCopy,
        title: format!("✗ {wants}"),
        lines: vec![(nowhere, KeptEnd::First)],
        words: message.to_owned(),
    }
}

/// The dependencies of the opened object with their results, and indirect failures.
fn needs(resolution: &LoadResolution) -> Vec<(String, ReportTone, &'static str)> {
    let Some(object) = facts::opened_object(resolution) else {
        return Vec::new();
    };
    let mut needs = Vec::new();
    for (name, answer) in &object.needs {
        let fate = resolution.unresolved.iter().find(|missing| missing.name == *name);
        let (tone, words) = match (answer, fate.map(|missing| missing.outcome)) {
            // libcuda is never part of an image, so it is not a problem that it is missing.
            (_, Some(RequestOutcome::ProvidedAtRuntime)) => (ReportTone::Remark, "comes with the driver"),
            (_, Some(_)) => (ReportTone::Bad, "missing"),
            (Some(_), None) => (ReportTone::Good, "found"),
            (None, None) => (ReportTone::Bad, "not loaded"),
        };
        needs.push((escape::escape_bytes(name), tone, words));
    }
    for missing in facts::unresolved_objects(resolution) {
        let is_named = object.needs.iter().any(|(name, _)| *name == missing.name);
        if !is_named && missing.requested_by.is_some() {
            let name = escape::escape_bytes(&missing.name);
            needs.push((name, ReportTone::Bad, "missing further on"));
        }
    }
    needs
}
