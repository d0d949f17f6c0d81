//! What is refused before anything is looked at: foreign hosts and origins, loops, compressed bodies.

use http::header::{CONTENT_ENCODING, HOST, ORIGIN};
use http::{HeaderMap, HeaderName};

use crate::fail::ApiError;
use crate::names;

/// More gateways than this one after the other are a loop, in bytes of their ids.
const LONGEST_HOPS: usize = 1024;
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Which `Host` values a listener answers to.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    names: Vec<String>,
    /// Bound to all addresses with no names configured: there is nothing to compare with.
    any: bool,
}

impl Hosts {
    pub(crate) fn new(listen: std::net::SocketAddr, configured: &[String]) -> Self {
        let any = listen.ip().is_unspecified() && configured.is_empty();
        let mut names: Vec<String> = LOOPBACK.iter().map(|n| (*n).to_owned()).collect();
        names.push(match listen.ip() {
            std::net::IpAddr::V4(ip) => ip.to_string(),
            std::net::IpAddr::V6(ip) => format!("[{ip}]"),
        });
        names.extend(configured.iter().map(|n| n.to_ascii_lowercase()));
        Self { names, any }
    }

    /// A web page must not reach a gateway on loopback: neither by a name that was rebound to it, nor from a foreign
    /// origin.
    pub(crate) fn check(&self, headers: &HeaderMap, authority: Option<&str>) -> Result<(), Box<ApiError>> {
        let host = authority.or_else(|| headers.get(HOST).and_then(|h| h.to_str().ok()));
        let Some(host) = host else {
            return Err(ApiError::foreign("the request has no usable Host header"));
        };
        if !self.knows(host) {
            return Err(ApiError::foreign(
                "the Host of the request is no name of this gateway: add it to server.hosts",
            ));
        }
        match headers.get(ORIGIN).map(|o| o.to_str().unwrap_or("")) {
            None => Ok(()),
            Some(origin) if origin.split_once("://").is_some_and(|(_, host)| self.knows_exactly(host)) => {
                Ok(())
            }
            Some(_) => Err(ApiError::foreign("requests from web pages of a foreign origin are refused")),
        }
    }

    fn knows(&self, host: &str) -> bool {
        self.any || self.knows_exactly(host)
    }

    fn knows_exactly(&self, host: &str) -> bool {
        let bare = without_port(host);
        self.names.iter().any(|name| name.eq_ignore_ascii_case(host) || name.eq_ignore_ascii_case(bare))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// A request that passed this very process before would go round for ever.
pub(crate) fn refuse_loops(headers: &HeaderMap, own: &str) -> Result<(), Box<ApiError>> {
    let all = headers.get_all(&names::HOP);
    // It goes on to the provider: a client must not grow what a provider then refuses.
    if all.iter().map(http::HeaderValue::len).sum::<usize>() > LONGEST_HOPS {
        return Err(ApiError::looped());
    }
    let passed = all.iter().filter_map(|v| v.to_str().ok());
    if passed.flat_map(|v| v.split(',')).any(|hop| hop.trim() == own) {
        return Err(ApiError::looped());
    }
    Ok(())
}

/// Headers that are passed on to providers may be so long, in bytes: one that a provider breaks the connection over would
/// be held against its target.
const LONGEST_PASSED_ON: usize = 4 * 1024;

/// Refuses what is too long to be passed on.
pub(crate) fn refuse_long_headers(
    headers: &HeaderMap,
    passed_on: &[HeaderName],
) -> Result<(), Box<ApiError>> {
    for name in passed_on {
        let length: usize = headers.get_all(name).iter().map(|value| value.len()).sum();
        if length > LONGEST_PASSED_ON {
            let message = format!("the header {name} is longer than {LONGEST_PASSED_ON} bytes");
            return Err(ApiError::bad_request(&message, None));
        }
    }
    Ok(())
}

/// Bodies are read as they are.
pub(crate) fn refuse_compressed(headers: &HeaderMap) -> Result<(), Box<ApiError>> {
    match headers.get(CONTENT_ENCODING).map(|v| v.as_bytes()) {
        None | Some(b"identity") => Ok(()),
        Some(_) => Err(ApiError::compressed()),
    }
}
