//! Our results in the words of the real loader.

use image_linkage::loader::{LoadResolution, RequestOutcome, SearchStage, UnresolvedRequest};

/// The end of the message about an unsupported ISA level.
pub const LEVEL: &str = ": CPU ISA level is lower than required";
/// The loader's path in the test roots.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// The output of `ld.so` in trace mode if nothing is refused: every object by the name of its first request, and
/// missing ones, in request order, without the loader.
pub fn trace(resolution: &LoadResolution) -> Vec<String> {
    let mut lines = trace_with_loader(resolution);
    lines.retain(|line| line != LOADER);
    lines
}

/// The same including the loader, which is listed only by path.
pub fn trace_with_loader(resolution: &LoadResolution) -> Vec<String> {
    let mut lines = Vec::new();
    let mut listed: Vec<usize> = resolution.root.into_iter().collect();
    let mut list = |number: usize, lines: &mut Vec<String>| {
        if listed.contains(&number) {
            return;
        }
        listed.push(number);
        let Some(object) = resolution.objects.get(number) else {
            return;
        };
        lines.push(if *object.path == *LOADER.as_bytes() {
            LOADER.to_owned()
        } else {
            format!("{} => {}", text(&object.name), text(&object.path))
        });
    };
    for (number, object) in resolution.objects.iter().enumerate() {
        if object.how == SearchStage::Preload {
            list(number, &mut lines);
        }
    }
    for object in &resolution.objects {
        for (name, answer) in &object.needs {
            match answer {
                Some(number) => list(*number, &mut lines),
                None => lines.push(format!("{} => not found", text(name))),
            }
        }
    }
    lines
}

/// The loaded objects in the order of the loader's list.
pub fn in_order(resolution: &LoadResolution) -> Vec<String> {
    let objects = resolution.objects.iter().enumerate();
    objects
        .filter(|(number, object)| resolution.root != Some(*number) && *object.path != *LOADER.as_bytes())
        .map(|(_, object)| format!("{} => {}", text(&object.name), text(&object.path)))
        .collect()
}

/// The first request that aborts the start.
pub fn fatal(resolution: &LoadResolution) -> Option<&UnresolvedRequest> {
    resolution.unresolved.iter().find(|missing| !is_last(missing))
}

/// The first request that ends the trace. Merely missing libraries do not.
pub fn refused(resolution: &LoadResolution) -> Option<&UnresolvedRequest> {
    let mut missing = resolution.unresolved.iter();
    missing.find(|missing| missing.outcome == RequestOutcome::Refused && !is_last(missing))
}

/// The messages about versions.
pub fn versions(resolution: &LoadResolution) -> Vec<String> {
    let missing = resolution.unresolved.iter().filter(|missing| is_version(missing));
    missing.map(|missing| missing.message.clone()).collect()
}

/// The first object that needs an unsupported ISA level. The loader reports it only if nothing else is wrong.
pub fn level(resolution: &LoadResolution) -> Option<String> {
    let missing = resolution.unresolved.iter().find(|missing| is_level(missing));
    missing.map(|missing| missing.message.clone())
}

/// Whether the failure is detected after everything is loaded.
fn is_last(missing: &UnresolvedRequest) -> bool {
    is_version(missing) || is_level(missing)
}

fn is_level(missing: &UnresolvedRequest) -> bool {
    missing.message.ends_with(LEVEL)
}

fn is_version(missing: &UnresolvedRequest) -> bool {
    missing.message.contains(": version `")
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
