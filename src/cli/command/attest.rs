//! `attest` and `verify-attestation`: a verdict that travels with its image.
#![expect(clippy::disallowed_methods, reason = "the command line reads the user's keys")]

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::cli::attest::{AttestArgs, VerifyAttestationArgs};
use crate::judge::audit::judge_image;
use crate::judge::image_reading::in_no_registry;
use crate::judge::outcome::{FailOn, RunExit};
use crate::judge::rule::Severity;
use crate::make::attestation::{VerifyingKey, make_statement, sign_statement};
use crate::report::attestation::{AttestedVerdict, PREDICATE_TYPE, attestation_predicate};
use image_linkage::escape;
use image_source::registry::{push_bundle, read_bundles};
use image_source::{Digest, ImageError, RegistryReference};

use super::command_error::CommandError;
use super::image_reader::{ONE_PLATFORM, PreparedCommand};
use super::terminal::{set_color_choice, write_result};

/// The bytes of a key that are read; those of one on P-256 are some two hundred.
const KEY_BYTES: u64 = 64 << 10;

/// Audits the image and says the result in a predicate, which is signed and pushed where there is a key.
pub fn run_attest(mut args: AttestArgs) -> Result<RunExit, CommandError> {
    set_color_choice(args.read.output.color);
    // A key that is none is told before gigabytes are read.
    let key = args.key.as_deref().map(read_key).transpose()?;
    if let (Some(key), Some(file)) = (&key, &args.key) {
        sign_statement("", key).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let prepared = PreparedCommand::new(&mut args.read, ONE_PLATFORM)?;
    for phase in &args.phase {
        prepared.knowledge.phase(phase)?;
    }
    // Asked for once more when it is read: that it is in no registry is told before gigabytes are.
    let (home, digests) = find_image(&prepared, &args.image_name)?;
    let facts = prepared.read(&args.image_name)?;
    if facts.image.digest.as_ref() != digests.first() {
        return Err(format!("{} has become another image meanwhile; run it again", args.image_name).into());
    }
    let audit = judge_image(facts, &prepared.knowledge, &args.phase, &args.read.image.environment);
    let predicate = attestation_predicate(&audit, FailOn::Severity(Severity::Error));
    let Some(key) = key else {
        return Ok(write_result(&format!("{predicate}\n"), RunExit::Clean));
    };
    let statement = make_statement(&home, &digests, PREDICATE_TYPE, &predicate);
    let bundle = sign_statement(&statement, &key)?;
    let registry = prepared.reader.options(None).registry;
    let mut text = String::new();
    for digest in &digests {
        let pushed = push_bundle(&home, &args.image_name, &registry, digest, (PREDICATE_TYPE, &bundle))?;
        let _ = writeln!(text, "{digest} is attested by {pushed}: {}", audit.verdict());
    }
    Ok(write_result(&text, RunExit::Clean))
}

/// Looks for an attestation by the key, and whether what it says passes.
pub fn run_verify_attestation(mut args: VerifyAttestationArgs) -> Result<RunExit, CommandError> {
    set_color_choice(args.read.output.color);
    let file = args.key.display().to_string();
    let key = VerifyingKey::read(&read_key(&args.key)?).map_err(|error| format!("{file}: {error}"))?;
    let prepared = PreparedCommand::new(&mut args.read, ONE_PLATFORM)?;
    let (home, digests) = find_image(&prepared, &args.image_name)?;
    let registry = prepared.reader.options(None).registry;
    let mut attested = None;
    for digest in &digests {
        let bundles = read_bundles(&home, &args.image_name, &registry, digest)?;
        let signed = |bundle: &Vec<u8>| key.verify(bundle, digest, PREDICATE_TYPE);
        // The list has the newest last.
        if let Some(predicate) = bundles.iter().rev().find_map(signed) {
            attested = Some((digest, predicate));
            break;
        }
    }
    let Some((digest, predicate)) = attested else {
        let digests: Vec<String> = digests.iter().map(ToString::to_string).collect();
        return Err(format!(
            "{} ({}) has no attestation that the key of {file} signed",
            args.image_name,
            digests.join(", ")
        )
        .into());
    };
    let attested: AttestedVerdict = serde_json::from_value(predicate)
        .map_err(|error| format!("what is attested of {digest} is no audit: {error}"))?;
    // Who has the key need not have this program.
    let shown = |text: &str| escape::escape_bytes(text.as_bytes());
    let failures = attested.failures(&args.phase);
    let text = format!("{digest} is attested: {}\n", shown(&attested.verdict));
    let (text, exit) = if failures.is_empty() {
        (text, RunExit::Clean)
    } else {
        (
            format!("{text}  does not pass: {}\n", shown(&failures.join(", "))),
            RunExit::Findings,
        )
    };
    Ok(write_result(&text, exit))
}

fn read_key(file: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|file| file.take(KEY_BYTES).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(bytes),
        Err(error) => Err(format!("the key {} cannot be read: {error}", file.display())),
    }
}

/// Where the image lies in its registry, and what it is known by: the digest of its manifest, and that of an index with no
/// other image, which is what other tools look beside for an attestation.
fn find_image(prepared: &PreparedCommand, image: &str) -> Result<(RegistryReference, Vec<Digest>), ImageError> {
    let options = prepared.reader.options(prepared.platform.as_ref());
    let opened = image_source::open_image(image, &options.registry, &options.open_request())?;
    let (Some(home), Some(digest)) = (opened.home, opened.image.digest) else {
        return Err(in_no_registry(image, "an attestation lies"));
    };
    Ok((home.name, std::iter::once(digest).chain(home.sole_of).collect()))
}
