//! Reads the headers in which proxies name their clients: `X-Forwarded-For`, and `Forwarded` of RFC 7239.
//!
//! An entry can have a port, and an IPv6 address can have brackets: `192.0.2.1:4711`, `[2001:db8::1]:4711`.
//! Each proxy appends an entry, so only the entries that trusted proxies have appended are reliable.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, header};

/// The header that the trusted proxies set. Only one header is read, because a client can send the other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyHeader {
    /// `X-Forwarded-For`, which most proxies set.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

impl ProxyHeader {
    fn name(self) -> HeaderName {
        match self {
            ProxyHeader::XForwardedFor => HeaderName::from_static("x-forwarded-for"),
            ProxyHeader::Forwarded => header::FORWARDED,
        }
    }

    /// Returns the addresses of a header's value, in the order of the proxies. An entry without an address,
    /// such as `unknown`, gives `None`.
    fn addresses(self, value: &str) -> Vec<Option<IpAddr>> {
        match self {
            ProxyHeader::XForwardedFor => value.split(',').map(|entry| address(entry.trim())).collect(),
            ProxyHeader::Forwarded => split_unquoted(value, ',').into_iter().map(for_address).collect(),
        }
    }
}

/// Returns the address of the client: the last entry that is not a trusted proxy itself. Returns `peer` if the
/// request does not come from a trusted proxy, or if the proxy does not name the client's address.
pub fn client(peer: IpAddr, proxies: &[IpAddr], header: ProxyHeader, headers: &HeaderMap) -> IpAddr {
    let is_trusted = |address: IpAddr| proxies.contains(&address.to_canonical());
    if !is_trusted(peer) {
        return peer;
    }
    let values = headers.get_all(header.name());
    let entries: Vec<Option<IpAddr>> = values
        .iter()
        .flat_map(|value| value.to_str().map_or_else(|_| vec![None], |text| header.addresses(text)))
        .collect();
    let mut nearest = peer;
    for entry in entries.into_iter().rev() {
        let Some(address) = entry else { return nearest };
        nearest = address;
        if !is_trusted(address) {
            break;
        }
    }
    nearest
}

/// Parses an address with or without brackets, and with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim_matches('"');
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address.ip());
    }
    text.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// Returns the address of the parameter `for` of an element of `Forwarded`.
fn for_address(element: &str) -> Option<IpAddr> {
    split_unquoted(element, ';').into_iter().find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| address(value.trim()))?
    })
}

/// Splits a text at a separator outside quotation marks.
fn split_unquoted(text: &str, separator: char) -> Vec<&str> {
    let mut quoted = false;
    text.split(|letter: char| {
        quoted ^= letter == '"';
        letter == separator && !quoted
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXIES: [&str; 2] = ["127.0.0.1", "2001:db8:ffff::1"];

    fn of(header: ProxyHeader, peer: &str, values: &[&str]) -> String {
        let proxies: Vec<IpAddr> = PROXIES.iter().map(|proxy| proxy.parse().unwrap()).collect();
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header.name(), value.parse().unwrap());
        }
        client(peer.parse().unwrap(), &proxies, header, &headers).to_string()
    }

    #[test]
    fn the_last_address_that_is_no_proxy_is_the_client() {
        for (values, expected) in [
            (&["192.0.2.1"][..], "192.0.2.1"),
            (&["192.0.2.1:4711"], "192.0.2.1"),
            (&["2001:db8::1"], "2001:db8::1"),
            (&["[2001:db8::1]"], "2001:db8::1"),
            (&["[2001:db8::1]:4711"], "2001:db8::1"),
            (&["198.51.100.1, 192.0.2.1:80"], "192.0.2.1"),
            (&["198.51.100.1", "192.0.2.1"], "192.0.2.1"),
            (&["192.0.2.1, [2001:db8:ffff::1]:443"], "192.0.2.1"),
            (&["2001:db8:ffff::1"], "2001:db8:ffff::1"),
            (&["192.0.2.1, unknown"], "127.0.0.1"),
            (&["192.0.2.1:port"], "127.0.0.1"),
            (&[""], "127.0.0.1"),
            (&[], "127.0.0.1"),
        ] {
            assert_eq!(of(ProxyHeader::XForwardedFor, "127.0.0.1", values), expected, "{values:?}");
        }
        // Without a trusted proxy, anyone could send the header.
        assert_eq!(of(ProxyHeader::XForwardedFor, "192.0.2.9", &["192.0.2.1"]), "192.0.2.9");
        assert_eq!(of(ProxyHeader::XForwardedFor, "::ffff:127.0.0.1", &["192.0.2.1"]), "192.0.2.1");
    }

    #[test]
    fn the_standard_header_is_read_too() {
        for (value, expected) in [
            ("for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"),
            ("for=192.0.2.43, for=198.51.100.17", "198.51.100.17"),
            ("For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"),
            ("for=192.0.2.43;x=\"a,b\"", "192.0.2.43"),
            ("for=\"_hidden\"", "127.0.0.1"),
            ("proto=http", "127.0.0.1"),
        ] {
            assert_eq!(of(ProxyHeader::Forwarded, "127.0.0.1", &[value]), expected, "{value}");
        }
    }
}
