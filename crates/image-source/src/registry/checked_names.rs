//! Resolves hosts from a registry's answers once, so that the connection uses the addresses that were checked.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// A DNS resolver that returns the checked addresses for checked hosts. This defeats a name server that changes its
/// answer. Other names, such as the registry's or a proxy's, go to the system.
#[derive(Debug, Clone, Default)]
pub(super) struct CheckedNames(Arc<Mutex<BTreeMap<String, Vec<IpAddr>>>>);

impl CheckedNames {
    /// Stores the checked addresses of a host. Stores nothing if there are none; then only a proxy knows the host.
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
                // getaddrinfo(3) blocks, and must not block this client's other connections.
                None => tokio::task::spawn_blocking(move || resolve_host(&host)).await??,
            };
            // Port 0 stands for the URL's port.
            Ok(Box::new(addresses.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs)
        })
    }
}

/// Resolves a name through the system.
///
/// Errors: The name has no address, or resolution failed.
pub(super) fn resolve_host(host: &str) -> io::Result<Vec<IpAddr>> {
    let addresses = (host, 0).to_socket_addrs()?;
    Ok(addresses.map(|address| address.ip()).collect())
}
