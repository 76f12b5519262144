//! Processes a blob in four threads: fetch and digest, decompress, digest, walk.
//!
//! Inflating is slower than everything else together, so on two cores the other stages cost no extra time. zstd is as
//! fast as a digest, which is why the last two are separate. Chunks are passed without copying through bounded queues.
//! Nothing is written to disk.

use std::io::{self, Read};
use std::thread::ScopedJoinHandle;

use super::changeset::Changeset;
use super::decompress::DecompressedReader;
use super::index::{ExpectedBlob, LayerError, LayerIndex};
use super::interest::IndexOptions;
use super::read_ahead::{ReadAhead, read_ahead};
use super::tar_walk::read_changeset;
use crate::digest::{Digest, DigestHasher, HashingReader};
use crate::limits::Limits;

/// The stored bytes read at a time.
const STORED_CHUNK: usize = 256 << 10;
/// The uncompressed bytes passed on at a time.
const PLAIN_CHUNK: usize = 512 << 10;

type StoredThread<'scope, R> = ScopedJoinHandle<'scope, StoredReader<R>>;
type PlainThread<'scope> = ScopedJoinHandle<'scope, DecompressedReader<ReadAhead>>;

/// Reads a layer's blob to its end and returns its index, verified against `expected`.
///
/// Errors name the layer `name`. The compression is detected by magic bytes: gzip (all members), zstd (all frames) or
/// none.
///
/// Errors: [`LayerError`] if the bytes cannot be read, are truncated, differ from `expected`, are not a tar, or exceed
/// a limit. If the blob is not the expected one, the error says so instead of reporting a consequence.
pub fn index_layer(
    name: &str,
    blob: impl Read + Send,
    expected: &ExpectedBlob<'_>,
    options: &IndexOptions,
) -> Result<LayerIndex, LayerError> {
    read(blob, expected, options).map_err(|reason| LayerError {
        layer: name.to_owned(),
        reason,
    })
}

fn read(blob: impl Read + Send, expected: &ExpectedBlob<'_>, options: &IndexOptions) -> Result<LayerIndex, String> {
    let stored_hasher = DigestHasher::new(expected.digest).map_err(|name| unknown_algorithm(&name))?;
    let plain_hasher = DigestHasher::new(expected.diff_id).map_err(|name| unknown_algorithm(&name))?;
    std::thread::scope(|scope| {
        let stored = StoredReader {
            inner: HashingReader::new(blob, stored_hasher, expected.size),
            failure: None,
        };
        let (stored_ahead, stored) = read_ahead(scope, stored, STORED_CHUNK);
        let (plain_ahead, plain) = read_ahead(scope, DecompressedReader::new(stored_ahead), PLAIN_CHUNK);
        let digest = BoundedDigest {
            hasher: plain_hasher,
            bytes: 0,
            limit: uncompressed_limit(expected.size, &options.limits),
        };
        let (digested_ahead, digested) = plain_ahead.watched(scope, digest, BoundedDigest::take);
        let walked = read_changeset(digested_ahead, options);
        // Check the blob before the walk's result: a wrong blob explains a broken tar.
        let (digest, compressed_bytes) = check_stored(stored, plain, expected, walked.is_err())?;
        let mut changeset: Changeset = walked?;
        let digested = digested.join().map_err(|_panic| "the digest failed".to_owned())?;
        let (diff_id, bytes) = (digested.hasher.finish(), digested.bytes);
        if let Some(expected) = expected.diff_id.filter(|&expected| *expected != diff_id) {
            return Err(format!(
                "the uncompressed bytes have the digest {diff_id}, the image config says {expected}"
            ));
        }
        Ok(LayerIndex {
            digest,
            compressed_bytes,
            diff_id,
            bytes,
            problems: changeset.take_problems(),
            entries: changeset.entries,
            whiteouts: changeset.whiteouts,
            opaque: changeset.opaque,
        })
    })
}

fn unknown_algorithm(algorithm: &str) -> String {
    format!("digest algorithm {algorithm:?} is not one of sha256, sha384, sha512")
}

/// Compares the stored bytes with the expected ones. After a failure, reads the remaining bytes first if their size is
/// known: a digest mismatch explains the failure better than the failure itself.
fn check_stored<R: Read>(
    stored: StoredThread<'_, R>,
    plain: PlainThread<'_>,
    expected: &ExpectedBlob<'_>,
    failed: bool,
) -> Result<(Digest, u64), String> {
    let decompressed = plain.join().map_err(|_panic| "the decompressor failed".to_owned())?;
    if let Some(mut rest) = decompressed.into_inner()
        && (!failed || expected.size.is_some())
    {
        // The reader itself records failures.
        let _ = io::copy(&mut rest, &mut io::sink());
    }
    let stored = stored.join().map_err(|_panic| "the reader failed".to_owned())?;
    let (digest, bytes) = stored.inner.finish();
    if let Some(failure) = stored.failure {
        return Err(failure);
    }
    match expected.size {
        // The rest was not read, so the digest covers only a part.
        None if failed => return Ok((digest, bytes)),
        Some(expected) if bytes != expected => {
            return Err(format!(
                "expected {expected} bytes, read {bytes}; the blob was cut short or is another one"
            ));
        }
        _ => {}
    }
    match expected.digest {
        Some(expected) if *expected != digest => Err(format!(
            "expected digest {expected}, found {digest}; the blob is damaged or was tampered with"
        )),
        _ => Ok((digest, bytes)),
    }
}

/// The maximum uncompressed bytes of a blob of this size.
fn uncompressed_limit(stored: Option<u64>, limits: &Limits) -> u64 {
    let by_ratio = stored.map_or(u64::MAX, |stored| {
        stored
            .saturating_mul(limits.layer_ratio)
            // A small blob of zeros is legitimate and exceeds any ratio.
            .max(limits.ratio_from)
    });
    limits.layer_bytes.min(by_ratio)
}

/// Reads the stored bytes and records the first failure.
struct StoredReader<R> {
    inner: HashingReader<R>,
    failure: Option<String>,
}

impl<R: Read> Read for StoredReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let result = self.inner.read(buf);
        if let Err(error) = &result
            && error.kind() != io::ErrorKind::Interrupted
        {
            // The decompressor wraps the error; the source's own message says what to do.
            self.failure = Some(error.to_string());
        }
        result
    }
}

/// Digests the uncompressed bytes and stops a blob that inflates endlessly.
struct BoundedDigest {
    hasher: DigestHasher,
    bytes: u64,
    limit: u64,
}

impl BoundedDigest {
    fn take(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.hasher.update(chunk);
        self.bytes += chunk.len() as u64;
        if self.bytes > self.limit {
            return Err(io::Error::other(format!(
                "more than the limit of {} uncompressed bytes (layer-bytes, image-bytes, layer-ratio)",
                self.limit
            )));
        }
        Ok(())
    }
}
