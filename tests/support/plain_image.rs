//! An amd64 image for tests that only need a config and a number of layers.

use image_source::{Image, ImageConfig, LayerDescriptor, Platform, SourceKind};

/// An image with this config and this number of layers, without digests.
pub fn image_of(reference: &str, layers: usize, config: ImageConfig) -> Image {
    let descriptor = LayerDescriptor {
        digest: None,
        diff_id: None,
        media_type: "application/vnd.oci.image.layer.v1.tar".to_owned(),
        size: None,
        created_by: None,
    };
    Image {
        reference: reference.to_owned(),
        source: SourceKind::Oci,
        digest: None,
        repo_digests: Vec::new(),
        platform: Platform {
            os: "linux".to_owned(),
            architecture: "amd64".to_owned(),
            variant: None,
        },
        config,
        layers: vec![descriptor; layers],
    }
}
