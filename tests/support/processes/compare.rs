//! Compares a report's claims on an image with a run of its processes, if a run can refute them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::runner::{Outcome, Root};
use super::spec::{Content, ImageSpec, ProcessSpec};
use super::world::World;
use super::{audit, generate, layers};

/// The way in which a claim differs from a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// According to the report the process gets CUPTI, but it does not.
    FalseGets,
    /// The process gets another file than in the report.
    OtherFile,
    /// According to the report the process does not get CUPTI, but it does.
    FalseNot,
    /// The process gets CUPTI, and the report does not know the request.
    Unseen,
    /// The request fails, and the report does not know it.
    UnseenFailure,
    /// The image's status differs from the result of a program without search paths.
    Status,
    /// A copy is loadable in the report but not in the run, or the other way round.
    Copy,
    /// A phase passes, although a process that it requires fails.
    FalsePass,
}

impl Kind {
    /// The name in file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::FalseGets => "does-not-get",
            Self::OtherFile => "gets-another-file",
            Self::FalseNot => "gets-after-all",
            Self::Unseen => "gets-unseen",
            Self::UnseenFailure => "fails-unseen",
            Self::Status => "status",
            Self::Copy => "copy",
            Self::FalsePass => "false-pass",
        }
    }
}

/// A claim that a run refutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// How they differ.
    pub kind: Kind,
    /// Both sides in words.
    pub text: String,
}

/// The results for one image's claims.
#[derive(Debug, Clone, Default)]
pub struct Comparison {
    /// The number of processes that ran.
    pub processes: usize,
    /// The number of processes that got CUPTI.
    pub got: usize,
    /// The number of claims that a run could refute.
    pub claims: usize,
    /// Processes whose program never started, or whose result depends on an assumption in the report.
    pub unreached: usize,
    /// Processes whose result is open in the report.
    pub open: usize,
    /// The rules that fail a phase although every process gets CUPTI, once per phase.
    pub alarms: Vec<String>,
    /// Phases that fail because of needs other than libcupti, although every process gets it.
    pub demands: usize,
    /// Phases that fail while a process gets no CUPTI for a reason that the report leaves open or does not count.
    pub left_open: usize,
    /// Phases that pass.
    pub passes: usize,
    /// The refuted claims.
    pub differences: Vec<Difference>,
}

/// An object's result according to the report.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    Gets(String),
    Not(String),
    Open(String),
    Nothing,
}

/// An image, its report and its root, for the comparison with a run.
pub struct Case<'a> {
    /// The image.
    pub spec: &'a ImageSpec,
    /// The program's report.
    pub report: &'a Value,
    /// The unpacked image.
    pub root: &'a Root,
}

/// Compares images; one run audits all of them.
pub fn compare_all(world: &World, specs: &[ImageSpec]) -> Vec<Comparison> {
    let members: Vec<_> = specs
        .iter()
        .map(|spec| layers::members(spec, &world.compiler, world.base(spec)))
        .collect();
    let images: Vec<_> = specs
        .iter()
        .zip(&members)
        .map(|(spec, members)| audit::image(world, spec, members))
        .collect();
    let reports = audit::reports(&images);
    let compare = |((spec, members), report): ((&ImageSpec, &Vec<_>), &Value)| {
        let root = Root::new(world.base(spec), members, &[("judge", &world.probe)]);
        let case = Case {
            spec,
            report,
            root: &root,
        };
        case.compare(world)
    };
    specs.iter().zip(&members).zip(&reports).map(compare).collect()
}

impl Case<'_> {
    fn compare(&self, world: &World) -> Comparison {
        let commands: Vec<_> = self
            .spec
            .processes
            .iter()
            .map(|process| process.command.clone())
            .collect();
        let real = self.root.run(&world.runner, self.spec, &commands);
        let mut comparison = self.processes(&real);
        self.phases(&real, &mut comparison);
        // A changed start belongs to the program; the report does not say to which processes it applies.
        if !self.spec.features.iter().copied().any(generate::rules_start) {
            self.copies(world, &mut comparison);
        }
        comparison
    }

    /// Compares the result of each process.
    pub fn processes(&self, real: &[Outcome]) -> Comparison {
        let mut comparison = Comparison::default();
        for (process, real) in self.spec.processes.iter().zip(real) {
            let said = self.said(process);
            comparison.processes += 1;
            comparison.got += usize::from(matches!(real, Outcome::Gets(_)));
            comparison.claims += 1;
            let kind = match (&said, real) {
                (Said::Open(_), _) => {
                    comparison.open += 1;
                    continue;
                }
                (Said::Gets(ours), Outcome::Gets(real)) if ours == real => continue,
                (Said::Not(_), Outcome::Not(_)) => continue,
                (Said::Gets(_), _) if self.leaves_reaching(process, real) => {
                    comparison.unreached += 1;
                    continue;
                }
                (Said::Gets(_), Outcome::Gets(_)) => Kind::OtherFile,
                (Said::Gets(_), Outcome::Not(_)) => Kind::FalseGets,
                (Said::Not(_), Outcome::Gets(_)) => Kind::FalseNot,
                (Said::Nothing, Outcome::Gets(_)) => Kind::Unseen,
                // Without CUPTI in its name or in its result, this is not a request for CUPTI.
                (Said::Nothing, Outcome::Not(_)) if !self.names_cupti(&process.object) => continue,
                (Said::Nothing, Outcome::Not(_)) => Kind::UnseenFailure,
            };
            let text = format!(
                "{:?} for {}: ours {said:?}, real {real:?}",
                process.command, process.object
            );
            comparison.differences.push(Difference { kind, text });
        }
        comparison
    }

    /// Whether the program never started, so that no verdict applies, or the report assumes something about files that
    /// a script changes or about a launcher.
    fn leaves_reaching(&self, process: &ProcessSpec, real: &Outcome) -> bool {
        let list = |key: &str| self.report[key].as_array().into_iter().flatten();
        let assumes = list("assumptions").any(|one| {
            one["id"]
                .as_str()
                .is_some_and(|id| id.starts_with("files:") || id.starts_with("launcher@"))
        });
        let Outcome::Not(words) = real else { return assumes };
        let is_scripts = process
            .command
            .first()
            .is_some_and(|first| first.ends_with("entrypoint.sh"));
        let has_run = words.starts_with("fails ") || words.contains(process.object.as_str());
        let is_told = list("findings").any(|finding| finding["rule"] == "command-cannot-start");
        is_told || assumes || is_scripts && !has_run
    }

    /// Whether this message is that of a module that no Python can import.
    fn is_imported_by_nobody(&self, words: &str) -> bool {
        let findings = self.report["findings"].as_array().into_iter().flatten();
        let mut untold = findings.filter(|finding| finding["rule"] == "python-package-unreachable");
        let words = words.trim_start_matches("not-found: ");
        untold.any(|finding| {
            finding["message"]
                .as_str()
                .is_some_and(|message| message.ends_with(words))
        })
    }

    /// Whether an object opens or needs a name with `libcupti` in it.
    fn names_cupti(&self, object: &str) -> bool {
        let entries = self.spec.layers.iter().filter_map(|layer| layer.get(object));
        let mut names = entries.filter_map(|entry| match &entry.is {
            Content::Object(object) if object.name.is_empty() => Some("libcupti"),
            Content::Object(object) => Some(object.name.as_str()),
            Content::Text(text) => Some(text.as_str()),
            _ => None,
        });
        names.any(|name| name.contains("libcupti"))
    }

    fn said(&self, process: &ProcessSpec) -> Said {
        let object = self.root.real_path(&process.object);
        let mut undecided = self.report["undecided"].as_array().into_iter().flatten();
        if let Some(open) = undecided.find(|entry| entry["object"].as_str() == object.as_deref()) {
            return Said::Open(open["why"].as_str().unwrap().to_owned());
        }
        let consumers = self.report["consumers"].as_array().into_iter().flatten();
        let mut own = consumers.filter(|consumer| consumer["object"].as_str() == object.as_deref());
        let Some(consumer) = own.next() else {
            return Said::Nothing;
        };
        let outcome = consumer["outcome"]["as-is"].as_str().unwrap();
        let words = consumer["message"].as_str().unwrap_or_default().to_owned();
        let lacks = consumer["missing_symbols"].as_array();
        match outcome {
            "loaded" if lacks.is_some_and(|symbols| !symbols.is_empty()) => Said::Not("it lacks symbols".to_owned()),
            "loaded" => {
                let path = consumer["path"].as_str().unwrap_or_default();
                // The loader reports a path relative to the working directory.
                let dir = process.directory.as_ref().or(self.spec.working_dir.as_ref());
                let dir = dir.map_or("/", String::as_str);
                let path = if path.starts_with('/') {
                    path.to_owned()
                } else {
                    format!("{dir}/{path}")
                };
                Said::Gets(self.root.real_path(&path).unwrap_or(path))
            }
            "not-found" | "refused" | "not-permitted" | "provided-at-runtime" => {
                Said::Not(format!("{outcome}: {words}"))
            }
            _ => Said::Open(format!("{outcome}: {words}")),
        }
    }

    /// Compares the image's status, and whether each copy is loadable, with the results of a program without search
    /// paths.
    fn copies(&self, world: &World, comparison: &mut Comparison) {
        let copies = self.report["cupti"]["copies"].as_array().unwrap();
        let open = |value: &Value| value.to_string().contains("cannot be determined");
        if open(&self.report["consumers"]) || open(&self.report["cupti"]) {
            return;
        }
        let sonames = copies.iter().filter_map(|copy| copy["soname"].as_str());
        // A program that requests a bare name shows which CUPTI the image expects.
        let consumers = self.report["consumers"].as_array().into_iter().flatten();
        let wanted = consumers.filter_map(|consumer| consumer["for"].as_str());
        let wanted = wanted.filter(|name| name.starts_with("libcupti.so"));
        let sonames: BTreeSet<&str> = sonames.chain(["libcupti.so.12", "libcupti.so"]).chain(wanted).collect();
        let sonames: Vec<&str> = sonames.into_iter().collect();
        let ask = |name: &&str| vec!["/judge".to_owned(), (*name).to_owned()];
        let commands: Vec<_> = sonames.iter().map(ask).collect();
        let real = self.root.run(&world.runner, self.spec, &commands);
        let opens = real.iter().any(|outcome| matches!(outcome, Outcome::Gets(_)));
        let status = self.report["cupti"]["status"].as_str().unwrap();
        comparison.claims += 1;
        if (status == "loadable") != opens {
            let text = format!("status {status}: {sonames:?} gives {real:?}");
            comparison.differences.push(Difference {
                kind: Kind::Status,
                text,
            });
        }
        for copy in copies {
            let soname = copy["soname"].as_str();
            let path = copy["real_path"].as_str().unwrap();
            let ours = copy["loadable"]["as-is"].as_bool().unwrap();
            let at = sonames.iter().position(|name| Some(*name) == soname);
            let outcome = at.and_then(|at| real.get(at));
            comparison.claims += 1;
            if ours != (outcome == Some(&Outcome::Gets(path.to_owned()))) {
                let text = format!("{path} loadable {ours}: {soname:?} gives {outcome:?}");
                comparison.differences.push(Difference { kind: Kind::Copy, text });
            }
        }
    }

    /// Compares the phases: if one passes, every process it requires must have worked.
    fn phases(&self, real: &[Outcome], comparison: &mut Comparison) {
        // The report lists processes whose result is open, and modules that nothing can import. A phase passes without
        // them.
        let is_told = |number: &usize| match self.said(&self.spec.processes[*number]) {
            Said::Open(_) => false,
            Said::Not(words) => !self.is_imported_by_nobody(&words),
            _ => true,
        };
        let fails = |number: &usize| match &real[*number] {
            Outcome::Gets(_) => false,
            not @ Outcome::Not(_) => is_told(number) && !self.leaves_reaching(&self.spec.processes[*number], not),
        };
        let all = 0..real.len();
        let failing: Vec<usize> = all.filter(fails).collect();
        let links = |number: &&usize| {
            let object = &self.spec.processes[**number].object;
            let consumers = self.report["consumers"].as_array().into_iter().flatten();
            let mut own = consumers.filter(|consumer| consumer["object"] == object.as_str());
            own.any(|consumer| consumer["required"] == "import")
        };
        // The kernel or the loader ends the process before its own code runs.
        let starts = [
            "cannot start",
            "error while loading shared",
            "symbol lookup error",
            " (-11)",
            " (-7)",
        ];
        let is_start = |words: &str| starts.iter().any(|start| words.contains(start));
        let ends = |number: &&usize| **number == 0 && matches!(&real[0], Outcome::Not(words) if is_start(words));
        for (phase, verdict) in self.report["phases"].as_object().unwrap() {
            let counts: Vec<usize> = match phase.as_str() {
                "profiling" => failing.clone(),
                // A program that opens CUPTI when profiling begins works without it. The container's command must start
                // all the same.
                _ => failing
                    .iter()
                    .filter(|number| links(number) || ends(number))
                    .copied()
                    .collect(),
            };
            match verdict["verdict"].as_str().unwrap() {
                "pass" => {
                    comparison.passes += 1;
                    comparison.claims += 1;
                    if let Some(first) = counts.first() {
                        let process = &self.spec.processes[*first];
                        let text = format!("{phase} passes, and {:?} gives {:?}", process.command, real[*first]);
                        comparison.differences.push(Difference {
                            kind: Kind::FalsePass,
                            text,
                        });
                    }
                }
                "fail" if failing.is_empty() => {
                    let because = verdict["because"].to_string();
                    if real.iter().any(|outcome| matches!(outcome, Outcome::Not(_))) {
                        comparison.left_open += 1;
                    } else if because.contains("phase-need-unmet") {
                        comparison.demands += 1;
                    } else {
                        comparison.alarms.push(because);
                    }
                }
                _ => {}
            }
        }
    }
}
