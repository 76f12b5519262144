//! Tries the request of an object in the processes that may load it.

use super::cupti_consumer::CuptiConsumer;
use super::library_request::ConsumerRequest;
use super::object_loader::{KnownProfiles, LibraryUser, LibraryUsers, ObjectLinks, ObjectLoader};
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::is_undetermined;
use crate::facts::objects::world::ByWorld;
use crate::facts::software::companions::CompanionRequest;
use crate::facts::software::consumer_outcome::ConsumerOutcome;
use crate::facts::software::cupti_files::CuptiFiles;
use crate::facts::software::process_variants::{AnswerBasis, ProcessVariants};
use crate::knowledge::{ConsumerProfile, FailureImpact, Knowledge, RequestKind};
use image_linkage::elf::ByteString;
use image_linkage::escape;
use image_linkage::loader::RequestOutcome;
use image_linkage::path::RootPath;
use python_path::{PythonDistribution, is_source};

/// What all trials of an image share.
pub(crate) struct TrialCase<'c> {
    pub contexts: &'c ByWorld<ProcessContext>,
    pub found: &'c CuptiFiles,
    pub knowledge: &'c Knowledge,
    /// The first profile that matches an object applies.
    pub profiles: &'c [ConsumerProfile],
    pub distributions: &'c [PythonDistribution],
    /// The companion libraries that are requested beside the library.
    pub companions: &'c [CompanionRequest],
    /// Other ways in which processes may start.
    pub variants: ProcessVariants,
    pub users: LibraryUsers<'c>,
    pub links: ObjectLinks<'c>,
}

impl TrialCase<'_> {
    pub(super) fn profile_of(&self, object: &RootPath) -> Option<&ConsumerProfile> {
        self.profiles.iter().find(|profile| profile.fits(object))
    }

    /// The request of an object for these names, from the process that is known to load it.
    pub(super) fn request<'a>(
        &'a self,
        object: &'a RootPath,
        request_kind: RequestKind,
        names: &'a [ByteString],
    ) -> ConsumerRequest<'a> {
        ConsumerRequest {
            library: self.knowledge.library,
            object,
            request_kind,
            names,
            known: KnownProfiles {
                own: self.profile_of(object),
                before: None,
                all: self.profiles,
            },
            companions: self.companions,
            user: None,
            opened_as: None,
        }
    }
}

/// The trial of one request. A step chooses the process or adds a doubt; none removes a doubt.
pub(super) struct ConsumerTrial<'a, 'c> {
    case: &'a TrialCase<'c>,
    request: ConsumerRequest<'a>,
    loader: ObjectLoader<'a>,
    outcome: ByWorld<ConsumerOutcome>,
    /// Why the outcome in the image as it is cannot be determined statically.
    open: Option<String>,
    other_copies: Option<String>,
    basis: AnswerBasis,
}

impl<'a, 'c> ConsumerTrial<'a, 'c> {
    pub fn run(case: &'a TrialCase<'c>, request: ConsumerRequest<'a>) -> CuptiConsumer {
        let mut trial = Self::ask_in_both_worlds(case, request);
        trial.choose_process();
        trial.vary_environment();
        trial.doubt(case.contexts.as_is.budget_end());
        trial.vary_link();
        trial.doubt_damage();
        trial.finish()
    }

    fn ask_in_both_worlds(case: &'a TrialCase<'c>, request: ConsumerRequest<'a>) -> Self {
        Self {
            outcome: case.contexts.map(|context| request.resolve(context)),
            loader: ObjectLoader::find(&case.contexts.as_is, request.object),
            case,
            request,
            open: None,
            other_copies: None,
            basis: AnswerBasis::default(),
        }
    }

    fn doubt(&mut self, why: Option<String>) {
        self.open = self.open.take().or(why);
    }

    /// Selects the process in which to judge a library without a known loader: the first user whose process gets the
    /// library. If the library resolves by itself, the first user counts, and only if none of the users starts.
    fn choose_process(&mut self) {
        if !matches!(self.loader, ObjectLoader::Unknown) {
            return;
        }
        let (case, object) = (self.case, self.request.object);
        let context = &case.contexts.as_is;
        let mut users = case.users.of(context, object).into_iter();
        let chosen = if self.outcome.as_is.answer.is_loaded() {
            let first = users.clone().next();
            if users.any(|user| self.by_user(user).resolve(context).start_failure.is_none()) {
                return;
            }
            first
        } else {
            // A program's search paths apply to its libraries' dlopen calls, and the objects that it has mapped are
            // reused.
            users.find(|user| {
                let outcome = self.by_user(*user).resolve(context);
                outcome.answer.is_loaded() && outcome.start_failure.is_none()
            })
        };
        if let Some(user) = chosen {
            self.request = self.by_user(user);
            self.loader = ObjectLoader::find(context, user.object);
            self.outcome = case.contexts.map(|context| self.request.resolve(context));
        }
    }

    fn by_user(&self, user: LibraryUser<'a>) -> ConsumerRequest<'a> {
        ConsumerRequest {
            user: Some(user),
            ..self.request
        }
    }

    /// Tries other environments of the command, ldconfig, and variables of the run.
    fn vary_environment(&mut self) {
        let variants = &self.case.variants;
        let answer = variants.judge_outcome(&self.outcome.as_is, |context| self.request.resolve(context));
        self.doubt(answer.open);
        self.other_copies = answer.other_copies;
        self.basis = answer.basis;
    }

    /// Tries the links through which an unknown process may open a library; they move `$ORIGIN`.
    fn vary_link(&mut self) {
        let has_process =
            self.request.user.is_some() || !matches!(self.loader, ObjectLoader::Unknown | ObjectLoader::Nobody(_));
        if self.open.is_some() || has_process {
            return;
        }
        let (case, request) = (self.case, self.request);
        let context = &case.contexts.as_is;
        for link in case.links.that_move(&context.rootfs, request.object) {
            let by_link = ConsumerRequest {
                opened_as: Some(link),
                ..request
            };
            if by_link.resolve(context).answer.outcome() != self.outcome.as_is.answer.outcome() {
                self.open = Some(format!("it gets another answer where it is opened as {link}"));
                return;
            }
        }
    }

    /// Doubts a refusal at a file whose load cannot be predicted.
    fn doubt_damage(&mut self) {
        let answer = &self.outcome.as_is.answer;
        if answer.outcome() == RequestOutcome::Refused && is_undetermined(answer.search.steps()) {
            self.doubt(Some(answer.message().to_owned()));
        }
    }

    fn finish(self) -> CuptiConsumer {
        let ConsumerRequest {
            object, request_kind, ..
        } = self.request;
        let profile = self.request.known.own;
        let requested_name = self.shown_name();
        let loading = self.request.user.map_or(object, |user| user.object);
        let (program, python) = match self.loader {
            ObjectLoader::Program => (Some(loading.clone()), None),
            ObjectLoader::Python(imported) => (Some(imported.program().clone()), Some(imported.used_by())),
            ObjectLoader::Nobody(why) => (None, Some(why)),
            ObjectLoader::User(..) | ObjectLoader::Unknown => (None, None),
        };
        // Without a profile: a missing DT_NEEDED entry stops the program, while a program can handle a failed dlopen.
        let required = match (profile, request_kind) {
            (Some(profile), _) => profile.required,
            (None, RequestKind::Needed) => FailureImpact::Import,
            (None, RequestKind::Dlopen) => FailureImpact::Profiling,
        };
        CuptiConsumer {
            profile: profile.map(|profile| profile.id.clone()),
            name: profile.map_or_else(|| file_name(object), |profile| profile.name.clone()),
            required,
            unloaded: profile.and_then(|profile| profile.unloaded).unwrap_or(required),
            object: object.clone(),
            request_kind,
            requested_name,
            program,
            python,
            outcome: self.outcome,
            open: self.open,
            other_copies: self.other_copies,
            basis: self.basis,
        }
    }

    /// The requested name to report: a bare one if there is one, because the path of a wheel's own copy is only the first
    /// attempt.
    fn shown_name(&self) -> ByteString {
        let names = self.request.spelled_names(&self.case.contexts.as_is);
        let file = self.outcome.as_is.answer.file();
        let shown = names
            .iter()
            .find(|name| !name.contains(&b'/'))
            .or_else(|| names.iter().find(|name| file.is_some_and(|file| file.path == **name)))
            .or(names.first());
        shown.cloned().unwrap_or_default()
    }
}

/// The name in reports of an object without a profile.
fn file_name(object: &RootPath) -> String {
    // Modules in different packages often share a name, so show the package too.
    if is_source(object.name()) {
        return escape::escape_bytes(&[object.parent().name(), b"/", object.name()].concat());
    }
    escape::escape_bytes(object.name())
}
