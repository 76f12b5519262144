//! The inventory: copies, programs, layers and the loader.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::text::write_more;
use super::text_layout::{
    BAD, BOLD, DIM, DOUBTFUL, TextDetail, TextLayout, joined, search_table, styled, wrap_line, wrap_paragraph,
};
use super::words::{
    ColouredFact, consumer_outcome, copy_reach, layer_words, owner_words, request_words, soname_words, version_words,
};
use crate::facts::{CuptiConsumer, CuptiCopy, ImageFacts};
use crate::size::{count_words, format_size};
use image_linkage::elf::ByteString;
use image_linkage::escape;
use image_linkage::loader::{DynamicLoader, Libc, trace_lines};

/// The copies of the library and who loads them.
pub(super) fn write_copies(out: &mut String, facts: &ImageFacts, layout: TextLayout) {
    let (shown, private_copies): (Vec<&CuptiCopy>, Vec<&CuptiCopy>) = facts
        .copies
        .iter()
        .partition(|copy| (layout.detail == TextDetail::All) || !copy.private);
    // A tool such as Nsight Systems brings copies that nothing else loads; one line covers all of them.
    if shown.is_empty() && private_copies.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "{}",
        styled(BOLD, format!("copies of {}", facts.library.file_stem()))
    );
    let most = item_limit(layout);
    for copy in shown.iter().take(most) {
        write_copy(out, copy, facts, layout.width);
    }
    write_more(out, "  ", shown.len().saturating_sub(most));
    if !private_copies.is_empty() {
        let owners: BTreeSet<&str> = private_copies.iter().map(|copy| &*copy.owner.name).collect();
        let (number, owners) = (count_words(private_copies.len(), "copy"), joined(owners, ", "));
        let words = format!("and {number} that {owners} brings for itself");
        let _ = writeln!(out, "  {}", styled(DIM, words));
    }
    out.push('\n');
}

/// The maximum number of copies, and of programs.
fn item_limit(layout: TextLayout) -> usize {
    match layout.detail {
        TextDetail::All => usize::MAX,
        _ => 4,
    }
}

fn write_copy(out: &mut String, copy: &CuptiCopy, facts: &ImageFacts, width: usize) {
    let (version, soname) = (version_words(copy), soname_words(copy));
    out.push_str(&wrap_line(&format!("  {version}  {soname}  {}", copy.real_path), width));
    let mut words = vec![
        format_size(copy.bytes),
        copy.machine.clone().unwrap_or_default(),
        owner_words(copy),
        format!("layer {}", copy.layer + 1),
    ];
    words.retain(|word| !word.is_empty());
    let denial = copy
        .denial
        .iter()
        .map(|denial| styled(BAD, format!("permission denied: {denial}")));
    let problems = copy.problems.iter().map(|problem| styled(DOUBTFUL, problem));
    let about = [styled(DIM, words.join(", ")), coloured(&copy_reach(copy, facts))];
    for words in about.into_iter().chain(problems).chain(denial) {
        out.push_str(&wrap_paragraph("    ", &words, width));
    }
}

/// The programs that request the library, and what each gets.
pub(super) fn write_consumers(out: &mut String, facts: &ImageFacts, layout: TextLayout) {
    if facts.consumers.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "{}",
        styled(BOLD, format!("programs that ask for {}", facts.library.name))
    );
    let most = item_limit(layout);
    for consumer in facts.consumers.iter().take(most) {
        let gets = &consumer.outcome.as_is;
        let (name, asks) = (styled(BOLD, &consumer.name), request_words(consumer));
        let object = styled(DIM, consumer.object.to_string());
        out.push_str(&wrap_line(&format!("  {name} {asks}  {object}"), layout.width));
        let outcome = coloured(&consumer_outcome(consumer));
        out.push_str(&wrap_paragraph("    ", &outcome, layout.width));
        if !gets.missing_symbols.is_empty() {
            let symbols = escaped(&gets.missing_symbols).join(", ");
            let lacks = styled(BAD, "symbols the copy lacks");
            out.push_str(&wrap_paragraph("    ", &format!("{lacks}: {symbols}"), layout.width));
        }
        // The first failure is shown above. The loader stops there, but once that is fixed, these come next.
        let told = consumer.start_failure().is_some() || consumer.unmet_by_itself().is_some();
        for failure in gets.other_failures.iter().filter(|_| !told) {
            let also = styled(DIM, format!("also: {}", failure.message));
            out.push_str(&wrap_paragraph("    ", &also, layout.width));
        }
        if layout.detail == TextDetail::All {
            let steps = trace_lines(&gets.trace, &gets.objects);
            out.push_str(&search_table(&steps, "      "));
        }
    }
    write_more(out, "  ", facts.consumers.len().saturating_sub(most));
    // The loader resolves a request before any code runs. A script runs other code before its request, so a note says
    // that.
    let mut scripts = facts.consumers.iter().filter(|consumer| consumer.is_script());
    if scripts.any(CuptiConsumer::is_served) {
        let promise = "what a script gets it gets once it asks: nothing here says that it comes so far";
        out.push_str(&wrap_paragraph("  ", &styled(DIM, promise), layout.width));
    }
    out.push('\n');
}

fn coloured(fact: &ColouredFact) -> String {
    styled(fact.tone.style(), fact.word) + &fact.rest
}

fn escaped(names: &[ByteString]) -> Vec<String> {
    names.iter().map(|name| escape::escape_bytes(name)).collect()
}

/// The layers, the dynamic loader, and the problems of the layers.
pub(super) fn write_layers_and_loader(out: &mut String, facts: &ImageFacts) {
    let _ = writeln!(out, "{}", styled(BOLD, "layers"));
    for (number, (layer, size)) in facts.image.layers.iter().zip(&facts.layers).enumerate() {
        // Docker archives before version 25 have no blob digests, only diff ids.
        let digest = layer.digest.as_ref().or(layer.diff_id.as_ref());
        let digest = digest.map(ToString::to_string).unwrap_or_default();
        let (stored, bytes) = (format_size(size.compressed), format_size(size.bytes));
        let digest = styled(DIM, digest);
        let _ = writeln!(out, "  {digest}  {stored} stored, {bytes} uncompressed");
        let _ = writeln!(out, "    {}", layer_words(facts, number));
    }
    let _ = writeln!(out, "\n{}", styled(BOLD, "dynamic loader"));
    match &facts.contexts.as_is.linker {
        None => out.push_str("  none\n"),
        Some(linker) => write_loader(out, linker),
    }
    for oddity in &facts.oddities {
        let (odd, layer) = (styled(DOUBTFUL, "odd:"), oddity.layer + 1);
        let _ = writeln!(out, "  {odd} layer {layer} {}: {}", oddity.path, oddity.what);
    }
    out.push('\n');
}

fn write_loader(out: &mut String, linker: &DynamicLoader) {
    let libc = match linker.libc {
        Libc::Glibc(Some((major, minor))) => format!("glibc {major}.{minor}"),
        Libc::Glibc(None) => "glibc".to_owned(),
        Libc::Musl => "musl".to_owned(),
    };
    let path = escape::escape_bytes(&linker.path);
    let _ = writeln!(out, "  {path} ({libc}, {})", linker.arch.name);
    let dirs = escaped(&linker.default_dirs).join(" ");
    let _ = writeln!(out, "  default directories: {dirs}");
    let cache = linker.cache.as_deref();
    let entries = cache.map(|cache| count_words(cache.iter().count(), "entry"));
    let entries = entries.unwrap_or_else(|| "none".to_owned());
    let _ = writeln!(out, "  ld.so.cache: {entries}");
}
