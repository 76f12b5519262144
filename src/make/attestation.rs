//! A statement about an image, signed: an in-toto statement in a DSSE envelope in Sigstore's bundle.
//!
//! The forms: in-toto attestation framework 1.0 ("Statement"), secure-systems-lab/dsse 1.0.2 ("Protocol"), Sigstore's
//! `sigstore_bundle.proto`. Keys are ECDSA on P-256, which cosign takes and gives.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image_source::registry::BUNDLE;
use image_source::{Digest, RegistryReference};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use serde::Deserialize;
use serde_json::{Value, json};

/// What a statement is (in-toto, "Statement").
const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// The same before 1.0, as cosign writes it.
const OLD_STATEMENT: &str = "https://in-toto.io/Statement/v0.1";
/// What the payload of an envelope is.
const PAYLOAD: &str = "application/vnd.in-toto+json";
/// The start of a public key on P-256: `SubjectPublicKeyInfo` up to the point (RFC 5480, section 2).
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Why nothing can be signed or verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AttestationError {
    #[error("it is no private key for ECDSA on P-256 as PKCS#8 in PEM, unencrypted")]
    PrivateKey,
    #[error("it is no public key for ECDSA on P-256 in PEM")]
    PublicKey,
    #[error("no random numbers can be had for the signature")]
    Signing,
}

/// A statement of `predicate` about an image that has the `digests`, its manifest's and that of an index with no other.
pub(crate) fn make_statement(
    home: &RegistryReference,
    digests: &[Digest],
    predicate_type: &str,
    predicate: &Value,
) -> String {
    let name = format!("{}/{}", home.registry(), home.repository());
    let subject = digests
        .iter()
        .map(|digest| json!({"name": name, "digest": {digest.algorithm(): digest.digest()}}));
    let statement = json!({
        "_type": STATEMENT, "subject": subject.collect::<Value>(), "predicateType": predicate_type, "predicate": predicate,
    });
    statement.to_string()
}

/// Signs a statement with a private key in PEM, and gives the bundle.
///
/// Errors: What is wrong with the key.
pub(crate) fn sign_statement(statement: &str, key: &[u8]) -> Result<String, AttestationError> {
    let random = SystemRandom::new();
    let pkcs8 = PrivatePkcs8KeyDer::from_pem_slice(key).map_err(|_| AttestationError::PrivateKey)?;
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.secret_pkcs8_der(), &random);
    let pair = pair.map_err(|_| AttestationError::PrivateKey)?;
    let message = signed_bytes(PAYLOAD, statement.as_bytes());
    let signature = pair.sign(&random, &message).map_err(|_| AttestationError::Signing)?;
    let point = pair.public_key().as_ref();
    let bundle = json!({
        "mediaType": BUNDLE,
        // By the hint cosign finds the key among several: the SHA-256 of its DER.
        "verificationMaterial": {"publicKey": {"hint": STANDARD.encode(key_hash(point))}},
        "dsseEnvelope": {
            "payload": STANDARD.encode(statement),
            "payloadType": PAYLOAD,
            "signatures": [{"sig": STANDARD.encode(signature)}],
        },
    });
    Ok(bundle.to_string())
}

fn key_hash(point: &[u8]) -> impl AsRef<[u8]> + use<> {
    let der = [&P256, point].concat();
    ring::digest::digest(&ring::digest::SHA256, &der)
}

/// What is signed in place of a payload, so that its type cannot be exchanged (DSSE, "PAE").
fn signed_bytes(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignedBundle {
    dsse_envelope: SignedEnvelope,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignedEnvelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Deserialize)]
struct EnvelopeSignature {
    sig: String,
}

/// A public key that signatures are compared with.
pub(crate) struct VerifyingKey(UnparsedPublicKey<Vec<u8>>);

impl VerifyingKey {
    /// The key of a file in PEM.
    ///
    /// Errors: [`AttestationError::PublicKey`] for anything but a key on P-256.
    pub(crate) fn read(pem: &[u8]) -> Result<Self, AttestationError> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(|_| AttestationError::PublicKey)?;
        let point = der.strip_prefix(&P256).ok_or(AttestationError::PublicKey)?;
        Ok(Self(UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point.to_vec())))
    }

    /// The predicate of a bundle that was signed with the key, about the image with the manifest `digest`. Nothing of one
    /// that another key signed, that was changed, or that says something else of something else.
    pub(crate) fn verify(&self, bundle: &[u8], digest: &Digest, predicate_type: &str) -> Option<Value> {
        let bundle: SignedBundle = serde_json::from_slice(bundle).ok()?;
        let envelope = bundle.dsse_envelope;
        let payload = STANDARD.decode(&envelope.payload).ok()?;
        // Before anything of it is read.
        let message = signed_bytes(&envelope.payload_type, &payload);
        let is_signed = |signature: &EnvelopeSignature| {
            let bytes = STANDARD.decode(&signature.sig);
            bytes.is_ok_and(|bytes| self.0.verify(&message, &bytes).is_ok())
        };
        let is_ours = envelope.payload_type == PAYLOAD && envelope.signatures.iter().any(is_signed);
        let statement: Value = is_ours.then(|| serde_json::from_slice(&payload).ok())??;
        let text = |key: &str| statement.get(key).and_then(Value::as_str);
        let is_about = |subject: &Value| {
            let named = subject.get("digest").and_then(|named| named.get(digest.algorithm()));
            named.and_then(Value::as_str) == Some(digest.digest())
        };
        let is_statement = matches!(text("_type"), Some(STATEMENT | OLD_STATEMENT));
        let subjects = statement.get("subject").and_then(Value::as_array)?;
        let holds = is_statement && text("predicateType") == Some(predicate_type) && subjects.iter().any(is_about);
        holds.then(|| statement.get("predicate").cloned())?
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use image_source::Digest;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
    use serde_json::{Value, json};

    use super::{AttestationError, P256, VerifyingKey, make_statement, sign_statement};

    fn pem(label: &str, der: &[u8]) -> Vec<u8> {
        let text = STANDARD.encode(der);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n").into_bytes()
    }

    /// The private and the public key, in PEM.
    fn keys() -> [Vec<u8>; 2] {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random).unwrap();
        let public = [&P256, pair.public_key().as_ref()].concat();
        [pem("PRIVATE KEY", pkcs8.as_ref()), pem("PUBLIC KEY", &public)]
    }

    #[test]
    fn a_bundle_says_something_of_its_image_by_its_key_and_unchanged() {
        let ([private, public], [_, other_key]) = (keys(), keys());
        let (image, other_image) = (Digest::of(b"one"), Digest::of(b"two"));
        let home = "host.example/app:1".parse().unwrap();
        let statement = make_statement(
            &home,
            std::slice::from_ref(&image),
            "urn:x",
            &json!({"verdict": "fail"}),
        );
        let bundle: Value = serde_json::from_str(&sign_statement(&statement, &private).unwrap()).unwrap();
        let verify = |bundle: &Value, key: &[u8], image: &Digest, kind: &str| {
            VerifyingKey::read(key)
                .unwrap()
                .verify(bundle.to_string().as_bytes(), image, kind)
        };
        assert_eq!(
            verify(&bundle, &public, &image, "urn:x"),
            Some(json!({"verdict": "fail"}))
        );
        assert_eq!(verify(&bundle, &public, &other_image, "urn:x"), None);
        assert_eq!(verify(&bundle, &public, &image, "urn:y"), None);
        assert_eq!(verify(&bundle, &other_key, &image, "urn:x"), None);
        for (place, changed) in [
            (
                "/dsseEnvelope/payload",
                STANDARD.encode(statement.replace("fail", "pass")),
            ),
            ("/dsseEnvelope/payloadType", "application/json".to_owned()),
            ("/dsseEnvelope/signatures/0/sig", STANDARD.encode("none")),
        ] {
            let mut damaged = bundle.clone();
            *damaged.pointer_mut(place).unwrap() = json!(changed);
            assert_eq!(verify(&damaged, &public, &image, "urn:x"), None, "{place}");
        }
        let bad = sign_statement(&statement, &public).unwrap_err();
        assert_eq!(bad, AttestationError::PrivateKey);
        assert_eq!(VerifyingKey::read(&private).err(), Some(AttestationError::PublicKey));
    }
}
