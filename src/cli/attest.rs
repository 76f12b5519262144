//! What `attest` and `verify-attestation` take.

use std::path::PathBuf;

use clap::Args;

use super::shared_args::{CuptiOnlyArgs, ReadArgs};

const ATTEST_HELP: &str = "\
Without --key the predicate is written out, for another signer:
  cupti-audit attest IMAGE@DIGEST > predicate.json
  cosign attest --predicate predicate.json --type urn:cupti-audit:attestation:v1 IMAGE@DIGEST

Exit codes:
  0  attested, whatever the verdict
  2  it could not be done";

const VERIFY_HELP: &str = "\
Of several attestations by the key the newest counts: that which the registry lists last.

Exit codes:
  0  an attestation by the key is there, and what was asked for passes in it
  1  it does not
  2  there is none by the key, or it could not be read

Examples:
  cupti-audit attest --key cosign.pem registry.example/team/trainer:1
  cupti-audit verify-attestation --key cosign.pub --phase training registry.example/team/trainer:1";

#[derive(Debug, Args)]
#[command(after_help = ATTEST_HELP)]
pub struct AttestArgs {
    /// The image, in a registry
    #[arg(value_name = "IMAGE")]
    pub image_name: String,
    /// The private key (ECDSA on P-256, PKCS#8 in PEM) to sign with, and to push the result beside the image
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// A phase whose findings count (repeatable)
    #[arg(long, short, value_name = "PHASE")]
    pub phase: Vec<String>,
    #[command(flatten)]
    pub only: CuptiOnlyArgs,
    #[command(flatten)]
    pub read: ReadArgs,
}

#[derive(Debug, Args)]
#[command(after_help = VERIFY_HELP)]
pub struct VerifyAttestationArgs {
    /// The image, in a registry
    #[arg(value_name = "IMAGE")]
    pub image_name: String,
    /// The public key (ECDSA on P-256, PEM) of who may attest
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// A phase that has to pass (repeatable) [default: the audit as a whole]
    #[arg(long, short, value_name = "PHASE")]
    pub phase: Vec<String>,
    #[command(flatten)]
    pub read: ReadArgs,
}
