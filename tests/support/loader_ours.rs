//! Our answers in the words of the real loader.

#![allow(
    dead_code,
    reason = "each test target uses its own part of this module"
)]

use cupti_audit::loader::{How, Outcome, Resolution, Unresolved};

/// The path of the loader in the root file systems of the tests.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// What `ld.so` prints in trace mode where nothing is refused: every object by the name it was first asked
/// for, and what is missing, in the order of the requests. The loader itself is left out.
pub fn trace(resolution: &Resolution) -> Vec<String> {
    let mut lines = trace_with_loader(resolution);
    lines.retain(|line| line != LOADER);
    lines
}

/// The same with the loader, which knows itself by its path alone.
pub fn trace_with_loader(resolution: &Resolution) -> Vec<String> {
    let mut lines = Vec::new();
    let mut listed: Vec<usize> = resolution.root.into_iter().collect();
    let mut list = |number: usize, lines: &mut Vec<String>| {
        if listed.contains(&number) {
            return;
        }
        listed.push(number);
        let object = &resolution.objects[number];
        lines.push(if *object.path == *LOADER.as_bytes() {
            LOADER.to_owned()
        } else {
            format!("{} => {}", text(&object.name), text(&object.path))
        });
    };
    for (number, object) in resolution.objects.iter().enumerate() {
        if object.how == How::Preload {
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

/// The first request that ends the start: the process never gets further.
pub fn fatal(resolution: &Resolution) -> Option<&Unresolved> {
    resolution
        .unresolved
        .iter()
        .find(|missing| !is_version(missing))
}

/// The first request that ends the trace, which goes on behind what is merely not there.
pub fn refused(resolution: &Resolution) -> Option<&Unresolved> {
    let mut missing = resolution.unresolved.iter();
    missing.find(|missing| missing.outcome == Outcome::Refused && !is_version(missing))
}

/// What is said about versions.
pub fn versions(resolution: &Resolution) -> Vec<String> {
    let missing = resolution
        .unresolved
        .iter()
        .filter(|missing| is_version(missing));
    missing.map(|missing| missing.message.clone()).collect()
}

fn is_version(missing: &Unresolved) -> bool {
    missing.message.contains(": version `")
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
