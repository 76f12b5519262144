//! The image that the user wants to copy CUPTI from, and its best matching copy.

use super::RemedyError;
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
) -> Result<&'s CuptiCopy, RemedyError> {
    let wanted = find_wanted_cupti(target);
    let from = || source.image.reference.clone();
    // Without a soname the loader cannot match it by name; a damaged copy may be truncated.
    let whole = |copy: &&CuptiCopy| copy.problems.is_empty() && copy.soname.is_some();
    let copies: Vec<&CuptiCopy> = source.own_copies().filter(whole).collect();
    if copies.is_empty() {
        return Err(RemedyError::NoCopy {
            from: from(),
            but: match source.status.as_is {
                CuptiStatus::HeadersOnly if source.headers.is_empty() => ", only links that lead nowhere",
                CuptiStatus::HeadersOnly => ", only its headers",
                CuptiStatus::Unloadable => ", only files that are not libraries",
                _ => "",
            },
        });
    }
    let of_machine = |copy: &&&CuptiCopy| {
        elf_at(source, &copy.real_path)
            .is_some_and(|elf| elf.machine == linker.arch.machine && elf.class() == linker.arch.class)
    };
    let of_soname = |copy: &&&CuptiCopy| wanted.soname.is_none() || copy.soname.as_ref() == wanted.soname.as_ref();
    let meant = choose_release(target, linker, None).filter(|it| !it.is_guess);
    let is_of_cuda = |copy: &CuptiCopy| meant.as_ref().is_none_or(|it| copy.cuda() == Some(it.release.cuda));
    let fitting = copies.iter().filter(of_machine).filter(of_soname);
    let best = fitting.min_by_key(|copy| {
        // Releases of one soname are interchangeable. Then prefer a known release, then a copy that a plain process
        // finds.
        (
            !is_of_cuda(copy),
            copy.version.is_none(),
            !copy.loadable.as_is,
            &copy.real_path,
        )
    });
    best.copied().ok_or_else(|| RemedyError::NoMatch {
        from: from(),
        image: target.image.reference.clone(),
        wants: format!("{} for {}", wanted.words(), linker.arch.name),
        has: has(&copies),
    })
}

/// The copies of a source in words.
fn has(copies: &[&CuptiCopy]) -> String {
    let one = |copy: &&CuptiCopy| {
        let version = copy.version.as_ref().map(|(version, _)| version.as_str());
        let soname = copy.soname.as_deref().map(escape::escape_bytes);
        format!(
            "it has {} of {} for {}",
            soname.unwrap_or_default(),
            version.unwrap_or("an unknown release"),
            copy.machine.as_deref().unwrap_or("no processor")
        )
    };
    // A release may be present at several paths.
    let mut words: Vec<String> = copies.iter().map(one).collect();
    words.sort();
    words.dedup();
    words.join(", ")
}
