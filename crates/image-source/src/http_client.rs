//! Common settings of all HTTP clients: the crypto provider, and manual redirects.

use reqwest::blocking::ClientBuilder;
use reqwest::redirect;

/// A client builder with TLS by ring that returns redirects as responses.
pub fn client_builder() -> ClientBuilder {
    // The provider is process-wide, and reqwest panics without one. Ignore the error if the program has installed
    // another.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A redirect may lead to another host, which must not get credentials, or to a forbidden one.
    // `registry/transport.rs` checks each step.
    ClientBuilder::new().redirect(redirect::Policy::none())
}
