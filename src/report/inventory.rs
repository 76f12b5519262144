//! What is there: the copies and who gets them, the programs that ask, the layers and the loader.

use std::fmt::Write as _;

use super::text::{TextLayout, layer_words};
use super::text_layout::{BAD, BOLD, DIM, DOUBTFUL, GOOD, count_words, search_table, styled};
use crate::judge::facts::{ConsumerOutcome, CuptiConsumer, CuptiCopy, ImageFacts, RequestKind};
use crate::size::format_size;
use image_linkage::escape;
use image_linkage::loader::{Libc, RequestOutcome, trace_text};

/// The copies of libcupti and who gets to them.
pub(super) fn write_copies(out: &mut String, facts: &ImageFacts, layout: TextLayout) {
    let (shown, decoys): (Vec<&CuptiCopy>, Vec<&CuptiCopy>) = facts
        .copies
        .iter()
        .partition(|copy| layout.verbose || !copy.decoy);
    if shown.is_empty() && decoys.is_empty() {
        return;
    }
    let _ = writeln!(out, "{}", styled(BOLD, "copies of libcupti"));
    for copy in shown {
        let version = copy
            .version
            .as_ref()
            .map_or("version unknown", |(version, _)| version);
        let soname = copy
            .soname
            .as_deref()
            .map_or_else(|| "no library".to_owned(), escape::escape_bytes);
        let _ = writeln!(out, "  {version}  {soname}  {}", copy.real_path);
        let mut words = vec![
            format_size(copy.bytes),
            copy.machine.clone().unwrap_or_default(),
            owner(copy),
        ];
        words.push(format!("layer {}", copy.layer + 1));
        words.retain(|word| !word.is_empty());
        let _ = writeln!(out, "    {}", styled(DIM, words.join(", ")));
        let _ = writeln!(out, "    {}", reach(copy, facts));
        for problem in &copy.problems {
            let _ = writeln!(out, "    {}", styled(DOUBTFUL, problem));
        }
    }
    if !decoys.is_empty() {
        let owners: std::collections::BTreeSet<&str> =
            decoys.iter().map(|copy| copy.owner.name.as_str()).collect();
        let owners = owners.into_iter().collect::<Vec<_>>().join(", ");
        let number = if decoys.len() == 1 {
            "1 copy".to_owned()
        } else {
            format!("{} copies", decoys.len())
        };
        let _ = writeln!(
            out,
            "  {}",
            styled(DIM, format!("and {number} that {owners} brings for itself"))
        );
    }
    out.push('\n');
}

fn owner(copy: &CuptiCopy) -> String {
    let owner = &copy.owner;
    if owner.name.is_empty() {
        return "owner unknown".to_owned();
    }
    let version = owner
        .version
        .as_deref()
        .map(|version| format!(" {version}"))
        .unwrap_or_default();
    escape::escape_bytes(format!("{} {}{version}", owner.kind.name(), owner.name).as_bytes())
}

/// Who gets to a copy, in words.
fn reach(copy: &CuptiCopy, facts: &ImageFacts) -> String {
    let found = copy
        .how
        .map(|how| trace_text::stage_text(how, &[]))
        .unwrap_or_default();
    let users: Vec<&str> = copy
        .used_by
        .iter()
        .filter_map(|number| facts.consumers.get(*number))
        .map(|consumer| consumer.name.as_str())
        .collect();
    let used = if users.is_empty() {
        String::new()
    } else {
        format!("; loaded by {}", users.join(", "))
    };
    match (copy.loadable.as_is, copy.loadable.nvidia) {
        (true, true) => {
            styled(GOOD, "loadable") + &format!(" by its soname, through {found}{used}")
        }
        (true, false) => {
            styled(DOUBTFUL, "loadable")
                + &format!(" through {found} until the container runtime runs ldconfig{used}")
        }
        (false, true) => {
            styled(DOUBTFUL, "loadable")
                + &format!(" only once the container runtime has run ldconfig{used}")
        }
        (false, false) if !users.is_empty() => {
            styled(GOOD, "loaded") + &format!(" by {}; not by its soname alone", users.join(", "))
        }
        (false, false) if copy.decoy => styled(DIM, "for its own tool alone"),
        (false, false) => styled(BAD, "not loadable") + " by its soname",
    }
}

/// The programs that ask for CUPTI and what each gets.
pub(super) fn write_consumers(out: &mut String, facts: &ImageFacts, layout: TextLayout) {
    if facts.consumers.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "{}",
        styled(
            BOLD,
            format!("programs that ask for {}", facts.library.name)
        )
    );
    for consumer in &facts.consumers {
        let gets = &consumer.outcome.as_is;
        let asks = match consumer.asks {
            RequestKind::Needed => "links",
            RequestKind::Dlopen => "opens",
        };
        let _ = writeln!(
            out,
            "  {} {asks} {}  {}",
            styled(BOLD, &consumer.name),
            escape::escape_bytes(&consumer.wants),
            styled(DIM, consumer.object.to_string())
        );
        let _ = writeln!(out, "    {}", outcome(consumer));
        if !gets.missing_symbols.is_empty() {
            let symbols: Vec<String> = gets
                .missing_symbols
                .iter()
                .map(|symbol| escape::escape_bytes(symbol))
                .collect();
            let _ = writeln!(
                out,
                "    {}: {}",
                styled(BAD, "symbols the copy lacks"),
                symbols.join(", ")
            );
        }
        for failure in &gets.other_failures {
            let _ = writeln!(
                out,
                "    {}",
                styled(DIM, format!("also: {}", failure.message))
            );
        }
        if layout.verbose {
            out.push_str(&search_table(
                &trace_text::trace_lines(&gets.trace, &gets.objects),
                "      ",
            ));
        }
    }
    out.push('\n');
}

/// The path that a consumer gets, and what led there.
pub(super) fn path_and_way(gets: &ConsumerOutcome) -> String {
    let path = gets
        .path
        .as_deref()
        .map(escape::escape_bytes)
        .unwrap_or_default();
    let way = gets
        .how
        .map(|how| trace_text::stage_text(how, &gets.objects));
    format!("{path}, through {}", way.unwrap_or_default())
}

fn outcome(consumer: &CuptiConsumer) -> String {
    let gets = &consumer.outcome.as_is;
    match (gets.outcome, consumer.outcome.nvidia.outcome) {
        (RequestOutcome::Loaded, _) => format!("{} {}", styled(GOOD, "gets"), path_and_way(gets)),
        (_, RequestOutcome::Loaded) => {
            format!(
                "{} in the image as it is; gets it once the container runtime has run ldconfig",
                styled(DOUBTFUL, "does not get it")
            )
        }
        _ => format!("{}: {}", styled(BAD, "does not get it"), gets.message),
    }
}

/// The layers, the dynamic loader, and the oddities of the layers.
pub(super) fn write_layers_and_loader(out: &mut String, facts: &ImageFacts) {
    let _ = writeln!(out, "{}", styled(BOLD, "layers"));
    for (number, (layer, size_read)) in facts.image.layers.iter().zip(&facts.layers).enumerate() {
        let digest = layer
            .digest
            .as_ref()
            .or(layer.diff_id.as_ref())
            .map(ToString::to_string)
            .unwrap_or_default();
        let sizes = format!(
            "{} stored, {} uncompressed",
            format_size(size_read.compressed),
            format_size(size_read.bytes)
        );
        let _ = writeln!(out, "  {}  {}", styled(DIM, digest), sizes);
        let _ = writeln!(out, "    {}", layer_words(facts, number));
    }
    let _ = writeln!(out, "\n{}", styled(BOLD, "dynamic loader"));
    match &facts.grounds.as_is.linker {
        None => out.push_str("  none\n"),
        Some(linker) => {
            let libc = match linker.libc {
                Libc::Glibc(Some((major, minor))) => format!("glibc {major}.{minor}"),
                Libc::Glibc(None) => "glibc".to_owned(),
                Libc::Musl => "musl".to_owned(),
            };
            let _ = writeln!(
                out,
                "  {} ({libc}, {})",
                escape::escape_bytes(&linker.path),
                linker.arch.name
            );
            let dirs: Vec<String> = linker
                .default_dirs
                .iter()
                .map(|dir| escape::escape_bytes(dir))
                .collect();
            let _ = writeln!(out, "  default directories: {}", dirs.join(" "));
            let entries = linker.cache.as_ref().map_or_else(
                || "none".to_owned(),
                |cache| count_words(cache.iter().count(), "entry"),
            );
            let _ = writeln!(out, "  ld.so.cache: {entries}");
        }
    }
    for oddity in &facts.oddities {
        let _ = writeln!(
            out,
            "  {} layer {} {}: {}",
            styled(DOUBTFUL, "odd:"),
            oddity.layer + 1,
            oddity.path,
            oddity.what
        );
    }
    out.push('\n');
}
