//! The changes to an image and their result, as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::added_layer::{MISLEADING, SlimInput};
use super::gpu_code::{GpuDecision, PrunedObject, UnchangedObject, UnchangedReason};
use super::new_image::NewImage;
use crate::facts::ImageFacts;
use crate::judge::outcome::AuditedImage;
use crate::judge::plan::Plan;
use crate::make::choose::wanted_cupti::find_wanted_cupti;
use crate::make::patch::{ImagePatch, SearchPath};
use crate::size::{count_words, format_size};
use image_linkage::escape;

/// The maximum number of groups to show of what stays.
const SHOWN_GROUPS: usize = 10;

/// The planned changes, with the reason for each file.
pub(crate) fn describe_decision(making: &SlimInput<'_>) -> String {
    let mut out = String::new();
    let (image, plan, decision) = (&making.facts.image, making.plan, making.decision);
    let ImagePatch {
        title: _,
        // `brings` tells these.
        soname: _,
        library: _,
        release: _,
        source: _,
        files: _,
        links: _,
        search: _,
        deletes,
        // A layer grants no rights and installs no package.
        rights: _,
        package: _,
        rewrites_cache: _,
        library_path,
        // These are among the removed items.
        drops: _,
        leaves: _,
    } = &decision.patch;
    let _ = writeln!(
        out,
        "{} for {}: {}{}",
        escape::escape_bytes(image.reference.as_bytes()),
        plan.phase,
        plan.verdict.name(),
        rules(plan)
    );
    brings(&mut out, making);
    for item in decision.removed_items() {
        let (bytes, because) = (format_size(item.bytes), &item.because);
        let _ = writeln!(
            out,
            "  - {} {bytes}, layer {}: {because}",
            item.path,
            // Counted from 1 for the user.
            item.layer + 1
        );
        for link in &item.links {
            let _ = writeln!(out, "  - {link}: is a link to it");
        }
    }
    for path in deletes {
        let _ = writeln!(out, "  - {path}: {MISLEADING}");
    }
    if let Some(path) = library_path {
        let (value, because) = (escape::escape_bytes(path.value.as_bytes()), &path.because);
        let _ = writeln!(out, "  ~ LD_LIBRARY_PATH={value}: {because}");
    }
    for twins in &decision.twins {
        let links: Vec<String> = twins.links.iter().map(ToString::to_string).collect();
        let (links, file, bytes) = (links.join(", "), &twins.file, format_size(twins.saved_bytes()));
        let _ = writeln!(out, "  ~ {links}: identical to {file}, stored once, {bytes} less");
    }
    for (path, why) in &decision.stays {
        let _ = writeln!(out, "  = {path}: {why}");
    }
    if let Some(gpu_code) = &decision.gpu_code {
        describe_gpu_code(&mut out, gpu_code);
    }
    if decision.is_nothing() {
        let _ = writeln!(out, "  nothing to add and nothing to remove");
    }
    out
}

/// The removed GPU code, and the objects that keep theirs.
fn describe_gpu_code(out: &mut String, gpu_code: &GpuDecision) {
    let (gpus, pruned) = (&gpu_code.gpus, &gpu_code.pruned);
    if pruned.is_empty() {
        let _ = writeln!(out, "  no GPU code is removed");
    } else {
        let sum = |bytes: fn(&PrunedObject) -> u64| format_size(pruned.iter().map(bytes).sum());
        let (before, after) = (sum(|it| it.bytes_before), sum(|it| it.bytes_after));
        let objects = count_words(pruned.len(), "object");
        let _ = writeln!(
            out,
            "  GPU code is kept for {gpus} only: {objects}, {before} before, {after} after"
        );
    }
    for object in pruned {
        let (before, after) = (format_size(object.bytes_before), format_size(object.bytes_after));
        let kinds: Vec<String> = object.removed().iter().map(|it| it.kind.to_string()).collect();
        let _ = writeln!(
            out,
            "  ~ {} {before} -> {after}: without {}",
            object.path,
            kinds.join(" ")
        );
        for link in &object.links {
            let _ = writeln!(out, "  ~ {link}: is a link to it");
        }
        if let Some(why) = object.in_place_because {
            let saved = format_size(object.saved_bytes());
            let _ = writeln!(
                out,
                "    {saved} became zeros, which only a compressed layer saves: {why}"
            );
        }
        for gpu in &object.compiled_for {
            let _ = writeln!(
                out,
                "    some code for {gpu} is PTX: the driver compiles it at first use, as before"
            );
        }
        for gpu in &object.no_code_for {
            let _ = writeln!(
                out,
                "    it has no code for {gpu}, so its kernels fail there, as before"
            );
        }
    }
    describe_unchanged(out, &gpu_code.unchanged);
    if !pruned.is_empty() {
        let _ = writeln!(
            out,
            "  the new image is for {gpus} GPUs only: on others, kernels fail with \"no kernel image is available\"\n  \
             torch.cuda.get_arch_list() still lists the compiled architectures, and RECORD has the old hashes of these \
             files\n  {NOT_RUN}"
        );
    }
}

/// What was not checked yet.
const NOT_RUN: &str =
    "the changed objects were compared with the originals, but this feature was not yet run on a GPU: test the image";

/// Objects of one reason on one line, because an image has dozens of NVIDIA's libraries.
fn describe_unchanged(out: &mut String, unchanged: &[UnchangedObject]) {
    let mut reasons: BTreeMap<&UnchangedReason, Vec<&UnchangedObject>> = BTreeMap::new();
    for object in unchanged {
        reasons.entry(&object.because).or_default().push(object);
    }
    for (reason, objects) in reasons {
        let because = match reason {
            UnchangedReason::NvidiaLicence => "NVIDIA's licence forbids changes".to_owned(),
            UnchangedReason::UnknownPackage => {
                "of no known open package; name one with --gpu-file if its licence allows changes".to_owned()
            }
            UnchangedReason::NvidiaBuild => {
                "NVIDIA's own build; name one with --gpu-file if the image's licence allows changes".to_owned()
            }
            UnchangedReason::NothingToSave => "nothing to save".to_owned(),
            UnchangedReason::StaticLibrary(library) => {
                format!("contains NVIDIA's {library}, whose licence forbids changes")
            }
            UnchangedReason::Obstacle(why) => why.clone(),
        };
        let bytes = format_size(objects.iter().map(|object| object.bytes).sum());
        let shown: Vec<String> = objects
            .iter()
            .take(SHOWN)
            .map(|object| object.path.to_string())
            .collect();
        let more = match objects.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let count = count_words(objects.len(), "object");
        let _ = writeln!(
            out,
            "  = {count} unchanged, {bytes}: {because}: {}{more}",
            shown.join(", ")
        );
    }
}

/// The objects of one reason that are named.
const SHOWN: usize = 3;

/// The rules that cause a verdict.
fn rules(plan: &Plan) -> String {
    match plan.because.as_slice() {
        [] => String::new(),
        rules => format!(" ({})", rules.join(", ")),
    }
}

fn brings(out: &mut String, making: &SlimInput<'_>) {
    let (decision, patch) = (making.decision, &making.decision.patch);
    let from = making
        .supplier
        .map(|supplier| escape::escape_bytes(supplier.facts.image.reference.as_bytes()));
    let soname = escape::escape_bytes(&patch.soname);
    let release = patch.release_words();
    match from {
        Some(from) if patch.source.is_some() => {
            let needed = find_wanted_cupti(making.facts).words();
            let why = if needed.is_empty() {
                "nothing in the image shows which release it needs".to_owned()
            } else {
                format!("the image needs {needed}")
            };
            let _ = writeln!(out, "  adds {soname} of {release} from {from}: {why}");
        }
        _ if !patch.files.is_empty() => {
            let _ = writeln!(out, "  adds no file: {soname} of {release} is in the image");
        }
        Some(from) if patch.links.is_empty() => {
            let _ = writeln!(
                out,
                "  it has what the phase needs of CUPTI: nothing is added from {from}"
            );
        }
        _ => {}
    }
    if let Some(own) = &decision.own {
        let release = own.release_words();
        let _ = writeln!(
            out,
            "  the image's own copy, of {release}, stays off the search path; without --cupti-from it is added to it"
        );
    }
    let come = patch.files.iter().filter(|file| file.copied_from().is_some());
    for file in come {
        let (bytes, because) = (format_size(file.facts.bytes), &file.because);
        let _ = writeln!(out, "  + {} {bytes}: {because}", file.at);
    }
    for link in &patch.links {
        let (to, because) = (escape::escape_bytes(&link.to), &link.because);
        let _ = writeln!(out, "  + {} -> {to}: {because}", link.at);
    }
    if let SearchPath::Configured {
        folder,
        line: Some(line),
        because,
    } = &patch.search
    {
        let _ = writeln!(out, "  + {} names {folder}: {because}", line.file);
    }
}

/// The resulting image.
pub(crate) fn describe_result(making: &SlimInput<'_>, made: &NewImage<'_>, audit: &AuditedImage) -> String {
    let before: u64 = making.facts.layers.sizes.iter().map(|layer| layer.bytes).sum();
    let after = made.bytes();
    let change = match after.checked_sub(before) {
        Some(more) => format!("{} more", format_size(more)),
        None => format!("{} less", format_size(before - after)),
    };
    let (before, after) = (format_size(before), format_size(after));
    format!(
        "  size: {before} before, {after} after, {change}\n  audit of the new image: {}\n",
        audit.verdict()
    )
}

/// The bytes that the new image keeps, by group: why they stay, and what would make them go.
pub(crate) fn describe_rest(facts: &ImageFacts) -> String {
    let weight = facts.weigh();
    if weight.groups.is_empty() {
        return String::new();
    }
    let mut out = format!("  what stays: {} in files\n", format_size(weight.bytes()));
    for group in weight.groups.iter().take(SHOWN_GROUPS) {
        let (bytes, what) = (format_size(group.bytes), &group.what);
        let reasons = match group.reasons.join("; ") {
            reasons if reasons.is_empty() => reasons,
            reasons => format!(": {reasons}"),
        };
        let smaller = group.smaller.map(|smaller| format!(" -> {smaller}"));
        let _ = writeln!(out, "    {bytes:>8}  {what}{reasons}{}", smaller.unwrap_or_default());
    }
    let smaller = weight.groups.get(SHOWN_GROUPS..).unwrap_or_default();
    if !smaller.is_empty() {
        let sizes = smaller.iter().map(|group| group.bytes);
        let bytes = format_size(sizes.fold(0, u64::saturating_add));
        let _ = writeln!(out, "    {bytes:>8}  in {} smaller groups", smaller.len());
    }
    out
}
