//! Our results in the words of musl's loader.

use image_linkage::loader::{LoadResolution, RequestOutcome, SearchStage};

use super::musl_case::{Case, LOADER};

/// The names reserved by musl. It reports each once.
const OWN: [&str; 7] = [
    "libc.",
    "libpthread.",
    "librt.",
    "libm.",
    "libdl.",
    "libutil.",
    "libxnet.",
];

/// The output of `--list`: every object by the name of its first request, in request order.
pub fn list(resolution: &LoadResolution, case: &Case) -> Vec<String> {
    let objects = &resolution.objects;
    let mut said = Said::default();
    let preload = case.preload.as_deref().unwrap_or_default();
    for name in preload.split([' ', ':', '\t', '\n']) {
        let is_own = OWN.iter().any(|own| name.starts_with(own));
        let answer = objects.iter().position(|object| {
            let is_itself = *object.path == *LOADER.as_bytes();
            let is_asked = object.how == SearchStage::Preload && *object.name == *name.as_bytes();
            if is_own { is_itself } else { is_asked }
        });
        if let Some(number) = answer {
            said.answer(resolution, name.as_bytes(), number);
        }
    }
    for object in objects {
        for (name, answer) in &object.needs {
            if let Some(number) = answer {
                said.answer(resolution, name, *number);
            }
        }
    }
    said.lines
}

#[derive(Default)]
struct Said {
    lines: Vec<String>,
    objects: Vec<usize>,
    own: Vec<&'static str>,
}

impl Said {
    fn answer(&mut self, resolution: &LoadResolution, name: &[u8], number: usize) {
        let object = &resolution.objects[number];
        let name = text(name);
        let is_own = *object.path == *LOADER.as_bytes();
        if is_own && name != LOADER {
            // A file that turns out to be musl itself is listed again under this name.
            let own = OWN.iter().find(|own| name.starts_with(**own));
            let name = own.map_or("libc.so", |_| &name);
            let own = own.copied().unwrap_or(OWN[0]);
            if !self.own.contains(&own) {
                self.own.push(own);
                self.lines.push(format!("{name} => {LOADER}"));
            }
        } else if !is_own && resolution.root != Some(number) && !self.objects.contains(&number) {
            self.objects.push(number);
            self.lines.push(format!("{name} => {}", text(&object.path)));
        }
    }
}

/// The output on standard error: one line for each missing or refused library.
pub fn errors(resolution: &LoadResolution) -> Vec<String> {
    let missing = resolution.unresolved.iter();
    missing.map(|missing| shortened(&missing.message)).collect()
}

/// The line up to the path of an object that cannot be relocated.
pub fn shortened(line: &str) -> String {
    if line.starts_with("Error relocating ") {
        let end = line.match_indices(": ").next().map_or(line.len(), |(at, _)| at);
        return line[..end].to_owned();
    }
    line.to_owned()
}

/// Whether the process dies during loading.
pub fn dies(resolution: &LoadResolution) -> bool {
    let mut all = resolution.unresolved.iter().chain(&resolution.preload_warnings);
    all.any(|missing| missing.message.contains("SIGBUS"))
}

/// Whether an existing file is refused.
pub fn refuses(resolution: &LoadResolution) -> bool {
    let mut missing = resolution.unresolved.iter();
    missing.any(|missing| missing.outcome == RequestOutcome::Refused)
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
