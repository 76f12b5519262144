//! Compares the CUPTI that a container's command gets with the report on its image.
//!
//! The corpus in `testdata/commands` has entry points like those of public images. Each becomes five images, which
//! differ in the library's place: a system folder, a folder of the image's `LD_LIBRARY_PATH`, a folder that only the
//! script adds, nowhere, and a folder that nothing searches. Mutants add a statement about a loader variable at a
//! random place in a script.
//!
//! The judge runs the real command in the image's root file system. `CUPTI_AUDIT_SEED=NUMBER` repeats a run,
//! `CUPTI_AUDIT_OPEN=1` lists the open answers, and `CUPTI_AUDIT_PROGRAM=FILE` tests another build of the program.

use std::sync::{Arc, Mutex, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::commands::base::Base;
use crate::commands::case::corpus;
use crate::commands::compare::{Compared, Counts, compare, open_lines, report};
use crate::commands::image::{Image, PLACES};
use crate::commands::mutants::Mutants;

/// The images of the corpus: one per case and place of the library.
const CASES: usize = 60;
const MUTANTS: usize = 300;
/// The maximum percentage of open answers: among loadable images, and among all mutants.
const OPEN_IMAGES: usize = 3;
const OPEN_MUTANTS: usize = 15;

/// The root below all images. Weak, because a static is never dropped and would keep the folder.
static BASE: Mutex<Weak<Base>> = Mutex::new(Weak::new());

fn base() -> Option<Arc<Base>> {
    let mut known = BASE.lock().unwrap();
    if let Some(base) = known.upgrade() {
        return Some(base);
    }
    let base = Arc::new(Base::new()?);
    *known = Arc::downgrade(&base);
    Some(base)
}

#[test]
fn programs_get_what_the_report_says() {
    let Some(base) = base() else { return };
    let cases = corpus();
    assert!(cases.len() >= CASES, "{} cases", cases.len());
    let numbered = cases.iter().enumerate();
    let images = numbered.flat_map(|(number, case)| PLACES.map(|place| Image::new(case, place, number)));
    let compared = compare(&base, images.collect());
    let unreached: Vec<String> = compared
        .iter()
        .filter(|one| one.real.loaded.is_none())
        .map(|one| format!("{}: {}", one.image.name, one.real.said))
        .collect();
    assert!(
        unreached.is_empty(),
        "the program was not started:\n{}",
        unreached.join("\n")
    );
    let counts = Counts::of(&compared);
    println!("{}", counts.line("commands"));
    say_open(&compared);
    assert_eq!(counts.wrong + counts.other_path, 0, "{}", report(&compared));
    let Counts {
        loadable,
        loadable_open,
        ..
    } = counts;
    assert!(
        loadable_open * 100 <= loadable * OPEN_IMAGES,
        "{loadable_open} of {loadable} loadable images are open"
    );
}

#[test]
fn a_statement_anywhere_is_read_as_it_runs() {
    let Some(base) = base() else { return };
    let cases = corpus();
    let seed = seed();
    println!("CUPTI_AUDIT_SEED={seed} repeats these mutants");
    let mut mutants = Mutants::new(&cases, seed);
    let mut compared: Vec<Compared> = Vec::new();
    let mut unreached = 0;
    while compared.len() < MUTANTS {
        let drawn = (compared.len()..MUTANTS).map(|_| mutants.draw()).collect();
        let (reached, other): (Vec<Compared>, Vec<Compared>) = compare(&base, drawn)
            .into_iter()
            .partition(|one| one.real.loaded.is_some());
        // A statement may end the script, and the report does not cover a program that never starts.
        unreached += other.len();
        compared.extend(reached);
    }
    let counts = Counts::of(&compared);
    println!("{}", counts.line(&format!("mutants (seed {seed})")));
    println!("  {unreached} more ended before the program");
    say_open(&compared);
    assert_eq!(
        counts.wrong + counts.other_path,
        0,
        "seed {seed}: {}",
        report(&compared)
    );
    assert!(
        counts.open * 100 <= counts.all * OPEN_MUTANTS,
        "{} of {} mutants are open",
        counts.open,
        counts.all
    );
}

/// The requested seed, or a new one.
fn seed() -> u64 {
    if let Ok(text) = std::env::var("CUPTI_AUDIT_SEED") {
        return text.parse().unwrap();
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::from(now.subsec_nanos()) ^ now.as_secs()
}

fn say_open(compared: &[Compared]) {
    if std::env::var_os("CUPTI_AUDIT_OPEN").is_some() {
        print!("{}", open_lines(compared));
    }
}
