//! What all images of one registry share in a process: connections, certificates, scheme and tokens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::token_exchange::RequestAuthorization;
use super::transport::{HttpTransport, RegistryOptions};

/// The sessions of this process. Global, because each image has its own client: reading the system's certificates takes
/// longer than asking for a manifest.
static SESSIONS: Mutex<Vec<(RegistryOptions, Arc<RegistrySession>)>> = Mutex::new(Vec::new());

/// An authorization, locked while a new one is requested.
pub(super) type HeldAuthorization = Arc<Mutex<Option<RequestAuthorization>>>;

/// The connections to one registry, with what its answers showed.
pub(super) struct RegistrySession {
    pub(super) transport: HttpTransport,
    /// Whether the registry turned out to use plain HTTP; empty before its first answer.
    pub(super) plain: OnceLock<bool>,
    /// The host to contact, with port.
    pub(super) address: String,
    authorizations: Mutex<BTreeMap<Vec<String>, HeldAuthorization>>,
}

impl RegistrySession {
    /// The session with `address`, a host with an optional port, of which `host` is the part without the port.
    pub(super) fn shared(address: &str, host: &str, options: &RegistryOptions) -> Arc<Self> {
        let mut sessions = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sessions
            .iter()
            .find(|(of, session)| session.address == address && of == options);
        if let Some((_, session)) = known {
            return Arc::clone(session);
        }
        let session = Arc::new(Self {
            transport: HttpTransport::new(host.to_owned(), options),
            plain: OnceLock::new(),
            address: address.to_owned(),
            authorizations: Mutex::default(),
        });
        sessions.push((options.clone(), Arc::clone(&session)));
        session
    }

    /// The authorization for `scopes`. It answered the last challenge for them; empty before the first.
    pub(super) fn authorization(&self, scopes: &[String]) -> HeldAuthorization {
        let mut all = self.authorizations.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(scopes.to_vec()).or_default())
    }
}
