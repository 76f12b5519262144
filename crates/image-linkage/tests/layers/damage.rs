//! Layers that are truncated, changed or followed by other bytes (rows T-17, T-20, S-04).

use std::io::{self, Read};

use image_linkage::layer::{self, ExpectedBlob, IndexOptions};
use testkit::layer::{Blob, Compression, Layer, compress};

use crate::raw::Tar;
use crate::{index, read, refuse};

const ALL: [Compression; 3] = [Compression::None, Compression::Gzip, Compression::Zstd];

fn sample() -> Layer {
    let text: Vec<u8> = (0..40_000_u32).flat_map(u32::to_le_bytes).collect();
    Layer::new()
        .dir("d")
        .file("d/numbers", &text)
        .symlink("l", "d/numbers")
        .file("n".repeat(180), &text[..3000])
}

/// Verifies a blob; an error as text.
fn verify(bytes: &[u8], digest: &str, size: u64, diff_id: &str) -> Result<u64, String> {
    let (digest, diff_id) = (digest.parse().unwrap(), diff_id.parse().unwrap());
    let expected = ExpectedBlob {
        digest: Some(&digest),
        size: Some(size),
        diff_id: Some(&diff_id),
    };
    layer::index_layer("L", bytes, &expected, &IndexOptions::default())
        .map(|layer| layer.bytes)
        .map_err(|error| error.to_string())
}

fn verify_blob(blob: &Blob, bytes: &[u8]) -> Result<u64, String> {
    verify(bytes, &blob.digest, blob.bytes.len() as u64, &blob.diff_id)
}

#[test]
fn a_matching_blob_passes() {
    for compression in ALL {
        let blob = sample().blob(compression);
        let bytes = sample().tar().len() as u64;
        assert_eq!(verify_blob(&blob, &blob.bytes), Ok(bytes));
    }
}

#[test]
fn s04_each_mismatch_has_its_own_message() {
    let zeros = format!("sha256:{}", "0".repeat(64));
    for compression in ALL {
        let blob = sample().blob(compression);
        let size = blob.bytes.len() as u64;
        let error = |digest: &str, size, diff_id: &str| verify(&blob.bytes, digest, size, diff_id).unwrap_err();
        assert_eq!(
            error(&zeros, size, &blob.diff_id),
            format!(
                "layer L: expected digest {zeros}, found {}; the blob is damaged or was tampered with",
                blob.digest
            )
        );
        assert_eq!(
            error(&blob.digest, size, &zeros),
            format!(
                "layer L: the uncompressed bytes have the digest {}, the image config says {zeros}",
                blob.diff_id
            )
        );
        assert_eq!(
            error(&blob.digest, size + 1, &blob.diff_id),
            format!(
                "layer L: expected {} bytes, read {size}; the blob was cut short or is another one",
                size + 1
            )
        );
        assert_eq!(
            error(&blob.digest, size - 1, &blob.diff_id),
            format!("layer L: more than the expected {} bytes", size - 1)
        );
    }
}

#[test]
fn t17_bytes_after_the_end_marker_are_read_and_verified() {
    let mut tar = sample().tar();
    tar.extend(b"bytes that no reader of a tar sees".repeat(5000));
    let extra = tar.clone();
    for compression in ALL {
        let blob = compress(tar.clone(), compression);
        let found = index(&blob).unwrap();
        assert_eq!(found.bytes, extra.len() as u64);
        assert_eq!(found.compressed_bytes, blob.len() as u64);
        let told = verify(
            &blob,
            &testkit::layer::sha256(&blob),
            blob.len() as u64,
            &sample().blob(compression).diff_id,
        );
        assert!(told.unwrap_err().contains("the uncompressed bytes have the digest"));
    }
}

#[test]
fn t17_bytes_behind_a_compressed_stream_are_an_error() {
    let blob = |compression| sample().blob(compression).bytes;
    let gzip = [blob(Compression::Gzip), b"more".to_vec()].concat();
    refuse(&gzip, "trailing bytes after the last gzip member");
    let zstd = [blob(Compression::Zstd), b"more".to_vec()].concat();
    refuse(&zstd, "trailing bytes after the last zstd frame");
    // containerd, podman, skopeo and umoci also fail on trailing zeros; only gzip(1) ignores them.
    for compression in [Compression::Gzip, Compression::Zstd] {
        refuse(
            &[blob(compression), vec![0; 1000]].concat(),
            "trailing bytes after the last",
        );
    }
}

#[test]
fn members_and_frames_are_one_layer() {
    let tar = sample().tar();
    let whole = read(&tar);
    for compression in [Compression::Gzip, Compression::Zstd] {
        for size in [5000, 7777, 100_000] {
            let pieces = tar.chunks(size);
            let blob: Vec<u8> = pieces.flat_map(|piece| compress(piece.to_vec(), compression)).collect();
            assert_eq!(read(&blob), whole, "{compression:?} {size}");
        }
    }
}

#[test]
fn t20_a_layer_cut_anywhere_is_an_error_that_names_it() {
    for compression in ALL {
        let blob = sample().blob(compression);
        let step = (blob.bytes.len() / 150).max(1);
        for end in (0..blob.bytes.len()).step_by(step) {
            let error = verify_blob(&blob, &blob.bytes[..end]).unwrap_err();
            let told = format!("layer L: expected {} bytes, read {end};", blob.bytes.len());
            assert!(error.starts_with(&told), "{error}");
        }
    }
}

#[test]
fn t20_truncation_is_detected_without_a_digest() {
    for compression in [Compression::Gzip, Compression::Zstd] {
        let blob = sample().blob(compression).bytes;
        let step = (blob.len() / 150).max(1);
        for end in (20..blob.len()).step_by(step) {
            refuse(&blob[..end], "");
        }
    }
    // A plain tar may end between two members, behind extension headers (as in every engine), or in the padding behind
    // a content (as umoci writes it).
    let tar = sample().tar();
    let ends: Vec<usize> = (0..=tar.len())
        .step_by(64)
        .filter(|&end| index(&tar[..end]).is_ok())
        .collect();
    let first_file = 512;
    let (numbers, numbers_end) = (2 * 512 + 160_000, 2 * 512 + 160_000_usize.next_multiple_of(512));
    let padding = (numbers..=numbers_end).step_by(64);
    let mut expected = vec![0, first_file];
    expected.extend(padding.chain([numbers_end + 512, numbers_end + 3 * 512]));
    let (between, behind) = ends.split_at(expected.len());
    assert_eq!(between, expected);
    let last_content = tar.len() - 1024 - 3000_usize.next_multiple_of(512) + 3000;
    assert!(behind.iter().all(|&end| end >= last_content), "{ends:?}");
    refuse(&tar[..5000], "the tar ends at byte 5000");
    refuse(&tar[..700], "in the middle of a header, 188 bytes after byte 512");
}

#[test]
fn a_flipped_bit_anywhere_never_passes_and_never_panics() {
    for compression in ALL {
        let blob = sample().blob(compression);
        let step = (blob.bytes.len() / 150).max(1);
        for at in (0..blob.bytes.len()).step_by(step) {
            let mut bytes = blob.bytes.clone();
            bytes[at] ^= 0x10;
            let error = verify_blob(&blob, &bytes).unwrap_err();
            assert!(error.starts_with("layer L: expected digest"), "{error}");
            let _ = index(&bytes);
        }
    }
}

#[test]
fn errors_of_the_reader_are_reported() {
    struct Fails<'a>(&'a [u8]);
    impl Read for Fails<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buf)? {
                0 => Err(io::Error::other("the connection was closed")),
                n => Ok(n),
            }
        }
    }
    for compression in ALL {
        let blob = sample().blob(compression).bytes;
        for end in [0, 5, blob.len() / 2, blob.len()] {
            let reader = Fails(&blob[..end]);
            let expected = ExpectedBlob::default();
            let error = layer::index_layer("L", reader, &expected, &IndexOptions::default()).unwrap_err();
            assert_eq!(error.to_string(), "layer L: the connection was closed");
        }
    }
}

#[test]
fn a_blob_may_arrive_byte_by_byte() {
    struct Drips<'a>(&'a [u8]);
    impl Read for Drips<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let end = buf.len().min(1);
            self.0.read(&mut buf[..end])
        }
    }
    let layer = Layer::new().file("f", "text").symlink("l", "f");
    for compression in ALL {
        let blob = layer.blob(compression);
        let found = layer::index_layer(
            "L",
            Drips(&blob.bytes),
            &ExpectedBlob::default(),
            &IndexOptions::default(),
        );
        assert_eq!(found.unwrap(), index(&blob.bytes).unwrap(), "{compression:?}");
    }
}

#[test]
fn other_files_than_tars_are_errors() {
    refuse(
        b"<!DOCTYPE html><html><body>404</body></html>",
        "in the middle of a header",
    );
    refuse(&b"<html>".repeat(500), "damaged tar header at byte 0");
    let inner = Tar::new().file("a", b"").end();
    let twice = compress(compress(inner, Compression::Gzip), Compression::Gzip);
    refuse(&twice, "in the middle of a header");
}
