//! The user's options for registry access.

use std::path::PathBuf;

use super::credential_files::CredentialSource;
use super::retry::RetryPolicy;

/// How to access registries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RegistryOptions {
    /// Hosts, as `HOST` or `HOST:PORT`, that may use plain HTTP and whose certificate is not checked. This machine may
    /// always use plain HTTP.
    pub insecure: Vec<String>,
    /// A PEM file of certificates to trust in addition to the system's.
    pub ca_cert: Option<PathBuf>,
    /// Where to look for credentials when the registry requires them.
    pub credentials: CredentialSource,
    /// The hosts, as `HOST` or `HOST:PORT`, that are allowed as token servers besides the registry itself; empty allows
    /// any.
    pub token_servers: Vec<String>,
    /// The limits on retries and waits.
    pub patience: RetryPolicy,
    /// The `User-Agent` of requests (RFC 9110, section 10.1.5).
    pub user_agent: String,
}
