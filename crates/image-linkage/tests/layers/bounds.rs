//! Decompression bombs and other oversized layers (rows B-01 to B-04, B-07, B-08).

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use image_linkage::layer::{self, ExpectedBlob, IndexOptions, LayerEntry};
use image_linkage::limits::Limits;
use testkit::layer::{Compression, Layer, compress};

use crate::raw::{Header, Tar};
use crate::{index, index_with, lines, refuse};

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
fn b04_entries_are_bounded() {
    let layer = Layer::new().file("a", "").file("b", "").file("c", "");
    let limit = |layer_entries| Limits {
        layer_entries,
        ..Limits::default()
    };
    assert!(index_with(&layer.tar(), &limit(3)).is_ok());
    let error = index_with(&layer.tar(), &limit(2)).unwrap_err();
    assert_eq!(error, "layer L: more than the limit of 2 entries (layer-entries)");
    // A repeated name counts as another entry.
    let same = Layer::new().file("a", "").file("a", "").file("a", "");
    assert!(index_with(&same.tar(), &limit(2)).is_err());
}

#[test]
fn b08_huge_headers_are_refused_by_size() {
    let huge = "p".repeat(2 << 20);
    refuse(
        &Tar::new().pax(&[("comment", &huge)]).file("a", b"").end(),
        "metadata exceeds limit",
    );
    refuse(
        &Tar::new().long(b'L', huge.as_bytes()).file("a", b"").end(),
        "metadata exceeds limit",
    );
    for kind in [b'x', b'g', b'L', b'K'] {
        // The size alone is refused, without content, even if it exceeds memory.
        for size in [&b"77777777777\0"[..], b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff"] {
            let header = Header::new(b"x", kind, 0).gnu().set(124, size);
            refuse(&Tar::new().raw(&header, b"").cut(), "metadata exceeds limit");
        }
    }
    let allowed = "p".repeat(900_000);
    let tar = Tar::new().pax(&[("comment", &allowed)]).file("a", b"");
    assert!(index(&tar.end()).is_ok());
}

#[test]
fn kept_files_are_bounded_one_by_one_and_together() {
    let limits = Limits {
        kept_file: 1000,
        kept_total: 1500,
        ..Limits::default()
    };
    let layer = Layer::new()
        .file("etc/ld.so.cache", vec![b'c'; 1001])
        .file("etc/ld.so.conf", vec![b'c'; 1000])
        .file("etc/ld.so.conf.d/a.conf", vec![b'c'; 501])
        .file("etc/ld.so.conf.d/b.conf", vec![b'c'; 500])
        .file("etc/other", vec![b'c'; 5000]);
    let found = index_with(&layer.tar(), &limits).unwrap();
    let sorted: BTreeMap<_, _> = found.entries.iter().collect();
    let kept: Vec<Option<usize>> = sorted
        .values()
        .map(|entry| match entry {
            LayerEntry::File(facts) => facts.kept.as_ref().map(|kept| kept.len()),
            _ => None,
        })
        .collect();
    assert_eq!(kept, [None, Some(1000), None, Some(500), None]);
    assert_eq!(
        lines(&found)[5..],
        [
            "? /etc/ld.so.cache: larger than the limit of 1000 bytes (kept-file); it is not read",
            "? /etc/ld.so.conf.d/a.conf: the files to be read exceed the limit of 1500 bytes (kept-total); it is not read",
        ]
    );
}

#[test]
fn oddities_beyond_the_limit_are_counted() {
    let layer = (0..1000).fold(Layer::new(), |layer, nth| layer.file(format!("../{nth}"), ""));
    let found = index(&layer.tar()).unwrap();
    assert_eq!(found.problems.len(), 201);
    let last = found.problems.last().unwrap();
    assert_eq!(last.what, "800 more problems are not listed");
}
