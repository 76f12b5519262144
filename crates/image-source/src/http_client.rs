//! What all HTTP clients of this crate have in common: who does the cryptography, and that redirects are ours to follow.

use reqwest::blocking::ClientBuilder;
use reqwest::redirect;

/// A client with TLS by ring, which hands redirects back as answers.
pub fn client_builder() -> ClientBuilder {
    // The provider is the process's, and reqwest panics without one. Where a program above chose another before, that
    // one stays, and this call is the error of being second.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A redirect may lead to another host, which must not get the credentials, or to one that is not to be asked at all:
    // `registry/transport.rs` looks at each step.
    ClientBuilder::new().redirect(redirect::Policy::none())
}
