//! The addresses of hosts that a registry names, resolved once: what was checked is what is connected to.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// A resolver that answers for a host that was checked with the addresses that were, so that a name server that changes its
/// mind leads nowhere else. All other names (the registry's own, that of a proxy) it asks the system for.
#[derive(Debug, Clone, Default)]
pub(super) struct CheckedNames(Arc<Mutex<BTreeMap<String, Vec<IpAddr>>>>);

impl CheckedNames {
    /// Keeps what was checked of a host. Nothing is kept where it has no address here: only a proxy knows it then.
    pub(super) fn keep(&self, host: &str, addresses: Vec<IpAddr>) {
        if !addresses.is_empty() {
            let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            names.insert(host.to_ascii_lowercase(), addresses);
        }
    }

    fn kept(&self, host: &str) -> Option<Vec<IpAddr>> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(&host.to_ascii_lowercase()).cloned()
    }
}

impl Resolve for CheckedNames {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let kept = self.kept(&host);
        Box::pin(async move {
            let addresses = match kept {
                Some(addresses) => addresses,
                // getaddrinfo(3) waits, and the other connections of this client must not.
                None => tokio::task::spawn_blocking(move || resolve_host(&host)).await??,
            };
            // Port 0 stands for that of the URL.
            let addresses = addresses.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

/// The addresses of a name as the system gives them.
///
/// Errors: It has none, or who knows cannot be asked.
pub(super) fn resolve_host(host: &str) -> io::Result<Vec<IpAddr>> {
    let addresses = (host, 0).to_socket_addrs()?;
    Ok(addresses.map(|address| address.ip()).collect())
}
