//! COPY and ADD: what they bring of the library, from another stage, an image, or the build context.

use super::paths::{
    LibraryPlace, PathOverlap, absolute, compare_path, follow_links, is_environment_root, is_library_name,
    parent_folder,
};
use super::search_path::LOCAL_FOLDER;
use super::stage_end::{LibrarySource, StageEnd, StepEdit, StepProblem, shown_version};
use super::stage_walk::StageWalk;
use super::stages::{CopyAction, StepPlace, find_stage};
use super::trap::{StepFacts, StepTrap};
use crate::facts::software::cuda_runtime::parse_cuda_version;

impl StageWalk<'_> {
    pub(super) fn copy(&self, now: &mut StageEnd, copy: &CopyAction, place: &StepPlace) -> Option<StepProblem> {
        let sources = copy.sources.join(" ");
        now.search.note_step(self.text_of(place), place);
        let Some(from) = &copy.from else {
            // A toolkit, an environment or a single library may come by it.
            now.unseen(place.line, format!("copies {sources} from the build context"), false);
            return None;
        };
        if ["--parents", "--exclude"]
            .iter()
            .any(|flag| self.text_of(place).contains(flag))
        {
            now.unseen(place.line, format!("copies some of {sources} from {from}"), false);
            return None;
        }
        let end = find_stage(self.stages, from)
            .and_then(|number| self.ends.get(&number).cloned())
            .unwrap_or_else(|| self.image(from, place.line));
        let facts = |trap| StepFacts {
            from: from.clone(),
            cuda: now.cuda.first().copied().map(shown_version),
            release: end.cuda.first().copied().map(shown_version),
            ..StepFacts::new(trap, &sources)
        };
        let brought = self.brought(copy, &end, place);
        if let Some(last) = brought.last() {
            let problem = self.check_copied(now, copy, last, place, facts);
            now.sources.extend(brought);
            return problem;
        }
        let toolkit = &self.known.tables.packages.toolkit;
        let cuda = end.cuda.first().copied();
        // Some packages have links to the library in extras, which COPY follows.
        let may_be_link = |path: &String| {
            let path = follow_links(path, cuda, toolkit).to_lowercase();
            path.starts_with(&format!("{}/{}", toolkit.folder, toolkit.extras))
        };
        let mut missing = copy.sources.iter().filter(|path| {
            let is_of_arm = path.contains("sbsa") || path.contains("aarch64");
            self.is_library_file(path) && !may_be_link(path) && !is_of_arm
        });
        if missing.next().is_some() && end.unseen.is_empty() {
            return Some(StepProblem::new(place, facts(StepTrap::Missing)));
        }
        if let Some(edit) = self.headers_only(now, copy, &end) {
            return Some(StepProblem {
                edit: Some(StepEdit::Append(edit)),
                ..StepProblem::new(place, facts(StepTrap::Headers))
            });
        }
        if !end.unseen.is_empty() || !end.sources.is_empty() {
            now.unseen(place.line, format!("copies {sources} from {from}"), false);
        }
        None
    }

    /// Whether the path names the library's file: its name begins as the library's.
    fn is_library_file(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.starts_with(&*self.known.library.stem) || is_library_name(name, self.known)
    }

    /// The library in the files that a COPY brings.
    fn brought(&self, copy: &CopyAction, end: &StageEnd, place: &StepPlace) -> Vec<LibrarySource> {
        let mut brought = Vec::new();
        for own in &end.sources {
            for source in &copy.sources {
                // The root of a stage is the directory of a relative source.
                let path = absolute(&format!("/{source}")).unwrap_or_default();
                let folder = match &own.place {
                    LibraryPlace::Environment if is_environment_root(&path) => None,
                    LibraryPlace::Environment => continue,
                    LibraryPlace::Folder(folder) => match compare_path(&path, folder, own.cuda, self.known) {
                        PathOverlap::Apart => continue,
                        PathOverlap::Around(rest) => Some(format!("{}/{rest}", copy.target)),
                        PathOverlap::Files => Some(target_folder(&copy.target)),
                    },
                };
                let toolkit = &self.known.tables.packages.toolkit;
                let new = match folder.and_then(|folder| absolute(&folder)) {
                    Some(folder) => LibraryPlace::Folder(follow_links(&folder, own.cuda, toolkit)),
                    None => LibraryPlace::Environment,
                };
                brought.push(LibrarySource {
                    name: match copy.from.as_deref() {
                        Some(from) if from != own.name => format!("{} of {from}", own.name),
                        _ => own.name.clone(),
                    },
                    line: place.line,
                    place: new,
                    ..own.clone()
                });
            }
        }
        brought
    }

    /// The problem of a copy that arrives: the CUDA is another, or the loader does not search its folder. The second is
    /// known only at the end of the image.
    fn check_copied(
        &self,
        now: &StageEnd,
        copy: &CopyAction,
        brought: &LibrarySource,
        place: &StepPlace,
        facts: impl Fn(StepTrap) -> StepFacts,
    ) -> Option<StepProblem> {
        let LibraryPlace::Folder(folder) = &brought.place else {
            return None;
        };
        if !copy.sources.iter().any(|path| self.is_library_file(path)) {
            return None;
        }
        let is_other = brought
            .cuda
            .is_some_and(|own| now.cuda.iter().all(|other| other.0 != own.0));
        if is_other && let Some(cuda) = now.cuda.first() {
            let instead = format!("the image of CUDA {}", shown_version(*cuda));
            let facts = StepFacts {
                instead,
                ..facts(StepTrap::OtherRelease)
            };
            return Some(StepProblem::new(place, facts));
        }
        let line = format!("RUN echo {folder} > /etc/ld.so.conf.d/cupti.conf && ldconfig");
        let facts = StepFacts {
            folder: folder.clone(),
            ..facts(StepTrap::OffPath)
        };
        Some(StepProblem {
            edit: Some(StepEdit::Append(line)),
            ..StepProblem::new(place, facts)
        })
    }

    /// The instructions to add if a COPY takes the toolkit's headers and links, and leaves the library behind.
    fn headers_only(&self, now: &StageEnd, copy: &CopyAction, end: &StageEnd) -> Option<String> {
        let toolkit = &self.known.tables.packages.toolkit;
        let elsewhere = parse_cuda_version(&toolkit.extras_until);
        // Before 11.3 the library was here, as TensorFlow's own Dockerfiles of that time show.
        let is_elsewhere = |own: &LibrarySource| {
            own.place == LibraryPlace::Folder(toolkit.libraries.clone()) && own.cuda.is_some() && own.cuda >= elsewhere
        };
        let is_extras = |path: &String| {
            let path = path.trim_end_matches(['/', '.', '*']).to_lowercase();
            let rest = path
                .split_once(&toolkit.extras)
                .map(|(before, rest)| (before.starts_with(&toolkit.folder), rest));
            matches!(rest, Some((true, "" | "/include" | "/lib64")))
        };
        if !end.sources.iter().any(is_elsewhere) || !copy.sources.iter().any(is_extras) {
            return None;
        }
        let (from, folder, stem) = (copy.from.as_deref()?, &toolkit.libraries, &self.known.library.stem);
        let target = if now.cuda.is_empty() { LOCAL_FOLDER } else { folder };
        Some(format!("COPY --from={from} {folder}/{stem}* {target}/\nRUN ldconfig"))
    }
}

/// The folder that a COPY of files writes to: its target, or the parent if the target is a file.
fn target_folder(target: &str) -> String {
    let is_file = !target.ends_with('/') && target.rsplit('/').next().is_some_and(|name| name.contains(".so"));
    if is_file {
        parent_folder(target).to_owned()
    } else {
        target.to_owned()
    }
}
