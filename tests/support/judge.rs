//! Asks the audit and the real loader the same questions, and lists their differences.

use std::process::Command;

use cupti_audit::facts::{
    CuptiConsumer, CuptiCopy, ImageFacts, ProcessContext, RequestKind, World, opened_object, unresolved_objects,
};
use image_linkage::elf::ByteString;
use image_linkage::loader::LoadResolution;

use crate::chroot::{Answer, Root, answer, is_of_every_process};

/// The signal for reads beyond the end of a mapped file.
const SIGBUS: i32 = 7;

/// The names that are tested in every image.
const NAMES: [&str; 4] = ["libcupti.so", "libcupti.so.12", "libcupti.so.11.8", "libnvperf_host.so"];

/// The questions about one image, and the answers that differ.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The number of questions.
    pub questions: usize,
    /// The differences in words.
    pub differences: Vec<String>,
}

/// The real loader in a root file system, with the image's environment.
pub struct Judge<'a> {
    /// The root file system.
    pub root: &'a Root,
    /// The environment.
    pub env: &'a [(&'a str, &'a str)],
    /// The working directory.
    pub working_dir: &'a str,
}

impl Judge<'_> {
    /// Compares all facts of one world.
    pub fn compare(&self, facts: &ImageFacts, world: World, verdict: &mut Verdict) {
        let context = facts.contexts.get(world);
        let mut ask = |what: String, ours: Answer, real: Answer| {
            verdict.questions += 1;
            if ours != real {
                let world = world.name();
                verdict
                    .differences
                    .push(format!("{world}: {what}\n  ours {ours:?}\n  real {real:?}"));
            }
        };
        for name in names(facts) {
            let text = text(&name);
            ask(
                format!("dlopen {text}"),
                ours(&context.open_plain(&name)),
                self.open("/probe", &text, None),
            );
        }
        for copy in &facts.answers.copies {
            let path = copy.real_path.to_string();
            ask(
                format!("dlopen {path}"),
                ours(copy.by_path.get(world)),
                self.open("/probe", &path, None),
            );
            let loadable = self.is_loadable(copy);
            ask(
                format!("{path} is loadable"),
                yes(*copy.loadable.get(world)),
                yes(loadable),
            );
        }
        for consumer in &facts.answers.consumers {
            let what = format!("{} asks", consumer.object);
            ask(what, consumer_gets(context, consumer), self.consumer(consumer));
            let what = format!("{} with every symbol bound", consumer.object);
            ask(what, symbols(consumer, world), self.symbols(consumer));
        }
    }

    /// The result of dlopen of `name`, or of the object that `function` in `name` opens.
    pub fn open(&self, program: &str, name: &str, function: Option<&str>) -> Answer {
        let mut command = self.process(&[program, "lazy", name]);
        answer(&command.args(function).output().unwrap())
    }

    fn process(&self, words: &[&str]) -> Command {
        let mut all = vec!["-C".to_owned(), self.working_dir.to_owned()];
        all.extend(self.env.iter().map(|(key, value)| format!("{key}={value}")));
        all.extend(words.iter().map(|word| (*word).to_owned()));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        self.root.asked(words.first().unwrap(), &all)
    }

    fn is_loadable(&self, copy: &CuptiCopy) -> bool {
        let Some(soname) = &copy.soname else {
            return false;
        };
        let Answer::Opened { path, .. } = self.open("/probe", &text(soname), None) else {
            return false;
        };
        let output = self
            .root
            .command(&["-C", self.working_dir, "/usr/bin/realpath", &path])
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).trim_end() == copy.real_path.to_string()
    }

    /// The CUPTI that the consumer gets: its path, or the loader's message.
    fn consumer(&self, consumer: &CuptiConsumer) -> Answer {
        let function = match consumer.request_kind {
            RequestKind::Needed => None,
            RequestKind::Dlopen => Some("open_cupti"),
        };
        match self.open(&program(consumer), &consumer.object.to_string(), function) {
            Answer::Opened { objects, .. } => {
                // Several copies may be mapped; the consumer uses the first, which was mapped for its name.
                let path = objects
                    .into_iter()
                    .find(|path| path.contains("/libcupti"))
                    .unwrap_or_default();
                Answer::Opened {
                    path,
                    objects: Vec::new(),
                }
            }
            other => other,
        }
    }

    /// Whether dlopen with all symbols bound works, or the missing symbol.
    fn symbols(&self, consumer: &CuptiConsumer) -> Answer {
        let object = consumer.object.to_string();
        let output = self.process(&[&program(consumer), "now", &object]).output().unwrap();
        match answer(&output) {
            Answer::Failed(words) => {
                let symbol = words
                    .split_once("undefined symbol: ")
                    .map(|(_, rest)| rest.split(',').next());
                symbol
                    .flatten()
                    .map_or_else(|| yes(true), |symbol| Answer::Failed(symbol.to_owned()))
            }
            _ => yes(true),
        }
    }
}

/// The program that loads the consumer: the image's own if it is a probe in `/opt`.
fn program(consumer: &CuptiConsumer) -> String {
    let own = consumer.program.as_ref().map(ToString::to_string);
    own.filter(|path| path.starts_with("/opt/"))
        .unwrap_or_else(|| "/probe".to_owned())
}

fn names(facts: &ImageFacts) -> Vec<ByteString> {
    let mut names: Vec<ByteString> = NAMES.iter().map(|name| name.as_bytes().into()).collect();
    names.extend([
        facts.answers.plain.as_is.name.clone(),
        facts.answers.plain.nvidia.name.clone(),
    ]);
    names.extend(facts.answers.copies.iter().filter_map(|copy| copy.soname.clone()));
    names.sort();
    names.dedup();
    names
}

/// The audit's result in the form of the real loader's answer.
pub fn ours(resolution: &LoadResolution) -> Answer {
    match (
        resolution.loads(),
        opened_object(resolution),
        unresolved_objects(resolution).next(),
    ) {
        (true, Some(opened), _) => Answer::Opened {
            path: text(&opened.path),
            objects: objects(resolution),
        },
        (_, _, Some(failure)) => failed(&failure.message),
        _ => Answer::Failed("nothing was said".to_owned()),
    }
}

/// The paths of the objects, without those in every process.
pub fn objects(resolution: &LoadResolution) -> Vec<String> {
    let paths = resolution.objects.iter().map(|object| text(&object.path));
    paths.filter(|path| !is_of_every_process(path)).collect()
}

fn consumer_gets(context: &ProcessContext, consumer: &CuptiConsumer) -> Answer {
    let gets = consumer.outcome.get(context.world);
    match (&gets.answer.result, gets.other_failures.first()) {
        (Ok(file), None) => Answer::Opened {
            path: text(&file.path),
            objects: Vec::new(),
        },
        (Ok(_), Some(other)) => failed(&other.message),
        (Err(failure), _) => failed(&failure.message),
    }
}

fn symbols(consumer: &CuptiConsumer, world: World) -> Answer {
    let missing = consumer.outcome.get(world).missing_symbols.first();
    missing.map_or_else(|| yes(true), |symbol| Answer::Failed(text(symbol)))
}

fn failed(words: &str) -> Answer {
    // In these layouts, only truncated files cannot be determined.
    if words.contains("SIGBUS") || words.ends_with("cannot be determined") {
        Answer::Died(SIGBUS)
    } else {
        Answer::Failed(words.to_owned())
    }
}

fn yes(answer: bool) -> Answer {
    Answer::Failed(if answer { "yes" } else { "no" }.to_owned())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
