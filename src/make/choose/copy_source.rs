//! The image that the user wants to copy CUPTI from, and its best matching copy.

use std::collections::BTreeSet;

use super::PatchError;
use super::target::elf_at;
use super::target_release::choose_release;
use super::wanted_cupti::find_wanted_cupti;
use crate::facts::{CuptiCopy, CuptiStatus, ImageFacts};
use image_linkage::escape;
use image_linkage::loader::DynamicLoader;

#[derive(Clone, Copy)]
pub(crate) struct CopySource<'a> {
    /// Its name for `FROM`.
    pub name: &'a str,
    pub facts: &'a ImageFacts,
}

/// The best copy of the source: it has the wanted soname and version, and preferably comes from a known release.
pub(super) fn choose_source_copy<'s>(
    source: &'s ImageFacts,
    target: &ImageFacts,
    linker: &DynamicLoader,
) -> Result<&'s CuptiCopy, PatchError> {
    let wanted = find_wanted_cupti(target);
    let from = || source.image.reference.clone();
    let mut copies: Vec<&CuptiCopy> = source.own_copies().collect();
    // Without a soname the loader cannot match it by name; a damaged copy may be truncated.
    copies.retain(|copy| copy.problems.is_empty() && copy.soname.is_some());
    if copies.is_empty() {
        return Err(PatchError::NoCopy {
            from: from(),
            but: match source.answers.status.as_is {
                CuptiStatus::HeadersOnly if source.headers.is_empty() => ", only links that lead nowhere",
                CuptiStatus::HeadersOnly => ", only its headers",
                CuptiStatus::Unloadable => ", only files that are not libraries",
                _ => "",
            },
        });
    }
    let fitting = copies.iter().filter(|copy| {
        let is_of_machine = elf_at(source, &copy.real_path)
            .is_some_and(|elf| elf.machine == linker.arch.machine && elf.class() == linker.arch.class);
        is_of_machine && (wanted.soname.is_none() || copy.soname == wanted.soname)
    });
    let meant = choose_release(target, linker, None).filter(|it| !it.is_guess);
    let is_of_cuda = |copy: &CuptiCopy| meant.as_ref().is_none_or(|it| copy.cuda() == Some(it.release.cuda));
    let best = fitting.min_by_key(|copy| {
        // Releases of one soname are interchangeable. Then prefer a known release, then a copy that a plain process
        // finds. In a wheel or a folder none can be loaded, as the C library is elsewhere.
        (
            !copy.by_path.as_is.loads(),
            !is_of_cuda(copy),
            copy.version.is_none(),
            !copy.loadable.as_is,
            &copy.real_path,
        )
    });
    best.copied().ok_or_else(|| PatchError::NoMatch {
        from: from(),
        image: target.image.reference.clone(),
        needed: format!("{} for {}", wanted.words(), linker.arch.name),
        has: has(&copies),
    })
}

/// The copies of a source in words.
fn has(copies: &[&CuptiCopy]) -> String {
    // A release may be present at several paths.
    let mut words = BTreeSet::new();
    for copy in copies {
        let version = copy.version.as_ref().map(|(version, _)| version.as_str());
        let soname = copy.soname.as_deref().map(escape::escape_bytes);
        words.insert(format!(
            "it has {} of {} for {}",
            soname.unwrap_or_default(),
            version.unwrap_or("an unknown release"),
            copy.machine.as_deref().unwrap_or("no processor")
        ));
    }
    words.into_iter().collect::<Vec<_>>().join(", ")
}
