//! Runs images in both ways, and counts what agrees.

use std::fmt::Write as _;
use std::path::Path;

use testkit::parallel::in_parallel;

use super::base::Base;
use super::image::Image;
use super::judge::{self, Real};
use super::subject::{self, Answer, Level, Read};

/// The images of one run of the program.
const CHUNK: usize = 20;

/// An image with the real answer and that of the report.
pub struct Compared {
    /// The image.
    pub image: Image,
    /// What the real program got.
    pub real: Real,
    /// What the report says.
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

    /// Whether a proved report gives the program other search paths than it really had.
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

/// Runs and reads images, on every processor.
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

/// The counts of compared images.
pub struct Counts {
    /// How many there are.
    pub all: usize,
    /// Those whose report is right.
    pub right: usize,
    /// Those whose report is right, and says that it is proved.
    pub proved: usize,
    /// Those whose report is right, and lists assumptions.
    pub assumed: usize,
    /// Those whose report leaves it open.
    pub open: usize,
    /// Those whose report is wrong.
    pub wrong: usize,
    /// Those whose report is proved, and gives the program a search path that it does not have.
    pub other_path: usize,
    /// Those whose program really gets the library.
    pub loadable: usize,
    /// Those whose program really gets the library, while the report leaves it open.
    pub loadable_open: usize,
}

impl Counts {
    /// Counts.
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

    /// In words.
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

/// Every wrong answer and every wrong search path, with its script.
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

/// Every open answer, a line each.
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
