//! Decompression bombs and other oversized layers (rows B-01 to B-03, B-07).

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use image_linkage::layer::{self, ExpectedBlob, IndexOptions};
use image_linkage::limits::Limits;
use testkit::layer::{Compression, Layer, compress};

use crate::{index, index_with};

fn small() -> Limits {
    Limits {
        layer_bytes: 1 << 20,
        ..Limits::default()
    }
}

#[test]
fn b01_a_layer_that_inflates_past_its_bound_is_an_error() {
    let zeros = Layer::new().file("zeros", vec![0; 4 << 20]);
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let blob = zeros.blob(compression).bytes;
        let error = index_with(&blob, &small()).unwrap_err();
        assert_eq!(
            error,
            "layer L: more than the limit of 1048576 uncompressed bytes (layer-bytes, image-bytes, layer-ratio)"
        );
        assert!(index(&blob).is_ok());
    }
}

#[test]
fn b02_drained_bytes_are_limited() {
    let mut tar = Layer::new().file("a", "").tar();
    tar.resize(4 << 20, 0);
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let blob = compress(tar.clone(), compression);
        let error = index_with(&blob, &small()).unwrap_err();
        assert!(error.contains("more than the limit of 1048576"), "{error}");
    }
}

#[test]
fn b03_an_extreme_ratio_is_an_error_once_the_layer_is_large() {
    let blob = Layer::new()
        .file("zeros", vec![0; 32 << 20])
        .blob(Compression::Zstd)
        .bytes;
    let limits = |ratio_from| IndexOptions {
        limits: Limits {
            layer_ratio: 100,
            ratio_from,
            ..Limits::default()
        },
        ..IndexOptions::default()
    };
    let expected = ExpectedBlob {
        size: Some(blob.len() as u64),
        ..ExpectedBlob::default()
    };
    let read = |options: &IndexOptions| layer::index_layer("L", blob.as_slice(), &expected, options);
    assert!(read(&limits(64 << 20)).is_ok());
    let error = read(&limits(1 << 20)).unwrap_err().to_string();
    assert!(
        error.contains("more than the limit of 1048576 uncompressed bytes"),
        "{error}"
    );
}

/// Repeats the same bytes endlessly and counts them.
struct Endless<'a>(&'a [u8], &'a AtomicU64);

impl Read for Endless<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        buf.chunks_mut(self.0.len())
            .for_each(|chunk| chunk.copy_from_slice(&self.0[..chunk.len()]));
        self.1.fetch_add(buf.len() as u64, Ordering::Relaxed);
        Ok(buf.len())
    }
}

#[test]
fn b07_limits_are_counted_while_bytes_arrive() {
    let member = compress(vec![0; 1 << 16], Compression::Gzip);
    for pattern in [&[0][..], &member] {
        let count = AtomicU64::new(0);
        let blob = Endless(pattern, &count);
        let options = IndexOptions {
            limits: small(),
            ..IndexOptions::default()
        };
        let error = layer::index_layer("L", blob, &ExpectedBlob::default(), &options).unwrap_err();
        assert!(error.to_string().contains("more than the limit"), "{error}");
        assert!(count.into_inner() < 16 << 20);
    }
    let count = AtomicU64::new(0);
    let expected = ExpectedBlob {
        size: Some(10_000),
        ..ExpectedBlob::default()
    };
    let blob = Endless(&[0], &count);
    let error = layer::index_layer("L", blob, &expected, &IndexOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "layer L: more than the expected 10000 bytes");
    assert!(count.into_inner() < 16 << 20);
}

#[test]
fn oddities_beyond_the_limit_are_counted() {
    let layer = (0..1000).fold(Layer::new(), |layer, nth| layer.file(format!("../{nth}"), ""));
    let found = index(&layer.tar()).unwrap();
    assert_eq!(found.problems.len(), 201);
    let last = found.problems.last().unwrap();
    assert_eq!(last.what, "800 more problems are not listed");
}
