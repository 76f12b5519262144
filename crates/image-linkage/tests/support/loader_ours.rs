//! Our answers in the words of the real loader.

use image_linkage::loader::{LoadResolution, RequestOutcome, SearchStage, UnresolvedRequest};

/// What ends the words about an object that needs more than the processor has.
pub const LEVEL: &str = ": CPU ISA level is lower than required";
/// The path of the loader in the root file systems of the tests.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// What `ld.so` prints in trace mode where nothing is refused: every object by the name it was first asked
/// for, and what is missing, in the order of the requests. The loader itself is left out.
pub fn trace(resolution: &LoadResolution) -> Vec<String> {
    let mut lines = trace_with_loader(resolution);
    lines.retain(|line| line != LOADER);
    lines
}

/// The same with the loader, which knows itself by its path alone.
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

/// What `ld.so` prints of what is loaded, in the order of its list of maps.
pub fn in_order(resolution: &LoadResolution) -> Vec<String> {
    let objects = resolution.objects.iter().enumerate();
    objects
        .filter(|(number, object)| resolution.root != Some(*number) && *object.path != *LOADER.as_bytes())
        .map(|(_, object)| format!("{} => {}", text(&object.name), text(&object.path)))
        .collect()
}

/// The first request that ends the start: the process never gets further.
pub fn fatal(resolution: &LoadResolution) -> Option<&UnresolvedRequest> {
    resolution.unresolved.iter().find(|missing| !is_last(missing))
}

/// The first request that ends the trace, which goes on behind what is merely not there.
pub fn refused(resolution: &LoadResolution) -> Option<&UnresolvedRequest> {
    let mut missing = resolution.unresolved.iter();
    missing.find(|missing| missing.outcome == RequestOutcome::Refused && !is_last(missing))
}

/// What is said about versions.
pub fn versions(resolution: &LoadResolution) -> Vec<String> {
    let missing = resolution.unresolved.iter().filter(|missing| is_version(missing));
    missing.map(|missing| missing.message.clone()).collect()
}

/// The first object that needs more than the processor has; the loader says so when all else is well.
pub fn level(resolution: &LoadResolution) -> Option<String> {
    let missing = resolution.unresolved.iter().find(|missing| is_level(missing));
    missing.map(|missing| missing.message.clone())
}

/// Whether it is found out when everything is loaded.
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
