//! Failures that end a process before its program can request a library: the kernel does not execute the program, or
//! the loader does not find or accept another dependency.

use crate::facts::objects::credentials::{chmod_command, opening_commands};
use crate::facts::objects::load_answer::{LoadAnswer, Search};
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::{elf_at, unbound_symbols, unresolved_objects};
use crate::knowledge::RequestKind;
use image_linkage::elf::{ByteString, ElfFacts};
use image_linkage::escape;
use image_linkage::loader::{LoadResolution, LoadedObject, RequestOutcome, SearchStep, StartMode, UnresolvedRequest};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{AccessDenial, FileUse, LookupError};

/// A failure that ends a process before its program's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFailure {
    /// The answer to every request of the process: the message of the kernel or the loader, and the search for the first
    /// missing object.
    pub answer: LoadAnswer,
    /// The fix, as far as the image shows one.
    pub cure: FailureCure,
    /// Whether the library itself is found, as far as known.
    pub finds_library: bool,
    /// The file that it would get if it started, with links resolved.
    pub would_get: Option<RootPath>,
    /// Whether a known process fails; otherwise a library without a known loader.
    pub is_process: bool,
    /// The names that no object satisfies.
    pub missing: Vec<ByteString>,
}

/// The fix for a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureCure {
    /// As a sentence.
    pub words: String,
    /// As shell commands to run as root in the image; empty if no command fixes it.
    pub commands: Vec<String>,
}

impl<T: Into<String>> From<T> for FailureCure {
    fn from(words: T) -> Self {
        Self {
            words: words.into(),
            commands: Vec::new(),
        }
    }
}

impl StartFailure {
    /// Returns a failure if the kernel cannot start the program at `path` with its interpreter.
    pub(crate) fn of_interpreter(context: &ProcessContext, path: &RootPath) -> Option<Self> {
        let elf = elf_at(&context.rootfs, path).filter(|_| context.start_mode(path) == StartMode::Executed)?;
        let fault = context.interpreter_fault(elf)?;
        let interpreter = escape::escape_bytes(&fault.interpreter);
        Some(Self::without_search(
            fault.message(path),
            format!(
                "use a base image that has {interpreter}; if the image has another C library or processor, a build for these also works"
            ),
            fault.outcome,
        ))
    }

    /// The failure of a package whose environment is at fault: the user cannot list it, or its Python does not start.
    pub(crate) fn of_python(context: &ProcessContext, site: &RootPath, why: &str) -> Self {
        let cure = permission_cure(context, site, &[FileUse::Execute, FileUse::Read]).unwrap_or_else(|| {
            "install that Python, copy it from the stage that made the environment, or make the environment again \
             with a Python of the image"
                .into()
        });
        Self::without_search(why.to_owned(), cure, RequestOutcome::NotFound)
    }

    /// Returns a failure if the program at `path` is for another processor. A 64-bit processor also runs its 32-bit
    /// programs.
    pub(crate) fn of_machine(context: &ProcessContext, path: &RootPath) -> Option<Self> {
        let elf = elf_at(&context.rootfs, path)?;
        let own = context.linker.as_ref()?.arch;
        if own.runs(elf) {
            return None;
        }
        let words = format!(
            "{path}: exec format error: it is for another processor than {}",
            own.name
        );
        let cure = "use the build for the processor of this image";
        Some(Self::without_search(words, cure, RequestOutcome::Refused))
    }

    /// The message of the kernel or the loader.
    pub fn words(&self) -> &str {
        self.answer.message()
    }

    /// Returns the failure that keeps the program at `path` from starting.
    pub(crate) fn of_program(context: &ProcessContext, path: &RootPath) -> Option<Self> {
        if let Some(failure) = Self::of_machine(context, path) {
            return Some(failure);
        }
        // The kernel starts it without a loader.
        if elf_at(&context.rootfs, path).is_some_and(ElfFacts::is_static) {
            return None;
        }
        Self::of_interpreter(context, path).or_else(|| {
            let loaded = context.start_program(&path.absolute())?;
            let failures: Vec<UnresolvedRequest> = unresolved_objects(&loaded).cloned().collect();
            Self::of_loader(&loaded, &failures)
        })
    }

    /// Same for a file of a profiling tool; `None` for libraries and scripts.
    pub(crate) fn of_tool(context: &ProcessContext, path: &RootPath) -> Option<Self> {
        if !elf_at(&context.rootfs, path)?.is_program() {
            return None;
        }
        Self::of_program(context, path)
    }

    /// Returns the dependencies other than the library that the loader does not find or accept.
    pub(crate) fn of_loader(loaded: &LoadResolution, failures: &[UnresolvedRequest]) -> Option<Self> {
        let first = failures.first()?;
        // An object with a missing symbol is mapped, so it is not missing.
        let absent = failures.iter().filter(|failure| unbound_symbols(failure).is_none());
        let mut missing: Vec<ByteString> = absent.map(|failure| failure.name.clone()).collect();
        missing.sort();
        missing.dedup();
        let mut words = join_words(failures.iter().map(|failure| &failure.message));
        let denial = failures
            .iter()
            .flat_map(|failure| &failure.trace)
            .find_map(SearchStep::denial);
        // The loader goes on where it may not look, and says at the end that there is no such file.
        if let Some(denial) = denial.filter(|_| !words.contains("Permission denied")) {
            words = format!("{words} (permission denied: {denial})");
        }
        let cure = match (denial, first.outcome) {
            (Some(denial), _) => chmod(denial),
            // Without requester and search, the name is a Python module's and not one for the loader.
            (None, RequestOutcome::NotFound) if first.requested_by.is_none() && first.trace.is_empty() => {
                "install the package that contains it with the Python that imports it".into()
            }
            (None, RequestOutcome::NotFound) => {
                let needs = join_words(failures.iter().map(|failure| need_words(loaded, failure)));
                format!(
                    "put {needs} into a directory that the loader searches: copy it from the stage that linked the program, \
                     or install the package that contains it"
                )
                .into()
            }
            _ if unbound_symbols(first).is_some() => {
                "use builds that belong together: the library that it was linked with has them, and the one in the \
                 image is of another version"
                    .into()
            }
            _ => "replace the file that the loader refuses with the build that the program was linked with".into(),
        };
        let search = Search::new(&first.trace, &loaded.objects, None);
        Some(Self {
            missing,
            ..Self::new(LoadAnswer::failed(first.outcome, words, search), cure)
        })
    }

    /// A failure without a search by the loader.
    fn without_search(words: String, cure: impl Into<FailureCure>, outcome: RequestOutcome) -> Self {
        Self::new(LoadAnswer::failed(outcome, words, Search::default()), cure.into())
    }

    fn new(answer: LoadAnswer, cure: FailureCure) -> Self {
        Self {
            answer,
            cure,
            finds_library: true,
            would_get: None,
            is_process: true,
            missing: Vec::new(),
        }
    }
}

/// The maximum length of the loader's messages for one program, in bytes. Reports repeat them.
const TOLD: usize = 4096;

/// Joins the loader's messages for several requests: the first, and as many others as fit.
pub fn join_words(messages: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let (mut told, mut left_out) = (String::new(), 0);
    for message in messages {
        let message = message.as_ref();
        if told.is_empty() {
            // No existing file has a name this long (Linux `PATH_MAX`).
            told.push_str(message.get(..message.floor_char_boundary(TOLD)).unwrap_or_default());
        } else if told.len() + message.len() <= TOLD {
            told += "; ";
            told += message;
        } else {
            left_out += 1;
        }
    }
    match left_out {
        0 => told,
        _ => format!("{told}; and {left_out} more"),
    }
}

/// The unresolved requests of a load, except the library and its own dependencies if it is a dependency itself.
pub(crate) fn other_failures(
    loaded: &LoadResolution,
    names: &[ByteString],
    kind: RequestKind,
) -> Vec<UnresolvedRequest> {
    let library = match kind {
        RequestKind::Needed => names.first().and_then(|name| loaded.object_for(name)),
        RequestKind::Dlopen => None,
    };
    let mut others = Vec::new();
    for failure in unresolved_objects(loaded) {
        let is_of_library =
            library.is_some_and(|library| is_requested_below(loaded, requester(loaded, failure), library));
        if !names.contains(&failure.name) && !is_of_library {
            others.push(failure.clone());
        }
    }
    others
}

/// The failure of a dependency of the library that satisfies `name`. The library causes it, not the requester.
pub(crate) fn failure_of_library<'l>(loaded: &'l LoadResolution, name: &ByteString) -> Option<&'l UnresolvedRequest> {
    let library = loaded.object_for(name)?;
    unresolved_objects(loaded).find(|failure| is_requested_below(loaded, requester(loaded, failure), library))
}

/// Whether an object was mapped because of another one, or is that one.
fn is_requested_below(loaded: &LoadResolution, object: Option<&LoadedObject>, above: &LoadedObject) -> bool {
    let mut object = object;
    // No chain is longer than the number of objects.
    for _ in 0..=loaded.objects.len() {
        match object {
            Some(one) if one.real_path == above.real_path => return true,
            Some(one) => object = one.requested_by.and_then(|number| loaded.objects.get(number)),
            None => return false,
        }
    }
    false
}

/// The fix that lets the image's user use a file in these ways; `None` if the user already can.
pub(crate) fn permission_cure(context: &ProcessContext, path: &RootPath, ways: &[FileUse]) -> Option<FailureCure> {
    let user = &context.user.credentials;
    ways.iter().find_map(|usage| {
        let Err(LookupError::Denied(denial)) = context.rootfs.open_as(&path.absolute(), user, *usage) else {
            return None;
        };
        Some(FailureCure {
            commands: opening_commands(&context.rootfs, user, path, *usage),
            ..open_words(&denial)
        })
    })
}

/// The fix for a denial.
fn chmod(denial: &AccessDenial) -> FailureCure {
    FailureCure {
        commands: chmod_command(&denial.path, denial.usage).into_iter().collect(),
        ..open_words(denial)
    }
}

fn open_words(denial: &AccessDenial) -> FailureCure {
    format!("let the image's user access it: {denial}").into()
}

/// A missing name with its requester.
fn need_words(loaded: &LoadResolution, failure: &UnresolvedRequest) -> String {
    let name = escape::escape_bytes(&failure.name);
    match requester(loaded, failure) {
        Some(object) => format!("{name}, which {} needs,", object.real_path),
        None => name,
    }
}

fn requester<'l>(loaded: &'l LoadResolution, failure: &UnresolvedRequest) -> Option<&'l LoadedObject> {
    loaded.objects.get(failure.requested_by?)
}

#[cfg(test)]
mod tests {
    use super::{TOLD, join_words};

    #[test]
    fn of_many_words_the_first_are_told_and_how_many_more_there_are() {
        assert_eq!(join_words(Vec::<&str>::new()), "");
        assert_eq!(join_words(["a", "b"]), "a; b");
        let long = "é".repeat(TOLD);
        assert_eq!(join_words([&long]), "é".repeat(TOLD / 2));
        let half = "x".repeat(TOLD / 2);
        let all = ["a", &half, &half, &half, "b"];
        assert_eq!(join_words(all), format!("a; {half}; b; and 2 more"));
    }
}
