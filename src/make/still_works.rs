//! Checks that a change to an image breaks no program and no library that loaded before.
//!
//! Only objects that the change can reach are checked ([`reached_objects`]).

mod reached_objects;

use std::collections::BTreeMap;

use self::reached_objects::reached_objects;
use crate::facts::{ByWorld, ProcessContext, unresolved_objects};
use image_linkage::loader::LoadResolution;
use image_linkage::path::RootPath;

/// The total number of objects that the compared loads may map. In a malicious image, thousands of objects may all need
/// each other.
const MAPPED: usize = 4_000_000;

/// An object that loaded before and no longer does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostObject {
    pub path: RootPath,
    /// The loader's message.
    pub why: String,
}

/// Compares what loads before and after a change.
///
/// Errors: One sentence on the first lost object, or that there are too many to check.
pub(crate) fn check_still_works(
    before: &ByWorld<ProcessContext>,
    after: &ByWorld<ProcessContext>,
) -> Result<(), String> {
    let lost = find_lost_objects(before, after)?;
    let Some(first) = lost.first() else { return Ok(()) };
    let more = match lost.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Err(format!(
        "{}{more} loads in the image and would no longer load: {}",
        first.path, first.why
    ))
}

/// The objects that load before a change but not after it, in either world, by path.
///
/// Errors: There are too many to check.
fn find_lost_objects(
    before: &ByWorld<ProcessContext>,
    after: &ByWorld<ProcessContext>,
) -> Result<Vec<LostObject>, String> {
    let mut lost: BTreeMap<RootPath, String> = BTreeMap::new();
    let mut left = MAPPED;
    for (before, after) in [(&before.as_is, &after.as_is), (&before.nvidia, &after.nvidia)] {
        for path in reached_objects(before, after) {
            let is_object =
                |context: &ProcessContext| context.rootfs.file(&path.absolute()).is_some_and(|it| it.elf.is_some());
            if lost.contains_key(&path) || !is_object(after) {
                continue;
            }
            let mut start = |context: &ProcessContext| {
                let started = context.start_program(&path.absolute());
                let mapped = started.as_ref().map_or(0, |started| started.objects.len());
                left = left.checked_sub(mapped).ok_or(TOO_MANY)?;
                if let Some(end) = context.budget_end() {
                    return Err(end);
                }
                Ok::<_, String>(started)
            };
            if !start(before)?.is_some_and(|started| started.loads()) {
                continue;
            }
            match start(after)? {
                Some(started) if started.loads() => {}
                started => drop(lost.insert(path, first_words(started.as_ref()))),
            }
        }
    }
    Ok(lost.into_iter().map(|(path, why)| LostObject { path, why }).collect())
}

const TOO_MANY: &str = "its objects need each other in more ways than can be compared with what they were";

fn first_words(started: Option<&LoadResolution>) -> String {
    let first = started.and_then(|started| unresolved_objects(started).next());
    first.map_or_else(|| "it has no loader".to_owned(), |missing| missing.message.clone())
}

#[cfg(test)]
mod tests {
    use testkit::elf::Elf;
    use testkit::layer::Layer;

    use super::check_still_works;
    use crate::facts::{ByWorld, GatherOptions, ProcessContext, ReadLayers, StartOverrides, gather_facts};
    use crate::knowledge::Knowledge;
    use crate::knowledge::file_interest::cupti_options;
    use image_linkage::layer::{ExpectedBlob, index_layer};
    use image_linkage::loader::CpuLevel;
    use image_source::{Image, ImageConfig, Platform, SourceKind};

    fn contexts(layers: &[Layer], env: &[(&str, &str)]) -> ByWorld<ProcessContext> {
        let index = |layer: &Layer| {
            let tar = layer.tar();
            Ok(index_layer("x", tar.as_slice(), &ExpectedBlob::default(), &cupti_options()).unwrap())
        };
        let layers: Vec<_> = layers.iter().map(index).collect();
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let conditions = GatherOptions {
            environment: env.iter().map(pair).collect(),
            cpu: CpuLevel::V3,
            limits: image_linkage::limits::Limits::default(),
            start: StartOverrides::default(),
        };
        let image = Image {
            reference: "x".to_owned(),
            source: SourceKind::Oci,
            digest: None,
            repo_digests: Vec::new(),
            platform: Platform::parse("linux/amd64").unwrap(),
            config: ImageConfig::default(),
            layers: Vec::new(),
        };
        gather_facts(image, ReadLayers { layers }, &Knowledge::built_in(), &conditions).contexts
    }

    /// A loader, a library that needs another one, and a program that needs the first library by a link.
    fn image() -> Layer {
        let loader = Elf::library("ld-linux-x86-64.so.2")
            .string("/lib/x86_64-linux-gnu/")
            .string("/usr/lib/x86_64-linux-gnu/")
            .string("/lib/")
            .string("/usr/lib/");
        Layer::new()
            .executable("lib64/ld-linux-x86-64.so.2", loader.build())
            .file(
                "lib/x86_64-linux-gnu/libdeep.so.1",
                Elf::library("libdeep.so.1").build(),
            )
            .file(
                "lib/x86_64-linux-gnu/liba.so.1.2",
                Elf::library("liba.so.1").needed("libdeep.so.1").build(),
            )
            .symlink("lib/x86_64-linux-gnu/liba.so.1", "liba.so.1.2")
            .executable("bin/uses", Elf::executable().needed("liba.so.1").build())
            .executable("bin/other", Elf::executable().needed("libgone.so").build())
            .executable("bin/plain", Elf::executable().needed("libdeep.so.1").build())
    }

    /// The result when an upper layer deletes these paths.
    fn without(env: &[(&str, &str)], gone: &[&str]) -> Result<(), String> {
        let upper = gone.iter().fold(Layer::new(), Layer::whiteout);
        let (before, after) = (contexts(&[image()], env), contexts(&[image(), upper], env));
        check_still_works(&before, &after)
    }

    #[test]
    fn an_object_that_loaded_and_no_longer_does_is_told() {
        let words = "cannot open shared object file: No such file or directory";
        for (gone, expected) in [
            (
                "lib/x86_64-linux-gnu/libdeep.so.1",
                "/bin/plain (and 2 more) loads in the image and would no longer load: libdeep.so.1",
            ),
            (
                "lib/x86_64-linux-gnu/liba.so.1",
                "/bin/uses loads in the image and would no longer load: liba.so.1",
            ),
        ] {
            assert_eq!(without(&[], &[gone]), Err(format!("{expected}: {words}")), "{gone}");
        }
    }

    #[test]
    fn what_nobody_needs_and_what_failed_before_is_not() {
        for gone in [
            &["bin/uses"][..],
            &["bin/other"],
            &[
                "bin/uses",
                "lib/x86_64-linux-gnu/liba.so.1",
                "lib/x86_64-linux-gnu/liba.so.1.2",
            ],
        ] {
            assert_eq!(without(&[], gone), Ok(()), "{gone:?}");
        }
    }

    #[test]
    fn what_is_preloaded_concerns_every_object() {
        let upper = Layer::new().executable("bin/alone", Elf::executable().needed("libc.so.6").build());
        let upper = upper.file("lib/x86_64-linux-gnu/libc.so.6", Elf::library("libc.so.6").build());
        let gone = Layer::new().whiteout("lib/x86_64-linux-gnu/libdeep.so.1");
        let lost = |env: &[(&str, &str)]| {
            let before = contexts(&[image(), upper.clone()], env);
            check_still_works(&before, &contexts(&[image(), upper.clone(), gone.clone()], env)).unwrap_err()
        };
        assert!(lost(&[]).starts_with("/bin/plain (and 2 more) "));
        let preloaded = lost(&[("LD_PRELOAD", "/lib/x86_64-linux-gnu/liba.so.1")]);
        assert!(preloaded.starts_with("/bin/alone (and 5 more) "), "{preloaded}");
    }
}
