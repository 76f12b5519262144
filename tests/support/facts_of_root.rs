//! What the audit says of a root file system that the real loader is asked about, too.

#![allow(dead_code, reason = "each test target uses its own part of this module")]

use cupti_audit::judge::facts::{GatherOptions, ImageFacts, ReadLayers, gather_facts};
use cupti_audit::knowledge::Knowledge;
use image_linkage::loader::CpuLevel;
use image_source::{Image, ImageConfig, LayerDescriptor, Platform, SourceKind};

use crate::chroot::Root;

/// The facts of an image with this working directory and environment.
pub fn facts(root: &Root, working_dir: &str, environment: &[(&str, &str)]) -> ImageFacts {
    let layers = root.layers.iter().cloned().map(Ok).collect();
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let conditions = GatherOptions {
        environment: environment.iter().map(pair).collect(),
        cpu: CpuLevel::V3,
    };
    let image = image(root.layers.len(), working_dir);
    gather_facts(image, ReadLayers { layers }, &Knowledge::built_in(), &conditions)
}

fn image(layers: usize, working_dir: &str) -> Image {
    let descriptor = LayerDescriptor {
        digest: None,
        diff_id: None,
        media_type: "application/vnd.oci.image.layer.v1.tar".to_owned(),
        size: None,
        created_by: None,
    };
    Image {
        reference: "root".to_owned(),
        source: SourceKind::Oci,
        digest: None,
        platform: Platform {
            os: "linux".to_owned(),
            architecture: "amd64".to_owned(),
            variant: None,
        },
        config: ImageConfig {
            working_dir: Some(working_dir.to_owned()),
            ..ImageConfig::default()
        },
        layers: vec![descriptor; layers],
    }
}
