//! The audit's facts about a root file system in which the real loader also runs.

use std::sync::LazyLock;

use cupti_audit::facts::{GatherOptions, ImageFacts, ReadLayers, StartOverrides, gather_facts};
use cupti_audit::knowledge::Knowledge;
use image_linkage::loader::CpuLevel;
use image_source::ImageConfig;

use crate::chroot::Root;
use crate::plain_image::image_of;

static KNOWLEDGE: LazyLock<Knowledge> = LazyLock::new(Knowledge::built_in);

/// The facts of an image with this working directory, environment and command.
pub fn facts(root: &Root, working_dir: &str, environment: &[(&str, &str)], command: &[&str]) -> ImageFacts {
    let layers = root.layers.iter().cloned().map(Ok).collect();
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let conditions = conditions(environment.iter().map(pair).collect(), CpuLevel::V3);
    let config = ImageConfig {
        working_dir: Some(working_dir.to_owned()),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        ..ImageConfig::default()
    };
    let image = image_of("root", root.layers.len(), config);
    gather_facts(image, ReadLayers { layers }, &KNOWLEDGE, &conditions)
}

/// The usual limits, and this environment and processor.
pub fn conditions(environment: Vec<(String, String)>, cpu: CpuLevel) -> GatherOptions {
    GatherOptions {
        environment,
        cpu,
        limits: image_linkage::limits::Limits::default(),
        start: StartOverrides::default(),
    }
}
