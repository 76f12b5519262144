//! Runs the real command and the audit for each image, and counts agreements.

use std::fmt::Write as _;
use std::path::Path;

use testkit::parallel::in_parallel;

use super::base::Base;
use super::image::Image;
use super::judge::{self, Real};
use super::subject::{self, Answer, Level, Read};

/// The number of images per run of the program.
const CHUNK: usize = 20;

/// An image with the real result and the report.
pub struct Compared {
    /// The image.
    pub image: Image,
    /// The real program's result.
    pub real: Real,
    /// The report's answer.
    pub read: Read,
}

impl Compared {
    fn really_loads(&self) -> bool {
        self.real.loaded == Some(true)
    }

    fn is_right(&self) -> bool {
        let right = if self.really_loads() {
            Answer::Pass
        } else {
            Answer::Fail
        };
        self.read.answer == right
    }

    /// Whether the report is proved, but gives the program another search path than the real one.
    fn has_other_path(&self) -> bool {
        let Read { level, paths, .. } = &self.read;
        let may_be = |path: &Option<String>| path.as_ref().is_none_or(|path| *path == self.real.path);
        *level == Level::Proved && !self.is_open() && !paths.is_empty() && !paths.iter().any(may_be)
    }

    fn is_open(&self) -> bool {
        self.read.answer == Answer::Open
    }

    fn is_wrong(&self) -> bool {
        !self.is_right() && !self.is_open()
    }
}

/// Runs and audits images, on all processors.
pub fn compare(base: &Base, images: Vec<Image>) -> Vec<Compared> {
    let cache = tempfile::tempdir().unwrap();
    let chunks: Vec<&[Image]> = images.chunks(CHUNK).collect();
    let found = in_parallel(chunks.len(), |number| compare_chunk(base, chunks[number], cache.path()));
    let found = found.into_iter().flatten();
    let compared = images.into_iter().zip(found);
    compared
        .map(|(image, (real, read))| Compared { image, real, read })
        .collect()
}

fn compare_chunk(base: &Base, images: &[Image], cache: &Path) -> Vec<(Real, Read)> {
    let mut written = Vec::new();
    let mut real = Vec::new();
    for image in images {
        let root = image.root(base);
        written.push((image.layout_image(base, root.path()), image.asker()));
        real.push(judge::run(base, image, root.path()));
    }
    real.into_iter().zip(subject::read(&written, cache)).collect()
}

/// Counts over compared images.
pub struct Counts {
    /// All images.
    pub all: usize,
    /// Reports that are right.
    pub right: usize,
    /// Reports that are right and proved.
    pub proved: usize,
    /// Reports that are right and list assumptions.
    pub assumed: usize,
    /// Reports that leave the answer open.
    pub open: usize,
    /// Reports that are wrong.
    pub wrong: usize,
    /// Reports that are proved, but give the program a search path that it does not have.
    pub other_path: usize,
    /// Images whose program really gets the library.
    pub loadable: usize,
    /// Images whose program really gets the library, but whose report leaves it open.
    pub loadable_open: usize,
}

impl Counts {
    /// Counts the images.
    pub fn of(compared: &[Compared]) -> Self {
        let count = |is: &dyn Fn(&Compared) -> bool| compared.iter().filter(|one| is(one)).count();
        let at = |level| count(&|one| one.is_right() && one.read.level == level);
        Self {
            all: compared.len(),
            right: count(&Compared::is_right),
            proved: at(Level::Proved),
            assumed: at(Level::Assumed),
            open: count(&Compared::is_open),
            wrong: count(&Compared::is_wrong),
            other_path: count(&Compared::has_other_path),
            loadable: count(&Compared::really_loads),
            loadable_open: count(&|one| one.really_loads() && one.is_open()),
        }
    }

    /// The counts as a line of text.
    pub fn line(&self, what: &str) -> String {
        let Self {
            all,
            right,
            proved,
            assumed,
            open,
            wrong,
            other_path,
            loadable,
            loadable_open,
        } = self;
        let right = format!("right {right} (proved {proved}, assumed {assumed})");
        let open = format!("open {open} ({loadable_open} of {loadable} loadable)");
        format!("{what}: {all} images: {right}, {open}, wrong {wrong}, another path {other_path}")
    }
}

/// All wrong answers and wrong search paths, with their scripts.
pub fn report(compared: &[Compared]) -> String {
    let mut text = String::new();
    for Compared { image, real, read } in compared.iter().filter(|one| one.is_wrong() || one.has_other_path()) {
        let gets = match real.loaded {
            Some(true) => "gets it",
            _ => "does not get it",
        };
        let _ = writeln!(text, "\n{}", image.name);
        let _ = writeln!(
            text,
            "  really {gets}, with LD_LIBRARY_PATH={}; it said {}",
            real.path, real.said
        );
        let _ = writeln!(text, "  the report: {:?} {:?}: {}", read.answer, read.level, read.why);
        let _ = writeln!(text, "  paths in the report: {:?}", read.paths);
        let _ = writeln!(text, "  library in {:?}, Env {:?}", image.library, image.case.env);
        let _ = writeln!(text, "  command {:?}", image.words().collect::<Vec<_>>());
        for file in &image.case.files {
            let _ = writeln!(text, "--- {} ---\n{}", file.path, file.text);
        }
    }
    text
}

/// All open answers, one per line.
pub fn open_lines(compared: &[Compared]) -> String {
    let open = compared.iter().filter(|one| one.is_open());
    let line = |one: &Compared| {
        format!(
            "  open: {}: loads {}: {}\n",
            one.image.name,
            one.really_loads(),
            one.read.why
        )
    };
    open.map(line).collect()
}
