//! What a user may choose of how registries are spoken to.

use std::path::PathBuf;

use super::credential_files::CredentialSource;
use super::retry::RetryPolicy;

/// How a registry is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RegistryOptions {
    /// Hosts, as `HOST` or `HOST:PORT`, that may be asked by plain HTTP and whose certificate is not checked.
    /// This machine may be asked by plain HTTP without being named.
    pub insecure: Vec<String>,
    /// A PEM file of certificates that are trusted besides the system's.
    pub ca_cert: Option<PathBuf>,
    /// Where credentials are looked up, once the registry asks for them.
    pub credentials: CredentialSource,
    /// The hosts, as `HOST` or `HOST:PORT`, that may be the registry's token server, beside the registry itself; with
    /// none, each that it names may be.
    pub token_servers: Vec<String>,
    /// How long and how often to try.
    pub patience: RetryPolicy,
    /// What requests say of the program that makes them (RFC 9110, section 10.1.5).
    pub user_agent: String,
}
