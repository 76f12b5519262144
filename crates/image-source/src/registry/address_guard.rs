//! Decides which addresses in a registry's answers may be contacted.
//!
//! A redirect or a token realm is text from the registry. It may name a cloud's metadata service or a service on this
//! machine. Such addresses are refused unless the user's registry itself is there. A step from TLS down to plain HTTP
//! is refused too. The connection goes to exactly the addresses that were checked (`checked_names.rs`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// Whether `host`, without port, is this machine: `localhost`, 127.0.0.0/8 or `::1`.
pub(super) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || literal(host).is_some_and(|ip| ip.is_loopback())
}

/// Whether plain HTTP is allowed: on this machine, or for a host that the user listed as insecure.
pub(super) fn allows_plain(host: &str, port: Option<u16>, insecure: &[String]) -> bool {
    is_loopback(host) || is_listed(host, port, insecure)
}

/// Whether the user listed `host` as insecure. An entry is `HOST:PORT`, or `HOST` for all ports.
pub(super) fn is_listed(host: &str, port: Option<u16>, insecure: &[String]) -> bool {
    let with_port = port.map(|port| format!("{host}:{port}"));
    insecure.iter().any(|entry| {
        let entry = entry
            .trim_start_matches("http://")
            .trim_start_matches("https://")
            .trim_end_matches('/');
        entry.eq_ignore_ascii_case(host)
            || with_port
                .as_ref()
                .is_some_and(|with_port| entry.eq_ignore_ascii_case(with_port))
    })
}

/// Checks an address `to` in an answer from `from`; `registry` is the host that the user chose. Returns the addresses
/// that `resolve` gave, if it was called.
///
/// Errors: Why the address is refused; the text names it without its query.
pub(super) fn check_address(
    registry: &str,
    from: &Url,
    to: &Url,
    insecure: &[String],
    resolve: impl Fn(&str) -> Vec<IpAddr>,
) -> Result<Vec<IpAddr>, String> {
    let host = to.host_str().unwrap_or_default();
    let place = || format!("{}://{}", to.scheme(), url_authority(to));
    let near = is_loopback(registry);
    match (from.scheme(), to.scheme()) {
        (_, "https") => {}
        ("http", "http") if allows_plain(host, to.port_or_known_default(), insecure) => {}
        // An address that is refused anyway gets no hint about allowing it.
        ("http", "http") if let Some(kind) = literal(host).and_then(|ip| kind(ip, near)) => {
            return Err(format!("{} is {kind}", place()));
        }
        ("http", "http") => {
            return Err(format!(
                "{} is plain HTTP; --insecure-registry {} allows it",
                place(),
                url_authority(to)
            ));
        }
        (_, "http") => return Err(format!("{} leaves TLS for plain HTTP", place())),
        _ => return Err(format!("{} is not HTTP", place())),
    }
    // The user chose this host, so all its ports are allowed.
    if host.eq_ignore_ascii_case(registry) {
        return Ok(Vec::new());
    }
    // Checked by name: behind a proxy it resolves only at the proxy.
    if host.eq_ignore_ascii_case("metadata.google.internal") {
        return Err(format!("{} is a cloud's metadata service", place()));
    }
    let addresses = match literal(host) {
        Some(ip) => vec![ip],
        // This name is always this machine, whatever a name server says (RFC 6761, section 6.3).
        None if is_loopback(host) => vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        None => resolve(host),
    };
    // One bad address is enough: a hostile name may have several, and the connection may use any.
    match addresses.iter().find_map(|&ip| kind(ip, near)) {
        Some(kind) => Err(format!("{} is {kind}", place())),
        None => Ok(addresses),
    }
}

/// Host and port of a URL, as in a reference.
pub(super) fn url_authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// What is wrong with an address; `near` if the registry itself is on this machine.
fn kind(ip: IpAddr, near: bool) -> Option<&'static str> {
    // `::ffff:169.254.169.254` reaches the same host as its IPv4 form.
    let ip = embedded(ip.to_canonical());
    let (unspecified, link_local) = match ip {
        IpAddr::V4(ip) => (
            // All of 0.0.0.0/8 (RFC 1122, section 3.2.1.3): Linux connects 0.0.0.0 to itself.
            ip.octets()[0] == 0,
            ip.is_link_local() || METADATA_V4.contains(&ip),
        ),
        IpAddr::V6(ip) => (ip.is_unspecified(), ip.is_unicast_link_local() || ip == METADATA_V6),
    };
    // Private networks are allowed: company registries redirect to internal storage.
    if unspecified {
        Some("an unspecified address")
    } else if link_local {
        Some("a link-local or metadata address")
    } else if ip.is_loopback() && !near {
        Some("a loopback address, and the registry is not on this machine")
    } else {
        None
    }
}

/// Metadata services without a link-local address: Alibaba Cloud, Azure's wire server, Oracle's.
const METADATA_V4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// The IPv4 address inside an IPv6 one: NAT64 (RFC 6052, section 2.1), 6to4 (RFC 3056, section 2), and IPv4-compatible
/// (RFC 4291, section 2.5.5.1).
fn embedded(ip: IpAddr) -> IpAddr {
    let IpAddr::V6(whole) = ip else { return ip };
    let v4 = |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match whole.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => v4(high, low),
        // Excludes `::` and `::1`.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => v4(high, low),
        _ => ip,
    }
}

/// EC2's metadata service over IPv6.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// The IP address in a host, with or without a URL's brackets.
fn literal(host: &str) -> Option<IpAddr> {
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use reqwest::Url;

    use super::{allows_plain, check_address, is_listed};

    fn verdict(registry: &str, from: &str, to: &str) -> String {
        let resolve = |host: &str| -> Vec<IpAddr> {
            match host {
                "rebound.example" => vec!["1.2.3.4".parse().unwrap(), "127.0.0.1".parse().unwrap()],
                "storage.example" => vec!["203.0.113.9".parse().unwrap()],
                _ => Vec::new(),
            }
        };
        let url = |text| Url::parse(text).unwrap();
        match check_address(registry, &url(from), &url(to), &["plain.lan:80".to_owned()], resolve) {
            Ok(_) => "asked".to_owned(),
            Err(why) => why,
        }
    }

    #[test]
    fn a_remote_registry_may_name_only_remote_addresses() {
        let from = "https://registry.example/v2/";
        for (to, expected) in [
            ("https://storage.example/x?signature=s", "asked"),
            ("https://203.0.113.9/x", "asked"),
            ("https://10.0.0.1/x", "asked"),
            ("https://unknown.example/", "asked"),
            ("https://registry.example:8443/", "asked"),
            (
                "https://169.254.169.254/latest?x=secret",
                "https://169.254.169.254 is a link-local or metadata address",
            ),
            (
                "https://[fe80::1]/",
                "https://[fe80::1] is a link-local or metadata address",
            ),
            (
                "https://[::ffff:169.254.169.254]/",
                "https://[::ffff:a9fe:a9fe] is a link-local or metadata address",
            ),
            (
                "https://[fd00:ec2::254]/",
                "https://[fd00:ec2::254] is a link-local or metadata address",
            ),
            (
                "https://[64:ff9b::a9fe:a9fe]/",
                "https://[64:ff9b::a9fe:a9fe] is a link-local or metadata address",
            ),
            (
                "https://[2002:a9fe:a9fe::]/",
                "https://[2002:a9fe:a9fe::] is a link-local or metadata address",
            ),
            (
                "https://192.0.0.192/",
                "https://192.0.0.192 is a link-local or metadata address",
            ),
            (
                "https://100.100.100.200/",
                "https://100.100.100.200 is a link-local or metadata address",
            ),
            (
                "https://0.0.0.0:8080/",
                "https://0.0.0.0:8080 is an unspecified address",
            ),
            ("https://[::]/", "https://[::] is an unspecified address"),
            (
                "https://2130706433/",
                "https://127.0.0.1 is a loopback address, and the registry is not on this machine",
            ),
            (
                "https://localhost/",
                "https://localhost is a loopback address, and the registry is not on this machine",
            ),
            (
                "https://rebound.example/",
                "https://rebound.example is a loopback address, and the registry is not on this machine",
            ),
            (
                "https://metadata.google.internal/",
                "https://metadata.google.internal is a cloud's metadata service",
            ),
            (
                "http://storage.example/",
                "http://storage.example leaves TLS for plain HTTP",
            ),
            ("http://plain.lan/", "http://plain.lan leaves TLS for plain HTTP"),
            ("ftp://storage.example/", "ftp://storage.example is not HTTP"),
        ] {
            assert_eq!(verdict("registry.example", from, to), expected, "{to}");
        }
    }

    #[test]
    fn a_registry_on_this_machine_may_name_its_neighbours() {
        let from = "http://127.0.0.1:5000/v2/";
        for (to, expected) in [
            ("http://localhost:9000/x", "asked"),
            ("https://storage.example/x", "asked"),
            ("http://plain.lan/x", "asked"),
            (
                "http://storage.example/x",
                "http://storage.example is plain HTTP; --insecure-registry storage.example allows it",
            ),
            (
                "http://169.254.169.254/",
                "http://169.254.169.254 is a link-local or metadata address",
            ),
            (
                "https://169.254.169.254/",
                "https://169.254.169.254 is a link-local or metadata address",
            ),
        ] {
            assert_eq!(verdict("127.0.0.1", from, to), expected, "{to}");
        }
        assert_eq!(
            verdict("169.254.1.1", "https://169.254.1.1/", "https://169.254.1.1/x"),
            "asked"
        );
    }

    #[test]
    fn plain_http_is_for_this_machine_and_for_hosts_the_user_named() {
        let insecure = ["lab.example:5000".to_owned(), "https://old.example/".to_owned()];
        for (host, port, expected) in [
            ("localhost", Some(5000), true),
            ("127.8.8.8", None, true),
            ("[::1]", None, true),
            ("LAB.example", Some(5000), true),
            ("old.example", Some(5001), true),
            ("lab.example", Some(5001), false),
            ("lab.example", None, false),
            ("evil-old.example", None, false),
            ("localhost.example", None, false),
            ("128.0.0.1", None, false),
        ] {
            assert_eq!(allows_plain(host, port, &insecure), expected, "{host}");
        }
        assert!(!is_listed("localhost", None, &insecure));
    }
}
