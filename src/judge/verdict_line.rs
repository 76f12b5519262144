//! The first line of a report: the program that fails and why, or that nothing fails. It agrees with the exit code.

use std::collections::BTreeSet;

use super::outcome::{AuditedImage, RunExit};
use super::rule::{Finding, Severity};
use crate::facts::{CuptiConsumer, CuptiStatus, FailureImpact};

/// The length of the reasons in the line, in bytes, from which further ones are only counted.
const LINE: usize = 200;
/// The end of the loader's message about a missing file.
const NOT_FOUND: &str = ": cannot open shared object file: No such file or directory";

impl AuditedImage {
    /// The verdict in one line.
    pub fn verdict(&self) -> String {
        if let Some(links) = &self.links {
            return links.verdict();
        }
        let words = match self.exit() {
            RunExit::Open => self.open_words(),
            RunExit::Clean | RunExit::Findings => self.decided_words(),
        };
        words.replace(NOT_FOUND, " is not found")
    }

    /// The assumptions that the verdict depends on, as a suffix.
    fn condition(&self) -> String {
        match self.facts.answers.assumptions.len() {
            0 => String::new(),
            _ if self.is_undecided() => String::new(),
            1 => " if 1 assumption holds".to_owned(),
            count => format!(" if {count} assumptions hold"),
        }
    }

    /// The text for exit code 2: the reason that the verdict is open.
    fn open_words(&self) -> String {
        let facts = &self.facts;
        let asked = match self.asked_names() {
            Some(names) => format!("cannot tell whether the image is ready for {names}"),
            None if self.loads() && !facts.is_open() => format!("{}, but not all was checked", self.library_words()),
            None => format!("cannot tell whether {} loads", facts.library.name),
        };
        let why = match (&facts.layers.unread, facts.gaps.first()) {
            (Some(layer), _) => format!("{layer} was not read"),
            (None, Some(gap)) => format!("{}: {}", gap.what, gap.why),
            (None, None) => "an assumption is not accepted".to_owned(),
        };
        format!("{asked}: {why}")
    }

    /// The text for exit codes 0 and 1: the deciding finding, or what works.
    fn decided_words(&self) -> String {
        let failing = self.worst(|finding| self.fail_on.fails(finding) || finding.severity == Severity::Error);
        if let Some(finding) = failing {
            return self.failure_words(finding) + &self.condition();
        }
        let mut words = match self.asked_names() {
            // Only suppressed errors are left. The mark depends on the same two.
            Some(names) if self.suppressed_errors() > 0 => format!("not ready for {names}"),
            Some(names) => format!("ready for {names}"),
            None => self.library_words(),
        };
        let suppressed = match self.suppressed_errors() {
            0 => String::new(),
            1 => "; 1 error is suppressed".to_owned(),
            count => format!("; {count} errors are suppressed"),
        };
        words += &(self.condition() + &suppressed);
        let warnings = self.count(Severity::Warning);
        match self.worst(|finding| finding.severity == Severity::Warning) {
            Some(finding) if warnings == 1 => format!(
                "{words}; 1 warning: {}",
                self.with_others(&first_reasons(cause(finding)))
            ),
            Some(finding) => format!(
                "{words}; {warnings} warnings, first: {}",
                self.with_others(&first_reasons(cause(finding)))
            ),
            None if self.asked_names().is_some() => format!("{words}; {}", self.library_words()),
            None => words,
        }
    }

    /// The matching finding of the highest severity, preferring one that names the failing program.
    fn worst(&self, fits: impl Fn(&Finding) -> bool) -> Option<&Finding> {
        // Findings are sorted, and `min_by_key` returns the first of equal keys.
        let fitting = self.counting().filter(|finding| fits(finding));
        fitting.min_by_key(|finding| (std::cmp::Reverse(finding.severity), finding.verdict.is_none()))
    }

    fn failure_words(&self, finding: &Finding) -> String {
        let cause = self.with_others(&first_reasons(cause(finding)));
        match self.asked_names() {
            _ if finding.verdict.is_some() => cause,
            Some(names) => format!("not ready for {names}: {cause}"),
            None if self.loads() => cause,
            None => format!("{} does not load{}", self.facts.library.name, self.reason_words(&cause)),
        }
    }

    /// Why the library does not load, or that no program asks for the absent library.
    fn reason_words(&self, cause: &str) -> String {
        let facts = &self.facts;
        let is_asked = !facts.answers.consumers.is_empty() || !facts.answers.undecided.is_empty();
        match facts.answers.status.as_is {
            CuptiStatus::Absent if !is_asked => "; no program of the image asks for it".to_owned(),
            _ => format!(": {cause}"),
        }
    }

    /// The requested phases and tools.
    fn asked_names(&self) -> Option<String> {
        let tools = self.tools.iter().map(|tool| tool.name.as_str());
        let names: Vec<&str> = self.phases.iter().map(String::as_str).chain(tools).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Appends the programs that lack the library and that the text does not name yet.
    fn with_others(&self, words: &str) -> String {
        let impacts = [FailureImpact::Import, FailureImpact::Gpu, FailureImpact::Profiling];
        let mut all = words.to_owned();
        for impact in impacts {
            let names = self.lost_programs(impact, words);
            if !names.is_empty() {
                all = format!("{all}; {names} {}", impact.failure_words());
            }
        }
        all
    }

    /// The programs with a profile that a requested phase must serve and that do not get the library.
    fn lost_programs(&self, impact: FailureImpact, named: &str) -> String {
        let demands = self.asked_plans().flat_map(|plan| &plan.unmet);
        let numbers: BTreeSet<usize> = demands.filter_map(|demand| demand.consumer).collect();
        let consumers = numbers
            .into_iter()
            .filter_map(|number| self.facts.answers.consumers.get(number));
        let lost = consumers.filter(|it| it.required == impact && it.profile.is_some() && it.misses_library());
        names(lost.filter(|consumer| !named.contains(&consumer.name)))
    }

    fn loads(&self) -> bool {
        let facts = &self.facts;
        let is_part = || facts.answers.consumers.is_empty() && facts.programs_with_library().next().is_some();
        facts.answers.status.as_is == CuptiStatus::Loadable || self.served().next().is_some() || is_part()
    }

    fn served(&self) -> impl Iterator<Item = &CuptiConsumer> {
        let consumers = self.facts.answers.consumers.iter();
        consumers.filter(|consumer| consumer.open.is_none() && consumer.is_served())
    }

    /// Whether the library loads, and for which programs.
    fn library_words(&self) -> String {
        let facts = &self.facts;
        let name = &facts.library.name;
        let served = names(self.served());
        match facts.answers.status.as_is {
            _ if facts.answers.status_is_open.is_some() && served.is_empty() => {
                format!("cannot tell whether {name} loads")
            }
            _ if facts.answers.status_is_open.is_some() => format!("{name} loads for {served}; not known for others"),
            CuptiStatus::Loadable => format!("{name} loads"),
            // Programs with their own search paths load it where a plain dlopen does not.
            CuptiStatus::Unloadable if !served.is_empty() => format!("{name} loads for {served} only"),
            CuptiStatus::Unloadable if facts.answers.status.nvidia == CuptiStatus::Loadable => {
                format!("{name} loads only once the container runtime has run ldconfig")
            }
            CuptiStatus::Unloadable if !facts.answers.undecided.is_empty() => {
                format!("{name} is in the image; whether a program loads it is known only at run time")
            }
            CuptiStatus::Unloadable => format!("{name} is in the image, but does not load"),
            CuptiStatus::HeadersOnly | CuptiStatus::Absent => match names(facts.programs_with_library()).as_str() {
                "" => format!("{name} is not in the image"),
                programs => format!("{name} is part of {programs}"),
            },
        }
    }
}

/// The failing program and the reason, if the rule has such a text; else the finding's message.
fn cause(finding: &Finding) -> &str {
    finding.verdict.as_deref().unwrap_or(&finding.message)
}

/// The reasons that fit into a line; a program may lack dozens of libraries.
fn first_reasons(cause: &str) -> String {
    let reasons: Vec<&str> = cause.split("; ").collect();
    let (mut length, mut shown) = (0, 0);
    for reason in &reasons {
        length += reason.len();
        if shown > 0 && length > LINE {
            break;
        }
        shown += 1;
    }
    let first = reasons.get(..shown).unwrap_or_default().join("; ");
    match reasons.len() - shown {
        0 => first,
        more => format!("{first}; and {more} more"),
    }
}

/// The names of programs, without duplicates.
fn names<'a>(consumers: impl Iterator<Item = &'a CuptiConsumer>) -> String {
    let mut names: Vec<&str> = consumers.map(|consumer| consumer.name.as_str()).collect();
    // The objects of one program are adjacent.
    names.dedup();
    names.join(", ")
}
