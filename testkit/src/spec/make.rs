//! Builds the layers of a fixture from its description.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use super::{EntrySpec, LayerSpec, Sources};
use crate::layer::{Entry, Kind, Layer};
use crate::ldcache::{AARCH64, Cache, Format, I386, X86_64};
use crate::oci::Image;

/// The state while an image is built.
pub struct Context<'a> {
    sources: &'a Sources,
    platform: &'a str,
    /// The libraries in the last `ld.so.cache` written.
    cached: IndexMap<String, String>,
}

impl<'a> Context<'a> {
    /// The context of an image for `platform` before its first layer.
    pub fn new(sources: &'a Sources, platform: &'a str) -> Self {
        let cached = IndexMap::new();
        Self {
            sources,
            platform,
            cached,
        }
    }
}

/// Adds the steps to an image.
///
/// Errors: The layer, the path and the entry's problem.
pub fn add_layers(mut image: Image, layers: &[LayerSpec], context: &mut Context<'_>) -> Result<Image, String> {
    for spec in layers {
        image = match &spec.entries {
            None => image.empty_step(&spec.created_by),
            Some(entries) => {
                let made = layer(entries, context).map_err(|error| format!("layer {:?}: {error}", spec.created_by))?;
                image.layer(&spec.created_by, &made, spec.compression)
            }
        };
    }
    Ok(image)
}

fn layer(entries: &IndexMap<String, EntrySpec>, context: &mut Context<'_>) -> Result<Layer, String> {
    let mut layer = Layer::new();
    let mut written = BTreeSet::new();
    for (path, spec) in entries {
        let at = |error| format!("{path}: {error}");
        let name = unescape(path).map_err(at)?;
        let name = name
            .strip_prefix(b"/")
            .ok_or_else(|| at("a path begins with /".to_owned()))?;
        for parent in parents(name) {
            if written.insert(parent.to_vec()) {
                layer = layer.dir(parent);
            }
        }
        written.insert(name.to_vec());
        layer = add(layer, name, spec, context).map_err(at)?;
    }
    Ok(layer)
}

/// The directories above a name, from the root down.
fn parents(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.filter_map(|(at, _)| name.get(..at))
}

/// Adds an entry to a layer.
///
/// Errors: The entry's problem.
pub fn add(layer: Layer, name: &[u8], spec: &EntrySpec, context: &mut Context<'_>) -> Result<Layer, String> {
    Ok(match spec {
        EntrySpec::Dir => layer.dir(name),
        EntrySpec::ClosedDir => {
            let (name, mode, kind) = (name.to_vec(), 0o700, Kind::Directory);
            layer.entry(Entry { name, mode, kind })
        }
        EntrySpec::Whiteout => layer.whiteout(name),
        EntrySpec::Opaque => layer.opaque(name),
        EntrySpec::Fifo => {
            let (name, mode, kind) = (name.to_vec(), 0o644, Kind::Fifo);
            layer.entry(Entry { name, mode, kind })
        }
        EntrySpec::Typed(flag) => {
            let (name, mode, kind) = (name.to_vec(), 0o644, Kind::Typed(*flag));
            layer.entry(Entry { name, mode, kind })
        }
        EntrySpec::Text(text) => layer.file(name, text),
        EntrySpec::Script(text) => layer.executable(name, text),
        EntrySpec::Link(target) => layer.symlink(name, unescape(target)?),
        EntrySpec::Hardlink(target) => {
            let target = unescape(target)?;
            layer.hardlink(name, target.strip_prefix(b"/").unwrap_or(&target))
        }
        EntrySpec::Elf(elf) => layer.executable(name, elf.object()?.build()),
        EntrySpec::SetuidElf(elf) => {
            let (name, mode, kind) = (name.to_vec(), 0o4755, Kind::File(elf.object()?.build()));
            layer.entry(Entry { name, mode, kind })
        }
        EntrySpec::Ldcache(libraries) => {
            context.cached.clone_from(libraries);
            layer.file(name, cache(context, Format::New)?)
        }
        EntrySpec::LdcacheMore(libraries) => {
            context.cached.extend(libraries.clone());
            layer.file(name, cache(context, Format::New)?)
        }
        EntrySpec::LdcacheCompat(libraries) => {
            context.cached.clone_from(libraries);
            layer.file(name, cache(context, Format::Compat)?)
        }
        EntrySpec::Part(part) => add(layer, name, context.sources.part(part)?, context)?,
    })
}

/// The bytes of a cache with the libraries of the context.
fn cache(context: &Context<'_>, format: Format) -> Result<Vec<u8>, String> {
    let platform = context.platform;
    let flags = match platform.split('/').nth(1) {
        Some("amd64") => X86_64,
        Some("arm64") => AARCH64,
        Some("386") => I386,
        _ => return Err(format!("no flags of ld.so.cache are known for {platform}")),
    };
    let mut cache = Cache::new().format(format);
    for (soname, path) in &context.cached {
        cache = cache.entry(flags, unescape(soname)?, unescape(path)?);
    }
    Ok(cache.build())
}

/// Decodes escapes: `\xNN` is a byte, `\\` a backslash.
///
/// Errors: A backslash before anything else.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        out.extend_from_slice(before.as_bytes());
        rest = if let Some(rest) = escape.strip_prefix('\\') {
            out.push(b'\\');
            rest
        } else {
            let hex = escape.strip_prefix('x').and_then(|hex| hex.split_at_checked(2));
            let byte = hex.and_then(|(hex, rest)| Some((u8::from_str_radix(hex, 16).ok()?, rest)));
            let (byte, rest) = byte.ok_or_else(|| format!("{text:?}: only \\xNN and \\\\ may follow a backslash"))?;
            out.push(byte);
            rest
        };
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}
