//! Shows the entries of `/etc/ld.so.cache` for the requested names, its stale entries, and what a new `ldconfig` run
//! would change.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;

use crate::facts::{ByWorld, ProcessContext};
use crate::report::text_layout::{BOLD, DIM, count_words, styled};
use image_linkage::elf::ByteString;
use image_linkage::escape;
use image_linkage::loader::LoadResolution;
use image_linkage::loader::{CacheEntry, LdCache, LdCacheFormat};

/// The maximum number of lines per list; the JSON has all.
const LINES: usize = 20;

/// The image's cache, and the changes by `ldconfig`.
#[derive(Debug, Serialize)]
pub(super) struct CacheReport {
    /// `new`, `compat` or `old`; `None` if the image has no usable cache.
    format: Option<&'static str>,
    generator: Option<String>,
    entries: usize,
    /// The entries of the requested names.
    asked: Vec<CacheEntryReport>,
    /// The entries whose files are missing.
    stale: Vec<CacheEntryReport>,
    ldconfig: LdconfigReport,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct CacheEntryReport {
    name: String,
    path: String,
    hwcaps: Option<String>,
}

/// The changes by a new `ldconfig` run, as under the container runtime.
#[derive(Debug, Serialize)]
struct LdconfigReport {
    added: Vec<CacheEntryReport>,
    removed: Vec<CacheEntryReport>,
    links_made: Vec<LinkReport>,
    links_removed: Vec<String>,
}

#[derive(Debug, Serialize)]
struct LinkReport {
    path: String,
    target: String,
}

impl CacheReport {
    /// The cache of the image in which the object was resolved.
    pub(super) fn of(contexts: &ByWorld<ProcessContext>, resolution: &LoadResolution) -> Self {
        let (as_is, remade) = (&contexts.as_is, &contexts.nvidia);
        let own = cache(as_is);
        // Only the requested names: a toolkit's cache has hundreds, and one object needs a few.
        let objects = resolution.objects.iter().map(|object| &object.name);
        let missing = resolution.unresolved.iter().map(|missing| &missing.name);
        let names: BTreeSet<&[u8]> = objects.chain(missing).map(|name| &**name).collect();
        // A stale entry does not stop the search: the loader continues with the default directories (glibc,
        // elf/dl-load.c, _dl_map_object). So the files themselves are checked.
        let lost = |entry: &CacheEntry| as_is.rootfs.lookup(&entry.path).is_err();
        Self {
            format: own.and_then(|cache| cache.format).map(LdCacheFormat::name),
            generator: own.and_then(|cache| cache.generator.as_deref().map(escape::escape_bytes)),
            entries: own.map_or(0, |cache| cache.iter().count()),
            asked: entries(own, |name, _| names.contains(name)),
            stale: entries(own, |_, entry| lost(entry)),
            ldconfig: LdconfigReport::between(as_is, remade),
        }
    }
}

impl LdconfigReport {
    fn between(as_is: &ProcessContext, remade: &ProcessContext) -> Self {
        // Compared as sets, because the order of entries does not matter.
        let all =
            |context| -> BTreeSet<CacheEntryReport> { entries(cache(context), |_, _| true).into_iter().collect() };
        let (now, then) = (all(as_is), all(remade));
        let link = |(path, target): &(ByteString, ByteString)| LinkReport {
            path: escape::escape_bytes(path),
            target: escape::escape_bytes(target),
        };
        let relinked = &remade.relinked;
        let removed = relinked.removed.iter();
        let removed = removed.map(|path| escape::escape_bytes(path));
        Self {
            added: then.difference(&now).cloned().collect(),
            removed: now.difference(&then).cloned().collect(),
            links_made: relinked.made.iter().map(link).collect(),
            links_removed: removed.collect(),
        }
    }
}

fn cache(context: &ProcessContext) -> Option<&LdCache> {
    context.linker.as_ref()?.cache.as_deref()
}

fn entries(cache: Option<&LdCache>, is_wanted: impl Fn(&[u8], &CacheEntry) -> bool) -> Vec<CacheEntryReport> {
    let all = cache.into_iter().flat_map(LdCache::iter);
    all.filter(|(name, entry)| is_wanted(name, entry))
        .map(|(name, entry)| CacheEntryReport {
            name: escape::escape_bytes(name),
            path: escape::escape_bytes(&entry.path),
            hwcaps: entry.hwcaps.as_deref().map(escape::escape_bytes),
        })
        .collect()
}

/// The report as text: one unbroken line per entry.
pub(super) fn cache_text(report: &CacheReport) -> String {
    let mut out = String::from("\n");
    let headline = match report.format {
        None => "the image has no usable one".to_owned(),
        Some(format) => {
            let entries = count_words(report.entries, "entry");
            let by = report.generator.as_ref();
            let by = by.map_or_else(String::new, |by| format!(", by {by}"));
            format!("{format} format, {entries}{by}")
        }
    };
    let _ = writeln!(out, "{} {headline}", styled(BOLD, "/etc/ld.so.cache"));
    let arrows = |entries: &[CacheEntryReport]| -> Vec<String> { entries.iter().map(CacheEntryReport::line).collect() };
    let changes = &report.ldconfig;
    let made = changes.links_made.iter();
    let made: Vec<String> = made
        // Like `ls -l`; the other arrow leads from a name to its file.
        .map(|link| format!("{} -> {}", link.path, link.target))
        .collect();
    for (what, lines) in [
        ("has of what was asked for", arrows(&report.asked)),
        ("has of files that are gone", arrows(&report.stale)),
        ("would get from a fresh ldconfig", arrows(&changes.added)),
        ("would lose by a fresh ldconfig", arrows(&changes.removed)),
        ("links that a fresh ldconfig would make", made),
        (
            "links that a fresh ldconfig would remove",
            changes.links_removed.clone(),
        ),
    ] {
        list(&mut out, what, &lines);
    }
    out
}

fn list(out: &mut String, what: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "  {what}:");
    for line in lines.iter().take(LINES) {
        let _ = writeln!(out, "    {}", styled(DIM, line));
    }
    if let Some(more) = lines.len().checked_sub(LINES).filter(|more| *more > 0) {
        let _ = writeln!(out, "    and {more} more; --format json has all");
    }
}

impl CacheEntryReport {
    fn line(&self) -> String {
        // A name occurs once per glibc-hwcaps level; without the level the lines would look the same.
        let level = self.hwcaps.as_ref();
        let level = level.map_or_else(String::new, |level| format!(" ({level})"));
        format!("{} → {}{level}", self.name, self.path)
    }
}
